"""Define child processes: their limits, the error at a limit, and programs that end with their `with` block."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from types import TracebackType
from typing import Any

MIB = 1 << 20


class LimitError(Exception):
    """A process was ended by a limit; the text contains the limit and how to raise it."""


@dataclass(frozen=True)
class Limits:
    """Resources that a process may use.

    Attributes:
        seconds: CPU time.
        memory: Bytes of private memory.
        output: Bytes of each file that it writes; None for any number.
    """

    seconds: int
    memory: int
    output: int | None = None


class Program(subprocess.Popen[Any]):
    """A process that is killed if an error or a signal ends its `with` block; with its group, if it has its own.

    `subprocess.run` waits for the end of the program if the signal arrives just after the start.
    """

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Kill the program after an error, then wait for it."""
        if kind is not None and self.returncode is None:
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            else:
                self.kill()
        super().__exit__(kind, value, traceback)
