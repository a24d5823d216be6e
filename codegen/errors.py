"""The errors a user can cause, and the exit codes of the command line."""

from __future__ import annotations


class UserError(Exception):
    """Bad input: a spec, model, array, package or option. The text has place, got, expected and repair; exit code 2."""

    exit_code = 2


class MissingToolError(UserError):
    """A tool or toolkit that this machine lacks; the text names the command that installs it; exit code 3."""

    exit_code = 3
