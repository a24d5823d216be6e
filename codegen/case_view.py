"""Cases and constraints as templates print them: in C++ steps, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opforge.codegen.cpp import CppNames, cpp_expression
from opforge.codegen.escape import Code, cpp_string
from opforge.codegen.model import STATUSES
from opforge.codegen.names import lower_camel, upper_camel
from opforge.codegen.program import Case, Constraint, Dim

if TYPE_CHECKING:
    from opforge.codegen.op_view import OpView
    from opforge.codegen.tensor_view import TensorView


@dataclass(frozen=True)
class BindingView:
    """Where a symbol gets its value."""

    symbol: str
    camel: str
    axis: int


class CaseView:
    """One case of shapes."""

    def __init__(self, op: OpView, case: Case) -> None:
        self._case = case
        self.name = case.name
        self.enumerator = f"k{upper_camel(case.name)}"
        self.when_text = case.when_text
        self.when = cpp_expression(case.when, op.cpp_names)
        self.bindings = [BindingView(b.symbol, lower_camel(b.tensor), b.axis) for b in case.bindings]
        self.ranks = {tensor: len(dims) for tensor, dims in case.shapes.items()}
        self.dimensions = {tensor: _dimensions(dims, op.cpp_names) for tensor, dims in case.shapes.items()}
        self.shape_texts = {tensor: case.shape_text(tensor) for tensor in case.shapes}
        bound = {(binding.tensor, binding.axis) for binding in case.bindings}
        # Tensors without a shape of their own to compare with: all dimensions are bound there, or none is listed.
        self.unconstrained = {
            tensor.name
            for tensor in op.tensors
            if all((tensor.name, axis) in bound for axis in range(self.ranks.get(tensor.name, 0)))
        }

    def shape_of(self, tensor: TensorView) -> str:
        """The shape of a tensor for the documentation."""
        return self.shape_texts.get(tensor.name, "null")

    def rank_check(self, tensor: TensorView, rule: str) -> Code:
        """The C++ call that checks the rank of a tensor, or its absence where the case does not list it."""
        argument = f"call.{tensor.camel}"
        if tensor.name not in self.ranks:
            return Code(f"CheckAbsent({rule}, {argument})")
        return Code(f"CheckRank({rule}, {argument}, {self.ranks[tensor.name]}, {self._shape_literal(tensor)})")

    def shape_check(self, tensor: TensorView, rule: str) -> Code:
        """The C++ call that compares a listed tensor's dimensions."""
        arguments = f"{rule}, call.{tensor.camel}, {self._shape_literal(tensor)}"
        if tensor.is_output:
            return Code(f"CheckOutputShape({arguments}, {tensor.upper_camel}Shape(call, symbols))")
        return Code(f"CheckInputShape({arguments}, {self.dimensions[tensor.name]})")

    def _shape_literal(self, tensor: TensorView) -> Code:
        return cpp_string(self.shape_texts[tensor.name])


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _dimensions(dims: Sequence[Dim], names: CppNames) -> Code:
    """The C++ initializer of a std::vector<Dimension>."""
    parts = (f"{{{cpp_string(dim.text)}, {cpp_expression(dim.expression, names)}}}" for dim in dims)
    return Code(f"{{{', '.join(parts)}}}")


class ConstraintView:
    """One constraint as C++ steps: a condition, or verdicts for all cases or for each."""

    def __init__(self, op: OpView, constraint: Constraint) -> None:
        self._op = op
        self._rule = constraint.rule
        self.label = constraint.label
        self.variable = f"rule{constraint.label}"
        self.status = constraint.status
        self.status_name = STATUSES[constraint.status]
        self.subject = constraint.subject
        self.expected = constraint.expected
        self.text = constraint.check_text
        self.condition = None if constraint.rule else cpp_expression(constraint.check, op.cpp_names)
        if self.condition and constraint.case is not None:
            other = f"Logic(symbols.shapeCase != {op.op_type}Case::k{upper_camel(constraint.case)})"
            self.condition = Code(f"{other} || ({self.condition})")
        self.binds = constraint.rule == "ranks"
        camel = lower_camel(constraint.subject) if constraint.subject else ""
        of_attr = constraint.subject in {attr.name for attr in op.attrs}
        self.got = Code(f"ValueText(call.{camel})" if of_attr else f"ShapeText(call.{camel})")

    @property
    def sentence(self) -> str:
        """The constraint for the documentation."""
        required = _listed([tensor.name for tensor in (*self._op.required_inputs, *self._op.outputs)])
        sentences = {
            "required": f"{required} must not be null",
            "dtypes": "dtypes as in the table of parameters",
            "ranks": "numbers of dimensions as in the table of shapes",
            "shapes": "dimensions as in the table of shapes; equal letters are equal numbers",
        }
        return sentences[self._rule] if self._rule else f"{self.subject}: {self.expected} ({self.text})"

    @property
    def verdicts(self) -> list[Code]:
        """C++ expressions of type Verdict that hold for every case."""
        rule = self.variable
        if self._rule == "required":
            checks = [f"CheckPresent({rule}, call.{t.camel})" for t in self._op.required_inputs]
            checks += [f"hasOutputs ? CheckPresent({rule}, call.{t.camel}) : Verdict()" for t in self._op.outputs]
            return [Code(check) for check in checks]
        if self._rule == "dtypes":
            return [tensor.dtype_check(rule) for tensor in self._op.tensors]
        return []

    @property
    def case_verdicts(self) -> list[tuple[CaseView, list[Code]]]:
        """C++ expressions of type Verdict per case."""
        if self._rule == "ranks":
            return [(c, [c.rank_check(t, self.variable) for t in self._op.tensors]) for c in self._op.cases]
        if self._rule == "shapes":
            return [
                (c, [c.shape_check(t, self.variable) for t in self._op.tensors if t.name not in c.unconstrained])
                for c in self._op.cases
            ]
        return []
