"""Define the form of a rewrite rule: a pattern, a check that decides, and a rewrite that builds the new nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray
from onnx import NodeProto, ValueInfoProto

from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import TensorType
from opforge.frontend.ir.attributes import counts_in, default_attributes, names_in
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.tensor_type import ValueType

from .context import Specs
from .pattern import Found, Pattern


@dataclass(frozen=True)
class Match:
    """The facts that a check found.

    Attributes:
        values: Inputs and outputs by parameter name of the operator: names of values, or the numbers of a new constant;
            absent ones are missing.
        attrs: Attributes by name; missing ones have their defaults.
        nodes: Numbers of the replaced nodes; empty for the root of the pattern alone. The new nodes are inserted at the
            last one, and a custom node gets its name.
        absorbed: Numbers of further nodes in the pattern; each is removed unless another node reads its outputs.
        types: Types of values that the model does not declare.
        facts: Further facts for the `rewrite` of the same rule.
    """

    values: Mapping[str, str | NDArray[Any]] = field(default_factory=dict)
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    absorbed: tuple[int, ...] = ()
    types: Mapping[str, ValueType] = field(default_factory=dict)
    facts: Any = None


@dataclass(frozen=True)
class ExtraNodes:
    """Standard nodes that replace nodes of the model, alone or with a custom operator.

    Attributes:
        before: They compute new inputs of custom nodes; all nodes if there is no custom operator.
        after: They compute the outputs of the replaced nodes from outputs of custom nodes.
        types: Types of the new values, where known.
        flag: Graph output that states whether an input was overwritten; "" for none.
        updates: Graph outputs that replace the flag: the new contents of the overwritten inputs.
    """

    before: tuple[NodeProto, ...] = ()
    after: tuple[NodeProto, ...] = ()
    types: Mapping[str, ValueType] = field(default_factory=dict)
    flag: str = ""
    updates: tuple[ValueInfoProto, ...] = ()


NO_NODES = ExtraNodes()


@dataclass(frozen=True)
class OperatorCall:
    """A custom node before it is written as ONNX.

    Attributes:
        spec: The operator.
        inputs: Value names in the order of the spec; "" for an absent optional one. A list has one for each tensor.
        attrs: Attributes with their values, including defaults.
        outputs: Value names in the order of the spec; "" for one without readers.
        extra_nodes: Standard nodes that are added with it.
        counts: The number of tensors in each list.
    """

    spec: OpSpec
    inputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]
    outputs: tuple[str, ...]
    extra_nodes: ExtraNodes = field(default_factory=ExtraNodes)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def input_names(self) -> list[str]:
        """The parameters of the inputs; the tensors of a list are `x[0]`, `x[1]` and so on."""
        return names_in(self.spec.inputs, self.counts)

    @property
    def output_names(self) -> list[str]:
        """The parameters of the outputs."""
        return names_in(self.spec.outputs, self.counts)


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
    """One rewrite: the engine matches `pattern` at a node, `check` decides, `rewrite` builds the new nodes.

    Attributes:
        name: Name in reports.
        pattern: The root, at which the rule is tried, and its inputs. A class writes it as `op.Type(...)`, several
            joined by `|`: `prefilter.py` reads the types without an import.
        operator: op type of the custom operator; "" for a rule with only standard nodes.
        group: Option that enables it, because it changes numerics or generality, or its pattern is common elsewhere:
            "patterns", "lower_training"; "" for a rule that is always enabled.
        is_hinted: Whether a report mentions matches without the option; false if matching is slow.
        is_common: Whether many other nodes have the type of the root: no report mentions them.
        priority: Rules with lower numbers are tried first at the same node.
    """

    name: str
    pattern: Pattern
    operator: str = ""
    group: str = ""
    is_hinted: bool = True
    is_common: bool = False
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
    def check(self, found: Found) -> Match:
        """Decide whether a match of the pattern is rewritten; create no nodes.

        Raises:
            Unmatched: It is not rewritten; the report contains the reason, unless the node is `Unrelated`.
        """

    def rewrite(self, found: Found, match: Match) -> OperatorCall | ExtraNodes:
        """Return the nodes that replace a match: by default, the operator.

        Raises:
            Unmatched: A formula needs a fact that the model does not contain, such as a size.
        """
        return self.call(found, match)

    def call(self, found: Found, match: Match, extra: ExtraNodes = NO_NODES, **new_values: str) -> OperatorCall:
        """Return the operator on the values of a match and on new ones; each array becomes a `Constant`."""
        spec = found.context.specs[self.operator]
        names: dict[str, str] = {}
        constants: list[NodeProto] = []
        types = {**match.types, **extra.types}
        for parameter, value in {**match.values, **new_values}.items():
            if isinstance(value, str):
                names[parameter] = value
            else:
                names[parameter] = name = found.context.value_names.fresh(parameter)
                constants.append(constant(name, value))
                types[name] = ValueType(value.dtype.name, value.shape)
        counts = counts_in(spec, names)
        return OperatorCall(
            spec=spec,
            inputs=tuple(names.get(name, "") for name in names_in(spec.inputs, counts)),
            attrs=default_attributes(spec) | dict(match.attrs),
            outputs=tuple(names.get(name, "") for name in names_in(spec.outputs, counts)),
            extra_nodes=replace(extra, before=(*extra.before, *constants), types=types),
            counts=counts,
        )
