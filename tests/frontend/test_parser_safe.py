"""What ATC's parser would misread is written otherwise, once something is rewritten."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.execute import execute


def parse(text, opset=18, domains=("npu", "d")):
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")


OURS = "[ours] y = npu.NPUGroupedBiasAddGrad (x)"
HEAD = "(float[2, 4, 3] x"


def test_names_of_other_nodes_are_unique_too():
    model = parse(f"{HEAD}) => (float[2, 3] y, u, v, w) {{{OURS} [a] u = Relu (x) [a] v = Relu (x) [x] w = Relu (x)}}")
    names = [node.name for node in convert(model).model.graph.node]
    assert names[:2] == ["ours", "a"]
    assert len({*names, "x", ""}) == 6


def test_empty_outputs_of_other_nodes_get_names_or_go():
    model = parse(
        f"{HEAD}, float[2, 4, 3] z) => (float[2, 3] y, m, p) {{{OURS}"
        ' a, m, "" = d.Three (z, "", x, "") "", p = d.Two (z)}'
    )
    _, three, two = convert(model).model.graph.node
    assert list(three.output) == ["a", "m"]
    assert list(three.input) == ["z", "", "x"]
    assert two.output[0] not in ("", "x", "z", "y", "a", "m", "p")


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("value_int = 3", np.int64(3)),
        ("value_ints = [3, 4]", np.int64([3, 4])),
        ("value_float = 0.5", np.float32(0.5)),
        ("value_floats = [0.5, 2.0]", np.float32([0.5, 2])),
    ],
)
def test_constants_hold_tensors(spelling, expected):
    model = parse(f"{HEAD}) => (float[2, 3] y, w) {{{OURS} k = Constant <{spelling}> () w = d.Foo (x, k)}}")
    (made,) = (node for node in convert(model).model.graph.node if node.op_type == "Constant")
    assert made.attribute[0].name == "value"
    got = numpy_helper.to_array(made.attribute[0].t)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_what_depends_on_constants_alone_is_folded(rng):
    model = parse(
        f"{HEAD}) => (float[2, 3] y, float[2, 4, 3] w) {{{OURS} a = Constant <value = int64[2] {{2, -1}}> ()"
        " b = Constant <value = int64[1] {3}> () c = Sub (b, one) d0 = Concat <axis = 0> (a, c) e = Add (d0, zeros)"
        " f = Reshape (x, e) g0 = Transpose <perm = [1, 0]> (table) h = Mul (g0, g0) k = Reshape (h, pick)"
        " w0 = Add (f, k) w1 = Shape (x) w = Reshape (w0, w1)}"
    )
    arrays = {"one": [0], "zeros": [0, 0, 0], "table": np.float32([[1, 2], [3, 4]]), "pick": [4, 1, 1]}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in arrays.items())
    for name, value in (("d0", [2, -1, 3]), ("pick", [1, 4, 1])):
        for tensor in model.graph.initializer:
            if tensor.name == name:
                tensor.CopyFrom(numpy_helper.from_array(np.array(value), name))
    result = convert(model).model
    kinds = [node.op_type for node in result.graph.node]
    assert kinds == ["GroupedBiasAddGrad", "Constant", "Reshape", "Constant", "Add", "Shape", "Reshape"]
    assert not result.graph.initializer
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    expected = execute(model, {"x": x}, operators="function")
    got = execute(result, {"x": x}, operators="function")
    np.testing.assert_array_equal(got["w"], expected["w"])


def test_functions_are_written_out(rng):
    model = parse(f"{HEAD}) => (float[2, 3] y, float[2, 4, 3] w) {{{OURS} w = d.F (x)}}")
    model.functions.append(
        onnx.parser.parse_function('<opset_import: ["" : 18], domain: "d"> F (a) => (c) {b = Relu (a) c = Neg (b)}')
    )
    result = convert(model, domain="npu").model
    assert [node.op_type for node in result.graph.node] == ["NPUGroupedBiasAddGrad", "Relu", "Neg"]
    assert not result.functions


def test_a_model_in_which_nothing_is_rewritten_stays_unsafe():
    model = parse(f"{HEAD}) => (u, v) {{[a] u = Relu (x) [a] v = Relu (x)}}")
    conversion = convert(model)
    assert not conversion.changed
    assert conversion.model is model


@pytest.mark.parametrize("opset", [19, 20, 21, 22, 23])
def test_a_newer_opset_becomes_the_newest_that_atc_knows(opset, rng):
    model = parse(
        f"{HEAD}) => (float[2, 3] y, float[2, 12] w) {{{OURS} r = Relu (x)"
        " s = Constant <value_ints = [2, 12]> () w = Reshape (r, s)}",
        opset,
    )
    conversion = convert(model)
    result = conversion.model
    assert {(entry.domain, entry.version) for entry in result.opset_import} >= {("", 18), ("opforge", 1)}
    assert not conversion.warnings
    onnx.checker.check_model(result, full_check=True)
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    expected = execute(model, {"x": x}, operators="function")
    got = onnx.reference.ReferenceEvaluator(result).run(None, {"x": x})
    for name, array in zip(expected, got, strict=True):
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def test_an_opset_that_cannot_be_left_is_a_warning_or_refused():
    model = parse(f"{HEAD}) => (float[2, 3] y, float[2, 4, 3] w) {{{OURS} [gelu] w = Gelu (x)}}", 20)
    conversion = convert(model)
    assert conversion.model.opset_import[0].version == 20
    (warning,) = conversion.warnings
    assert "'gelu' (Gelu) does not exist in opset 18" in warning
    with pytest.raises(UserError, match=r"model: cannot be written in opset 18: node 'gelu'"):
        convert(model, opset=18)


@pytest.mark.parametrize(
    ("opset", "text", "target", "words"),
    [
        (21, "w = Cast <to = 1, saturate = 0> (x)", 18, "'saturate'"),
        (12, "w = Softmax (x)", 13, "means something else"),
        (20, "w = Gelu (x)", 17, "does not exist"),
        (18, "w = Relu (x)", 30, "expected 8 to 18"),
        (11, "w, v = Split <axis = 0> (x)", 18, "no sizes"),
    ],
)
def test_an_opset_in_which_a_node_means_something_else_is_refused(opset, text, target, words):
    with pytest.raises(UserError, match=words):
        convert(parse(f"{HEAD}) => (w) {{[n] {text}}}", opset), opset=target)


def test_an_older_opset_is_raised_on_request(rng):
    model = parse(
        f"{HEAD}) => (float[2, 3] s, float[2, 1, 3, 1] w) {{t = ReduceSum <axes = [1]> (x) s = Squeeze <axes = [1]> (t)"
        " w = Unsqueeze <axes = [3]> (t)}",
        11,
    )
    result = convert(model, opset=18).model
    assert result.opset_import[0].version == 18
    onnx.checker.check_model(result, full_check=True)
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    for got, expected in zip(
        onnx.reference.ReferenceEvaluator(result).run(None, {"x": x}),
        onnx.reference.ReferenceEvaluator(model).run(None, {"x": x}),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)


def test_a_large_fold_is_not_done():
    nodes = [
        helper.make_node("NPUGroupedBiasAddGrad", ["x"], ["y"], domain="npu"),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("ConstantOfShape", ["s"], ["d"]),
        helper.make_node("Bar", ["c", "d", "x"], ["w"], domain="d"),
    ]
    value = helper.make_tensor_value_info
    arrays = {"a": np.ones((60000, 1)), "b": np.ones((1, 60000)), "s": np.array([1 << 20, 1 << 20])}
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [2, 4, 3])],
        [value("y", TensorProto.FLOAT, [2, 3]), value("w", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 18), ("npu", 1), ("d", 1))]
    result = convert(helper.make_model(graph, opset_imports=opsets)).model
    assert [node.op_type for node in result.graph.node][1:] == ["Add", "ConstantOfShape", "Bar"]
