"""Format the last line of a conversion."""

from __future__ import annotations


def summary(mapped: int, lowered: int, left: int, before: int, after: int, *, changed: bool) -> str:
    """Return the numbers of mapped, lowered and unmapped nodes, and of nodes before and after."""
    kind = "" if changed else "; the model is unchanged"
    words = f" {lowered} lowered," if lowered else ""
    return f"{mapped} mapped,{words} {left} not mapped; nodes: {before} before, {after} after{kind}"
