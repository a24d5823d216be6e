"""Show names, paths and errors to a user: control characters escaped, long texts cut."""

from __future__ import annotations

import sys
from pathlib import Path

_SHOWN = 80
_SHOWN_PATH = 200


def escaped(text: str, keep: str = "") -> str:
    """A text that a terminal shows as it is written.

    Args:
        text: Any text; it may come from a model, a package or a file name.
        keep: Control characters that stay, such as the line break for a text of several lines.

    Returns:
        The text with every control character, bidirectional mark and lone surrogate escaped as in a Python literal.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else repr(letter)[1:-1] for letter in text)


def say(*lines: str, err: bool = False) -> None:
    """Print lines, each escaped, so that a name from outside can neither control the terminal nor fake a line.

    Args:
        lines: One argument for each line.
        err: Print on stderr.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write("".join(f"{escaped(line, keep=chr(9))}\n" for line in lines))
    stream.flush()


def shown(name: object) -> str:
    """A name as messages print it: quoted, control characters escaped, cut when it is long."""
    text = escaped(repr(name))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...{text[-1]}"


def path_text(path: Path) -> str:
    """A path as messages print it: quoted when it holds control characters, cut in the middle when it is long."""
    text = str(path) if str(path).isprintable() else repr(str(path))
    half = _SHOWN_PATH // 2
    return text if len(text) <= _SHOWN_PATH else f"{text[:half]}...{text[-half:]}"


def first_line(error: BaseException, most: int = 200) -> str:
    """The first line of an error's text, as messages print it; a text of more than `most` letters is cut."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if text.isprintable() and len(text) <= most else shown(text)
