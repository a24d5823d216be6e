"""Test the expression language: rejected expressions, and agreement of its back ends."""

import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.expr.cpp import CppNames, cpp_expression
from opforge.codegen.expr.evaluate import Environment, EvaluationError, evaluate
from opforge.codegen.expr.names import ExprNames
from opforge.codegen.expr.syntax import ExprError, parse, parse_kind
from opforge.codegen.expr.tree import INT_MAX, INT_MIN, IntLiteral, Kind, certainly_present, symbols_of
from opforge.codegen.render import TABLES_HEADER, tables_header

SCOPE = ExprNames(
    symbols=("A", "B", "C"),
    attributes={"n": "int", "flag": "bool", "ratio": "float", "layout": "string"},
    tensors=("x", "y", "v"),
    stars=("S",),
    lists=("v",),
)
SCOPE = replace(SCOPE, definitions={"small": parse("list(P for P in divisors(A) if P < n + 2)", SCOPE)})
CALL = {"n": 3, "flag": True, "ratio": 0.1, "layout": "TND"}


def value_of(text, symbols=None, shapes=None, dtypes=None, stars=None, values=None):
    lists = {} if values is None else {"v": values}
    environment = Environment(symbols or {}, CALL, shapes or {}, dtypes or {}, stars or {}, lists)
    return evaluate(parse(text, SCOPE), environment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("-7 // 2", -4),
        ("-7 % 2", 1),
        ("7 % -2", -1),
        ("min(3, n, 5) + max(n, 9)", 12),
        ("1 < n <= 3", True),
        ("1 < n < 3", False),
        ("flag and not n == 4", True),
        ("flag == (n > 2)", True),
        ("9223372036854775807 - 1 + 1", INT_MAX),
        ("-9223372036854775808", INT_MIN),
        ("-9223372036854775808 % -1", 0),
        ("true or n // 0 == 1", True),
        ("1 if flag else n // 0", 1),
        ("layout == 'TND' and layout != 'BSH'", True),
        ("ratio == 0.1 and 0.0 < ratio < 1.5", True),
        ("-1.5 < ratio", True),
        ("cores == 8", None),
    ],
)
def test_values(text, expected):
    assert value_of(text) == expected


def test_tensors():
    shapes, dtypes = {"x": (2, 3)}, {"x": "float16", "y": "int32"}
    assert value_of("len(x)", shapes=shapes) == 2
    assert value_of("prod(x)", shapes=shapes) == 6
    assert value_of("present(x) and not present(y)", shapes=shapes) is True
    assert value_of("dtype(x) == float16", shapes=shapes, dtypes=dtypes) is True
    assert value_of("dtype(y) == int32", shapes=shapes, dtypes=dtypes) is None, "an absent tensor has no dtype"
    assert value_of("prod(x)", shapes={"x": (2, None)}) is None
    assert value_of("len(x)", shapes={"x": None}) is None


def test_stars():
    assert value_of("prod(S)", stars={"S": (2, 3)}) == 6
    assert value_of("len(S)", stars={"S": (2, None)}) == 2
    assert value_of("prod(S)", stars={"S": (2, None)}) is None
    assert value_of("prod(S)", stars={"S": ()}) == 1
    assert value_of("len(S)") is None


def test_folds():
    assert value_of("sum(V * n for V in v)", values=[1, 4]) == 15
    assert value_of("sum(V for V in steps(v))", values=[1, 4, 4, 9]) == 9
    assert value_of("all(V >= 0 for V in steps(v))", values=[1, 4, 3]) is False
    assert value_of("all(V >= 0 for V in v)", values=[]) is True
    assert value_of("sum(V + A for V in v)", values=[1, 4]) is None, "A is unknown"
    assert value_of("sum(V for V in v)") is None, "the values are unknown"
    with pytest.raises(EvaluationError):
        value_of("sum(V for V in v)", values=[INT_MAX, 1])
    with pytest.raises(EvaluationError):
        value_of("all(V < 5 for V in steps(v))", values=[INT_MIN, INT_MAX])


