"""1:1 mappings: nodes that are ours by name, in the spellings of `keys`."""

from __future__ import annotations

from opforge.codegen.printing import shown
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.ir.attributes import AttributeProblem, read_attributes
from opforge.frontend.ir.graph import Scope
from opforge.frontend.ir.op_names import OnnxKey, version_problem

from .rule import Context, Match, Refusal, Rule


class MapByName(Rule):
    """A node with a name of an operator -> that operator; inputs and outputs stand in the order of the spec.

    Args:
        spec: The operator.
        key: The name.
    """

    def __init__(self, spec: OpSpec, key: OnnxKey) -> None:
        self.name = str(key)
        self.operator = spec.op_type
        self._key = key

    @property
    def pattern(self) -> tuple[tuple[str, str], ...]:
        """The one spelling."""
        return ((self._key.domain, self._key.op_type),)

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal:
        """Match the exact version, the arity and the attributes; the operator's own rules are checked by the caller."""
        node = scope.node(number)
        spec = context.specs[self.operator]
        if problem := version_problem(self._key, scope.opsets):
            return Refusal(problem)
        for kind, given, declared in (("inputs", node.input, spec.inputs), ("outputs", node.output, spec.outputs)):
            if len(given) > len(declared):
                names = ", ".join(tensor.name for tensor in declared)
                return Refusal(f"has {len(given)} {kind}, expected at most {len(declared)}: {names}")
        if not any(node.output):
            return Refusal("has no output")
        try:
            attrs = read_attributes(node, spec)
        except AttributeProblem as problem:
            return Refusal(str(problem))
        values = dict(zip((tensor.name for tensor in spec.inputs), node.input, strict=False))
        values |= dict(zip((tensor.name for tensor in spec.outputs), node.output, strict=False))
        missing = [tensor.name for tensor in spec.inputs if not tensor.optional and not values.get(tensor.name)]
        if missing:
            names = ", ".join(missing)
            return Refusal(f"required input {names} is absent; got {_inputs(values)} [{_required_label(spec)}]")
        return Match((number,), {name: value for name, value in values.items() if value}, attrs)


def _required_label(spec: OpSpec) -> str:
    return next((rule.label for rule in spec.constraints if rule.rule == "required"), "required")


def _inputs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in values.items())
