"""Compile many lines that the twin rejects in one source, and find the errors of each line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from opforge.twin.compiler.units import compiler

# The place of an error, or of the call that instantiates a template with an error.
_PLACE = re.compile(r"<stdin>:(\d+):[\d:]*\s+(?:required from|error:)")


class Lines:
    """Lines of C++ code, each of which is in a separate function.

    Attributes:
        flags: Flags of the compiler.
        head: Text before the functions.
        function: Text of a function with {number} and {line}.
    """

    def __init__(self, flags: Sequence[str], head: str, function: str) -> None:
        self.flags, self.head, self.function = flags, head, function

    def messages(self, lines: Sequence[str]) -> str:
        """Return the messages of the compiler for one source with all lines; nothing if it accepts them."""
        functions = (self.function.format(number=number, line=line) for number, line in enumerate(lines))
        command = [compiler()[0], *self.flags, "-fsyntax-only", "-fmax-errors=0", "-xc++", "-"]
        text = "".join([self.head, *functions])
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""

    def errors(self, lines: Sequence[str]) -> dict[str, str]:
        """Return the errors of each line in one source with all lines.

        Some are missing: the compiler reports an instantiation of a template once, and a syntax error hides others.
        """
        found: dict[int, str] = {}
        place = 0
        for message in self.messages(lines).splitlines(keepends=True):
            if match := _PLACE.match(message):
                place = int(match[1])
            if ": error: " in message:
                found[place] = found.get(place, "") + message
                place = 0
        first, height = self.head.count("\n"), self.function.count("\n")
        begin = self.function[: self.function.index("{line}")].count("\n") + 1
        return {line: found.get(first + number * height + begin, "") for number, line in enumerate(lines)}


def errors_once(
    once: Callable[[str, Callable[[Path], None]], Path], name: str, code: Lines, lines: Sequence[str]
) -> dict[str, str]:
    """Return the errors of each line, which the first worker of a run finds."""

    def write(folder: Path) -> None:
        errors = code.errors(lines)
        for number, line in enumerate(lines):
            (folder / str(number)).write_text(errors[line], encoding="utf-8")

    folder = once(name, write)
    return {line: (folder / str(number)).read_text(encoding="utf-8") for number, line in enumerate(lines)}
