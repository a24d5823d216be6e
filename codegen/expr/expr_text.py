"""Write shapes and conditions as text for the pages of operators."""

from __future__ import annotations

from opforge.codegen.data.dtypes import DTYPES

from .operators import ATOM, CHOICE, COMPARISON, OPERATORS, PHRASE, PRODUCT
from .tree import (
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
    Name,
    Negative,
    Not,
    Operation,
    Present,
    Query,
    Size,
    Source,
    StarDims,
    TextLiteral,
)


def documented_dtype(dtype: str) -> str:
    """Return a dtype in the spelling of CANN's documents."""
    return DTYPES[dtype].ge.removeprefix("DT_")


def expr_text(expression: Expr) -> str:
    """Return an expression in mathematical notation with English words."""
    return _text(expression)[0]


def _text(expression: Expr) -> tuple[str, int]:
    """Return the text and the precedence of its outermost operator."""
    if isinstance(expression, Constant):
        return _constant(expression), ATOM
    if isinstance(expression, Name):
        return expression.name, ATOM
    if isinstance(expression, Query):
        return _query(expression)
    return _operation(expression)


def _constant(constant: Constant) -> str:
    match constant:
        case BoolLiteral(value=value):
            return str(value).lower()
        case TextLiteral(value=value):
            return f'"{value}"'
        case DtypeLiteral(name=name):
            return documented_dtype(name)
        case _:
            return str(constant.value)


def _query(query: Query) -> tuple[str, int]:
    match query:
        case Present(tensor=tensor):
            return f"{tensor} is given", COMPARISON
        case DtypeOf(index=index) | Dims(index=index) | Size(index=index):
            return _of_tensor(query, query.tensor if index is None else f"{query.tensor}[{_text(index)[0]}]")
        case Count(tensor=tensor):
            return f"number of tensors in {tensor}", PHRASE
        case StarDims(function=function, symbol=name):
            return f"{'rank' if function == 'len' else 'product'}({name})", ATOM
        case Item(source=source, index=index):
            return f"{source.tensor}[{_text(index)[0]}]", ATOM
        case Fold():
            return _fold(query)


def _of_tensor(query: DtypeOf | Dims | Size, tensor: str) -> tuple[str, int]:
    match query:
        case DtypeOf():
            return f"dtype({tensor})", ATOM
        case Dims(function="prod"):
            return f"number of elements of {tensor}", PHRASE
        case Dims():
            return f"rank({tensor})", ATOM
        case Size(axis=axis):
            return f"dimension {_text(axis)[0]} of {tensor}", PHRASE


def _fold(fold: Fold) -> tuple[str, int]:
    match fold:
        case Fold(function="list", variable=variable, body=body, source=source):
            return f"{_values(source, variable, 's')} with {_text(body)[0]}", PHRASE
        case Fold(function="sum", variable=variable, body=IntLiteral(value=1), source=source):
            return f"number of {_values(source, variable, 's')}", PHRASE
    text = f"{_text(fold.body)[0]} for each {_values(fold.source, fold.variable)}"
    return (f"\u03a3({text})", ATOM) if fold.function == "sum" else (text, CHOICE)


def _values(source: Source, variable: str, plural: str = "") -> str:
    match source:
        case HostList(tensor=tensor, of_steps=of_steps):
            return f"{'step' if of_steps else 'value'}{plural} {variable} of {tensor}"
        case Divisors(of=of):
            return f"divisor{plural} {variable} of {_within(of, ATOM)}"
        case Indices(tensor=tensor):
            return f"{'indices' if plural else 'index'} {variable} of {tensor}"
        case Fold(variable=name) if name == variable and plural:
            return _text(source)[0]
        case Fold():
            return f"value{plural} {variable} of ({_text(source)[0]})"


def _negation(operand: Expr) -> str:
    match operand:
        case Present(tensor=tensor):
            return f"{tensor} is null"
        case Attribute(name=name):
            return f"{name} is false"
        case _:
            return f"not {_within(operand, ATOM)}"


def _operation(operation: Operation) -> tuple[str, int]:
    match operation:
        case Negative(operand=operand):
            return f"-{_within(operand, ATOM)}", PRODUCT
        case Arithmetic(operator="//", left=left, right=right):
            return f"\u230a{_within(left, PRODUCT)} / {_within(right, PRODUCT + 1)}\u230b", ATOM
        case Arithmetic(operator=word, left=left, right=right):
            row = OPERATORS[word]
            return f"{_within(left, row.level)} {row.sign} {_within(right, row.level + 1)}", row.level
        case Extreme(function=word, operands=operands):
            return f"{word}({', '.join(_text(operand)[0] for operand in operands)})", ATOM
        case Comparison(operator=word, left=left, right=right):
            return f"{_within(left, PHRASE)} {OPERATORS[word].sign} {_within(right, PHRASE)}", COMPARISON
        case Junction(operator="and", operands=(Comparison() as first, Comparison() as second)) if (
            first.right == second.left
        ):
            # `0 <= x <= 3` is one condition for readers.
            sign = OPERATORS[second.operator].sign
            return f"{_text(first)[0]} {sign} {_within(second.right, PHRASE)}", COMPARISON
        case Junction(operator=word, operands=operands):
            row = OPERATORS[word]
            return f" {row.sign} ".join(_within(operand, row.level + 1) for operand in operands), row.level
        case Choice(condition=condition, chosen=chosen, other=other):
            texts = [_within(operand, CHOICE + 1) for operand in (chosen, condition, other)]
            return f"{texts[0]} if {texts[1]}, else {texts[2]}", CHOICE
        case Not():
            return _negation(operation.operand), COMPARISON


def _within(expression: Expr, level: int) -> str:
    text, own = _text(expression)
    return f"({text})" if own < level else text
