"""Prepare cases and constraints for the templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from opforge.codegen.data.names import lower_camel, upper_camel
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.escape import Code, cpp_string
from opforge.codegen.expr.cpp import CppNames, cpp_expression
from opforge.codegen.expr.program import Case, Constraint, Dim
from opforge.codegen.expr.tree import is_about_dtype, reads_attributes_only

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

    from .tensor_view import AttrView, TensorView


class Operator(Protocol):
    """The parts of the view of an operator that its cases and constraints use."""

    spec: OpSpec
    cpp_names: CppNames
    attrs: list[AttrView]
    tensors: list[TensorView]


@dataclass(frozen=True)
class Rank:
    """The number of dimensions of a tensor in a case, and its shape in the form of the spec and of a message."""

    least: int
    is_range: bool
    text: str
    expected: str


@dataclass(frozen=True)
class DimView:
    """One dimension: its text in the spec and its C++ expression."""

    text: str
    value: Code


@dataclass(frozen=True)
class DimsView:
    """Adjacent dimensions of a shape; or the dimensions of a symbol with a star, then `dims` is empty."""

    star: str = ""
    text: str = ""
    dims: tuple[DimView, ...] = ()


class CaseView:
    """One case of shapes."""

    def __init__(self, op: Operator, case: Case) -> None:
        self.name = case.name
        self.when_text = case.when_text
        self.enumerator = f"k{upper_camel(case.name)}"
        self.when = cpp_expression(case.when, op.cpp_names)
        self.bindings = [(binding, lower_camel(binding.tensor)) for binding in case.bindings]
        self.members = [(binding, lower_camel(binding.tensor)) for binding in case.members]
        self.parallel = [lower_camel(name) for name in case.parallel]
        self.dimensions = {tensor: _dimensions(dims, op.cpp_names) for tensor, dims in case.shapes.items()}
        self.ranks = {tensor.name: _rank(op.spec, case, tensor.name) for tensor in op.tensors}
        bound = {(binding.tensor, binding.position) for binding in (*case.bindings, *case.members)}
        # Tensors with a dimension that is not the source of a symbol; for others, there is nothing to compare.
        self.compared = [
            tensor
            for tensor in op.tensors
            if any((tensor.name, position) not in bound for position in range(len(case.shapes.get(tensor.name, ()))))
        ]


def _rank(spec: OpSpec, case: Case, tensor: str) -> Rank | None:
    if tensor not in case.shapes:
        return None
    least, most = case.rank_range(tensor)
    return Rank(least, least != most, case.shape_text(tensor), case.rank_text(tensor, spec.program.cases))


def _dimensions(dims: Sequence[Dim], names: CppNames) -> list[DimsView]:
    """Return the parts of a shape: runs of single dimensions, and stars."""
    parts: list[DimsView] = []
    for is_star, group in groupby(dims, key=lambda dim: bool(dim.star)):
        if is_star:
            parts += [DimsView(dim.star, dim.text) for dim in group]
        else:
            run = tuple(DimView(dim.text, cpp_expression(dim.expression, names)) for dim in group)
            parts.append(DimsView(dims=run))
    return parts or [DimsView()]


class ConstraintView:
    """One constraint: a built-in rule, or a condition with its message."""

    def __init__(self, op: Operator, constraint: Constraint) -> None:
        self.rule = constraint.rule
        self.label = constraint.label
        self.variable = f"rule{constraint.label}"
        self.status = constraint.status
        self.subject = constraint.subject
        self.camel = lower_camel(constraint.subject) if constraint.subject else ""
        # Texts, and expressions whose values are part of the message.
        self.expected = [
            (cpp_string(piece), False) if isinstance(piece, str) else (cpp_expression(piece, op.cpp_names), True)
            for piece in constraint.pieces
        ]
        self.condition = cpp_expression(constraint.check, op.cpp_names)
        self.case = f"k{upper_camel(constraint.case)}" if constraint.case else ""
        self.products = [PRODUCTS[product].enumerator for product in constraint.products]
        # Constraints that a parser can check: it has only the attributes of a node.
        is_limited = constraint.case is not None or bool(constraint.products)
        self.is_of_attributes = constraint.rule is None and not is_limited and reads_attributes_only(constraint.check)
        texts = {attr.name: "ValueText" for attr in op.attrs} | {of.name: "ListText" for of in op.spec.host_lists}
        self.got = texts.get(constraint.subject, "ShapeText")
        self.is_about_dtype = is_about_dtype(constraint.check, constraint.subject)
        self.is_about_list = constraint.subject in op.spec.program.lists
