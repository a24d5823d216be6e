"""Make source nodes of other domains executable, because onnx's evaluator has only standard operators.

`opforge run` and `opforge convert --verify` use them. Modules of `training` compute their nodes in numpy, from the
definitions and not from custom operators, so that a wrong mapping shows as a difference (`REFERENCE`). Functions of
PyTorch are computed by the ONNX bodies of the operators whose specs name them.
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

from opforge.codegen.spec.model import OpSpec
from opforge.frontend.importers.torch_forms import TorchForm, chosen_form, scalar, torch_forms
from opforge.frontend.ir.attributes import AttrValue, default_attributes, text_attribute
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.rules.discovery import facts
from opforge.frontend.rules.names.aten import ATEN, ATEN_DOMAIN

Array = NDArray[Any]
Results = Sequence[Array]
# Runs the ONNX body of an operator on inputs by name and attributes, for a node.
RunBody = Callable[[NodeProto, OpSpec, dict[str, Array], dict[str, AttrValue]], Results]


def reference_operators(view: GraphView) -> Iterator[type[OpRun]]:
    """Yield the nodes of `training` as classes for onnx's reference evaluator, which is to run a model."""
    types = ValueTypes(view)

    def run(function: Callable[..., Results], node: NodeProto, values: Sequence[Array | None], linked: Any) -> Results:
        more: Mapping[str, Any] = {}
        if "size" in signature(function).parameters:
            shape = types.of(view.main, node.output[0]).shape
            more = {} if shape is None or None in shape[2:] else {"size": shape[2:]}
        return function(*values, **linked, **more)

    for (domain, op_type), function in facts("REFERENCE").items():
        yield make_operator(domain, op_type, partial(run, function))


def torch_operators(specs: Mapping[str, OpSpec], run_body: RunBody) -> Iterator[type[OpRun]]:
    """Yield the functions of PyTorch that specs name."""
    known = torch_forms(specs.values())

    def run(key: tuple[str, str], node: NodeProto, values: Sequence[Array | None], _linked: Any) -> Results:
        if key not in known:
            raise ValueError(f"{key[0]}::{key[1]} is not supported")
        spec = specs[known[key][0].operator]
        return run_body(node, spec, *_arguments(known[key], spec, values))

    for namespace, name in known:
        domain = ATEN_DOMAIN if namespace == "aten" else namespace
        yield make_operator(domain, name, partial(run, (namespace, name)))
    yield make_operator(
        ATEN_DOMAIN, ATEN, lambda node, *given: run(("aten", text_attribute(node, "operator")), node, *given)
    )


def _arguments(
    forms: Sequence[TorchForm], spec: OpSpec, values: Sequence[Array | None]
) -> tuple[dict[str, Array], dict[str, AttrValue]]:
    """Return inputs and attributes of an operator by name, for the arguments of a function."""
    form = chosen_form(forms, spec, len(values))
    if form is None:
        raise ValueError(f"has {len(values)} inputs, which no form of {forms[0].label} has")
    types = {attr.name: attr.type for attr in spec.attrs}
    inputs: dict[str, Array] = {parameter: np.ones(1, np.float32) for parameter in form.ones}
    attrs = default_attributes(spec) | dict(form.attrs)
    for (argument, parameter), value in zip(form.args.items(), values, strict=False):
        if value is None:
            continue
        if argument in form.demands and value.item() != form.demands[argument]:
            raise ValueError(f"{argument} is {value.item()}, expected {form.demands[argument]}")
        if parameter in types:
            try:
                attrs[parameter] = scalar(value.item(), types[parameter])
            except Unmatched as problem:
                raise ValueError(f"{argument}: {problem}") from problem
        elif parameter:
            inputs[parameter] = value
    return inputs, attrs


def make_operator(
    domain: str, op_type: str, function: Callable[[NodeProto, Sequence[Array | None], Mapping[str, Any]], Results]
) -> type[OpRun]:
    """Return the class of a node for onnx's reference evaluator; the function gets the node, inputs and attributes."""

    def run(self_: OpRun, *values: Array | None, **linked: Any) -> tuple[Array, ...]:
        node = self_.onnx_node
        given = {attribute.name: getattr(self_, attribute.name) for attribute in node.attribute}
        return tuple(function(node, values, {**given, **linked})[: len(node.output)])

    return type(op_type, (OpRun,), {"op_domain": domain, "op_schema": None, "_run": run})
