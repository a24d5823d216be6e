"""Test forms that are similar to operators but have other semantics: never mapped, with a reason."""

import numpy as np
import onnx
import onnxruntime
import pytest
from form_models import form_model
from onnx import helper, numpy_helper

from opforge.frontend import convert
from opforge.frontend.run.execute import execute

DOMAINS = ("com.microsoft", "org.pytorch.aten", "npu")
SCATTER = "(float[4, 5] g, int64[4] i, int64[4, 2] j, float[7, 5] t) => (float[7, 5] y)"
ROWS = "u = Unsqueeze (i, last)"
CONV = "(float[2, 4, 6] g, float[2, 3, 6] x, float[4, 3, 3] w) => (a, b, c)"
SUM = "(float[2, 4, 3] x, float[4, 3] m, float[2, 4, 3, 5] v, int64[1] r) => (y)"
VALUES = {
    "last": [-1],
    "axis0": [0],
    "axis1": [1],
    "axis2": [2],
    "both": [0, 1],
    "zeros": np.zeros((7, 5), np.float32),
    "deep": np.zeros((3, 3, 5), np.float32),
    "size": [4, 5],
}


def parse(text, opset=18, **values):
    return form_model(text, VALUES | values, DOMAINS, opset)


# Graph, and words of the reason; None where the graph has no similarity to the pattern.
NEVER = [
    # Equal indices overwrite each other, or are combined in another way.
    (f"{SCATTER} {{{ROWS} z = ScatterND (zeros, u, g) y = Add (z, t)}}", "'none', expected add"),
    *(
        (f'{SCATTER} {{{ROWS} y = ScatterND <reduction = "{r}"> (zeros, u, g)}}', repr(r))
        for r in ("mul", "max", "min")
    ),
    (f'{SCATTER} {{{ROWS} y = ScatterND <reduction = "add"> (t, u, g)}}', "not known to be zero"),
    (f'{SCATTER} {{y = ScatterND <reduction = "add"> (deep, j, g)}}', "3 dims"),
    (
        f'{SCATTER} {{{ROWS} e = Expand (u, size) y = ScatterElements <axis = 1, reduction = "add"> (zeros, e, g)}}',
        "axis 1",
    ),
    (
        f'{SCATTER.replace("float", "int64")} {{{ROWS} y = ScatterND <reduction = "add"> (t, u, g)}}',
        "int64",
    ),
    (f"{SCATTER} {{y = com.microsoft.GatherElementsGrad (i, i, g)}}", "needs a constant"),
    (f"{SCATTER} {{y = com.microsoft.GatherNDGrad (i, i, g)}}", "needs a constant"),
    (f'{SCATTER} {{y = org.pytorch.aten.ATen <operator = "embedding"> (t, i)}}', "no formula exists"),
    # Convolutions of another kind.
    (f"{CONV} {{a, b, c = com.microsoft.ConvGrad <kernel_shape = [3, 3]> (g, x, w)}}", "expected one axis"),
    (f"{CONV} {{a, b, c = com.microsoft.ConvGrad <kernel_shape = [3], group = 3> (g, x, w)}}", "group 3"),
    (f"{CONV} {{a, b, c = com.microsoft.ConvGrad <kernel_shape = [3], dilations = [2]> (g, x, w)}}", "dilations [2]"),
    (f"{CONV} {{a, b, c = com.microsoft.ConvGrad <kernel_shape = [3]> (g, x, w)}}", "no"),
    # Normalizations with more operations.
    ("(float[3, 5] x, float[5] w) => (y) {y, m, v = BatchNormalization <training_mode = 1> (x, w, w, w, w)}", None),
    ("(float[3, 5] x) => (y) {y = org.pytorch.aten.native_batch_norm_backward (x, x, x)}", "no formula exists"),
    ("(float[3, 5] x) => (y) {y = com.microsoft.LayerNormalizationGrad (x, x, x)}", "has 3 inputs"),
    (
        "(float[3, 5] x, float[5] w, float[3] m) => (y) {y = com.microsoft.LayerNormalizationGrad (x, x, w, m, m)}",
        "needs statistics of rank 2, as 'x'; 'm' is float32 [3]",
    ),
    # Sums over other axes, of other types.
    (f"{SUM} {{y = ReduceSum (x, axis0)}}", "axes [0]"),
    (f"{SUM} {{y = ReduceSum (x, axis2)}}", "axes [2]"),
    (f"{SUM} {{y = ReduceSum (x, both)}}", "axes [0, 1]"),
    (f"{SUM} {{y = ReduceSum (m, axis1)}}", "rank 3"),
    (f"{SUM} {{y = ReduceSum (v, axis1)}}", "rank 3"),
    (f"{SUM} {{y = ReduceSum (x, r)}}", "must be constant; 'r' is an input"),
    (f"{SUM} {{y = ReduceSum <noop_with_empty_axes = 1> (x)}}", "sums nothing"),
    (f"{SUM.replace('float', 'int32')} {{y = ReduceSum (x, axis1)}}", "int32"),
    (f"{SUM.replace('float', 'double')} {{y = ReduceSum (x, axis1)}}", "float64"),
    (f"{SUM} {{y = ReduceMean (x, axis1)}}", None),
    (f"{SUM} {{y = ReduceSumSquare (x, axis1)}}", None),
    ("(float[N, 4, 3] x, int64 n) => (y) {e = ConstantOfShape (n) y = ReduceSum (e, axis1)}", "unknown"),
    # The forward operation of windows, and its gradient in standard operators.
    ("(float16[64, 2, 16] x, int64[3, 16] i) => (y) {w = Gather <axis = 0> (x, i) y = ReduceSum (w, axis1)}", "rank 3"),
]


