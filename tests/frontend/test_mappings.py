"""Map nodes to one custom operator: the new nodes, equal results, and the nodes that are not mapped."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opforge.frontend import convert
from opforge.frontend.run.execute import execute

DOMAINS = ("com.microsoft", "org.pytorch.aten", "npu", "opforge")


def parse(text, opset=18, initializers=()):
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in DOMAINS)])
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in initializers)
    return model


def same(model, feed, *, runtime=True, tolerance=1e-4, **options):
    """Convert; the result computes the same as the source, in onnx's evaluator and in onnxruntime."""
    conversion = convert(model, **options)
    assert conversion.changed
    result = conversion.model
    onnx.checker.check_model(result)
    expected = execute(model, feed, operators="function")
    got = execute(result, feed, operators="function")
    evaluated = onnx.reference.ReferenceEvaluator(result).run(None, feed)
    session = onnxruntime.InferenceSession(result.SerializeToString()).run(None, feed) if runtime else evaluated
    for n, name in enumerate(expected):
        for array in (got[name], evaluated[n], session[n]):
            assert array.dtype == expected[name].dtype
            np.testing.assert_allclose(
                np.float64(array), np.float64(expected[name]), rtol=tolerance, atol=tolerance, err_msg=name
            )
    return conversion


def reason(model, words, **options):
    conversion = convert(model, **options)
    assert not conversion.changed
    assert conversion.mapped == []
    (left,) = conversion.left
    assert all(word in left.reason for word in words), left.reason


# Embedding.

EMBEDDING = "(float[4, 3, 5] g, int64[4, 3] i) => (float[7, 5] y)"
SCALARS = [("n", 7), ("p", 2), ("s", False), ("z", False)]


@pytest.fixture
def embedding_feed(rng):
    return {"g": rng.normal(size=(4, 3, 5)).astype(np.float32), "i": rng.integers(0, 7, (4, 3))}


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        "org.pytorch.aten.embedding_dense_backward (g, i, n, p, s)",
        'org.pytorch.aten.ATen <operator = "embedding_dense_backward", overload_name = ""> (g, i, n, p, s)',
        'org.pytorch.aten.ATen <operator = "embedding_backward"> (g, i, n, p, s, z)',
    ],
)
def test_aten_embedding(call, scaled, embedding_feed):
    model = parse(f"{EMBEDDING} {{[e] y = {call}}}", initializers=[*SCALARS[:2], ("s", scaled), ("z", False)])
    (entry,) = same(model, embedding_feed).mapped
    assert (entry.op, entry.node) == ("EmbeddingDenseBackward", "e")
    assert entry.attrs == {"num_weights": 7, "padding_idx": 2, "scale_grad_by_freq": scaled}


def test_scalars_of_onnxruntime_training(embedding_feed):
    model = parse(
        "(float[4, 3, 5] g, int64[4, 3] i, float[7, 5] W) => (float[7, 5] y) {"
        "f = Constant <value = int64[1] {0}> () s = Shape (W) n = Gather (s, f) p = Constant <value = int64[1] {2}> ()"
        'y = org.pytorch.aten.ATen <operator = "embedding_backward"> (g, i, n, p, z, z)}',
        initializers=[("z", [False])],
    )
    conversion = same(model, embedding_feed | {"W": np.zeros((7, 5), np.float32)})
    assert [node.op_type for node in conversion.model.graph.node] == ["EmbeddingDenseBackward"]
    assert not conversion.model.graph.initializer


@pytest.mark.parametrize("word", ["value = int64 {{{}}}", "value_int = {}"])
def test_constants_from_outside_a_branch(word, embedding_feed):
    branch = onnx.parser.parse_graph(
        "b () => (float[7, 5] t) {t = org.pytorch.aten.embedding_dense_backward (g, i, n, p, s)}"
    )
    model = parse(
        EMBEDDING.replace("(float[4", "(bool c, float[4")
        + f" {{n = Constant <{word.format(7)}> () p = Constant <{word.format(-1)}> ()}}",
        initializers=SCALARS[2:3],
    )
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    conversion = same(model, embedding_feed | {"c": np.array(True)})
    assert len(conversion.mapped) == 2
    assert [node.op_type for node in conversion.model.graph.node] == ["If"]


