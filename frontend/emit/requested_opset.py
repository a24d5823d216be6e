"""Write the model in the opset of `--opset`, or in the one that training formulas use, before the rules are tried."""

from __future__ import annotations

from dataclasses import replace

from onnx import ModelProto, helper

from opforge.codegen.errors import UserError
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Reason
from opforge.frontend.ir.scope import normal_domain
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.discovery import rules
from opforge.frontend.state import State

from .opset import ATC_OPSETS, NEWEST, current_opset, kept_function, respelled


def requested(state: State) -> State:
    """Write the model in the opset of `--opset`, or in the one that training formulas use.

    Raises:
        UserError: ATC does not support the version of the option, or the model cannot be written in it.
    """
    options, context = state.options, state.context
    if options.opset is not None and options.opset not in ATC_OPSETS:
        raise UserError(f"--opset: got {options.opset}, expected {ATC_OPSETS.start} to {NEWEST}")
    is_lowering = options.lower_training and _has_formula(context)
    if is_lowering and options.opset not in (None, NEWEST):
        raise UserError(f"--opset: got {options.opset}, expected {NEWEST} with --lower-training; omit the option")
    target = NEWEST if is_lowering else options.opset
    current = current_opset(state.view.model)
    if target is None or current == target or (current is None and not is_lowering):
        return state
    found = respelled(state.view, context.types, target, context.value_names)
    if current is not None:
        found = kept_function(state.view) or found
    if isinstance(found, Reason) and options.opset is not None:
        raise UserError(
            f"{state.view.where}: cannot be converted to opset {target}: {found}; export the model with that opset"
        )
    if isinstance(found, Reason):
        return replace(state, context=context.over(state.view, context.types, found))
    model = ModelProto()
    model.CopyFrom(state.view.model)
    if current is None:
        model.opset_import.append(helper.make_opsetid("", target))
    found.write(model)
    view = GraphView(model, state.view.where)
    new = context.over(view, context.types.over(view))
    return replace(state, view=view, context=new, is_new=options.opset is not None)


def _has_formula(context: Context) -> bool:
    """Return whether a rule that leads to standard nodes alone has a node that ATC has no parser for."""
    scope = context.view.main
    keys = {key for rule in rules(context.specs) if not rule.operator for key in rule.keys}
    found = {(normal_domain(domain), op_type) for domain, op_type in scope.keys} & keys
    return any(not is_registered(*key, scope.opsets.get(key[0], 0)) for key in found)
