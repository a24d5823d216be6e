"""Define a fault, and tables of checks: each row is the name of a check and the function that yields its faults."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from opforge.package.places import real

from .cann_environment import closed

Subject = TypeVar("Subject")
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Fault:
    """One reason why a program does not find an operator, or finds another one.

    Attributes:
        place: Variable, file or folder.
        cause: The problem, with the actual value.
        repair: The fix.
        programs: Programs that do not find operators because of it.
        operators: Types of these operators; empty for all operators of a vendor.
        vendors: Folders of these vendors.
        check: Name of the check; its table adds it.
        is_warning: Whether the programs may still work; a warning does not change the exit code.
    """

    place: str
    cause: str
    repair: str
    programs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    check: str = ""
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.cause}; {self.repair} [{self.check}]"


class Checks(Generic[Subject]):
    """The checks of one kind of subject: a variable, a folder, a library. They run in the order of their definition.

    Attributes:
        first_only: Whether checks of a subject stop after the first check that finds a fault.
    """

    def __init__(self, *, first_only: bool = False) -> None:
        self.first_only = first_only
        self.rows: list[tuple[str, Callable[[Subject], Iterator[Fault]]]] = []

    def row(self, name: str) -> Callable[[Callable[[Subject], Iterator[Fault]]], Callable[[Subject], Iterator[Fault]]]:
        """Add the decorated function to the table under the name in its faults."""

        def add(check: Callable[[Subject], Iterator[Fault]]) -> Callable[[Subject], Iterator[Fault]]:
            self.rows.append((name, check))
            return check

        return add

    def find(self, subjects: Iterable[Subject]) -> list[Fault]:
        """Return all faults of the subjects."""
        return list(_until_closed(self._faults(subjects)))

    def _faults(self, subjects: Iterable[Subject]) -> Iterator[Fault]:
        for subject in subjects:
            for name, check in self.rows:
                found = [replace(fault, check=fault.check or name) for fault in _until_closed(check(subject))]
                yield from found
                if found and self.first_only:
                    break


def _until_closed(faults: Iterator[Fault]) -> Iterator[Fault]:
    """Yield the faults until a link leads to an unreadable path; then yield a fault for that path."""
    try:
        yield from faults
    except PermissionError as error:
        yield unreadable(Path(error.filename), Path(error.filename))


def unreadable(place: Path, whole: Path, others: int = 0) -> Fault:
    """Return the fault for an unreadable folder or file of `whole`, or above it, and `others` more in it."""
    place, whole = closed(place) or place, real(whole)
    more = f", nor can {others} more" if others else ""
    cause = f"cannot be read by this user (mode {place.stat().st_mode & 0o777:o}){more}; its programs do not find it"
    command = f"chmod a+x {shlex.quote(str(place))}"
    if place == whole or whole in place.parents:
        command = f"chmod -R a+rX {shlex.quote(str(whole))}"
    return Fault(str(place), cause, f"{command}, or run the programs as a user with access", check=UNREADABLE)
