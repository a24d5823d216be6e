"""Create new names that a model does not use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property


class FreshNames:
    """Creates names that a model does not use."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._given = taken
        self._numbers: dict[str, int] = {}

    @cached_property
    def _taken(self) -> set[str]:
        # Most models need no new name.
        return set(self._given)

    def fresh(self, stem: str) -> str:
        """Return `stem` if it is unused, else `stem_1`, `stem_2`, ..."""
        name, number = stem, self._numbers.get(stem, 0)
        while not name or name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._numbers[stem] = number
        self._taken.add(name)
        return name
