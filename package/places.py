"""Examine untrusted paths: too long, loops of links, pipes, very large folders.

Each function returns within a stated limit. A path that the system rejects counts as absent. A path that this user may
not open raises PermissionError, because the caller must report it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

# A system folder with more entries is not searched completely.
MOST_CHILDREN = 10_000
# A vendor folder has a few thousand files, at most ten levels deep.
MOST_DEPTH = 64
MOST_ENTRIES = 200_000
_MOST_TEXT_BYTES = 1 << 20
_REFUSED = {errno.ENAMETOOLONG: "the path is too long", errno.ELOOP: "its links form a loop"}


def why_unusable(text: str) -> str:
    """Return the reason why no program can use a path; empty for a usable path, even if nothing exists there."""
    try:
        Path(text).stat()
    except OSError as error:
        return _REFUSED.get(error.errno or 0, "")
    except ValueError:
        return "it contains a character that is not allowed in a path"
    return ""


def _mode(path: Path) -> int:
    """Return kind and permissions after following links; 0 if the path does not exist."""
    try:
        return path.stat().st_mode
    except PermissionError:
        raise
    except (OSError, ValueError):
        return 0


def is_file(path: Path) -> bool:
    """Return whether a path leads to a regular file."""
    return stat.S_ISREG(_mode(path))


def is_dir(path: Path) -> bool:
    """Return whether a path leads to a folder."""
    return stat.S_ISDIR(_mode(path))


def exists(path: Path) -> bool:
    """Return whether a path exists."""
    return _mode(path) != 0


def real(path: Path) -> Path:
    """Return the path without links; unchanged if it cannot be used."""
    # `realpath` follows more links than the system, with one recursive call per link.
    return path if why_unusable(str(path)) else Path(os.path.realpath(path))


def children(folder: Path, pattern: str = "*", most: int = MOST_CHILDREN) -> list[Path]:
    """Return the sorted entries of a folder that match, from its first `most` entries; empty if unreadable."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, most)]
    except (OSError, ValueError):
        return []
    return [folder / name for name in sorted(names) if fnmatchcase(name, pattern)]


def first_text(path: Path, most: int = _MOST_TEXT_BYTES) -> str:
    """Return the text of the first bytes of a regular file; empty if there is none. A pipe is not opened."""
    try:
        if not is_file(path):
            return ""
        with path.open("rb") as stream:
            return stream.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class Tree:
    """All files and folders below a folder.

    Attributes:
        files: All entries except folders.
        closed_folders: Folders that this user cannot open.
        excess: The exceeded limit; the other fields then contain the entries found before. Empty within the limits.
    """

    files: list[Path]
    closed_folders: list[Path]
    excess: str


def walk(folder: Path) -> Tree:
    """List a folder completely or up to the limits; links to folders are not followed."""
    files: list[Path] = []
    closed: list[Path] = []
    waiting = [(folder, 1)]
    entries = 0
    while waiting:
        folder_path, depth = waiting.pop()
        if depth > MOST_DEPTH:
            return Tree(files, closed, f"got folders more than {MOST_DEPTH} levels deep, expected fewer levels")
        inner: list[tuple[Path, int]] = []
        for entry in _entries(folder_path, closed):
            entries += 1
            if entries > MOST_ENTRIES:
                return Tree(files, closed, f"got more than {MOST_ENTRIES} files and folders, expected fewer")
            if _is_folder(entry, follow=True):
                if _is_folder(entry, follow=False):
                    inner.append((folder_path / entry.name, depth + 1))
            else:
                files.append(folder_path / entry.name)
        waiting += sorted(inner, reverse=True)
    return Tree(files, closed, "")


def _entries(folder: Path, closed: list[Path]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except PermissionError:
        closed.append(folder)
    except OSError:
        return  # the path does not exist any more or is not a folder


def _is_folder(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False