@pytest.mark.parametrize(("text", "words"), NEVER)
def test_node_is_not_mapped_with_any_option(text, words):
    model = parse(text)
    before = model.SerializeToString()
    conversion = convert(model, patterns=True, lower_training=True)
    assert conversion.mapped == []
    assert conversion.model.SerializeToString() == before
    reasons = [entry.reason for entry in conversion.left]
    assert any(words in reason for reason in reasons) if words else not reasons, reasons


# The same pattern in every kind of graph.

BODY = "y = ReduceSum <keepdims = 0> (x, axis1)"


def test_inside_a_branch(rng):
    branch = onnx.parser.parse_graph(f"b () => (float[2, 3] y) {{{BODY}}}")
    model = parse("(bool c, float[2, 4, 3] x) => (float[2, 3] z) {}")
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis1"))
    conversion = convert(model, patterns=True)
    assert [entry.rule for entry in conversion.mapped] == ["FuseEqualGroups"] * 2
    assert not conversion.warnings
    assert not conversion.model.graph.initializer
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    (got,) = execute(conversion.model, {"c": np.array(True), "x": x}, operators="function").values()
    np.testing.assert_allclose(got, x.sum(1), rtol=1e-5, atol=1e-6)


def test_inside_a_loop_it_is_done_with_a_warning(rng):
    body = onnx.parser.parse_graph(
        "b (int64 k, bool go, float[2, 4, 3] a) => (bool more, float[2, 4, 3] b, float[2, 3] s)"
        " {more = Identity (go) b = Identity (a) s = ReduceSum <keepdims = 0> (a, axis1)}"
    )
    model = parse("(int64 m, float[2, 4, 3] x) => (float[2, 4, 3] v, float[N, 2, 3] z) {}")
    model.graph.node.append(helper.make_node("Loop", ["m", "", "x"], ["v", "z"], body=body))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axis1"))
    conversion = convert(model, patterns=True)
    assert [entry.rule for entry in conversion.mapped] == ["FuseEqualGroups"]
    (warning,) = conversion.warnings
    assert "'Loop'" in warning
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    got = onnxruntime.InferenceSession(conversion.model.SerializeToString()).run(None, {"m": np.array(2), "x": x})
    np.testing.assert_allclose(got[1], [x.sum(1)] * 2, rtol=1e-5, atol=1e-6)


def test_a_local_function_is_written_out_first(rng):
    model = parse("(float[2, 4, 3] x) => (float[2, 3] z) {z = npu.F (x)}")
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["" : 18], domain: "npu"> F (x) => (y)'
            " {axis1 = Constant <value = int64[1] {1}> () " + BODY + "}"
        )
    )
    conversion = convert(model, patterns=True)
    assert [node.op_type for node in conversion.model.graph.node] == ["GroupedBiasAddGrad"]
    assert {function.domain for function in conversion.model.functions} == {"opforge"}
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    (got,) = onnx.reference.ReferenceEvaluator(conversion.model).run(None, {"x": x})
    np.testing.assert_allclose(got, x.sum(1), rtol=1e-5, atol=1e-6)


def test_value_read_by_a_subgraph_is_kept():
    branch = onnx.parser.parse_graph("b () => (float[1, 5] z) {z = Relu (s1)}")
    model = parse(
        "(bool c, float[6, 5] g) => (float[2, 5] y, float[1, 5] w) {p0, p1 = Split <axis = 0> (g, sizes)"
        " s0 = ReduceSum (p0, axis0) s1 = ReduceSum (p1, axis0) y = Concat <axis = 0> (s0, s1)}",
        sizes=[2, 4],
    )
    model.graph.node.append(helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch))
    conversion = convert(model, patterns=True)
    assert not conversion.changed
    assert any("'s1' has other readers" in entry.reason for entry in conversion.left)


def test_negative_sizes_are_unknown_ones():
    model = parse(
        "(float[-5, 4, 3] x) => (s) {p = Slice (x, axis0, axis1, axis0) s = ReduceSum <keepdims = 0> (p, axis1)}"
    )
    conversion = convert(model, patterns=True)
    assert [entry.rule for entry in conversion.mapped] == ["FuseEqualGroups"]
