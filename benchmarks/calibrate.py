"""Fit the constants of the time model on published times, and measure the errors of the model.

Usage: python benchmarks/calibrate.py [--points FILE.json] [--check]

Each constant has the series that shows it. The search is deterministic: it tries values around the last one and keeps
the one with the least mean error. Afterwards it fits the unknown parts of the generic structures: instructions over a
tile, instructions for each row, and the overhead of the kernel. The results are in npu_model.json and
benchmarks/published/structures.json. The printed range comes from the errors of points that a fit does not use: the
constants are fitted again without the series, and a generic structure without a fifth of the series. --check compares
the files with the result. Exit code: 0 ok, 1 another result, 2 bad input.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from points import errors, fit_structures, left_out
from points.evaluate import POINTS, estimate_of, evaluate, load_points
from points.form import problems_of
from points.generic import STRUCTURES, structures
from points.pipes import instruction_costs
from points.runner import CONSTANTS, NotRunError, variables
from points.series import Point
from script import command, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import replace_file
from opforge.codegen.printing import escaped
from opforge.twin.compiler.npu_model import TWIN, constant_of

MODEL = TWIN / "npu_model.json"


def _is_single(point: Point) -> bool:
    return bool(point["shapes"] == {"elements": 1})


def _has_long_copies(point: Point) -> bool:
    return bool(point["tiling"].get("tile", [2])[0] > 1)


def _has_tensor(point: Point) -> bool:
    return "mask tensor" in point.get("variant", "")


def _has_pattern(point: Point) -> bool:
    return not _has_tensor(point)


def _has_batches(point: Point) -> bool:
    return "batches" in point.get("variant", "")


# Constant, its SoC ("" for all), initial value, series that determine it, and the used points of them.
Fit = tuple[str, str, float, tuple[str, ...], Callable[[Point], bool] | None]
ROWS_IN, ROWS_OUT, ROWS = "akl_rows_gm_to_ub", "akl_rows_ub_to_gm", "akl_rows_followup"
SMALL, SINGLE, MASK = "akl_stream_small", "akl_single_copy", "akl_gather_mask"
FITS: tuple[Fit, ...] = (
    ("dma_issue_cycles", "", 20, (SMALL,), None),
    ("port_l2_read_bytes_per_cycle_per_core", "", 128, (SMALL, SINGLE), None),
    ("port_l2_write_bytes_per_cycle_per_core", "", 112, (SMALL, SINGLE), None),
    ("dma_read_latency_cycles", "", 180, (SINGLE, ROWS_IN), None),
    ("dma_write_latency_cycles", "", 220, (SINGLE, ROWS_OUT), None),
    ("dma_crowded_latency_cycles", "", 48, (ROWS_IN, ROWS_OUT, ROWS), None),
    ("dma_fragment_read_cycles", "", 2.5, (ROWS_IN, ROWS), None),
    ("dma_fragment_read_crowded_cycles", "", 6.2, (ROWS_IN, ROWS), None),
    ("dma_fragment_write_cycles", "", 2.2, (ROWS_OUT, ROWS), None),
    ("dma_fragment_write_crowded_cycles", "", 9, (ROWS_OUT, ROWS), None),
    ("port_first_touch_bytes_per_cycle_per_core", "Ascend910_9382", 20.4, ("akl_stream_64mib",), None),
    ("dma_fragment_first_touch_cycles", "", 1.8, ("data_copy_l1",), None),
    ("gather_mask_cycles_per_repeat", "", 2.5, (MASK,), _has_pattern),
    ("gather_mask_tensor_cycles", "", 48, (MASK,), _has_tensor),
    ("flag_cycles", "", 30, (MASK, SINGLE, ROWS_IN, ROWS_OUT), None),
    ("scalar_ub_access_cycles", "", 11.3, ("add_8192",), None),
    ("gm_bandwidth_bytes_per_s", "", 1.45e12, ("data_copy_ub", "add_8192"), _has_long_copies),
    ("gm_bandwidth_bytes_per_s", "Ascend910B4", 0.65e12, ("polar_bcast_910b4",), _has_batches),
    ("l2_write_back_share", "", 0.5, ("add_8192", "nd2nz_ub", "cann_bench_sigmoid"), None),
    ("host_launch_seconds", "", 25e-6, ("geluv2_host_9382",), _is_single),
)
PIPES = ("mmad_issue_cycles", "l1_load_issue_cycles")  # from busy times of pipes
STEPS = (0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.25)
# If the value or its spread is at a border of the window, the window grows by these steps, at most so many times.
LOWER, HIGHER, GROWTHS = (0.9, 0.8), (1.1, 1.25), 4
LIMITS = {"l2_write_back_share": 1.0}  # the largest possible values
SPREAD = 0.01  # increase of the mean error that determines the range of a constant


def _digits(value: float, count: int = 3) -> float:
    return float(f"{value:.{count}g}")


def mean_error(points: Sequence[Point]) -> float:
    """Return the mean of |log(estimate / measured)| of the points that run."""
    found = []
    for point in points:
        try:
            found.append(abs(math.log(estimate_of(point) / point["total_us"])))
        except NotRunError:
            continue
    return statistics.fmean(found) if found else 0.0


def replacing(model: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variable that makes launches use the fitted constants of a model."""
    pairs = []
    for name in dict.fromkeys((*(name for name, *_ in FITS), *PIPES)):
        entry = model["constants"][name]
        pairs.append(f"{name}={entry['value']!r}")
        pairs += [f"{soc}:{name}={own['value']!r}" for soc, own in entry.get("soc", {}).items()]
    return {CONSTANTS: ",".join(pairs)}


