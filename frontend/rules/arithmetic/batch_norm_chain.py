"""Match the gradient of batch normalization in standard operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from onnx import NodeProto, TensorProto, helper

from opforge.codegen.printing import shown
from opforge.frontend.ir.algebra import FULL, SCALAR, Algebra, Atom, Monomial, products
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.reason import Unmatched, Unrelated
from opforge.frontend.ir.scope import Scope, normal_domain
from opforge.frontend.ir.tensor_type import DTYPE_WORDS, ValueType
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.pattern import Operators
from opforge.frontend.rules.rule import ExtraNodes, Match, Rule

# Tolerance of float32 for equal numbers that were computed differently.
_CLOSE = 1e-6
_HALF = Fraction(1, 2)
op = Operators()
_WIDENED = op.Cast("narrow", to=TensorProto.FLOAT)


class FuseBatchNormChain(Rule):
    """`(dy - mean_dy - (x - mean) * invstd^2 * mean_dy_xmu) * invstd * weight` -> `BatchNormElemtBackward`.

    The formula is matched as a sum of products, independent of order, brackets and spelling of its nodes. This is the
    only rule whose pattern has only node types, because declared patterns would have to list every spelling. The sums
    may be divided by a number or by a value, or be means already; the second one may contain a factor of invstd.
    """

    name = "FuseBatchNormChain"
    operator = "BatchNormElemtBackward"
    group = "patterns"
    is_hinted = False
    pattern = op.Mul(...) | op.Sub(...) | op.Add(...) | op.Div(...)

    def check(self, context: Context, scope: Scope, number: int) -> Match:
        """Match four products with the roles of the formula and known shapes."""
        node = scope.node(number)
        if len(node.input) != 2 or len(node.output) != 1 or not _could_be(context.algebra, scope, node.output[0]):
            raise Unrelated
        if any(_could_be(context.algebra, scope, name) for name in _scaled(context, scope, node.output[0])):
            raise Unrelated
        try:
            return _RoleAssignment(context, scope, number).match()
        except Unmatched as reason:
            raise Unmatched(f"resembles a gradient of batch normalization, but {reason}") from reason


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


@dataclass
class _RoleAssignment:
    """Assigns values to roles, and adds nodes for missing values.

    Attributes:
        context: The model.
        scope: Graph of the formula.
        root: Number of the node that computes the result.
        before: Nodes that compute missing values.
        types: Their types.
    """

    context: Context
    scope: Scope
    root: int
    before: list[NodeProto] = field(default_factory=list)
    types: dict[str, ValueType] = field(default_factory=dict)

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
                    self.before, self.types = [], {}
                    try:
                        return self._finish(self._values(attempt))
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

    def _vector(self, product: Monomial, role: str, divisors: Sequence[Atom] = ()) -> str:
        """Return a product as a vector over the channels; add nodes if the graph does not have it.

        Args:
            product: The product.
            role: For messages.
            divisors: Allowed divisors, in addition to those of the formula.
        """
        known = self.context.algebra.name_of(self.scope, product)
        if known is not None and _long(self.context.types.of(self.scope, known)) == self._channels:
            return self._flat(known, role)
        result = None
        for atom, power in sorted(product.exponents, key=lambda entry: (entry[0].axis == SCALAR, -entry[1])):
            if abs(power) not in (1, _HALF) or (power < 0 and atom not in {*divisors, *self._divisors}):
                raise Unmatched(f"{role} would be {shown(atom.name)} to the power of {power}")
            # A vector is first, because its factor may be a single number.
            is_number = result is not None and atom.axis == SCALAR
            if is_number and len(self._known_type(atom.name).shape or ()) > 1:
                raise Unmatched(f"{role} would have the axes of {shown(atom.name)}")
            factor = atom.name if is_number else self._flat(atom.name, role)
            if abs(power) == _HALF:
                factor = self._made("Sqrt", factor)
            if result is None:
                result = factor if power > 0 else self._made("Reciprocal", factor)
            else:
                result = self._made("Mul" if power > 0 else "Div", result, factor)
        if result is None or not np.isfinite(product.coefficient):
            raise Unmatched(f"{role} would be the number {product.coefficient:g}")
        return result if _is(product.coefficient, 1) else self._times(result, product.coefficient)

    @property
    def _channels(self) -> list[int]:
        """Return the dims of a vector over the channels that are not 1."""
        return [] if self._shape[1] == 1 else [self._shape[1]]

    def _known_type(self, name: str) -> ValueType:
        return self.types.get(name) or self.context.types.of(self.scope, name)

    def _number(self, value: float) -> str:
        """Return a constant counter; integers are exact."""
        whole = round(value)
        is_whole = _is(value, whole) and 0 < whole < 2**24
        name = self.context.value_names.fresh("counter")
        array = np.array([whole], np.int32) if is_whole else np.array([value], np.float32)
        self.before.append(constant(name, array))
        self.types[name] = ValueType(array.dtype.name, (1,))
        return name

    def _times(self, name: str, value: float) -> str:
        if self._known_type(name).dtype != "float32":
            raise Unmatched(f"{shown(name)} is {self._known_type(name)}, expected float32 where it has a factor")
        factor = self.context.value_names.fresh("factor")
        self.before.append(constant(factor, np.array(value, np.float32)))
        return self._made("Mul", name, factor)

    def _flat(self, name: str, role: str) -> str:
        """Return a vector over the channels without axes of size 1."""
        known = self._known_type(name)
        if known.shape is None or _long(known) != self._channels:
            raise Unmatched(f"{role} would be {shown(name)}, which is {known}; expected one value per channel")
        if len(known.shape) == 1:
            return name
        dims = self.context.value_names.fresh("channels")
        self.before.append(constant(dims, np.array([-1], np.int64)))
        return self._made("Reshape", name, dims)

    def _made(self, op_type: str, *inputs: str) -> str:
        name = self.context.value_names.fresh(op_type.lower())
        self.before.append(helper.make_node(op_type, inputs, [name]))
        self.types[name] = ValueType(self._known_type(inputs[0]).dtype, (self._shape[1],))
        return name

    def _values(self, attempt: _Attempt) -> dict[str, str]:
        """Return values by parameter of the operator."""
        divisors = [atom for atom, _ in attempt.invstd.exponents]
        if not _is(attempt.mean.coefficient, abs(attempt.mean.coefficient)):
            raise Unmatched("the mean is added, expected subtracted")
        values = {
            "grad_out": self._data(attempt.grad_out, "the gradient"),
            "input": self._data(attempt.input, "the input"),
            "mean": self._vector(attempt.mean, "mean"),
            "invstd": self._vector(attempt.invstd, "invstd", divisors),
        }
        if attempt.weight.exponents or not _is(attempt.weight.coefficient, 1):
            values["weight"] = self._vector(attempt.weight, "weight", divisors)
        count = _count(attempt.mean_dy, attempt.mean_dy_xmu)
        for role, mean in (("sum_dy", attempt.mean_dy), ("sum_dy_xmu", attempt.mean_dy_xmu)):
            total = mean * count
            if not _is(total.coefficient, 1) or sum(power > 0 for _, power in total.exponents) != 1:
                names = ", ".join(sorted(shown(atom.name) for atom, _ in total.exponents))
                raise Unmatched(f"{role} would be {total.coefficient:g} times a product of {names}, expected one value")
            values[role] = self._vector(total, role, divisors)
        values["counter"] = _only_name(count) or self._number(count.coefficient)
        return values

    def _finish(self, values: dict[str, str]) -> Match:
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
            tuple(nodes),
            values | {"grad_input": result},
            absorbed=tuple(sorted(absorbed)),
            extra_nodes=ExtraNodes(before=tuple(self.before), types=dict(self.types)),
        )


def _count(mean_dy: Monomial, mean_dy_xmu: Monomial) -> Monomial:
    """Return the divisor of both sums: one number or value."""
    for atom, power in mean_dy.exponents:
        if atom.axis == SCALAR and power == -1 and mean_dy_xmu.exponent(atom) == -1:
            return Monomial(1.0, frozenset([(atom, Fraction(1))]))
    first, second = mean_dy.coefficient, mean_dy_xmu.coefficient
    if first <= 0 or not _is(first, second):
        raise Unmatched(f"the two sums have the factors {first:g} and {second:g}, expected one positive number")
    return Monomial(1 / first)


def _only_name(product: Monomial) -> str:
    return next((atom.name for atom, _ in product.exponents), "")


def _is(value: float, expected: float) -> bool:
    return bool(np.isclose(value, expected, rtol=_CLOSE, atol=0.0))


def _long(known: ValueType) -> list[int | None] | None:
    """Return the dims other than 1."""
    return None if known.shape is None else [dim for dim in known.shape if dim != 1]
