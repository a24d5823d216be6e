"""The form of the lists of a package: JSON with one key, and one file, a line, which the installer reads with `sed`."""

from __future__ import annotations

import json
from collections.abc import Mapping


def listing(facts: Mapping[str, object], digests: Mapping[str, str]) -> str:
    """The text of a list.

    Args:
        facts: Texts and lists of texts; a text holds no quote and no backslash.
        digests: SHA-256 by path relative to the vendor folder.
    """
    lines = ["{"]
    for key, value in facts.items():
        text = json.dumps(value)
        if "\\" in text:
            raise ValueError(f"{key}: {value!r} needs an escape, which the installer does not read")
        lines.append(f"  {json.dumps(key)}: {text},")
    lines.append('  "files": {')
    lines.append(",\n".join(f'    "{path}": "{digests[path]}"' for path in sorted(digests)))
    lines += ["  }", "}", ""]
    return "\n".join(lines)