def test_divisors_and_lists():
    for number in (1, 2, 36, 97, 360, 2**20, 2**40, 2**40 - 87):
        divisors = value_of("list(V for V in divisors(A) if V > 0)", {"A": number})
        assert divisors == tuple(sorted(divisors))
        assert number > 400 or divisors == tuple(d for d in range(1, number + 1) if number % d == 0)
    assert value_of("small", {"A": 12}) == (1, 2, 3, 4)
    assert value_of("len(small) + sum(V for V in small)", {"A": 12}) == 14
    assert value_of("list(V for V in small if V > 2)", {"A": 12}) == (3, 4)
    assert value_of("list(V for V in steps(v) if V > 2)", values=[1, 4, 9]) == (3, 5)
    assert value_of("small") is None
    assert value_of("len(small)") is None
    assert value_of("list(V for V in divisors(2) if V > B)") is None
    for number in (0, -6, 2**40 + 1):
        with pytest.raises(EvaluationError):
            value_of("small", {"A": number})


def test_unknown_operand_is_ignored_if_the_other_decides():
    assert value_of("A > 1") is None
    assert value_of("A > 1 or flag") is True
    assert value_of("A > 1 and not flag") is False
    assert value_of("A > 1 and flag") is None
    assert value_of("A * 0") is None


@pytest.mark.parametrize("text", ["A * B", "A + B", "-(-9223372036854775808)", "n // (n - 3)", "n % (n - 3)", "A // 0"])
def test_overflow_and_division_by_zero_are_refused(text):
    with pytest.raises(EvaluationError):
        value_of(text, {"A": INT_MAX, "B": INT_MAX})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not an expression"),
        ("1 +", "not an expression"),
        ("A; B", "not an expression"),
        ("Q + 1", "unknown name 'Q'"),
        ("presnt(x)", "did you mean 'present'?"),
        ("present(z)", "unknown tensor"),
        ("present(x, y)", "the name of one input or output"),
        ("present(1)", "the name of one input or output"),
        ("A / 2", "expected '//'"),
        ("A ** 2", "expected a product"),
        ("A << 2", "expected a product"),
        ("A & B", "expected 'and'"),
        ("~A", "expected 'not'"),
        ("+A", "expected none"),
        ("A is B", "expected '=='"),
        ("A in (1, 2)", "which is not part of the expression language"),
        ("x + 1", "tensor 'x' alone"),
        ("ratio > 1", "compares a decimal number with an integer"),
        ("ratio + 1.5", "a decimal number; expected an integer"),
        ("1e39 > ratio", "range of float32"),
        ("layout < 'TND'", "expected '==' or '!='"),
        ("layout == TND", "unknown name 'TND'"),
        ("S + 1", "several dimensions"),
        ("sum(V for V in x)", "expected v or steps(v) or divisors(n)"),
        ("sum(V for V in divisors(x))", "tensor 'x' alone"),
        ("list(V for V in v)", "expected the form list(V for V in x if ..)"),
        ("list(V + 1 for V in v if V > 0)", "expected the form list(V for V in x if ..)"),
        ("list(V for V in v if V)", "expected a condition"),
        ("len(list(V for V in v if V > 0))", "the name of one input or output"),
        ("list(V for V in v if V > 0) == small", "which is a list"),
        ("small == small", "which is a list"),
        ("1 if flag else small", "which is a list"),
        ("sum(1 for V in v)", "does not use V"),
        ("sum(V for V in v if V > 0)", "expected the form"),
        ("sum(v)", "expected the form"),
        ("all(V for V in v)", "expected a condition"),
        ("sum(A for A in v)", "has another meaning"),
        ("sum(x for x in v)", "a capital"),
        ("V + sum(V for V in v)", "unknown name 'V'"),
        ("flag + 1", "a condition; expected an integer"),
        ("not A", "an integer; expected a condition"),
        ("A and B", "an integer; expected a condition"),
        ("flag < flag", "expected '==' or '!='"),
        ("A == flag", "which compares"),
        ("min(A)", "two arguments or more"),
        ("min(A, *B)", "expected plain arguments"),
        ("max(A, key=B)", "expected plain arguments"),
        ("1.5j", "expected a number, a text"),
        ("True", "expected a number, a text"),
        ("None", "expected a number, a text"),
        ("b'a'", "expected a number, a text"),
        ("9223372036854775808", "does not fit 64 bits"),
        ("-9223372036854775809", "does not fit 64 bits"),
        ("lambda: 1", "not part of the expression language"),
        ("[1][0]", "not part of the expression language"),
        ("A.real", "not part of the expression language"),
        ("__import__('os').system('id')", "unknown function"),
        ("(A := 1)", "not part of the expression language"),
        ("A if n else B", "an integer; expected a condition"),
        ("A if flag else true", "a condition; expected an integer"),
        ("f'{A}'", "not part of the expression language"),
        ("A\n+ B", "printable ASCII"),
        ("A \u00d7 B", "printable ASCII"),
        ("(" * 300 + "A" + ")" * 300, "not an expression"),
        ("-" * 900 + "A", "nested too deeply"),
        ("A + " * 300 + "A", "at most 1000"),
    ],
)
def test_rejections_state_a_reason(text, reason):
    with pytest.raises(ExprError) as caught:
        parse(text, SCOPE)
    assert reason in str(caught.value)


