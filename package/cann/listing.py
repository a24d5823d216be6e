"""Format the lists of a package: JSON with one key or file per line, and lines for `sha256sum -c`."""

from __future__ import annotations

import json
from collections.abc import Mapping


def listing(facts: Mapping[str, object], digests: Mapping[str, str]) -> str:
    """Return the text of a machine-readable list.

    Args:
        facts: Texts and lists of texts.
        digests: SHA-256 by path relative to the vendor folder.
    """
    lines = ["{", *(f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in facts.items())]
    lines.append('  "files": {')
    lines.append(",\n".join(f'    "{path}": "{digests[path]}"' for path in sorted(digests)))
    lines += ["  }", "}", ""]
    return "\n".join(lines)


def sums(digests: Mapping[str, str], last: str) -> str:
    """Return the text of a list for `sha256sum -c`.

    Args:
        digests: SHA-256 by path relative to the vendor folder.
        last: The path of the last line. A reader uses it to check that the list is complete.
    """
    paths = [*sorted(path for path in digests if path != last), last]
    return "".join(f"{digests[path]}  {path}\n" for path in paths)
