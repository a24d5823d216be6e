"""Try the rules at every node of a model, and collect the matches."""

from __future__ import annotations

from dataclasses import replace

from .rules.search import Search
from .state import Matched, State


def match(state: State) -> State:
    """Search the model once."""
    search = Search(state.context, state.options.groups, state.options.domain)
    search.run()
    # Nodes created by the conversion are not in the model of the user.
    left = tuple(entry for entry in search.left() if entry.node not in state.rewritten.made)
    return replace(state, matched=Matched(tuple(search.placements), tuple(search.lowered), left))
