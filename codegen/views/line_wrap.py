"""Wrap long lines of generated C++ at positions that are natural for readers."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

WIDTH, PAGE_WIDTH = 120, 96  # of sources; of the code on a page
_COMMENT = re.compile(r"\s*//+ ?")


def fit(text: str, width: int = WIDTH) -> str:
    """Break lines of C++ beyond `width` columns: comments between words, code after commas and before `&&` and `||`."""
    lines = []
    for line in text.split("\n"):
        lines += [line] if len(line) <= width or line.startswith("#") else _broken(line, width)
    return "\n".join(lines)


def _broken(line: str, width: int) -> list[str]:
    if comment := _COMMENT.match(line):
        prefix = comment[0]
        return textwrap.wrap(
            line[len(prefix) :],
            width,
            initial_indent=prefix,
            subsequent_indent=prefix,
            break_long_words=False,
            break_on_hyphens=False,
        )
    lines = []
    while len(line) > width:
        start = len(line) - len(line.lstrip())
        places = [place for place in _places(line[: width + 2]) if start < place.column <= width]
        if not places:
            break
        depth = min(len(place.brackets) for place in places)
        place = [place for place in places if len(place.brackets) == depth][-1]
        indent = place.brackets[-1] + 1 if place.brackets else start
        lines.append(line[: place.column].rstrip())
        line = " " * indent + line[place.column :].lstrip()
    return [*lines, line]


@dataclass(frozen=True)
class _Place:
    """A position for a line break: before `column`, inside the brackets that are open at these columns."""

    column: int
    brackets: tuple[int, ...]


def _places(line: str) -> list[_Place]:
    """Return the positions outside of string literals, after a comma or before a logical operator."""
    places = []
    brackets: tuple[int, ...] = ()
    is_quoted = False
    i = 0
    while i < len(line):
        if line[i] == "\\":
            i += 2
            continue
        if line[i] == '"':
            is_quoted = not is_quoted
        elif is_quoted:
            pass
        elif line[i] in "([{":
            brackets = (*brackets, i)
        elif line[i] in ")]}":
            brackets = brackets[:-1]
        elif line.startswith(", ", i):
            places.append(_Place(i + 1, brackets))
        elif line.startswith((" && ", " || "), i):
            places.append(_Place(i, brackets))
        i += 1
    return places
