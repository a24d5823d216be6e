"""Load the operators of the project for conversions and runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.model import OpSpec


def project_specs() -> tuple[OpSpec, ...]:
    """Return the specs of the current folder's project, else the built-in ones; not those that are declared only."""
    paths = find_project().spec_paths()
    return _load(tuple((path, path.stat().st_mtime_ns) for path in paths))


@lru_cache(maxsize=4)
def _load(stamped: tuple[tuple[Path, int], ...]) -> tuple[OpSpec, ...]:
    return tuple(spec for spec in load_specs([path for path, _ in stamped]) if not spec.declared_only)
