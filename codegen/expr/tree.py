"""Define the typed tree of an expression, and queries on it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Literal, TypeAlias

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
# Divisors are found by trial division, so this limits the time.
MAX_DIVIDED = 2**40


class Kind(Enum):
    """Types of the results of expressions."""

    INT = "an integer"
    BOOL = "a condition"
    DTYPE = "a dtype"
    REAL = "a decimal number"
    TEXT = "a text"
    LIST = "a list"


@dataclass(frozen=True)
class IntLiteral:
    """A 64-bit integer."""

    value: int
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class BoolLiteral:
    """`true` or `false`."""

    value: bool
    kind: Literal[Kind.BOOL] = field(default=Kind.BOOL, repr=False)


@dataclass(frozen=True)
class DtypeLiteral:
    """The name of a dtype."""

    name: str
    kind: Literal[Kind.DTYPE] = field(default=Kind.DTYPE, repr=False)


@dataclass(frozen=True)
class RealLiteral:
    """A decimal number, in single precision like attributes of type float."""

    value: float
    kind: Literal[Kind.REAL] = field(default=Kind.REAL, repr=False)


@dataclass(frozen=True)
class TextLiteral:
    """A text in quotes."""

    value: str
    kind: Literal[Kind.TEXT] = field(default=Kind.TEXT, repr=False)


@dataclass(frozen=True)
class Symbol:
    """A dimension."""

    name: str
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Attribute:
    """An attribute of the operator, or `cores`."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Present:
    """Whether a tensor is present, or a list of tensors has a tensor."""

    tensor: str
    kind: Literal[Kind.BOOL] = field(default=Kind.BOOL, repr=False)


@dataclass(frozen=True)
class DtypeOf:
    """The dtype of a tensor, or of the tensor at an index of a list; unknown for an absent one."""

    tensor: str
    index: Expr | None = None
    kind: Literal[Kind.DTYPE] = field(default=Kind.DTYPE, repr=False)


@dataclass(frozen=True)
class Dims:
    """`len` (rank) or `prod` (number of elements) of the shape of a tensor, or of the tensor at an index of a list.

    The value is unknown for an absent tensor. An index out of range is an error.
    """

    function: Literal["len", "prod"]
    tensor: str
    index: Expr | None = None
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Size:
    """One dimension of a tensor, as `Dims`; a negative axis counts from the end, an axis out of range is an error."""

    tensor: str
    axis: Expr
    index: Expr | None = None
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Count:
    """The number of tensors in a list."""

    tensor: str
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class StarDims:
    """`len` or `prod` of the dimensions of a symbol with a star."""

    function: Literal["len", "prod"]
    symbol: str
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Variable:
    """The variable of a fold over a list."""

    name: str
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class HostList:
    """The values of an input on the host or of an attribute, or the steps between them."""

    tensor: str
    of_steps: bool


@dataclass(frozen=True)
class Item:
    """A list element by index; a negative index counts from the end, and an index out of range is an error."""

    source: HostList
    index: Expr
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Divisors:
    """The divisors of an integer from 1 to MAX_DIVIDED, in ascending order; an error for other integers."""

    of: Expr


@dataclass(frozen=True)
class Indices:
    """The indices of the tensors in a list."""

    tensor: str


@dataclass(frozen=True)
class Fold:
    """`sum` or `all` over the values of a list, or the `list` of those for which the body is true."""

    function: Literal["sum", "all", "list"]
    variable: str
    body: Expr
    source: Source

    @property
    def kind(self) -> Kind:
        """Return the type of the result."""
        return {"sum": Kind.INT, "all": Kind.BOOL, "list": Kind.LIST}[self.function]


@dataclass(frozen=True)
class Negative:
    """`-x`."""

    operand: Expr
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Arithmetic:
    """`left operator right` of two integers."""

    operator: str
    left: Expr
    right: Expr
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Extreme:
    """`min` or `max` of integers."""

    function: Literal["min", "max"]
    operands: tuple[Expr, ...]
    kind: Literal[Kind.INT] = field(default=Kind.INT, repr=False)


@dataclass(frozen=True)
class Comparison:
    """`left operator right` of two operands of one kind."""

    operator: str
    left: Expr
    right: Expr
    kind: Literal[Kind.BOOL] = field(default=Kind.BOOL, repr=False)


@dataclass(frozen=True)
class Not:
    """`not x`."""

    operand: Expr
    kind: Literal[Kind.BOOL] = field(default=Kind.BOOL, repr=False)


@dataclass(frozen=True)
class Junction:
    """`and` or `or` of two conditions or more."""

    operator: Literal["and", "or"]
    operands: tuple[Expr, ...]
    kind: Literal[Kind.BOOL] = field(default=Kind.BOOL, repr=False)


@dataclass(frozen=True)
class Choice:
    """`chosen if condition else other`, two operands of one kind."""

    condition: Expr
    chosen: Expr
    other: Expr

    @property
    def kind(self) -> Kind:
        """The kind of both operands."""
        return self.chosen.kind


Constant: TypeAlias = IntLiteral | BoolLiteral | DtypeLiteral | RealLiteral | TextLiteral
Name: TypeAlias = Symbol | Attribute | Variable
# The values that a fold iterates over.
Source: TypeAlias = HostList | Divisors | Indices | Fold
# Functions of a tensor, a list or the dimensions of a symbol with a star.
Query: TypeAlias = Present | DtypeOf | Dims | Size | Count | StarDims | Item | Fold
Operation: TypeAlias = Negative | Arithmetic | Extreme | Comparison | Not | Junction | Choice
Expr: TypeAlias = Constant | Name | Query | Operation
CORES = "cores"


def element_name(tensor: str, index: int) -> str:
    """Return the name of a tensor of a list."""
    return f"{tensor}[{index}]"


def single_precision(value: float) -> float:
    """Return the value in single precision, as attributes of type float have; infinite beyond its range."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def walk(expression: Expr) -> Iterator[Expr]:
    """Yield the expression and all its subexpressions."""
    yield expression
    for one in fields(expression):
        value = getattr(expression, one.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Divisors):
                yield from walk(part.of)
            elif isinstance(part, Expr):
                yield from walk(part)


def symbols_of(expression: Expr) -> set[str]:
    """Return the dimension symbols in an expression, including those with a star."""
    stars = {node.symbol for node in walk(expression) if isinstance(node, StarDims)}
    return stars | {node.name for node in walk(expression) if isinstance(node, Symbol)}


def reads_shapes(expression: Expr) -> bool:
    """Return whether an expression can be evaluated only after the ranks are checked."""
    return bool(symbols_of(expression))


def is_about_dtype(expression: Expr, tensor: str) -> bool:
    """Return whether an expression depends on the dtype of a tensor, and on no shape."""
    parts = list(walk(expression))
    reads_dtype = any(isinstance(part, DtypeOf) and part.tensor == tensor for part in parts)
    return reads_dtype and not any(isinstance(part, Symbol | Dims | Size | StarDims) for part in parts)


def reads_attributes_only(expression: Expr) -> bool:
    """Return whether an expression depends on attributes only."""
    return all(
        isinstance(part, Constant | Attribute | Operation) and part != Attribute(CORES, Kind.INT)
        for part in walk(expression)
    )


def certainly_present(condition: Expr) -> set[str]:
    """Return the tensors that are always present if the condition is true."""
    match condition:
        case Present(tensor=tensor):
            return {tensor}
        case Junction(operator="and", operands=operands):
            return set().union(*map(certainly_present, operands))
        case _:
            return set()
