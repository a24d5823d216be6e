"""State wrong arguments of the command line in the form of all messages: place, problem, expected, fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
# The texts of typer after the place, and those of opforge.
_PROBLEMS = (
    (r"(?:Invalid value: )?(.+) is not a valid (.+)\.", r"got \1, expected a \2"),
    (r"(.+) is not in the range (.+)\.", r"got \1, expected a number in the range \2"),
    (r"(.+) is not one of (.+)\.", r"got \1, expected one of \2"),
    (r"Option .+ requires an argument\.", "got no value, expected one"),
    (r"Option .+ does not take a value\.", "got a value, expected none"),
)


@contextmanager
def usage_errors(context: Any = None) -> Iterator[None]:
    """Replace errors of typer about arguments by user errors.

    Args:
        context: The context of all commands, if the command is known.

    Raises:
        UserError: The arguments are wrong.
    """
    try:
        yield
    except _UsageError as found:
        error: Any = found
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = f"opforge {context.invoked_subcommand}" if context and context.invoked_subcommand else "opforge"
        raise UserError(_text(error, error.ctx.command_path if error.ctx else command)) from None


def _text(error: Any, command: str) -> str:
    message = " ".join(error.format_message().split())
    fix = f"`{command} -h` lists the arguments"
    if type(error).__name__ == "NoSuchOption":
        near = " or ".join(sorted(error.possibilities or ())) or "one of its options"
        return f"{command}: got the unknown option {shown(error.option_name)}, expected {near}; {fix}"
    if name := getattr(error, "option_name", ""):
        return f"{name}: {_problem(message)}; {fix}"
    if found := re.fullmatch(r"Missing (?:argument|option) '(.+?)'(?: / '(.+)')?\..*", message):
        return f"{found[2] or found[1]}: got no value, expected one; {fix}"
    if found := re.fullmatch(r"No such command (.+)\.", message):
        names = ", ".join(error.ctx.command.list_commands(error.ctx))
        return f"{command}: got {found[1]}, expected a command: {names}; `{command} -h` describes them"
    if found := re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", message):
        return f"{command}: got {shown(found[1])} after its arguments, expected no more; {fix}"
    if found := re.fullmatch(r"Invalid value for '(.+?)'(?: / '(.+?)')?(?: \(env var: .*?\))?: (.*)", message):
        problem = _problem(found[3])
        return f"{found[2] or found[1]}: {problem if '; ' in problem else f'{problem}; {fix}'}"
    return f"{command}: {message}; {fix}"


def _problem(message: str) -> str:
    for pattern, replacement in _PROBLEMS:
        if re.fullmatch(pattern, message):
            return re.sub(pattern, replacement, message)
    return message.rstrip(".")
