"""The last line of a conversion."""

from __future__ import annotations


def summary(mapped: int, lowered: int, left: int, before: int, after: int, *, changed: bool) -> str:
    """How many nodes were mapped, lowered and left, and how many there were and are."""
    kind = "" if changed else ", the model is unchanged"
    words = f" {lowered} lowered," if lowered else ""
    return f"{mapped} mapped,{words} {left} left, nodes: {before} before, {after} after{kind}"
