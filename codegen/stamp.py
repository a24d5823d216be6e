"""Whether `opforge generate` would change nothing, told without reading a spec: from digests of all it takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .writer import Tree, replace_file

STAMP = ".opforge-stamp.json"
_GENERATOR = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Stamp:
    """What the last complete run took and made: a digest of its sources, digests of its files, what it left out."""

    sources: str
    operators: int
    files: dict[str, str]
    left_out: tuple[str, ...]


def sources_digest(paths: Sequence[Path], root: Path) -> str:
    """A digest of the generator, the specs, and which plans and kernels exist."""
    digest = hashlib.sha256()
    generator = sorted(
        [*_GENERATOR.rglob("*.py"), *(_GENERATOR / "templates").iterdir(), *(_GENERATOR / "data").iterdir()]
    )
    for path in (*generator, *paths):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    for folder, pattern in (("op_host", "*_tiling.h"), ("op_kernel", "*.h")):
        names = sorted(path.name for path in (root / folder).glob(pattern))
        digest.update("\0".join([folder, *names]).encode())
    return digest.hexdigest()


def current(out: Path, sources: str) -> Stamp | None:
    """The stamp in the output folder if it is of these sources and every file is still as it was written."""
    try:
        known: Any = json.loads((out / STAMP).read_text(encoding="utf-8"))
        stamp = Stamp(known["sources"], known["operators"], known["files"], tuple(known["left_out"]))
        fresh = stamp.sources == sources and all(_digest(out / path) == was for path, was in stamp.files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # no stamp, or a damaged one: the run does its work
    return stamp if fresh else None


def leave(out: Path, tree: Tree, sources: str, operators: int, left_out: Sequence[str]) -> None:
    """Note what a complete run made."""
    files = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in tree.files.items()}
    noted = {"sources": sources, "operators": operators, "files": files, "left_out": list(left_out)}
    replace_file(out / STAMP, json.dumps(noted, indent=0, sort_keys=True) + "\n")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