def test_shared_scalar_is_kept_while_it_has_readers(embedding_feed):
    model = parse(
        EMBEDDING.replace("y)", "y, bool[4, 3] k)")
        + " {y = org.pytorch.aten.embedding_dense_backward (g, i, n, p, s) e = Equal (i, i) k = Or (s, e)}",
        initializers=SCALARS[:3],
    )
    assert [tensor.name for tensor in same(model, embedding_feed).model.graph.initializer] == ["s"]


@pytest.mark.parametrize(
    ("call", "scalars", "words"),
    [
        ("embedding_dense_backward (g, i, n, p)", SCALARS[:2], ["4 inputs", "num_weights"]),
        ("embedding_dense_backward (g, i, n, p, s)", [("n", 7), ("p", 2), ("s", 0.5)], ["got 0.5, expected bool"]),
        ("embedding_dense_backward (g, i, n, p, s)", [("n", [7, 8]), *SCALARS[1:3]], ["num_weights", "[2]"]),
        ("embedding_backward (g, i, n, p, s, z)", [*SCALARS[:3], ("z", True)], ["sparse is True, expected False"]),
        ('ATen <operator = "embedding_dense_backward", overload_name = "out"> (g, i, n, p, s)', SCALARS[:3], ["'out'"]),
    ],
)
def test_aten_embedding_is_not_mapped(call, scalars, words):
    reason(parse(f"{EMBEDDING} {{y = org.pytorch.aten.{call}}}", initializers=scalars), words)


def test_scalar_that_is_an_input_is_not_mapped():
    model = parse(
        "(float[4, 3, 5] g, int64[4, 3] i, int64 n) => (float[N, 5] y)"
        " {y = org.pytorch.aten.embedding_dense_backward (g, i, n, p, s)}",
        initializers=SCALARS[1:3],
    )
    reason(model, ["num_weights must be constant", "'n' is an input"])


def test_forward_embedding_is_not_mapped():
    conversion = convert(
        parse(
            '(float[7, 5] w, int64[3] i) => (float[3, 5] y) {y = org.pytorch.aten.ATen <operator="embedding"> (w, i)}'
        )
    )
    assert (conversion.mapped, conversion.left, conversion.changed) == ([], [], False)


GATHER = "(float[7, 5] W, int64[4, 3] i, float[4, 3, 5] g) => (float[7, 5] y)"


@pytest.mark.parametrize("axis", [0, -2])
def test_gather_grad(axis, embedding_feed):
    call = f"com.microsoft.GatherGrad <axis = {axis}> (s, i, g)"
    model = parse(f"{GATHER} {{s = Shape (W) y = {call}}}")
    (entry,) = same(model, embedding_feed | {"W": np.zeros((7, 5), np.float32)}).mapped
    assert entry.attrs == {"num_weights": 7, "padding_idx": -1, "scale_grad_by_freq": False}


def test_two_gathers_share_a_shape():
    model = parse(
        "(int64[3] i, float[3, 12] g, int64[5] j, float[12, 5] h) => (float[12, 12] y, float[12, 12] z)"
        " {s = Constant <value = int64[2] {12, 12}> () y = com.microsoft.GatherGrad <axis = 0> (s, i, g)"
        " z = com.microsoft.GatherGrad <axis = 1> (s, j, h)}"
    )
    conversion = convert(model)
    assert [node.op_type for node in conversion.model.graph.node] == [
        "Constant",
        "EmbeddingDenseBackward",
        "GatherGrad",
    ]
    (left,) = conversion.left
    assert left.reason == "axis is 1, expected 0"


def test_undeclared_gradient_type_comes_from_the_table():
    model = parse(
        "(float16[7, 5] W, int64[4] i, h) => (y) {s = Shape (W) g = com.microsoft.FooGrad (h)"
        " t = com.microsoft.GatherGrad (s, i, g) y = com.microsoft.Bar (t)}"
    )
    (info,) = convert(model).model.graph.value_info
    assert (info.name, info.type.tensor_type.elem_type) == ("t", TensorProto.FLOAT16)


