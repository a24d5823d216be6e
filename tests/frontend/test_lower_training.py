"""Test gradient nodes of onnxruntime with `--lower-training`."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from training_nodes import NODES, OPTIMIZERS, UPDATES, node_feed, node_model

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.run.execute import execute
from opforge.frontend.run.verify import verify


def parse(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g {text}')


def same(model, feed):
    """Convert; the result has only standard nodes and computes the same as the source."""
    conversion = convert(model, lower_training=True)
    assert {node.domain for node in conversion.model.graph.node} == {"", "opforge"}
    onnx.checker.check_model(conversion.model, full_check=True)
    expected = execute(model, feed, operators="function")
    got = onnx.reference.ReferenceEvaluator(conversion.model).run(None, feed)
    for name, array in zip(expected, got, strict=True):
        assert array.dtype == expected[name].dtype
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
    return conversion


def reason(model, words):
    conversion = convert(model, lower_training=True)
    assert not conversion.changed
    assert any(words in left.reason for left in conversion.left)


BATCH_NORM = "(float[3, 5, 2] g, float[3, 5, 2] x, float[5] w, float[5] m, float[5] s) => ({})"


@pytest.fixture
def batch_norm_feed(rng):
    feed = {name: rng.normal(size=(3, 5, 2)).astype(np.float32) for name in "gx"}
    return feed | {name: rng.uniform(0.5, 2, 5).astype(np.float32) for name in "wms"}


@pytest.mark.parametrize("opset", [12, 15, 18])
@pytest.mark.parametrize(
    ("declared", "outputs"),
    [
        ("float[3, 5, 2] dx, float[5] ds, float[5] db", "dx, ds, db"),
        ("float[3, 5, 2] dx, float[5] db", 'dx, "", db'),
        ("float[3, 5, 2] dx", "dx"),
    ],
)
def test_batch_norm(declared, outputs, opset, batch_norm_feed):
    text = f"{BATCH_NORM.format(declared)} {{{outputs} = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}}"
    (entry,) = same(parse(text, opset), batch_norm_feed).mapped
    assert (entry.op, entry.rule) == ("BatchNormElemtBackward", "LowerBatchNormalizationGrad")


@pytest.mark.parametrize("opset", [12, 18])
def test_batch_norm_of_an_unknown_batch(opset, batch_norm_feed):
    text = BATCH_NORM.format("float[3, 5, 2] dx, float[5] ds, float[5] db").replace("[3, 5, 2]", "[N, 5, M]")
    model = parse(f"{text} {{dx, ds, db = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}}", opset)
    assert len(same(model, batch_norm_feed).mapped) == 1


def require_same_types_and_numbers(converted, expected, feed, *, half):
    """Run a model on onnxruntime; `half` is the tolerance for float16."""
    onnx.checker.check_model(converted, full_check=True)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    for array, (output, expected_array) in zip(session.run(None, feed), expected.items(), strict=True):
        assert array.dtype == expected_array.dtype
        precision = half if array.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(array, expected_array, rtol=precision, atol=precision, err_msg=output)


def test_candidate_is_only_listed_by_default():
    model = parse(BATCH_NORM.format("dx") + " {dx = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}")
    (left,) = convert(model).left
    assert "--lower-training" in left.reason


def test_batch_norm_is_not_mapped():
    text = BATCH_NORM.format("dx") + " {dx = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}"
    reason(parse(text.replace("5, 2] x", "C, 2] x")), "channels")


@pytest.mark.parametrize(
    "text",
    [
        """(double[3, 5, 2] g, double[3, 5, 2] x, double[5] w, double[5] m, double[5] s)
        => (double[3, 5, 2] dx, double[5] ds, double[5] db) {dx, ds, db = m.BatchNormalizationGrad (g, x, w, m, s)}""",
        """(float16[3, 5, 2] g, float16[3, 5, 2] x, float[5] w, float[5] m, float[5] s)
        => (float16[3, 5, 2] dx, float[5] ds, float[5] db) {dx, ds, db = m.BatchNormalizationGrad (g, x, w, m, s)}""",
        """(float[3, 5, 2] g, float[3, 5, 2] x, float[5] w, float[5] m, float[5] s)
        => (float[5] ds, float[5] db) {"", ds, db = m.BatchNormalizationGrad (g, x, w, m, s)}""",
    ],
)
def test_unmapped_batch_norm_becomes_standard_nodes(text, batch_norm_feed):
    model = node_model(text)
    conversion = convert(model, lower_training=True)
    assert not conversion.mapped
    assert all(not node.domain and is_registered("", node.op_type, 18) for node in conversion.model.graph.node)
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    feed = {n: a.astype(onnx.helper.tensor_dtype_to_np_dtype(types[n])) for n, a in batch_norm_feed.items()}
    require_same_types_and_numbers(conversion.model, execute(model, feed), feed, half=5e-3)


CONV = """(float[6, 2, 4] g, float[6, 2, 3] x, float[3, 3, 4] w)
    => (float[6, 2, 3] dx, float[3, 3, 4] dw, float[4] db) {{
    gc = Transpose <perm = [1, 2, 0]> (g) xc = Transpose <perm = {x}> (x) wc = Transpose <perm = [2, 1, 0]> (w)
    dxc, dwc, db = com.microsoft.ConvGrad
        <kernel_shape = [3], pads = {pads}, strides = {strides}, group = 1> (gc, xc, wc)
    dx = Transpose <perm = [2, 0, 1]> ({dx}) dw = Transpose <perm = [2, 1, 0]> (dwc)}}"""
FORM = {"x": "[1, 2, 0]", "pads": "[1, 1]", "strides": "[1]", "dx": "dxc"}


def test_conv(rng):
    shapes = {"g": (6, 2, 4), "x": (6, 2, 3), "w": (3, 3, 4)}
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    conversion = same(parse(CONV.format(**FORM)), feed)
    assert [node.op_type for node in conversion.model.graph.node] == ["Constant", "ConvTbcBackward"]
    assert conversion.mapped[0].attrs["pad"] == 1


def test_transpose_with_other_consumers_is_kept(rng):
    model = parse(
        CONV.format(**FORM).replace("db) {", "db, float[2, 4, 6] r) {").replace("(dwc)}", "(dwc) r = Relu (gc)}")
    )
    shapes = {"g": (6, 2, 4), "x": (6, 2, 3), "w": (3, 3, 4)}
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    conversion = convert(model, lower_training=True)
    assert sorted(n.op_type for n in conversion.model.graph.node) == [
        "Constant",
        "ConvTbcBackward",
        "Relu",
        "Transpose",
    ]
    expected = execute(model, feed, operators="function")
    np.testing.assert_allclose(
        execute(conversion.model, feed, operators="function")["dw"], expected["dw"], rtol=1e-4, atol=1e-5
    )


def test_a_first_layer_needs_no_gradient_of_its_input():
    text = CONV.format(**FORM).replace("dxc, dwc", '"", dwc').replace("dx = Transpose <perm = [2, 0, 1]> (dxc)", "")
    conversion = convert(parse(text.replace("float[6, 2, 3] dx, ", "")), lower_training=True)
    assert conversion.mapped[0].outputs == ["dw", "db"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": "[1, 0, 2]"}, "expected [1, 2, 0]"),
        ({"pads": "[1, 2]"}, "pads [1, 2]"),
        ({"strides": "[2]"}, "strides [2]"),
        ({"strides": "[2]"}, "expected the dims of a convolution"),
        ({"strides": '[1], auto_pad = "SAME_UPPER"'}, "auto_pad 'SAME_UPPER', expected NOTSET"),
    ],
)
def test_conv_is_not_mapped(change, words):
    reason(parse(CONV.format(**(FORM | change))), words)


def test_another_conv_becomes_standard_nodes():
    conversion = convert(parse(CONV.format(**(FORM | {"dx": "xc"}))), lower_training=True)
    assert not conversion.mapped
    assert [entry.key for entry in conversion.lowered] == ["com.microsoft::ConvGrad"]
    assert {node.domain for node in conversion.model.graph.node} == {""}


@pytest.mark.parametrize("name", {**NODES, **UPDATES, **OPTIMIZERS})
def test_node_without_an_input_is_mapped_only_if_the_input_is_optional(name):
    model = node_model({**NODES, **UPDATES, **OPTIMIZERS}[name])
    for position in range(len(model.graph.node[-1].input)):
        bare = onnx.ModelProto.FromString(model.SerializeToString())
        bare.graph.node[-1].input[position] = ""
        assert "None" not in str(convert(bare, lower_training=True).left)
    bare.graph.node[-1].input[0] = ""
    assert any("has no input" in entry.reason for entry in convert(bare, lower_training=True).left)


@pytest.mark.parametrize("name", {**NODES, **UPDATES, **OPTIMIZERS})
def test_attribute_of_another_type_is_not_mapped(name):
    model = node_model({**NODES, **UPDATES, **OPTIMIZERS}[name])
    attributes = model.graph.node[-1].attribute
    for entry in attributes:
        entry.CopyFrom(onnx.helper.make_attribute(entry.name, [1.5, 2.5]))
    left = convert(model, lower_training=True).left
    assert not attributes or any("of type FLOATS, expected" in entry.reason for entry in left)


@pytest.mark.parametrize("name", NODES)
def test_a_node_becomes_standard_nodes(name, rng):
    """The numbers are those of its definition, and the types are supported by ATC."""
    model = node_model(NODES[name])
    conversion = convert(model, lower_training=True)
    assert [entry.key.split("::")[-1] for entry in conversion.lowered] == [name.split()[0]]
    assert all(not node.domain and is_registered("", node.op_type, 18) for node in conversion.model.graph.node)
    onnx.checker.check_model(conversion.model, full_check=True)
    feed = node_feed(model, rng)
    expected = execute(model, feed)
    session = onnxruntime.InferenceSession(conversion.model.SerializeToString())
    evaluated = execute(conversion.model, feed)
    for array, (output, expected_array) in zip(session.run(None, feed), expected.items(), strict=True):
        assert array.dtype == evaluated[output].dtype == expected_array.dtype
        np.testing.assert_allclose(array, expected_array, rtol=1e-5, atol=1e-5, err_msg=output)
        np.testing.assert_allclose(evaluated[output], expected_array, rtol=1e-5, atol=1e-5, err_msg=output)


def test_inputs_of_lowered_nodes_only_are_removed():
    """Both kinds of constants and values computed from them; values that the source does not use are kept."""
    text = """(float[3, 4] x, float[4, 3] dy, float[4, 5, 3] w) => (float[3, 4] r, float[4, 5, 3] g)
        <float[1] k = {2}, float[1] spare = {3}> {
        r = com.microsoft.Scale (x, k) unread = Neg (x) s = Shape (w) i = Constant <value = int64 {-1}> ()
        g = com.microsoft.GatherGrad <axis = 1> (s, i, dy)}"""
    graph = convert(parse(text), lower_training=True).model.graph
    assert [tensor.name for tensor in graph.initializer] == ["spare"]
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    assert [node.output[0] for node in graph.node if not read.intersection(node.output)] == ["unread"]
    assert {"s", "i"}.isdisjoint(name for node in graph.node for name in node.output)


# `[N` is a batch of unknown size.
BATCHES = {
    **{
        name: re.sub(rf"((?:float|int64|int32)\[){batch},", r"\1N,", NODES[name])
        for batch, prefix in ((4, "SoftmaxCrossEntropyLossGrad"), (2, "ConvGrad"), (2, "AveragePoolGrad"))
        for name in NODES
        if name.startswith(prefix) and f"float[{batch}," in NODES[name] and "Constant" not in NODES[name]
    },
    "DivGrad": """(float[N, 3] dy, float[N, 3] a, float[1, 3] v) => (float[N, 3] da, float[1, 3] db)
        {da, db = m.DivGrad (dy, a, v)}""",
    "DivGrad by a column": """(float[N, 3] dy, float[N, 3] a, float[N, 1] v) => (float[N, 3] da, float[N, 1] db)
        {da, db = m.DivGrad (dy, a, v)}""",
    "DivGrad of a row": """(float[N, 3, 4] dy, float[3, 1] a, float[N, 3, 4] v) => (float[3, 1] da, float[N, 3, 4] db)
        {da, db = m.DivGrad (dy, a, v)}""",
    "SliceGrad": """(float[N, 2, 3] dy, float[N, 5, 3] x) => (float[N, 5, 3] r)
        {s = Shape (x) a = Constant <value = int64[1] {1}> () b = Constant <value = int64[1] {-2}> ()
        r = m.SliceGrad (dy, s, a, b, a)}""",
    "ConcatTraining": """(float[N, 2] a, float[N, 4] b) => (float[N, 6] r, int64[2] n)
        {r, n = m.ConcatTraining <axis = 1> (a, b)}""",
    "GatherElementsGrad": """(float[N, 2, 3] dy, int64[N, 2, 3] labels, float[N, 5, 3] x) => (float[N, 5, 3] r)
        {s = Shape <start = 0> (x) r = m.GatherElementsGrad <axis = 1> (dy, s, labels)}""",
    "GatherNDGrad": """(float[6, 3] dy, int64[6, 2] labels, float[N, 5, 3] x) => (float[N, 5, 3] r)
        {s = Shape (x) r = m.GatherNDGrad (s, labels, dy)}""",
    "GatherGrad": """(float[N, 2, 2, 3] dy, int64[2, 2] labels, float[N, 5, 3] x) => (float[N, 5, 3] r)
        {s = Shape (x) r = m.GatherGrad <axis = 1> (s, labels, dy)}""",
    "GatherGrad of constants": """(float[N, 3] dy, float[N, 5, 3] x) => (float[N, 5, 3] r)
        {s = Shape (x) i = Constant <value = int64 {-1}> () r = m.GatherGrad <axis = 1> (s, i, dy)}""",
    "GatherGrad by many": """(float[N, 2, 5, 3] dy, int64[N, 2] labels) => (float[4, 5, 3] r)
        {s = Constant <value = int64[3] {4, 5, 3}> () r = m.GatherGrad (s, labels, dy)}""",
    "MaxPoolGrad": """(float[N, 2, 5, 5] x, float[N, 2, 2, 2] dy) => (float[N, 2, 5, 5] r)
        {y, i = MaxPool <kernel_shape = [3, 2], strides = [2, 2]> (x) r = MaxPoolGrad (dy, i)}""",
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_of_unknown_size(name, rng):
    fixed = node_model(BATCHES[name].replace("[N", "[4"))
    conversion = convert(node_model(BATCHES[name]), lower_training=True)
    assert [entry.key.split("::")[-1] for entry in conversion.lowered] == [name.split()[0]]
    onnx.checker.check_model(conversion.model, full_check=True)
    feed = node_feed(fixed, rng)
    session = onnxruntime.InferenceSession(conversion.model.SerializeToString())
    given = {value.name: feed[value.name] for value in session.get_inputs()}
    for array, (output, expected_array) in zip(session.run(None, given), execute(fixed, feed).items(), strict=True):
        np.testing.assert_allclose(array, expected_array, rtol=1e-5, atol=1e-5, err_msg=output)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BATCHES["SliceGrad"].replace("[1] {1}", "[1] {0}"), "needs a known dim 0"),
        (BATCHES["SliceGrad"].replace("(dy, s, a, b, a)", "(dy, s, a, b, a, a)"), ""),
        (BATCHES["ConcatTraining"].replace("axis = 1", "axis = 0"), "needs a known dim 0"),
        (BATCHES["MaxPoolGrad"].replace("[N, 2, 5, 5]", "[N, M, 5, 5]"), "needs a known shape"),
    ],
)
def test_other_unknown_sizes_are_not_mapped(text, words):
    model = node_model(text)
    left = convert(model, lower_training=True).left
    assert not words or all(
        words in entry.reason and entry.reason.endswith("fix the dims of the inputs first") for entry in left
    )
    assert bool(left) == bool(words)


@pytest.mark.parametrize(
    ("dy", "attributes", "words"),
    [
        ([1, 1, 3], 'kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER"', "auto_pad 'SAME_UPPER'"),
        ([1, 1, 2], "kernel_shape = [2], strides = [2], dilations = [2]", "dilations [2]"),
        ([1, 1, 3], "kernel_shape = [3], strides = [2], ceil_mode = 1, count_include_pad = 1", "handle differently"),
        ([1, 1, 4], "kernel_shape = [3], strides = [2]", "expected that of an AveragePool"),
        ([1, 1, 1], "kernel_shape = [2], strides = [2]", "expected that of an AveragePool"),
    ],
)
def test_an_average_pool_is_not_mapped(dy, attributes, words):
    text = f"(float{dy} dy) => (float[1, 1, 6] r) {{r = AveragePoolGrad <{attributes}> (dy)}}"
    reason(node_model(text), words)
    reason(node_model(text.replace("float[1, 1, 6] r", "float[1, 1, N] r")), "needs a known dim 2")


def test_a_quotient_of_unknown_sizes_is_not_mapped():
    """An unknown size may be 1."""
    text = "(float[N, 4] dy, float{} a, float{} b) => (float[N, 4] r) {{r = m.DivGrad (dy, a, b)}}"
    reason(node_model(text.format("[N, 4]", "[M, 4]")), "needs a known shape")
    assert convert(node_model(text.format("[N, 4]", "[4]")), lower_training=True).lowered
    assert convert(node_model(text.format("[N, 4]", "[1, 4]")), lower_training=True).lowered


@pytest.mark.parametrize("name", [name for name in NODES if name.startswith("ConvTransposeGrad")])
def test_gradients_of_a_transposed_convolution_are_its_adjoints(name, rng):
    """<dX, e> is <dY, f(e, W)> and <dW, e> is <dY, f(X, e)>, for f of onnxruntime's forward node."""
    model = node_model(NODES[name])
    feed = node_feed(model, rng)
    converted = convert(model, lower_training=True).model
    results = onnxruntime.InferenceSession(converted.SerializeToString()).run(None, feed)
    forward = node_model(NODES[name])
    node = forward.graph.node[0]
    node.CopyFrom(onnx.helper.make_node("ConvTranspose", ["x", "w"], ["y"]))
    node.attribute.extend(model.graph.node[0].attribute)
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, feed["dy"].shape)
    del forward.graph.input[0], forward.graph.output[:]
    forward.graph.output.append(output)
    session = onnxruntime.InferenceSession(forward.SerializeToString())
    for gradient, other in zip(results, "xw", strict=False):
        e = rng.normal(size=feed[other].shape).astype(np.float32)
        (y,) = session.run(None, {key: e if key == other else feed[key] for key in "xw"})
        np.testing.assert_allclose((gradient * e).sum(), (feed["dy"] * y).sum(), rtol=1e-4, atol=1e-4)


