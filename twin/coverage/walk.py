"""List the files of a clone without following links, within limits of depth, number and size."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text

MOST_DEPTH = 32
MOST_FILES = 300_000
MOST_SOURCE_BYTES = 2 << 20
SOURCE_SUFFIXES = (".asc", ".cpp", ".cc", ".cce")
_READ_SUFFIXES = (*SOURCE_SUFFIXES, ".h", ".hpp", ".inc", ".py", ".txt", ".md", ".cmake")
_SKIPPED = {".git", "node_modules", "__pycache__", "build", "build_out"}


@dataclass
class Tree:
    """The files of a clone.

    Attributes:
        root: The folder.
        files: Sizes of regular files by path below `root`; only suffixes that this package reads.
        problems: The reason why a source file or folder is not read, by path.
    """

    root: Path
    files: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """Return the sorted paths of the files; call it after the clone was listed."""
        return sorted(self.files)

    def below(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder and its folders."""
        start = bisect_left(self.names, f"{folder}/")
        return self.names[start : bisect_left(self.names, f"{folder}0")]  # 0 follows / in ASCII

    def text(self, path: str) -> str:
        """Return the text of a listed file; empty if it is too large."""
        if self.files.get(path, MOST_SOURCE_BYTES + 1) > MOST_SOURCE_BYTES:
            return ""
        try:
            handle = os.open(self.root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(handle, "rb") as file:
                return file.read(MOST_SOURCE_BYTES).decode(errors="replace")
        except OSError:
            return ""


def list_files(root: Path) -> Tree:
    """List a clone.

    Raises:
        UserError: It is not a readable folder.
    """
    tree = Tree(root.resolve())
    if not root.is_dir():
        got, fix = ("no folder", "correct the path") if not root.exists() else ("a file", "pass its folder and --only")
        raise UserError(f"{path_text(root)}: got {got}, expected the folder of a clone with Ascend C sources; {fix}")
    pending = [("", 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            entries = sorted(os.scandir(tree.root / folder), key=lambda entry: entry.name)
        except OSError as error:
            if not folder:
                raise UserError(f"{path_text(root)}: got '{error.strerror}', expected a readable folder") from error
            tree.problems[folder] = f"the folder cannot be read: {error.strerror}"
            continue
        for path, is_folder in _listed(_with_utf8_names(entries, folder, tree), folder, tree):
            if not is_folder:
                continue
            if depth >= MOST_DEPTH:
                tree.problems[path] = f"deeper than {MOST_DEPTH} folders; its files are not read"
            else:
                pending.append((path, depth + 1))
        if len(tree.files) > MOST_FILES:
            raise UserError(
                f"{path_text(root)}: got more than {MOST_FILES} source files, expected a clone; name a folder in it"
            )
    return tree


def _with_utf8_names(entries: list[os.DirEntry[str]], folder: str, tree: Tree) -> list[os.DirEntry[str]]:
    """Return the entries whose names are UTF-8; add the other sources and folders to the problems of the tree."""
    kept: list[os.DirEntry[str]] = []
    for entry in entries:
        name = os.fsencode(entry.name).decode(errors="replace")
        if name == entry.name:
            kept.append(entry)
        elif entry.name.endswith(SOURCE_SUFFIXES) or entry.is_dir(follow_symlinks=False):
            tree.problems[f"{folder}/{name}" if folder else name] = "its name is not UTF-8"
    return kept


def _listed(entries: list[os.DirEntry[str]], folder: str, tree: Tree) -> Iterator[tuple[str, bool]]:
    """Yield the files and folders among entries; add the files to the tree."""
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_source = entry.name.endswith(SOURCE_SUFFIXES)
        if entry.is_symlink():
            if is_source and not Path(os.path.realpath(entry.path)).is_relative_to(tree.root):
                tree.problems[path] = "a symbolic link out of the clone; it is not followed"
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED:
                yield path, True
        elif entry.name.endswith(_READ_SUFFIXES):
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                tree.problems[path] = "no regular file"
            elif status.st_size > MOST_SOURCE_BYTES:
                if is_source:
                    tree.problems[path] = f"{status.st_size} bytes; expected a source of at most {MOST_SOURCE_BYTES}"
            else:
                tree.files[path] = status.st_size
                yield path, False
