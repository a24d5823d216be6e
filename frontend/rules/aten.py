"""1:1 mappings of functions of PyTorch that an exporter left as nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.importers.torch_forms import ScalarProblem, TorchForm, chosen_form, scalar, torch_forms
from opforge.frontend.ir.attributes import AttrValue
from opforge.frontend.ir.constants import NotConstant, text_attribute
from opforge.frontend.ir.graph import Scope
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.value_types import ValueType

from .rule import Around, Context, Match, Refusal, Rule, Specs

ATEN_DOMAIN = "org.pytorch.aten"
_ATEN = "ATen"


class MapTorch(Rule):
    """A function of PyTorch as a node -> our operator.

    aten functions come as `org.pytorch.aten::name` or as `org.pytorch.aten::ATen {operator = name}`, those of other
    namespaces under their own domain. Scalars are inputs there.

    Args:
        forms: The schemas of one function.
    """

    def __init__(self, forms: Sequence[TorchForm]) -> None:
        self._forms = forms
        (first, *_) = forms
        self.name = first.label
        self.operator = first.operator

    @classmethod
    def instances(cls, specs: Specs) -> Iterable[Rule]:
        """One rule for each function."""
        return [cls(forms) for forms in torch_forms(specs.values()).values()]

    @property
    def pattern(self) -> tuple[tuple[str, str], ...]:
        """The direct node, and for aten the node that names its function in an attribute."""
        (first, *_) = self._forms
        if first.namespace == "aten":
            return ((ATEN_DOMAIN, first.name), (ATEN_DOMAIN, _ATEN))
        return ((first.namespace, first.name),)

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal | None:
        """Match the function, its arguments and constant scalars."""
        node = scope.node(number)
        if node.op_type == _ATEN:
            if text_attribute(node, "operator") != self._forms[0].name:
                return None
            if overload := text_attribute(node, "overload_name"):
                return Refusal(f"has overload_name {shown(overload)}, expected none")
        spec = context.specs[self.operator]
        form = chosen_form(self._forms, spec, len(node.input))
        if form is None:
            expected = " or ".join(f"{len(form.args)} ({', '.join(form.args)})" for form in self._forms)
            return Refusal(f"has {len(node.input)} inputs, expected {expected}")
        if len(node.output) > len(spec.outputs) or not any(node.output):
            return Refusal(f"has {len(node.output)} outputs, expected 1 to {len(spec.outputs)}")
        given = dict(zip(form.args, node.input, strict=False))
        attrs: dict[str, AttrValue] = dict(form.attrs)
        types = {attr.name: attr.type for attr in spec.attrs}
        for argument, name in given.items():
            parameter = form.args[argument]
            if argument not in form.demands and parameter not in types:
                continue
            wanted = form.demands.get(argument)
            try:
                value = scalar(_value(context, scope, name), types.get(parameter, "bool"))
            except NotConstant as reason:
                return Refusal(f"{argument} must be constant; {shown(name)} {reason}")
            except ScalarProblem as problem:
                return Refusal(f"{argument}: {problem}")
            if wanted is not None and value != wanted:
                return Refusal(f"{argument} is {value}, expected {wanted}")
            attrs |= {parameter: value} if parameter else {}
        values = {form.args[argument]: name for argument, name in given.items() if name and form.args[argument]}
        values = {parameter: name for parameter, name in values.items() if parameter not in types}
        missing = [t.name for t in spec.inputs if not t.optional and t.name not in {*values, *form.ones}]
        if missing:
            return Refusal(f"required input {', '.join(missing)} is absent")
        around = _ones(context, form)
        values |= dict(zip(form.ones, (made.output[0] for made in around.before), strict=True))
        values |= {tensor.name: name for tensor, name in zip(spec.outputs, node.output, strict=False) if name}
        return Match((number,), values, attrs, around=around)


def is_function(node: NodeProto, name: str) -> bool:
    """Whether a node is this function of aten, in either spelling."""
    return node.domain == ATEN_DOMAIN and name in (
        node.op_type,
        text_attribute(node, "operator") if node.op_type == _ATEN else "",
    )


def _value(context: Context, scope: Scope, name: str) -> object:
    value = context.constants.value(scope, name)
    if value.size != 1 or value.ndim > 1:
        raise NotConstant(f"has shape {list(value.shape)}, expected one number")
    return value.item()


def _ones(context: Context, form: TorchForm) -> Around:
    one = np.ones(1, np.float32)
    nodes = tuple(constant(context.value_names.fresh(parameter), one) for parameter in form.ones)
    return Around(before=nodes, types={node.output[0]: ValueType("float32", (1,)) for node in nodes})
