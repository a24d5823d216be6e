"""The Python back end of the expression language."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from opforge.codegen.expr import (
    INT_MAX,
    INT_MIN,
    Arithmetic,
    Attribute,
    BoolLiteral,
    Comparison,
    Dims,
    DtypeLiteral,
    DtypeOf,
    Expr,
    Extreme,
    IntLiteral,
    Junction,
    Negative,
    Not,
    Present,
    Symbol,
)

# None: unknown. A dtype is its name.
Value: TypeAlias = int | bool | str | None


class EvaluationError(ArithmeticError):
    """A result beyond 64 bits, or a division by zero."""


@dataclass(frozen=True)
class Environment:
    """What the names of an expression stand for.

    Attributes:
        symbols: Dimensions; None or missing is unknown.
        attributes: Attribute values; missing is unknown.
        shapes: Shape per present tensor, None for an unknown rank; a missing tensor is absent.
        dtypes: Dtype name per tensor; None or missing is unknown.
    """

    symbols: Mapping[str, int | None] = field(default_factory=dict)
    attributes: Mapping[str, int | bool] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int | None] | None] = field(default_factory=dict)
    dtypes: Mapping[str, str | None] = field(default_factory=dict)


def evaluate(expression: Expr, environment: Environment) -> Value:
    """The value of an expression; None if it depends on something unknown.

    Raises:
        EvaluationError: An intermediate result beyond 64 bits, or a division by zero.
    """
    match expression:
        case IntLiteral(value=value) | BoolLiteral(value=value):
            return value
        case DtypeLiteral(name=name):
            return name
        case Symbol(name=name):
            return environment.symbols.get(name)
        case Attribute(name=name):
            return environment.attributes.get(name)
        case Present(tensor=tensor):
            return tensor in environment.shapes
        case DtypeOf(tensor=tensor):
            return environment.dtypes.get(tensor) if tensor in environment.shapes else None
        case Dims(function=function, tensor=tensor):
            return _dims(function, environment.shapes.get(tensor))
        case Negative(operand=operand):
            return _arithmetic("-", 0, _integer(operand, environment))
        case Arithmetic(operator=word, left=left, right=right):
            return _arithmetic(word, _integer(left, environment), _integer(right, environment))
        case Extreme(function=function, operands=operands):
            values = [_integer(operand, environment) for operand in operands]
            known = [value for value in values if value is not None]
            if len(known) < len(values):
                return None
            return min(known) if function == "min" else max(known)
        case Comparison(operator=word, left=left, right=right):
            return _compare(word, evaluate(left, environment), evaluate(right, environment))
        case Not(operand=operand):
            condition = _condition(operand, environment)
            return None if condition is None else not condition
        case Junction(operator=word, operands=operands):
            return _junction(word == "or", operands, environment)


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
    functions: Mapping[str, Callable[[int, int], int]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "//": operator.floordiv,
        "%": operator.mod,
    }
    return _fitting(functions[word](left, right))


def _dims(function: str, shape: Sequence[int | None] | None) -> int | None:
    if shape is None:
        return None
    if function == "len":
        return len(shape)
    product: int | None = 1
    for dim in shape:
        product = _arithmetic("*", product, dim)
    return product


def _compare(word: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    functions: Mapping[str, Callable[[Any, Any], bool]] = {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
    return functions[word](left, right)


def _junction(deciding: bool, operands: Sequence[Expr], environment: Environment) -> bool | None:
    result: bool | None = not deciding
    for operand in operands:
        value = _condition(operand, environment)
        if value is deciding:
            return deciding
        if value is None:
            result = None
    return result
