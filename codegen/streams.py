"""Guard the standard streams: reject closed ones, and report failed output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TextIO

from .errors import UserError
from .printing import escaped

_NAMES = ("standard input", "standard output", "standard error")


class OutputError(UserError, OSError):
    """Output to a standard stream failed; exit code 2. Nothing more is written to it."""


class _CheckedStream(TextIOWrapper):
    """A standard stream that reports failed output with its name, then and in every later call.

    A library may ignore the first failure; the end of the command must not.
    """

    _refused = ""

    def write(self, text: str) -> int:
        """Write a text, as `TextIOWrapper`.

        Raises:
            OutputError: The system rejects it.
        """
        with self._named():
            return super().write(text)

    def flush(self) -> None:
        """Write all buffered text to the system.

        Raises:
            OutputError: The system rejects it.
        """
        with self._named():
            super().flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        if self._refused:
            raise OutputError(self._refused)
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            self._refused = f"{_NAMES[self.fileno()]}: cannot be written: {reason}; redirect it to another file"
            raise OutputError(self._refused) from error

    def drop(self) -> None:
        """Discard buffered text if output has failed; otherwise Python writes it again at exit."""
        if self._refused:
            _open_null(self.fileno())
            self._refused = ""


def _open_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)


def guard_streams() -> None:
    """Convert every failed output to an `OutputError`, and give no file the number of a closed standard stream.

    Raises:
        OutputError: Standard output or standard error is closed.
    """
    streams: tuple[TextIO | None, ...] = (sys.stdin, sys.stdout, sys.stderr)
    for number, stream in enumerate(streams):
        if stream is None:
            _open_null(number)
    if sys.stdout is not None:
        sys.stdout = _checked(sys.stdout)
    if sys.stderr is not None:
        sys.stderr = _checked(sys.stderr)
    for number, stream in enumerate(streams):
        if stream is None and number > 0:
            raise OutputError(f"{_NAMES[number]}: it is closed, expected an open one; '> /dev/null' discards output")


def _checked(stream: TextIO) -> TextIO:
    if not isinstance(stream, TextIOWrapper):
        return stream
    # Characters that the encoding of the stream does not have are escaped.
    return _CheckedStream(
        stream.buffer, stream.encoding, "backslashreplace", None, stream.line_buffering, stream.write_through
    )


def print_error(message: str) -> None:
    """Print a message of one or more lines on standard error, or on standard output if standard error fails."""
    text = escaped(message, keep="\n") + "\n"
    for stream in (sys.stderr, sys.stdout):
        if stream is not None:
            with suppress(OutputError):  # the next stream may work; without one, the exit code is sufficient
                stream.write(text)
                stream.flush()
                break
    for stream in (sys.stderr, sys.stdout):
        if isinstance(stream, _CheckedStream):
            with suppress(OutputError):  # one message is enough, and the exit code is set
                stream.flush()
            stream.drop()
