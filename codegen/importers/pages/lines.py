"""Select the lines of a page with text: no tables, code and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

TAG = re.compile(r"<[^<>]{0,1000}>")
# Comments and scripts of HTML, and tags inside words and lines.
_HIDDEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1>|\Z)|</?(?:span|b|strong|em|i|font|a)\b[^<>]{0,1000}>",
    re.DOTALL | re.IGNORECASE,
)
# Sections without statements about the operator.
_SKIPPED = re.compile(r"^#*\s*(?:调用示例|示例|Example|Sample|Call)", re.IGNORECASE)
_USUAL = re.compile(r"两段式接口|two-phase")
_HEADING = re.compile(r"#|<h[1-6]\b", re.IGNORECASE)
_START = re.compile(r"<(?:p|li|h[1-6]|table|pre|div|body)\b", re.IGNORECASE)
_END = re.compile(r"</(?:p|li|h[1-6]|table|pre|div|head)>", re.IGNORECASE)
_CODE_START = re.compile(r"<(?:pre|code|script|style|table)\b", re.IGNORECASE)
_CODE_END = re.compile(r"</(?:pre|code|script|style|table)>", re.IGNORECASE)


def visible(text: str) -> str:
    """Return a page without the comments, scripts and inline tags of HTML; the numbers of lines do not change."""
    return _HIDDEN.sub(lambda found: "\n" * found[0].count("\n"), text) if "<" in text else text


def plain_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and text of lines in prose, without the tags of HTML."""
    is_skipped = is_fence = False
    depth = 0
    for number, text in _blocks(lines):
        if text.startswith(("```", "~~~")):
            is_fence = not is_fence
            continue
        plain = TAG.sub("", text).strip()
        is_heading = _HEADING.match(text) is not None and not is_fence
        if is_heading:
            is_skipped = bool(_SKIPPED.match(plain))
        is_outside = not (is_fence or depth or is_heading or is_skipped or text.startswith("|"))
        opened, closed = len(_CODE_START.findall(text)), len(_CODE_END.findall(text))
        depth = max(0, depth + opened - closed)
        if is_outside and not opened and plain.strip(" -*|\t") and not _USUAL.search(plain):
            yield number, plain


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line, or of its parts before and after the blocks of HTML."""
    for number, line in enumerate(lines, 1):
        parts = _END.sub(r"\g<0>\n", _START.sub(r"\n\g<0>", line)).split("\n") if "<" in line else [line]
        yield from ((number, part.strip()) for part in parts)