def test_kinds_are_checked_at_the_top():
    with pytest.raises(ExprError, match="expected a condition"):
        parse_kind("A + 1", SCOPE, (Kind.BOOL,))
    with pytest.raises(ExprError, match="expected an integer"):
        parse_kind("A > 1", SCOPE, (Kind.INT,))
    assert parse_kind("-5", SCOPE, (Kind.INT,)) == IntLiteral(-5)


def test_analysis():
    assert symbols_of(parse("A + min(B, n) > 0", SCOPE)) == {"A", "B"}
    assert certainly_present(parse("present(x) and n > 1 and present(y)", SCOPE)) == {"x", "y"}
    assert certainly_present(parse("present(x) or present(y)", SCOPE)) == set()


@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX), st.sampled_from(["+", "-", "*", "//", "%"]))
def test_arithmetic_is_exact_or_refused(left, right, operator):
    expression = parse(f"A {operator} B", SCOPE)
    exact = None
    if not (operator in {"//", "%"} and right == 0):
        exact = {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "//": left // right if right else 0,
            "%": left % right if right else 0,
        }[operator]
    environment = Environment({"A": left, "B": right})
    if exact is None or not INT_MIN <= exact <= INT_MAX:
        with pytest.raises(EvaluationError):
            evaluate(expression, environment)
    else:
        assert evaluate(expression, environment) == exact


def random_atom(rng, kind, *, in_fold):
    """Return a random expression of one word or function."""
    if kind is Kind.INT:
        atoms = [
            "A",
            "B",
            "C",
            "n",
            "len(x)",
            "prod(x)",
            "prod(y)",
            "len(small)",
            "0",
            "1",
            "2",
            "-1",
            "7",
            str(INT_MAX),
        ]
        return rng.choice([*atoms, "len(S)", "prod(S)", "cores", "V" if in_fold else "B"])
    return rng.choice(
        ["flag", "true", "false", "present(x)", "present(y)", "layout == 'TND'", "ratio > 0.5", "ratio != 0.1"]
    )


