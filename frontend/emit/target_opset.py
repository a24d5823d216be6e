"""Write a rewritten model in the newest opset that ATC supports."""

from __future__ import annotations

from dataclasses import replace

from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.reason import Reason
from opforge.frontend.ir.scope import Scope, node_name
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.state import State

from .atc_compat import is_read_by_atc
from .opset import NEWEST, current_opset, kept_function, respelled


def newest(state: State) -> State:
    """Write a rewritten model in the newest opset that ATC supports, or add a warning with the reason."""
    context, view = state.context, state.view
    current = current_opset(view.model)
    is_rewritten = state.matched.placements or state.rewritten.lowered
    if state.options.opset is not None or not is_rewritten or current in (None, NEWEST):
        return state
    found = kept_function(view) or respelled(view, context.types, NEWEST, context.value_names, _loses_parser)
    if isinstance(found, Reason):
        warning = f"the model keeps opset {current}, expected {NEWEST}: {found}"
        return replace(state, warnings=(*state.warnings, warning))
    found.write(view.model)
    return replace(state, view=view.after_change())


def _loses_parser(scope: Scope, node: NodeProto) -> Reason | None:
    """Return the reason against the newest opset if ATC has a parser for a node only in the model's opset."""
    version, op_type = scope.opsets[""], node.op_type
    if is_registered("", op_type, NEWEST) or not is_registered("", op_type, version) or not is_read_by_atc(scope):
        return None
    return Reason(f"ATC has a parser for node {shown(node_name(node))} ({op_type}) only in opset {version}")
