"""Find out without reading a spec whether `opforge generate` would change nothing, from digests of its inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from .errors import UserError
from .files import read_regular, replace_file
from .project import MOST_SPEC_BYTES
from .untrusted import MOST_JSON_BYTES, read_json
from .writer import Tree, inside

STAMP = ".opforge-stamp.json"
_GENERATOR = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Stamp:
    """What the last complete run took and made: a digest of its sources, digests of its files, what it left out."""

    sources: str
    operators: int
    files: dict[str, str]
    left_out: tuple[str, ...]


_FORM = TypeAdapter(Stamp)


def sources_digest(paths: Sequence[Path], root: Path) -> str:
    """A digest of the generator, the specs, and which plans and kernels exist.

    Raises:
        UserError: A spec cannot be read.
    """
    digest = hashlib.sha256()
    generator = sorted([*_GENERATOR.rglob("*.py"), *(_GENERATOR / "templates").iterdir()])
    contents = [(path, path.read_bytes()) for path in generator]
    contents += [(path, read_regular(path, "spec", MOST_SPEC_BYTES, "make it smaller")) for path in paths]
    for path, content in contents:
        digest.update(f"{path.name}\0{len(content)}\0".encode(errors="surrogateescape"))
        digest.update(content)
    for folder, pattern in (("op_host", "*_tiling.h"), ("op_kernel", "*.h")):
        names = sorted(path.name for path in (root / folder).glob(pattern))
        digest.update("\0".join([folder, *names]).encode(errors="surrogateescape"))
    return digest.hexdigest()


def current(out: Path, sources: str) -> Stamp | None:
    """The stamp in the output folder if it is of these sources and every file is still as it was written."""
    try:
        stamp: Stamp = read_json(out / STAMP, _FORM, "stamp", "delete it and run again")
        fresh = stamp.sources == sources and all(_digest(inside(out, path)) == was for path, was in stamp.files.items())
    except UserError:
        return None  # no stamp, or a damaged one: the run does its work
    return stamp if fresh else None


def leave(out: Path, tree: Tree, sources: str, operators: int, left_out: Sequence[str]) -> None:
    """Note what a complete run made."""
    files = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in tree.files.items()}
    noted = asdict(Stamp(sources, operators, files, tuple(left_out)))
    replace_file(out / STAMP, json.dumps(noted, indent=0, sort_keys=True) + "\n")


def _digest(path: Path) -> str:
    return hashlib.sha256(read_regular(path, "generated file", MOST_JSON_BYTES, "run again")).hexdigest()
