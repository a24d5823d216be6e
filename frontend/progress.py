"""A bar on the terminal for what takes longer than somebody waits without a sign."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_SECONDS = 2.0


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
