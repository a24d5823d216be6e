"""Find undeclared names and missing headers in messages of the compiler."""

from __future__ import annotations

import re

_MOST_NAMES = 100
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"fatal error: ([\w./+-]+): No such file",
        r"'([^']+)' was not declared",
        r"'([^']+)' is not a member of",
        r"'([^']+)' has not been declared",
        r"'([^']+)' does not name a (?:template )?type",
        r"'([^']+)' in namespace '[^']+' does not name",
        r"has no member named '([^']+)'",
        r"'([^']+)' is not a (?:class|function) template",
        r"there are no arguments to '([^']+)'",
        r"no (?:type|template) named '([^']+)'",
        r"'([^']+)' is not a template",
        r"unknown type name '([^']+)'",
        r"use of undeclared identifier '([^']+)'",
    )
)
_NAME = re.compile(r"[A-Za-z_][\w./+-]*")


def missing_names(text: str) -> list[str]:
    """Return the unknown names and headers, each once, in the order of the messages."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        for pattern in _PATTERNS:
            for name in pattern.findall(line):
                if (plain := re.sub(r"<.*", "", name).rpartition("::")[2]) and _NAME.fullmatch(plain):
                    found.setdefault(plain)
    return list(found)[:_MOST_NAMES]


def first_error(text: str) -> str:
    """Return the first error of a compiler as one line, without the folders of its file."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|undefined reference", line)]
    line = (errors or lines or ["no message"])[0]
    return re.sub(r"(?<![\w.])(?:/[^\s:/]+)+/([^\s:/]+)", r"\1", line)[:300]
