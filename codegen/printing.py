"""Print names, paths and errors: control characters are escaped, long texts are cut."""

from __future__ import annotations

import sys
from pathlib import Path

_SHOWN = 80
_SHOWN_PATH = 200


def escaped(text: str, keep: str = "") -> str:
    """Return a text that a terminal prints unchanged.

    Args:
        text: Any text; it may come from a model, a package or a file name.
        keep: Control characters that are not escaped, such as the line break for several lines.

    Returns:
        The text with every control character, bidirectional mark and lone surrogate escaped as in a Python literal.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else repr(letter)[1:-1] for letter in text)


def say(*lines: str, err: bool = False) -> None:
    """Print lines, each escaped, so that an external name can neither control the terminal nor imitate a line.

    Args:
        lines: One argument for each line.
        err: Print on stderr.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write("".join(f"{escaped(line, keep=chr(9))}\n" for line in lines))
    stream.flush()


def shown(name: object) -> str:
    """Return a name for messages: quoted, control characters escaped, long names cut."""
    text = escaped(repr(name))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...{text[-1]}"


def path_text(path: Path) -> str:
    """Return a path for messages: quoted if it has control characters, cut in the middle if it is long."""
    text = str(path) if str(path).isprintable() else repr(str(path))
    half = _SHOWN_PATH // 2
    return text if len(text) <= _SHOWN_PATH else f"{text[:half]}...{text[-half:]}"


def first_line(error: BaseException, most: int = 200) -> str:
    """Return the first line of an error's text for messages; a text of more than `most` letters is cut."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if text.isprintable() and len(text) <= most else shown(text)
