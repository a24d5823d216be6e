"""What the scripts here do alike: a table for people, and a user's mistake as a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from opforge.codegen.errors import UserError


def table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the heads first, in columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def command(main: Callable[..., None]) -> None:
    """Run a script; a mistake of the user's ends it with its message and exit code."""
    try:
        typer.run(main)
    except UserError as error:
        typer.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from None
