"""Print tables and report user errors for the benchmark scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from opforge.codegen.errors import UserError


def table(lines: Sequence[Sequence[str]]) -> str:
    """Format lines of cells as aligned columns; the first line has the headings."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def command(main: Callable[..., None]) -> None:
    """Run a script; print the message of a user error and exit with its code."""
    try:
        typer.run(main)
    except UserError as error:
        typer.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from None
