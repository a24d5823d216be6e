"""The manifest of a package: who it is, what it can do, and the SHA-256 of every file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from opforge.codegen.errors import UserError

NAME = "manifest.json"
_SAFE_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


def manifest_text(facts: Mapping[str, object], files: Mapping[str, bytes]) -> str:
    """JSON with one key, and one file, a line: the installer reads it with `sed`, everyone else as JSON.

    Args:
        facts: Texts and lists of texts; a text holds no quote and no backslash.
        files: Content by path relative to the vendor folder; plain names and slashes, never `..`.

    Raises:
        UserError: A file has a name that the installer would not take.
    """
    lines = ["{"]
    for key, value in facts.items():
        text = json.dumps(value)
        if "\\" in text:
            raise ValueError(f"{key}: {value!r} needs an escape, which the installer does not read")
        lines.append(f"  {json.dumps(key)}: {text},")
    lines.append('  "files": {')
    for path in sorted(files):
        if not _SAFE_PATH.fullmatch(path) or ".." in path.split("/"):
            raise UserError(f"file name: got {path!r}, expected letters, digits and '_.-'; rename the file")
    entries = [f'    "{path}": "{hashlib.sha256(files[path]).hexdigest()}"' for path in sorted(files)]
    lines.append(",\n".join(entries))
    lines += ["  }", "}", ""]
    return "\n".join(lines)
