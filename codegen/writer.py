"""Generated texts -> files: written only on change, each in one step, never outside the output folder."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UserError

# Which files of a folder are generated, and for which operator: what a later run no longer makes is removed.
MANIFEST = ".opforge-generated.json"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Temporary names end with the process that writes.
_PARTIAL = re.compile(r"\..+\.(\d{1,9})")


@dataclass(frozen=True)
class Tree:
    """Texts by path below the output folder, the operator each belongs to, and whether these are all operators.

    The owner "" stands for what belongs to all operators together.
    """

    files: Mapping[str, str]
    owners: Mapping[str, str]
    is_complete: bool


@dataclass(frozen=True)
class Changes:
    """Paths below the output folder, sorted: to be written because they are new or differ, to be removed, unchanged."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]

    @property
    def any(self) -> bool:
        """Whether something would change."""
        return bool(self.written or self.removed)


def compare(tree: Tree, out: Path) -> Changes:
    """What `write` would do.

    Raises:
        UserError: A path leaves the output folder, or something there cannot be read.
    """
    current = {path: _read(_target(out, path)) for path in tree.files}
    known = _read_manifest(out)
    replaced = {*tree.owners.values()}
    removed = [
        path
        for path, owner in known.items()
        if path not in tree.files and (tree.is_complete or owner in replaced) and _target(out, path).is_file()
    ]
    return Changes(
        written=tuple(sorted(path for path, text in tree.files.items() if current[path] != text)),
        removed=tuple(sorted(removed)),
        unchanged=tuple(sorted(path for path, text in tree.files.items() if current[path] == text)),
    )


def write(tree: Tree, out: Path) -> Changes:
    """Bring the output folder up to date.

    Raises:
        UserError: A path leaves the output folder, or a file cannot be written.
    """
    changes = compare(tree, out)
    known = _read_manifest(out)
    manifest = {
        path: owner
        for path, owner in known.items()
        if path not in changes.removed and (not tree.is_complete or path in tree.files)
    }
    manifest |= tree.owners
    try:
        _sweep(out)
        # The manifest goes first: a run that is cut off leaves no file that nobody knows.
        replace_file(out / MANIFEST, json.dumps({**known, **manifest}, indent=0, sort_keys=True) + "\n")
        for path in changes.written:
            replace_file(_target(out, path), tree.files[path])
        for path in changes.removed:
            _target(out, path).unlink(missing_ok=True)
        replace_file(out / MANIFEST, json.dumps(manifest, indent=0, sort_keys=True) + "\n")
    except OSError as error:
        raise _not_writable(out, error) from error
    return changes


def differences(tree: Tree, out: Path) -> str:
    """A unified diff from the output folder to the texts; empty if nothing would change."""
    changes = compare(tree, out)
    parts = [_diff(path, _read(_target(out, path)) or "", tree.files[path]) for path in changes.written]
    parts += [_diff(path, _read(_target(out, path)) or "", "") for path in changes.removed]
    return "".join(parts)


def _diff(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _target(out: Path, path: str) -> Path:
    parts = path.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        raise UserError(f"{path!r}: got a path that may leave {out}, expected plain names")
    target = out.joinpath(*parts)
    if not target.parent.resolve().is_relative_to(out.resolve()) or target.is_symlink():
        raise UserError(f"{target}: got a link out of {out}, expected a plain file; remove the link")
    return target


def _read(path: Path) -> str | None:
    """The text of a file; None if there is none. A file that is no UTF-8 text equals no generated text."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{path}: got '{error.strerror}', expected a file that can be read and replaced") from error


def _read_manifest(out: Path) -> dict[str, str]:
    path = out / MANIFEST
    text = _read(path)
    if text is None:
        return {}
    try:
        known: Any = json.loads(text)
        if not isinstance(known, dict) or not all(isinstance(owner, str) for owner in known.values()):
            raise ValueError("not a mapping of texts")  # noqa: TRY301  # one message for every kind of damage
    except ValueError as error:
        message = f"{path}: got a damaged list of generated files ({error}), expected JSON; delete it and run again"
        raise UserError(message) from error
    return known


def replace_file(path: Path, text: str) -> None:
    """Write a file in one step, if its text changes."""
    if _read(path) == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(text.encode("utf-8"))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _sweep(out: Path) -> None:
    """Remove what runs that were killed left under temporary names."""
    for path in out.rglob(".*"):
        partial = _PARTIAL.fullmatch(path.name)
        if partial and not _is_running(int(partial[1])):
            path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to somebody else
    return True


def _not_writable(out: Path, error: OSError) -> UserError:
    place = error.filename or out
    return UserError(
        f"{place}: got '{error.strerror}', expected a folder that can be written to; choose one with --out"
    )
