"""The names that CANN's headers declare, by twin/cann_api.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

GENERATIONS = frozenset({"8.1", "2026"})
Entry = Mapping[str, Any]


@lru_cache(maxsize=1)
def api() -> dict[str, list[dict[str, Any]]]:
    """Return the declarations by section: kernel, host, aclnn_l2, acl."""
    sections: dict[str, Any] = json.loads((Path(__file__).parent.parent / "cann_api.json").read_text(encoding="utf-8"))
    return {name: entries for name, entries in sections.items() if isinstance(entries, list)}


def in_both(part: Entry) -> bool:
    """Return whether an entry, a method or an enumerator exists in both generations of the headers."""
    return "generations" not in part or set(part["generations"]) >= GENERATIONS


def known_names(entries: Iterable[Entry]) -> set[str]:
    """Return the qualified names among `entries` that exist in both generations."""
    return {entry["name"] for entry in entries if in_both(entry)}