def random_text(rng, kind, depth, *, in_fold=False):
    """Return a random expression of a kind, deep enough to combine all operators."""
    if kind is Kind.DTYPE:
        return rng.choice(["dtype(x)", "dtype(y)", "float16", "int32"])
    if depth == 0:
        return random_atom(rng, kind, in_fold=in_fold)

    def below(of):
        return f"({random_text(rng, of, depth - 1, in_fold=in_fold)})"

    def folded(function, of):
        used = "V + " if of is Kind.INT else "V != 3 and "
        body = random_text(rng, of, depth - 1, in_fold=True)
        return f"{function}({used}({body}) for V in {rng.choice(['v', 'steps(v)', 'divisors(C)', 'small'])})"

    if rng.random() < 0.1:
        return f"{below(kind)} if {below(Kind.BOOL)} else {below(kind)}"
    if not in_fold and rng.random() < 0.15:
        return folded("sum" if kind is Kind.INT else "all", kind)
    return random_number(rng, below) if kind is Kind.INT else random_condition(rng, below)


def random_number(rng, below):
    """Return a random operation with an integer result; `below` creates operands."""
    form = rng.choice(["+", "-", "*", "//", "%", "min", "max", "neg"])
    if form == "neg":
        return f"-{below(Kind.INT)}"
    left, right = below(Kind.INT), below(Kind.INT)
    return f"{form}({left}, {right}, {below(Kind.INT)})" if form in {"min", "max"} else f"{left} {form} {right}"


def random_condition(rng, below):
    """Return a random operation with a boolean result; `below` creates operands."""
    form = rng.choice(["and", "or", "not", "compare", "compare", "same", "dtypes"])
    if form == "not":
        return f"not {below(Kind.BOOL)}"
    if form in {"same", "dtypes"}:
        kind = Kind.BOOL if form == "same" else Kind.DTYPE
        return f"{below(kind)} {rng.choice(['==', '!='])} {below(kind)}"
    if form == "compare":
        words = rng.choices(["<", "<=", ">", ">=", "==", "!="], k=rng.choice([1, 1, 2]))
        return below(Kind.INT) + "".join(f" {word} {below(Kind.INT)}" for word in words)
    return f" {form} ".join(below(Kind.BOOL) for _ in range(rng.choice([2, 2, 3])))


def random_environment(rng):
    def dim():
        return rng.choice([None, 0, 1, 2, 3, 16, 2048, 2**31, 2**62, INT_MAX])

    symbols = {name: dim() for name in "ABC"}
    attributes = {"n": rng.choice([-1, 0, 1, 2, 3, INT_MIN, INT_MAX]), "flag": rng.random() < 0.5}
    attributes |= {"ratio": rng.choice([0.1, 0.5, 2.0]), "layout": rng.choice(["TND", "BSH"])}
    attributes["cores"] = rng.choice([None, 0, 48])
    shapes = {}
    for tensor in "xy":
        if rng.random() < 0.8:
            shapes[tensor] = None if rng.random() < 0.1 else tuple(dim() for _ in range(rng.randrange(4)))
    dtypes = {tensor: rng.choice([None, "float16", "int32"]) for tensor in "xy"}
    stars = {"S": rng.choice([None, (), (2,), (3, None), (2**40, 2**40, 0)])}
    lists = {"v": rng.choice([None, [], [0], [3, 3, 8], [INT_MAX, INT_MIN, 1], [-1, 2]])}
    return Environment(symbols, attributes, {**shapes, "v": (None,)}, {**dtypes, "v": "int64"}, stars, lists)


def python_answer(expression, environment):
    try:
        value = evaluate(expression, environment)
    except EvaluationError:
        return "error"
    return "unknown" if value is None else str(int(value))


