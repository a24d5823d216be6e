"""Define the errors that a user can cause, and the exit codes of the command line."""

from __future__ import annotations


class UserError(Exception):
    """Bad input: a spec, model, array, package or option. The text has place, problem and fix; exit code 2.

    Attributes:
        problem: The text without its place, if the place is stored separately.
    """

    exit_code = 2

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.problem = problem


class MissingToolError(UserError):
    """A missing tool or toolkit; the text names the command that installs it; exit code 3."""

    exit_code = 3


def not_installed(place: str, name: str, purpose: str, command: str) -> MissingToolError:
    """Return the error that a package or program is missing; `command` installs it."""
    return MissingToolError(f"{place}: {name} is not installed, expected it for {purpose}; run: {command}")
