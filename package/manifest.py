"""The manifest of a package: who it is, what it can do, and the SHA-256 of every file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from opforge.codegen.errors import UserError
from opforge.package.cann.listing import listing

NAME = "manifest.json"
_SAFE_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


def manifest_text(facts: Mapping[str, object], files: Mapping[str, bytes]) -> str:
    """The list of a package (cann/listing.py) with the SHA-256 of its files.

    Args:
        facts: Texts and lists of texts; a text holds no quote and no backslash.
        files: Content by path relative to the vendor folder; plain names and slashes, never `..`.

    Raises:
        UserError: A file has a name that the installer would not take.
    """
    for path in sorted(files):
        if not _SAFE_PATH.fullmatch(path) or ".." in path.split("/"):
            raise UserError(f"file name: got {path!r}, expected letters, digits and '_.-'; rename the file")
    return listing(facts, {path: hashlib.sha256(data).hexdigest() for path, data in files.items()})
