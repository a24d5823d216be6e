"""The Python back end of the expression language."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from .attr_kinds import AttrValue
from .operators import OPERATORS
from .tree import (
    INT_MAX,
    INT_MIN,
    MAX_DIVIDED,
    Arithmetic,
    Attribute,
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
    Symbol,
    Variable,
    element_name,
    single_precision,
    walk,
)

# None: unknown. A dtype is its name.
Value: TypeAlias = int | float | bool | str | tuple[bool | int | float | str, ...] | None


class EvaluationError(ArithmeticError):
    """A result beyond 64 bits, or a division by zero."""


@dataclass(frozen=True)
class Environment:
    """Values of the names in an expression.

    Attributes:
        symbols: Dimensions; None or missing is unknown.
        attributes: Attribute values; None or missing is unknown.
        shapes: Shape per present tensor, None for an unknown rank; a missing tensor is absent. The tensors of a list
            have the names `x[0]`, `x[1]` and so on.
        dtypes: Dtype name per tensor; None or missing is unknown.
        stars: Dimensions of symbols with a star; None or missing is an unknown number of dimensions.
        lists: Values of host lists; None or missing is unknown.
        variables: Current values of fold variables, or the reason why there is no value.
        counts: The number of tensors per list; a missing list is absent.
    """

    symbols: Mapping[str, int | None] = field(default_factory=dict)
    attributes: Mapping[str, AttrValue | None] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int | None] | None] = field(default_factory=dict)
    dtypes: Mapping[str, str | None] = field(default_factory=dict)
    stars: Mapping[str, Sequence[int | None] | None] = field(default_factory=dict)
    lists: Mapping[str, Sequence[int] | None] = field(default_factory=dict)
    variables: Mapping[str, int | EvaluationError] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


def evaluate(expression: Expr, environment: Environment) -> Value:
    """Return the value of an expression; None if it depends on an unknown value.

    Raises:
        EvaluationError: An intermediate result beyond 64 bits, or a division by zero.
    """
    if isinstance(expression, Constant):
        return expression.name if isinstance(expression, DtypeLiteral) else expression.value
    if isinstance(expression, Name):
        return _named(expression, environment)
    if isinstance(expression, Query):
        return _answer(expression, environment)
    return _result(expression, environment)


def _named(name: Name, environment: Environment) -> Value:
    match name:
        case Symbol():
            return environment.symbols.get(name.name)
        case Attribute():
            given = environment.attributes.get(name.name)
            return single_precision(given) if isinstance(given, float) else given
        case Variable():
            return _variable(environment.variables[name.name])


def _answer(query: Query, environment: Environment) -> Value:
    match query:
        case Present(tensor=tensor):
            return tensor in environment.shapes or environment.counts.get(tensor, 0) > 0
        case DtypeOf(tensor=tensor, index=index):
            with suppress(EvaluationError):  # dtypes have no error
                name = _tensor(tensor, index, environment)
                return environment.dtypes.get(name) if name in environment.shapes else None
            return None
        case Dims(function=function, tensor=tensor, index=index):
            return _dims(function, environment.shapes.get(_tensor(tensor, index, environment)))
        case Size(tensor=tensor, axis=axis, index=index):
            return _size(environment.shapes.get(_tensor(tensor, index, environment)), _integer(axis, environment))
        case Count(tensor=tensor):
            return environment.counts.get(tensor, 0)
        case StarDims(function=function, symbol=symbol):
            return _dims(function, environment.stars.get(symbol))
        case Item(source=source, index=index):
            return _item(_values(source, environment), _integer(index, environment))
        case Fold():
            return _fold(query, environment)


def _tensor(tensor: str, index: Expr | None, environment: Environment) -> str:
    """Return the name of a tensor, or of the tensor at an index of a list; "" if there is none."""
    if index is None:
        return tensor
    number, count = _integer(index, environment), environment.counts.get(tensor, 0)
    if number is None or count == 0:
        return ""
    if not -count <= number < count:
        raise EvaluationError(f"a list of {count} tensors has no tensor {number}")
    return element_name(tensor, number % count)


def _result(operation: Operation, environment: Environment) -> Value:
    match operation:
        case Choice(condition=condition, chosen=chosen, other=other):
            holds = _condition(condition, environment)
            return None if holds is None else evaluate(chosen if holds else other, environment)
        case Negative(operand=operand):
            return _arithmetic("-", 0, _integer(operand, environment))
        case Arithmetic(operator=word, left=left, right=right):
            return _arithmetic(word, _integer(left, environment), _integer(right, environment))
        case Extreme(function=word, operands=operands):
            values = [_integer(operand, environment) for operand in operands]
            return None if None in values else cast("int", OPERATORS[word].compute(*values))
        case Comparison(operator=word, left=left, right=right):
            return _compare(word, evaluate(left, environment), evaluate(right, environment))
        case Not(operand=operand):
            negated = _condition(operand, environment)
            return None if negated is None else not negated
        case Junction(operator=word, operands=operands):
            return _junction(word == "or", operands, environment)


def why_never(expression: Expr) -> str | None:
    """Return why a part of an expression never has a value: constants that divide by zero or do not fit 64 bits."""
    for part in walk(expression):
        certain = part
        if isinstance(part, Arithmetic) and part.operator in {"//", "%"} and not _is_constant(part.left):
            certain = replace(part, left=IntLiteral(0))
        try:
            if _is_constant(certain):
                evaluate(certain, Environment())
        except EvaluationError as error:
            return f"got {error}, expected a part that has a value"
    return None


def _is_constant(expression: Expr) -> bool:
    return all(isinstance(part, IntLiteral | Negative | Arithmetic | Extreme) for part in walk(expression))


def _integer(expression: Expr, environment: Environment) -> int | None:
    return cast("int | None", evaluate(expression, environment))


def _condition(expression: Expr, environment: Environment) -> bool | None:
    return cast("bool | None", evaluate(expression, environment))


def _fitting(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError(f"{value} does not fit 64 bits")
    return value


def _arithmetic(word: str, left: int | None, right: int | None) -> int | None:
    if word in {"//", "%"} and right == 0:
        raise EvaluationError("division by zero")
    if left is None or right is None:
        return None
    return _fitting(OPERATORS[word].compute(left, right))


def _dims(function: str, shape: Sequence[int | None] | None) -> int | None:
    if shape is None:
        return None
    if function == "len":
        return len(shape)
    product: int | None = 1
    for dim in shape:
        product = _arithmetic("*", product, dim)
    return product


def _size(shape: Sequence[int | None] | None, axis: int | None) -> int | None:
    if shape is None or axis is None:
        return None
    if not -len(shape) <= axis < len(shape):
        raise EvaluationError(f"a tensor of {len(shape)} dimensions has no dimension {axis}")
    return shape[axis]


def _fold(fold: Fold, environment: Environment) -> int | bool | tuple[int, ...] | None:
    values = _values(fold.source, environment)
    if values is None:
        return None
    bodies = (
        evaluate(fold.body, replace(environment, variables={**environment.variables, fold.variable: value}))
        for value in values
    )
    if fold.function == "list":
        return _those(values, cast("Iterator[bool | None]", bodies))
    if fold.function == "all":
        return _all(cast("Iterable[bool | None]", bodies))
    total: int | None = 0
    for body in bodies:
        total = _arithmetic("+", total, cast("int | None", body))
    return total


def _values(source: Source, environment: Environment) -> Sequence[int | EvaluationError] | None:
    """Return the values that a fold iterates over; None if they are unknown."""
    match source:
        case HostList(tensor=tensor, of_steps=of_steps):
            values = environment.lists.get(tensor, cast("Sequence[int] | None", environment.attributes.get(tensor)))
            if values is None or not of_steps:
                return values
            return [_difference(value, before) for value, before in zip(values, [0, *values], strict=False)]
        case Divisors(of=of):
            number = _integer(of, environment)
            return None if number is None else _divisors(number)
        case Indices(tensor=tensor):
            return range(environment.counts.get(tensor, 0))
        case Fold():
            return cast("tuple[int, ...] | None", _fold(source, environment))


def _item(values: Sequence[int | EvaluationError] | None, index: int | None) -> int | None:
    if values is None or index is None:
        return None
    if not -len(values) <= index < len(values):
        raise EvaluationError(f"a list of {len(values)} values has no value {index}")
    return int(_variable(values[index]))


def _divisors(number: int) -> list[int]:
    if not 1 <= number <= MAX_DIVIDED:
        raise EvaluationError(f"{number} as argument of divisors, which accepts 1 to {MAX_DIVIDED}")
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def _those(values: Sequence[int | EvaluationError], conditions: Iterator[bool | None]) -> tuple[int, ...] | None:
    """Return the values whose conditions are true; None if a condition is unknown."""
    pairs = list(zip(values, conditions, strict=True))
    if any(condition is None for _, condition in pairs):
        return None
    return tuple(_variable(value) for value, condition in pairs if condition)


def _difference(value: int, before: int) -> int | EvaluationError:
    try:
        return _fitting(value - before)
    except EvaluationError as error:
        return error


def _variable(value: int | EvaluationError) -> int:
    if isinstance(value, EvaluationError):
        raise value
    return value


def _all(conditions: Iterable[bool | None]) -> bool | None:
    result: bool | None = True
    for condition in conditions:
        if condition is False:
            return False
        result = None if condition is None else result
    return result


def _compare(word: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    return cast("bool", OPERATORS[word].compute(left, right))


def _junction(deciding: bool, operands: Sequence[Expr], environment: Environment) -> bool | None:
    result: bool | None = not deciding
    for operand in operands:
        value = _condition(operand, environment)
        if value is deciding:
            return deciding
        if value is None:
            result = None
    return result
