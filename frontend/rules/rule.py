"""The form of a rewrite: one class per rewrite with `pattern`, `check` and `rewrite`; a failed match says why."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from onnx import NodeProto

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import TensorType, Violation
from opforge.frontend.ir.algebra import Algebra
from opforge.frontend.ir.attributes import AttrValue, default_attributes
from opforge.frontend.ir.constants import Constants
from opforge.frontend.ir.graph import GraphView, Scope
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.value_types import ValueType, ValueTypes

# A constraint that a call breaks, or its case and the types of its outputs by parameter name.
Judgement = Violation | tuple[str, Mapping[str, TensorType]]


class Context:
    """What a rule may ask about the model; nothing here changes it.

    Attributes:
        view: The index of the model.
        types: Types of its values.
        constants: Values that never change.
        specs: Operators by op type.
        judged: Calls of ours that were held against their rules before.
        folder: Folder of the model, for external data; None when it is not known.
    """

    def __init__(
        self, view: GraphView, specs: Mapping[str, OpSpec], folder: Path | None, types: ValueTypes | None = None
    ) -> None:
        self.view = view
        self.specs = specs
        self.folder = folder
        self.judged: dict[Hashable, Judgement] = {}
        self.types = types or ValueTypes(view, list(specs.values()))
        self.constants = Constants(self.types, folder)

    @cached_property
    def algebra(self) -> Algebra:
        """Its arithmetic."""
        return Algebra(self.types, self.constants)

    @cached_property
    def value_names(self) -> FreshNames:
        """Names for new values."""
        return FreshNames(name for scope in self.view.scopes for name in scope.makers)


@dataclass(frozen=True)
class Around:
    """Standard nodes that fit a node of ours into the graph.

    Attributes:
        before: They make inputs of ours that the model does not have.
        after: They make what the replaced nodes made from outputs of ours.
        types: Types of the new values, where known.
        constants: Values of those that are lists on the host.
    """

    before: tuple[NodeProto, ...] = ()
    after: tuple[NodeProto, ...] = ()
    types: Mapping[str, ValueType] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorCall:
    """A node of ours, before it gets its ONNX form.

    Attributes:
        spec: The operator.
        inputs: Value names in the order of the spec; "" for an absent optional one.
        attrs: Attributes with their values, defaults included.
        outputs: Value names in the order of the spec; "" for one that nobody reads.
        around: Standard nodes that go with it.
    """

    spec: OpSpec
    inputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]
    outputs: tuple[str, ...]
    around: Around = field(default_factory=Around)


@dataclass(frozen=True)
class Match:
    """Nodes of one scope that a rule recognised.

    Attributes:
        nodes: Their numbers; the new node takes the place and the name of the last one.
        values: Value names by parameter name of the operator, inputs and outputs; absent ones are missing.
        attrs: Attributes by name; missing ones have their defaults.
        absorbed: Numbers of further nodes, which go unless somebody else reads what they make.
        around: Standard nodes that go with the new node.
    """

    nodes: tuple[int, ...]
    values: Mapping[str, str]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    absorbed: tuple[int, ...] = ()
    around: Around = field(default_factory=Around)


@dataclass(frozen=True)
class Refusal:
    """Why a rule leaves a node: the condition that does not hold, with the values seen."""

    reason: str


class NoMatchError(Exception):
    """Raised inside a rule that reads many nodes: which condition does not hold."""


class Rule(ABC):
    """One rewrite.

    Attributes:
        name: Name in reports.
        operator: op type of the operator it leads to.
        group: Option without which it does nothing, because it changes numerics or generality, or its form is common
            elsewhere: "patterns", "lower_training"; "" for one that always applies.
        is_hinted: Whether a report mentions unasked what the option would rewrite; not where finding out is dear.
    """

    name: str
    operator: str
    group: str = ""
    is_hinted: bool = True

    @property
    @abstractmethod
    def pattern(self) -> tuple[tuple[str, str], ...]:
        """(domain, op type) of the nodes at which the rule is tried; "" is ai.onnx."""

    @abstractmethod
    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal | None:
        """Decide about one node with such a key; None when it is so far from the form that nobody could mean it."""

    def rewrite(self, context: Context, match: Match) -> OperatorCall:
        """The operator that replaces a match."""
        spec = context.specs[self.operator]
        return OperatorCall(
            spec=spec,
            inputs=tuple(match.values.get(tensor.name, "") for tensor in spec.inputs),
            attrs=default_attributes(spec) | dict(match.attrs),
            outputs=tuple(match.values.get(tensor.name, "") for tensor in spec.outputs),
            around=match.around,
        )
