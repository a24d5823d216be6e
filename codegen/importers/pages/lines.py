"""Select the lines of a page with text: no tables, code and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

TAG = re.compile(r"<[^<>]{0,1000}>")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
# Sections without statements about the operator.
_SKIPPED = re.compile(r"^#+\s*(?:调用示例|示例|Example|Sample|Call)", re.IGNORECASE)
_USUAL = re.compile(r"两段式接口|two-phase")
_CODE_START = re.compile(r"<(?:pre|code|script|style|table)\b", re.IGNORECASE)
_CODE_END = re.compile(r"</(?:pre|code|script|style|table)>", re.IGNORECASE)


def without_comments(text: str) -> str:
    """Return a page without the comments of HTML; the numbers of lines do not change."""
    return _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text) if "<!--" in text else text


def plain_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the number and text of lines in prose, without the tags of HTML."""
    is_skipped = is_fence = False
    depth = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(("```", "~~~")):
            is_fence = not is_fence
            continue
        is_heading = text.startswith("#") and not is_fence
        if is_heading:
            is_skipped = bool(_SKIPPED.match(text))
        is_outside = not (is_fence or depth or is_heading or is_skipped or text.startswith("|"))
        opened, closed = len(_CODE_START.findall(text)), len(_CODE_END.findall(text))
        depth = max(0, depth + opened - closed)
        plain = TAG.sub("", text).strip(" -*|\t")
        if is_outside and not opened and plain and not _USUAL.search(plain):
            yield number, TAG.sub("", text).strip()
