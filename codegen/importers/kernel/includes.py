"""Read a kernel and the files that it includes, and choose their paths in a project."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_inside, read_regular
from opforge.codegen.importers.sources import MOST_BYTES, decoded
from opforge.codegen.importers.tiling.structures import code_of
from opforge.codegen.printing import path_text, shown

MOST_KERNEL_FILES, _MOST_INCLUDES, _MOST_FOLDERS, _MOST_NAMES = 200, 1000, 100_000, 20
_STEM = re.compile(r"[\w.+-]+", re.ASCII)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)


class KernelSources:
    """A kernel and the files that it includes.

    Attributes:
        files: Their text by path in the folder of the kernel in the project; the first one is the kernel.
        problems: Includes that were not copied.
    """

    def __init__(self, path: Path, root: Path | None, is_provided: Callable[[str], bool]) -> None:
        """Read the files.

        Args:
            path: The kernel.
            root: A folder with further files; None: only those below the folder of the kernel are read.
            is_provided: Whether CANN has a header of this name.

        Raises:
            UserError: A file cannot be read, there are too many, or the kernel is not below `root`.
        """
        self._place = path_text(path)
        text = decoded(read_regular(path, "kernel", MOST_BYTES, "name a smaller file"), path, ": a C++ source")
        self._folder = path.parent.resolve()
        self._root = self._folder if root is None else root.resolve()
        if not self._folder.is_relative_to(self._root):
            got = f"--kernel-root: got {path_text(self._root)}, expected a folder above the kernel"
            raise UserError(f"{got}; name another folder", self._place)
        self._has_root = root is not None
        first = self._first_name(path)
        # Paths relative to the folder of the kernel, also with `..`; then the source of each copy.
        self._texts = {first: text}
        self._sources = {first: self._folder / path.name}
        self._places: dict[Path, str] = {}
        self._outside: list[str] = []
        self._missing: list[str] = []
        self.problems: list[str] = []
        self._read_includes(first, is_provided)
        self.files: Mapping[str, str] = self._in_project()
        self.problems += self._absent()

    def _first_name(self, path: Path) -> str:
        """Return the name of the copy of the kernel. A package contains files with the suffix .h only."""
        if not _STEM.fullmatch(path.stem):
            got = f"got the file name {shown(path.name)}, expected letters, digits and the characters _ . + -"
            raise UserError(f"--kernel: {got}; rename the file", self._place)
        name = f"{path.stem}_entry.h"
        while os.path.lexists(self._folder / name):
            name = f"{name.removesuffix('.h')}_entry.h"
        return name

    def _read_includes(self, first: str, is_provided: Callable[[str], bool]) -> None:
        waiting = deque([first])
        while waiting:
            including = waiting.popleft()
            for mark, written in INCLUDE.findall(code_of(self._texts[including]))[:_MOST_INCLUDES]:
                location = os.path.normpath(PurePosixPath(including).parent / written)
                if location in self._texts or PurePosixPath(written).is_absolute():
                    continue
                # A project has no folders above the root folder.
                is_possible = PurePosixPath(location).parts.count("..") < len(self._folder.parts)
                found = self._found(including, written) if is_possible else None
                if found is None:
                    if mark == '"' and not is_provided(written):
                        self._missing.append(written)
                    continue
                file, text = found
                if mark == "<":
                    place = path_text(self._sources[including])
                    self.problems.append(
                        f'{place}: got <{written}>, a file of the kernel, expected "{written}"; change it'
                    )
                if len(self._texts) == MOST_KERNEL_FILES:
                    raise UserError(
                        f"includes more than {MOST_KERNEL_FILES} files, expected fewer; import a smaller kernel",
                        self._place,
                    )
                if file in self._places:
                    there = os.path.relpath(self._places[file], PurePosixPath(location).parent)
                    self._texts[location] = f'#include "{there}"\n'
                    continue
                self._texts[location], self._sources[location], self._places[file] = text, file, location
                waiting.append(location)
                if not location.endswith(".h"):
                    self.problems.append(f"{path_text(file)}: a package has no file of this suffix")

    def _found(self, including: str, written: str) -> tuple[Path, str] | None:
        """Return the file of an include; None if there is none in the folders that may be read."""
        for file in self._candidates(including, written):
            if not file.is_relative_to(self._root):
                if "\0" not in written and file.is_file():
                    self._outside.append(written)
                continue
            text = _read_below(self._root, str(file.relative_to(self._root)))
            if text is not None:
                return file, text
        return None

    def _candidates(self, including: str, written: str) -> Iterator[Path]:
        own = self._sources[including].parent
        for folder in dict.fromkeys((own, self._folder)):
            yield Path(os.path.normpath(folder / written))
        if self._has_root:
            # An installation has the folders `<op>/op_kernel` of all operators as `<op>` in one folder.
            parts = [part for part in PurePosixPath(written).parts if part != ".."]
            for folder in self._kernel_folders.get(parts[0], ()) if len(parts) > 1 else ():
                yield folder.joinpath(*parts[1:])

    @cached_property
    def _kernel_folders(self) -> dict[str, list[Path]]:
        """The folders with the name `op_kernel`, by the name of their operator; the nearest one is first."""
        found: dict[str, list[Path]] = {}
        for count, (name, folders, _) in enumerate(os.walk(self._root)):
            if count == _MOST_FOLDERS:
                expected = f"expected at most {_MOST_FOLDERS}; name a smaller folder"
                raise UserError(f"got more than {_MOST_FOLDERS} folders, {expected}", path_text(self._root))
            folders.sort()
            folder = Path(name)
            if folder.name == "op_kernel":
                found.setdefault(folder.parent.name, []).append(folder)
        for places in found.values():
            places.sort(key=lambda place: len(os.path.relpath(place, self._folder)))
        return found

    def _in_project(self) -> dict[str, str]:
        """Return the texts by their path in the project: `..` needs the folders above the kernel."""
        levels = max(PurePosixPath(location).parts.count("..") for location in self._texts)
        if levels == 0:
            return self._texts
        above = PurePosixPath(*self._folder.parts[-levels:])
        return {os.path.normpath(above / location): text for location, text in self._texts.items()}

    def _absent(self) -> list[str]:
        found = []
        if self._outside:
            folders = [os.path.normpath(self._folder / name) for name in self._outside]
            above = os.path.commonpath([self._folder, *folders])
            found.append(
                f"{self._place}: not copied, because they are outside of {path_text(self._root)}:"
                f" {_names(self._outside)}; add --kernel-root {path_text(Path(above))}"
            )
        missing = [name for name in self._missing if name not in self._outside]
        if missing:
            repair = (
                "add the files if the kernel needs them"
                if self._has_root
                else "add --kernel-root with the folder of all operators"
            )
            found.append(f"{self._place}: included, but not found: {_names(missing)}; {repair}")
        return found


def _names(written: list[str]) -> str:
    names = list(dict.fromkeys(written))
    more = [f"and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return ", ".join([*(shown(name) for name in names[:_MOST_NAMES]), *more])


def _read_below(folder: Path, location: str) -> str | None:
    try:
        file = open_inside(folder, location)
    except (OSError, ValueError):
        return None
    if file is None:
        return None
    with file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UserError(f"got more than {MOST_BYTES} bytes; name a smaller kernel", path_text(folder / location))
    return decoded(data, folder / location, ": a C++ source")
