"""Project folders: where specs, plans and kernels lie, and where built files go."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.errors import UserError

# The folder that holds codegen/, op_proto/, op_kernel/ ...: the repository, or `site-packages/opforge` of a wheel.
BUILTIN_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Project:
    """A folder with `op_proto/*.yaml`, `op_host/`, `op_kernel/` and `op_plugin/`."""

    root: Path
    # Ends the types and functions of all operators, and keeps what is built of them apart.
    op_suffix: str = ""

    def __post_init__(self) -> None:
        if self.op_suffix and not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,31}", self.op_suffix):
            raise UserError(
                f"op suffix: got {self.op_suffix!r}, expected a capital, letters and digits, as in 'Custom'"
            )

    @property
    def is_installed(self) -> bool:
        """Whether the folder is the copy inside an installed wheel, in which nothing may be written."""
        return self.root == BUILTIN_ROOT and not (self.root / "pyproject.toml").is_file()

    @property
    def build_dir(self) -> Path:
        """Where generated and compiled files go: `build/` of a checkout, the user's cache for an installed wheel."""
        return self._plain_build_dir / f"suffix_{self.op_suffix}" if self.op_suffix else self._plain_build_dir

    @property
    def _plain_build_dir(self) -> Path:
        if override := os.environ.get("OPFORGE_BUILD_DIR"):
            return Path(override).resolve()
        if not self.is_installed:
            return self.root / "build"
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "opforge" / hashlib.sha256(str(self.root).encode()).hexdigest()[:12]

    @property
    def gen_dir(self) -> Path:
        """Where `opforge generate` writes by default."""
        return self.build_dir / "gen"

    def spec_paths(self) -> list[Path]:
        """All specs of the project, sorted by name."""
        return sorted((self.root / "op_proto").glob("*.yaml"))


def find_project(start: Path | None = None) -> Project:
    """The nearest folder at or above `start` (default: the current one) with operator specs, else the built-in ones.

    Raises:
        UserError: The current folder was removed.
    """
    try:
        here = (start or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise UserError("the current folder no longer exists; change to one that does") from error
    for folder in (here, *here.parents):
        if any((folder / "op_proto").glob("*.yaml")):
            return Project(folder)
    return Project(BUILTIN_ROOT)
