"""Run one program of a clone in its own confined process, in a copy of its folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opforge.codegen.project import BUILTIN_ROOT
from opforge.twin.build import runtime_dir
from opforge.twin.runtime.isolation import run_command

_CONFINE = Path(__file__).with_name("confine.py")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache", "/sys")
# Not the environment of other processes.
_PROCESS = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/filesystems")
_DEVICES = ("/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MOST_COPIED_BYTES = 64 << 20
_MOST_COPIED_FILES = 2000
_MOST_TEXT = 1000
_MOST_OUTPUT, _MOST_END, _MOST_REPORT = 4 << 20, 64 << 10, 64 << 20
_REPORT = "findings.json"
# The line of a program with findings that did not return 0.
_RETURNED = re.compile(r"^exit: the program returned (\d+);", re.MULTILINE)
_MOST_FILE_MB = 512
PROGRAM_SECONDS_PER_SECOND = 4  # CPU time of all threads of a program per second of its time limit


@dataclass(frozen=True)
class Result:
    """The end of a program.

    Attributes:
        status: Exit code, negative for a signal, None after the time limit.
        output: The beginning and the end of its standard output, then those of its standard error.
        last: The last line of its standard error, or else of its standard output; may be empty.
        launches: The reports of its launches; None if it wrote no valid file.
        findings: The findings in them, each kind and line once, without warnings.
        exceeded: The limit of all its processes that ended it.
    """

    status: int | None
    output: str
    last: str
    launches: list[dict[str, Any]] | None
    findings: list[dict[str, str]]
    exceeded: str = ""

    def has_own_failure(self) -> bool:
        """Return whether it did not succeed without the exit code for findings."""
        return bool(_RETURNED.search(self.output)) if self.status == 1 and self.findings else self.status != 0

    def reason(self, what: str, seconds: float) -> str:
        """Return why it did not complete; empty if it did."""
        if self.status is None:
            return f"{what} {self.exceeded or f'did not end within {seconds:g} s'}"
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
    """The environment of a program: the scratch folder, the folder of the program, and limits.

    A script and all its processes together have the same limit of memory as each of them. `answers` is the folder of
    the answers to requests of the program for a compilation.
    """

    scratch: Path
    programs: Path
    seconds: float
    memory_mb: int
    most_processes: int = 128
    answers: Path | None = None

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
            *_PROCESS,
            *_DEVICES,
            *map(str, (self.programs, runtime_dir(), BUILTIN_ROOT)),
            sys.prefix,
            sys.base_prefix,
        ]
        environment = {
            "PATH": f"{sys.prefix}/bin:/usr/bin:/bin" if may_start_processes else "/usr/bin:/bin",
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            "OPFORGE_TWIN_REPORT": str(self.scratch / _REPORT),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",  # the last line on standard error is the reason of a failure
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if self.answers is not None:
            environment["OPFORGE_TWIN_ANSWERS"] = str(self.answers)
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
        (self.scratch / _REPORT).unlink(missing_ok=True)
        limits = (self.most_processes, self.memory_mb << 20) if may_start_processes else None
        confined = [sys.executable, "-I", "-S", str(_CONFINE), json.dumps(job)]
        status, answer = run_command(confined, b"", dict(os.environ), self.seconds, limits)
        texts = _read_ends(errors), _read_ends(output)
        last = next(filter(None, map(_last_line, texts)), "")
        exceeded = answer if status is None else ""
        return Result(status, f"{texts[1]}\n{texts[0]}", last, *_read_report(self.scratch / _REPORT), exceeded)


def _last_line(text: str) -> str:
    """Return the last line that is not empty; without notes of the twin at the end of a program."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("exit: ")]
    return lines[-1][:300] if lines else ""


def _read(path: Path, most: int, most_end: int = 0) -> tuple[str, str]:
    """Return the beginning and the rest of the end of a file that a program wrote; empty if it is no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            beginning = file.read(most)
            file.seek(max(most, os.fstat(handle).st_size - most_end))
            return beginning.decode(errors="replace"), file.read(most_end).decode(errors="replace")
    except OSError:
        return "", ""


def _read_ends(path: Path) -> str:
    return "\n".join(filter(None, _read(path, _MOST_OUTPUT, _MOST_END)))


def _read_report(path: Path) -> tuple[list[dict[str, Any]] | None, list[dict[str, str]]]:
    """Return the launches in the report of a program and their findings; the program may have written other data."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    try:
        launches = [dict(launch) for launch in json.loads(_read(path, _MOST_REPORT)[0])]
        for launch in launches:
            for entry in launch["findings"]:
                if not entry.get("warning"):
                    words = {name: str(entry[name])[:_MOST_TEXT] for name in ("kind", "where", "message")}
                    found.setdefault((words["kind"], words["where"]), words)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, []
    return launches, list(found.values())


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
