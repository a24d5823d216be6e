"""Test that models are rewritten for the parser of ATC if a node is mapped."""

import math
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.emit.nodes import insert_nodes
from opforge.frontend.run.execute import execute


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


def test_constant_expressions_are_folded(rng):
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


def test_unmapped_model_keeps_duplicate_node_names():
    model = parse(f"{HEAD}) => (u, v) {{[a] u = Relu (x) [a] v = Relu (x)}}")
    conversion = convert(model)
    assert not conversion.changed
    assert conversion.model is model


def test_unused_imports_are_removed():
    model = parse(f"{HEAD}) => (float[2, 3] y) {{{OURS}}}", domains=("npu", "d", "com.microsoft"))
    model.opset_import.append(helper.make_opsetid("", 18))
    for domain, expected in (("opforge", {"": 18, "opforge": 1}), ("ai.onnx", {"": 18})):
        imports = convert(model, domain=domain).model.opset_import
        assert {entry.domain: entry.version for entry in imports} == expected
        assert len(imports) == len(expected)


def sparse(name, array, flat):
    places = np.flatnonzero(array) if flat else np.argwhere(array)
    values = numpy_helper.from_array(np.asarray(array[array != 0]), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places.astype(np.int64)), array.shape)


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_constants_become_dense(flat, rng):
    """The group ends must be read to map the node; a branch has another sparse constant."""
    ends, table, row = np.int64([0, 2]), np.float32([[0, 1, 0], [2, 0, 3]]), np.float32([0, 0, 5])
    branch = onnx.parser.parse_graph("b () => (float[2, 3] z) {z = Add (y, row)}")
    branch.sparse_initializer.append(sparse("row", row, flat))
    model = parse("(bool c, float[2, 3] x) => (float[2, 3] w) {y = npu.NPUGroupedBiasAddGrad (k, ends) v = Add (y, t)}")
    constant = helper.make_node("Constant", [], ["t"], sparse_value=sparse("t", table, flat))
    first = helper.make_node("Add", ["x", "t"], ["k"])
    last = helper.make_node("If", ["c"], ["u"], then_branch=branch, else_branch=branch)
    inner_nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([constant, first, *inner_nodes, last, helper.make_node("Add", ["u", "v"], ["w"])])
    model.graph.sparse_initializer.append(sparse("ends", ends, flat))
    result = convert(model).model
    assert [node.op_type for node in result.graph.node] == ["Constant", "Add", "GroupedBiasAddGrad", "Add", "If", "Add"]
    assert "sparse" not in str(result)
    x = rng.normal(size=(2, 3)).astype(np.float32)
    sums = np.stack([np.zeros(3, np.float32), (x + table).sum(0)])
    got = onnx.reference.ReferenceEvaluator(result).run(None, {"x": x, "c": np.array(True)})
    np.testing.assert_allclose(got[0], 2 * sums + row + table, rtol=1e-6)
    (before,) = execute(model, {"x": x, "c": np.array(True)}, operators="function").values()
    np.testing.assert_allclose(before, got[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("indices", "dims", "words"),
    [
        ([3], [3], "is malformed"),
        ([-1], [3], "is malformed"),
        ([0, 1], [3], "is malformed"),
        ([[0, 0]], [3], "is malformed"),
        ([0], [1 << 40], "at most 64 MB in all"),
        ([0], [-3], "at most 64 MB in all"),
    ],
)
def test_invalid_sparse_constant_is_kept_with_a_warning(indices, dims, words):
    model = parse(f"{HEAD}) => (float[2, 3] y, w) {{{OURS} w = d.Foo (x, s)}}")
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    entry = model.graph.sparse_initializer.add(dims=dims)
    entry.values.CopyFrom(values)
    entry.indices.CopyFrom(numpy_helper.from_array(np.array(indices)))
    conversion = convert(model)
    (warning,) = conversion.warnings
    assert "'s' stays sparse; ATC drops it" in warning
    assert words in warning
    assert conversion.model.graph.sparse_initializer == model.graph.sparse_initializer
    with pytest.raises(UserError, match="the sparse constant 's'"):
        execute(model, {"x": np.zeros((2, 4, 3), np.float32)}, operators="function")


def test_sparse_constants_have_limits_together_and_any_rank():
    model = parse(f"{HEAD}) => (float[2, 3] y, w) {{{OURS} w = d.Foo (x, s0, s1, s2, r)}}")
    for name, dims in {**{f"s{n}": [7 << 20] for n in range(3)}, "r": [1] * 200}.items():
        entry = model.graph.sparse_initializer.add(dims=dims)
        entry.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), name))
        entry.indices.CopyFrom(numpy_helper.from_array(np.array([0])))
    conversion = convert(model)
    assert sorted(len(tensor.dims) for tensor in conversion.model.graph.initializer) == [1, 1, 200]
    assert len(conversion.warnings) == 1


