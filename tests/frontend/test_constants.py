"""Test values that exporters compute by nodes although they are constant."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opforge.frontend.ir.constants import Constants
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.value_types import ValueTypes


def constants_of(text):
    view = GraphView(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}'))
    return Constants(ValueTypes(view)), view.main


def value(text, name="y"):
    constants, scope = constants_of(text)
    return constants.value(scope, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[4, 5] x) => (int64[2] y) {y = Shape (x)}", [4, 5]),
        ("(float[4, 5] x) => (int64 y) {y = Size (x)}", 20),
        ("(float x) => (int64 y) {y = Size (x)}", 1),
        ("(float[4, 0] x) => (int64 y) {y = Size (x)}", 0),
        ("(float[4, 5, N] x) => (int64[1] y) {y = Shape <start = 1, end = 2> (x)}", [5]),
        ("(float[4, 5, N] x) => (int64[1] y) {y = Shape <start = -2, end = -1> (x)}", [5]),
        ("(float[4, 5] x) => (int64 y) <int64 one = {1}> {s = Shape (x) y = Gather (s, one)}", 5),
        ("(float[4] x) => (int64[1] y) <int64[1] z = {7}> {y = Identity (z)}", [7]),
        ("(float[4] x) => (int32[1] y) <int64[1] z = {7}> {y = Cast <to = 6> (z)}", [7]),
        ("(float[4] x) => (int64[1] y) <int64[2] z = {7, 8}, int64[1] a = {0}> {y = Slice (z, a, z)}", [7, 8]),
        ("(float[4] x) => (int64 y) <int64[1] z = {7}, int64[1] a = {0}> {y = Squeeze (z, a)}", 7),
        ("(float[4] x) => (int64 y) <int64[1] z = {7}> {y = Squeeze (z)}", 7),
        ("(float[4] x) => (int64[1, 1] y) <int64 z = {7}, int64[2] a = {0, 1}> {y = Unsqueeze (z, a)}", [[7]]),
        ("(float[4] x) => (int64[2] y) <int64[1] z = {7}> {y = Concat <axis = 0> (z, z)}", [7, 7]),
        ("(float[4] x) => (int64 y) {y = Constant <value_int = 3> ()}", 3),
        ("(float[4] x) => (int64[2] y) {y = Constant <value_ints = [3, 4]> ()}", [3, 4]),
        ("(float[4] x) => (float y) {y = Constant <value_float = 0.5> ()}", 0.5),
        ("(float[4] x) => (float[2] y) {y = Constant <value_floats = [0.5, 1.0]> ()}", [0.5, 1.0]),
        ("(float[4] x) => (int64[2] y) {y = Constant <value = int64[2] {5, 6}> ()}", [5, 6]),
        ("(float[4] x) => (int64[2] y) <int64[2] z = {-7, 7}, int64 o = {2}> {y = Div (z, o)}", [-3, 3]),
        ("(float[4] x) => (float y) <float z = {1}, float o = {4}> {y = Div (z, o)}", 0.25),
        ("(float[4] x) => (y) <int64 a = {5}, int64 b = {0}, int64 c = {-2}> {y = Range (a, b, c)}", [5, 3, 1]),
        (
            "(float[4] x) => (y) <float a = {0}, float b = {1}, float c = {0.25}> {y = Range (a, b, c)}",
            [0, 0.25, 0.5, 0.75],
        ),
        ("(float[4] x) => (y) <int64[2, 1] z = {1, 2}, int64[1] d = {2}> {y = Expand (z, d)}", [[1, 1], [2, 2]]),
        ("(float[4] x) => (y) <int64[2] z = {1, 2}, int64 t = {2}> {e = Equal (z, t) y = Where (e, t, z)}", [1, 2]),
        ("(float[4] x) => (y) <int64[2] z = {1, 2}, int64 t = {2}> {e = Less (z, t) y = Not (e)}", [False, True]),
        ("(float[4] x) => (y) <int64[2] z = {1, 2}> {y = Neg (z)}", [-1, -2]),
    ],
)
def test_value(text, expected):
    got = value(text)
    assert got.shape == np.shape(expected)
    assert got.tolist() == expected


def test_spellings_of_older_opsets():
    squeeze = helper.make_node("Squeeze", ["c"], ["y"], axes=[0])
    slice_ = helper.make_node("Slice", ["z"], ["c"], starts=[1], ends=[2])
    graph = helper.make_graph(
        [slice_, squeeze],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
        [numpy_helper.from_array(np.array([7, 8, 9]), "z")],
    )
    view = GraphView(helper.make_model(graph))
    assert Constants(ValueTypes(view)).value(view.main, "y").tolist() == 8


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(int64[1] x) => (int64[1] y) {y = Identity (x)}", "is an input"),
        ("(int64[1] x) => (int64[1] y) {y = Abs (x)}", "computed by Abs at run time"),
        ("(float[4, N] x) => (int64 y) {y = Size (x)}", "dims are not known"),
        ("(float[4] x) => (int64 y) <int64 z = {7}, int64 o = {0}> {y = Div (z, o)}", "divides an integer by 0"),
        (
            "(float[4] x) => (y) <int64 a = {0}, int64 b = {9000000000}, int64 c = {1}> {y = Range (a, b, c)}",
            "elements",
        ),
        ("(float[4] x) => (y) <int64 a = {0}, int64 c = {0}> {y = Range (a, a, c)}", "by 0"),
        ("(float[4] x) => (y) <float a = {0}, int64[1] c = {9000000000}> {y = Expand (a, c)}", "more than"),
        ("(float[N] x) => (int64[1] y) {y = Shape (x)}", "dims are not known"),
        ("(float[4] x) => (int64 y) <int64[1] z = {7}, int64 i = {5}> {y = Gather (z, i)}", "malformed Gather"),
        ("(float[4] x) => (int64[1] y) <int64[1] z = {7}> {y = Cast <to = 8> (z)}", "Cast to string"),
    ],
)
def test_reason(text, reason):
    with pytest.raises(Unmatched, match=reason):
        value(text)


def test_an_initializer_that_is_an_input_can_change():
    graph = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.array([1]), "a")],
    )
    view = GraphView(helper.make_model(graph, ir_version=4))
    with pytest.raises(Unmatched, match="is an input with a default value"):
        Constants(ValueTypes(view)).value(view.main, "y")
    # In older versions, every initializer had to be an input, and its value could not be replaced.
    view = GraphView(helper.make_model(graph, ir_version=3))
    assert Constants(ValueTypes(view)).value(view.main, "y").tolist() == [1]


@pytest.mark.parametrize("dims", [[1 << 40], [-1], [1 << 20, 1 << 20]])
def test_declared_sizes_are_not_believed(dims):
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("a", TensorProto.INT64, None)])
    graph.initializer.add(name="a", data_type=TensorProto.INT64, raw_data=bytes(16)).dims[:] = dims
    view = GraphView(helper.make_model(graph))
    with pytest.raises(Unmatched, match="dims"):
        Constants(ValueTypes(view)).value(view.main, "a")


def test_a_tensor_with_too_little_data_is_malformed():
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("a", TensorProto.INT64, None)])
    graph.initializer.add(name="a", data_type=TensorProto.INT64, raw_data=bytes(16)).dims[:] = [3]
    view = GraphView(helper.make_model(graph))
    with pytest.raises(Unmatched, match="malformed tensor"):
        Constants(ValueTypes(view)).value(view.main, "a")


def test_a_long_chain_ends():
    nodes = [helper.make_node("Identity", [f"v{n}"], [f"v{n + 1}"]) for n in range(5000)]
    graph = helper.make_graph(
        nodes,
        "g",
        [],
        [helper.make_tensor_value_info("v5000", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.array([1]), "v0")],
    )
    view = GraphView(helper.make_model(graph))
    with pytest.raises(Unmatched, match="more than 64 nodes"):
        Constants(ValueTypes(view)).value(view.main, "v5000")


def test_a_captured_constant():
    branch = onnx.parser.parse_graph("b () => (int64[1] t) {t = Identity (z)}")
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.array([7]), "z")],
    )
    view = GraphView(helper.make_model(graph))
    assert Constants(ValueTypes(view)).value(view.scopes[1], "t").tolist() == [7]


# Types.


def type_text(text, name):
    view = GraphView(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}'))
    return str(ValueTypes(view).of(view.main, name))


def test_types_are_declared_or_inferred():
    text = "(float16[4, N] x) => (y) <float[2, 2] w = {1, 2, 3, 4}> {t = Relu (x) u = Transpose (t) y = Relu (u)}"
    assert type_text(text, "x") == "float16 [4, ?]"
    assert type_text(text, "w") == "float32 [2, 2]"
    assert type_text(text, "u") == "float16 [?, 4]"
    assert type_text(text, "none") == "unknown type of unknown rank"


def test_inference_does_not_need_the_weights():
    big = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [big],
    )
    view = GraphView(helper.make_model(graph))
    assert str(ValueTypes(view).of(view.main, "t")) == "float32 [2, 64]"


@pytest.mark.parametrize("kind", ["recursive", "exponential"])
def test_functions_that_explode_are_not_followed(kind):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    count = 2 if kind == "recursive" else 30

    def function(n):
        callee = f"F{(n + 1) % count}"
        if kind == "exponential" and n == count - 1:
            nodes = [helper.make_node("Relu", ["x"], ["y"])]
        else:
            nodes = [
                helper.make_node(callee, ["x"], ["t"], domain="d"),
                helper.make_node(callee, ["t"], ["y"], domain="d"),
            ]
        return helper.make_function("d", f"F{n}", ["x"], ["y"], nodes, opsets)

    graph = helper.make_graph(
        [helper.make_node("F0", ["x"], ["t"], domain="d"), helper.make_node("Relu", ["t"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, functions=[function(n) for n in range(count)], opset_imports=opsets)
    view = GraphView(model)
    assert str(ValueTypes(view).of(view.main, "t")) == "unknown type of unknown rank"


def test_a_slice_backwards_from_before_the_first_element_begins_at_it():
    text = """() => (y) <int64[3] d = {0, 1, 2}, int64[1] s = {-10}, int64[1] e = {-99}, int64[1] a = {0},
        int64[1] t = {-1}> {y = Slice (d, s, e, a, t)}"""
    np.testing.assert_array_equal(value(text), [0])
