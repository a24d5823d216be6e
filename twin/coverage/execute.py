"""Run a job of a clone in a separate process, and identify jobs for the state of earlier runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from opforge.twin.compiler.cache import digest
from opforge.twin.jobs import run_module

from .discover import Source
from .walk import Tree
from .worker import Row

_ROW = TypeAdapter(Row)
_STEPS = 6  # maximum compilations and programs of one job, each with the time limit
_PYTHON_SECONDS = 60.0
_HEADERS = (".h", ".hpp", ".inc")
Settings = dict[str, Any]


def run_one(given: tuple[Source, Settings]) -> Row:
    """Run one source with its settings in a separate process; end all processes that it started."""
    source, settings = given
    job = {"source": asdict(source), "settings": settings}
    limits = {
        "OPFORGE_COMPILE_SECONDS": str(int(settings["seconds"])),
        "OPFORGE_COMPILE_MEMORY_MB": str(settings["memory_mb"]),
    }
    seconds = settings["seconds"] * _STEPS + _PYTHON_SECONDS
    row = run_module("opforge.twin.coverage.worker", job, _ROW, seconds, limits)
    return Row(source.path, source.kind, reason=row) if isinstance(row, str) else row


def keys_of(tree: Tree, sources: Iterable[Source], settings: Settings, version: str) -> Iterator[str]:
    """Yield, for each source, a digest of its files, all headers of the clone, the settings and the twin."""
    headers = hashlib.sha256()
    for name in tree.names:
        if name.endswith(_HEADERS):
            headers.update(f"{name} {digest(tree.root / name)}\n".encode())
    common = json.dumps([version, headers.hexdigest(), settings], sort_keys=True)
    for source in sources:
        names = {*source.sources, *source.tests}
        if source.kind == "example":
            names |= set(tree.below(source.folder))
        total = hashlib.sha256(common.encode() + json.dumps(asdict(source), sort_keys=True).encode())
        for name in sorted(names):
            total.update(f"{name} {digest(tree.root / name)}\n".encode())
        yield total.hexdigest()
