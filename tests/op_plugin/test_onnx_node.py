"""Test the reading of ONNX nodes from the JSON text that CANN's parser creates from their attributes."""

from __future__ import annotations

import json
import subprocess

import pytest

FLOAT, INT, STRING, TENSOR, FLOATS, INTS = 1, 2, 3, 4, 6, 7
PLACE = "node 'grad' (npu::1::NPUGroupedBiasAddGrad): "


@pytest.fixture(scope="module")
def read(build):
    """Return `read(getter, attributes, *inputs)`, which runs the reader as the plugin does."""
    program = build("read_node")

    def run(getter, attributes, *inputs, name="a"):
        text = attributes if isinstance(attributes, str) else json.dumps({"attribute": attributes})
        command = [str(program), getter, name, text, *inputs]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return run


def attribute(kind, **field):
    return [{"name": "other", "type": INT, "i": 5}, {"name": "a", "type": kind, **field}]


@pytest.mark.parametrize(
    ("getter", "attributes", "expected"),
    [
        ("int", attribute(INT, i=3), "ok 3"),
        ("int", attribute(INT, i=-(2**63)), f"ok {-(2**63)}"),
        ("int", attribute(INT, i=2**63 - 1), f"ok {2**63 - 1}"),
        ("float", attribute(FLOAT, f="0.25"), "ok 0.250000"),
        ("float", attribute(FLOAT, f="-1.5e-3"), "ok -0.001500"),
        ("float", attribute(FLOAT, f=2.5), "ok 2.500000"),
        ("float", attribute(FLOAT, f="1e-50"), "ok 0.000000"),
        ("string", attribute(STRING, s="TND"), "ok TND"),
        ("string", attribute(STRING, s=r"a\"b\\c\n\303\274\x41"), 'ok a"b\\c\nüA'),
        ("string", attribute(STRING, s="ü\u20ac\U0001f600"), "ok ü€😀"),
        ("ints", attribute(INTS, ints=[1, -2, 3]), "ok 1,-2,3"),
        ("ints", attribute(INTS, ints=[]), "ok "),
        ("has", attribute(INT), "ok yes"),
        ("has", [], "ok no"),
    ],
)
def test_value_is_read(read, getter, attributes, expected):
    assert read(getter, attributes) == expected


@pytest.mark.parametrize(
    ("getter", "kind", "zero"),
    [("int", INT, "0"), ("float", FLOAT, "0.000000"), ("string", STRING, ""), ("ints", INTS, "")],
)
def test_present_without_a_value_is_zero(read, getter, kind, zero):
    assert read(getter, attribute(kind)) == f"ok {zero}"


@pytest.mark.parametrize(
    ("getter", "untouched"), [("int", "77"), ("float", "77.000000"), ("string", "77"), ("ints", "77")]
)
@pytest.mark.parametrize("attributes", [[], "", "{}", [{"name": "b", "type": INT, "i": 1}]])
def test_absent_attribute_keeps_the_value(read, getter, untouched, attributes):
    assert read(getter, attributes) == f"ok {untouched}"


