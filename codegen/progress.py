"""Show a line with a bar on the terminal for work that takes more than two seconds.

rich.progress would replace 16 lines of drawing. Measured in its place: its import takes 0.10 s of CPU time, the import
of this module 0.007 s (a small conversion may take 0.7 s), and it writes an empty line to a stderr that is no terminal.
It cannot show stages of forked processes; the shared memory, its reader and the thread would stay.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from struct import Struct
from threading import Event, Thread

_PATIENCE_SECONDS = 2.0
_FRAME_SECONDS = 0.2
_began = time.monotonic()
_CLEAR = b"\r\x1b[K"
_WIDTH = 24
# Smaller totals are shown as a number, others as a percentage.
_MOST_COUNTED = 100
_NUMBERS = Struct("<qqq")
_SIGN_BYTES = 1 << 10


class _Sign:
    """The current stage, in memory that forked processes share, because they have no display thread.

    Args:
        what: The whole work, printed before its stages.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._memory = mmap(-1, _SIGN_BYTES)

    def write(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage; a total of 0 is unknown."""
        text = stage.encode(errors="replace")[: _SIGN_BYTES - _NUMBERS.size]
        self._memory[: _NUMBERS.size + len(text)] = _NUMBERS.pack(done, total, len(text)) + text

    def read(self) -> tuple[str, int, int]:
        """Return the last written text."""
        done, total, length = _NUMBERS.unpack_from(self._memory)
        text = self._memory[_NUMBERS.size : _NUMBERS.size + length]
        return text.decode(errors="replace"), done, total

    def line(self, seconds: float) -> str:
        """Return the line for the terminal."""
        stage, done, total = self.read()
        what = f"{self.what}: {stage}" if stage else self.what
        return f"{what} {_bar(done, total, seconds)} {seconds:.0f} s"


def _bar(done: int, total: int, seconds: float) -> str:
    """Return a progress bar, or a moving marker if the total is unknown."""
    if total > 0:
        full = min(done, total) * _WIDTH // total
        share = f"{done} of {total}" if total < _MOST_COUNTED else f"{100 * min(done, total) // total:3d} %"
        return f"[{'#' * full}{'.' * (_WIDTH - full)}] {share}"
    place = int(seconds / _FRAME_SECONDS) % _WIDTH
    return f"[{'.' * place}#{'.' * (_WIDTH - place - 1)}]"


_sign: _Sign | None = None


@contextmanager
def progress(what: str, total: int = 0) -> Iterator[Callable[[int], None]]:
    """Yield a function that receives the completed part of `total`.

    On a terminal, a line shows it after the command has run for two seconds. Inside another `progress`, also in a
    forked process, this is a stage of it.
    """
    global _sign  # noqa: PLW0603  # there is one line, and the stages do not depend on the display
    if (outer := _sign) is not None:
        before = outer.read()
        outer.write(what, 0, total)
        try:
            yield lambda done: outer.write(what, done, total)
        finally:
            outer.write(*before)
        return
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    _sign = sign = _Sign(what)
    sign.write("", 0, total)
    ended = Event()
    thread = Thread(target=_show, args=(sign, sys.stderr.fileno(), ended), daemon=True)
    thread.start()
    try:
        yield lambda done: sign.write("", done, total)
    finally:
        _sign = None
        ended.set()
        thread.join()


def _show(sign: _Sign, terminal: int, ended: Event) -> None:
    pause = _began + _PATIENCE_SECONDS - time.monotonic()
    width = os.get_terminal_size(terminal).columns or sys.maxsize
    while not ended.wait(max(pause, 0.0)):
        # Bypasses the buffer of Python, whose lock could be locked while another process is forked.
        line = sign.line(time.monotonic() - _began)
        # A wrapped line could not be erased.
        os.write(terminal, _CLEAR + (line if len(line) < width else line[-width + 1 :]).encode(errors="replace"))
        pause = _FRAME_SECONDS
    os.write(terminal, _CLEAR)
