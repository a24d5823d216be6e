"""Test bias gradients over groups in standard operators, with `--patterns`, and near misses."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from opforge.frontend import convert
from opforge.frontend.run.execute import execute
from opforge.frontend.run.verify import verify

HEAD = "(float[6, 5] g) => (float[3, 5] y)"


def parse(text, opset=18, **values):
    imports = f'"" : {opset}, "com.microsoft" : 1, "org.pytorch.aten" : 1'
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in values.items())
    return model


def fused(model, feed, rule, *, runtime=True):
    """Convert; only the custom node and constants remain, and compute the same as the source."""
    conversion = convert(model, patterns=True)
    (entry,) = conversion.mapped
    assert (entry.op, entry.rule) == ("GroupedBiasAddGrad", rule)
    onnx.checker.check_model(conversion.model)
    assert {node.op_type for node in conversion.model.graph.node} <= {"Abs", "Constant", "GroupedBiasAddGrad"}
    (expected,) = execute(model, feed, operators="function").values()
    results = list(execute(conversion.model, feed, operators="function").values())
    if runtime:
        results += onnxruntime.InferenceSession(conversion.model.SerializeToString()).run(None, feed)
    for got in results:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert all(comparison.same for comparison in verify(model, conversion))
    return entry


def left(model, words):
    conversion = convert(model, patterns=True)
    assert not conversion.changed
    assert any(words in entry.reason for entry in conversion.left), conversion.left


@pytest.fixture
def feed(rng):
    return {"g": rng.normal(size=(6, 5)).astype(np.float32)}


# The parts, the nodes before and after each of them, and the version of ai.onnx.
SPLIT = "p0, p1, p2 = Split <axis = 0> (g, sizes)"
PARTS = [
    (SPLIT, "s{n} = ReduceSum <keepdims = 1> (p{n}, rows)", 13),
    (SPLIT, "t{n} = ReduceSum <keepdims = 0> (p{n}, rows) s{n} = Unsqueeze (t{n}, rows)", 18),
    (SPLIT, "t{n} = ReduceSum <keepdims = 0> (p{n}, rows) s{n} = Reshape (t{n}, row)", 18),
    (
        "p0, p1, p2 = Split <axis = -2, split = [2, 1, 3]> (g)",
        "s{n} = ReduceSum <axes = [-2], keepdims = 1> (p{n})",
        11,
    ),
    (
        "p0 = Slice (g, n0, n2, n0) p1 = Slice (g, n2, n3, n0, n1) p2 = Slice (g, n3, most, n0)",
        "s{n} = ReduceSum <keepdims = 1> (p{n}, rows)",
        18,
    ),
]
EACH = PARTS[0][1]
VALUES = {
    "sizes": [2, 1, 3],
    "rows": [0],
    "middle": [1],
    "row": [1, 5],
    "shape0": [1, 2, 5],
    "shape1": [1, 1, 5],
    "shape2": [1, 3, 5],
    **{f"n{n}": [n] for n in range(4)},
    "most": [2**63 - 1],
    "ids": [0, 0, 1, 2, 2, 2],
    "last": [-1],
    "table": np.zeros((3, 5), np.float32),
}


def split(parts, each, opset=18, join="Concat <axis = 0> (s0, s1, s2)", head=HEAD, **changes):
    body = " ".join([parts, *(each.format(n=n) for n in range(3)), f"y = {join}"])
    text = f"{head} {{{body}}}"
    return parse(text, opset, **{name: v for name, v in (VALUES | changes).items() if name in text})


@pytest.mark.parametrize(("parts", "each", "opset"), PARTS)
def test_parts_of_constant_size(parts, each, opset, feed):
    entry = fused(split(parts, each, opset), feed, "FuseSplitGroups", runtime=opset >= 15)
    assert entry.attrs == {"group_idx_type": 0}


def test_a_part_of_one_row_needs_no_sum(feed):
    model = split(SPLIT, EACH)
    (gone,) = (node for node in model.graph.node if node.output[0] == "s1")
    model.graph.node.remove(gone)
    model.graph.node[-1].input[1] = "p1"
    fused(model, feed, "FuseSplitGroups")


def test_onnxruntime_gradient_of_the_pytorch_unrolled_loop(feed):
    model = split(
        "sums = Abs (sizes) p0, p1, p2 = com.microsoft.SplitTraining <axis = 0> (g, sums)",
        "r{n} = Reshape (p{n}, shape{n}) t{n} = ReduceSum <keepdims = 1> (r{n}, middle) s{n} = Squeeze (t{n}, middle)",
        17,
    )
    left(model, "unknown rank")
    for name, rows in zip(("p0", "p1", "p2"), VALUES["sizes"], strict=True):
        model.graph.value_info.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [rows, 5]))
    fused(model, feed, "FuseSplitGroups")


def test_axes_that_others_read_stay(feed):
    each = "t{n} = ReduceSum <keepdims = 1> (r{n}, middle) s{n} = Squeeze (t{n}, middle)"
    body = f"r{{n}} = Unsqueeze (p{{n}}, rows) {each}"
    model = split(
        SPLIT,
        body,
        18,
        "Concat <axis = 0> (s0, s1, s2) z = Unsqueeze (g, middle)",
        HEAD.replace("y)", "y, float[6, 1, 5] z)"),
    )
    conversion = convert(model, patterns=True)
    assert [entry.rule for entry in conversion.mapped] == ["FuseSplitGroups"]
    names = {tensor.name for tensor in conversion.model.graph.initializer}
    assert names & {"middle", "rows", "sizes"} == {"middle"}
    onnx.checker.check_model(conversion.model)


def test_an_empty_part_is_a_group_without_rows(feed):
    fused(split(*PARTS[0], sizes=[0, 2, 4]), feed, "FuseSplitGroups", runtime=False)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (split(SPLIT, EACH, join="Concat <axis = 0> (s1, s0, s2)"), "in their order"),
        (split(SPLIT, EACH, join="Concat <axis = 1> (s0, s1, s2)", head=HEAD.replace("[3, 5]", "[1, 15]")), "axis 1"),
        (split(SPLIT, EACH, join="Concat <axis = 0> (s0, s1)", head=HEAD.replace("[3, 5]", "[2, 5]")), "order"),
        (
            split(SPLIT, EACH, join="Concat <axis = 0> (s0, s1, s2) z = Relu (s1)", head=HEAD.replace("y)", "y, z)")),
            "'s1' has other readers",
        ),
        (
            split(SPLIT, EACH, join="Concat <axis = 0> (s0, s1, s2) z = Relu (p1)", head=HEAD.replace("y)", "y, z)")),
            "'p1' has other readers",
        ),
        (
            split(
                "p0, p1, p2 = Split <axis = 1> (g, sizes)",
                EACH.replace("rows", "middle"),
                head="(float[1, 6] g) => (float[3, 1] y)",
            ),
            "sums axes [1]",
        ),
    ],
)
def test_other_joins_are_not_mapped(model, words):
    left(model, words)


def test_sizes_that_are_an_input_are_not_mapped():
    model = split(SPLIT, EACH, head=HEAD.replace("g)", "g, int64[3] sizes)").replace("[6, 5]", "[N, 5]"))
    del model.graph.initializer[[tensor.name for tensor in model.graph.initializer].index("sizes")]
    left(model, "the sizes of the parts of 'g' are not known")


def test_parts_of_unknown_width_that_are_reshaped_are_not_mapped(rng):
    each = "r{n} = Reshape (p{n}, shape{n}) s{n} = ReduceSum <keepdims = 1> (r{n}, rows)"
    shapes = {f"shape{n}": [rows, -1] for n, rows in enumerate((1, 1, 2))}
    head = "(float[4, H] g) => (float[3, W] y)"
    left(split(SPLIT, each, head=head, sizes=[1, 1, 2], **shapes), "its width must be known")
    plain = split(SPLIT, EACH, head="(float[6, H] g) => (float[3, H] y)")
    fused(plain, {"g": rng.normal(size=(6, 5)).astype(np.float32)}, "FuseSplitGroups")


def test_integers_and_dynamic_rows_are_not_mapped():
    left(split(SPLIT, EACH, head=HEAD.replace("float", "int64")), "[C2]")
    left(split(SPLIT, EACH, head=HEAD.replace("[6, 5]", "[N, 5]")), "needs all rows")


def test_slices_with_a_gap_or_a_step_are_not_mapped():
    text = PARTS[-1][0]
    left(split(text.replace("(g, n3", "(g, n2"), EACH), "expected them from 3 on")
    left(split(text.replace("n3, n0, n1)", "n3, n0, n2)"), EACH), "by 1")


# Rows that are added by ids.

SORTED = 'j = Unsqueeze (ids, last) y = ScatterND <reduction = "add"> (table, j, g)'
REPEATED = """ends = CumSum (sizes, rows) e = Gather (ends, last) l = Squeeze (e, rows) p = Range (zero, l, one)
    c = Unsqueeze (ends, last) b = Less (p, c) i = Cast <to = 7> (b) s = ReduceSum (i, rows) k = Sub (groups, s)
    q = Reshape (k, last) u = Unsqueeze (q, last) t = GatherND (numbers, u) w = Reshape (t, last)
    f = Unsqueeze (w, last) y = ScatterND <reduction = "add"> (table, f, g)"""
REPEATS = {"zero": 0, "one": 1, "groups": [3], "numbers": [[0], [1], [2]]}


def scatter(body, head=HEAD, **changes):
    text = f"{head} {{{body}}}"
    return parse(text, 18, **{name: v for name, v in (VALUES | REPEATS | changes).items() if name in text})


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (SORTED, {}),
        ('y = ScatterND <reduction = "add"> (table, ids, g)', {"ids": [[0], [0], [1], [2], [2], [2]]}),
        (
            'y = ScatterElements <reduction = "add", axis = 0> (table, ids, g)',
            {"ids": np.repeat([[0], [0], [1], [2], [2], [2]], 5, 1)},
        ),
    ],
)
def test_constant_ids_that_ascend(body, changes, feed):
    assert fused(scatter(body, **changes), feed, "FuseSortedGroups").attrs["group_idx_type"] == 0


@pytest.mark.parametrize("is_input", [True, False])
def test_ids_that_repeat_each_group_as_often_as_it_has_rows(is_input, feed):
    model = scatter(REPEATED)
    if is_input:
        (sizes,) = (tensor for tensor in model.graph.initializer if tensor.name == "sizes")
        model.graph.initializer.remove(sizes)
        model.graph.input.append(helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, [3]))
        feed["sizes"] = np.array([1, 0, 5])
    entry = fused(model, feed, "FuseSortedGroups", runtime=False)
    assert (entry.inputs, entry.attrs) == (["g", "sizes"], {"group_idx_type": 1})


def test_ids_of_a_repeat_by_name():
    call = 'r = org.pytorch.aten.ATen <operator = "repeat_interleave"> (k)'
    model = scatter(f"{call} {SORTED.replace('ids', 'r')}", HEAD.replace("g)", "g, int64[3] k)"))
    (entry,) = convert(model, patterns=True).mapped
    assert (entry.inputs, entry.attrs) == (["g", "k"], {"group_idx_type": 1})


@pytest.mark.parametrize("inputs", ["k, c", "c, two"])
def test_ids_that_repeat_other_values_are_in_any_order(inputs):
    call = f"r = org.pytorch.aten.repeat_interleave ({inputs})"
    head = HEAD.replace("g)", "g, int64[3] k, int64[3] c)")
    (entry,) = convert(scatter(f"{call} {SORTED.replace('ids', 'r')}", head, two=2), patterns=True).mapped
    assert (entry.op, entry.inputs) == ("EmbeddingDenseBackward", ["g", "r"])


def test_masked_ids_outside_the_groups(feed):
    mask = "a = GreaterOrEqual (ids, zero) b = Less (ids, three) m = And (a, b) v = Where (m, g, nothing)"
    body = f'{mask} y = ScatterND <reduction = "add"> (table, ids, v)'
    model = scatter(body, ids=[[-1], [0], [0], [1], [2], [2]], three=3, nothing=np.float32(0))
    conversion = convert(model, patterns=True)
    assert [entry.op for entry in conversion.mapped] == ["EmbeddingDenseBackward"]
    (expected,), (got,) = (execute(m, feed, operators="function").values() for m in (model, conversion.model))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        (SORTED, {"ids": [0, 0, 2, 1, 2, 2]}),
        (REPEATED, {"groups": [4]}),
        (REPEATED, {"numbers": [[0], [2], [1]]}),
        (REPEATED.replace("CumSum", "CumSum <exclusive = 1>"), {}),
        (REPEATED.replace("Less (p, c)", "Less (c, p)"), {}),
    ],
)
def test_ids_in_any_order_go_to_the_operator_for_any_order(body, changes):
    (entry,) = convert(scatter(body, **changes), patterns=True).mapped
    assert entry.op == "EmbeddingDenseBackward"
