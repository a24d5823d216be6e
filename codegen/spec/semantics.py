"""Evaluate a call of an operator, as the generated C++ (`<op>_check.h`): the first violated constraint, the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.expr.evaluate import Environment, EvaluationError, evaluate
from opforge.codegen.expr.program import Case, Constraint, Dim, Program
from opforge.codegen.expr.tree import CORES, INT_MAX, INT_MIN, Expr, is_about_dtype
from opforge.codegen.expr.value_text import alternatives, dims_text, shape_text, value_text

from .model import OpSpec
from .parts import AttrSpec, TensorSpec
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
        product: The product of the call; None is unknown, and rules for single products are skipped.
        cores: Its cores.
    """

    shapes: Mapping[str, Shape]
    dtypes: Mapping[str, str | None] = field(default_factory=dict)
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    values: Mapping[str, Sequence[int]] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    product: str | None = None
    cores: int | None = None


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


def check(spec: OpSpec, call: Call, *, with_outputs: bool = True, with_casts: bool = True) -> Violation | None:
    """Return the first constraint of the spec that the call violates, or None.

    Args:
        spec: The operator.
        call: The arguments. Unknown values violate no constraint.
        with_outputs: Whether the outputs are arguments, as in an aclnn call, or unknown.
        with_casts: Whether tensors are cast to the dtypes of kernels, as an aclnn function does; a node of the graph
            engine must have them already.
    """
    checker = _Checker(
        spec, call, with_outputs=with_outputs, dtypes_of=accepted_dtypes if with_casts else kernel_dtypes
    )
    return checker.violation()


def infer(spec: OpSpec, call: Call, *, with_checks: bool = True) -> dict[str, TensorType]:
    """Return the type of each output, from inputs and attributes; dtypes are propagated, not checked.

    Args:
        spec: The operator.
        call: The arguments; outputs are ignored.
        with_checks: Whether every constraint must hold, or only those that shapes need.

    Raises:
        ShapeInferenceError: The call violates a constraint on known values.
    """
    checker = _Checker(spec, call, with_outputs=False, dtypes_of=None)
    violation = checker.violation(with_checks=with_checks)
    if violation is not None:
        raise ShapeInferenceError(violation)
    return {
        output.name: TensorType(checker.output_shape(output.name), output_dtype(spec, output, call.dtypes))
        for output in spec.outputs
    }


def environment_of(spec: OpSpec, call: Call) -> Environment:
    """Return the values of names in expressions that are known from the inputs and attributes of a call."""
    checker = _Checker(spec, call, with_outputs=False, dtypes_of=None)
    checker.violation(with_checks=False)
    return checker.environment()


def output_dtype(spec: OpSpec, output: TensorSpec, dtypes: Mapping[str, str | None]) -> str | None:
    """Return the dtype of an output: of its leader, its only one, or that of the first combination of the inputs."""
    if output.dtype is not None:
        return dtypes.get(output.dtype)
    if len(output.dtypes) == 1:
        return output.dtypes[0]
    row = _combination(spec, {tensor.name: dtypes.get(tensor.name) for tensor in spec.inputs})
    return row[output.name] if row and any(dtypes.get(tensor.name) for tensor in spec.inputs) else None


def _combination(spec: OpSpec, dtypes: Mapping[str, str | None]) -> dict[str, str] | None:
    """Return the first supported combination with the known dtypes."""
    for row in spec.supported_combinations:
        if all(dtypes.get(name) in {None, dtype} for name, dtype in row.items()):
            return row
    return None


