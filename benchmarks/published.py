"""Compare estimates of the time model with published times of public kernels.

Usage: python benchmarks/published.py [--points FILE.json] [--json OUT] [--series A,B]

The file has the structure of the published points: `points` with id, series, device, shapes, dtypes, tiling, total_us.
The kernels are in benchmarks/published. error = estimate / measured - 1; the median is that of its absolute value, the
worst error is the largest one with its sign, point and reason. The points with large errors follow, by reason.
Exit code: 0 ok, 1 no point has an estimate, 2 bad input.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from points.errors import LARGE, reason_of, worst_of
from points.evaluate import POINTS, Row, evaluate, load_points
from script import command, require_report, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, write_files
from opforge.codegen.printing import escaped, shown


def _percent(value: float) -> str:
    return f"{value:+.1%}"


def _median(rows: list[Row]) -> float:
    return statistics.median(abs(row["error"]) for row in rows)


def series_of(rows: list[Row]) -> dict[str, Row]:
    """Return points, median and worst error of each series."""
    found = {}
    for name in dict.fromkeys(row["series"] for row in rows):
        own = [row for row in rows if row["series"] == name]
        found[name] = {"points": len(own), "median": _median(own), "worst": worst_of(own)}
    return found


def _reasons(rows: list[Row]) -> Iterator[str]:
    """Yield the reasons of large errors, each with its points of a series."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["reason"]:
            groups.setdefault((row["series"], row["reason"]), []).append(row)
    for (series, reason), own in groups.items():
        points = ", ".join(f"{row['id'].removeprefix(f'{series}/')} {_percent(row['error'])}" for row in own)
        yield f"{escaped(series)}: {len(own)} {'point' if len(own) == 1 else 'points'}: {escaped(points)}: {reason}"


def _summary_text(series: dict[str, Row]) -> str:
    """Return a table of the series."""
    lines = [("series", "points", "median of |error|", "worst error", "worst point")]
    for name, facts in series.items():
        worst = facts["worst"]
        median, error, point = f"{facts['median']:.1%}", _percent(worst["error"]), worst["id"].partition("/")[2]
        lines.append((name, str(facts["points"]), median, error, point))
    return table(lines)


def main(
    points: Annotated[Path, typer.Option(help="File of published points.")] = POINTS,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the comparison there.")] = None,
    series: Annotated[str, typer.Option(help="Only these series, separated by commas.")] = "",
) -> None:
    """Print the tables."""
    given = load_points(points)
    if json_out is not None:
        require_report(json_out, [points])
    if series:
        known = {point["series"] for point in given}
        if unknown := [name for name in series.split(",") if name not in known]:
            raise UserError(
                f"--series: got {', '.join(map(shown, unknown))}, expected some of {', '.join(sorted(known))}"
            )
        given = [point for point in given if point["series"] in series.split(",")]
    rows, skipped = evaluate(given)
    for row in rows:
        row["reason"] = reason_of(row) if abs(row["error"]) >= LARGE else ""
    lines = [("point", "measured us", "estimate us", "error")]
    lines += [
        (row["id"], f"{row['measured_us']:.4g}", f"{row['estimated_us']:.4g}", _percent(row["error"])) for row in rows
    ]
    typer.echo(table(lines))
    for entry in skipped:
        typer.echo(f"not run: {escaped(entry['id'])}: {entry['reason']}")
    found: Row = {"points": rows, "skipped": skipped, "median": None, "worst": None, "series": series_of(rows)}
    text = ""
    if rows:
        worst = worst_of(rows)
        found |= {"median": _median(rows), "worst": worst}
        typer.echo("\n".join(("", _summary_text(found["series"]), "", *_reasons(rows), "")))
        text = f": median of |error| {found['median']:.1%}, worst {_percent(worst['error'])} ({escaped(worst['id'])})"
        text += f": {worst['reason']}" if worst["reason"] else ""
    typer.echo(f"{len(rows)} of {len(given)} points{text}")
    if json_out is not None:
        write_files([json_file(json_out, found)])
    if not rows:
        typer.echo(
            "no point has an estimate, expected at least one; the lines with 'not run' have the reasons", err=True
        )
        raise typer.Exit(1)


if __name__ == "__main__":
    command(main)
