"""Limit memory and CPU time of work on a model file, in a separate process that may crash or hang.

C++ libraries crash on some models, and a failed allocation in protobuf ends the process or worse. So limits are set in
a child process that can die, and its parent reports the reason in one line.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NoReturn

from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line
from opforge.codegen.process_limits import MIB, LimitError, Limits

# Environment variables for higher limits for a trusted model.
MEMORY_VARIABLE, SECONDS_VARIABLE = "OPFORGE_MEMORY_MB", "OPFORGE_CPU_SECONDS"
# A file of this size may consist only of nodes; the rest of a larger file is weights, with a few copies at most.
_SMALL_BYTES = 64 * MIB
_MEMORY_BYTES, _MEMORY_PER_BYTE = 850 * MIB, 16
_CPU_SECONDS, _CPU_SECONDS_PER_MIB = 120, 4
# A run also stores the computed values, and the CPU time of all threads counts.
_RUN_MEMORY_BYTES, _RUN_CPU_SECONDS = 4096 * MIB, 3600
# The rest of the memory is for the system.
_MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4
# Bytes of messages per byte of a file: exporters' models take 2 to 4; messages without content take a hundred.
_PARSED_BYTES, _PARSED_PER_BYTE = 192 * MIB, 4
_SET_PARENT_DEATH_SIGNAL = 1  # of linux/prctl.h
_lock = Lock()
# File descriptor where a supervised process writes its current work; -1 in other processes.
_claims = -1
_skips_finalization = False


def _reason(limits: Limits, status: int) -> str:
    """Explain why a process with these limits ended early; `status` is its exit code, negative for a signal."""
    if -status == signal.SIGXCPU:
        return (
            f"needs more than {limits.seconds} s of CPU time; if you trust the file, set"
            f" {SECONDS_VARIABLE}={2 * limits.seconds} or more"
        )
    crash = f", or crashes ({signal.Signals(-status).name})" if status < 0 else ""
    return (
        f"needs more than {limits.memory // MIB} MB of memory{crash}; if you trust the file,"
        f" {allow_more(limits.memory)}"
    )


def allow_more(memory: int) -> str:
    """Return the fix if `memory` bytes were too few."""
    return f"set {MEMORY_VARIABLE}={2 * memory // MIB} or more"


def failed_allocation(error: MemoryError) -> str:
    """Return the reason of a failed allocation in this process, and the fix."""
    memory = resource.getrlimit(resource.RLIMIT_DATA)[0]
    repair = "" if memory == resource.RLIM_INFINITY else f"; if you trust the file, {allow_more(memory)}"
    return f"needs more memory: {first_line(error)}{repair}"


def limits_for(size: int, *, is_run: bool = False) -> Limits:
    """Return the limits for files of `size` bytes in all.

    Args:
        size: Bytes of the model, its external data and its inputs that are read.
        is_run: Whether the model is executed.

    Raises:
        UserError: A variable for a limit is not a number.
    """
    excess = max(size - _SMALL_BYTES, 0)
    memory, seconds = (_RUN_MEMORY_BYTES, _RUN_CPU_SECONDS) if is_run else (_MEMORY_BYTES, _CPU_SECONDS)
    return Limits(
        _granted(SECONDS_VARIABLE, "seconds") or seconds + _CPU_SECONDS_PER_MIB * (excess // MIB),
        _granted_bytes() or min(memory + _MEMORY_PER_BYTE * excess, _MACHINE_BYTES),
    )


def _granted(variable: str, unit: str) -> int:
    """Return the number in a variable of the user; 0 if it is not set."""
    text = os.environ.get(variable, "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise UserError(f"{variable}: got {text[:20]!r}, expected a number of {unit} with at most 8 digits")
    return int(text)


def _granted_bytes() -> int:
    return _granted(MEMORY_VARIABLE, "MB") * MIB


def _used_bytes() -> int:
    """Return private memory of this process, in the way the system counts it for its limit."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


def _allow(memory: int) -> tuple[int, int]:
    """Limit the private memory of this process, unless the limit is already lower; return the previous limits."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in before if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([memory, *bounds]), before[1]))
    return before


def parsed_bytes(size: int) -> int:
    """Return the maximum memory of the messages in a file of `size` bytes."""
    return max(_PARSED_BYTES + _PARSED_PER_BYTE * size, _granted_bytes())


@contextmanager
def parsing(size: int) -> Iterator[None]:
    """Allow protobuf the maximum memory of a valid file of `size` bytes; above it, it raises DecodeError."""
    with _lock:
        before = _allow(_used_bytes() + parsed_bytes(size))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, before)


def _restrict(limits: Limits, used_bytes: int) -> None:
    _allow(used_bytes + limits.memory)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    seconds = int(used) + limits.seconds
    if hard == resource.RLIM_INFINITY or seconds < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def _fork() -> int:
    """Fork; the child finalizes no objects of the parent, because an onnxruntime session waits for its threads."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Python warns of threads that do not exist in a child; here they are only those of BLAS, which starts new
            # ones.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            gc.freeze()
    finally:
        if collects:
            gc.enable()
    return child


