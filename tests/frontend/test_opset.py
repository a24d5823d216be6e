"""Test the ai.onnx version of results: changed nodes, nodes that prevent a change, and rejected versions."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.run.execute import execute

HEAD = "(float[2, 4, 3] x"
OURS = "[ours] y = npu.NPUGroupedBiasAddGrad (x)"


def parse(text, opset, **values):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "npu" : 1]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in values.items())
    return model


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 4, 3)).astype(np.float32)


@pytest.mark.parametrize("opset", range(8, 24))
def test_every_opset_becomes_the_newest_supported_by_atc(opset, x):
    model = parse(f"{HEAD}) => (float[2, 3] y, float[2, 12] w) {{{OURS} r = Relu (x) w = Reshape (r, s)}}", opset)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 12]), "s"))
    conversion = convert(model)
    result = conversion.model
    assert {(entry.domain, entry.version) for entry in result.opset_import} == {("", 18), ("opforge", 1)}
    assert (conversion.warnings, conversion.without_body) == ([], [])
    onnx.checker.check_model(result, full_check=True)
    expected = execute(model, {"x": x}, operators="function")
    evaluated = onnx.reference.ReferenceEvaluator(result).run(None, {"x": x})
    session = onnxruntime.InferenceSession(result.SerializeToString()).run(None, {"x": x})
    for name, by_onnx, by_onnxruntime in zip(expected, evaluated, session, strict=True):
        np.testing.assert_allclose(by_onnx, expected[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(by_onnxruntime, expected[name], rtol=1e-5, atol=1e-6)


# Version, node, outputs and initializers of nodes that have another form in opset 18.
RESPELLED = [
    (8, "w = Clip <min = -0.5, max = 0.5> (x)", "float[2, 4, 3] w", {}),
    (8, "w = Clip <max = 0.5> (x)", "float[2, 4, 3] w", {}),
    (8, "w = Slice <axes = [1], starts = [1], ends = [3]> (x)", "float[2, 2, 3] w", {}),
    (8, "w = Slice <starts = [0, 1], ends = [1, 9]> (x)", "float[1, 3, 3] w", {}),
    (8, "w = Pad <pads = [0, 1, 0, 0, 0, 2], value = 3.0> (x)", "float[2, 5, 5] w", {}),
    (8, "w, v = TopK <k = 2, axis = 1> (x)", "float[2, 2, 3] w, int64[2, 2, 3] v", {}),
    (9, "w = Softmax <axis = 2> (x)", "float[2, 4, 3] w", {}),
    (9, "w = LogSoftmax <axis = 2> (x)", "float[2, 4, 3] w", {}),
    (9, "w = Dropout <ratio = 0.5> (x)", "float[2, 4, 3] w", {}),
    (8, "w = BatchNormalization <spatial = 1> (x, k, k, k, k)", "float[2, 4, 3] w", {"k": np.ones(4, np.float32)}),
    (11, "w, v = Split <axis = 1> (x)", "float[2, 2, 3] w, float[2, 2, 3] v", {}),
    (11, "w, v = Split <axis = 1, split = [1, 3]> (x)", "float[2, 1, 3] w, float[2, 3, 3] v", {}),
    (17, "w = ReduceMean <axes = [1], keepdims = 0> (x)", "float[2, 3] w", {}),
    (12, "w = ReduceSum <axes = [0, 2]> (x)", "float[1, 4, 1] w", {}),
    (10, "w = Scatter <axis = 1> (x, i, u)", "float[2, 4, 3] w", {"i": [[[1, 2, 0]]], "u": np.float32([[[7, 8, 9]]])}),
    (21, "w = Cast <to = 6, saturate = 1> (x)", "int32[2, 4, 3] w", {}),
]


@pytest.mark.parametrize(("opset", "node", "outputs", "values"), RESPELLED)
def test_nodes_with_another_form_in_the_target_opset(opset, node, outputs, values, x):
    model = parse(f"{HEAD}) => ({outputs}) {{{node}}}", opset, **values)
    result = convert(model, opset=18).model
    assert result.opset_import[0].version == 18
    onnx.checker.check_model(result, full_check=True)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    evaluated = onnx.reference.ReferenceEvaluator(result).run(None, {"x": x})
    session = onnxruntime.InferenceSession(result.SerializeToString()).run(None, {"x": x})
    for by_onnx, by_onnxruntime, expected_value in zip(evaluated, session, expected, strict=True):
        np.testing.assert_allclose(by_onnx, expected_value, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(by_onnxruntime, expected_value)


def test_nodes_inside_a_branch_are_respelled_too(x):
    branch = onnx.parser.parse_graph("b () => (float[2, 4, 3] z) {z = Clip <min = 0.0> (x)}")
    model = parse(f"{HEAD}, bool c) => (float[2, 3] y, float[2, 4, 3] w) {{{OURS}}}", 9)
    model.graph.node.append(onnx.helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch))
    result = convert(model).model
    feed = {"x": x, "c": np.array(True)}
    got = onnxruntime.InferenceSession(result.SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(got[1], np.maximum(x, 0))


@pytest.mark.parametrize(
    ("opset", "node", "words"),
    [
        (20, "[n] w = Gelu (x)", "node 'n' (Gelu) does not exist in opset 18"),
        (12, "[n] w = Softmax (x)", "node 'n' (Softmax) uses axis 1"),
        (17, "[n] w = ReduceL1 (x)", "ATC has a parser for node 'n' (ReduceL1) only in opset 17"),
    ],
)
def test_unconvertible_node_keeps_the_opset_of_the_model(opset, node, words):
    conversion = convert(parse(f"{HEAD}) => (float[2, 3] y, w) {{{OURS} {node}}}", opset))
    assert conversion.mapped
    assert conversion.model.opset_import[0].version == opset
    (warning,) = conversion.warnings
    assert words in warning


@pytest.mark.parametrize(
    ("opset", "node", "target", "words"),
    [
        (21, "w = Cast <to = 1, saturate = 0> (x)", 18, "'saturate'"),
        (12, "w = Softmax (x)", 13, "only for the last axis"),
        (20, "w = Gelu (x)", 17, r"node 'n' \(Gelu\) does not exist"),
        (18, "w = Relu (x)", 30, "expected 8 to 18"),
        (10, "w = Resize (x, k)", 18, "has another meaning"),
        (9, "w = Upsample (x, k)", 18, "does not exist"),
        (19, 'w = Pad <mode = "wrap"> (x, p)', 18, "'wrap'"),
        (9, "w, v, u, t, s = BatchNormalization (x, k, k, k, k)", 18, "training mode"),
        (18, "w = ReduceMean <keepdims = 0> (x, p)", 17, "expected 1 to 1"),
        (8, "q = npu.Foo (x) w = Clip <min = 0.0> (q)", 18, "unknown type"),
    ],
)
def test_nodes_without_counterpart_are_rejected(opset, node, target, words):
    model = parse(f"{HEAD}, int64[2] p, float[4] k) => (w) {{[n] {node}}}", opset)
    with pytest.raises(UserError, match=words):
        convert(model, opset=target)
