"""Run a job of a clone in a separate process: its row, and its key in the state of earlier runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from opforge.twin.compiler.cache import digest
from opforge.twin.jobs import run_module

from .discover import Source
from .walk import Tree

_STEPS = 6  # maximum compilations and programs of one scenario, each with the time limit
_PYTHON_SECONDS = 60.0
_HEADERS = (".h", ".hpp", ".inc")
Settings = dict[str, Any]
MOST_FINDINGS = 20


@dataclass
class Row:
    """One row of the result; `right` is None if the outputs are not compared.

    `launches` counts the launches of kernels by an example.
    `scenarios` has a row for each scenario; its path is the name, as in `SCENARIO_NUM=2`.
    `left_out` has the names of stated scenarios that did not run; the row is not right then.
    `tests` counts the unit tests that ran a kernel, and `clean_tests` those without a finding or a failed comparison.
    """

    path: str
    kind: str
    compiled: bool = False
    ran: bool = False
    right: bool | None = None
    findings: list[dict[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    reason: str = ""
    seconds: float = 0.0
    launches: int = 0
    tests: int = 0
    clean_tests: int = 0
    scenarios: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def leave_out(self, names: list[str]) -> None:
        """Add the stated scenarios that did not run; the row is not right then."""
        self.left_out = names
        if names and self.right:
            self.right, self.reason = None, f"stated scenarios did not run: {', '.join(names)}"

    def join_scenarios(self) -> None:
        """Set the result of an example to that of all its scenarios together."""
        parts = self.scenarios
        self.compiled, self.ran = (all(getattr(part, name) for part in parts) for name in ("compiled", "ran"))
        results = {part.right for part in parts}
        self.right = False if False in results else None if None in results else True
        places = {(found["kind"], found["where"]): found for part in parts for found in part.findings}
        self.findings = list(places.values())[:MOST_FINDINGS]
        self.missing = sorted({name for part in parts for name in part.missing})
        # The reason of the worst result.
        worst = min(parts, key=lambda part: (part.right is not False, part.compiled, part.ran, part.right is True))
        self.reason = f"{worst.path}: {worst.reason}" if worst.reason else ""
        self.seconds = round(sum(part.seconds for part in parts), 1)
        self.launches = sum(part.launches for part in parts)


_ROW = TypeAdapter(Row)


def run_one(given: tuple[Source, Settings]) -> Row:
    """Run one source with its settings in a separate process; end all processes that it started."""
    source, settings = given
    job = {"source": asdict(source), "settings": settings}
    limits = {
        "OPFORGE_COMPILE_SECONDS": str(int(settings["seconds"])),
        "OPFORGE_COMPILE_MEMORY_MB": str(settings["memory_mb"]),
    }
    seconds = settings["seconds"] * _STEPS * max(1, len(source.scenarios)) + _PYTHON_SECONDS
    answer = run_module("opforge.twin.coverage.worker", job, _ROW, seconds, limits)
    row = Row(source.path, source.kind, reason=answer) if isinstance(answer, str) else answer
    row.leave_out(source.left_out)
    return row


def keys_of(tree: Tree, sources: Iterable[Source], settings: Settings, version: str) -> Iterator[str]:
    """Yield, for each source, a digest of its files, all headers of the clone, the settings and the twin."""
    headers = hashlib.sha256()
    for name in tree.names:
        if name.endswith(_HEADERS):
            headers.update(f"{name} {digest(tree.root / name)}\n".encode())
    common = json.dumps([version, headers.hexdigest(), settings], sort_keys=True)
    for source in sources:
        names = {*source.sources, *source.tests}.union(*(fields["sources"] for fields in source.scenarios.values()))
        if source.kind == "example":
            names |= set(tree.below(source.folder))
        total = hashlib.sha256(common.encode() + json.dumps(asdict(source), sort_keys=True).encode())
        for name in sorted(names):
            total.update(f"{name} {digest(tree.root / name)}\n".encode())
        yield total.hexdigest()
