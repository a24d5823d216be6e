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
_TRUNCATE_ABI, _NETWORK_ABI, _SCOPE_ABI = 3, 4, 6
_FIRST_RIGHTS, _REFER, _TRUNCATE = (1 << 13) - 1, 1 << 13, 1 << 14
_BIND_AND_CONNECT, _SOCKETS_AND_SIGNALS = 3, 3
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
# From linux/filter.h and linux/seccomp.h.
_LOAD, _EQUAL, _AT_LEAST, _ALL_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_FIRST_X32_CALL = 0x40000000
# By machine: the audit number of the architecture, clone, and the calls that create sockets and processes, signal other
# processes or change them.
_CALLS = {
    "x86_64": (0xC000003E, 56, (41, 53, 57, 58, 62, 101, 129, 200, 297, 310, 311, 424, 425)),
    "aarch64": (0xC00000B7, 220, (198, 199, 117, 129, 130, 138, 240, 270, 271, 424, 425)),
}
_CLONE3 = 435


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


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
    abi = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    handled = _FIRST_RIGHTS | (_REFER if abi > 1 else 0) | (_TRUNCATE if abi >= _TRUNCATE_ABI else 0)
    network = _BIND_AND_CONNECT if is_closed and abi >= _NETWORK_ABI else 0
    scope = _SOCKETS_AND_SIGNALS if is_closed and abi >= _SCOPE_ABI else 0
    fields = struct.pack("<QQQ", handled, network, scope)
    size = 24 if abi >= _SCOPE_ABI else 16 if abi >= _NETWORK_ABI else 8
    ruleset = libc.syscall(_CREATE_RULESET, fields, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    for paths, rights in ((readable, _READ), (writable, handled)):
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


def forbid_calls() -> bool:
    """Let system calls fail that create sockets or processes, or signal other processes; threads are allowed."""
    if platform.machine() not in _CALLS:
        return False
    architecture, clone, refused = _CALLS[platform.machine()]
    refuse = (_RETURN, 0, 0, _ERRNO | _EPERM)
    program = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, architecture),
        refuse,
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _FIRST_X32_CALL),
        refuse,
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),  # the C library calls clone instead
    ]
    for number in refused:
        program += [(_EQUAL, 0, 1, number), refuse]
    program += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, 16),
        (_ALL_BITS, 1, 0, _CLONE_THREAD),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("<HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(buffer)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    is_done: bool = libc.prctl(_SET_SECCOMP, _FILTER_MODE, header, 0, 0) == 0
    return is_done


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
    if not job["may_start_processes"]:
        forbid_calls()
    os.closerange(3, 256)
    os.execve(job["command"][0], job["command"], job["environment"])  # noqa: S606  # the command of the caller


if __name__ == "__main__":
    main(sys.argv[1:])