def run_update(text, feed):
    """Return the values that a node writes over its inputs, by input name."""
    conversion = convert(node_model(text), lower_training=True)
    assert not conversion.left
    onnx.checker.check_model(conversion.model, full_check=True)
    session = onnxruntime.InferenceSession(conversion.model.SerializeToString())
    given = {value.name: feed[value.name] for value in session.get_inputs()}
    names = [value.name.removesuffix("_updated") for value in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.parametrize(
    ("name", "kept"), [("InPlaceAccumulatorV2", 1), ("InPlaceAccumulatorV2 0", 1), ("InPlaceAccumulatorV2 1", 0)]
)
def test_a_sum_of_gradients(name, kept, rng):
    feed = node_feed(node_model(UPDATES[name]), rng)
    assert np.array_equal(run_update(UPDATES[name], feed)["buffer"], kept * feed["buffer"] + feed["x"])


@pytest.mark.parametrize("dims", [(4, 3), (4, 3, 2, 2)])
@pytest.mark.parametrize("outputs", ["y", 'y, "", nv', "y, nu, nv, mean, root"])
def test_running_statistics_are_written_over_their_inputs(outputs, dims, rng):
    """As in onnxruntime: the new values have weight 1 - momentum, and the variance is that of the batch."""
    given = [name for name in outputs.split(", ") if name != '""']
    declared = ", ".join(f"float{list(dims) if name == 'y' else [3]} {name}" for name in given)
    text = f"""(float{list(dims)} x, float[3] w, float[3] b, float[3] u, float[3] v) => ({declared})
        {{{outputs} = m.BatchNormInternal <momentum = 0.7, epsilon = 0.01, training_mode = 1> (x, w, b, u, v)}}"""
    model = node_model(text)
    feed = node_feed(model, rng)
    results = run_update(text, feed)
    assert list(results) == [*given, "u", "v"]
    axes, column = (0, *range(2, len(dims))), (-1, *[1] * (len(dims) - 2))
    wide = {name: array.astype(np.float64) for name, array in feed.items()}
    mean, variance = wide["x"].mean(axes), wide["x"].var(axes)
    root = 1 / np.sqrt(variance + 0.01)
    y = (wide["x"] - mean.reshape(column)) * (root * wide["w"]).reshape(column) + wide["b"].reshape(column)
    u, v = 0.7 * wide["u"] + 0.3 * mean, 0.7 * wide["v"] + 0.3 * variance
    expected = {"y": y, "nu": u, "nv": v, "mean": mean, "root": root, "u": u, "v": v}
    for name, array in results.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert all(entry.same for entry in verify(model, convert(model, lower_training=True)))


def test_running_statistics_of_two_layers_are_not_mapped():
    text = """(float[4, 3] x, float[3] w, float[3] b, float[3] u, float[3] v) => (float[4, 3] y) <float[4, 3] z>
        {z = m.BatchNormInternal (x, w, b, u, v) y = m.BatchNormInternal (z, w, b, u, v)}"""
    left = convert(node_model(text), lower_training=True).left
    assert ["which other nodes read too" in entry.reason for entry in left] == [True, True]


NORM = {"ReduceL1": lambda x, axis: np.abs(x).sum(axis), "ReduceL2": lambda x, axis: np.sqrt((x**2).sum(axis))}


@pytest.mark.parametrize(
    ("options", "inputs", "axes"),
    [("<keepdims = 0>", "", (0, 1)), ("", ", one", (1,)), ("<keepdims = 0>", ", minus", (0,))],
)
@pytest.mark.parametrize("op_type", NORM)
def test_a_norm_that_the_new_opset_lost(op_type, options, inputs, axes, rng):
    model = parse(
        f"""(float[3, 4] x, float[3, 4] y) => (z, r) {{z = com.microsoft.ReluGrad (x, y)
        one = Constant <value = int64[1] {{1}}> () minus = Constant <value = int64[1] {{-2}}> ()
        r = {op_type} {options} (x{inputs})}}"""
    )
    converted = convert(model, lower_training=True).model
    assert all(is_registered("", node.op_type, 18) for node in converted.graph.node)
    feed = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in "xy"}
    (result,) = onnxruntime.InferenceSession(converted.SerializeToString()).run(["r"], feed)
    expected = np.asarray(NORM[op_type](feed["x"].astype(np.float64), axes))
    np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=1e-5)
    assert result.ndim == (expected.ndim if options else 2)