def test_an_input_without_a_shape_is_said():
    model = parse(f"{HEAD}, float z) => (float[2, 3] y, w) {{{OURS} w = Relu (z)}}")
    assert not convert(model).warnings
    model.graph.input[1].type.tensor_type.ClearField("shape")
    assert convert(model).warnings == ["input 'z' has no shape; ATC assumes a scalar; declare its shape"]


def test_operators_of_the_onnx_evaluator_are_folded(rng):
    """Erf, Tile and Split are not in the evaluator of constants; Split has two outputs, the table is large."""
    model = parse(
        f"{HEAD}) => (float[2, 3] y, float[2, 4, 3] w) {{{OURS} a = Erf (table) b0 = Tile (a, times)"
        " s, t = Split <axis = 0, num_outputs = 2> (b0) m = ReduceMax <keepdims = 0> (s) n = ReduceMax"
        " <keepdims = 0> (t) p = Add (x, m) w = Sub (p, n)}"
    )
    table = rng.normal(size=(600, 200)).astype(np.float32)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in (("table", table), ("times", np.array([1, 2])))
    )
    conversion = convert(model)
    assert not conversion.warnings
    kinds = [node.op_type for node in conversion.model.graph.node]
    assert kinds == ["GroupedBiasAddGrad", "Constant", "Constant", "Add", "Sub"]
    assert not conversion.model.graph.initializer
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    expected = execute(model, {"x": x}, operators="function")["w"]
    np.testing.assert_array_equal(execute(conversion.model, {"x": x}, operators="function")["w"], expected)
    model.graph.output.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [300, 400]))
    conversion = convert(model)
    assert not conversion.warnings
    made = {node.output[0]: node.op_type for node in conversion.model.graph.node}
    assert made["s"] == "Constant"
    assert "t" not in made
    np.testing.assert_allclose(
        execute(conversion.model, {"x": x}, operators="function")["s"][0, :3],
        [math.erf(value) for value in table[0, :3]],
        rtol=1e-6,
    )
    model.ir_version = 3
    assert not convert(model, domain="npu").warnings


@pytest.mark.parametrize(
    ("node", "opset"),
    [
        ("r = Softmax (seven)", 12),
        ('r, z = LSTM <hidden_size = 1, activations = ["Relu", "Tanh", "Sigmoid"]> (seven, wide, tall)', 18),
        ("r = LRN <size = 3> (seven)", 18),
    ],
)
def test_operators_that_onnx_computes_differently_are_not_folded(node, opset):
    model = parse(f"{HEAD}) => (float[2, 3] y, w) {{{OURS} [n] {node} w = d.Foo (x, r)}}")
    model.opset_import[0].version = opset
    arrays = {"seven": np.ones((2, 1, 2), np.float32), "wide": np.ones((1, 4, 2)), "tall": np.ones((1, 4, 1))}
    model.graph.initializer.extend(numpy_helper.from_array(np.float32(v), name) for name, v in arrays.items())
    assert any("ATC drops it" in warning for warning in convert(model, opset=opset).warnings)


@pytest.mark.parametrize(
    "text",
    [
        "r = RandomNormal <shape = [2]> ()",
        "r = Tile (one, huge)",
        "r = d.Foo (one)",
        "r = Erf (fed)",
        "r = Gather (one, huge)",
        "r = SequenceConstruct (one)",
    ],
)
def test_dropped_node_is_reported(text):
    model = parse(f"{HEAD}, float[1] fed) => (float[2, 3] y, w) {{{OURS} [n] {text} w = d.Foo (x, r)}}")
    arrays = {"one": np.float32([1]), "huge": [1 << 40], "fed": np.float32([1])}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in arrays.items())
    (warning,) = convert(model).warnings
    assert "node 'n'" in warning
    assert "ATC drops it" in warning


def test_dropped_custom_node_without_inputs_is_reported():
    model = parse(
        f"{HEAD}) => (float[2, 3] y, v) {{{OURS} k = ConstantOfShape (size) [n] v = npu.NPUGroupedBiasAddGrad (k)}}"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 4, 3]), "size"))
    assert [warning.split(":")[1] for warning in convert(model).warnings] == [" node 'n' (npu"]


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


class Nodes(list):
    """A list of nodes that does not allow insertion, which moves all later nodes."""

    insert = None


def test_nodes_are_inserted_together_without_copies():
    old = [NodeProto(name=str(number)) for number in range(6)]
    new = {number: NodeProto(name=f"before {number}") for number in (0, 4, 5)}
    nodes = Nodes(old)
    insert_nodes(SimpleNamespace(body=SimpleNamespace(node=nodes)), new)
    assert [node.name for node in nodes] == ["before 0", "0", "1", "2", "3", "before 4", "4", "before 5", "5"]
    assert [node for node in nodes if node.name.isdigit()] == old

    graph = GraphProto(node=old)
    held = graph.node[4]
    insert_nodes(SimpleNamespace(body=graph), new)
    held.op_type = "Changed"
    assert [(node.name, node.op_type) for node in graph.node][5:7] == [("before 4", ""), ("4", "Changed")]
