"""Check the arguments of a call in the order of the constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

from opforge.codegen.expr.evaluate import Environment, EvaluationError, evaluate
from opforge.codegen.expr.program import INDEX, MOST_TENSORS, Binding, Case, Constraint, Dim
from opforge.codegen.expr.tree import CORES, INT_MAX, INT_MIN, Expr, element_name, is_about_dtype
from opforge.codegen.expr.value_text import (
    alternatives,
    count_text,
    dims_text,
    shape_text,
    tensors_text,
    value_text,
)

from .call import Call, Shape, Violation
from .model import OpSpec
from .parts import TensorSpec


def kernel_dtypes(_spec: OpSpec, tensor: TensorSpec) -> tuple[str, ...]:
    """Return the dtypes of a tensor in kernels; empty if it has the dtype of another tensor."""
    return () if tensor.dtype is not None else tensor.dtypes


def accepted_dtypes(spec: OpSpec, tensor: TensorSpec) -> tuple[str, ...]:
    """Return the dtypes of a tensor in aclnn functions; empty if it has the dtype of another tensor."""
    if tensor.dtype is not None and tensor.mix is None:
        return ()
    leader = tensor if tensor.dtype is None else spec.tensor(tensor.dtype)
    return (*leader.dtypes, *leader.casts)


def output_dtype(spec: OpSpec, output: TensorSpec, dtypes: Mapping[str, str | None]) -> str | None:
    """Return the dtype of an output: that of its leader, its only dtype, or that in the first matching combination."""
    if output.dtype is not None:
        return dtypes.get(output.dtype)
    if len(output.dtypes) == 1:
        return output.dtypes[0]
    row = combination_of(spec, {tensor.name: dtypes.get(tensor.name) for tensor in spec.inputs})
    return row[output.name] if row and any(dtypes.get(tensor.name) for tensor in spec.inputs) else None


def combination_of(spec: OpSpec, dtypes: Mapping[str, str | None]) -> dict[str, str] | None:
    """Return the first supported combination with the known dtypes."""
    for row in spec.supported_combinations:
        if all(dtypes.get(name) in {None, dtype} for name, dtype in row.items()):
            return row
    return None


def first_name(tensor: TensorSpec) -> str:
    """Return the name of a tensor, or of the first tensor of a list."""
    return element_name(tensor.name, 0) if tensor.dynamic else tensor.name


class Checker:
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
        self._outputs = {tensor.name for tensor in spec.outputs}
        self._dtypes_of = dtypes_of
        self._dtypes = call.dtypes
        self._counts = {name: call.tensors_in(name) for name in spec.program.lists}
        names = {name for tensor in self._tensors for name in self._names(tensor)}
        self._shapes: dict[str, Shape] = {
            name: None if shape is None else tuple(None if dim is None or dim < 0 else dim for dim in shape)
            for name, shape in call.shapes.items()
            if name in names
        }
        self._attrs = {attr.name: call.attrs.get(attr.name, attr.default) for attr in spec.attrs}
        self._case: Case = spec.program.cases[0]
        self._symbols: dict[str, int | None] = {}
        self._stars: dict[str, Sequence[int | None] | None] = {}
        self._variables: dict[str, int | EvaluationError] = {}
        lists = {name: values for name, values in call.values.items() if name in self._shapes}
        self.environment = Environment(  # the known values of names
            self._symbols,
            {**self._attrs, CORES: call.cores},
            self._shapes,
            self._dtypes,
            self._stars,
            lists,
            self._variables,
            self._counts,
        )

    def _names(self, tensor: TensorSpec) -> list[str]:
        """Return the name of a tensor, or the names of the tensors of a list."""
        if not tensor.dynamic:
            return [tensor.name]
        return [element_name(tensor.name, index) for index in range(self._counts[tensor.name])]

    def violation(self, *, with_checks: bool = True) -> Violation | None:
        """Return the first violated constraint; without checks, test only the built-in rules."""
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

    def _required(self, constraint: Constraint) -> Violation | None:
        for tensor in self._tensors:
            names = self._names(tensor)
            if not names and not tensor.optional:
                return self._broken(constraint, tensor.name, "no tensors", "a list of tensors")
            for name in names if tensor.dynamic or not tensor.optional else ():
                if name not in self._shapes:
                    return self._broken(constraint, name, "null", "a tensor")
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
            for name in self._names(tensor):
                if broken := self._dtype_of(constraint, tensor, name):
                    return broken
        return self._combination(constraint)

    def _dtype_of(self, constraint: Constraint, tensor: TensorSpec, name: str) -> Violation | None:
        got = self._dtypes.get(name)
        if got is None or name not in self._shapes or self._dtypes_of is None:
            return None
        accepted = self._dtypes_of(self._spec, tensor)
        if accepted and got not in accepted:
            return self._broken(constraint, name, got, alternatives(accepted))
        leader = first_name(tensor if accepted else self._spec.tensor(cast("str", tensor.dtype)))
        if accepted and not tensor.dynamic:
            return None
        wanted = self._dtypes.get(leader)
        if wanted is not None and got != wanted:
            return self._broken(constraint, name, got, f"{wanted}, the dtype of {leader}")
        return None

    def _combination(self, constraint: Constraint) -> Violation | None:
        tensors = {tensor.name: first_name(tensor) for tensor in self._tensors}
        given = {of: self._dtypes.get(name) for of, name in tensors.items() if name in self._shapes}
        if not self._spec.combinations or combination_of(self._spec, given) is not None:
            return None
        shown = {tensors[of]: dtype for of, dtype in given.items() if of in self._spec.combinations}
        got = ", ".join(f"{name} {dtype}" for name, dtype in shown.items() if dtype)
        expected = f"one of {len(self._spec.supported_combinations)} combinations of dtypes"
        return self._broken(constraint, "dtypes", got, expected)

    def _format(self, constraint: Constraint) -> Violation | None:
        pairs = [(tensor, name) for tensor in self._tensors for name in self._names(tensor)]
        for tensor, name in pairs:
            got = None if tensor.takes_any_format else self._call.formats.get(name)
            if got is not None and name in self._shapes and got not in tensor.formats:
                return self._broken(constraint, name, f"storage format {got}", alternatives(tensor.formats))
        return None

    def _ranks(self, constraint: Constraint) -> Violation | None:
        environment = self.environment
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
            if tensor.dynamic and self._counts[tensor.name] and tensor.name not in self._case.shapes:
                return self._broken(constraint, tensor.name, "a list of tensors", "null")
            for name in self._names(tensor):
                if name in self._shapes and (broken := self._rank(constraint, tensor, name)):
                    return broken
        self._bind(self._case.bindings)
        return self._number(constraint)

    def _rank(self, constraint: Constraint, tensor: TensorSpec, name: str) -> Violation | None:
        if tensor.name not in self._case.shapes:
            return self._broken(constraint, name, "a tensor", "null")
        shape = self._shapes[name]
        least, most = self._case.rank_range(tensor.name)
        if shape is None or least <= len(shape) <= most:
            return None
        ranks = str(least) if least == most else f"{least} to {most}"
        text = self._case.rank_text(tensor.name, self._spec.program.cases)
        expected = f"{ranks} dimension{'' if most == 1 else 's'} {text}"
        return self._broken(constraint, name, shape_text(shape), expected)

    def _bind(self, bindings: Sequence[Binding], index: int | None = None) -> None:
        """Bind symbols to dimensions. With an index, use the dimensions of the tensors at this index of lists."""
        for binding in bindings:
            name = binding.tensor if index is None else element_name(binding.tensor, index)
            shape = self._shapes.get(name)
            if binding.is_star:
                self._stars[binding.symbol] = None if shape is None else binding.dims_of(shape)
            else:
                self._symbols[binding.symbol] = None if shape is None else shape[binding.axis]
        self._variables.clear()
        if index is not None:
            self._variables[INDEX] = index

    def _number(self, constraint: Constraint) -> Violation | None:
        """Check the numbers of tensors in lists."""
        first, *others = self._case.parallel or ("",)
        for name in others:
            if self._counts[name] not in {0, self._counts[first]}:
                expected = f"{self._counts[first]}, the number of tensors in {first}"
                return self._broken(constraint, name, count_text(self._counts[name]), expected)
        for name, count in self._spec.program.counts.items():
            text = self._spec.tensor(name).count
            try:
                wanted = cast("int | None", evaluate(count, self.environment))
            except EvaluationError:
                return self._broken(constraint, name, f"no 64-bit result of {text}", "a number of tensors")
            if wanted is not None and not 1 <= wanted <= MOST_TENSORS:
                return self._broken(constraint, name, f"{text} = {wanted}", f"1 to {MOST_TENSORS} tensors")
            if wanted is not None and self._counts[name] not in {0, wanted}:
                return self._broken(constraint, name, count_text(self._counts[name]), f"{text} = {wanted}")
        return None

    def _check(self, constraint: Constraint) -> Violation | None:
        if constraint.case not in {None, self._case.name}:
            return None
        if constraint.products and self._call.product not in constraint.products:
            return None
        try:
            if evaluate(constraint.check, self.environment) is not False:
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
            if (value := evaluate(expression, self.environment)) is not None:
                return value_text(value)
        return "(unknown)"

    def _got(self, constraint: Constraint) -> str:
        if constraint.subject in self._attrs:
            return value_text(self._attrs[constraint.subject])
        if constraint.subject in self._counts:
            return self._got_list(constraint, self._spec.tensor(constraint.subject))
        if constraint.subject not in self._shapes:
            return "null"
        if constraint.subject in self._call.values:
            return value_text(tuple(self._call.values[constraint.subject]))
        if is_about_dtype(constraint.check, constraint.subject):
            return str(self._dtypes[constraint.subject])
        return shape_text(self._shapes[constraint.subject])

    def _got_list(self, constraint: Constraint, tensor: TensorSpec) -> str:
        if is_about_dtype(constraint.check, tensor.name) and first_name(tensor) in self._dtypes:
            return str(self._dtypes[first_name(tensor)])
        return tensors_text([self._shapes.get(name) for name in self._names(tensor)])

    def _check_shapes(self, constraint: Constraint) -> Violation | None:
        for tensor in self._spec.tensors:
            if tensor.name not in self._case.shapes:
                continue
            for name in self._members(tensor):
                if broken := self._check_shape(constraint, tensor, name):
                    return broken
        return None

    def _members(self, tensor: TensorSpec) -> Iterator[str]:
        """Yield the name of a tensor, or the names of the tensors of a list with their symbols bound."""
        if not tensor.dynamic:
            yield tensor.name
            return
        count = self._counts[tensor.name]
        if tensor.name in self._outputs:  # its tensors are known from the inputs
            if tensor.name in self._case.parallel:
                count = self._counts[self._case.parallel[0]]
            else:
                count = cast("int | None", evaluate(self._spec.program.counts[tensor.name], self.environment)) or count
        for index in range(count):
            self._bind(self._case.members, index)
            yield element_name(tensor.name, index)

    def _check_shape(self, constraint: Constraint, tensor: TensorSpec, name: str) -> Violation | None:
        case = self._case
        shape = self._shapes.get(name)
        # The dimensions of an output must exist even if the output is unknown.
        if tensor.name not in self._outputs and shape is None:
            return None
        wanted: list[int | None] = []
        for dim in case.shapes[tensor.name]:
            try:
                wanted += self._values(dim)
            except EvaluationError:
                return self._broken(constraint, name, f"no 64-bit result of {dim.text}", case.shape_text(tensor.name))
            if not dim.star and wanted[-1] is not None and wanted[-1] < 0:
                return self._broken(constraint, name, f"{dim.text} = {wanted[-1]}", "a dimension of at least 0")
        if shape is None or self._is_open(tensor.name):
            return None
        pairs = zip(shape, wanted, strict=False)
        is_other = any(got is not None and value is not None and got != value for got, value in pairs)
        if is_other or len(shape) != len(wanted):
            expected = f"{case.shape_text(tensor.name)} = {dims_text(wanted)}"
            return self._broken(constraint, name, shape_text(shape), expected)
        return None

    def _is_open(self, name: str) -> bool:
        """Return whether the shape of a tensor has an unknown number of dimensions."""
        return any(dim.star and self._stars.get(dim.star) is None for dim in self._case.shapes[name])

    def _values(self, dim: Dim) -> Sequence[int | None]:
        """Return the dimensions of one entry of a shape; none if their number is unknown."""
        if dim.star:
            return self._stars.get(dim.star) or ()
        return [cast("int | None", evaluate(dim.expression, self.environment))]

    def output_shapes(self, output: TensorSpec) -> dict[str, tuple[int, ...] | None]:
        """Return the shapes of an output after `violation()` found none; -1 is unknown, None an unknown rank."""
        if output.name not in self._case.shapes:
            return {}
        return {name: self._output_shape(output.name) for name in self._members(output)}

    def _output_shape(self, name: str) -> tuple[int, ...] | None:
        if self._is_open(name):
            return None
        values = [value for dim in self._case.shapes[name] for value in self._values(dim)]
        return tuple(-1 if value is None else value for value in values)