def set_constant(model: dict[str, Any], name: str, soc: str, facts: Mapping[str, Any]) -> None:
    """Set the properties of a constant, for all SoCs or for one; other SoCs can have its value and spread."""
    entry = model["constants"][name]
    own = entry["soc"][soc] if soc else entry
    own.pop("border", None)
    own.update(facts)
    for other in entry.get("soc", {}).values():
        if soc and other.get("same_as") == soc:
            other.update({key: facts[key] for key in ("value", "spread") if key in facts})


def fit_constant(model: dict[str, Any], name: str, soc: str, start: float, points: Sequence[Point]) -> dict[str, Any]:
    """Return value and spread of a constant on its points.

    `border` is the searched window if the value or the spread ends there.
    """
    found: dict[float, float] = {}

    def search(values: Sequence[float]) -> tuple[float, list[float]]:
        for value in values:
            set_constant(model, name, soc, {"value": value})
            with variables(replacing(model)):
                found[value] = mean_error(points)
        best = min(found, key=lambda value: (round(found[value], 5), abs(value - start)))
        near = [value for value, error in found.items() if error <= found[best] + SPREAD]
        return best, [min(near), max(near)]

    limit = LIMITS.get(name, math.inf)
    best, spread = search([min(_digits(start * step), limit) for step in STEPS])
    for _ in range(GROWTHS):
        low, high = min(found), max(found)
        more = [_digits(low * step) for step in LOWER if spread[0] == low]
        more += [min(_digits(high * step), limit) for step in HIGHER if spread[1] == high < limit]
        if not more:
            break
        best, spread = search(more)
    for _ in range(GROWTHS):
        if spread[0] < spread[1]:
            break
        # No other value is in the range: search between the neighbors.
        tried = sorted(found)
        at = tried.index(best)
        middles = {_digits((best + near) / 2) for near in tried[max(0, at - 1) : at + 2]}
        best, spread = search(sorted(middles - found.keys()))
    set_constant(model, name, soc, {"value": best})
    window = [min(found), max(found)]
    is_at_border = spread[0] == window[0] or spread[1] == window[1] < limit
    return {"value": best, "spread": spread} | ({"border": window} if is_at_border else {})


def fit_model(model: dict[str, Any], points: Sequence[Point]) -> None:
    """Fit all constants, one after another."""
    for name, facts in instruction_costs(points).items():
        set_constant(model, name, "", facts | {"status": "fitted"})
        _report(name, facts)
    values = {(name, soc): start for name, soc, start, *_ in FITS}
    for (name, soc), start in values.items():
        set_constant(model, name, soc, {"value": start})
    for name, soc, start, series, chosen in FITS:
        shown = [point for point in points if point["series"] in series and (chosen is None or chosen(point))]
        if not shown:
            raise UserError(f"--points: got no point for {name}, expected points of {', '.join(series)}")
        facts = fit_constant(model, name, soc, start, shown)
        set_constant(model, name, soc, facts | {"status": "fitted", "source": ", ".join(series)})
        _report(f"{name} {soc}".strip(), facts)