@pytest.mark.parametrize(
    ("text", "values", "words"),
    [
        ("(int64[2] s, int64[4] i, float[4, 5] g) => (y) {y = com.microsoft.GatherGrad (s, i, g)}", [], ["an input"]),
        (
            "(int64[4] i, float[4, 3, 5] g) => (y) {y = com.microsoft.GatherGrad (s, i, g)}",
            [("s", [7, 3, 5])],
            ["3 dims [7, 3, 5]"],
        ),
        (
            "(float[2, 5] g) => (y) {y = com.microsoft.GatherGrad (s, i, g)}",
            [("s", [7, 5]), ("i", [-1, 3])],
            ["from -1 to 3", "0 to 6"],
        ),
        (
            "(int64[4] i, double[4, 5] g) => (y) {y = com.microsoft.GatherGrad (s, i, g)}",
            [("s", [7, 5])],
            ["float64", "[C2]"],
        ),
        (
            "(int64[4] i, h) => (y) {g = com.microsoft.Foo (h) y = com.microsoft.GatherGrad (s, i, g)}",
            [("s", [7, 5])],
            ["element type"],
        ),
    ],
)
def test_gather_grad_is_not_mapped(text, values, words):
    reason(parse(text, initializers=values), words)


def test_the_name_of_the_graph_operator(embedding_feed):
    model = parse(f"{EMBEDDING} {{y = npu.NPUEmbeddingDenseGrad <num_weights = 7> (g, i)}}")
    assert same(model, embedding_feed).mapped[0].attrs["padding_idx"] == -1


# Batch normalization.


def batch_norm(word="float", weight="w", count=True, call="org.pytorch.aten.batch_norm_backward_elemt "):
    vectors = "float[5] m, float[5] s, float[5] w, float[5] a, float[5] b"
    return parse(
        f"({word}[3, 5, 2, 2] g, {word}[3, 5, 2, 2] x, {vectors}, int32[2, 1] c) => ({word}[3, 5, 2, 2] y)"
        f" {{y = {call}(g, x, m, s, {weight or chr(34) * 2}, a, b{', c' if count else ''})}}"
    )


@pytest.fixture
def batch_norm_feed(rng):
    feed = {name: rng.normal(size=(3, 5, 2, 2)).astype(np.float32) for name in "gx"}
    feed |= {name: rng.uniform(0.5, 2, 5).astype(np.float32) for name in "mswab"}
    return feed | {"c": np.array([[7], [9]], np.int32)}


@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize("weight", ["w", ""])
@pytest.mark.parametrize(
    "call",
    [
        "org.pytorch.aten.batch_norm_backward_elemt ",
        'org.pytorch.aten.ATen <operator = "batch_norm_backward_elemt"> ',
    ],
)
def test_aten_batch_norm(call, weight, count, batch_norm_feed):
    conversion = same(batch_norm(weight=weight, count=count, call=call), batch_norm_feed)
    (entry,) = conversion.mapped
    assert entry.op == "BatchNormElemtBackward"
    # The old schema has means: a count of one, never a division.
    assert [node.op_type for node in conversion.model.graph.node] == ["Constant"] * (not count) + [entry.op]


def test_float16_data_keeps_its_type_with_float_statistics(batch_norm_feed):
    feed = batch_norm_feed | {name: batch_norm_feed[name].astype(np.float16) for name in "gx"}
    same(batch_norm("float16"), feed, tolerance=5e-3)


def test_half_statistics_are_not_mapped():
    model = batch_norm("float16")
    for value in model.graph.input[2:7]:
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    reason(model, ["mean: got float16, expected float32", "[C2]"])


# Convolution over time.

CONV = "(float[6, 2, 4] g, float[6, 2, 3] x, float[3, 3, 4] w, float[4] b) => ({})"
ALL_THREE = "float[6, 2, 3] dx, float[3, 3, 4] dw, float[4] db"


