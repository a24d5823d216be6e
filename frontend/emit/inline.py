"""Inline local functions, because ATC does not expand them."""

from __future__ import annotations

from dataclasses import replace

import onnx.checker
import onnx.inliner
from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.process_limits import LimitError
from opforge.frontend.io.load import parse_model
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.value_types import MAX_EXPANDED_NODES, expanded_nodes
from opforge.frontend.limits import in_child, limits_for
from opforge.frontend.rules.search import candidates
from opforge.frontend.state import State


def inline(state: State) -> State:
    """Inline local functions, if a rule may match: their bodies have no types, which some conditions need."""
    model, specs, groups = state.view.model, state.context.specs, state.options.groups
    found = candidates(state.view, specs, groups) if model.functions else []
    for scope, number in found:
        # After inlining, the model may lack the import of a domain that the function imported.
        state.view.require_import(scope, number)
    inlined = without_functions(model) if found else None
    return state if inlined is None else replace(state, view=GraphView(inlined, state.view.where))


def without_functions(model: ModelProto) -> ModelProto | None:
    """Return a copy with only the functions of custom operators; None if there are no others, or if onnx fails."""
    ours = [(function.domain, function.name) for function in model.functions if function.domain == OPFORGE_DOMAIN]
    if len(ours) == len(model.functions) or expanded_nodes(model) > MAX_EXPANDED_NODES:
        return None

    def work() -> bytes:
        try:
            return onnx.inliner.inline_selected_functions(model, ours, exclude=True).SerializeToString()
        except (onnx.checker.ValidationError, RuntimeError, ValueError):
            return b""

    try:
        inlined = parse_model(in_child(work, limits_for(model.ByteSize())), "model")
        GraphView(inlined)
    except (LimitError, UserError):
        return None
    # onnx keeps a function that has another opset than the model.
    return inlined if all(function.domain == OPFORGE_DOMAIN for function in inlined.functions) else None