def shapes_of_test(program: Program, test: TestShape, attrs: Mapping[str, AttrSpec]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor that the case of a test lists.

    Args:
        program: The cases.
        test: Values for the symbols of a case and for attributes.
        attrs: All attributes by name, for their defaults.

    Raises:
        EvaluationError: A dimension has no 64-bit value, or a negative one.
    """
    sizes = {name: size for name, size in test.symbols.items() if isinstance(size, int)}
    stars = {name: size for name, size in test.symbols.items() if not isinstance(size, int)}
    values = {name: test.attrs.get(name, attr.default) for name, attr in attrs.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    environment, left = Environment(sizes, values, shapes, stars=stars), dict(program.case(test.case).shapes)
    while left:  # dimensions may contain sizes of other tensors
        for name, dims in (known := left).items():
            shape: list[int | None] = []
            for dim in dims:
                found = stars[dim.star] if dim.star else [cast("int | None", evaluate(dim.expression, environment))]
                if found and (found[0] or 0) < 0:
                    raise EvaluationError(f"{dim.text} = {found[0]}")
                shape += found
            if None not in shape:
                shapes[name] = tuple(cast("list[int]", shape))
        left = {name: dims for name, dims in known.items() if name not in shapes}
        if left == known:
            raise EvaluationError(f"{name} without a size")
    return shapes


def kernel_dtypes(_spec: OpSpec, tensor: TensorSpec) -> tuple[str, ...]:
    """Return the dtypes of a tensor in kernels; empty: the dtype of the tensor that it follows."""
    return () if tensor.dtype is not None else tensor.dtypes


def accepted_dtypes(spec: OpSpec, tensor: TensorSpec) -> tuple[str, ...]:
    """Return the dtypes of a tensor in aclnn functions; empty: the dtype of the tensor that it follows."""
    if tensor.dtype is not None and tensor.mix is None:
        return ()
    leader = tensor if tensor.dtype is None else spec.tensor(tensor.dtype)
    return (*leader.dtypes, *leader.casts)


class _Checker:
    """Runs the constraints in order; the rule `ranks` selects the case and binds its symbols."""

    def __init__(
        self,
        spec: OpSpec,
        call: Call,
        *,
        with_outputs: bool,
        dtypes_of: Callable[[OpSpec, TensorSpec], tuple[str, ...]] | None,
    ) -> None:
        self._spec = spec
        self._call = call
        self._tensors = spec.tensors if with_outputs else spec.inputs
        self._dtypes_of = dtypes_of
        self._dtypes = call.dtypes
        names = {tensor.name for tensor in self._tensors}
        self._shapes: dict[str, Shape] = {
            name: None if shape is None else tuple(None if dim is None or dim < 0 else dim for dim in shape)
            for name, shape in call.shapes.items()
            if name in names
        }
        self._attrs = {attr.name: call.attrs.get(attr.name, attr.default) for attr in spec.attrs}
        self._case: Case = spec.program.cases[0]
        self._symbols: dict[str, int | None] = {}
        self._stars: dict[str, Sequence[int | None] | None] = {}

    def violation(self, *, with_checks: bool = True) -> Violation | None:
        """Return the first violated constraint; without checks, only of the built-in rules."""
        rules = {
            "required": self._required,
            "dtypes": self._dtype,
            "formats": self._format,
            "ranks": self._ranks,
            "shapes": self._check_shapes,
        }
        for constraint in self._spec.program.constraints:
            if constraint.rule is None and not with_checks:
                continue
            run = rules[constraint.rule] if constraint.rule else self._check
            if (found := run(constraint)) is not None:
                return found
        return None

    def _broken(self, constraint: Constraint, parameter: str, got: str, expected: str) -> Violation:
        return Violation(self._spec.op_type, constraint.label, constraint.status, parameter, got, expected)

    def environment(self) -> Environment:
        """Return the known values of names."""
        attributes = {**self._attrs, CORES: self._call.cores}
        lists = {name: values for name, values in self._call.values.items() if name in self._shapes}
        return Environment(self._symbols, attributes, self._shapes, self._dtypes, self._stars, lists)

    def _required(self, constraint: Constraint) -> Violation | None:
        for tensor in self._tensors:
            if not tensor.optional and tensor.name not in self._shapes:
                return self._broken(constraint, tensor.name, "null", "a tensor")
        return None

    def _dtype(self, constraint: Constraint) -> Violation | None:
        for attr in self._spec.attrs:
            value = self._attrs[attr.name]
            numbers = value if isinstance(value, tuple | list) else (value,)
            if any(isinstance(number, int) and not INT_MIN <= number <= INT_MAX for number in numbers):
                return self._broken(constraint, attr.name, value_text(value), "an integer of 64 bits")
        if self._dtypes_of is None:
            return None
        for tensor in self._tensors:
            got = self._dtypes.get(tensor.name)
            if got is None or tensor.name not in self._shapes:
                continue
            if accepted := self._dtypes_of(self._spec, tensor):
                if got not in accepted:
                    return self._broken(constraint, tensor.name, got, alternatives(accepted))
                continue
            wanted = self._dtypes.get(cast("str", tensor.dtype))
            if wanted is not None and got != wanted:
                return self._broken(constraint, tensor.name, got, f"{wanted}, the dtype of {tensor.dtype}")
        return self._combination(constraint)

    def _combination(self, constraint: Constraint) -> Violation | None:
        given = {t.name: self._dtypes.get(t.name) for t in self._tensors if t.name in self._shapes}
        if not self._spec.combinations or _combination(self._spec, given) is not None:
            return None
        got = ", ".join(f"{name} {dtype}" for name, dtype in given.items() if dtype and name in self._spec.combinations)
        expected = f"one of {len(self._spec.supported_combinations)} combinations of dtypes"
        return self._broken(constraint, "dtypes", got, expected)

    def _format(self, constraint: Constraint) -> Violation | None:
        for tensor in self._tensors:
            got = None if tensor.takes_any_format else self._call.formats.get(tensor.name)
            if got is not None and tensor.name in self._shapes and got not in tensor.formats:
                return self._broken(constraint, tensor.name, f"storage format {got}", alternatives(tensor.formats))
        return None

    def _ranks(self, constraint: Constraint) -> Violation | None:
        environment = self.environment()
        for case in self._spec.program.cases:
            try:
                holds = evaluate(case.when, environment)
            except EvaluationError:
                holds = False
            if holds is True:
                self._case = case
                break
        else:
            conditions = alternatives([case.when_text for case in self._spec.program.cases])
            return self._broken(constraint, "arguments", "none of the cases", conditions)
        for tensor in self._tensors:
            if tensor.name not in self._shapes:
                continue
            shape = self._shapes[tensor.name]
            if tensor.name not in self._case.shapes:
                return self._broken(constraint, tensor.name, "a tensor", "null")
            least, most = self._case.rank_range(tensor.name)
            if shape is not None and not least <= len(shape) <= most:
                ranks = str(least) if least == most else f"{least} to {most}"
                expected = f"{ranks} dimension{'' if most == 1 else 's'} {self._case.shape_text(tensor.name)}"
                return self._broken(constraint, tensor.name, shape_text(shape), expected)
        for binding in self._case.bindings:
            shape = self._shapes.get(binding.tensor)
            if binding.is_star:
                self._stars[binding.symbol] = None if shape is None else binding.dims_of(shape)
            else:
                self._symbols[binding.symbol] = None if shape is None else shape[binding.axis]
        return None

    def _check(self, constraint: Constraint) -> Violation | None:
        if constraint.case not in {None, self._case.name}:
            return None
        if constraint.products and self._call.product not in constraint.products:
            return None
        try:
            if evaluate(constraint.check, self.environment()) is not False:
                return None
        except EvaluationError:
            return self._broken(
                constraint,
                constraint.subject,
                f"{self._got(constraint)} (no 64-bit result)",
                self._expected(constraint),
            )
        return self._broken(constraint, constraint.subject, self._got(constraint), self._expected(constraint))

    def _expected(self, constraint: Constraint) -> str:
        return "".join(piece if isinstance(piece, str) else self._blank(piece) for piece in constraint.pieces)

    def _blank(self, expression: Expr) -> str:
        with suppress(EvaluationError):
            if (value := evaluate(expression, self.environment())) is not None:
                return value_text(value)
        return "(unknown)"

    def _got(self, constraint: Constraint) -> str:
        if constraint.subject in self._attrs:
            return value_text(self._attrs[constraint.subject])
        if constraint.subject not in self._shapes:
            return "null"
        if constraint.subject in self._call.values:
            return value_text(tuple(self._call.values[constraint.subject]))
        if is_about_dtype(constraint.check, constraint.subject):
            return str(self._dtypes[constraint.subject])
        return shape_text(self._shapes[constraint.subject])

    def _check_shapes(self, constraint: Constraint) -> Violation | None:
        case = self._case
        for tensor in self._spec.tensors:
            if tensor.name not in case.shapes:
                continue
            is_output = tensor in self._spec.outputs
            shape = self._shapes.get(tensor.name)
            dims = case.shapes[tensor.name]
            # The dimensions of an output must exist even if the output is unknown.
            if not is_output and shape is None:
                continue
            wanted: list[int | None] = []
            for dim in dims:
                try:
                    wanted += self._values(dim)
                except EvaluationError:
                    return self._broken(
                        constraint, tensor.name, f"no 64-bit result of {dim.text}", case.shape_text(tensor.name)
                    )
                if not dim.star and wanted[-1] is not None and wanted[-1] < 0:
                    got = f"{dim.text} = {wanted[-1]}"
                    return self._broken(constraint, tensor.name, got, "a dimension of at least 0")
            if shape is None or self._is_open(tensor.name):
                continue
            pairs = zip(shape, wanted, strict=False)
            is_other = any(got is not None and value is not None and got != value for got, value in pairs)
            if is_other or len(shape) != len(wanted):
                expected = f"{case.shape_text(tensor.name)} = {dims_text(wanted)}"
                return self._broken(constraint, tensor.name, shape_text(shape), expected)
        return None

    def _is_open(self, name: str) -> bool:
        """Return whether the shape of a tensor has an unknown number of dimensions."""
        return any(dim.star and self._stars.get(dim.star) is None for dim in self._case.shapes[name])

    def _values(self, dim: Dim) -> Sequence[int | None]:
        """Return the dimensions of one entry of a shape; none if their number is unknown."""
        if dim.star:
            return self._stars.get(dim.star) or ()
        return [cast("int | None", evaluate(dim.expression, self.environment()))]

    def output_shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of an output after `violation()` found none; -1 is unknown, None an unknown rank."""
        if self._is_open(name):
            return None
        values = [value for dim in self._case.shapes[name] for value in self._values(dim)]
        return tuple(-1 if value is None else value for value in values)