def test_a_norm_alone_keeps_its_opset():
    text = "(float[3, 4] x) => (r) {r = ReduceL2 <axes = [1]> (x)}"
    assert not convert(parse(text, 13), lower_training=True).changed
    (entry,) = convert(parse(text.replace("<axes = [1]>", "")), lower_training=True).lowered
    assert entry.into == ["Mul", "ReduceSum", "Sqrt"]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [("", "int64", "known float type"), ("<noop_with_empty_axes = 1>", "float", "noop_with_empty_axes 1")],
)
def test_a_norm_is_not_mapped(options, kind, words):
    reason(parse(f"({kind}[3, 4] x) => (r) {{r = ReduceL2 {options} (x)}}"), words)


def test_nodes_of_the_conversion_are_not_listed_as_unmapped():
    text = (
        "(float[4, 3] dy, float[4, 3] y) => (float[4, 3] r, float[3] s) {r = m.SoftmaxGrad_13 (dy, y) [mine] s = REST}"
    )
    text = text.replace("REST", "ReduceSum <keepdims = 0> (dy, a)").replace(
        "{", "{a = Constant <value = int64[1] {0}> () "
    )
    conversion = convert(node_model(text), patterns=True, lower_training=True)
    assert "ReduceSum" in conversion.lowered[0].into
    assert [entry.node for entry in conversion.left] == ["mine"]


