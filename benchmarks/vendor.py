"""Run public kernels of clones on the CPU twin beside the kernels of this project, and compare their estimates.

Usage: python benchmarks/vendor.py [--ops-math DIR] [--ops-nn DIR] [--ops-transformer DIR] [--json FILE] [--timeout S]

At least one clone is necessary. The clones stay unmodified. The tiling data of GroupedBiasAddGrad come from the unit
test of the kernel in the clone, which is read as text. Those of the other kernels follow from shapes, attributes and
chip. Both kernels get the same inputs, in one process and with the same model. Times are estimates. Operators that
cannot run are listed with the reason. Columns: bytes = first-touch bytes over minimal bytes, bal = busiest core over
the mean, ratio = estimate over that of this project, difference = largest difference of the numbers over their largest
value, findings with the checks of a device, and with all checks (strict). "2 x" is the number of calls in a function
that calls several operators; bytes are then those of one call. Exit code: 0 ok, 2 bad input.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from case import Array
from public.kernels import KERNELS, SOC, Problem, PublicKernel
from public.launch import launch
from public.links import LINKS
from script import command, require_report, table

from opforge.cli.options import seconds
from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, write_files
from opforge.codegen.printing import escaped, path_text
from opforge.codegen.project import find_project
from opforge.twin import run
from opforge.twin.compiler.npu_model import error_range, outside_texts, range_text
from opforge.twin.compiler.units import CompileError
from opforge.twin.runtime.results import FindingsError

HERE = Path(__file__).resolve().parent

Row = dict[str, Any]
_SAME = 0.02  # The rounding of bfloat16 causes less.


def _difference(outputs: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference of an output over its largest value."""
    found = []
    for output, wide in zip(outputs, (array.astype(np.float64) for array in expected), strict=True):
        scale = max(float(np.abs(wide).max()), 1e-30)
        found.append(float(np.abs(output.astype(np.float64) - wide).max()) / scale)
    return max(found)


def _own_row(operator: str, problem: Problem) -> tuple[Row, Any]:
    """Run the operator of this project; return its row and its results."""
    project = find_project(HERE.parent)
    ours = run(operator, problem.inputs, problem.attrs, soc=SOC, strict=False, seed=1, threads=1, project=project)
    try:
        run(operator, problem.inputs, problem.attrs, soc=SOC, seed=1, project=project)
        findings: list[str] = []
    except FindingsError as error:
        findings = sorted({finding.kind for finding in error.findings})
    report = ours.report
    facts = {"kernel": "this project", "note": "", "calls": 0, "difference": 0.0, "ratio": 1.0}
    facts |= {
        "findings": findings,
        "strict_findings": findings,
        "estimate_us": report.estimate_us,
        "bal": report.balance,
    }
    facts |= {"bytes": report.first_touch_bytes / report.minimal_bytes, "outside_range": report.outside_range}
    return {"operator": operator, "case": problem.name, "dtype": problem.dtype} | facts, ours


def rows_of(kernel: PublicKernel, clone: Path, skipped: dict[str, str], seconds: float) -> Iterator[Row]:
    """Yield two rows for each problem, of the clone and of this project; add problems without a result to `skipped`.

    All kernels of a chain have the same call of the operator of this project, and one row of it.
    """
    folder = clone / kernel.folder
    own: Row = {}
    for problem in kernel.problems(kernel, folder) if kernel.problems else ():
        if not own or not problem.results:
            own, ours = _own_row(kernel.operator, problem)
        expected = list(problem.results) or [ours[name] for name in kernel.outputs]
        note = f", {problem.note}" if problem.results else ""
        name = f"{kernel.operator} ({kernel.folder}), {problem.name} {problem.dtype}{note}"
        try:
            launches = launch(kernel, problem, folder, expected, seconds)
        except CompileError as error:
            lines = str(error).splitlines()
            skipped[name] = next((line for line in lines if "error:" in line), lines[0])
            continue
        differences = {level: _difference(launches[level].outputs, expected) for level in ("device", "fast")}
        # A finding can end a core, and then the results differ; level `fast` has other checks.
        level = next((level for level, difference in differences.items() if difference <= _SAME), "")
        if not level:
            skipped[name] = launches["fast"].message
            continue
        report = launches[level].report
        chain_bytes = sum(array.nbytes for array in (*problem.buffers, *problem.results)) if problem.results else 0
        yield own | {
            "kernel": kernel.folder,
            "note": problem.note,
            "calls": problem.calls if problem.results else 0,
            "bytes": report["first_touch_bytes"] / (chain_bytes or ours.report.minimal_bytes),
            "bal": report["balance"],
            "estimate_us": report["estimate_us"],
            "outside_range": report["outside_range"],
            "ratio": report["estimate_us"] / own["estimate_us"],
            "findings": launches["device"].findings,
            "strict_findings": launches["strict"].findings,
            "difference": differences[level],
        }
        yield own


