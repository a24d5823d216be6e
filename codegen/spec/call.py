"""Define the arguments of a call of an operator, the results of its checks, and the shapes of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from opforge.codegen.errors import UserError
from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.expr.tree import element_name

if TYPE_CHECKING:
    from .model import OpSpec

from dataclasses import replace
from typing import cast

from opforge.codegen.expr.evaluate import Environment, EvaluationError, evaluate
from opforge.codegen.expr.program import INDEX, MOST_TENSORS, Case, Dim, Program

from .parts import AttrSpec
from .section_parts import TestShape

# An unknown dimension is None or a negative number; a shape of unknown rank is None.
Shape: TypeAlias = Sequence[int | None] | None


@dataclass(frozen=True)
class Call:
    """Arguments of a call.

    Attributes:
        shapes: Shape per given tensor; inputs, and outputs if they are known. A missing key is null.
        dtypes: Dtype name per tensor; a missing key or None is unknown.
        attrs: Attribute values; a missing key means the default.
        values: Values of lists on the host; a missing key is unknown.
        formats: Storage format per tensor; a missing key is unknown.
        counts: The number of tensors per list, if tensors at its end are null. In the other fields, the tensors of a
            list have the keys `x[0]`, `x[1]` and so on.
        product: The product of the call; None is unknown. Rules for single products are then skipped.
        cores: The number of its vector cores.
    """

    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str | None] = field(default_factory=dict)
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    values: Mapping[str, Sequence[int]] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    product: str | None = None
    cores: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def tensors_in(self, name: str) -> int:
        """Return the number of tensors in a list; 0 if it is null."""
        indices = [int(key[len(name) + 1 : -1]) for key in self.shapes if key.startswith(f"{name}[")]
        return max([self.counts.get(name, 0), *(index + 1 for index in indices)])


@dataclass(frozen=True)
class TensorType:
    """Shape and dtype of an output: dimensions of -1 and a dtype of None are unknown."""

    shape: tuple[int, ...] | None
    dtype: str | None


@dataclass(frozen=True)
class Violation:
    """The first constraint that a call violates."""

    op_type: str
    label: str
    status: int
    parameter: str
    got: str
    expected: str

    @property
    def message(self) -> str:
        """Return one line with operator, parameter, got, expected and label, equal in all back ends."""
        return f"{self.op_type}: {self.parameter}: got {self.got}, expected {self.expected} [{self.label}]"


class ShapeInferenceError(ValueError):
    """The outputs cannot be inferred, because the call violates a constraint."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.message)
        self.violation = violation
        self.label = violation.label
        self.status = violation.status


T = TypeVar("T")


def named_members(spec: OpSpec, name: str, value: Any) -> dict[str, Any]:
    """Return the arrays of a parameter by name: `x`, or `x[0]`, `x[1]` and so on for a list of tensors.

    Raises:
        UserError: The parameter is a list of tensors, but the value is no list.
    """
    if name not in spec.program.lists or value is None:
        return {name: value}
    if not isinstance(value, list | tuple):
        raise UserError(f"{spec.op_type}: {name}: got {type(value).__name__}, expected a list of arrays, as in [a, b]")
    return {element_name(name, index): array for index, array in enumerate(value)}


def parameter_of(name: str) -> str:
    """Return the parameter of a tensor; `x[0]` is a tensor of the list `x`."""
    return name.partition("[")[0]


def with_lists(arrays: Mapping[str, T]) -> dict[str, T | list[T]]:
    """Return arrays by parameter; a list of tensors is a list of arrays."""
    lists: dict[str, list[T]] = {}
    found: dict[str, T | list[T]] = {}
    for key, array in arrays.items():
        name, bracket, _ = key.partition("[")
        if bracket:
            lists.setdefault(name, []).append(array)
            found[name] = lists[name]
        else:
            found[name] = array
    return found


def shapes_of_test(program: Program, test: TestShape, attrs: Mapping[str, AttrSpec]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor that the case of a test lists; the tensors of a list are `x[0]`, `x[1]`, ...

    Args:
        program: The cases.
        test: Values for the symbols of a case and for attributes.
        attrs: All attributes by name, for their defaults.

    Raises:
        EvaluationError: A dimension has no 64-bit value, or a negative one.
    """
    case = program.case(test.case)
    counts = dict(test.counts)
    counts |= {binding.tensor: len(cast("Sequence[object]", test.symbols[binding.symbol])) for binding in case.members}
    counts |= {name: counts[first] for first in case.parallel[:1] for name in case.parallel}
    values = {name: test.attrs.get(name, attr.default) for name, attr in attrs.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    members = {binding.symbol for binding in case.members}
    plain = {name: size for name, size in test.symbols.items() if name not in members}
    environment = replace(_with_symbols(Environment(shapes=shapes, counts=counts), plain), attributes=values)
    left = dict(case.shapes)
    while left:  # dimensions may contain sizes of other tensors
        for name, dims in (known := left).items():
            if name not in program.lists:
                found = {name: _shape_of(dims, environment)}
            else:
                if name not in counts:
                    counts[name] = _count(name, program, environment)
                found = {
                    element_name(name, i): _shape_of(dims, _of_member(environment, case, test, i))
                    for i in range(counts[name])
                }
            if None not in found.values():
                shapes |= cast("dict[str, tuple[int, ...]]", found)
        left = {name: dims for name, dims in known.items() if _first(name, program) not in shapes}
        if left == known:
            raise EvaluationError(f"{name} without a size")
    return shapes


def _first(name: str, program: Program) -> str:
    return element_name(name, 0) if name in program.lists else name


def _count(name: str, program: Program, environment: Environment) -> int:
    count = evaluate(program.counts[name], environment) if name in program.counts else None
    if not isinstance(count, int) or not 1 <= count <= MOST_TENSORS:
        raise EvaluationError(f"{count} tensors in {name}")
    return count


def _of_member(environment: Environment, case: Case, test: TestShape, index: int) -> Environment:
    """Return the names in the shape of the tensor at an index of a list."""
    values = {b.symbol: cast("Sequence[int | Sequence[int]]", test.symbols[b.symbol]) for b in case.members}
    own = {symbol: of[index] for symbol, of in values.items() if index < len(of)}
    return replace(_with_symbols(environment, own), variables={INDEX: index})


def _with_symbols(environment: Environment, values: Mapping[str, object]) -> Environment:
    sizes = {name: size for name, size in values.items() if isinstance(size, int)}
    stars = {name: cast("Sequence[int]", size) for name, size in values.items() if not isinstance(size, int)}
    return replace(environment, symbols={**environment.symbols, **sizes}, stars={**environment.stars, **stars})


def _shape_of(dims: Sequence[Dim], environment: Environment) -> tuple[int, ...] | None:
    """Return a shape; None if a dimension is not known yet."""
    shape: list[int | None] = []
    for dim in dims:
        found = environment.stars[dim.star] if dim.star else [cast("int | None", evaluate(dim.expression, environment))]
        if found and (found[0] or 0) < 0:
            raise EvaluationError(f"{dim.text} = {found[0]}")
        shape += found or ()
    return None if None in shape else tuple(cast("list[int]", shape))