def test_another_opset_is_refused():
    model = node_model(NODES["SoftmaxGrad_13 -1"])
    assert convert(model, lower_training=True, opset=18).lowered
    with pytest.raises(UserError, match="--opset: got 15, expected 18 with --lower-training"):
        convert(model, lower_training=True, opset=15)


def test_nodes_without_a_formula_are_named():
    model = parse(
        """(float[3, 4] x, float[3, 4] y, bool c) => (r, s, t) {r = com.microsoft.ReluGrad (x, y)
        [lstm] s = com.microsoft.LSTMGrad (x) [if] t = If (c) <
            then_branch = g () => (t) {t = com.microsoft.ReluGrad (x, y)},
            else_branch = h () => (t) {t = NegativeLogLikelihoodLoss (x, y)}>}"""
    )
    left = convert(model, lower_training=True).left
    assert {(entry.node, entry.reason) for entry in left} == {
        ("lstm", "no formula exists for com.microsoft::LSTMGrad"),
        ("t", "no formula exists for NegativeLogLikelihoodLoss"),
        ("t", "is in graph: node 'if' (If).then_branch, expected the graph of the model"),
    }
    assert not convert(model).left


# As written by onnxruntime: statistics, losses and sums stay in float32.
MIXED = {
    "LayerNormalizationGrad": """(float16[2, 4] dy, float16[2, 4] x, float16[4] w, float[2, 1] m, float[2, 1] v)
        => (float16[2, 4] dx, float16[4] dw, float16[4] db) {dx, dw, db = m.LayerNormalizationGrad (dy, x, w, m, v)}""",
    "BatchNormInternal": """(float16[4, 3, 2] x, float[3] w, float[3] b)
        => (float16[4, 3, 2] y, float[3] nu, float[3] nv)
        {u = Constant <value = float[3] {1, 2, 3}> () v = Constant <value = float[3] {4, 5, 6}> ()
        y, nu, nv = m.BatchNormInternal (x, w, b, u, v)}""",
    "SoftmaxCrossEntropyLossGrad": """(float dy, float16[4, 3] p, int64[4] labels, float16[3] w) => (float16[4, 3] r)
        {r = m.SoftmaxCrossEntropyLossGrad <reduction = "mean"> (dy, p, labels, w)}""",
    "SoftmaxCrossEntropyLossInternalGrad": """(float dy, float[4, 3] p, int64[4] labels) => (float16[4, 3] r)
        {r = m.SoftmaxCrossEntropyLossInternalGrad <reduction = "mean", output_type = 10> (dy, p, labels)}""",
    "SoftmaxCrossEntropyLossInternal": """(float16[4, 3] x, int64[4] labels) => (float r, float[4, 3] p)
        {r, p = m.SoftmaxCrossEntropyLossInternal <reduction = "mean", output_type = 1> (x, labels)}""",
    "Scale": "(float16[3, 4] x, float[1] k) => (float16[3, 4] r) {r = m.Scale <scale_down = 1> (x, k)}",
    "DropoutGrad": """(float16[3, 4] dy, bool[3, 4] mask) => (float16[3, 4] r)
        {k = Constant <value = float {0.25}> () r = m.DropoutGrad (dy, mask, k)}""",
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_types(name, rng):
    """Computations in float32 stay in float32, and every result has its type."""
    model = node_model(MIXED[name])
    conversion = convert(model, lower_training=True)
    feed = node_feed(model, rng)
    require_same_types_and_numbers(conversion.model, execute(model, feed), feed, half=2e-3)


@pytest.mark.parametrize("name", ["InPlaceAccumulatorV2", "SGDOptimizerV2"])
def test_gradients_of_half_precision(name, rng):
    text = (
        {**UPDATES, **OPTIMIZERS}[name]
        .replace("float[3, 4] g,", "float16[3, 4] g,")
        .replace("float[3, 4] x", "float16[3, 4] x")
    )
    text = text.replace("float[5] h", "float16[5] h")
    assert "float16" in text
    feed = node_feed(node_model(text), rng)
    results = run_update(text, feed)
    pairs = {"buffer": ("x", 1.0)} if "buffer" in feed else {"w": ("g", -feed["rate"]), "x": ("h", -feed["rate"])}
    for old, (gradient, factor) in pairs.items():
        assert results[old].dtype == np.float32
        expected_array = feed[old] + factor * feed[gradient].astype(np.float32)
        np.testing.assert_allclose(results[old], expected_array, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(float16[3] b, float[3] g) => (bool[1] r) {r = m.InPlaceAccumulatorV2 (b, g)}", "narrower than float32"),
        (
            "(float16[3] x, float[1] k) => (y) {r = m.Scale (x, k) y = Identity (r)}",
            "the type of 'r' is unknown",
        ),
    ],
)
def test_mixed_types_are_not_mapped(text, words):
    reason(node_model(text), words)


