"""Escape text of a spec for the target language.

Templates may only print `Code` (text from these functions or the C++ back end), numbers and plain identifiers;
`printable` rejects everything else, so a forgotten filter is an error and not an injection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|")


class Code(str):
    """Text that templates can print safely."""

    __slots__ = ()


class UnescapedTextError(TypeError):
    """A template prints text of a spec without a filter for the target language."""


def printable(value: Any) -> Any:
    """Return the text that a template prints for a value; called for every `${..}`."""
    if isinstance(value, (Code, int)) or (isinstance(value, str) and _IDENTIFIER.fullmatch(value)):
        return value
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        return value
    raise UnescapedTextError(f"a template prints {value!r} without an escaping filter")


def commas(items: Iterable[Any]) -> Code:
    """Return printable items, separated by commas."""
    return Code(", ".join(str(printable(item)) for item in items))


def cpp_string(text: str) -> Code:
    """Return a C++ string literal."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in {'"', "\\"}:
            out.append(f"\\{char}")
        elif char == "\n":
            out.append("\\n")
        elif char == "?":
            out.append("\\?")  # prevents trigraphs
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")  # three octal digits have a fixed length, hexadecimal digits do not
    return Code(f'"{"".join(out)}"')


def comment(text: str) -> Code:
    """Return text for a `//` or `#` comment: one line that cannot continue on the next one."""
    line = " ".join(text.split())
    ascii_line = line.encode("ascii", "backslashreplace").decode()
    return Code(ascii_line.replace("??/", "?? /").rstrip("\\").rstrip())


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|!~$&])")


def markdown(text: str) -> Code:
    """Return text for one line of Markdown, also in table cells, without markup, links or HTML."""
    line = " ".join(text.split())
    return Code(_MARKDOWN.sub(r"\\\1", line).replace("://", "&#58;//"))


def markdown_code(text: str) -> Code:
    """Return text as inline code in Markdown, in a fence longer than any run of backticks inside."""
    line = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return Code(f"{fence}{pad}{line}{pad}{fence}")
