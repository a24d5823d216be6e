"""Run one program of a clone in its own confined process, in a copy of its folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.project import BUILTIN_ROOT
from opforge.twin.build import runtime_dir
from opforge.twin.runtime.isolation import run_command

_CONFINE = Path(__file__).with_name("confine.py")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache", "/proc", "/sys")
_DEVICES = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MOST_COPIED_BYTES = 64 << 20
_MOST_COPIED_FILES = 2000
_MOST_OUTPUT = 4 << 20
REPORT = "findings.json"
_MOST_FILE_MB = 512
PROGRAM_SECONDS_PER_SECOND = 4  # CPU time of all threads of a program per second of its time limit


@dataclass(frozen=True)
class Result:
    """The end of a program.

    Attributes:
        status: Exit code, negative for a signal, None after the time limit.
        output: The beginning of its standard output, then that of its standard error.
        last: The last line of its standard error, or else of its standard output; may be empty.
    """

    status: int | None
    output: str
    last: str

    def reason(self, what: str, seconds: float) -> str:
        """Return why it did not complete; empty if it did."""
        if self.status is None:
            return f"{what} did not end within {seconds:g} s"
        if self.status >= 0:
            return ""
        if -self.status == signal.SIGXCPU:
            return f"{what} used more CPU time than its limit"
        known = -self.status in set(signal.Signals)
        return f"{what} was ended by {signal.Signals(-self.status).name if known else -self.status}"

    def failure(self, what: str, seconds: float) -> str:
        """Return why it did not succeed; empty if it did."""
        if not self.status:
            return self.reason(what, seconds)
        return self.reason(what, seconds) or f"{what}: exit code {self.status}{f': {self.last}' if self.last else ''}"


@dataclass(frozen=True)
class Place:
    """The environment of a program: the scratch folder, the folder of the program, and limits of time and memory."""

    scratch: Path
    programs: Path
    seconds: float
    memory_mb: int

    def run(self, command: Sequence[str], folder: Path, *, may_start_processes: bool = False) -> Result:
        """Run a command in a folder of the scratch folder.

        Args:
            command: Program and arguments.
            folder: The working directory.
            may_start_processes: It is a script, or a unit test that starts scripts.
        """
        output, errors = self.scratch / "output.txt", self.scratch / "errors.txt"
        readable = [
            *_SYSTEM,
            *_DEVICES,
            *map(str, (self.programs, runtime_dir(), BUILTIN_ROOT)),
            sys.prefix,
            sys.base_prefix,
        ]
        environment = {
            "PATH": f"{sys.prefix}/bin:/usr/bin:/bin" if may_start_processes else "/usr/bin:/bin",
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            "OPFORGE_TWIN_REPORT": str(self.scratch / REPORT),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",  # the last line on standard error is the reason of a failure
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        job = {
            "command": list(command),
            "folder": str(folder),
            "output": str(output),
            "errors": str(errors),
            "readable": readable,
            "scratch": str(self.scratch),
            "seconds": int(self.seconds * PROGRAM_SECONDS_PER_SECOND) + 1,
            "memory_mb": self.memory_mb,
            "file_mb": _MOST_FILE_MB,
            "may_start_processes": may_start_processes,
            "environment": environment,
        }
        status, _ = run_command(
            [sys.executable, "-I", "-S", str(_CONFINE), json.dumps(job)], b"", dict(os.environ), self.seconds
        )
        texts = read_beginning(errors), read_beginning(output)
        return Result(status, f"{texts[1]}\n{texts[0]}", next(filter(None, map(_last_line, texts)), ""))


def _last_line(text: str) -> str:
    """Return the last line that is not empty; without notes of the twin at the end of a program."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("exit: ")]
    return lines[-1][:300] if lines else ""


def read_beginning(path: Path) -> str:
    """Return the beginning of a file that a program wrote; empty if there is no regular one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            return file.read(_MOST_OUTPUT).decode(errors="replace")
    except OSError:
        return ""


def copy_folder(source: Path, target: Path) -> None:
    """Copy the regular files of a folder, up to a maximum number and size; links are not copied."""
    count = total = 0
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in {".git", "build"})
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            status = os.lstat(os.path.join(folder, name))  # noqa: PTH118  # faster
            count, total = count + 1, total + status.st_size
            if not stat.S_ISREG(status.st_mode) or total > _MOST_COPIED_BYTES or count > _MOST_COPIED_FILES:
                continue
            shutil.copyfile(Path(folder, name), place / name)
