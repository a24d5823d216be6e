"""Define the shapes and constraints of a spec as a program for the back ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .tree import BoolLiteral, Comparison, Expr, Junction, Kind

MAX_RANK = 8
# Tensors in a list.
MOST_TENSORS = 1024
# The index of a tensor in its list, in the shape of the tensors of a list.
INDEX = "index"
TRUE = BoolLiteral(value=True)
# A placeholder in the expected text of a message; see `limit_of`.
LIMIT = "limit"


@dataclass(frozen=True)
class Dim:
    """One dimension of a shape: its text in the spec and the parsed expression.

    With a `star`, it represents any number of dimensions; the expression is then their number.
    """

    text: str
    expression: Expr
    star: str = ""


@dataclass(frozen=True)
class Binding:
    """The source of the value of a symbol: entry `position` of the shape of a tensor, which has `rank` entries.

    Attributes:
        star: The entry with any number of dimensions, or None.
    """

    symbol: str
    tensor: str
    position: int
    rank: int
    star: int | None

    @property
    def is_star(self) -> bool:
        """Return whether the symbol represents any number of dimensions."""
        return self.position == self.star

    @property
    def axis(self) -> int:
        """Return the axis of the dimension; after a star it is negative and counts from the end."""
        is_behind = self.star is not None and self.position > self.star
        return self.position - self.rank if is_behind else self.position

    def dims_of(self, shape: Sequence[int | None]) -> Sequence[int | None]:
        """Return the dimensions of a shape that belong to a symbol with a star."""
        return shape[self.position : len(shape) - (self.rank - 1 - self.position)]


@dataclass(frozen=True)
class Case:
    """One case: its condition, the shape of each listed tensor, and the sources of its symbols.

    Attributes:
        shapes: The shape per tensor; that of a list is the shape of each of its tensors.
        members: The sources of the symbols of the tensors with one index in lists.
        parallel: The lists that share such symbols and so have equal numbers of tensors; an input is the first.
    """

    name: str
    when_text: str
    when: Expr
    shapes: Mapping[str, tuple[Dim, ...]]
    bindings: tuple[Binding, ...]
    members: tuple[Binding, ...] = ()
    parallel: tuple[str, ...] = ()

    def rank_range(self, tensor: str) -> tuple[int, int]:
        """Return the minimum and the maximum number of dimensions of a tensor."""
        dims = self.shapes[tensor]
        has_star = any(dim.star for dim in dims)
        return (len(dims) - 1, MAX_RANK) if has_star else (len(dims), len(dims))

    def shape_text(self, tensor: str) -> str:
        """Return the shape in the form of the spec, `[T, H]`."""
        return f"[{', '.join(dim.text for dim in self.shapes[tensor])}]"

    def rank_text(self, tensor: str, cases: Iterable[Case]) -> str:
        """Return the shape, with the condition of this case if the tensor has another rank in another case."""
        ranks = {case.rank_range(tensor) for case in cases if tensor in case.shapes}
        condition = f" if {self.when_text}" if len(ranks) > 1 and self.when_text != "true" else ""
        return self.shape_text(tensor) + condition


@dataclass(frozen=True)
class Constraint:
    """One labelled rule or condition, in the order of checks.

    Attributes:
        blanks: The expressions of the placeholders in `expected`.
    """

    label: str
    status: int
    rule: str | None = None
    check: Expr = TRUE
    case: str | None = None
    products: tuple[str, ...] = ()
    subject: str = ""
    expected: str = ""
    blanks: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def pieces(self) -> list[str | Expr]:
        """Return `expected` with expressions instead of placeholders."""
        pattern = "|".join(re.escape(f"{{{name}}}") for name in self.blanks)
        texts = re.split(f"({pattern})", self.expected) if pattern else [self.expected]
        return [self.blanks[text[1:-1]] if place % 2 else text for place, text in enumerate(texts)]


def limit_of(check: Expr) -> Expr | None:
    """Return the value of `{limit}`: the right side of the last comparison of integers; None if there is none."""
    match check:
        case Comparison(right=right) if right.kind is Kind.INT:
            return right
        case Junction(operands=operands):
            return limit_of(operands[-1])
        case _:
            return None


@dataclass(frozen=True)
class Work:
    """Inputs of a shared plan: sizes and fields of the tiling data by name, and conditions of keys."""

    sizes: Mapping[str, Expr]
    values: Mapping[str, Expr]
    keys: tuple[Expr, ...]


@dataclass(frozen=True)
class Values:
    """The valid values of an input: from `bounds[0]` to below `bounds[1]`, or ranges of the rows of `ends_of`.

    Attributes:
        lengths: The condition under which ranges of rows are given by lengths instead of ends.
    """

    bounds: tuple[Expr, Expr] | None
    ends_of: str
    lengths: Expr


@dataclass(frozen=True)
class Program:
    """Cases, constraints, work of the shared plan, valid values by input and shape of the forward result.

    Attributes:
        counts: The number of tensors in each output list that is not parallel to input lists.
        lists: The inputs and outputs that are lists of tensors.
    """

    cases: tuple[Case, ...]
    constraints: tuple[Constraint, ...]
    work: Work
    values: Mapping[str, Values]
    forward: tuple[Dim, ...] = ()
    counts: Mapping[str, Expr] = field(default_factory=dict)
    lists: tuple[str, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return the symbols of all cases for one dimension, in the order of their first appearance."""
        return _symbols((case.bindings for case in self.cases), is_star=False)

    @property
    def stars(self) -> tuple[str, ...]:
        """Return the symbols of all cases for any number of dimensions."""
        return _symbols((case.bindings for case in self.cases), is_star=True)

    @property
    def member_symbols(self) -> tuple[str, ...]:
        """Return the symbols of the tensors of lists for one dimension."""
        return _symbols((case.members for case in self.cases), is_star=False)

    @property
    def member_stars(self) -> tuple[str, ...]:
        """Return the symbols of the tensors of lists for any number of dimensions."""
        return _symbols((case.members for case in self.cases), is_star=True)

    def case(self, name: str) -> Case:
        """Return the case called `name`."""
        return next(case for case in self.cases if case.name == name)

    def rule(self, name: str) -> Constraint:
        """Return the constraint of a built-in rule."""
        return next(constraint for constraint in self.constraints if constraint.rule == name)


def _symbols(groups: Iterable[Sequence[Binding]], *, is_star: bool) -> tuple[str, ...]:
    bindings = [binding for group in groups for binding in group if binding.is_star == is_star]
    return tuple(dict.fromkeys(binding.symbol for binding in bindings))
