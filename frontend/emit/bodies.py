"""Add function bodies to custom nodes, as the last pass before the model is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from onnx import FunctionProto, ModelProto, NodeProto

from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.rules.rule import Placement
from opforge.frontend.state import State

from .functions import body_by_rank, body_needs_dtypes, function_body
from .opset import current_opset

# Local functions exist since IR 8, several functions of one name since IR 10.
_FUNCTION_IR = 8
_OVERLOAD_IR = 10
# Version of ai.onnx for the bodies of a model that does not import ai.onnx itself.
_DEFAULT_OPSET = 18
Call = tuple[Placement, NodeProto]


def emit(state: State) -> State:
    """Embed the bodies that the new nodes call, and drop those that no node calls any more."""
    model, placements = state.view.model, state.matched.placements
    op_types = {placement.call.spec.op_type for placement in placements}
    if state.options.domain != OPFORGE_DOMAIN:
        gone = op_types - {node.op_type for node in state.ours}
        _set_functions(model, [f for f in model.functions if f.domain != OPFORGE_DOMAIN or f.name not in gone])
        return state
    placed = dict(zip(state.rewritten.names, placements, strict=True))
    calls: dict[str, list[Call]] = defaultdict(list)
    # Overloads of nodes that stay as they are.
    reserved: dict[str, set[str]] = defaultdict(set)
    for node in state.ours:
        if node.name in placed:
            calls[node.op_type].append((placed[node.name], node))
        else:
            reserved[node.op_type].add(node.overload)
    bodies = {op_type: _bodies(calls[op_type], _opset(model), reserved[op_type]) for op_type in calls}
    kept = [
        function
        for function in model.functions
        if function.domain != OPFORGE_DOMAIN
        or function.name not in calls
        or function.overload in reserved[function.name]
    ]
    new = [function for functions in bodies.values() for function in functions]
    # onnx's reference evaluator requires functions before those that call them.
    _set_functions(model, [*new, *kept])
    if new:
        least = _OVERLOAD_IR if any(function.overload for function in new) else _FUNCTION_IR
        model.ir_version = max(model.ir_version, least)
    without = [node.name for op_type, found in calls.items() if not bodies[op_type] for _, node in found]
    return replace(state, without_body=tuple(without))


def _opset(model: ModelProto) -> int:
    return current_opset(model) or _DEFAULT_OPSET


def _set_functions(model: ModelProto, functions: Sequence[FunctionProto]) -> None:
    kept = list(functions)
    if kept != list(model.functions):
        del model.functions[:]
        model.functions.extend(kept)


# Case, and the element types that the body of an old opset has written into it.
_Variant = tuple[str, tuple[tuple[str, str], ...]]


def _variant(placement: Placement, opset: int) -> _Variant:
    return placement.case, tuple(placement.input_dtypes.items()) if body_needs_dtypes(opset) else ()


def _bodies(calls: Sequence[Call], opset: int, reserved: set[str]) -> list[FunctionProto]:
    """Return the functions that nodes of one operator call; empty when the opset cannot express one of them.

    Nodes of different cases need different bodies, which have one name and differ in `overload`.
    """
    spec = calls[0][0].call.spec
    arity = max(len(node.input) for _, node in calls)
    overloads = FreshNames(reserved)
    variants: dict[_Variant, FunctionProto] = {}
    for placement, _ in calls:
        variant = _variant(placement, opset)
        if variant in variants:
            continue
        case, dtypes = variant
        body = function_body(spec, case, arity, opset, dict(dtypes))
        if body is None:
            return []
        if variants or "" in reserved:
            body.overload = overloads.fresh("_".join([case, *(word for _, word in dtypes)]))
        variants[variant] = body
    for placement, node in calls:
        if overload := variants[_variant(placement, opset)].overload:
            node.overload = overload
        # onnx's reference evaluator needs as many inputs as the function has, absent ones too.
        node.input.extend([""] * (arity - len(node.input)))
    by_case = {case: body for (case, _), body in variants.items()}
    fallback = None
    if 1 < len(variants) == len(by_case) and not reserved:
        # onnx's reference evaluator knows no overloads: it takes the last function of a name, which must do for all.
        fallback = body_by_rank(spec, by_case)
    if fallback:
        fallback.overload = overloads.fresh("any")
    return [*variants.values(), *filter(None, [fallback])]
