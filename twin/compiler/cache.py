"""Record compiled files: a file is current if its bytes and the bytes of all inputs equal the record."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_regular, read_regular
from opforge.codegen.printing import path_text, say
from opforge.codegen.untrusted import FormError, parse_json

# Compilers write at most a few hundred MB (limited_process.py); a larger file is never current.
_MOST_BYTES = 1 << 30
_MOST_RECORD_BYTES = 4 << 20
_MOST_DEPFILE_BYTES = 16 << 20
# File systems store times in steps of some milliseconds: a file that changed just now may change again undetected.
_SETTLED_NS = 1_000_000_000

_Key = tuple[str, int, int, int, int, int]
_digests: dict[_Key, str] = {}


def digest(path: str | Path) -> str | None:
    """Return the SHA-256 of a regular file; None if there is none.

    The file is read again only if its times, size or inode changed. One of the times is the last status change (ctime).
    No program can set it. A change of the bytes is therefore detected even if the size and the other times are equal.
    """
    try:
        if (key := _key(path, os.stat(path))) in _digests:  # noqa: PTH116  # hundreds of files before each launch
            return _digests[key]
        with open_regular(Path(path), "file") as file:
            status = os.fstat(file.fileno())
            if status.st_size > _MOST_BYTES:
                return None
            found = hashlib.sha256(file.read()).hexdigest()
    except (UserError, OSError, ValueError):
        return None  # the file is built again, or its user reports the problem
    if time.time_ns() - status.st_ctime_ns > _SETTLED_NS:
        _digests[_key(path, status)] = found
    return found


def _key(path: str | Path, status: os.stat_result) -> _Key:
    return str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def signature(compiler: str, command: Sequence[str], inputs: Iterable[str]) -> str | None:
    """Return a digest of a command (identified by `compiler`) and its inputs; None if an input cannot be read."""
    total = hashlib.sha256(json.dumps([compiler, *command[1:]]).encode())
    for path in sorted(set(inputs)):
        content = digest(path)
        if content is None:
            return None
        total.update(json.dumps([path, content]).encode())
    return total.hexdigest()


def record_path(output: Path) -> Path:
    """Return the path of the record of a compiled file."""
    return output.with_name(output.name + ".json")


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    signature: str
    inputs: list[str]
    digest: str


_FORM = TypeAdapter(_Record)


def _read_record(output: Path) -> _Record | None:
    try:
        data = read_regular(record_path(output), "record", _MOST_RECORD_BYTES, "build again")
        found: _Record = parse_json(data, _FORM)
    except (UserError, FormError):
        return None  # no record, or a damaged one: the file is built again
    return found


def is_current(output: Path, compiler: str, command: Sequence[str]) -> bool:
    """Return whether a file has the recorded bytes, and the command and inputs of the record are unchanged."""
    record = _read_record(output)
    return (
        record is not None
        and record.digest == digest(output)
        and record.signature == signature(compiler, command, record.inputs)
    )


def publish(made: Path, output: Path, compiler: str, command: Sequence[str], inputs: list[str], started: int) -> None:
    """Rename an output file to its final name, and record it unless an input changed since `started` (ns).

    Args:
        made: The file, in a temporary folder of the same file system.
        output: Its name.
        compiler: Names the compiler.
        command: The command that created it.
        inputs: All files that the command read.
        started: Time before the command began.
    """
    content = digest(made)
    found = signature(compiler, command, inputs)
    record = record_path(output)
    record_file = made.with_name(made.name + ".json")
    record_file.write_text(json.dumps({"signature": found, "inputs": inputs, "digest": content}), encoding="utf-8")
    # Without a record, no file is current: a killed build leaves no wrong record.
    if record.exists() and not record.is_dir():
        record.unlink()
    replace_output(made, output)
    # Checked after the digests were computed: the compiler may have read other bytes.
    if found is not None and _are_unchanged(inputs, started):
        replace_output(record_file, record)


def _are_unchanged(paths: Sequence[str], started: int) -> bool:
    """Return whether no file changed since `started`. A time in the future is from a clock that was set back."""
    try:
        changes = [Path(path).stat().st_ctime_ns for path in paths]
    except FileNotFoundError:
        return False
    now = time.time_ns()
    return started <= now and all(change < started or change > now for change in changes)


def replace_output(made: Path, target: Path) -> None:
    """Rename a file; a folder at the target path is moved aside, because it may belong to the user."""
    if target.is_dir() and not target.is_symlink():
        aside = tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent)
        target.replace(aside)
        say(f"{path_text(target)}: a folder was in the place of a compiled file; it is renamed to {aside}", err=True)
    made.replace(target)


def read_depfile(path: Path) -> list[str]:
    """Return the files that a compiler read: the prerequisites of a rule for `make`, unescaped.

    Raises:
        UserError: The file has no such rule.
    """
    text = read_regular(path, "list of included files", _MOST_DEPFILE_BYTES, "include fewer files").decode(
        errors="surrogateescape"
    )
    rule, colon, names = text.replace("\\\n", " ").partition(": ")
    if not colon or not rule:
        raise UserError(
            f"{path_text(path)}: got no list of included files from the compiler, expected a rule of make; set CXX to"
            " g++ or clang++"
        )
    return _unescaped(names)


def _unescaped(names: str) -> list[str]:
    """Split file names: `make` escapes spaces (and backslashes before them) and # with a backslash, $ with $."""
    found = re.findall(r"(?:\\[ \t]|\S)+", names)
    plain = [re.sub(r"(\\*)\\([ \t])", lambda part: part[1][::2] + part[2], name) for name in found]
    return [name.replace("\\#", "#").replace("$$", "$") for name in plain]
