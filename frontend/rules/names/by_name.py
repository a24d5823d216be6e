"""Map nodes with the name of a custom operator."""

from __future__ import annotations

from collections.abc import Iterable

from opforge.codegen.printing import shown
from opforge.codegen.spec.checker import first_name
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.ir.attributes import named_inputs, named_outputs, read_attributes
from opforge.frontend.ir.op_names import OnnxKey, source_keys, version_problem
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.rules.context import Specs
from opforge.frontend.rules.pattern import Found, any_node
from opforge.frontend.rules.rule import Match, Rule


class MapByName(Rule):
    """A node with a name of an operator -> that operator; inputs and outputs are in the order of the spec.

    Args:
        spec: The operator.
        key: The name.
    """

    def __init__(self, spec: OpSpec, key: OnnxKey) -> None:
        self.name = str(key)
        self.operator = spec.op_type
        self.pattern = any_node((key.domain, key.op_type))
        self._key = key

    @classmethod
    def instances(cls, specs: Specs) -> Iterable[Rule]:
        """Return one rule for each name of an operator."""
        return [cls(spec, key) for spec in specs.values() for key in source_keys(spec)]

    def check(self, found: Found) -> Match:
        """Match the exact version, the arity and the attributes; the caller checks the constraints of the operator."""
        node, spec = found.node, found.context.specs[self.operator]
        if problem := version_problem(self._key, found.scope.opsets):
            raise Unmatched(problem.text)
        values = named_inputs(spec, node) | named_outputs(spec, node)
        if not any(node.output):
            raise Unmatched("has no output")
        attrs = read_attributes(node, spec)
        missing = [t.name for t in spec.inputs if not t.optional and not values.get(first_name(t))]
        if missing:
            names = ", ".join(missing)
            raise Unmatched(f"required input {names} is absent; got {_inputs(values)} [{_required_label(spec)}]")
        return Match({name: value for name, value in values.items() if value}, attrs)


def _required_label(spec: OpSpec) -> str:
    return next((rule.label for rule in spec.constraints if rule.rule == "required"), "required")


def _inputs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in values.items())
