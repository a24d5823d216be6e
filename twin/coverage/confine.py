"""Confine a process: files, resources, network and child processes.

`python -I -S confine.py JOB` confines itself and becomes the command of the job. It uses only the standard library, so
that it starts quickly. Measures that the system does not support are skipped.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

# From linux/landlock.h; the system calls have the same numbers on all architectures.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14  # 1 << 14: truncate
_TRUNCATE_ABI, _NETWORK_ABI, _DEVICE_ABI, _SCOPE_ABI = 3, 4, 5, 6
_FIRST_RIGHTS, _REFER, _TRUNCATE, _DEVICE_CALLS = (1 << 13) - 1, 1 << 13, 1 << 14, 1 << 15
_DEVICES = 1 << 6 | 1 << 11 | _DEVICE_CALLS  # creation of character and block devices, ioctl on devices
_BIND_AND_CONNECT, _SOCKETS_AND_SIGNALS = 3, 3
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
# From linux/filter.h and linux/seccomp.h.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOTTY, _ENOSYS, _EOPNOTSUPP = 1, 25, 38, 95
# By machine: the audit number of the architecture, and the index in the lists of call numbers.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CALLS = Path(__file__).with_name("system_calls.json")
_LAST_CALL = 450  # the calls up to this number are classified; x32 calls have larger numbers
_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020080
_POISON = (100, 101)  # kinds of madvise that remove memory pages from the machine
_SHARED_MEMORY = 0x21  # MAP_SHARED, MAP_ANONYMOUS
_LOCAL_STREAM = (1, 1)  # AF_UNIX, SOCK_STREAM
_OPEN_MODE, _TRUNCATE_ON_OPEN = 0o1003, 0o1000
# Requests without an effect on files, other processes and terminals. Descriptors: copies, flags, seals, size of pipes.
_FCNTL = (*range(5), 1030, 1031, 1032, 1033, 1034)
# Attributes of terminals, number of bytes to read, non-blocking, close on exec.
_IOCTL = (0x5401, 0x802C542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_Step = tuple[int, int, int, int]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _landlock_abi() -> int:
    """Return the version of Landlock; below 1 if the system has none."""
    abi: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return abi


def restrict_files(readable: Iterable[str], writable: Iterable[str], *, is_closed: bool = False) -> bool:
    """Let this process and its children use only these files and folders.

    Args:
        readable: Files and folders to read and execute.
        writable: Files and folders to write too.
        is_closed: Also forbid TCP, and signals to processes outside.

    Returns:
        Whether the system has Landlock.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if (abi := _landlock_abi()) < 1:
        return False
    handled = _FIRST_RIGHTS | (_REFER if abi > 1 else 0) | (_TRUNCATE if abi >= _TRUNCATE_ABI else 0)
    handled |= _DEVICE_CALLS if abi >= _DEVICE_ABI else 0
    network = _BIND_AND_CONNECT if is_closed and abi >= _NETWORK_ABI else 0
    scope = _SOCKETS_AND_SIGNALS if is_closed and abi >= _SCOPE_ABI else 0
    fields = struct.pack("<QQQ", handled, network, scope)
    size = 24 if abi >= _SCOPE_ABI else 16 if abi >= _NETWORK_ABI else 8
    ruleset = libc.syscall(_CREATE_RULESET, fields, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    for paths, rights in ((readable, _READ), (writable, handled & ~_DEVICES)):
        for path in paths:
            with contextlib.suppress(OSError):  # a folder that this system does not have
                parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = rights & handled & (~0 if Path(path).is_dir() else _ON_FILES)
                libc.syscall(_ADD_RULE, ruleset, 1, ctypes.byref(_PathRule(allowed, parent)), 0)
                os.close(parent)
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    is_done: bool = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return is_done


def forbid_calls(*, may_start_processes: bool) -> bool:
    """Let system calls fail that change files or processes outside of the limits of Landlock, or the machine.

    Changes of modes, owners and times of files have no effect, and succeed: tools such as `cp -p` continue.

    Args:
        may_start_processes: Allow new processes, and signals to them if Landlock forbids signals to others.

    Returns:
        Whether the system has filters of system calls, and the numbers of its calls are known.
    """
    if platform.machine() not in _MACHINES:
        return False
    architecture, index = _MACHINES[platform.machine()]
    groups = json.loads(_CALLS.read_text(encoding="utf-8"))
    numbers = {kind: [both[index] for both in calls.values()] for kind, calls in groups.items()}
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        _fail(_EPERM),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _LAST_CALL + 1),
        _fail(_ENOSYS),
    ]
    errors = {"ignored": 0, "unsupported": _EOPNOTSUPP, "refused": _EPERM, "missing": _ENOSYS}
    errors |= {} if may_start_processes else {"processes": _EPERM}
    for kind, error in errors.items():
        for number in numbers[kind]:
            if number is not None:
                program += [(_EQUAL, 0, 1, number), _fail(error)]
    for name, steps in _conditions(may_start_processes=may_start_processes).items():
        if (number := groups["checked"][name][index]) is not None:
            program += [(_EQUAL, 0, len(steps), number), *steps]
    program.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("<HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(buffer)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    is_done: bool = libc.prctl(_SET_SECCOMP, _FILTER_MODE, header, 0, 0) == 0
    return is_done


def _fail(error: int) -> _Step:
    """Let a call fail, or have no effect and succeed if `error` is 0."""
    return _RETURN, 0, 0, _ERRNO | error


def _load(argument: int, *, is_high: bool = False) -> _Step:
    """Load the lower or higher 32 bits of an argument of the call."""
    return _LOAD, 0, 0, 16 + 8 * argument + 4 * is_high


def _allow_only(values: Iterable[int], error: int = _EPERM) -> list[_Step]:
    """Allow a call if the loaded value is one of some values."""
    steps = [step for value in values for step in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
    return [*steps, _fail(error)]


def _conditions(*, may_start_processes: bool) -> dict[str, list[_Step]]:
    """Return, for each call whose arguments decide, the steps of the filter that return its result."""
    allow = (_RETURN, 0, 0, _ALLOW)
    is_thread = [] if may_start_processes else [(_ANY_BIT, 1, 0, _CLONE_THREAD), _fail(_EPERM)]
    may_signal = may_start_processes and _landlock_abi() >= _SCOPE_ABI
    own_process = [allow] if may_signal else [_load(0), *_allow_only([os.getpid()])]
    family, kind = _LOCAL_STREAM

    def opening(flags: int) -> list[_Step]:
        return [_load(flags), (_AND, 0, 0, _OPEN_MODE), (_EQUAL, 0, 1, _TRUNCATE_ON_OPEN), _fail(_EPERM), allow]

    return {
        "clone": [_load(0), (_ANY_BIT, 0, 1, _CLONE_NAMESPACES), _fail(_EPERM), *is_thread, allow],
        "kill": own_process,
        "tgkill": own_process,
        "open": opening(1),
        "openat": opening(2),
        "fcntl": [_load(1), *_allow_only(_FCNTL)],
        "ioctl": [_load(1), *_allow_only(_IOCTL, _ENOTTY)],
        "madvise": [_load(2), *(step for value in _POISON for step in ((_EQUAL, 0, 1, value), _fail(_EPERM))), allow],
        # Memory that processes share is not part of the limit of private memory.
        "mmap": [_load(3), (_AND, 0, 0, _SHARED_MEMORY), (_EQUAL, 0, 1, _SHARED_MEMORY), _fail(_EPERM), allow],
        "prlimit64": [
            *(_load(0), (_EQUAL, 1, 0, 0), _fail(_EPERM)),
            *(_load(2), (_EQUAL, 1, 0, 0), _fail(_EPERM)),
            *(_load(2, is_high=True), *_allow_only([0])),
        ],
        "sched_setaffinity": [_load(0), *_allow_only([0])],
        "socketpair": [
            *(_load(0), (_EQUAL, 1, 0, family), _fail(_EPERM)),
            *(_load(1), (_AND, 0, 0, 15), *_allow_only([kind])),
        ],
    }


def limit_resources(seconds: int, memory_mb: int, file_mb: int) -> None:
    """Limit CPU time, private memory and the size of files of this process."""
    wanted = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_DATA: memory_mb << 20,
        resource.RLIMIT_FSIZE: file_mb << 20,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in wanted.items():
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))


def main(arguments: Sequence[str]) -> None:
    """Become the command of a job.

    It has `command`, `folder`, `output`, `errors`, `readable`, `scratch`, limits, `may_start_processes`, `environment`.
    """
    job = json.loads(arguments[0])
    os.chdir(job["folder"])
    for number, path in ((1, job["output"]), (2, job["errors"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    limit_resources(job["seconds"], job["memory_mb"], job["file_mb"])
    restrict_files(job["readable"], [job["scratch"], os.devnull], is_closed=True)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    forbid_calls(may_start_processes=job["may_start_processes"])
    os.execve(job["command"][0], job["command"], job["environment"])  # noqa: S606  # the command of the caller


if __name__ == "__main__":
    main(sys.argv[1:])
