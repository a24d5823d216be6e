"""Define the form of a rewrite rule: a pattern, a check that matches or gives a reason, and a rewrite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from onnx import NodeProto, ValueInfoProto

from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import TensorType
from opforge.frontend.ir.attributes import default_attributes
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.tensor_type import ValueType

from .context import Context, Specs
from .pattern import Pattern


@dataclass(frozen=True)
class ExtraNodes:
    """Standard nodes that replace nodes of the model, alone or with a custom operator.

    Attributes:
        before: They compute new inputs of custom nodes; all nodes if there is no custom operator.
        after: They compute the outputs of the replaced nodes from outputs of custom nodes.
        types: Types of the new values, where known.
        constants: Values of host lists among them.
        flag: Graph output that states whether an input was overwritten; "" for none.
        updates: Graph outputs that replace the flag: the new contents of the overwritten inputs.
    """

    before: tuple[NodeProto, ...] = ()
    after: tuple[NodeProto, ...] = ()
    types: Mapping[str, ValueType] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    flag: str = ""
    updates: tuple[ValueInfoProto, ...] = ()


@dataclass(frozen=True)
class OperatorCall:
    """A custom node before it is written as ONNX.

    Attributes:
        spec: The operator.
        inputs: Value names in the order of the spec; "" for an absent optional one.
        attrs: Attributes with their values, including defaults.
        outputs: Value names in the order of the spec; "" for one without readers.
        extra_nodes: Standard nodes that are added with it.
    """

    spec: OpSpec
    inputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]
    outputs: tuple[str, ...]
    extra_nodes: ExtraNodes = field(default_factory=ExtraNodes)


@dataclass(frozen=True)
class Match:
    """Nodes of one scope that match a rule.

    Attributes:
        nodes: Their numbers; the new nodes are inserted at the last one, and a custom node gets its name.
        values: Value names by parameter name of the operator, inputs and outputs; absent ones are missing.
        attrs: Attributes by name; missing ones have their defaults.
        absorbed: Numbers of further nodes in the pattern; each is removed unless another node reads its outputs.
        extra_nodes: Standard nodes that are added with the new node.
    """

    nodes: tuple[int, ...]
    values: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    absorbed: tuple[int, ...] = ()
    extra_nodes: ExtraNodes = field(default_factory=ExtraNodes)


@dataclass(frozen=True)
class Replacement:
    """Nodes of a scope and the standard nodes that replace them.

    Attributes:
        rule: Name of the rule.
        scope: Graph of the replaced nodes.
        nodes: Numbers of the replaced nodes; the new ones are inserted at the last one.
        absorbed: Numbers of further nodes in the pattern.
        extra_nodes: The new standard nodes.
    """

    rule: str
    scope: Scope
    nodes: tuple[int, ...]
    absorbed: tuple[int, ...]
    extra_nodes: ExtraNodes


@dataclass(frozen=True)
class Placement(Replacement):
    """A replacement with one custom operator.

    Attributes:
        call: The operator.
        case: Name of the spec's case for the call.
        input_dtypes: Element types of the inputs by parameter name, where known.
        output_types: Inferred types of the outputs by parameter name.
    """

    call: OperatorCall
    case: str
    input_dtypes: Mapping[str, str]
    output_types: Mapping[str, TensorType]


class Rule(ABC):
    """One rewrite.

    Attributes:
        name: Name in reports.
        pattern: The nodes at which the rule is tried. A class writes it as `op.Type(...)`, several joined by `|`:
            `prefilter.py` reads the types without an import.
        operator: op type of the custom operator; "" for a rule with only standard nodes.
        group: Option that enables it, because it changes numerics or generality, or its pattern is common elsewhere:
            "patterns", "lower_training"; "" for a rule that is always enabled.
        is_hinted: Whether a report mentions matches without the option; false if matching is slow.
        priority: Rules with lower numbers are tried first at the same node.
    """

    name: str
    pattern: Pattern
    operator: str = ""
    group: str = ""
    is_hinted: bool = True
    priority: int = 0

    @classmethod
    def instances(cls, specs: Specs) -> Iterable[Rule]:
        """Return the rules of this class for a set of operators."""
        return [cls()] if cls.operator in specs else []

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Return (domain, op type) of the nodes at which the rule is tried; "" is ai.onnx."""
        if not self.pattern.kinds:
            raise TypeError(f"rule {self.name}: the pattern matches nodes of any type, expected op.Type(...)")
        return self.pattern.kinds

    @abstractmethod
    def check(self, context: Context, scope: Scope, number: int) -> Match:
        """Match one node with such a key.

        Raises:
            Unmatched: It does not match; the report contains the reason, unless the node is `Unrelated`.
        """

    def rewrite(self, context: Context, match: Match) -> OperatorCall | ExtraNodes:
        """Return the operator, or only standard nodes, that replace a match."""
        if not self.operator:
            return match.extra_nodes
        spec = context.specs[self.operator]
        return OperatorCall(
            spec=spec,
            inputs=tuple(match.values.get(tensor.name, "") for tensor in spec.inputs),
            attrs=default_attributes(spec) | dict(match.attrs),
            outputs=tuple(match.values.get(tensor.name, "") for tensor in spec.outputs),
            extra_nodes=match.extra_nodes,
        )
