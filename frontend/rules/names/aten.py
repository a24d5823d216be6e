"""Map nodes of PyTorch functions to custom operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import text_attribute
from opforge.frontend.ir.reason import Unmatched, Unrelated
from opforge.frontend.rules.context import Specs
from opforge.frontend.rules.pattern import Found, any_node
from opforge.frontend.rules.rule import Match, Rule

from .torch_forms import TorchForm, bound_call, torch_forms

ATEN_DOMAIN = "org.pytorch.aten"
ATEN = "ATen"


class MapTorch(Rule):
    """A node of a PyTorch function -> custom operator.

    aten functions are nodes `org.pytorch.aten::name` or `org.pytorch.aten::ATen {operator = name}`; functions of other
    namespaces have a separate domain. Scalars are inputs there.

    Args:
        forms: The schemas of one function.
    """

    def __init__(self, forms: Sequence[TorchForm]) -> None:
        self._forms = forms
        (first, *_) = forms
        self.name = first.label
        self.operator = first.operator
        # A node of aten may have its function in an attribute.
        is_aten = first.namespace == "aten"
        kinds = [(ATEN_DOMAIN, first.name), (ATEN_DOMAIN, ATEN)] if is_aten else [(first.namespace, first.name)]
        self.pattern = any_node(*kinds)

    @classmethod
    def instances(cls, specs: Specs) -> Iterable[Rule]:
        """Return one rule for each function."""
        return [cls(forms) for forms in torch_forms(specs.values()).values()]

    def check(self, found: Found) -> Match:
        """Match the function, its arguments and constant scalars."""
        node = found.node
        if node.op_type == ATEN:
            if text_attribute(node, "operator") != self._forms[0].name:
                raise Unrelated
            if overload := text_attribute(node, "overload_name"):
                raise Unmatched(f"has overload_name {shown(overload)}, expected none")
        spec = found.context.specs[self.operator]
        call = bound_call(self._forms, spec, [name or None for name in node.input])
        if call is None:
            expected = " or ".join(f"{len(form.args)} ({', '.join(form.args)})" for form in self._forms)
            raise Unmatched(f"has {len(node.input)} inputs, expected {expected}")
        if len(node.output) > len(spec.outputs) or not any(node.output):
            raise Unmatched(f"has {len(node.output)} outputs, expected 1 to {len(spec.outputs)}")
        given, attrs = call.parameters(lambda argument, name: _number(found, name or "", argument))
        values = {parameter: name for parameter, name in given.items() if name}
        form = call.form
        missing = [t.name for t in spec.inputs if not t.optional and t.name not in {*values, *form.ones}]
        if missing:
            raise Unmatched(f"required input {', '.join(missing)} is absent")
        results = {tensor.name: name for tensor, name in zip(spec.outputs, node.output, strict=False) if name}
        return Match(values | dict.fromkeys(form.ones, np.ones(1, np.float32)) | results, attrs)


def _number(found: Found, name: str, argument: str) -> object:
    """Return a constant scalar."""
    value = found.context.constants.required(found.scope, name, argument)
    if value.size != 1 or value.ndim > 1:
        raise Unmatched(
            f"{argument} must be constant; {shown(name)} has shape {list(value.shape)}, expected one number"
        )
    return value.item()
