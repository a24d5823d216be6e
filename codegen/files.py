"""Read and write only regular files; a written file is complete or absent."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, BinaryIO

from .errors import UserError
from .printing import first_line, path_text

_READABLE = "expected a readable file; check the path and its permissions"
# Bytes copied between two checks of the clock.
_STEP_BYTES = 1 << 26
# Prefix of temporary folders. Only the process that creates a folder removes it, because a later process cannot
# distinguish remains of a killed process from files of the user.
TEMPORARY_PREFIX = ".opforge-tmp-"
# Files written by this process, for the message of a command that fails later.
_written: list[Path] = []
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path, what: str) -> BufferedReader:
    """Open a regular file for reading; `what` names it in messages ("model", "inputs").

    Raises:
        UserError: The file is missing, not readable, or not a regular file. A pipe or device is not opened.
    """
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            mode = os.fstat(found).st_mode
            if stat.S_ISREG(mode):
                return _opened(found)
        finally:
            os.close(found)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the {what}: {_reason(error)}; {_READABLE}", path_text(path)) from error
    kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
    raise UserError(f"cannot read the {what}: got {kind}, expected a regular file; check the path", path_text(path))


def _opened(found: int) -> BufferedReader:
    """Open the file of a descriptor without access rights, independent of its current name."""
    return os.fdopen(os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def file_size(path: Path, what: str) -> int:
    """Return the size of a regular file without reading it; `what` names it in messages.

    Raises:
        UserError: As `open_regular`.
    """
    with open_regular(path, what) as file:
        return os.fstat(file.fileno()).st_size


def read_regular(path: Path, what: str, most: int, repair: str) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes; bytes appended later are not read.

    Raises:
        UserError: As `open_regular`, or the file is too large (`repair` is the fix), or cannot be read.
    """
    with open_regular(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UserError(f"the {what} has {size} bytes, expected at most {most}; {repair}", path_text(path))
        try:
            return file.read(size)
        except OSError as error:
            problem = f"cannot read the {what}: {_reason(error)}; {_READABLE}"
            raise UserError(problem, path_text(path)) from error


def open_inside(folder: Path, location: str) -> BinaryIO | None:
    """Open a file in a folder by its relative path without following links; None if it is not a regular file.

    A file with a second hard link is rejected: the other name can be anywhere.

    Raises:
        OSError: The file is missing or not readable.
    """
    *parents, name = PurePosixPath(location).parts
    flags = os.O_PATH | os.O_CLOEXEC
    place = os.open(folder, flags | os.O_DIRECTORY)
    try:
        for part in (*parents, name):
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
            if stat.S_ISLNK(os.fstat(place).st_mode):
                return None
        found = os.fstat(place)
        return _opened(place) if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else None
    finally:
        os.close(place)


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Lock a file against other processes and yield its descriptor; create it if it does not exist.

    Raises:
        UserError: It is a link or not a regular file; its content is not opened.
        OSError: It cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    refusal = UserError(f"{path_text(path)}: got a link or not a regular file, expected a lock file; remove it")
    try:
        lock = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
            raise refusal from error
        raise
    try:
        status = os.fstat(lock)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise refusal
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
        fcntl.flock(lock, fcntl.LOCK_UN)  # a process that was forked in the meantime also has the file open
    finally:
        os.close(lock)


def require_writable(target: Path, inputs: Iterable[Path], what: str) -> None:
    """Check that `target` may be written; `what` names it in messages.

    Args:
        target: The file.
        inputs: Files that must not change, including those that are written together with this one.
        what: Name in messages ("model", "report").

    Raises:
        UserError: Its folder is missing, it is not a regular file, or it is one of `inputs`.
    """
    place = f"{path_text(target)}: cannot write the {what}"
    try:
        if not target.parent.is_dir():
            raise UserError(f"{place}: the folder {path_text(target.parent)} does not exist; create it")
        if (target.exists() or target.is_symlink()) and not stat.S_ISREG(target.lstat().st_mode):
            raise UserError(f"{place}: it is a link or not a regular file; choose another name")
        for path in inputs:
            if _is_same(target, path):
                name = "this file" if path == target else path_text(path)
                raise UserError(f"{place}: the command also uses {name}; choose another name")
        with TemporaryFile(dir=target.parent):  # permissions do not show whether a file can be created
            pass
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{place}: {_reason(error)}; choose another name") from error


def _is_same(first: Path, second: Path) -> bool:
    """Return whether two paths are one file, or would be after both are created."""
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.name == second.name and first.parent.resolve() == second.parent.resolve()


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or first_line(error)


@dataclass(frozen=True)
class NewFile:
    """A file to be written.

    Attributes:
        target: Its path.
        fill: Writes the content.
        what: Name in messages ("model", "report").
        mode: Its permissions, for example those of a copied file; None for the default of new files.
    """

    target: Path
    fill: Callable[[BinaryIO], object]
    what: str
    mode: int | None = None


def json_file(target: Path, data: Mapping[str, Any], what: str = "report", indent: int | None = 2) -> NewFile:
    """Return a new JSON file; `what` names it in messages."""
    text = json.dumps(data, indent=indent) + "\n"
    return NewFile(target, lambda file: file.write(text.encode()), what)


def write_files(files: Sequence[NewFile], *, is_durable: bool = True) -> None:
    """Write each file in a temporary folder next to it; rename all files only after all are complete.

    Args:
        files: The files; their folders exist.
        is_durable: Whether the files must survive a power failure; files that can be generated again need not.

    Raises:
        UserError: A system call failed; no temporary file remains.
    """
    renamed = 0
    with ExitStack() as stack:
        folders: dict[Path, Path] = {}
        temporaries: list[Path] = []
        for number, file in enumerate(files):
            parent = file.target.parent
            with _refusals(file, renamed):
                if parent not in folders:
                    folders[parent] = stack.enter_context(temporary_folder(parent))
                temporary = folders[parent] / str(number)
                with temporary.open("xb") as stream_:
                    if file.mode is not None:
                        # No other user can open a file in a temporary folder.
                        os.fchmod(stream_.fileno(), file.mode)
                    file.fill(stream_)
                    stream_.flush()
                    if is_durable:
                        os.fsync(stream_.fileno())
                temporaries.append(temporary)
        for file, temporary in zip(files, temporaries, strict=True):
            with _refusals(file, renamed):
                temporary.replace(file.target)
                renamed += 1
                _written.append(file.target)
                if is_durable:
                    _sync_folder(file.target.parent)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """Create a temporary folder beside a result and remove it at the end, also after a signal that ends the command.

    Raises:
        OSError: It cannot be created.
    """
    made: TemporaryDirectory[str] | None = None
    try:
        with _later_signals():
            made = TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=parent)
        yield Path(made.name)
    finally:
        with _later_signals():
            if made is not None:
                made.cleanup()


