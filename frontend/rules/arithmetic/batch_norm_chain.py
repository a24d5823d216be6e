"""Match the gradient of batch normalization in standard operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.algebra import FULL, SCALAR, Algebra, Atom, Monomial, products
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.reason import Unmatched, Unrelated
from opforge.frontend.ir.scope import Scope, normal_domain
from opforge.frontend.ir.tensor_type import DTYPE_WORDS, ValueType
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.node_builder import NodeBuilder, Value
from opforge.frontend.rules.pattern import Found, Operators
from opforge.frontend.rules.rule import ExtraNodes, Match, OperatorCall, Rule

# Tolerance of float32 for equal numbers that were computed differently.
_CLOSE = 1e-6
_HALF = Fraction(1, 2)
op = Operators()
_WIDENED = op.Cast("narrow", to=TensorProto.FLOAT)


class FuseBatchNormChain(Rule):
    """`(dy - mean_dy - (x - mean) * invstd^2 * mean_dy_xmu) * invstd * weight` -> `BatchNormElemtBackward`.

    The formula is matched as a sum of products, independent of order, brackets and spelling of its nodes. A declared
    pattern would have to list each spelling: n factors have 1 * 3 * ... * (2n - 3) orders and brackets, which is 945
    for the largest of the four products and 15 for their sum. The sums may be divided by a number or by a value, or be
    means already; the second one may contain a factor of invstd.
    """

    name = "FuseBatchNormChain"
    operator = "BatchNormElemtBackward"
    group = "patterns"
    is_hinted = False
    pattern = op.Mul(...) | op.Sub(...) | op.Add(...) | op.Div(...)

    def check(self, found: Found) -> Match:
        """Match four products with the roles of the formula and known shapes."""
        context, scope, node = found.context, found.scope, found.node
        if len(node.input) != 2 or len(node.output) != 1 or not _could_be(context.algebra, scope, node.output[0]):
            raise Unrelated
        if any(_could_be(context.algebra, scope, name) for name in _scaled(context, scope, node.output[0])):
            raise Unrelated
        try:
            return _RoleAssignment(context, scope, found.nodes[0]).match()
        except Unmatched as reason:
            raise Unmatched(f"resembles a gradient of batch normalization, but {reason}") from reason

    def rewrite(self, found: Found, match: Match) -> OperatorCall:
        """Compute the vectors over the channels."""
        builder, (channels, vectors) = NodeBuilder(found.context, found.scope, found.node), match.facts
        new = {role: _written(builder, vector).name for role, vector in vectors.items()}
        dtypes = {role: Value(builder, vector.factors[0][0]).type.dtype for role, vector in vectors.items()}
        types = {new[role]: ValueType(dtype, (channels,)) for role, dtype in dtypes.items()}
        return self.call(found, match, ExtraNodes(before=tuple(builder.nodes), types=types), **new)


def _full(product: Monomial) -> list[Atom]:
    return [atom for atom, _ in product.exponents if atom.axis == FULL]


def _could_be(algebra: Algebra, scope: Scope, name: str) -> bool:
    """Return whether a value is a sum of four products, two of which have one factor of full shape each."""
    terms = algebra.terms(scope, name)
    if len(terms) != 4:
        return False
    full = [atoms for atoms in map(_full, products(terms)) if atoms]
    return len(full) == 2 and all(len(atoms) == 1 for atoms in full) and full[0] != full[1]


def _scaled(context: Context, scope: Scope, name: str) -> Iterator[str]:
    """Yield the product if the only reader of a value multiplies it by a factor."""
    number = context.view.only_reader(scope, name)
    if number is not None:
        reader = scope.node(number)
        if normal_domain(reader.domain) == "" and reader.op_type in ("Mul", "Div"):
            yield from filter(None, reader.output)


@dataclass(frozen=True)
class _Attempt:
    """One assignment of roles to products; `doubts` counts the contradictions."""

    grad_out: Monomial
    input: Monomial
    invstd: Monomial
    weight: Monomial
    mean_dy: Monomial
    mean_dy_xmu: Monomial
    mean: Monomial
    doubts: int


@dataclass(frozen=True)
class _Vector:
    """A vector over the channels, as a product.

    Attributes:
        factors: Values, their powers, and whether they are single numbers; the first one is a vector.
        coefficient: A factor.
    """

    factors: tuple[tuple[str, Fraction, bool], ...]
    coefficient: float = 1.0


@dataclass
class _RoleAssignment:
    """Assigns values and products to roles.

    Attributes:
        context: The model.
        scope: Graph of the formula.
        root: Number of the node that computes the result.
    """

    context: Context
    scope: Scope
    root: int

    def __post_init__(self) -> None:
        self._result = self.scope.node(self.root).output[0]
        self._terms = list(products(self.context.algebra.terms(self.scope, self._result)))
        self._shape = self._known_shape()
        # A division by a value that the formula divides by causes no new division by zero.
        self._divisors = {atom for product in self._terms for atom, power in product.exponents if power < 0}

    def match(self) -> Match:
        data = [product for product in self._terms if _full(product)]
        levels = [product for product in self._terms if not _full(product)]
        reasons: list[tuple[int, str]] = []
        for first, second in (data, data[::-1]):
            for mean_dy, mean in (levels, levels[::-1]):
                for attempt in self._attempts(first, second, mean_dy, mean):
                    try:
                        return self._finish(*self._values(attempt))
                    except Unmatched as reason:
                        reasons.append((attempt.doubts, str(reason)))
        reasons = reasons or [(0, "no value is a factor of the scale and, squared, of the slope")]
        raise Unmatched(min(reasons, key=lambda entry: entry[0])[1])

    def _attempts(self, dy_term: Monomial, x_term: Monomial, mean_dy: Monomial, mean: Monomial) -> Iterator[_Attempt]:
        """Yield every assignment of roles, the most probable first."""
        (dy,), (x,) = (
            (Monomial(1.0, frozenset([(s, Fraction(1))])) for s in _full(term)) for term in (dy_term, x_term)
        )
        scale = dy_term / dy
        slope = -(x_term / x) / scale
        if _full(scale) or _full(slope):
            return
        for atom, power in sorted(scale.exponents, key=lambda entry: entry[0].name):
            if abs(power) not in (1, _HALF) or slope.exponent(atom) not in (power, 2 * power):
                continue
            invstd = Monomial(1.0, frozenset([(atom, power)]))
            weight = scale / invstd
            of_dy, of_product, of_x = -mean_dy / scale, slope / invstd**2, mean / (scale * slope)
            divided = (s for product in (of_dy, of_product, of_x) for s, power in product.exponents if power < 0)
            doubts = sum(s != atom for s in divided)
            yield _Attempt(dy, x, invstd, weight, of_dy, of_product, of_x, doubts)
            if weight.exponents:
                # The gradient may be multiplied by the weight before the sum.
                means = of_dy * weight, of_product * weight
                yield _Attempt(dy * weight, x, invstd, Monomial(1.0), means[0], means[1], of_x, doubts + 1)

    def _known_shape(self) -> tuple[int, ...]:
        """Return the shape of the result, which must match that of every atom."""
        known = self.context.types.of(self.scope, self._result)
        shape = tuple(dim for dim in known.shape or () if dim is not None)
        if known.shape is None or len(shape) < max(len(known.shape), 2):
            raise Unmatched(f"{shown(self._result)} is {known}, expected a known shape of rank 2 or more")
        channel = len(shape) - 2
        for atom in sorted({s for product in self._terms for s, _ in product.exponents}, key=lambda s: s.name):
            found = self.context.types.of(self.scope, atom.name)
            if atom.axis == FULL:
                fits = found.shape == shape
            else:
                fits = atom.axis == SCALAR or (atom.axis == channel and _long(found) == [shape[1]])
            if not fits:
                raise Unmatched(
                    f"{shown(atom.name)} is {found} next to {list(shape)}, expected the same shape, or one"
                    " value per channel along axis 1"
                )
        return shape

    def _data(self, product: Monomial, role: str) -> str:
        """Return the full-shape value of a product."""
        name = self.context.algebra.name_of(self.scope, product)
        if name is None or self.context.types.of(self.scope, name).shape != self._shape:
            raise Unmatched(f"no value of the graph is {role}")
        return name

    def _vector(self, product: Monomial, role: str, divisors: Sequence[Atom] = ()) -> _Vector:
        """Return a product as a vector over the channels; the graph may have its value.

        Args:
            product: The product.
            role: For messages.
            divisors: Allowed divisors, in addition to those of the formula.
        """
        known = self.context.algebra.name_of(self.scope, product)
        if known is not None and _long(self._type(known)) == self._channels:
            return _Vector(((known, Fraction(1), False),))
        factors: list[tuple[str, Fraction, bool]] = []
        for atom, power in sorted(product.exponents, key=lambda entry: (entry[0].axis == SCALAR, -entry[1])):
            if abs(power) not in (1, _HALF) or (power < 0 and atom not in {*divisors, *self._divisors}):
                raise Unmatched(f"{role} would be {shown(atom.name)} to the power of {power}")
            # A vector is first, because its factor may be a single number.
            type_, is_number = self._type(atom.name), bool(factors) and atom.axis == SCALAR
            if is_number and len(type_.shape or ()) > 1:
                raise Unmatched(f"{role} would have the axes of {shown(atom.name)}")
            if not is_number and _long(type_) != self._channels:
                raise Unmatched(f"{role} would be {shown(atom.name)}, which is {type_}; expected one value per channel")
            factors.append((atom.name, power, is_number))
        if not factors or not np.isfinite(product.coefficient):
            raise Unmatched(f"{role} would be the number {product.coefficient:g}")
        if _is(product.coefficient, 1):
            return _Vector(tuple(factors))
        if (type_ := self._type(factors[0][0])).dtype != "float32":
            raise Unmatched(f"{shown(factors[0][0])} is {type_}, expected float32 where it has a factor")
        return _Vector(tuple(factors), product.coefficient)

    def _type(self, name: str) -> ValueType:
        return self.context.types.of(self.scope, name)

    @property
    def _channels(self) -> list[int]:
        """Return the dims of a vector over the channels that are not 1."""
        return [] if self._shape[1] == 1 else [self._shape[1]]

    def _values(self, attempt: _Attempt) -> tuple[dict[str, Any], dict[str, _Vector]]:
        """Return values and vectors by parameter of the operator."""
        divisors = [atom for atom, _ in attempt.invstd.exponents]
        if not _is(attempt.mean.coefficient, abs(attempt.mean.coefficient)):
            raise Unmatched("the mean is added, expected subtracted")
        values = {
            "grad_out": self._data(attempt.grad_out, "the gradient"),
            "input": self._data(attempt.input, "the input"),
        }
        vectors = {
            "mean": self._vector(attempt.mean, "mean"),
            "invstd": self._vector(attempt.invstd, "invstd", divisors),
        }
        if attempt.weight.exponents or not _is(attempt.weight.coefficient, 1):
            vectors["weight"] = self._vector(attempt.weight, "weight", divisors)
        count = _count(attempt.mean_dy, attempt.mean_dy_xmu)
        for role, mean in (("sum_dy", attempt.mean_dy), ("sum_dy_xmu", attempt.mean_dy_xmu)):
            total = mean * count
            if not _is(total.coefficient, 1) or sum(power > 0 for _, power in total.exponents) != 1:
                names = ", ".join(sorted(shown(atom.name) for atom, _ in total.exponents))
                raise Unmatched(f"{role} would be {total.coefficient:g} times a product of {names}, expected one value")
            vectors[role] = self._vector(total, role, divisors)
        return values | {"counter": _counter(count)}, vectors

    def _finish(self, values: dict[str, Any], vectors: dict[str, _Vector]) -> Match:
        nodes, result = [self.root], self._result
        absorbed = self.context.algebra.nodes(self.scope, result) - {self.root}
        roles = ("grad_out", "input")
        found = (_WIDENED.find(self.context, self.scope, values[role]) for role in roles)
        casts = [cast for cast in found if cast is not None]
        narrow = [cast.type("narrow").dtype for cast in casts]
        reader = self.context.view.only_reader(self.scope, result)
        # float32 computation for float16 data equals that of the operator.
        if reader is not None and narrow in (["float16"] * len(roles), ["bfloat16"] * len(roles)):
            last = self.scope.node(reader)
            if last.op_type == "Cast" and DTYPE_WORDS.get(int_attribute(last, "to") or 0) == narrow[0]:
                nodes.append(reader)
                result = last.output[0]
                absorbed.update(number for cast in casts for number in cast.nodes)
                values |= {role: cast.names["narrow"] for role, cast in zip(roles, casts, strict=True)}
        return Match(
            values | {"grad_input": result}, {}, tuple(nodes), tuple(sorted(absorbed)), facts=(self._shape[1], vectors)
        )


def _written(builder: NodeBuilder, vector: _Vector) -> Value:
    """Return a vector; add the nodes that compute it."""
    factors = ((_factor(builder, *factor), factor[1] > 0) for factor in vector.factors)
    result, is_multiplied = next(factors)
    if not is_multiplied:
        result = builder.op("Reciprocal", result)
    for factor, is_multiplied in factors:
        result = result * factor if is_multiplied else result / factor
    return result if vector.coefficient == 1 else result * builder.array(np.array(vector.coefficient, np.float32))


def _factor(builder: NodeBuilder, name: str, power: Fraction, is_number: bool) -> Value:
    """Return a value without axes of size 1, or its root."""
    value = Value(builder, name)
    flat = value if is_number or value.rank == 1 else value.reshape(-1)
    return builder.op("Sqrt", flat) if abs(power) == _HALF else flat


def _count(mean_dy: Monomial, mean_dy_xmu: Monomial) -> Monomial:
    """Return the divisor of both sums: one number or value."""
    for atom, power in mean_dy.exponents:
        if atom.axis == SCALAR and power == -1 and mean_dy_xmu.exponent(atom) == -1:
            return Monomial(1.0, frozenset([(atom, Fraction(1))]))
    first, second = mean_dy.coefficient, mean_dy_xmu.coefficient
    if first <= 0 or not _is(first, second):
        raise Unmatched(f"the two sums have the factors {first:g} and {second:g}, expected one positive number")
    return Monomial(1 / first)


def _counter(count: Monomial) -> str | NDArray[Any]:
    """Return the name of a counter, or the number; integers are exact."""
    for atom, _ in count.exponents:
        return atom.name
    whole = round(count.coefficient)
    is_whole = _is(count.coefficient, whole) and 0 < whole < 2**24
    return np.array([whole], np.int32) if is_whole else np.array([count.coefficient], np.float32)


def _is(value: float, expected: float) -> bool:
    return bool(np.isclose(value, expected, rtol=_CLOSE, atol=0.0))


def _long(known: ValueType) -> list[int | None] | None:
    """Return the dims other than 1."""
    return None if known.shape is None else [dim for dim in known.shape if dim != 1]
