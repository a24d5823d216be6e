"""Scan C++ sources as text: comments, arguments and lines."""

from __future__ import annotations

import re
from bisect import bisect_left

_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"?', re.DOTALL)
# A string, also without an end: the search for an end would take quadratic time.
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"?')
# A parenthesis or comma; strings and characters are skipped as a whole.
_MARK = re.compile(STRING.pattern + r"|\'(?:\\.|[^\'\\\n])\'|[(){}\[\],]")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|else|elif|endif)\b[ \t]*([^\n]*)", re.MULTILINE)


def without_comments(text: str) -> str:
    """Return the text with blanks instead of comments, so that line numbers do not change."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _blank(found[0]), text)


def without_strings(text: str) -> str:
    """Return a text without comments with blanks instead of the content of strings."""
    return STRING.sub(lambda found: f'"{" " * (len(found[0]) - 2)}"' if len(found[0]) > 1 else " ", text)


def without_disabled(text: str) -> str:
    """Return the text with blanks instead of the code between `#if 0` and its end."""
    parts, start, position, depth = [], -1, 0, 0
    for found in _DIRECTIVE.finditer(text) if "#" in text else ():
        if found[1].startswith("if"):
            if start < 0 and found[1] == "if" and found[2].strip() in {"0", "false"}:
                start, depth = found.end(), 0
            depth += start >= 0
        elif start >= 0 and (depth == 1 or found[1] == "endif"):
            depth -= found[1] == "endif"
            if depth == 0 or found[1] != "endif":
                parts += [text[position:start], _blank(text[start : found.start()])]
                start, position = -1, found.start()
    return "".join([*parts, text[position:]]) if parts else text


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


class Lines:
    """Returns line numbers by position, with one search each."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def of(self, position: int) -> int:
        """Return the line of a position, from 1 on."""
        return bisect_left(self._ends, position) + 1


def arguments_of(text: str, start: int, most: int = 20_000) -> tuple[list[str], int]:
    """Return the arguments of a call after its parenthesis, and the position after it.

    Args:
        text: The source.
        start: The position after the parenthesis.
        most: The characters that are read at most.
    """
    parts, depth, begin = [], 0, start
    for found in _MARK.finditer(text, start, min(len(text), start + most)):
        letter = found[0]
        if letter in "({[":
            depth += 1
        elif letter in ")}]" and depth:
            depth -= 1
        elif letter in ",)" and not depth:
            parts.append(text[begin : found.start()].strip())
            begin = found.end()
            if letter == ")":
                return parts, begin
    return parts, len(text)
