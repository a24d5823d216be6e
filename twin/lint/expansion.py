"""Reject host assembly in a kernel after macro expansion, when no macro can hide it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.printing import escaped

from .cpp_tokens import tokens_of
from .includes import check_pragma
from .words import ASSEMBLY

_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)$')
_ENTER, _LEAVE = "1", "2"  # flags of markers
_RAW_STRING = re.compile(r'R"([^()\\\s"]{0,16})\(')
# Attributes whose text gcc copies into the assembly unchanged: a line break in it starts an instruction.
_COPIED = {"alias", "ifunc", "patchable_function_entry", "section", "symver", "weakref"}
_TWIN = os.path.realpath(Path(__file__).parents[1] / "include") + "/"


@dataclass(frozen=True)
class _Line:
    """A line of the expanded source, and its origin."""

    file: str
    number: int
    text: str


def require_no_assembly(expanded: str, folders: Sequence[str]) -> None:
    """Reject a kernel with instructions or directives for the assembler of the host.

    Lint has read the source: no directive in it renames files, as `#line` does.

    Args:
        expanded: The output of the preprocessor, with its line markers.
        folders: The compiler's folders of headers, without links, ending in "/". Their content is not checked.

    Raises:
        UserError: There is inline assembly; the message lists all locations.
    """
    lines = list(_kernel_lines(expanded, (*folders, _TWIN)))
    found: list[str] = []

    def report(line: int, rule: str, message: str) -> None:
        place = lines[line - 1]
        found.append(f"{escaped(place.file)}:{place.number}: {rule}: {message}")

    tokens = tokens_of("\n".join(line.text for line in lines))
    for index, token in enumerate(tokens):
        if token.kind == "directive" and re.match(r"#\s*pragma\b", token.text):
            check_pragma(token.text, token.line, report)
        elif token.kind == "directive":
            report(token.line, "directive", "the compiler copies its text; remove it")
        elif token.text in ASSEMBLY:
            report(token.line, "asm", "instructions of the host do not exist on the device; use AscendC")
        elif token.text.strip("_") in _COPIED and tokens[index + 1 : index + 2] and tokens[index + 1].text == "(":
            values = [value.kind for value in tokens[index + 2 : index + 6]]
            if "text" in values:
                report(token.line, "attribute", f"{token.text} does not exist on the device; remove it")
    if found:
        raise UserError("\n".join(dict.fromkeys(found)))


def _kernel_lines(expanded: str, folders: tuple[str, ...]) -> Iterator[_Line]:
    """Yield the lines of files outside `folders`."""

    @lru_cache
    def is_skipped(file: str) -> bool:
        return os.path.realpath(file).startswith(folders)

    file, number, skipped = "", 1, [False]  # the last entry is for the current file
    for text in expanded.split("\n"):
        if marker := _MARKER.match(text):
            flags = marker[3].split()
            if _LEAVE in flags and len(skipped) > 1:
                skipped.pop()
            file, number = _unescaped(marker[2]), int(marker[1])
            if _ENTER in flags:
                skipped.append(is_skipped(file))
            continue
        if not skipped[-1]:
            yield _Line(file, number, text)
            if any(f'){start[1]}"' not in text[start.end() :] for start in _RAW_STRING.finditer(text)):
                raise UserError(f"{escaped(file)}:{number}: string: a raw string of several lines; use short strings")
        number += 1


def _unescaped(name: str) -> str:
    """Return the path in a line marker, where other bytes than printable ASCII are octal numbers."""

    def byte(found: re.Match[bytes]) -> bytes:
        return found[1] if len(found[1]) == 1 else bytes([int(found[1], 8) & 0xFF])

    return os.fsdecode(re.sub(rb"\\([0-7]{3}|.)", byte, os.fsencode(name)))
