"""Plant mistakes in copies of a clean kernel, one mistake in each copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Planted:
    """A line of the clean kernel, its replacement, and the expected finding of the twin."""

    name: str
    line: str
    mistake: str
    kind: str
    message: str
    blocks: int = 1

    def assert_in(self, findings: list[dict[str, Any]]) -> dict[str, Any]:
        """Require the expected finding as the first one of its kind; return it."""
        found = [finding for finding in findings if finding["kind"] == self.kind]
        assert found, findings
        assert self.message in found[0]["message"]
        return found[0]


def kernels_of(clean: str, name: str, planted_ones: Iterable[Planted]) -> Iterator[str]:
    """Yield the clean kernel as `name`, then a copy for every mistake, with its name."""
    yield clean.replace("NAME", name)
    for planted in planted_ones:
        assert clean.count(planted.line) >= 1, planted.name
        yield clean.replace(planted.line, planted.mistake, 1).replace("NAME", planted.name)
