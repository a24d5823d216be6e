"""Define the command line. Commands import other packages when they run, so that `opforge --help` stays fast."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from opforge.codegen.printing import say

from . import author, imports, model, package, twin
from .options import OLD_NAMES, with_joined_values, with_json_values
from .usage import usage_errors


def _usage(argument: Any, ctx: Any) -> list[str]:
    several = "..." if argument.nargs != 1 else ""
    pieces = type(argument).get_usage_pieces(argument, ctx)
    return [piece.removesuffix("...").strip("{}") + several for piece in pieces]


def _help_record(argument: Any, ctx: Any) -> tuple[str, str] | None:
    name, text = type(argument).get_help_record(argument, ctx) or ("", "")
    return (name.partition(" ")[0], text) if name else None


def _option_record(option: Any, ctx: Any) -> tuple[str, str] | None:
    shown = copy(option)
    shown.opts = [name for name in option.opts if name not in OLD_NAMES]
    record: tuple[str, str] | None = type(option).get_help_record(shown, ctx)
    return record


# In the message about a value of the wrong type, instead of the name of the Python type.
_TYPE_NAMES = {"int": "whole number", "int range": "whole number", "float range": "number"}
# At the end of the help texts of the commands that use operators.
_PROJECT = (
    "Operators: those of the project in the current folder or its nearest parent folder. Outside of a project: the five"
    " operators of opforge."
)
_USE_OPERATORS = frozenset(
    ("generate", "lint", "build", "flags", "ort-library", "profile", "tune", "pack", "convert", "check", "atc", "run")
)


class _Commands(TyperGroup):
    """Treat `--json` without a value as `--json -`, and the two values of `--case` as one.

    Wrong arguments are user errors.
    """

    def make_context(self, info_name: str | None, *args: Any, **options: Any) -> Any:
        """Parse the arguments in front of the command."""
        del info_name  # the path of Python's program for `python -m opforge.cli`
        with usage_errors():
            return super().make_context("opforge", *args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with usage_errors(ctx):
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command.

        The help shows an argument as `MODEL`, without braces and Python type. It shows no old names of options.
        Messages name no Python types.
        """
        command = super().get_command(ctx, cmd_name)
        if command and cmd_name in _USE_OPERATORS:
            command.epilog = _PROJECT
        for parameter in command.params if command else ():
            parameter.type.name = _TYPE_NAMES.get(parameter.type.name, parameter.type.name)
            if parameter.param_type_name == "argument":
                parameter.__dict__ |= {
                    "get_usage_pieces": partial(_usage, parameter),
                    "get_help_record": partial(_help_record, parameter),
                }
            elif OLD_NAMES & {*parameter.opts}:
                parameter.__dict__["get_help_record"] = partial(_option_record, parameter)
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the first one is the command."""
        command = self.get_command(ctx, args[0]) if args else None
        parameters = command.params if command else ()
        return super().parse_args(ctx, with_json_values(with_joined_values(args, parameters), parameters))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (author, imports, twin, package, model):
    app.add_typer(group.app)


def keep_group_of(command: str) -> None:
    """Drop the groups without a command. typer prepares the options of all commands before it runs one."""
    name = command.replace("-", "_")
    for group in app.registered_groups:
        commands = group.typer_instance.registered_commands if group.typer_instance else ()
        if any(entry.callback and entry.callback.__name__ == name for entry in commands):
            app.registered_groups = [group]
            break


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from .version import version_text

        say(version_text())
        raise typer.Exit


@app.callback()
def _opforge(
    version: Annotated[  # its callback prints the version
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Generate, check and package custom operators for Ascend NPUs from a specification and a kernel.

    Start with: opforge new NAME, or opforge convert MODEL -o OUT

    Commands use the operators of the project in the current folder or its nearest parent folder. Outside of a project,
    they use the five operators of opforge.

    Exit codes: 0 ok, 1 a difference or a finding, 2 bad input, 3 a tool or toolkit is missing.
    """
