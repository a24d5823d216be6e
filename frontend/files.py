"""Reads and writes files the careful way: only regular ones, and a written file appears complete or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from opforge.codegen.errors import UserError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path, what: str) -> BinaryIO:
    """Open a regular file for reading; `what` names it in messages ("model", "inputs").

    Raises:
        UserError: The file is missing, not readable, or no regular file. A pipe or device is not opened.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            # The file may have been exchanged since: without O_NONBLOCK, opening a pipe would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            file = os.fdopen(descriptor, "rb")
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISREG(mode):
                return file
            file.close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot read the {what}: {reason}; expected a readable file") from error
    kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
    raise UserError(f"{path}: cannot read the {what}: got {kind}, expected a regular file")


def require_writable(target: Path, inputs: Iterable[Path], what: str) -> None:
    """Check that `target` may be written; `what` names it in messages.

    Raises:
        UserError: Its folder is missing, it is no regular file, or it is one of `inputs`.
    """
    try:
        if not target.parent.is_dir():
            raise UserError(f"{target}: cannot write the {what}: the folder {target.parent} does not exist; create it")
        if (target.exists() or target.is_symlink()) and not stat.S_ISREG(target.lstat().st_mode):
            raise UserError(f"{target}: cannot write the {what}: it is a link or no regular file; choose another name")
        for path in inputs:
            if target.exists() and path.exists() and target.samefile(path):
                raise UserError(f"{target}: cannot write the {what} over {path}, which is read; choose another name")
    except (OSError, ValueError) as error:
        raise UserError(f"{target}: cannot write the {what}: {error}; choose another name") from error


def write_file(target: Path, fill: Callable[[BinaryIO], object], what: str) -> None:
    """Let `fill` write a temporary file in the target's folder, then give it the target's name.

    Raises:
        UserError: The system refused; nothing is left behind.
    """
    temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(8)}")
    try:
        try:
            with temporary.open("xb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise UserError(f"{target}: cannot write the {what}: {error.strerror}; nothing was changed") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stream(source: int, target: int) -> None:
    """Copy a file by descriptors inside the kernel, which shares the blocks where the file system can."""
    remaining = os.fstat(source).st_size
    while remaining > 0:
        try:
            copied = os.copy_file_range(source, target, min(remaining, 1 << 30))
        except OSError:
            # Not every pair of file systems can; the offsets stand after what was copied.
            copied = os.sendfile(target, source, None, min(remaining, 1 << 30))
        if copied == 0:
            raise UserError("the file became shorter while it was copied; nobody may write to it meanwhile")
        remaining -= copied
