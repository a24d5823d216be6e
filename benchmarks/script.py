"""Print tables and report user errors for the benchmark scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from opforge.codegen.errors import UserError
from opforge.codegen.files import require_writable
from opforge.codegen.printing import escaped
from opforge.twin.compiler.npu_model import TWIN


def table(lines: Sequence[Sequence[str]]) -> str:
    """Format lines of cells as aligned columns; the first line has the headings."""
    cells = [[escaped(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def require_report(path: Path, inputs: Sequence[Path] = ()) -> None:
    """Require that a report can be written, and that it replaces no input or file of data.

    Raises:
        UserError: It cannot be written, or is one of these files.
    """
    data = [file for folder in (Path(__file__).parent, TWIN) for file in folder.rglob("*.json")]
    require_writable(path, [*inputs, *data], "report")


def command(main: Callable[..., None]) -> None:
    """Run a script; print the message of a user error and exit with its code."""
    try:
        typer.run(main)
    except UserError as error:
        typer.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from None