def _report(name: str, facts: Mapping[str, Any]) -> None:
    """Print value and spread of a constant, and whether they are at the border of the searched window."""
    low, high = facts["spread"]
    border = facts.get("border")
    note = f"; at the border of the window {border[0]:g} to {border[1]:g}" if border else ""
    typer.echo(f"{name}: {facts['value']:g} ({low:g} to {high:g}){note}")


def as_text(data: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(data, indent=2) + "\n"


def use(table_of: Mapping[str, Any]) -> None:
    """Use these structures for the following estimates."""
    structures().update(table_of)


def shown_series() -> dict[str, bool]:
    """Return the series that constants are fitted on, and whether one of these constants has no other series."""
    return {
        name: any(series == (name,) for *_, series, _ in FITS if name in series)
        for name in dict.fromkeys(name for *_, series, _ in FITS for name in series)
    }


def refitted(model: Mapping[str, Any], series: str, points: Sequence[Point]) -> dict[str, str]:
    """Return the variable with the constants that a series shows, fitted on points without it.

    If the points contain a part of the series, only constants without another series use this part.
    """
    own = json.loads(json.dumps(model))
    for name, soc, _, shown, chosen in FITS:
        if series not in shown:
            continue
        used = shown if shown == (series,) else tuple(other for other in shown if other != series)
        fitted = [point for point in points if point["series"] in used and (chosen is None or chosen(point))]
        if fitted:
            entry = own["constants"][name]
            start = (entry["soc"][soc] if soc else entry)["value"]
            set_constant(own, name, soc, fit_constant(own, name, soc, start, fitted))
    return replacing(own)


def main(
    points: Annotated[Path, typer.Option(help="File of published points.")] = POINTS,
    *,
    check: Annotated[bool, typer.Option("--check", help="Compare the committed files with the result.")] = False,
    constants: Annotated[bool, typer.Option(help="Fit the constants; otherwise the structures only.")] = True,
) -> None:
    """Fit, and write or compare the files."""
    given = []
    for point in load_points(points):
        if problem := next(problems_of(point), ""):
            typer.echo(f"not used: {escaped(point['id'])}: {problem}")
        else:
            given.append(point)
    for name, soc, *_ in FITS:
        constant_of(name, soc)  # checks the file
    table_of = {name: fit_structures.unfitted(structure) for name, structure in structures().items()}
    before = {path: path.read_text(encoding="utf-8") for path in (MODEL, STRUCTURES)}
    model = json.loads(before[MODEL])
    use(table_of)
    if constants:
        fit_model(model, given)
    with variables(replacing(model)):
        apart = left_out.rows(given, table_of, shown_series(), lambda *about: refitted(model, *about))
        table_of = fit_structures.fit(given, table_of)
        use(table_of)
        rows, _ = evaluate(given)
    if not rows:
        raise UserError("--points: got no point that can be evaluated, expected published times of kernels")
    measured, others = errors.distribution(rows), errors.distribution(apart)
    lines = [("kind of kernel", "fit", "points", "median of |error|", "10 %", "90 %")]
    lines += [
        (kind, fit, str(own["points"]), f"{own['median']:.1%}", f"{own['low']:+.1%}", f"{own['high']:+.1%}")
        for fit, found in (("with the point", measured), ("without it", others))
        for kind, own in found.items()
    ]
    typer.echo(table(lines))
    model["errors"] = measured | {
        "left_out": others | {"series": errors.by_series(apart)},
        "calibrated": errors.calibrated(given, rows),
        "series": errors.by_series(rows),
    }
    after = {MODEL: as_text(model), STRUCTURES: as_text({"series": table_of})}
    if not check:
        for path, text in after.items():
            replace_file(path, text)
    different = [path.name for path, text in before.items() if after[path] != text]
    if check and different:
        typer.echo(f"{', '.join(different)}: got other values from {points}; run benchmarks/calibrate.py")
        raise typer.Exit(1)


if __name__ == "__main__":
    command(main)
