"""Measure traffic, efficiency and balance of the operators with the twin's time model; all times are estimates.

Usage: python benchmarks/operators.py [--operators A,B] [--case TEXT] [--quick] [--json FILE] [--check] [--update]

The cases of an operator are CASES of benchmarks/cases/<op>.py. npu_model.json of the twin defines the columns: bytes =
first-touch bytes over minimal bytes, eff = bound over estimate without launch, of_floor = floor over the same time, bal
= busiest core over the mean of all, estimate_us with the range of its error ("?": outside of the calibrated range),
bound_us and floor_us (floor.py), dma_count = DMA instructions. "!" marks a value that misses its target. Exit code:
0 ok, 1 --check found a value worse than baseline.json by more than 5 %, 2 bad input.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from script import command, require_report, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_specs
from opforge.twin import run
from opforge.twin.compiler.npu_model import outside_texts, range_text
from opforge.twin.profile import summary

if TYPE_CHECKING:
    from case import Case

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.json"
FIGURES = ("bytes", "eff", "of_floor", "bal", "estimate_us", "bound_us", "floor_us", "dma_count")
# Columns that must not increase (COSTS) or decrease (GAINS) by more than TOLERANCE.
COSTS, GAINS = ("bytes", "bal", "dma_count"), ("eff",)
SHOWN = ("of_floor", "estimate_us", "bound_us", "floor_us")  # in the baseline for the documentation only
TOLERANCE = 0.05
# Most targets apply only to problems whose time is not dominated by start-up.
TARGET_BYTES = 16e6

Row = dict[str, Any]
Task = tuple[str, str, int]  # operator, module with its cases, index of the case


def cases_of(module: str) -> Sequence[Case]:
    """Return the cases in benchmarks/cases/<module>.py."""
    cases: Sequence[Case] = importlib.import_module(f"cases.{module}").CASES
    return cases


def measure(task: Task) -> Row:
    """Run one case in fast mode with one thread, so that the same core is always the first to access a sector."""
    operator, module, index = task
    case = cases_of(module)[index]
    project = find_project(HERE.parent)
    result = run(operator, case.inputs(), case.attrs, strict=False, seed=1, threads=1, project=project)
    figures = summary(result)
    figures["floor_us"] = case.floor.us(figures["bound_us"])
    figures["of_floor"] = figures["floor_us"] / (figures["estimate_us"] - figures["launch_us"])
    row = {"operator": operator, "case": case.name, "dtype": case.dtype} | {key: figures[key] for key in FIGURES}
    row |= {key: figures[key] for key in ("error_range", "outside_range")}
    target = case.target
    has_targets = target is not None and (target.of_small or figures["minimal_bytes"] >= TARGET_BYTES)
    return row | {"missed": target.misses(figures) if target and has_targets else []}


def key_of(row: Mapping[str, Any]) -> str:
    """Return the key of a row in the baseline."""
    return f"{row['operator']} {row['case']} {row['dtype']}"


def regressions(rows: Sequence[Row], baseline: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return one line for each value that is worse than the baseline, and for each row without a baseline."""
    lines = []
    for row in rows:
        known = baseline.get(key_of(row))
        if known is None:
            lines.append(f"{key_of(row)}: not in {BASELINE.name}; add it with --update")
            continue
        for figure in (*COSTS, *GAINS):
            worst = known[figure] * (1 + TOLERANCE if figure in COSTS else 1 - TOLERANCE)
            if row[figure] > worst if figure in COSTS else row[figure] < worst:
                lines.append(f"{key_of(row)}: {figure}: got {row[figure]:.4g}, baseline {known[figure]:.4g}")
    return lines


def write_json(path: Path, data: Any) -> None:
    """Write a list or dict, one entry per line."""
    entries = (
        [json.dumps(entry) for entry in data]
        if isinstance(data, list)
        else [f"{json.dumps(key)}: {json.dumps(data[key])}" for key in sorted(data)]
    )
    opening, closing = "[]" if isinstance(data, list) else "{}"
    replace_file(path, f"{opening}\n" + ",\n".join(entries) + f"\n{closing}\n")


def table_of(rows: Sequence[Row]) -> str:
    """Return a readable table with one line per row."""
    heads = ("operator", "case", "dtype", *FIGURES)
    lines = [heads]
    for row in rows:
        ratios = [
            f"{row[key]:.2f}{'!' if key in row['missed'] else ' '}" for key in ("bytes", "eff", "of_floor", "bal")
        ]
        times = [
            f"{row['estimate_us']:.1f}, {range_text()}{_mark(row)}",
            f"{row['bound_us']:.1f}",
            f"{row['floor_us']:.1f}",
        ]
        lines.append((row["operator"], row["case"], row["dtype"], *ratios, *times, str(row["dma_count"])))
    return table(lines)


def _mark(row: Row) -> str:
    return " ?" if row["outside_range"] else ""


def tasks_of(operators: str, text: str, *, quick: bool) -> list[Task]:
    """Return the selected cases."""
    specs = {spec.op_type: spec.name for spec in load_specs(find_project(HERE.parent).spec_paths())}
    known = {name: module for name, module in specs.items() if (HERE / "cases" / f"{module}.py").is_file()}
    wanted = operators.split(",") if operators else list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise UserError(f"--operators: got {', '.join(unknown)}, expected some of {', '.join(known)}")
    tasks = [
        (name, known[name], index)
        for name in wanted
        for index, case in enumerate(cases_of(known[name]))
        if text in f"{case.name} {case.dtype}" and (case.quick or not quick)
    ]
    if not tasks:
        raise UserError(f"--case: got {text!r}, expected a part of the name of a case of {', '.join(wanted)}")
    return tasks


def main(
    operators: Annotated[str, typer.Option(help="Operator types, separated by commas.")] = "",
    case: Annotated[str, typer.Option(help="Only cases whose name or dtype contains this.")] = "",
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Only the cases that every test run checks.")] = False,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare with baseline.json.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Write the rows to baseline.json.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Cases at once.")] = 1,
) -> None:
    """Print the table."""
    if json_out is not None:
        require_report(json_out)
    tasks = tasks_of(operators, case, quick=quick)
    if jobs > 1:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            rows = pool.map(measure, tasks, chunksize=1)
    else:
        rows = [measure(task) for task in tasks]
    typer.echo(table_of(rows))
    for text in outside_texts((reason for row in rows for reason in row["outside_range"]), mark="?"):
        typer.echo(text)
    if json_out is not None:
        write_json(json_out, rows)
    baseline = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.is_file() else {}
    if update:
        write_json(
            BASELINE,
            baseline | {key_of(row): {key: round(row[key], 4) for key in (*COSTS, *GAINS, *SHOWN)} for row in rows},
        )
    found = regressions(rows, baseline) if check else []
    for line in found:
        typer.echo(line)
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    command(main)