def test_indices_along_columns_are_not_mapped():
    text = BATCHES["MaxPoolGrad"].replace("MaxPool <", "MaxPool <storage_order = 1, ")
    reason(node_model(text), "storage_order 1")


@pytest.mark.parametrize("corrected", [0, 1])
@pytest.mark.parametrize("mode", [0, 1])
def test_adam(mode, corrected, rng):
    text = OPTIMIZERS[f"AdamWOptimizer {mode} {corrected}"]
    feed = node_feed(node_model(text), rng)
    results = run_update(text, feed)
    wide = {name: array.astype(np.float64) for name, array in feed.items()}
    rate, step = wide["rate"][0], wide["step"][0]
    for w, g, m, v in ("wgmv", "xhnu"):
        first, second = 0.8 * wide[m] + 0.2 * wide[g], 0.95 * wide[v] + 0.05 * wide[g] ** 2
        one, two = (1 - 0.8**step, 1 - 0.95**step) if corrected else (1, 1)
        if mode == 0:
            weight = wide[w] - rate * 0.1 * wide[w]
            weight -= rate * (first / one) / (np.sqrt(second / two) + 0.01)
        else:
            weight = wide[w] - rate * np.sqrt(two) / one * first / (np.sqrt(second) + 0.01)
            weight -= rate * 0.1 * weight
        for name, expected_array in ((w, weight), (m, first), (v, second)):
            np.testing.assert_allclose(results[name], expected_array, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_step_down_the_gradient(rng):
    feed = node_feed(node_model(OPTIMIZERS["SGDOptimizerV2"]), rng)
    results = run_update(OPTIMIZERS["SGDOptimizerV2"], feed)
    for w, g in ("wg", "xh"):
        np.testing.assert_allclose(results[w], feed[w] - feed["rate"] * feed[g], rtol=1e-6, atol=1e-6)


def test_two_sums_into_one_buffer_are_not_mapped():
    text = """(float[2] b, float[2] g, float[2] h) => (bool u, bool w)
        {u = com.microsoft.InPlaceAccumulatorV2 (b, g) w = com.microsoft.InPlaceAccumulatorV2 (b, h)}"""
    conversion = convert(parse(text), lower_training=True)
    assert not conversion.lowered
    assert ["which other nodes read too" in entry.reason for entry in conversion.left] == [True, True]


def test_a_sum_of_numbers_keeps_its_rank():
    text = "(float b, float g, bool[1] o) => (bool u) {u = com.microsoft.InPlaceAccumulatorV2 (b, g, o)}"
    conversion = convert(parse(text), lower_training=True)
    onnx.checker.check_model(conversion.model, full_check=True)
    (entry,) = conversion.lowered
    assert "Reshape" in entry.into


def test_nodes_of_formulas_are_not_listed_as_unmapped():
    text = """(float[2, 4, 6] g, float[2, 4, 6] x, float[6] w, float[2, 4, 1] m, float[2, 4, 1] s)
        => (float[2, 4, 6] dx, float[6] dw, float[6] db, float[2, 4] r) <int64[1] last = {2}> {
            dx, dw, db = com.microsoft.LayerNormalizationGrad (g, x, w, m, s)
            [own] r = ReduceSum <keepdims = 0> (x, last)
        }"""
    conversion = convert(parse(text), patterns=True, lower_training=True)
    assert sum(node.op_type == "ReduceSum" for node in conversion.model.graph.node) > 1
    assert [entry.node for entry in conversion.left] == ["own"]


def test_another_opset_than_that_of_the_formulas_is_refused():
    model = parse("(float[3] dy, float[3] y) => (float[3] dx) {dx = com.microsoft.ReluGrad (dy, y)}", 15)
    with pytest.raises(UserError, match="--opset: got 15, expected 18 with --lower-training"):
        convert(model, lower_training=True, opset=15)
    assert convert(model, lower_training=True, opset=18).model.opset_import[0].version == 18
