"""Express values of a graph as sums of products, independent of the order of their nodes.

Only elementwise arithmetic is analyzed; other values are atoms. A vector along one axis may be reshaped, so each
atom stores the axis, counted from the end, along which it varies where it is used.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from onnx import NodeProto

from .attributes import int_attribute
from .constants import Constants
from .reason import Unmatched
from .scope import Scope, normal_domain
from .value_types import ValueTypes

# Limits; longer sums and deeper chains become a new atom.
_MAX_TERMS = 8
_MAX_DEPTH = 64
_POWERS = {"Reciprocal": Fraction(-1), "Sqrt": Fraction(1, 2)}
_RESHAPING = ("Expand", "Reshape", "Squeeze", "Unsqueeze")
_FOLLOWED = {"Add", "Div", "Identity", "Mul", "Neg", "Pow", "Reciprocal", "Sqrt", "Sub", *_RESHAPING}

SCALAR, FULL = -1, -2


@dataclass(frozen=True)
class Atom:
    """A value that is not analyzed further.

    Attributes:
        name: Its name.
        axis: Axis from the end along which it varies where it is used; `SCALAR` for none, `FULL` for several.
    """

    name: str
    axis: int


# Exponent by atom.
Exponents = frozenset[tuple[Atom, Fraction]]
# Coefficient by the exponents of a product; a sum of products.
Terms = Mapping[Exponents, float]

_NOTHING: Exponents = frozenset()


@dataclass(frozen=True)
class Monomial:
    """A number times powers of atoms."""

    coefficient: float
    exponents: Exponents = _NOTHING

    def __mul__(self, other: Monomial) -> Monomial:
        exponents = dict(self.exponents)
        for atom, exponent in other.exponents:
            exponents[atom] = exponents.get(atom, Fraction(0)) + exponent
        left = frozenset((atom, exponent) for atom, exponent in exponents.items() if exponent)
        return Monomial(self.coefficient * other.coefficient, left)

    def __truediv__(self, other: Monomial) -> Monomial:
        return self * other**-1

    def __pow__(self, exponent: int | Fraction) -> Monomial:
        powers = frozenset((atom, power * exponent) for atom, power in self.exponents)
        return Monomial(float(self.coefficient ** float(exponent)), powers)

    def __neg__(self) -> Monomial:
        return Monomial(-self.coefficient, self.exponents)

    def exponent(self, atom: Atom) -> Fraction:
        """Return the power of an atom; 0 if it does not occur."""
        return dict(self.exponents).get(atom, Fraction(0))


def products(terms: Terms) -> Iterator[Monomial]:
    """Return the summands."""
    return (Monomial(coefficient, exponents) for exponents, coefficient in terms.items())


class Algebra:
    """Analyzes the arithmetic of a model; results are cached."""

    def __init__(self, types: ValueTypes, constants: Constants) -> None:
        self._types = types
        self._constants = constants
        self._known: dict[tuple[int, str], Terms] = {}
        self._named: dict[tuple[int, Hashable], str] = {}
        self._casts: dict[tuple[int, str, int | None], str] = {}

    def terms(self, scope: Scope, name: str, depth: int = 0) -> Terms:
        """Return a value as a sum of products."""
        key = scope.number, name
        if key not in self._known:
            terms = self._read(scope, name, depth)
            self._known[key] = terms if len(terms) <= _MAX_TERMS else self._symbol(scope, name)
            if len(self._known[key]) == 1:
                self._named.setdefault((scope.number, _plain(*products(self._known[key]))), name)
        return self._known[key]

    def name_of(self, scope: Scope, product: Monomial) -> str | None:
        """Return an analyzed value of the graph that equals this product, with a checked shape."""
        return self._named.get((scope.number, _plain(product)))

    def nodes(self, scope: Scope, name: str) -> set[int]:
        """Return numbers of the nodes that were analyzed for a value."""
        found: set[int] = set()
        names = [name]
        while names:
            name = names.pop()
            number = scope.makers.get(name, -1)
            if number in found or number < 0 or self._is_symbol(scope, name) or not _is_followed(scope.node(number)):
                continue
            found.add(number)
            names += scope.node(number).input
        return found

    def _is_symbol(self, scope: Scope, name: str) -> bool:
        return any(atom.name == name for powers in self._known.get((scope.number, name), {}) for atom, _ in powers)

    def _symbol(self, scope: Scope, name: str) -> Terms:
        number = scope.makers.get(name, -1)
        node = scope.node(number) if number >= 0 else NodeProto()
        if node.op_type == "Cast" and node.input:
            # Exporters insert one cast of a value for each reader.
            name = self._casts.setdefault((scope.number, node.input[0], int_attribute(node, "to")), name)
        axis = _axis(self._types.of(scope, name).shape)
        return {frozenset([(Atom(name, FULL if axis is None else axis), Fraction(1))]): 1.0}

    def _read(self, scope: Scope, name: str, depth: int) -> Terms:
        if _axis(self._types.of(scope, name).shape) == SCALAR and (number := self._number(scope, name)) is not None:
            return {_NOTHING: number}
        number = scope.makers.get(name, -1)
        if number < 0 or depth > _MAX_DEPTH or not _is_followed(scope.node(number)):
            return self._symbol(scope, name)
        return self._of_node(scope, scope.node(number), depth + 1) or self._symbol(scope, name)

    def _exponent(self, scope: Scope, name: str) -> float:
        """Return one number, which may be an integer with a float base; 0 if there is none."""
        try:
            value = self._constants.value(scope, name)
        except Unmatched:
            return 0.0
        return float(value.item()) if value.size == 1 and value.dtype.kind in "fi" else 0.0

    def _number(self, scope: Scope, name: str) -> float | None:
        try:
            value = self._constants.value(scope, name)
        except Unmatched:
            return None
        return float(value.item()) if value.dtype.kind == "f" else None

    def _of_node(self, scope: Scope, node: NodeProto, depth: int) -> Terms | None:
        first = self.terms(scope, node.input[0], depth)
        if node.op_type == "Identity":
            return first
        if node.op_type == "Neg":
            return {powers: -coefficient for powers, coefficient in first.items()}
        if node.op_type in _RESHAPING:
            return self._moved(scope, node, first)
        if node.op_type in _POWERS:
            return self._power(scope, node.input[0], first, _POWERS[node.op_type])
        if len(node.input) != 2:
            return None
        second = self.terms(scope, node.input[1], depth)
        if node.op_type == "Pow":
            exponent = self._exponent(scope, node.input[1])
            whole = exponent * 2
            return self._power(scope, node.input[0], first, Fraction(int(whole), 2)) if whole in range(-6, 7) else None
        if node.op_type in ("Add", "Sub"):
            sign = 1 if node.op_type == "Add" else -1
            return _sum([*products(first), *(Monomial(sign) * product for product in products(second))])
        if node.op_type == "Div":
            inverse = self._power(scope, node.input[1], second, Fraction(-1))
            return None if inverse is None else _product(first, inverse)
        return _product(first, second)

    def _power(self, scope: Scope, name: str, terms: Terms, exponent: Fraction) -> Terms | None:
        """Return a power of a value; a sum becomes an atom."""
        if len(terms) != 1:
            terms = self._symbol(scope, name)
        (product,) = products(terms)
        if not product.coefficient or not exponent:
            return None
        # The root of a square is not a product, because its sign is lost.
        is_plain = product.coefficient == 1 and [power for _, power in product.exponents] == [1]
        return _sum([product**exponent]) if exponent.denominator == 1 or is_plain else None

    def _moved(self, scope: Scope, node: NodeProto, terms: Terms) -> Terms | None:
        """Return a vector, or one number, in another shape, with its new axis."""
        before = _axis(self._types.of(scope, node.input[0]).shape)
        shape = self._types.of(scope, node.output[0]).shape
        after = _axis(shape)
        if node.op_type == "Expand":
            # Broadcasting does not change the axis, because it is counted from the end.
            return terms if before is not None and before != FULL else None
        if before is None or after is None or FULL in (before, after) or (before == SCALAR) != (after == SCALAR):
            return None
        return {frozenset(_along(powers, after)): coefficient for powers, coefficient in terms.items()}


def _is_followed(node: NodeProto) -> bool:
    return normal_domain(node.domain) == "" and node.op_type in _FOLLOWED and bool(node.input) and all(node.input)


def _along(exponents: Exponents, axis: int) -> Iterator[tuple[Atom, Fraction]]:
    for atom, exponent in exponents:
        yield (atom if atom.axis == SCALAR else Atom(atom.name, axis)), exponent


def _axis(shape: tuple[int | None, ...] | None) -> int | None:
    """Return the axis from the end along which a value of this shape varies; None if it is unknown."""
    if shape is None:
        return None
    long = [len(shape) - 1 - place for place, dim in enumerate(shape) if dim != 1]
    return SCALAR if not long else long[0] if len(long) == 1 else FULL


def _plain(product: Monomial) -> Hashable:
    """Return a key of a product that ignores its axes."""
    return product.coefficient, frozenset((atom.name, exponent) for atom, exponent in product.exponents)


def _product(first: Terms, second: Terms) -> Terms | None:
    if len(first) * len(second) > _MAX_TERMS:
        return None
    return _sum([left * right for left in products(first) for right in products(second)])


def _sum(summands: Iterable[Monomial]) -> Terms:
    total: dict[Exponents, float] = {}
    for product in summands:
        total[product.exponents] = total.get(product.exponents, 0.0) + product.coefficient
    return {exponents: coefficient for exponents, coefficient in total.items() if coefficient}
