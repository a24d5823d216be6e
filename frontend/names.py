"""Names from models: how messages show them, and new ones that collide with nothing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

_SHOWN = 80
_SHOWN_PATH = 200


def shown(name: object) -> str:
    """A name as messages print it: quoted, control characters escaped, cut when it is long."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...{text[-1]}"


def path_text(path: Path) -> str:
    """A path as messages print it: quoted when it holds control characters, cut in the middle when it is long."""
    text = str(path) if str(path).isprintable() else repr(str(path))
    half = _SHOWN_PATH // 2
    return text if len(text) <= _SHOWN_PATH else f"{text[:half]}...{text[-half:]}"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, as messages print it."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if text.isprintable() and len(text) <= 200 else shown(text)


class FreshNames:
    """Gives names that nobody in a model has."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._given = taken
        self._numbers: dict[str, int] = {}

    @cached_property
    def _taken(self) -> set[str]:
        # Most models need no new name.
        return set(self._given)

    def fresh(self, stem: str) -> str:
        """`stem` itself when it is free, else `stem_1`, `stem_2`, ..."""
        name, number = stem, self._numbers.get(stem, 0)
        while not name or name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._numbers[stem] = number
        self._taken.add(name)
        return name
