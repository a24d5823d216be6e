"""Load the operators of the project; the pass of this name adds them to a model."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.rules.context import Context

from .state import Loaded, State


def operators(loaded: Loaded) -> State:
    """Load the operators of a conversion."""
    given = loaded.options.specs
    specs = {spec.op_type: spec for spec in (project_specs() if given is None else given)}
    return State(loaded.options, loaded.view, loaded.view, Context(loaded.view, specs, loaded.folder))


def project_specs() -> tuple[OpSpec, ...]:
    """Return the specs of the current project, else the built-in ones, without those that are declared only."""
    paths = find_project().spec_paths()
    return _load(tuple((path, path.stat().st_mtime_ns) for path in paths))


@lru_cache(maxsize=4)
def _load(stamped: tuple[tuple[Path, int], ...]) -> tuple[OpSpec, ...]:
    return tuple(spec for spec in load_specs([path for path, _ in stamped]) if not spec.declared_only)
