"""Run compilers within limits of time, memory and output."""

from __future__ import annotations

import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.process_limits import MIB, LimitError, Limits, Program

SECONDS, MEMORY, OUTPUT = "OPFORGE_COMPILE_SECONDS", "OPFORGE_COMPILE_MEMORY_MB", "OPFORGE_COMPILE_OUTPUT_MB"
# The largest source of the twin takes 6 s and 210 MB; a slow machine and sanitizers need a few times as much.
_DEFAULTS = {SECONDS: 120, MEMORY: 2048, OUTPUT: 256}
# Other processes use time too, and a waiting compiler uses none.
_WALL_PER_CPU = 5
_MOST_TEXT = 64 << 10
# A shell sets the limits, because the limits of this process apply to all its threads.
_SCRIPT = 'ulimit -S -t "$1" && ulimit -S -d "$2" && ulimit -S -f "$3" && shift 3 && exec "$@"'
_CAUSES = {
    SECONDS: re.compile(r"CPU time limit exceeded"),
    MEMORY: re.compile(r"out of memory|memory exhausted|Cannot allocate memory|bad_alloc"),
    OUTPUT: re.compile(r"File size limit exceeded|File too large"),
}


class StoppedError(Exception):
    """A command was ended because its result is no longer needed."""


@dataclass(frozen=True)
class Ended:
    """A command that ended: its exit code, and the start of its output."""

    status: int
    text: str


def compile_limits() -> Limits:
    """Return the limits of each process of a compiler, which environment variables can change.

    Raises:
        UserError: A variable is not a positive number.
    """
    return Limits(_setting(SECONDS), _setting(MEMORY) * MIB, _setting(OUTPUT) * MIB)


def _setting(variable: str) -> int:
    text = os.environ.get(variable) or str(_DEFAULTS[variable])
    if not re.fullmatch(r"[1-9][0-9]{0,6}", text):
        unit = "seconds" if variable == SECONDS else "MB"
        raise UserError(f"{variable}: got {shown(text)}, expected a number of {unit} from 1 to 9999999")
    return int(text)


def run_limited(
    command: Sequence[str],
    limits: Limits,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    most_text: int = _MOST_TEXT,
    stop: Event | None = None,
) -> Ended:
    """Run a command to its end. If it reaches a limit, its remaining processes are also ended.

    Args:
        command: Program and arguments.
        limits: Limits of each of its processes; the total time may be five times as long.
        environment: Variables to set for it.
        folder: The working directory; default: the caller's.
        most_text: Maximum bytes of its output; the rest is dropped.
        stop: Ends the command when it is set.

    Raises:
        LimitError: It reached a limit.
        StoppedError: `stop` was set.
        OSError: No process can be started.
    """
    if stop is not None and stop.is_set():
        raise StoppedError
    # The output is searched for error messages. A sanitizer in this process must not be loaded into the compiler.
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    variables |= {"LC_ALL": "C", **(environment or {})}
    script = ["/bin/sh", "-c", _SCRIPT, "sh", *_shell_limits(limits)]
    with Program(
        [*script, *command],
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    ) as process:
        try:
            text = _output(process, time.monotonic() + limits.seconds * _WALL_PER_CPU, most_text, stop or Event())
        except subprocess.TimeoutExpired as error:
            raise LimitError(_text(limits, SECONDS)) from error
    ended = Ended(process.returncode, text)
    if variable := _reached(ended):
        raise LimitError(_text(limits, variable))
    return ended


def _text(limits: Limits, variable: str) -> str:
    """Return the message about a reached limit, with the environment variable to change."""
    reason, value = {
        SECONDS: (f"takes more than {limits.seconds} s", limits.seconds),
        MEMORY: (f"needs more than {limits.memory // MIB} MB of memory", limits.memory // MIB),
        OUTPUT: (f"writes a file of more than {(limits.output or 0) // MIB} MB", (limits.output or 0) // MIB),
    }[variable]
    return f"the compiler {reason}; set {variable}={2 * value} to allow more"


def _shell_limits(limits: Limits) -> list[str]:
    """Return the limits in the units of `ulimit`; a lower limit of this process stays."""
    wanted = (
        (resource.RLIMIT_CPU, limits.seconds, 1),
        (resource.RLIMIT_DATA, limits.memory, 1024),
        (resource.RLIMIT_FSIZE, limits.output, 512),
    )
    texts = []
    for kind, most, unit in wanted:
        bounds = [bound for bound in (most, *resource.getrlimit(kind)) if bound not in (None, resource.RLIM_INFINITY)]
        texts.append(str(min(bounds) // unit) if bounds else "unlimited")
    return texts


def _output(process: subprocess.Popen[bytes], deadline: float, most: int, stop: Event) -> str:
    """Return the first `most` bytes that a process writes, after it has ended."""
    stream: IO[bytes] | None = process.stdout
    if stream is None:
        raise ValueError("unreachable: the output is a pipe")
    kept, dropped = bytearray(), 0
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if stop.is_set():
                raise StoppedError
            if (left := deadline - time.monotonic()) <= 0:
                raise subprocess.TimeoutExpired(process.args, 0)
            if not selector.select(min(left, 0.2)):
                continue
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                break
            free = most - len(kept)
            kept += piece[:free]
            dropped += max(len(piece) - free, 0)
    process.wait(max(deadline - time.monotonic(), 0.1))
    text = kept.decode(errors="replace").strip()
    return f"{text}\n... {dropped} more bytes of messages are not shown" if dropped else text


def _reached(ended: Ended) -> str | None:
    """Return the variable whose limit ended a command, if any."""
    signals = {-signal.SIGXCPU: SECONDS, -signal.SIGXFSZ: OUTPUT}
    if ended.status in signals:
        return signals[ended.status]
    if ended.status == 0:
        return None
    return next((variable for variable, cause in _CAUSES.items() if cause.search(ended.text)), None)
