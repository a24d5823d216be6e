"""Make source nodes of other domains executable, because onnx's evaluator has only standard operators.

`opforge run` and `opforge convert --verify` use them. Rule modules compute their nodes in NumPy, from the definitions
and not from custom operators, so that a wrong mapping is detected (`REFERENCE`). Other functions of PyTorch are
computed by the operators whose specs name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto
from onnx.reference.op_run import OpRun

from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.ir.attributes import default_attributes, text_attribute
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.rules.discovery import facts
from opforge.frontend.rules.names.aten import ATEN, ATEN_DOMAIN
from opforge.frontend.rules.names.torch_forms import TorchForm, bound_call, torch_forms

Array = NDArray[Any]
Results = Sequence[Array]
# Computes a custom operator for a node, from its inputs by name and its attributes.
Compute = Callable[[NodeProto, OpSpec, dict[str, Array], dict[str, AttrValue]], Results]


def reference_operators(view: GraphView) -> Iterator[type[OpRun]]:
    """Yield the nodes of rule modules in a model as classes for onnx's reference evaluator."""
    types = ValueTypes(view)
    known = facts("REFERENCE")

    def run(function: Callable[..., Results], node: NodeProto, values: Sequence[Array | None], linked: Any) -> Results:
        more: Mapping[str, Any] = {}
        if "size" in signature(function).parameters:
            shape = types.of(view.main, node.output[0]).shape
            more = {} if shape is None or None in shape[2:] else {"size": shape[2:]}
        return function(*values, **linked, **more)

    for (domain, op_type), function in known.items():
        yield make_operator(domain, op_type, partial(run, function))


def torch_operators(specs: Mapping[str, OpSpec], compute: Compute) -> Iterator[type[OpRun]]:
    """Yield the PyTorch functions of specs that no rule module defines."""
    forms = torch_forms(specs.values())
    known = facts("REFERENCE")

    def run(key: tuple[str, str], node: NodeProto, values: Sequence[Array | None], _linked: Any) -> Results:
        if key not in forms:
            raise ValueError(f"{key[0]}::{key[1]} is not supported")
        spec = specs[forms[key][0].operator]
        return compute(node, spec, *_parameters(forms[key], spec, values))

    def run_aten(node: NodeProto, values: Sequence[Array | None], linked: Any) -> Results:
        name = text_attribute(node, "operator")
        function: Callable[..., Results] | None = known.get((ATEN_DOMAIN, name))
        return function(*values) if function else run(("aten", name), node, values, linked)

    for namespace, name in forms:
        domain = ATEN_DOMAIN if namespace == "aten" else namespace
        if (domain, name) not in known:
            yield make_operator(domain, name, partial(run, (namespace, name)))
    yield make_operator(ATEN_DOMAIN, ATEN, run_aten)


def _parameters(
    forms: Sequence[TorchForm], spec: OpSpec, values: Sequence[Array | None]
) -> tuple[dict[str, Array], dict[str, AttrValue]]:
    """Return inputs and attributes of an operator by name, for the arguments of a function."""
    call = bound_call(forms, spec, values)
    if call is None:
        raise ValueError(f"has {len(values)} inputs, which no form of {forms[0].label} has")
    try:
        inputs, attrs = call.parameters(_number)
    except Unmatched as problem:
        raise ValueError(str(problem)) from problem
    ones = {parameter: np.ones(1, np.float32) for parameter in call.form.ones}
    return ones | {name: value for name, value in inputs.items() if value is not None}, default_attributes(spec) | attrs


def _number(argument: str, value: Array | None) -> object:
    if value is None or value.size != 1:
        got = "nothing" if value is None else f"shape {list(value.shape)}"
        raise Unmatched(f"{argument}: got {got}, expected one number")
    return value.item()


def make_operator(
    domain: str, op_type: str, function: Callable[[NodeProto, Sequence[Array | None], Mapping[str, Any]], Results]
) -> type[OpRun]:
    """Return the class of a node for onnx's reference evaluator; the function receives node, inputs and attributes."""

    def run(self_: OpRun, *values: Array | None, **linked: Any) -> tuple[Array, ...]:
        node = self_.onnx_node
        given = {attribute.name: getattr(self_, attribute.name) for attribute in node.attribute}
        return tuple(function(node, values, {**given, **linked})[: len(node.output)])

    return type(op_type, (OpRun,), {"op_domain": domain, "op_schema": None, "_run": run})
