"""Test declared patterns: matches of each condition, and the reason if it does not match."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.pattern import Constant, Each, Operators, Through

op, other = Operators(), Operators("com.microsoft")
VALUES = {"two": 2, "pair": [2, 2], "last": [-1], "first": [0], "half": np.float32(0.5)}


def context(body, outputs="y", opset=18, shape="[3, 4]"):
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g (float{shape} a, float{shape} b, float n) => ({outputs}) {{{body}}}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(np.array(v), name) for name, v in VALUES.items())
    return Context(GraphView(model), {}, None)


def match(pattern, body, **options):
    known = context(body, **options)
    return pattern.match(known, known.view.main, "y")


MATCHES = [
    (op.Add("first", "second"), "y = Add (a, b)", {"first": "a", "second": "b"}),
    (op.Add("first", "first"), "y = Add (a, a)", {"first": "a"}),
    (op.Add("", op.Neg("inner").named("outer")), "t = Neg (b) y = Add (a, t)", {"inner": "b", "outer": "t"}),
    (other.Gelu("x"), "y = com.microsoft.Gelu (a)", {"x": "a"}),
    # Arity.
    (op.Clip("x", Constant("low"), Constant("high"), _least=1), 'y = Clip (a, "", half)', {"x": "a"}),
    (op.Clip("x", ...), "y = Clip (a, half, half)", {"x": "a"}),
    (op.Clip("x"), 'y = Clip (a, "", "")', {"x": "a"}),
    # Attributes, and axes as attribute or input, from either end.
    (op.Gather("x", "", axis=(1, -1)), "y = Gather <axis = -1> (a, two)", {"x": "a"}),
    (op.Gather("x", "", axis=0), "y = Gather (a, two)", {"x": "a"}),
    (op.ScatterND("x", ..., reduction="none"), "y = ScatterND (a, pair, b)", {"x": "a"}),
    (op.Clip("x", min=None), "y = Clip (a)", {"x": "a"}),
    *(
        (op.ReduceSum("x", axes=axes), f"y = ReduceSum (a, {name})", {"x": "a"})
        for name, all_axes in (("last", ([1], [-1])), ("first", ([0], [-2])))
        for axes in all_axes
    ),
    (op.Unsqueeze("x", axes=[2]), "y = Unsqueeze (a, last)", {"x": "a"}),
    # Alternatives: first those with the type of the node.
    (op.Neg("x") | op.Abs("x") | "x", "y = Abs (a)", {"x": "a"}),
    (op.Neg("x") | "x", "y = Abs (a)", {"x": "y"}),
    (op.Mul("x", 2) | op.Mul("x", "z"), "y = Mul (a, b)", {"x": "a", "z": "b"}),
    (op.Mul(op.Neg("x"), "z", _commutes=True), "t = Neg (b) y = Mul (a, t)", {"x": "b", "z": "a"}),
    # Optional nodes.
    (Through("x", op.Cast("", to=1), op.Unsqueeze("", ...)), "y = Abs (a)", {"x": "y"}),
    (
        op.Neg(Through("x", op.Cast("", to=1), op.Unsqueeze("", ...))),
        "s = Unsqueeze (a, first) t = Cast <to = 1> (s) u = Unsqueeze (t, first) y = Neg (u)",
        {"x": "a"},
    ),
    # Several outputs, single consumers.
    (op.Split("x", ..., _any_output=True), "z, y = Split <num_outputs = 2> (a)", {"x": "a"}),
    (op.Abs(op.Neg("x", _is_alone=True)), "t = Neg (a) y = Abs (t)", {"x": "a"}),
]


@pytest.mark.parametrize(("pattern", "body", "names"), MATCHES)
def test_matches_capture_values(pattern, body, names):
    assert match(pattern, body).names == names


MISMATCHES = [
    (op.Add("x", "x"), "y = Add (a, b)", "x is 'a' and 'b', expected one value"),
    (op.Neg("x"), "y = Abs (a)", "'y' is computed by Abs, expected Neg"),
    (op.Neg("x"), "y = com.microsoft.Neg (a)", "computed by com.microsoft::Neg, expected Neg"),
    (op.Neg(op.Abs("x")), "y = Neg (a)", "'a' is computed by no node of this graph, expected Abs"),
    (op.Clip("x"), "y = Clip (a, half)", "Clip has 2 inputs, expected 1"),
    (op.Clip("x", "low"), 'y = Clip (a, "", half)', "Clip has 3 inputs, expected 2"),
    (op.Mul("x", 2), "y = Mul (a, half)", "'half' is 0.5, expected 2"),
    (op.Mul("x", 2), "y = Mul (a, pair)", "'pair' is [2, 2], expected 2"),
    (op.Mul("x", 2), "y = Mul (a, n)", "needs a constant; 'n' is an input"),
    (op.Mul(Constant("c"), Constant("c")), "y = Mul (two, half)", "c is 2 and 0.5"),
    (op.Gather("x", "", axis=0), "y = Gather <axis = 1> (a, two)", "Gather has axis 1, expected 0"),
    (op.ScatterND("x", ..., reduction="add"), "y = ScatterND (a, pair, b)", "reduction 'none', expected add"),
    (op.Clip("x", min=None), "y = Clip <min = 0.0> (a)", "Clip has min"),
    (op.ReduceSum("x", axes=[1]), "y = ReduceSum (a, first)", "ReduceSum has axes [0], expected [1]"),
    (op.ReduceSum("x", axes=[1]), "y = ReduceSum (a)", "ReduceSum has no axes, expected [1]"),
    (op.ReduceSum("x", axes=[1]), "y = ReduceSum (a, n)", "the axes of ReduceSum must be constant; 'n' is an input"),
    (op.Abs("x") | op.Neg("x"), "y = Relu (a)", "'y' is computed by Relu, expected Abs or Neg"),
    (op.Split("x"), "z, y = Split <num_outputs = 2> (a)", "expected Split"),
    (op.Abs(op.Neg("x", _is_alone=True)), "t = Neg (a) z = Exp (t) y = Abs (t)", "'t' has other readers"),
    (op.Neg(Through("x", op.Cast("", to=1))), "t = Cast <to = 10> (a) y = Neg (t)", "Cast has to 10, expected 1"),
    # The reason is that of the alternative with the most matched nodes; a capture does not match a node of a listed
    # type.
    (op.Mul(op.Neg(op.Abs("x")), "z") | op.Mul("z", op.Exp("x")), "t = Neg (a) y = Mul (t, b)", "'a' is computed by"),
    (op.Neg(op.Abs("x")) | "x", "y = Neg (a)", "expected Abs"),
]


@pytest.mark.parametrize(("pattern", "body", "words"), MISMATCHES)
def test_mismatches_name_the_condition(pattern, body, words):
    with pytest.raises(Unmatched) as raised:
        match(pattern, body)
    assert words in str(raised.value)


def test_a_reason_is_about_the_node_that_differs():
    with pytest.raises(Unmatched) as raised:
        match(op.Add(op.Mul("x", 2), "z"), "s = Neg (a) t = Mul (b, half) y = Add (t, s)")
    assert raised.value.reason.nodes == (1,)


def test_axes_as_an_attribute_and_of_an_unknown_rank():
    pattern = op.ReduceSum("x", axes=[1])
    assert match(pattern, "y = ReduceSum <axes = [-1]> (a)", opset=11).nodes == [0]
    with pytest.raises(Unmatched, match="axes \\[-1\\], expected \\[1\\]"):
        match(pattern, "t = com.microsoft.Foo (a) y = ReduceSum <axes = [-1]> (t)", opset=11)


def test_every_input_has_a_match():
    parts = match(op.Concat(Each(op.Neg("x") | "x")), "t = Neg (a) y = Concat <axis = 0> (t, b, t)").parts
    assert [(part.names, part.nodes) for part in parts] == [({"x": "a"}, [0]), ({"x": "b"}, []), ({"x": "a"}, [0])]


def test_nodes_and_constants_of_a_match():
    found = match(op.Add(op.Mul("x", Constant("c")), op.Neg("x")), "s = Mul (a, half) t = Neg (a) y = Add (s, t)")
    assert (found.nodes, found.constants) == ([2, 0, 1], {"c": np.float32(0.5)})


def test_failed_alternative_adds_no_nodes():
    pattern = op.Add(op.Mul("p", 2), "q") | op.Add("q", op.Abs("r"))
    found = match(pattern, "s = Mul (a, half) t = Abs (b) y = Add (s, t)")
    assert (found.names, found.nodes) == ({"q": "s", "r": "b"}, [2, 1])


def test_values_that_are_known_before():
    known = context("t = Neg (a) y = Add (t, b)")
    pattern = op.Add("x", "z")
    assert pattern.find(known, known.view.main, "y", x="t") is not None
    assert pattern.find(known, known.view.main, "y", x="a") is None