def commit_of(clone: Path) -> str:
    """Return the commit of a clone; "unknown" without git."""
    words = ["git", "-C", str(clone), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def table_of(rows: Sequence[Row]) -> str:
    """Return a readable table with one line per row."""
    lines = [
        (
            "operator",
            "case",
            "dtype",
            "kernel",
            "bytes",
            "bal",
            "estimate us",
            "ratio",
            "difference",
            "findings",
            "strict",
        )
    ]
    for row in rows:
        numbers = [f"{row[key]:.2f}" for key in ("bytes", "bal")]
        mark = " ?" if row["outside_range"] else ""
        times = [f"{row['estimate_us']:.1f}, {range_text()}{mark}", f"{row['ratio']:.2f}", f"{row['difference']:.1e}"]
        found = [", ".join(row[key]) or "none" for key in ("findings", "strict_findings")]
        name = ", ".join(filter(None, (row["kernel"], row["note"], f"{row['calls']} x" if row["calls"] else "")))
        lines.append((row["operator"], row["case"], row["dtype"], name, *numbers, *times, *found))
    return table(lines)


def chain_texts(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the time of all calls of a chain that run, and its ratio to the complete operator of this project."""
    for own in (row for row in rows if row["kernel"] == "this project"):
        calls = [
            row for row in rows if row["calls"] and all(row[key] == own[key] for key in ("operator", "case", "dtype"))
        ]
        if calls:
            total, count = sum(row["calls"] * row["estimate_us"] for row in calls), sum(row["calls"] for row in calls)
            name, ratio = f"{own['operator']}, {own['case']} {own['dtype']}", total / own["estimate_us"]
            yield f"{name}: {count} calls of the public function take {total:.1f} us, {range_text()}"
            yield f"{name}: this is {ratio:.1f} times the complete operator of this project; other kernels are missing"


def text_of(rows: Sequence[Row], skipped: dict[str, str], commits: dict[str, str]) -> str:
    """Return the table, the reasons for which kernels do not run, and the commits."""
    lines = [table_of(rows), "", f"Chip: {SOC}"] if rows else []
    lines += chain_texts(rows)
    lines += [*outside_texts((reason for row in rows for reason in row["outside_range"]), mark="?")]
    lines += [f"not run: {name}: {escaped(reason)}" for name, reason in skipped.items()]
    lines += [f"{name}: {commit}" for name, commit in commits.items()]
    return "".join(f"{line}\n" for line in lines)


def main(
    ops_math: Annotated[Path | None, typer.Option(help="Clone of ops-math.")] = None,
    ops_nn: Annotated[Path | None, typer.Option(help="Clone of ops-nn.")] = None,
    ops_transformer: Annotated[Path | None, typer.Option(help="Clone of ops-transformer.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
    timeout: Annotated[
        float, typer.Option(min=1, max=86400, callback=seconds, help="Time limit of each launch, seconds.")
    ] = 600,
) -> None:
    """Print the table."""
    clones = {"ops-math": ops_math, "ops-nn": ops_nn, "ops-transformer": ops_transformer}
    given = {name: path for name, path in clones.items() if path is not None}
    if not given:
        raise UserError(f"got no clone, expected at least one of {', '.join(f'--{name} DIR' for name in clones)}")
    for name, path in given.items():
        if not path.is_dir():
            raise UserError(f"--{name}: got {path_text(path)}, expected the folder of a clone")
    if json_out is not None:
        require_report(json_out)
    found: dict[tuple[str, ...], Row] = {}
    skipped: dict[str, str] = {}
    for kernel in (*KERNELS, *LINKS):
        reason = kernel.reason if kernel.clone in given else f"--{kernel.clone} is not given"
        if reason:
            skipped[f"{kernel.operator} ({kernel.clone}/{kernel.folder})"] = reason
        else:
            for row in rows_of(kernel, given[kernel.clone], skipped, timeout):
                key = tuple(row[name] for name in ("operator", "case", "dtype", "kernel", "note"))
                found.pop(key, None)  # the row of this project follows all rows of a chain
                found[key] = row
    rows = list(found.values())
    commits = {name: commit_of(path) for name, path in given.items()}
    typer.echo(text_of(rows, skipped, commits), nl=False)
    if json_out is not None:
        facts = {"soc": SOC, "error_range": list(error_range()), "commits": commits, "rows": rows, "skipped": skipped}
        write_files([json_file(json_out, facts)])


if __name__ == "__main__":
    command(main)
