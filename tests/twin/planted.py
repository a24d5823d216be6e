"""Mistakes planted in a clean kernel, one in each copy of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """A line of the clean kernel, what a mistake makes of it, and what the twin must say."""

    name: str
    line: str
    mistake: str
    kind: str
    says: str
    blocks: int = 1


def kernels_of(clean: str, name: str, planted_ones: Iterable[Planted]) -> Iterator[str]:
    """The clean kernel under `name`, then a copy for every mistake under the name of that."""
    yield clean.replace("NAME", name)
    for planted in planted_ones:
        assert clean.count(planted.line) >= 1, planted.name
        yield clean.replace(planted.line, planted.mistake, 1).replace("NAME", planted.name)
