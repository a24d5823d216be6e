"""Lock build folders, and create the temporary folder of each build. After a kill, the next build removes it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import lock_file
from opforge.codegen.printing import path_text

_PREFIX = "build-"
_NAME = re.compile(rb"build-[a-z0-9_]{8}")


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Let one process at a time build in `folder`; yield the temporary folder of the build.

    Raises:
        UserError: The folder, or a file that is built in it, cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_file(folder / ".lock") as lock:
            noted = os.pread(lock, 64, 0)
            _remove_abandoned(folder, noted)
            with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as scratch:
                if not noted or _NAME.fullmatch(noted):  # other text was not written by a build
                    os.pwrite(lock, os.fsencode(Path(scratch).name), 0)
                yield Path(scratch)
    except (OSError, UserError) as problem:
        error = problem if isinstance(problem, OSError) else problem.__cause__
        if not isinstance(error, OSError) or (problem is not error and not _is_below(folder, error.filename)):
            raise
        place = f" at {path_text(Path(error.filename))}" if error.filename and Path(error.filename) != folder else ""
        raise UserError(
            f"{path_text(folder)}: got '{error.strerror}'{place}, expected a folder in which opforge can build; "
            "set OPFORGE_BUILD_DIR to another one, or XDG_CACHE_HOME for an installed opforge"
        ) from error


def _is_below(folder: Path, place: object) -> bool:
    """Return whether an unwritable file is in the build folder; the lock has a separate message."""
    return isinstance(place, str) and Path(place).is_relative_to(folder) and Path(place) != folder / ".lock"


def _remove_abandoned(folder: Path, noted: bytes) -> None:
    """Remove the temporary folder recorded in the lock file: its build was killed, because the lock was free."""
    if _NAME.fullmatch(noted):
        left = folder / os.fsdecode(noted)
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
