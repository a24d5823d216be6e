"""Infer the types of values before the rules are tried."""

from __future__ import annotations

from dataclasses import replace

from .rules.search import candidates
from .state import State


def types(state: State) -> State:
    """Infer types in each graph that has a node at which a rule is tried.

    onnx's inference takes as long as the rest of a conversion. It runs only if a rule reads a type that is still
    unknown.
    """
    context = state.context if state.view is state.context.view else state.context.over(state.view)
    found = candidates(state.view, context.specs, state.options.groups)
    for scope in {scope.number: scope for scope, _ in found}.values():
        context.types.infer(scope)
    return replace(state, context=context)
