"""Read and print external texts with the standard library only, because opforge may not be installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MOST_BYTES = 64 << 20


class TextError(ValueError):
    """A file is too large or not a JSON object; the text contains its path."""


def read_json(path: Path) -> Any:
    """Return the JSON object in a file.

    Raises:
        TextError: The file is larger than 64 MiB, or is not a JSON object.
    """
    with path.open("rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TextError(f"{path}: got more than {MOST_BYTES} bytes, expected a shorter JSON file; build it again")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TextError(f"{path}: got no JSON ({error}), expected an object; build it again") from error
    if not isinstance(found, dict):
        raise TextError(f"{path}: got a JSON {type(found).__name__}, expected an object; build it again")
    return found


def printable(text: str) -> str:
    """Escape control characters and invisible marks in lines, as in a Python literal."""
    lines = text.split("\n")
    return "\n".join("".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in line) for line in lines)
