"""The back end of the expression language for people: shapes and conditions as the pages of operators print them."""

from __future__ import annotations

from collections.abc import Mapping

from opforge.codegen.spec.dtypes import DTYPES

from .syntax import (
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
    Negative,
    Not,
    Present,
    RealLiteral,
    StarDims,
    Symbol,
    TextLiteral,
    Variable,
)

_SIGNS: Mapping[str, str] = {
    "==": "=",
    "!=": "\u2260",  # not equal
    "<": "<",
    "<=": "\u2264",  # less than or equal
    ">": ">",
    ">=": "\u2265",  # greater than or equal
    "*": "\u00b7",  # middle dot
    "%": "mod",
    "+": "+",
    "-": "-",
}
_LEVELS: Mapping[str, int] = {"or": 1, "and": 2, "+": 6, "-": 6, "*": 7, "%": 7}
_CHOICE, _COMPARISON, _PHRASE, _PRODUCT, _ATOM = 0, 4, 5, 7, 9


def documented_dtype(dtype: str) -> str:
    """A dtype as CANN's documents spell it."""
    return DTYPES[dtype].ge.removeprefix("DT_")


def readable(expression: Expr) -> str:
    """An expression in the signs of mathematics and a few words of English."""
    return _text(expression)[0]


def _text(expression: Expr) -> tuple[str, int]:
    """The text and how tightly its outermost operator binds."""
    match expression:
        case IntLiteral(value=value) | RealLiteral(value=value):
            return f"{value}", _ATOM
        case BoolLiteral(value=value):
            return str(value).lower(), _ATOM
        case TextLiteral(value=value):
            return f'"{value}"', _ATOM
        case DtypeLiteral(name=name):
            return documented_dtype(name), _ATOM
        case Symbol(name=name) | Attribute(name=name) | Variable(name=name):
            return name, _ATOM
        case Present(tensor=tensor):
            return f"{tensor} is given", _COMPARISON
        case Not(operand=Present(tensor=tensor)):
            return f"{tensor} is null", _COMPARISON
        case Not(operand=Attribute(name=name)):
            return f"{name} is false", _COMPARISON
        case Not(operand=operand):
            return f"not {_within(operand, _ATOM)}", _COMPARISON
        case DtypeOf(tensor=tensor):
            return f"dtype({tensor})", _ATOM
        case Dims(function="prod", tensor=name):
            return f"number of elements of {name}", _PHRASE
        case Dims(function=function, tensor=name) | StarDims(function=function, symbol=name):
            return f"{'rank' if function == 'len' else 'product'}({name})", _ATOM
        case Fold(function=function, variable=variable, body=body, tensor=tensor, of_steps=of_steps):
            over = f"each {'step' if of_steps else 'value'} {variable} of {tensor}"
            if function == "sum":
                return f"\u03a3({_text(body)[0]} for {over})", _ATOM
            return f"{_text(body)[0]} for {over}", _CHOICE
        case Negative(operand=operand):
            return f"-{_within(operand, _ATOM)}", _PRODUCT
        case Arithmetic(operator="//", left=left, right=right):
            return f"\u230a{_within(left, _PRODUCT)} / {_within(right, _PRODUCT + 1)}\u230b", _ATOM
        case Arithmetic(operator=word, left=left, right=right):
            level = _LEVELS[word]
            return f"{_within(left, level)} {_SIGNS[word]} {_within(right, level + 1)}", level
        case Extreme(function=word, operands=operands):
            return f"{word}({', '.join(_text(operand)[0] for operand in operands)})", _ATOM
        case Comparison(operator=word, left=left, right=right):
            return f"{_within(left, _PHRASE)} {_SIGNS[word]} {_within(right, _PHRASE)}", _COMPARISON
        case Junction(operator="and", operands=(Comparison() as first, Comparison() as second)) if (
            first.right == second.left
        ):
            # `0 <= x <= 3` is one condition to a reader.
            return f"{_text(first)[0]} {_SIGNS[second.operator]} {_within(second.right, _PHRASE)}", _COMPARISON
        case Junction(operator=word, operands=operands):
            level = _LEVELS[word]
            return f" {word} ".join(_within(operand, level + 1) for operand in operands), level
        case Choice(condition=condition, chosen=chosen, other=other):
            texts = [_within(operand, _CHOICE + 1) for operand in (chosen, condition, other)]
            return f"{texts[0]} if {texts[1]}, else {texts[2]}", _CHOICE


def _within(expression: Expr, level: int) -> str:
    text, own = _text(expression)
    return f"({text})" if own < level else text
