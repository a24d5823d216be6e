"""Convert the model to the opset of the result: before the rewrite for --opset, otherwise after it."""

from __future__ import annotations

from dataclasses import replace

from onnx import ModelProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.scope import node_name, normal_domain
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.discovery import rules
from opforge.frontend.state import State

from .atc_compat import is_read_by_atc
from .opset import ATC_OPSETS, NEWEST, current_opset, opset_problem, write_opset


def check_opset(opset: int | None) -> None:
    """Check an option.

    Raises:
        UserError: ATC does not know this version.
    """
    if opset is not None and opset not in ATC_OPSETS:
        raise UserError(f"--opset: got {opset}, expected {ATC_OPSETS.start} to {NEWEST}")


def requested(state: State) -> State:
    """Write the model in the opset of `--opset`, or in the one that training formulas use.

    Raises:
        UserError: The model cannot be written in the version of the option.
    """
    options, context = state.options, state.context
    is_lowering = options.lower_training and _has_formula(context)
    if is_lowering and options.opset not in (None, NEWEST):
        raise UserError(f"--opset: got {options.opset}, expected {NEWEST} with --lower-training; omit the option")
    target = NEWEST if is_lowering else options.opset
    current = current_opset(state.view.model)
    if target is None or current == target or (current is None and not is_lowering):
        return state
    problem = opset_problem(context.view, context.types, target)
    if problem and options.opset is not None:
        raise UserError(
            f"{state.view.where}: cannot be converted to opset {target}: {problem}; export the model with that opset"
        )
    if problem:
        return replace(state, context=context.over(state.view, context.types, problem))
    model = ModelProto()
    model.CopyFrom(state.view.model)
    if current is None:
        model.opset_import.append(helper.make_opsetid("", target))
    write_opset(model, context.types, target)
    view = GraphView(model, state.view.where)
    new = context.over(view, context.types.over(view))
    return replace(state, view=view, context=new, is_new=options.opset is not None)


def newest(state: State) -> State:
    """Write a rewritten model in the newest opset that ATC knows, or add a warning that says why not."""
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


def _has_formula(context: Context) -> bool:
    """Return whether a rule that leads to standard nodes alone has a node that ATC has no parser for."""
    scope = context.view.main
    keys = {key for rule in rules(context.specs) if not rule.operator for key in rule.keys}
    found = {(normal_domain(domain), op_type) for domain, op_type in scope.keys} & keys
    return any(not is_registered(*key, scope.opsets.get(key[0], 0)) for key in found)


def _loss(view: GraphView) -> str:
    """Return the node that ATC has a parser for in the model's opset and not in the newest; "" if there is none."""
    for scope in view.scopes:
        version = scope.opsets.get("", NEWEST)
        for node in scope.body.node if is_read_by_atc(scope) else ():
            if normal_domain(node.domain) or not is_registered("", node.op_type, version):
                continue
            if not is_registered("", node.op_type, NEWEST):
                name = shown(node_name(node))
                return f"ATC has a parser for node {name} ({node.op_type}) only in opset {version}"
    return ""