def in_child(work: Callable[[], bytes], limits: Limits) -> bytes:
    """Call `work` in a child process within limits, and return its result.

    Raises:
        LimitError: The child crashed or reached a limit.
        UserError: As `work`.
    """
    source, target = os.pipe()
    child = _fork()
    if child == 0:
        os.close(source)
        _answer(work, limits, target)
    os.close(target)
    try:
        with os.fdopen(source, "rb") as stream:
            # Two reads: a slice would copy the content, which may be large.
            kind, content = stream.read(1), stream.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0 or kind == b"":
        raise LimitError(_reason(limits, status))
    if kind == b"u":
        raise UserError(content.decode())
    if kind == b"t":
        raise RuntimeError(content.decode())
    return content


def _answer(work: Callable[[], bytes], limits: Limits, target: int) -> None:
    """Write the result of `work`, or the reason why there is none, and end this process."""
    failures = _memory_failures()
    status = 1
    try:
        # Crash messages of a C++ library, with its location, are not useful for the user.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        faulthandler.disable()
        _restrict(limits, _used_bytes())
        with os.fdopen(target, "wb") as stream:
            try:
                answer = work()
                stream.write(b"=")
                stream.write(answer)
            except UserError as error:
                stream.write(b"u" + str(error).encode(errors="backslashreplace"))
            except failures:
                os._exit(status)
            except Exception as error:  # noqa: BLE001  # raised again by the parent
                if "alloc failed" in str(error):
                    # the form in which onnx reports this error of protobuf
                    os._exit(status)
                stream.write(b"t" + traceback.format_exc().encode(errors="backslashreplace"))
        status = 0
    finally:
        os._exit(status)


def supervise() -> None:
    """Continue in a child; the parent exits in the same way, and reports the reason if a limit was reached."""
    global _claims  # noqa: PLW0603  # identifies this process
    source, target = os.pipe()
    sys.stdout.flush()
    child = _fork()
    if child == 0:
        os.close(source)
        _claims = target
        return
    os.close(target)
    # A terminal sends SIGINT to both; the child ignores the second one.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _frame: os.kill(child, received))
    with os.fdopen(source, "rb") as stream:
        *released, active = stream.read().decode(errors="replace").split("\n")
        memory, seconds, place = [*(active or [*released, ""][-1]).split(" ", 2), "", ""][:3]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    is_asked = (status - 128 if status > 128 else -status) in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Without memory, a library may also end the process with exit code 0.
    if place and (status not in range(4) or active) and not is_asked:
        reason = _reason(Limits(int(seconds), int(memory)), status)
        print(f"{place}: {reason}", file=sys.stderr, flush=True)  # noqa: T201  # the child has ended
        status = UserError.exit_code
    os._exit(status if status >= 0 else 128 - status)


def disable_gc() -> None:
    """Disable garbage collection of millions of names, and skip finalization in a supervised process."""
    global _skips_finalization  # noqa: PLW0603  # how this process ends
    if _claims >= 0:
        _skips_finalization = True
        gc.disable()


def leave(code: int) -> NoReturn:
    """End the command line; with disabled garbage collection, immediately."""
    if _skips_finalization:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def claimed(place: str, limits: Limits, held: int = 0) -> Iterator[None]:
    """Work within limits; a process that is not supervised has no limits.

    Args:
        place: Prefix of messages.
        limits: The limits during the work.
        held: Bytes that the work allocates in any case.

    Raises:
        UserError: There is not enough memory.
    """
    import ctypes

    if held > limits.memory:
        raise UserError(f"{place}: {_reason(limits, 1)}")
    before = [(kind, resource.getrlimit(kind)) for kind in (resource.RLIMIT_DATA, resource.RLIMIT_CPU)]
    if _claims >= 0:
        os.write(_claims, f"{limits.memory} {limits.seconds} {place}".encode(errors="backslashreplace"))
        _restrict(limits, 0)
        # If this process is killed, the parent cannot report the reason.
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    failures = _memory_failures()
    failure: Exception | None = None
    try:
        yield
    except failures as error:
        failure = error
    finally:
        if _claims >= 0:
            # Later programs, such as atc, and the message about a failure have other requirements.
            for kind, bounds in before:
                resource.setrlimit(kind, bounds)
            os.write(_claims, b"\n")
    if failure is not None:
        raise UserError(f"{place}: {_reason(limits, 1)}") from failure


def _memory_failures() -> tuple[type[Exception], ...]:
    """Return the errors of a failed allocation: protobuf has several."""
    from google.protobuf.message import DecodeError, EncodeError

    return MemoryError, SystemError, DecodeError, EncodeError