@pytest.mark.parametrize(
    ("getter", "attributes", "message"),
    [
        ("int", attribute(FLOAT, f="1.0"), "attribute 'a': got a float, expected an int"),
        ("int", attribute(TENSOR, t={"dims": [1]}), "got a tensor, expected an int"),
        ("ints", attribute(INT, i=3), "got an int, expected a list of int"),
        ("ints", attribute(FLOATS, floats=[1.0]), "got a list of float, expected a list of int"),
        ("string", attribute(INT, i=3), "got an int, expected a string"),
        ("int", [{"name": "a", "i": 3}], "got an undefined kind, expected an int"),
        ("int", attribute(INT, i=2**63), f"got {2**63}, expected a whole number of 64 bits"),
        ("int", attribute(INT, i=1.5), "got 1.5, expected a whole number"),
        ("int", attribute(INT, i="3"), "got '3', expected a whole number"),
        ("ints", attribute(INTS, ints=[1, 2**70]), f"got {2**70}, expected a list of whole numbers"),
        ("ints", attribute(INTS, ints=7), "got 7, expected a list of whole numbers"),
        ("float", attribute(FLOAT, f="1e40"), "got '1e40', expected a finite float"),
        ("float", attribute(FLOAT, f="nan"), "got 'nan', expected a finite float"),
        ("float", attribute(FLOAT, f="0.5x"), "got '0.5x', expected a finite float"),
        ("float", attribute(FLOAT, f=" 0.5"), "got ' 0.5', expected a finite float"),
        ("float", attribute(FLOAT, f="0x10"), "got '0x10', expected a finite float"),
        ("float", attribute(FLOAT, f=""), "got '', expected a finite float"),
        ("float", attribute(FLOAT, f=[1.0]), "got a list, expected a finite float"),
        ("string", attribute(STRING, s="\\q"), "expected a string"),
        ("string", attribute(STRING, s="\\400"), "expected a string"),
        ("int", attribute(INT, ref_attr_name="axis"), "attribute 'a' refers to an attribute of a function"),
    ],
)
def test_wrong_value_names_place_got_and_expected(read, getter, attributes, message):
    answer = read(getter, attributes)
    assert answer.startswith("no " + PLACE)
    assert message in answer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"attribute":[{"name":"a","type":2,"i":1}', "expected ',' or ']'"),
        ('{"attribute":[]} x', "character 17: expected the end of the text"),
        ('{"attribute":[{"name":"a","name":"b"}]}', "expected each member name once"),
        ('{"attribute":[{name:"a"}]}', "expected a member name"),
        ('{"attribute":[{"name":"a","i":01}]}', "expected ',' or '}'"),
        ('{"attribute":[{"name":"a","i":-}]}', "expected a digit"),
        ('{"attribute":[{"name":"a\tb"}]}', "expected no control character"),
        ('{"attribute":[{"name":"\\ud800"}]}', "expected the second half of a surrogate pair"),
        ('{"attribute":[{"name":"\\q"}]}', "after a backslash"),
        ('{"attribute":[nul]}', "expected a value"),
        ("[" * 100 + "]" * 100, "expected at most 64 levels of nesting"),
        ('{"attribute":{}}', "no list 'attribute' in an object"),
        ("[]", "no list 'attribute' in an object"),
        ('{"attribute":[{"type":2}]}', "an attribute has no name"),
        ('{"attribute":[null]}', "an attribute has no name"),
        ('{"attribute":[{"name":"a"},{"name":"a"}]}', "attribute 'a' is there twice"),
    ],
)
@pytest.mark.parametrize("getter", ["int", "only"])
def test_unreadable_attributes_are_refused(read, getter, text, message):
    answer = read(getter, text)
    assert answer.startswith("no " + PLACE)
    assert message in answer


def test_every_truncation_is_refused(read):
    text = json.dumps({"attribute": attribute(INTS, ints=[1, 2])})
    answers = [read("only", text[:length]) for length in range(1, len(text), 7)]
    assert all(answer.startswith("no ") for answer in answers)


def test_unknown_attribute_is_named(read):
    assert read("only", attribute(INT, i=1)) == "ok "
    answer = read("only", [{"name": "axis", "type": INT, "i": 1}])
    assert answer == f"no {PLACE}attribute 'axis' is unknown; expected only a, other; remove it from the model"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ((), "0 00000"),
        (("x", "y"), "2 11000"),
        (("x", "", "z"), "3 10100"),
        (("x", "", ""), "1 10000"),
        (("", ""), "0 00000"),
    ],
)
def test_omitted_inputs_do_not_count(read, inputs, expected):
    assert read("inputs", [], *inputs) == f"ok grad npu::1::NPUGroupedBiasAddGrad {expected}"
