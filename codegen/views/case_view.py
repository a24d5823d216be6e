"""Cases and constraints as templates print them: in C++ steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from opforge.codegen.expr.cpp import CppNames, cpp_expression
from opforge.codegen.expr.program import LIMIT, Binding, Case, Constraint, Dim
from opforge.codegen.expr.syntax import is_about_dtype, reads_attributes_only
from opforge.codegen.spec.names import lower_camel, upper_camel
from opforge.codegen.spec.products import PRODUCTS

from .escape import Code, cpp_string

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

    from .tensor_view import AttrView, TensorView


class Operator(Protocol):
    """The parts of the view of an operator that its cases and constraints use."""

    spec: OpSpec
    source_type: str
    cpp_names: CppNames
    attrs: list[AttrView]
    outputs: list[TensorView]
    tensors: list[TensorView]
    device_tensors: list[TensorView]
    required_inputs: list[TensorView]
    cases: list[CaseView]


@dataclass(frozen=True)
class BindingView:
    """Where a symbol gets its value, and the C++ expression of it."""

    symbol: str
    value: Code


def _binding(binding: Binding) -> BindingView:
    argument = f"call.{lower_camel(binding.tensor)}"
    if binding.is_star:
        value = f"StarOf({argument}, {binding.position}, {binding.rank - 1 - binding.position})"
    elif binding.axis < 0:
        value = f"DimFromEnd({argument}, {-binding.axis})"
    else:
        value = f"DimOf({argument}, {binding.axis})"
    return BindingView(binding.symbol, Code(value))


class CaseView:
    """One case of shapes."""

    def __init__(self, op: Operator, case: Case) -> None:
        self._case = case
        self.name = case.name
        self.when_text = case.when_text
        self.enumerator = f"k{upper_camel(case.name)}"
        self.when = cpp_expression(case.when, op.cpp_names)
        self.bindings = [_binding(binding) for binding in case.bindings]
        self.dimensions = {tensor: _dimensions(dims, op.cpp_names) for tensor, dims in case.shapes.items()}
        self.shape_texts = {tensor: case.shape_text(tensor) for tensor in case.shapes}
        bound = {(binding.tensor, binding.position) for binding in case.bindings}
        # Tensors without a shape of their own to compare with: all dimensions are bound there, or none is listed.
        self.unconstrained = {
            tensor.name
            for tensor in op.tensors
            if all((tensor.name, position) in bound for position in range(len(case.shapes.get(tensor.name, ()))))
        }

    def rank_check(self, tensor: TensorView, rule: str) -> Code:
        """The C++ call that checks the rank of a tensor, or its absence where the case does not list it."""
        argument = f"call.{tensor.camel}"
        if tensor.name not in self._case.shapes:
            return Code(f"CheckAbsent({rule}, {argument})")
        least, most = self._case.rank_range(tensor.name)
        function = "CheckRank" if least == most else "CheckRankRange"
        return Code(f"{function}({rule}, {argument}, {least}, {self._shape_literal(tensor)})")

    def shape_check(self, tensor: TensorView, rule: str) -> Code:
        """The C++ call that compares a listed tensor's dimensions."""
        arguments = f"{rule}, call.{tensor.camel}, {self._shape_literal(tensor)}"
        if tensor.is_output:
            return Code(f"CheckOutputShape({arguments}, {tensor.upper_camel}Shape(call, symbols))")
        return Code(f"CheckInputShape({arguments}, {self.dimensions[tensor.name]})")

    def _shape_literal(self, tensor: TensorView) -> Code:
        return cpp_string(self.shape_texts[tensor.name])


def _dimensions(dims: Sequence[Dim], names: CppNames) -> Code:
    """The C++ initializer of Dimensions."""
    parts: list[str] = []
    run: list[str] = []
    for dim in dims:
        if dim.star:
            parts += [f"{{{', '.join(run)}}}"] if run else []
            parts += [f"DimensionsOf({cpp_string(dim.text)}, {names.symbol(dim.star)})"]
            run = []
        else:
            run.append(f"{{{cpp_string(dim.text)}, {cpp_expression(dim.expression, names)}}}")
    if not parts:
        return Code(f"{{{', '.join(run)}}}")
    parts += [f"{{{', '.join(run)}}}"] if run else []
    # Braces of one dimension would be taken for its text and value.
    typed = [part if part.startswith("DimensionsOf") else f"Dimensions{part}" for part in parts]
    return Code(f"Joined({{{', '.join(typed)}}})" if len(typed) > 1 else typed[0])


class ConstraintView:
    """One constraint as C++ steps: a condition, or verdicts for all cases or for each."""

    def __init__(self, op: Operator, constraint: Constraint) -> None:
        self._op = op
        self._rule = constraint.rule
        self._case = constraint.case
        self.label = constraint.label
        self.variable = f"rule{constraint.label}"
        self.status = constraint.status
        self.subject = constraint.subject
        parts = [cpp_string(part) for part in constraint.expected.split(LIMIT)]
        limit = cpp_expression(constraint.limit, op.cpp_names) if constraint.limit else ""
        self.expected = Code(f" + LimitText({limit}) + ".join(parts))
        # What a parser can judge: it knows the attributes of a node alone.
        is_limited = constraint.case is not None or bool(constraint.products)
        self.is_of_attributes = constraint.rule is None and not is_limited and reads_attributes_only(constraint.check)
        self.condition = None if constraint.rule else cpp_expression(constraint.check, op.cpp_names)
        if self.condition and constraint.case is not None:
            other = f"Logic(symbols.shapeCase != {op.source_type}Case::k{upper_camel(constraint.case)})"
            self.condition = Code(f"{other} || ({self.condition})")
        if self.condition and constraint.products:
            products = ", ".join(f"Product::{PRODUCTS[product].enumerator}" for product in constraint.products)
            self.condition = Code(f"!Logic(IsOneOf(call.product, {{{products}}})) || ({self.condition})")
        self.binds = constraint.rule == "ranks"
        camel = lower_camel(constraint.subject) if constraint.subject else ""
        texts = {attr.name: "ValueText" for attr in op.attrs} | {of.name: "ListText" for of in op.spec.host_lists}
        self.got = Code(f"{texts.get(constraint.subject, 'ShapeText')}(call.{camel})")
        if is_about_dtype(constraint.check, constraint.subject):
            self.got = Code(f"DtypeText(call.{camel}.dtype)")

    @property
    def verdicts(self) -> list[Code]:
        """C++ expressions of type MaybeViolation that hold for every case."""
        rule = self.variable
        if self._rule == "required":
            checks = [f"CheckPresent({rule}, call.{t.camel})" for t in self._op.required_inputs]
            checks += [
                f"hasOutputs ? CheckPresent({rule}, call.{t.camel}) : MaybeViolation()" for t in self._op.outputs
            ]
            return [Code(check) for check in checks]
        if self._rule == "dtypes":
            return [tensor.dtype_check(rule) for tensor in self._op.tensors]
        if self._rule == "formats":
            return [t.format_check(rule) for t in self._op.device_tensors if not t.takes_any_format]
        return []

    @property
    def case_verdicts(self) -> list[tuple[CaseView, list[Code]]]:
        """C++ expressions of type MaybeViolation per case."""
        if self._rule == "ranks":
            return [(c, [c.rank_check(t, self.variable) for t in self._op.tensors]) for c in self._op.cases]
        if self._rule == "shapes":
            return [
                (c, [c.shape_check(t, self.variable) for t in self._op.tensors if t.name not in c.unconstrained])
                for c in self._op.cases
            ]
        return []
