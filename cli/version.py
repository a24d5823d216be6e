"""Return the version of opforge, and the commit of a clone from the files of git."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from opforge.codegen.project import BUILTIN_ROOT

_MOST_CHARACTERS = 1 << 24


def version_text() -> str:
    """Return `opforge 0.1.0`; in a clone `opforge 0.1.0 (commit 0123456789ab)`."""
    commit = commit_of(BUILTIN_ROOT)
    return f"opforge {version('opforge')}" + (f" (commit {commit[:12]})" if commit else "")


def commit_of(clone: Path) -> str:
    """Return the commit that is checked out in a folder; empty if git's files do not contain one."""
    git = clone / ".git"
    if git.is_file():  # a second work tree
        git = clone / _text(git).removeprefix("gitdir:").strip()
    head = _text(git / "HEAD").strip()
    if not head.startswith("ref: "):
        return _commit(head)
    name = head.removeprefix("ref: ")
    common = git / _text(git / "commondir").strip()
    packed = re.search(rf"^(\w+) {re.escape(name)}$", _text(common / "packed-refs"), re.MULTILINE)
    return _commit(_text(common / name)) or _commit(packed[1] if packed else "")


def _commit(text: str) -> str:
    return text.strip() if re.fullmatch(r"[0-9a-f]{40,64}\s*", text) else ""


def _text(path: Path) -> str:
    """Return the text of a file; empty if the file does not exist."""
    if not path.is_file():
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_CHARACTERS)
