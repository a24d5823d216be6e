"""Read untrusted JSON: size, depth and form are checked before a value is used."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .errors import UserError
from .files import read_regular
from .printing import escaped, path_text

# A manifest of 40,000 files has 5 MB.
MOST_JSON_BYTES = 64 << 20


class FormError(Exception):
    """Text is not JSON of the expected form; the message is `got ..., expected ...`."""


def parse_json(data: bytes | str, form: TypeAdapter[Any]) -> Any:
    """Return the value of a JSON text of at most 64 MiB, checked against a form in strict mode.

    Args:
        data: The text; nesting deeper than 200 levels and lone surrogates are rejected.
        form: The expected form.

    Raises:
        FormError: It has another form.
    """
    if len(data) > MOST_JSON_BYTES:
        raise FormError(f"got {len(data)} bytes, expected at most {MOST_JSON_BYTES}")
    try:
        return form.validate_json(data, strict=True)
    except ValidationError as error:
        raise FormError(_problem(error.errors(include_url=False)[0])) from error


def _problem(first: Mapping[str, Any]) -> str:
    says = escaped(first["msg"])
    if first["type"] == "json_invalid":
        return f"got a syntax error ({says.removeprefix('Invalid JSON: ')}), expected JSON"
    place = "".join(f"[{part!r}]" for part in first["loc"])
    at = f" at {place}" if place else ""
    if first["type"] == "missing":
        return f"got nothing{at}, expected a value"
    return f"got {reprlib.repr(first['input'])}{at}, expected {says.removeprefix('Input should be ')}"


def read_json(path: Path, form: TypeAdapter[Any], what: str, repair: str) -> Any:
    """Return the value of a JSON file, as `parse_json`.

    Args:
        path: The file; a pipe, device or folder is not opened.
        form: The expected form.
        what: Name in messages ("manifest").
        repair: The fix for a file of another form.

    Raises:
        UserError: The file cannot be read, or has another form.
    """
    data = read_regular(path, what, MOST_JSON_BYTES, repair)
    try:
        return parse_json(data, form)
    except FormError as error:
        raise UserError(f"{path_text(path)}: {what}: {error}; {repair}") from error
