"""Write the lists of a package: vendor, version, operators, and the SHA-256 of each file.

`manifest.json` is for programs. `SHA256SUMS` and `package.info` have the same content for a shell, which cannot read
JSON.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.package.cann.listing import listing, sums

NAME, SUMS, INFO = "manifest.json", "SHA256SUMS", "package.info"
# The installer shell script has the same rule.
SAFE_PATH = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
MOST_PATH_BYTES = 1000
_SAFE_PATH = re.compile(SAFE_PATH)


def lists(facts: Mapping[str, object], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the content of the three lists by name.

    Args:
        facts: Texts, lists of words, and lists for display.
        files: Content by path relative to the vendor folder; plain names and slashes, never `..`.

    Raises:
        UserError: The installer does not support a file name, or a property is not a single line.
    """
    texts = {INFO: info_text(facts).encode()}
    for path in sorted(files):
        if not _SAFE_PATH.fullmatch(path) or len(path) > MOST_PATH_BYTES:
            raise UserError(
                f"file name: got {shown(path)}, expected letters, digits and '_.-', no part that begins with '.' or "
                f"'-', {MOST_PATH_BYTES} in all; rename the file"
            )
    digests = {path: _digest(data) for path, data in (*files.items(), *texts.items())}
    texts[NAME] = listing(facts, digests).encode()
    texts[SUMS] = sums(digests | {NAME: _digest(texts[NAME])}, NAME).encode()
    return texts


def info_text(facts: Mapping[str, object]) -> str:
    """Return the properties of a package as lines `key=value`; the words of a list are separated by spaces.

    Raises:
        UserError: A property is not a single line of printable characters.
    """
    lines = []
    for key, value in facts.items():
        if key in {"not_included", "undocumented"}:  # only for display
            continue
        text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        if not text.isprintable():
            raise UserError(f"{key}: got {shown(text)}, expected one line of printable characters; correct it")
        lines.append(f"{key}={text}\n")
    return "".join(lines)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
