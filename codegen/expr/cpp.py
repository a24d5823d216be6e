"""The C++ back end of the expression language, and C++ literals. Names are those of op_host/common/expression.h."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.escape import Code, cpp_string

from .operators import AND, ATOM, COMPARISON, OPERATORS, SUM, UNARY
from .tree import (
    INT_MIN,
    Arithmetic,
    Attribute,
    BoolLiteral,
    Choice,
    Comparison,
    Constant,
    Count,
    Dims,
    Divisors,
    DtypeLiteral,
    DtypeOf,
    Expr,
    Extreme,
    Fold,
    HostList,
    Indices,
    IntLiteral,
    Item,
    Junction,
    Kind,
    Name,
    Negative,
    Not,
    Operation,
    Present,
    Query,
    RealLiteral,
    Size,
    Source,
    StarDims,
    Symbol,
    TextLiteral,
    Variable,
)

_WRAPPERS: Mapping[Kind, str] = {Kind.INT: "Int", Kind.BOOL: "Logic", Kind.REAL: "Real", Kind.TEXT: "Text"}
_FOLDS = {"sum": "SumOver", "all": "AllOf", "list": "Those"}


@dataclass(frozen=True)
class CppNames:
    """Access to the names of an expression in C++: each function returns a C++ expression."""

    symbol: Callable[[str], str]
    attribute: Callable[[str], str]
    argument: Callable[[str], str]


def cpp_expression(expression: Expr, names: CppNames) -> Code:
    """C++ of type Int, Logic, Real, Text, Dtype or Values: equal to `evaluate`, unknown values and errors included."""
    return Code(_text(expression, names)[0])


def int64_literal(value: int) -> Code:
    """Return a C++ literal of type int64_t."""
    # C++ has no negative literals: the smallest value must be computed.
    return Code("INT64_MIN" if value == INT_MIN else f"INT64_C({value})")


def _text(expression: Expr, names: CppNames) -> tuple[str, int]:
    """Return C++ text and the precedence of its outermost operator."""
    if isinstance(expression, Constant):
        return _constant(expression), ATOM
    if isinstance(expression, Name):
        return _name(expression, names), ATOM
    if isinstance(expression, Query):
        return _query(expression, names), ATOM
    return _operation(expression, names)


def _constant(constant: Constant) -> str:
    match constant:
        case IntLiteral(value=value):
            return f"Int({value if -(2**31) < value < 2**31 else int64_literal(value)})"
        case BoolLiteral(value=value):
            return f"Logic({str(value).lower()})"
        case DtypeLiteral(name=name):
            return f"Dtype(DataType::{DTYPES[name].plan})"
        case RealLiteral(value=value):
            return f"Real({value!r}F)"
        case TextLiteral(value=value):
            return f"Text({cpp_string(value)})"


def _name(name: Name, names: CppNames) -> str:
    match name:
        case Symbol():
            return names.symbol(name.name)
        case Attribute():
            return f"{_WRAPPERS[name.kind]}({names.attribute(name.name)})"
        case Variable():
            return name.name


def _query(query: Query, names: CppNames) -> str:
    match query:
        case Present(tensor=tensor):
            return f"IsPresent({names.argument(tensor)})"
        case DtypeOf(tensor=tensor, index=index):
            return f"DtypeOf({_tensor(tensor, index, names)})"
        case Dims(function=function, tensor=tensor, index=index):
            return f"{'RankOf' if function == 'len' else 'ElementsOf'}({_tensor(tensor, index, names)})"
        case Size(tensor=tensor, axis=axis, index=index):
            return f"SizeOf({_tensor(tensor, index, names)}, {_text(axis, names)[0]})"
        case Count(tensor=tensor):
            return f"CountOf({names.argument(tensor)})"
        case StarDims(function=function, symbol=symbol):
            return f"{'LengthOf' if function == 'len' else 'ElementsOf'}({names.symbol(symbol)})"
        case Item(source=source, index=index):
            return f"ItemOf({_values(source, names)}, {_text(index, names)[0]})"
        case Fold(function=function, variable=variable, body=body, source=source):
            step = f"[&]([[maybe_unused]] Int {variable}) {{ return {_text(body, names)[0]}; }}"
            return f"{_FOLDS[function]}({_values(source, names)}, {step})"


def _tensor(tensor: str, index: Expr | None, names: CppNames) -> str:
    argument = names.argument(tensor)
    return argument if index is None else f"ElementOf({argument}, {_text(index, names)[0]})"


def _values(source: Source, names: CppNames) -> str:
    match source:
        case HostList(tensor=tensor, of_steps=of_steps):
            return f"{'StepsOf' if of_steps else 'ValuesOf'}({names.argument(tensor)})"
        case Divisors(of=of):
            return f"DivisorsOf({_text(of, names)[0]})"
        case Indices(tensor=tensor):
            return f"IndicesOf({names.argument(tensor)})"
        case Fold():
            return _query(source, names)


def _operation(operation: Operation, names: CppNames) -> tuple[str, int]:
    match operation:
        case Choice(condition=condition, chosen=chosen, other=other):
            arguments = ", ".join(_text(operand, names)[0] for operand in (condition, chosen, other))
            return f"Chosen({arguments})", ATOM
        case Negative(operand=operand):
            return f"-{_wrapped(operand, names, ATOM)}", UNARY
        case Not(operand=operand):
            # g++ warns without parentheses around ! inside a comparison, so its precedence here is that of a
            # comparison.
            return f"!{_wrapped(operand, names, ATOM)}", COMPARISON
        case Extreme(function=word, operands=operands):
            first, *others = (_text(operand, names)[0] for operand in operands)
            for text in others:
                first = f"{OPERATORS[word].cpp}({first}, {text})"
            return first, ATOM
        case Arithmetic(operator=word, left=left, right=right):
            row = OPERATORS[word]
            if row.is_cpp_function:
                return f"{row.cpp}({_text(left, names)[0]}, {_text(right, names)[0]})", ATOM
            return f"{_wrapped(left, names, row.level)} {row.cpp} {_wrapped(right, names, row.level + 1)}", row.level
        case Comparison(operator=word, left=left, right=right):
            row = OPERATORS[word]
            return f"{_wrapped(left, names, SUM)} {row.cpp} {_wrapped(right, names, SUM)}", row.level
        case Junction(operator=word, operands=operands):
            row = OPERATORS[word]
            return f" {row.cpp} ".join(_wrapped(operand, names, row.level + 1) for operand in operands), row.level


def _wrapped(expression: Expr, names: CppNames, level: int) -> str:
    text, own = _text(expression, names)
    # g++ warns without parentheses around && inside ||.
    return f"({text})" if own < level or own == AND else text
