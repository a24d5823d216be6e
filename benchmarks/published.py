"""Compare estimates of the time model with published times of public kernels.

Usage: python benchmarks/published.py [--points FILE.json] [--json OUT] [--series A,B]

The file has the structure of the published points: `points` with id, series, device, shapes, dtypes, tiling, total_us.
The kernels are in benchmarks/published. error = estimate / measured - 1; median and worst are of its absolute value.
Exit code: 0 ok, 2 bad input.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated

import typer
from points.evaluate import POINTS, Row, evaluate, load_points, summary_of
from script import command, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, require_writable, write_files


def _percent(value: float) -> str:
    return f"{value:+.1%}"


def series_table(rows: list[Row]) -> str:
    """Return points, median and worst error of each series."""
    lines = [("series", "points", "median of |error|", "worst error", "worst point")]
    for name in dict.fromkeys(row["series"] for row in rows):
        own = [row for row in rows if row["series"] == name]
        worst = max(own, key=lambda row: abs(row["error"]))
        median = statistics.median(abs(row["error"]) for row in own)
        lines.append((name, str(len(own)), f"{median:.1%}", _percent(worst["error"]), worst["id"].partition("/")[2]))
    return table(lines)


def main(
    points: Annotated[Path, typer.Option(help="File of published points.")] = POINTS,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the comparison there.")] = None,
    series: Annotated[str, typer.Option(help="Only these series, separated by commas.")] = "",
) -> None:
    """Print the tables."""
    given = load_points(points)
    if json_out is not None:
        require_writable(json_out, [points], "report")
    if series:
        known = {point["series"] for point in given}
        if unknown := [name for name in series.split(",") if name not in known]:
            raise UserError(f"--series: got {', '.join(unknown)}, expected some of {', '.join(sorted(known))}")
        given = [point for point in given if point["series"] in series.split(",")]
    rows, skipped = evaluate(given)
    lines = [("point", "measured us", "estimate us", "error")]
    lines += [
        (row["id"], f"{row['measured_us']:.4g}", f"{row['estimated_us']:.4g}", _percent(row["error"])) for row in rows
    ]
    typer.echo(table(lines))
    for entry in skipped:
        typer.echo(f"not run: {entry['id']}: {entry['reason']}")
    summary = summary_of(rows, skipped)
    text = ""
    if rows:
        typer.echo(f"\n{series_table(rows)}\n")
        text = f": median of |error| {summary['median']:.1%}, worst {summary['worst']:.1%}"
    typer.echo(f"{len(rows)} of {len(given)} points{text}")
    if json_out is not None:
        write_files([json_file(json_out, summary)])


if __name__ == "__main__":
    command(main)
