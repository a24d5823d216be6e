"""What ATC's parser would misread is written otherwise, once something is rewritten."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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


def test_imports_that_nobody_uses_go():
    model = parse(f"{HEAD}) => (float[2, 3] y) {{{OURS}}}", domains=("npu", "d", "com.microsoft"))
    model.opset_import.append(helper.make_opsetid("", 18))
    for domain, expected in (("opforge", {"": 18, "opforge": 1}), ("ai.onnx", {"": 18})):
        imports = convert(model, domain=domain).model.opset_import
        assert {entry.domain: entry.version for entry in imports} == expected
        assert len(imports) == len(expected)


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
