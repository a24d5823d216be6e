"""Shorten messages of the compiler."""

from __future__ import annotations

import re


def first_error(text: str) -> str:
    """Return the first error of a compiler as one line, without the folders of its file."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|undefined reference", line)]
    line = (errors or lines or ["no message"])[0]
    return re.sub(r"(?<![\w.])(?:/[^\s:/]+)+/([^\s:/]+)", r"\1", line)[:300]
