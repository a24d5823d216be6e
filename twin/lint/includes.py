"""Check the includes of kernel sources before a compiler opens them: regular files of the project and the twin only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text, shown

from .cpp_tokens import Token

# Headers with types and constants; other rules reject the functions of <cmath>.
DEVICE_HEADERS = {
    "<cfloat>", "<climits>", "<cmath>", "<cstddef>", "<cstdint>", "<limits>", "<math.h>", "<stddef.h>", "<stdint.h>",
    "<type_traits>",
}  # fmt: skip
SUFFIXES = (".h", ".hpp", ".cpp")
MOST_SOURCE_BYTES = 1 << 20
_MOST_FILES = 20_000
# Preprocessor features to read or find a file that device compilers do not have, or that hide its name.
_OTHER_INCLUDE = re.compile(r"(?:#|%:)\s*(include_next|import|embed)\b")
_INCLUDE = re.compile(r"(?:#|%:)\s*include\b\s*(.*)", re.DOTALL)
_DIRECTIVE = re.compile(
    r"(?:#|%:)\s*(?:$|(?:define|elif|else|endif|error|if|ifdef|ifndef|include|pragma|undef|warning)\b)"
)
_QUOTED = re.compile(r"<([^>]*)>|\"([^\"]*)\"")
_LOOK = re.compile(r"\b__has_(?:include|include_next|embed)\b")
_READING_PRAGMA = re.compile(r"\b(dependency|pch_preprocess|include_alias)\b")
# Also in lines that the preprocessor skips: an extra file is only checked.
_FOLLOWED = re.compile(r'^[^\S\n]*(?:#|%:)\s*include\s*"([^"\n]+)"', re.MULTILINE)

Report = Callable[[int, str, str], None]


def read_source(path: Path) -> str:
    """Return the text of a kernel source.

    Raises:
        UserError: It is not a regular file, too long, or not UTF-8.
    """
    data = read_regular(path, "kernel source", MOST_SOURCE_BYTES, "split it into several files")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        got = f"got byte {data[error.start]:#04x}, expected a kernel source (.h, .cpp) in UTF-8"
        raise UserError(f"{path_text(path)}:{line}: {got}; save the file as UTF-8") from error


def included(text: str) -> set[str]:
    """Return the names in quotes that a source includes, which `reachable` follows."""
    return set(_FOLLOWED.findall(text))


def check_directive(directive: Token, followed: Collection[str], report: Report) -> None:  # noqa: C901 - the first rule reports
    """Report a directive that the device compiler rejects, or an include of a file that is not a header of the project.

    Args:
        directive: The line.
        followed: The names of the includes that are followed.
        report: Called with line, rule and message.
    """
    text, line = directive.text, directive.line
    if found := _LOOK.search(text):
        report(line, "include", f"{found[0]} depends on the files of this machine; include the header or leave it out")
    if found := _OTHER_INCLUDE.match(text):
        report(line, "include", f"#{found[1]} does not exist on the device; use #include")
    elif not _DIRECTIVE.match(text):
        # `#line` hides the origin of code; `#ident` is copied into the assembly.
        report(line, "directive", f"{shown(text)} does not exist on the device; remove it")
    if re.match(r"(?:#|%:)\s*pragma\b", text):
        check_pragma(text, line, report)
    if (found := _INCLUDE.match(text)) is None:
        return
    quoted = _QUOTED.match(found[1])
    if quoted is None:
        report(line, "include", f"got #include {shown(found[1])}, expected the name of a header in quotes")
        return
    name = quoted[1] if quoted[1] is not None else quoted[2]
    if name.startswith("/"):
        report(line, "include", f"{shown(name)} is an absolute path; copy the header into the project")
    elif quoted[1] is not None and quoted[0] not in DEVICE_HEADERS:
        expected = ", ".join(sorted(DEVICE_HEADERS))
        report(
            line,
            "include",
            f"{quoted[0]} does not exist on the device; expected kernel_operator.h, or one of {expected}",
        )
    elif quoted[1] is None and name not in followed:
        report(line, "include", f"got comments or several lines, expected '#include {quoted[0]}' alone on one line")
    if "opforge_twin" in name:
        report(line, "include", f"{quoted[0]} belongs to the twin; include kernel_operator.h")


def check_pragma(text: str, line: int, report: Report) -> None:
    """Report a pragma, or the text of _Pragma, that reads a file."""
    if found := _READING_PRAGMA.search(text):
        report(line, "include", f"pragma {found[1]} reads a file that the build does not know; remove it")


def reachable(source: Path, folders: Sequence[Path], roots: Sequence[Path]) -> list[Path]:
    """Return a kernel source and the headers that it includes from `folders` or its own folder.

    Args:
        source: The file.
        folders: Include folders.
        roots: Folders that must contain all headers, after links are resolved.

    Raises:
        UserError: One of them is not a regular file, is outside of the roots, or cannot be read.
    """
    real_roots = [root.resolve() for root in roots]
    found: dict[Path, None] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        for name in _FOLLOWED.findall(read_source(path)):
            if header := _header(path, name, folders):
                _require_inside(path, name, header, real_roots)
                waiting.append(header)
    return list(found)


def _header(includer: Path, name: str, folders: Iterable[Path]) -> Path | None:
    """Return the file of an include, with links resolved; None if the compiler finds it elsewhere."""
    for folder in (includer.parent, *folders):
        try:
            if not stat.S_ISDIR((folder / name).stat().st_mode):
                return (folder / name).resolve()
        except (OSError, ValueError):
            continue  # not found here; the compiler reports it if it does not exist
    return None


def _require_inside(includer: Path, name: str, header: Path, roots: Iterable[Path]) -> None:
    if not any(header.is_relative_to(root) for root in roots):
        raise UserError(
            f"{path_text(includer)}: include: {shown(name)} is {path_text(header)}, which is outside of the project; "
            "copy the header into the project"
        )


def sources_below(folder: Path) -> Iterator[Path]:
    """Yield all sources in a folder and its subfolders, without following links.

    Raises:
        UserError: One of them is a pipe or a device, or there are too many.
    """
    waiting, count = [folder], 0
    while waiting:
        inner = waiting.pop()
        try:
            entries = sorted(os.scandir(inner), key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UserError(
                f"{path_text(inner)}: got '{error.strerror}', expected a folder with kernel sources"
            ) from error
        count += len(entries)
        if count > _MOST_FILES:
            raise UserError(f"{path_text(folder)}: got more than {_MOST_FILES} files, expected a folder of sources")
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.name.endswith(SUFFIXES) and _is_special(entry):
                raise UserError(
                    f"{path_text(Path(entry.path))}: got a pipe, device or socket, expected a regular file; remove it"
                )
            elif entry.name.endswith(SUFFIXES):
                yield Path(entry.path)


def _is_special(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False  # a broken link, which no compiler can open
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
