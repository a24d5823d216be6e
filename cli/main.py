"""Define the command line. Commands import other packages when they run, so that `opforge --help` stays fast."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line, path_text, say
from opforge.codegen.streams import OutputError, guard_streams, print_error

from . import author, imports, model, package, twin
from .options import with_joined_values, with_json_values


class _Commands(TyperGroup):
    """Treat `--json` without a value as `--json -`, and the two values of `--case` as one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the first one is the command."""
        command = self.get_command(ctx, args[0]) if args else None
        parameters = command.params if command else ()
        return super().parse_args(ctx, with_json_values(with_joined_values(args, parameters), parameters))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (author, imports, twin, package, model):
    app.add_typer(group.app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from .version import version_text

        say(version_text())
        raise typer.Exit


@app.callback()
def _opforge(
    version: Annotated[  # its callback prints the version
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Develop, check and deploy custom operators for Ascend NPUs from one specification.

    Exit codes: 0 ok, 1 a difference or a finding, 2 bad input, 3 a tool or toolkit is missing.
    """


def main() -> None:
    """Run the command line; print a user error as one message on stderr, without a traceback."""
    try:
        guard_streams()
        _run()
    except OutputError as error:
        from opforge.codegen.files import written_text

        _stop(f"{error}{written_text()}", error.exit_code)
    except UserError as error:
        _stop(str(error), error.exit_code)
    except KeyboardInterrupt:
        _stop("interrupted", 128 + signal.SIGINT)
    except ModuleNotFoundError:
        raise
    except (ImportError, MemoryError, SystemError) as error:  # of a library that is not loaded completely, too
        reason = f"{type(error).__name__}: {first_line(error)}"
        _stop(f"opforge: got '{reason}', expected more memory; raise the limit of the process", UserError.exit_code)
    except OSError as error:
        place = f"{path_text(Path(os.fsdecode(error.filename)))}: " if isinstance(error.filename, str | bytes) else ""
        _stop(f"{place}the operating system reports: {error.strerror or first_line(error)}", UserError.exit_code)


def _exit_on_signals() -> None:
    """Let SIGTERM and SIGHUP end Python code like an error, which removes temporary files and ends child processes."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda received, _frame: sys.exit(128 + received))


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning as one line without places in opforge."""
    del category, filename, lineno, line
    return f"{message}\n"


def _run() -> None:
    """Run the command, and flush its output. A command that reads a model runs in a separate process."""
    warnings.formatwarning = _format_warning
    command, *options = sys.argv[1:] or [""]
    if command not in {"run", "profile"}:  # a kernel runs in their process, and returns to Python at its end only
        _exit_on_signals()
    readers = {entry.callback.__name__ for entry in model.app.registered_commands if entry.callback}
    if any(word.startswith("--inputs") for word in options):
        readers.add("profile")
    if command in readers and "--help" not in options:
        from opforge.frontend.io.limits import supervise

        supervise()
    try:
        app()
    except SystemExit:
        sys.stdout.flush()
        sys.stderr.flush()
        raise


def _stop(message: str, exit_code: int) -> NoReturn:
    print_error(message)
    sys.exit(exit_code)
