"""Run kernels in a supervised child process, and report how a kernel ended that process."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import Any, NotRequired, get_type_hints

import numpy as np
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.untrusted import FormError, parse_json

from .acl import Array
from .kernel_process import Job
from .results import Finding, Report, findings_of

ISOLATED_SECONDS = 600.0
_MOST_SECONDS = 10**6
_SUPERVISOR = Path(__file__).with_name("kernel_process.py")
_ALIGNMENT = 512  # like device memory
_RUNNING: set[subprocess.Popen[bytes]] = set()  # supervisors
_GRACE_SECONDS = 20.0  # for the start of the supervisor, and for ending remaining processes


# Plain data with the fields of `Finding` and `Report`, all of them required.
_Found = TypedDict("_Found", get_type_hints(Finding))  # type: ignore[misc]
_Launch = TypedDict(  # type: ignore[misc]
    "_Launch",
    get_type_hints(Report) | {"findings": list[_Found]},
)
with_config(ConfigDict(extra="allow"))(_Launch)


@with_config(ConfigDict(extra="allow"))
class _Report(TypedDict):
    findings: NotRequired[list[_Found]]
    launches: NotRequired[list[_Launch]]
    refused: NotRequired[tuple[str, int, str]]
    invalid: NotRequired[str]
    error: NotRequired[str]


_REPORT = TypeAdapter(_Report)


@dataclass(frozen=True)
class Ended:
    """The end of a child process: the findings, and its report if it completed its work."""

    findings: list[Finding]
    report: dict[str, Any] | None


def require_seconds(timeout: object) -> None:
    """Check the time limit of a child process.

    Raises:
        UserError: It is not a positive number, or longer than the system supports.
    """
    if not isinstance(timeout, (int, float)) or not (0 < timeout <= _MOST_SECONDS):
        raise UserError(
            f"timeout: got {shown(timeout)}, expected a positive number of seconds, at most {_MOST_SECONDS}"
        )


def run_isolated(job: Job, arrays: Sequence[Array], results: Iterable[int], timeout: float) -> Ended:
    """Run a job in a child process on copies of arrays.

    Args:
        job: `symbol`, its name in messages, and the keys that kernel_process needs.
        arrays: C-contiguous arrays; arrays with shared memory share it in the child too.
        results: Indices of the arrays that are written back if the work completes.
        timeout: Time limit in seconds.

    Raises:
        UserError: The system has no memory or process for it.
    """
    offsets, size = _buffer_offsets(arrays)
    try:
        with _shared(size) as shared:
            for array, offset in zip(arrays, offsets, strict=True):
                shared.seek(offset)
                shared.write(_bytes_of(array))
            shared.flush()
            outcome = _supervised({**job, "offsets": offsets, "timeout": timeout}, shared.fileno())
            ended = _findings_of(outcome, job["symbol"], timeout)
            for index in results if ended.report else ():
                shared.seek(offsets[index])
                shared.readinto(_bytes_of(arrays[index]))
    except OSError as error:
        raise UserError(
            f"{job['symbol']}: got '{error.strerror}' when starting a process with {size} bytes of buffers, expected "
            "memory and a process for it; use smaller buffers, or isolate=False"
        ) from error
    return ended


def run_command(
    command: Sequence[str],
    data: bytes,
    environment: Mapping[str, str],
    timeout: float,
    limits: tuple[int, int] | None = None,
) -> tuple[int | None, str]:
    """Run an untrusted program in a supervised process; end all processes that it started.

    Args:
        command: Program and arguments. One more is added, JSON with the descriptors `buffers`, a file with `data`, and
            `answer`, a file to write into.
        data: The input of the program.
        environment: Its variables.
        timeout: Time limit in seconds.
        limits: Number and bytes of memory of all processes.

    Returns:
        Its exit code, negative for a signal, None if it was ended; and its answer, or which of `limits` ended it.
    """
    with _shared(len(data)) as shared:
        shared.write(data)
        shared.flush()
        job = {
            "command": list(command),
            "environment": dict(environment),
            "offsets": [],
            "timeout": timeout,
            "limits": limits,
        }
        outcome = _supervised(job, shared.fileno())
    status = outcome.get("status")
    answer = outcome.get("exceeded") or outcome.get("report", "")
    return (None if status is None else os.waitstatus_to_exitcode(status)), answer


def _bytes_of(array: Array) -> memoryview:
    """Return the bytes of a C-contiguous array, which share its memory."""
    return array.reshape(-1).view(np.uint8).data


def _buffer_offsets(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """Return the offset of each array in the shared memory, where arrays overlap as they do here; and its size."""
    offsets = [0] * len(arrays)
    start = end = size = 0
    for index in sorted(range(len(arrays)), key=lambda index: arrays[index].ctypes.data):
        address = arrays[index].ctypes.data
        if address >= end:
            start, end = address, address
            base = size = -(-size // _ALIGNMENT) * _ALIGNMENT
        offsets[index] = base + address - start
        end = max(end, address + arrays[index].nbytes)
        size = base + end - start
    return offsets, max(size, 1)


@contextmanager
def _shared(size: int) -> Iterator[BufferedRandom]:
    """Memory that a child process can map."""
    if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    with os.fdopen(os.memfd_create("buffers"), "r+b") as stream:
        stream.truncate(size)
        yield stream


def end_commands() -> None:
    """End all programs that other threads of this process run."""
    for supervisor in list(_RUNNING):
        assert supervisor.stdin is not None  # noqa: S101  # it is a pipe
        with suppress(OSError, ValueError):
            supervisor.stdin.close()


def _supervised(job: Job, buffers: int) -> dict[str, Any]:
    """Return the result of the supervisor for the job; empty if it was killed."""
    source, target = os.pipe()
    with os.fdopen(source, "rb") as outcome:
        try:
            supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR)],
                stdin=subprocess.PIPE,
                pass_fds=(buffers, target),
                start_new_session=True,
            )
        finally:
            os.close(target)
        with supervisor:
            _RUNNING.add(supervisor)
            try:
                text = {**job, "buffers": buffers, "outcome": target}
                assert supervisor.stdin is not None  # noqa: S101  # it is a pipe
                supervisor.stdin.write(json.dumps(text).encode() + b"\n")
                supervisor.stdin.flush()
                answer = _read_until(outcome, supervisor, job["timeout"] + _GRACE_SECONDS)
            finally:
                _RUNNING.discard(supervisor)
    found: dict[str, Any] = json.loads(answer) if answer else {}
    return found


def _read_until(stream: BufferedReader, supervisor: subprocess.Popen[bytes], seconds: float) -> bytes:
    """Return all output of the supervisor; nothing if it does not answer in time."""
    parts: list[bytes] = []
    deadline = time.monotonic() + seconds
    while select.select([stream], [], [], max(deadline - time.monotonic(), 0))[0]:
        if not (part := os.read(stream.fileno(), 1 << 16)):
            return b"".join(parts)
        parts.append(part)
    with suppress(ProcessLookupError):
        os.killpg(supervisor.pid, signal.SIGKILL)
    return b""


def _findings_of(outcome: dict[str, Any], symbol: str, timeout: float) -> Ended:
    """Return the findings for a result of the supervisor."""
    if not outcome:
        message = f"{symbol}: the kernel ended the process that supervises it; remove the call of kill()"
        return Ended([_finding("process_killed", message)], None)
    findings, report = [], None
    status = None if outcome["status"] is None else os.waitstatus_to_exitcode(outcome["status"])
    if status is None:
        findings.append(_finding("time_limit", f"{symbol}: the kernel did not end within {timeout:g} s; {_ENDLESS}"))
    elif status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        findings.append(_finding("process_killed", f"{symbol}: the kernel's process was killed by {name}; {_KILLED}"))
    elif status != 0 or (report := _report_of(outcome["report"])) is None:
        findings.append(
            _finding("process_exit", f"{symbol}: the kernel ended the process with exit({status}); {_EXIT}")
        )
    elif "error" in report:
        raise UserError(f"{symbol}: the kernel's process cannot run it: {report['error']}")
    else:
        findings = findings_of([report])
    if left := outcome["left"]:
        findings.append(
            _finding("process_left", f"{symbol}: the kernel left {left} child process{'es' * (left > 1)}; {_LEFT}")
        )
    return Ended(findings, report)


def _report_of(text: str) -> dict[str, Any] | None:
    """Return the report of a completed launch; an incomplete one may have left other text."""
    try:
        report: dict[str, Any] = parse_json(text, _REPORT)
    except FormError:
        return None
    return report if {"findings", "error"} & set(report) else None


_ENDLESS = "expected a kernel without endless loops, locks and calls that wait; timeout= sets the limit"
_KILLED = "expected a kernel that stays within its own memory and sends no signals; its results are lost"
_EXIT = "expected a kernel that returns; remove the call, its results are lost"
_LEFT = "opforge ended what ran; expected a kernel that starts no processes; remove the call of fork()"


def _finding(kind: str, message: str) -> Finding:
    return Finding(kind, -1, "", "", message)
