"""Add function bodies to custom nodes, as the last pass before the model is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from onnx import FunctionProto, ModelProto, NodeProto

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.views.facts import case_type
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, onnx_keys
from opforge.frontend.rules.rule import Placement
from opforge.frontend.state import State

from .functions import body_needs_dtypes, function_body
from .opset import current_opset

# Local functions exist since IR 8.
_FUNCTION_IR = 8
# Version of ai.onnx for the bodies of a model that does not import ai.onnx itself.
_DEFAULT_OPSET = 18
Call = tuple[Placement, NodeProto]


def emit(state: State) -> State:
    """Embed the bodies that the new nodes call, and remove those without calls."""
    model, placements = state.view.model, state.matched.placements
    own_types = {name for spec in {id(p.call.spec): p.call.spec for p in placements}.values() for name in _types(spec)}
    if state.options.domain != OPFORGE_DOMAIN:
        _set_functions(model, _without(model, own_types - {node.op_type for node in state.ours}))
        return state
    placed = dict(zip(state.rewritten.names, placements, strict=True))
    calls: dict[str, list[Call]] = defaultdict(list)
    # Types of unchanged nodes.
    reserved: set[str] = set()
    for node in state.ours:
        if node.name in placed:
            calls[node.op_type].append((placed[node.name], node))
        else:
            reserved.add(node.op_type)
    kept = _without(model, own_types - reserved)
    bodies = {op_type: _bodies(calls[op_type], _opset(model), reserved) for op_type in calls}
    new = [function for functions in bodies.values() for function in functions]
    # onnx's reference evaluator requires functions before those that call them.
    _set_functions(model, [*new, *kept])
    if new:
        model.ir_version = max(model.ir_version, _FUNCTION_IR)
    without = [node.name for op_type, found in calls.items() if not bodies[op_type] for _, node in found]
    return replace(state, without_body=tuple(without))


def _types(spec: OpSpec) -> list[str]:
    return [key.op_type for key in onnx_keys(spec) if key.domain == OPFORGE_DOMAIN]


def _without(model: ModelProto, op_types: Collection[str]) -> list[FunctionProto]:
    """Return the functions of a model without the bodies of these types."""
    return [f for f in model.functions if f.domain != OPFORGE_DOMAIN or f.name not in op_types]


def _opset(model: ModelProto) -> int:
    return current_opset(model) or _DEFAULT_OPSET


def _set_functions(model: ModelProto, functions: Sequence[FunctionProto]) -> None:
    kept = list(functions)
    if kept != list(model.functions):
        del model.functions[:]
        model.functions.extend(kept)


# Case, and the element types in its body for an old opset.
_Variant = tuple[str, tuple[tuple[str, str], ...]]


def _variant(placement: Placement, opset: int) -> _Variant:
    return placement.case, tuple(placement.input_dtypes.items()) if body_needs_dtypes(opset) else ()


def _bodies(calls: Sequence[Call], opset: int, reserved: Collection[str]) -> list[FunctionProto]:
    """Return the functions that nodes of one operator call, and rename nodes; empty if a node cannot have a body.

    Nodes of different cases need different bodies, and onnxruntime before 1.27 does not read `overload`. The nodes of
    the first case keep the type of the operator. The nodes of another case get the type of this case.
    """
    spec = calls[0][0].call.spec
    variants: dict[_Variant, list[NodeProto]] = defaultdict(list)
    for placement, node in calls:
        variants[_variant(placement, opset)].append(node)
    used = set(reserved)
    functions: list[tuple[FunctionProto, list[NodeProto]]] = []
    for (case, dtypes), nodes in variants.items():
        body = function_body(spec, case, max(len(node.input) for node in nodes), opset, dict(dtypes))
        name = next((name for name in (spec.op_type, case_type(spec, case)) if name not in used), "")
        if body is None or not name:
            return []
        used.add(name)
        body.name = name
        functions.append((body, nodes))
    for body, nodes in functions:
        for node in nodes:
            node.op_type = body.name
            # onnx's reference evaluator needs as many inputs as the function has, including absent ones.
            node.input.extend([""] * (len(body.input) - len(node.input)))
    return [body for body, _ in functions]
