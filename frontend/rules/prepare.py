"""Index the model for the rules; types of values are inferred at the first query."""

from __future__ import annotations

from dataclasses import replace

from opforge.frontend.ir.graph import GraphView
from opforge.frontend.state import State

from .context import Context


def index(state: State) -> State:
    """Make the context of the current model."""
    if state.context.view.model is state.model:
        return state
    view = GraphView(state.model, state.where)
    return replace(state, view=view, context=Context(view, state.options.specs, state.folder))