@pytest.fixture
def conv_feed(rng):
    shapes = {"g": (6, 2, 4), "x": (6, 2, 3), "w": (3, 3, 4), "b": (4,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    "call",
    [
        "org.pytorch.aten.conv_tbc_backward (g, x, w, b, pad)",
        'org.pytorch.aten.ATen <operator = "conv_tbc_backward"> (g, x, w, b, pad)',
    ],
)
def test_aten_conv_tbc(call, conv_feed):
    model = parse(CONV.format(ALL_THREE) + f" {{dx, dw, db = {call}}}", initializers=[("pad", 1)])
    assert same(model, conv_feed).mapped[0].attrs == {"pad": 1, "cube_math_type": 0}


def test_unused_outputs_get_names(conv_feed):
    model = parse(
        CONV.format("float[6, 2, 3] dx, float[4] db")
        + ' {dx, "", db = org.pytorch.aten.conv_tbc_backward (g, x, w, b, pad)}',
        initializers=[("pad", 1)],
    )
    (node,) = same(model, conv_feed).model.graph.node
    assert len({*node.output, ""}) == 4


def test_the_custom_node_needs_no_cube_math_type(conv_feed):
    model = parse(CONV.format(ALL_THREE) + " {dx, dw, db = npu.NPUConvTbcBackward <pad = 1> (g, x, w, b)}")
    conversion = convert(model)
    assert conversion.mapped[0].attrs["cube_math_type"] == 0
    onnxruntime.InferenceSession(conversion.model.SerializeToString()).run(None, conv_feed)


# Compression of native sparse attention.

NSA = "(float16[8, 2, 16] g, float16[300, 2, 16] x, float16[64, 2] w) => (float16[300, 2, 16] dx, float16[64, 2] dw)"
NSA_SCALARS = [("block", 64), ("stride", 16)]
ENDS = ("ends", [0, 100, 100, 160, 300])


@pytest.fixture
def nsa_feed(rng):
    shapes = {"g": (8, 2, 16), "x": (300, 2, 16), "w": (64, 2)}
    return {name: rng.normal(size=shape).astype(np.float16) for name, shape in shapes.items()}


def test_the_nsa_function(nsa_feed):
    model = parse(
        f"{NSA} {{dx, dw = npu.npu_nsa_compress_grad (g, x, w, block, stride, ends)}}",
        initializers=[*NSA_SCALARS, ENDS],
    )
    conversion = same(model, nsa_feed, runtime=False, tolerance=4e-3)
    assert conversion.mapped[0].attrs == {
        "compress_block_size": 64,
        "compress_stride": 16,
        "act_seq_len_type": 0,
        "layout": "TND",
    }
    assert [tensor.name for tensor in conversion.model.graph.initializer] == ["ends"]


# One sequence of 300 rows, and two of 150.
@pytest.mark.parametrize("windows", [15, 12])
def test_without_lengths_sequences_are_equal(rng, windows):
    text = NSA.replace("[8, 2", f"[{windows}, 2")
    for call in ("(g, x, w, block, stride)", '(g, x, w, block, stride, "")'):
        model = parse(f"{text} {{dx, dw = npu.npu_nsa_compress_grad {call}}}", initializers=NSA_SCALARS)
        shapes = {"g": (windows, 2, 16), "x": (300, 2, 16), "w": (64, 2)}
        feed = {name: rng.normal(size=shape).astype(np.float16) for name, shape in shapes.items()}
        same(model, feed, runtime=False, tolerance=4e-3)


@pytest.mark.parametrize(
    "names",
    [
        "compressBlockSize compressStride actSeqLenType layoutOptional",
        "compress_block_size compress_stride act_seq_len_type layout",
    ],
)
def test_the_custom_nsa_node(names):
    block, stride, kind, layout = names.split()
    attrs = f'{block} = 64, {stride} = 16, {kind} = 0, {layout} = "TND"'
    model = parse(f"{NSA} {{dx, dw = npu.NPUNsaCompressGrad <{attrs}> (g, x, w, ends)}}", initializers=[ENDS])
    assert convert(model).mapped[0].attrs["compress_stride"] == 16


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ends": [100, 160, 299]}, ["[100, 160, 299]", "[C14]"]),
        ({"ends": [100, 90, 300]}, ["non-decreasing ends", "[C12]"]),
        ({"ends": [300]}, ["output_grad", "one row for each window", "[C17]"]),
        ({"stride": 8}, ["compress_stride: got 8", "[C8]"]),
        ({"block": 16}, ["[C4]"]),
    ],
)
def test_nsa_node_that_violates_a_constraint_is_not_mapped(change, words):
    values = dict([*NSA_SCALARS, ENDS]) | change
    model = parse(
        f"{NSA} {{dx, dw = npu.npu_nsa_compress_grad (g, x, w, block, stride, ends)}}", initializers=values.items()
    )
    reason(model, words)


def test_lengths_that_are_an_input_are_not_mapped():
    text = NSA.replace(") =>", ", int64[5] ends) =>")
    reason(
        parse(
            f"{text} {{dx, dw = npu.npu_nsa_compress_grad (g, x, w, block, stride, ends)}}", initializers=NSA_SCALARS
        ),
        ["act_seq_len", "on the host", "'ends' is an input"],
    )


def test_a_local_function_of_that_name_decides():
    model = parse("(float[2] x) => (float[2] y) {y = com.microsoft.GatherGrad (x, x, x)}")
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["" : 18], domain: "com.microsoft"> GatherGrad (a, b, c) => (d) {d = Identity (a)}'
        )
    )
    reason(model, ["local function"])
