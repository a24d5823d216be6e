"""Define the limits of a child process, and the error of a process that reached one."""

from __future__ import annotations

from dataclasses import dataclass

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