def cpp_environment(environment):
    def integer(value):
        return "Int::Unknown()" if value is None else f"Int({literal(value)})"

    def literal(value):
        return "INT64_MIN" if value == INT_MIN else f"INT64_C({value})"

    def argument(name):
        shape = environment.shapes.get(name)
        dims = ", ".join(literal(-1 if dim is None else dim) for dim in shape or ())
        dtype = environment.dtypes[name]
        plan = f"DataType::{DTYPES[dtype].plan}" if dtype else "DataType::kNone"
        present, ranked = name in environment.shapes, shape is not None
        return f'{{"{name}", {str(present).lower()}, {str(ranked).lower()}, {{{dims}}}, {plan}}}'

    def host_list():
        values = environment.lists["v"]
        known = "" if values is None else f", Format::kUnknown, true, {{{', '.join(map(literal, values))}}}"
        return f'{{"v", true, true, {{-1}}, DataType::kInt64{known}}}'

    def star():
        dims = environment.stars["S"]
        return "{}" if dims is None else f"{{true, {{{', '.join(map(integer, dims))}}}}}"

    symbols = ", ".join(integer(environment.symbols[name]) for name in "ABC")
    attributes = f"{literal(environment.attributes['n'])}, {str(environment.attributes['flag']).lower()}, "
    attributes += f'{environment.attributes["ratio"]}F, "{environment.attributes["layout"]}", '
    attributes += integer(environment.attributes["cores"])
    return f"{{{symbols}, {attributes}, {argument('x')}, {argument('y')}, {host_list()}, {star()}}}"


PROGRAM = """
#include <cstdio>
#include "common/check.h"
using namespace opforge;
struct Environment {
    Int A, B, C; int64_t n; bool flag; float ratio; const char* layout; Int cores; Argument x, y, v; Star S;
};
static void Print(Int value)
{
    if (value.IsKnown()) std::printf("%lld\\n", static_cast<long long>(value.ValueOr(0)));
    else std::puts(value.IsError() ? "error" : "unknown");
}
static void Print(Logic value)
{
    std::puts(value.IsTrue() ? "1" : value.IsFalse() ? "0" : value.IsError() ? "error" : "unknown");
}
FUNCTIONS
int main()
{
    const Environment environments[] = {ENVIRONMENTS};
    for (const Environment& e : environments) {
        CALLS
    }
}
"""


def test_cpp_back_end_agrees_with_python(root, tmp_path):
    rng = random.Random(20240229)  # noqa: S311  # the same calls in every run
    names = CppNames(lambda name: f"e.{name}", lambda name: f"e.{name}", lambda name: f"e.{name}")
    texts = [random_text(rng, rng.choice([Kind.INT, Kind.BOOL]), rng.randrange(1, 4)) for _ in range(250)]
    expressions = [parse(text, SCOPE) for text in texts]
    environments = [random_environment(rng) for _ in range(40)]
    functions = "\n".join(
        f"static void F{i}([[maybe_unused]] const Environment& e) {{ Print({cpp_expression(expression, names)}); }}"
        for i, expression in enumerate(expressions)
    )
    calls = "\n".join(f"F{i}(e);" for i in range(len(expressions)))
    source = tmp_path / "expressions.cpp"
    text = PROGRAM.replace("FUNCTIONS", functions).replace("CALLS", calls)
    source.write_text(text.replace("ENVIRONMENTS", ",\n".join(map(cpp_environment, environments))))
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror"]
    command += ["-fsanitize=undefined", "-fno-sanitize-recover=all", f"-I{root / 'op_host'}", f"-I{tmp_path}"]
    (tmp_path / Path(TABLES_HEADER).name).write_text(tables_header())
    subprocess.run([*command, source, "-o", tmp_path / "expressions"], check=True)
    answers = subprocess.run([tmp_path / "expressions"], check=True, capture_output=True, text=True).stdout.split()
    expected = [python_answer(expression, e) for e in environments for expression in expressions]
    assert len(answers) == len(expected)
    places = [(text, e) for e in environments for text in texts]
    wrong = [(where, got, want) for where, got, want in zip(places, answers, expected, strict=True) if got != want]
    assert not wrong, wrong[:3]
    assert {"error", "unknown", "0", "1"} <= set(answers), "every kind of answer must occur"
