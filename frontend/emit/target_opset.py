"""Write a rewritten model in the newest opset that ATC supports."""

from __future__ import annotations

from dataclasses import replace

from opforge.codegen.printing import shown
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.scope import node_name, normal_domain
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.state import State

from .atc_compat import is_read_by_atc
from .opset import NEWEST, current_opset, opset_problem, write_opset


def newest(state: State) -> State:
    """Write a rewritten model in the newest opset that ATC supports, or add a warning with the reason."""
    context, model = state.context, state.view.model
    current = current_opset(model)
    is_rewritten = state.matched.placements or state.rewritten.lowered
    if state.options.opset is not None or not is_rewritten or current in (None, NEWEST):
        return state
    if problem := opset_problem(context.view, context.types, NEWEST) or _loss(context.view):
        warning = f"the model keeps opset {current}, expected {NEWEST}: {problem}"
        return replace(state, warnings=(*state.warnings, warning))
    write_opset(model, context.types, NEWEST)
    return replace(state, view=state.view.after_change())


def _loss(view: GraphView) -> str:
    """Return a node that has a parser of ATC in the model's opset but not in the newest; "" if there is none."""
    for scope in view.scopes:
        version = scope.opsets.get("", NEWEST)
        for node in scope.body.node if is_read_by_atc(scope) else ():
            if normal_domain(node.domain) or not is_registered("", node.op_type, version):
                continue
            if not is_registered("", node.op_type, NEWEST):
                name = shown(node_name(node))
                return f"ATC has a parser for node {name} ({node.op_type}) only in opset {version}"
    return ""
