"""Find modules on PYTHONPATH that Python imports instead of dependencies of opforge."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from opforge.codegen.printing import path_text

_REQUIRED = ("google", "jinja2", "ml_dtypes", "numpy", "onnx", "pydantic", "rich", "typer", "yaml")


def hidden_text() -> str:
    """Return a message about the first such module; empty if there is none."""
    for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if not entry or not Path(entry).is_dir() or entry not in sys.path:
            continue
        behind = sys.path[sys.path.index(entry) + 1 :]
        standard = sys.stdlib_module_names & {path.name.partition(".")[0] for path in Path(entry).iterdir()}
        for name in (*sorted(standard), *_REQUIRED):
            found, other = PathFinder.find_spec(name, [entry]), PathFinder.find_spec(name, behind)
            if found and found.origin and (name in standard or other):
                return (
                    f"PYTHONPATH: got {path_text(Path(found.origin))}, which replaces a module of the environment of "
                    "opforge, expected no module of that name; unset PYTHONPATH"
                )
    return ""
