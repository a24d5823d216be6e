"""Find the declarations of aclnn functions in a page."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .lines import TAG

_NAME = re.compile(r"\b(aclnn\w+?)GetWorkspaceSize\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MOST_CHARS, _MOST_SIGNATURES = 20_000, 500


@dataclass(frozen=True)
class Signature:
    """A declaration: the function, the text of its parameters without comments, and its line."""

    name: str
    body: str
    line: int


def signatures(text: str) -> Iterator[Signature]:
    """Yield the declarations and calls of functions that give a workspace size."""
    for found in itertools.islice(_NAME.finditer(text), _MOST_SIGNATURES):
        code = _COMMENT.sub(" ", TAG.sub(" ", html.unescape(text[found.end() : found.end() + _MOST_CHARS])))
        end = code.find(")")
        if end >= 0 and "(" not in code[:end]:
            yield Signature(found[1], code[:end], text.count("\n", 0, found.start()) + 1)