@contextmanager
def _later_signals() -> Iterator[None]:
    """Call Python's handlers of signals after this block.

    A mask of signals has no effect on the handlers: another thread can receive the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread runs handlers
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, lambda number, _frame: received.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for one in received:
            signal.raise_signal(one)


def written_text() -> str:
    """Return the end of a message: the completely written, existing files of this process; may be empty."""
    paths = [path_text(path) for path in dict.fromkeys(_written) if os.path.lexists(path)]
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"; written completely before: {', '.join(paths[:3])}{more}" if paths else ""


def replace_file(path: Path, text: str) -> None:
    """Write a file that can be generated again, if its text changes; create its folder.

    Raises:
        UserError: A system call failed.
    """
    data = text.encode()
    if current_bytes(path, "file", len(data)) == data:
        return
    make_folder(path.parent)
    write_files([NewFile(path, lambda file: file.write(data), "file")], is_durable=False)


def current_bytes(path: Path, what: str, most: int) -> bytes | None:
    """Return the bytes of a file that may be replaced; None if it does not exist or has more than `most` bytes.

    Raises:
        UserError: It is not a regular file, or cannot be read.
    """
    try:
        if path.stat().st_size > most:
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path_text(path)}: cannot read the {what}: {_reason(error)}; choose another name") from error
    return read_regular(path, what, most, "run again")


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file, or a link to one.

    Raises:
        UserError: The system rejects the path, for example because it is too long.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise UserError(f"{path_text(path)}: {_reason(error)}; expected another path") from error


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, if they do not exist.

    Raises:
        UserError: A system call failed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path_text(folder)}: cannot make the folder: {_reason(error)}; expected a folder that can be written to"
        ) from error


@contextmanager
def _refusals(file: NewFile, renamed: int) -> Iterator[None]:
    """Convert errors of system calls for a file to a message; `renamed` files already have their final names."""
    try:
        yield
    except OSError as error:
        state = "the files before it are written" if renamed else "nothing was changed"
        raise UserError(f"{path_text(file.target)}: cannot write the {file.what}: {_reason(error)}; {state}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stream(source: int, target: int, advance: Callable[[int], object] = lambda _done: None) -> None:
    """Copy a file by descriptors in the kernel, which shares blocks if the file system supports it.

    Args:
        source: The file to read.
        target: The file to write.
        advance: Called with the number of copied bytes.
    """
    size = os.fstat(source).st_size
    done = 0
    while done < size:
        count = min(size - done, _STEP_BYTES)
        try:
            copied = os.copy_file_range(source, target, count)
        except OSError:
            # Not every pair of file systems supports it; the offsets are after the copied bytes.
            copied = os.sendfile(target, source, None, count)
        if copied == 0:
            raise OSError(f"the file became {size - done} bytes shorter while it was copied")
        done += copied
        advance(done)
