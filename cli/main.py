"""Run the command line, and end it with one message and an exit code. The commands are imported inside of `main`."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line, path_text
from opforge.codegen.streams import OutputError, guard_streams, print_error

from .python_path import hidden_text

_RESERVE = bytearray(1 << 19)  # memory for the message of a process that has no other memory left
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _EndedError(SystemExit):
    """A signal ends the command: temporary files are removed and child processes are ended."""


def __getattr__(name: str) -> Any:
    """Return `app`, the commands. Their import takes most of the start.

    Raises:
        AttributeError: The name does not exist.
    """
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .app import app

    return app


def main() -> None:
    """Run the command line; print a user error as one message on stderr, without a traceback."""
    try:
        _exit_on([signal.SIGINT])
        guard_streams()
        _run_with(hidden_text())
    except _EndedError as error:
        _stop(f"interrupted by {signal.Signals(int(str(error.code)) - 128).name}", int(str(error.code)))
    except OutputError as error:
        from opforge.codegen.files import written_text

        _stop(f"{error}{written_text()}", error.exit_code)
    except UserError as error:
        _stop(str(error), error.exit_code)
    except ModuleNotFoundError:
        raise
    except (ImportError, MemoryError, SystemError) as error:  # also from a library that is not completely loaded
        _stop_without_memory(error)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            _stop_without_memory(error)
        place = f"{path_text(Path(os.fsdecode(error.filename)))}: " if isinstance(error.filename, str | bytes) else ""
        _stop(f"{place}the operating system reports: {error.strerror or first_line(error)}", UserError.exit_code)
    finally:
        _ignore_signals()


def _stop_without_memory(error: Exception) -> NoReturn:
    _RESERVE.clear()
    _require_current_folder()  # without it, an import fails in one of these ways
    reason = f"{type(error).__name__}: {first_line(error)}"
    _stop(f"opforge: got '{reason}', expected more memory; raise the limit of the process", UserError.exit_code)


def _require_current_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        _stop("the current folder no longer exists; change to one that does", UserError.exit_code)


def _run_with(hidden: str) -> None:
    """Run the command; a message about modules on PYTHONPATH comes first, and their errors are user errors.

    Raises:
        UserError: The input is wrong, or a module fails.
    """
    if not hidden:
        _run()
        return
    print_error(hidden)
    try:
        _run()
    except UserError:
        raise
    except Exception as error:  # a module on PYTHONPATH may raise any error
        raise UserError(f"opforge: got '{type(error).__name__}: {first_line(error)}'; unset PYTHONPATH") from error


def _exit_on(numbers: list[signal.Signals]) -> None:
    """Let signals end Python code like an error. Signals that the caller ignores stay ignored."""
    for number in numbers:
        if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    _ignore_signals()  # a second one must not interrupt the removal of temporary files
    raise _EndedError(128 + number)


def _ignore_signals() -> None:
    """Ignore further signals in this process, but not in programs that it starts."""
    for number in _SIGNALS:
        if signal.getsignal(number) is _end:
            signal.signal(number, lambda _number, _frame: None)


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning as one line, without locations in opforge."""
    del category, filename, lineno, line
    return f"{message}\n"


def _run() -> None:
    """Run the command, and flush its output."""
    gc.set_threshold(50_000, 20, 100)  # imports and most commands make many objects and few cycles
    from .app import app, keep_group_of

    warnings.formatwarning = _format_warning
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command not in {"run", "profile"}:  # a kernel runs in their process, and returns to Python only at its end
        _exit_on([signal.SIGTERM, signal.SIGHUP])
    keep_group_of(command)
    try:
        app(obj=True)  # commands that read a model continue in a separate process
    except SystemExit:
        sys.stdout.flush()
        sys.stderr.flush()
        raise


def _stop(message: str, exit_code: int) -> NoReturn:
    print_error(message)
    sys.exit(exit_code)
