"""The C++ back end of the expression language, and C++ literals. Names are those of op_host/common/expression.h."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opforge.codegen.spec.dtypes import DTYPES
from opforge.codegen.views.escape import Code, cpp_string

from .syntax import (
    INT_MIN,
    Arithmetic,
    Attribute,
    BoolLiteral,
    Choice,
    Comparison,
    Dims,
    DtypeLiteral,
    DtypeOf,
    Expr,
    Extreme,
    Fold,
    IntLiteral,
    Junction,
    Kind,
    Negative,
    Not,
    Present,
    RealLiteral,
    StarDims,
    Symbol,
    TextLiteral,
    Variable,
)

_FUNCTIONS: Mapping[str, str] = {"//": "FloorDiv", "%": "FloorMod", "min": "Min", "max": "Max"}
_PRECEDENCE: Mapping[str, int] = {
    "or": 1,
    "and": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
}
_ATOM = 8
_WRAPPERS: Mapping[Kind, str] = {Kind.INT: "Int", Kind.BOOL: "Logic", Kind.REAL: "Real", Kind.TEXT: "Text"}


@dataclass(frozen=True)
class CppNames:
    """How the names of an expression are reached in C++: each function gives a C++ expression."""

    symbol: Callable[[str], str]
    attribute: Callable[[str], str]
    argument: Callable[[str], str]


def cpp_expression(expression: Expr, names: CppNames) -> Code:
    """C++ of type Int, Logic, Real, Text or Dtype that equals `evaluate`, unknown values and errors included."""
    return Code(_text(expression, names)[0])


def int64_literal(value: int) -> Code:
    """A C++ literal of type int64_t."""
    # C++ has no negative literals: the smallest value has to be computed.
    return Code("INT64_MIN" if value == INT_MIN else f"INT64_C({value})")


def _text(expression: Expr, names: CppNames) -> tuple[str, int]:
    """C++ text and how tightly its outermost operator binds."""
    match expression:
        case IntLiteral(value=value):
            short = -(2**31) < value < 2**31
            return f"Int({value if short else int64_literal(value)})", _ATOM
        case BoolLiteral(value=value):
            return f"Logic({str(value).lower()})", _ATOM
        case DtypeLiteral(name=name):
            return f"Dtype(DataType::{DTYPES[name].plan})", _ATOM
        case Symbol(name=name):
            return names.symbol(name), _ATOM
        case Attribute(name=name, kind=kind):
            return f"{_WRAPPERS[kind]}({names.attribute(name)})", _ATOM
        case RealLiteral(value=value):
            return f"Real({value!r}F)", _ATOM
        case TextLiteral(value=value):
            return f"Text({cpp_string(value)})", _ATOM
        case Variable(name=name):
            return name, _ATOM
        case StarDims(function=function, symbol=symbol):
            return f"{'LengthOf' if function == 'len' else 'ElementsOf'}({names.symbol(symbol)})", _ATOM
        case Fold(function=function, variable=variable, body=body, tensor=tensor, of_steps=of_steps):
            values = f"{'StepsOf' if of_steps else 'ValuesOf'}({names.argument(tensor)})"
            step = f"[&]([[maybe_unused]] Int {variable}) {{ return {_text(body, names)[0]}; }}"
            return f"{'SumOver' if function == 'sum' else 'AllOf'}({values}, {step})", _ATOM
        case Choice(condition=condition, chosen=chosen, other=other):
            arguments = ", ".join(_text(operand, names)[0] for operand in (condition, chosen, other))
            return f"Chosen({arguments})", _ATOM
        case Present(tensor=tensor):
            return f"IsPresent({names.argument(tensor)})", _ATOM
        case DtypeOf(tensor=tensor):
            return f"DtypeOf({names.argument(tensor)})", _ATOM
        case Dims(function=function, tensor=tensor):
            return f"{'RankOf' if function == 'len' else 'ElementsOf'}({names.argument(tensor)})", _ATOM
        case Negative(operand=operand):
            return f"-{_wrapped(operand, names, _ATOM)}", _ATOM - 1
        case Not(operand=operand):
            # g++ asks for brackets around ! inside a comparison, so it counts as binding no tighter than one.
            return f"!{_wrapped(operand, names, _ATOM)}", _PRECEDENCE["<"]
        case Arithmetic(operator=word, left=left, right=right) if word in _FUNCTIONS:
            return f"{_FUNCTIONS[word]}({_text(left, names)[0]}, {_text(right, names)[0]})", _ATOM
        case Extreme(function=word, operands=operands):
            first, *others = (_text(operand, names)[0] for operand in operands)
            for text in others:
                first = f"{_FUNCTIONS[word]}({first}, {text})"
            return first, _ATOM
        case Arithmetic(operator=word, left=left, right=right):
            level = _PRECEDENCE[word]
            return f"{_wrapped(left, names, level)} {word} {_wrapped(right, names, level + 1)}", level
        case Comparison(operator=word, left=left, right=right):
            level = _PRECEDENCE["+"]
            return f"{_wrapped(left, names, level)} {word} {_wrapped(right, names, level)}", _PRECEDENCE[word]
        case Junction(operator=word, operands=operands):
            level = _PRECEDENCE[word]
            parts = [_wrapped(operand, names, level + 1) for operand in operands]
            return f" {'||' if word == 'or' else '&&'} ".join(parts), level


def _wrapped(expression: Expr, names: CppNames, level: int) -> str:
    text, own = _text(expression, names)
    # g++ asks for brackets around && inside ||.
    return f"({text})" if own < level or own == _PRECEDENCE["and"] else text
