"""Compile with ccache, whose cache may be damaged, without space or not writable."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.printing import say, shown

# ccache finds the headers of a source in the list of the compiler, so that it need not run the preprocessor first.
CCACHE_SETTINGS = {"CCACHE_DEPEND": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros"}
_ERROR = re.compile(r"^ccache: error: (.*)", re.MULTILINE)


@lru_cache(maxsize=1)
def ccache() -> tuple[str, ...]:
    """Return the path of ccache if it is installed; the object does not depend on it."""
    return (found,) if (found := shutil.which("ccache")) else ()


def is_object(path: Path, mark: str) -> bool:
    """Return whether a path is an ELF file that contains a text."""
    content = path.read_bytes() if path.is_file() else b""
    return content.startswith(b"\x7fELF") and mark.encode() in content


def make_object(execute: Callable[..., None], made: Path, text: bytes, label: str, *, can_mark: bool) -> str:
    """Compile a source, or use its object from ccache if command and source are the same.

    Args:
        execute: Runs the compiler with more flags. Its keywords are environment variables of ccache.
        made: The object.
        text: The command and the source; not the headers, which only ccache compares.
        label: Name of the source in messages.
        can_mark: Whether the compiler can add a symbol to the object, as g++ can. Without it, ccache is not used.

    Returns:
        The name of a symbol that identifies the object of this text; empty without a symbol.

    Raises:
        UserError: The compiler does not accept the source, or does not work.
    """
    if not can_mark:
        execute(CCACHE_DISABLE="1")
        return ""
    mark = f"opforge_{hashlib.sha256(text).hexdigest()}"
    flag = f"-Wa,--defsym,{mark}=0"
    problem = ""
    try:
        execute(flag)
        if not is_object(made, mark):
            made.unlink(missing_ok=True)
            execute(flag, CCACHE_RECACHE="1")
            problem = f"got an object of another source, expected that of {label}; it was compiled again and replaced"
    except UserError as error:
        if not (found := _ERROR.search(str(error))):
            raise
        execute(flag, CCACHE_DISABLE="1")
        problem = f"got {shown(found[1])}; {label} was compiled without it; set CCACHE_DIR to another folder"
    if problem and is_object(made, mark):
        say(f"ccache: {problem}", err=True)
    return mark
