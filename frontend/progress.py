"""A sign on the terminal, a bar or a line, when something takes longer than somebody waits without one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

_PATIENCE_SECONDS = 2.0
_began = time.monotonic()
_CLEAR = b"\r\x1b[K"


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """On a terminal, show a line with the seconds that have passed, once the command has run for two."""
    if not sys.stderr.isatty():
        yield
        return
    terminal, done = sys.stderr.fileno(), Event()

    def tick() -> None:
        patience = _began + _PATIENCE_SECONDS - time.monotonic()
        while not done.wait(max(patience, 0.0)):
            # Past the buffer of Python: a process that is forked meanwhile must not find its lock taken.
            os.write(terminal, _CLEAR + f"{what} ... {time.monotonic() - _began:.0f} s".encode(errors="replace"))
            patience = 1.0

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        os.write(terminal, _CLEAR)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function that takes how much of `total` is done; on a terminal it shows a bar after two seconds."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    bar = Progress(console=console, transient=True)
    task = bar.add_task(what, total=total)
    began = time.monotonic()

    def advance(done: int) -> None:
        bar.update(task, completed=done)
        if console.is_terminal and not bar.live.is_started and time.monotonic() - began > _PATIENCE_SECONDS:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
