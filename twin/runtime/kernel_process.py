"""Run kernels in a child process; the supervisor ends all processes that the kernel started.

`python -I -S kernel_process.py` is the supervisor; it uses only the standard library, so that it starts quickly. It
reads the job, one line of JSON, from stdin, and ends when stdin is closed, because the caller has ended. It forks the
process that runs the kernel or the `command` of the job. It waits for this process, ends remaining processes, and
writes its result to the pipe of the job.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import resource
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # from linux/prctl.h
_CLEANUP_SECONDS = 10.0
MOST_REPORT_BYTES = 64 << 20
_CHECK_MILLISECONDS = 50
_LONGEST_WAIT = 2**31 - 1  # milliseconds
Job = dict[str, Any]


def call_launch(library: ctypes.CDLL, job: Job, addresses: Sequence[int]) -> dict[str, Any]:
    """Call opforgeTwinLaunch.

    Args:
        library: The twin's runtime library.
        job: `library`, `symbol`, `task_type`, `soc`, `blocks`, `tiling_key`, `tiling` (hexadecimal), `sizes` (bytes of
            each buffer), `workspace_bytes`, `pass_workspace`, `pass_tiling`.
        addresses: Of each buffer.

    Returns:
        The report of the launch.
    """
    function = library.opforgeTwinLaunch
    function.restype = ctypes.c_char_p
    tiling, count = bytes.fromhex(job["tiling"]), len(addresses)
    answer = function(
        os.fsencode(job["library"]),
        job["symbol"].encode(),
        job["task_type"].encode(),
        job["soc"].encode(),
        ctypes.c_uint32(job["blocks"]),
        ctypes.c_uint64(job["tiling_key"]),
        tiling,
        ctypes.c_uint64(len(tiling)),
        (ctypes.c_void_p * count)(*addresses),
        (ctypes.c_uint64 * count)(*job["sizes"]),
        ctypes.c_uint64(count),
        ctypes.c_uint64(job["workspace_bytes"]),
        ctypes.c_int(job["pass_workspace"]),
        ctypes.c_int(job["pass_tiling"]),
    )
    report: dict[str, Any] = json.loads(answer)
    return report


def _run_kernel(job: Job) -> dict[str, Any]:
    """Launch the kernel on the shared buffers."""
    shared = mmap.mmap(job["buffers"], 0)
    base = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    runtime = ctypes.CDLL(job["runtime"], mode=ctypes.RTLD_GLOBAL)
    for name, value in job["options"].items():
        runtime.opforgeTwinSetOption(name.encode(), str(value).encode())
    end_at_exit()
    return call_launch(runtime, job, [base + offset for offset in job["offsets"]])


def end_at_exit() -> None:
    """Let exit() end the process immediately: destructors of libraries would wait for threads that never end."""
    libc = ctypes.CDLL(None)
    libc.on_exit(libc["_exit"], None)


def finish(answer: int, report: dict[str, Any]) -> NoReturn:
    """End the process that runs kernels, with its report in the file `answer`."""
    os.ftruncate(answer, 0)  # the kernel may have written to every open file
    os.pwrite(answer, json.dumps(report).encode(), 0)
    os._exit(0)


def _enter(job: Job, supervisor: int, answer: int) -> NoReturn:
    """Run the kernel in this process; write its report to `answer`."""
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != supervisor:  # the supervisor has ended
        os._exit(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.close(job["outcome"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_memory()
    try:
        if "command" in job:
            os.set_inheritable(answer, True)
            place = {"buffers": job["buffers"], "answer": answer, "offsets": job["offsets"]}
            variables = job.get("environment", os.environ)
            os.execve(job["command"][0], [*job["command"], json.dumps(place)], variables)  # noqa: S606  # the command
        report = _run_kernel(job)
    except (OSError, MemoryError) as error:
        report = {"error": str(error) or type(error).__name__}
    finish(answer, report)


def _limit_memory() -> None:
    """Limit memory, so that unbounded allocations fail, or the system ends this process first."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY or soft > total:
        resource.setrlimit(resource.RLIMIT_DATA, (total, hard))
    with contextlib.suppress(OSError):  # some containers do not allow it
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _processes() -> dict[int, tuple[int, int]]:
    """Return the parent and the bytes of resident memory of each process, including zombies."""
    found = {}
    for process in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            status = process.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            found[int(process.parent.name)] = int(status[1]), int(status[21]) * mmap.PAGESIZE
    return found


def _children() -> list[int]:
    """Return the child processes of this one, including zombies."""
    return [process for process, (parent, _) in _processes().items() if parent == os.getpid()]


def _exceeded(most_processes: int, most_bytes: int) -> str:
    """Return which limit the descendants of this process exceed; empty if none."""
    processes = _processes()
    found, last = set[int](), {os.getpid()}
    while last:
        last = {process for process, (parent, _) in processes.items() if parent in last} - found
        found |= last
    if len(found) > most_processes:
        return f"started more than {most_processes} processes"
    resident = {process: processes[process][1] for process in found}
    if sum(resident.values()) > most_bytes:  # this counts shared memory several times
        total = sum(min(_proportional_bytes(process), size) for process, size in resident.items())
        if total > most_bytes:
            return f"used more than {most_bytes >> 20} MB of memory in all its processes"
    return ""


def _proportional_bytes(process: int) -> int:
    """Return the bytes of memory of a process, with its part of shared memory; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def _end_all(group: int) -> None:
    """Kill the process group and all descendants; children of a killed process become children of this one."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + _CLEANUP_SECONDS
    while time.monotonic() < deadline:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if ended == 0:
            for child in _children():
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.001)


def _supervise(job: Job) -> dict[str, Any]:
    """Run the job in a child process.

    Returns:
        `report` of the launch, if there is one; `status`, the wait status of the child, None if it was ended; `left`,
        the number of remaining processes; `exceeded`, the limit of all processes that ended the child.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    answer = os.memfd_create("report")
    supervisor, worker = os.getpid(), os.fork()
    if worker == 0:
        _enter(job, supervisor, answer)
    poller = select.poll()
    poller.register(os.pidfd_open(worker), select.POLLIN)
    poller.register(0, 0)  # closed by the caller
    exceeded = _wait(poller, job)
    status, left = None, 0
    if os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
        status = os.waitpid(worker, 0)[1]
        left = len(_children())
    _end_all(worker)
    os.lseek(answer, 0, os.SEEK_SET)
    with open(answer, "rb") as stream:
        # A kernel may have written a long text.
        text = stream.read(MOST_REPORT_BYTES)
    return {"report": text.decode(errors="replace"), "status": status, "left": left, "exceeded": exceeded}


def _wait(poller: select.poll, job: Job) -> str:
    """Wait for the end of the child process, the caller or the time; return the limit that the processes exceed."""
    end = time.monotonic() + job["timeout"]
    while (left := int((end - time.monotonic()) * 1000) + 1) > 0:
        limits = job.get("limits")
        if poller.poll(min(left, _CHECK_MILLISECONDS if limits else _LONGEST_WAIT)):
            return ""
        if limits and (exceeded := _exceeded(*limits)):
            return exceeded
    return ""


def main() -> None:
    """Read a job, run it, and write the result."""
    line = b""
    while not line.endswith(b"\n"):
        if not (part := os.read(0, 1 << 16)):
            return
        line += part
    job: Job = json.loads(line)
    outcome = json.dumps(_supervise(job)).encode()
    with contextlib.suppress(BrokenPipeError), open(job["outcome"], "wb") as stream:
        stream.write(outcome)


if __name__ == "__main__":
    main()
