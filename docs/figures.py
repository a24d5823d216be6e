"""Write the recorded results of benchmarks/ as Markdown tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from opforge.twin.compiler.npu_model import range_text

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
OPERATORS = BENCHMARKS / "baseline.json"
MODEL = BENCHMARKS.parent / "twin" / "npu_model.json"
FRONTEND = BENCHMARKS / "frontend.json"
REASONS = BENCHMARKS / "published" / "reasons.json"
RATIOS = ("bytes", "eff", "of_floor", "bal")
TIMES = ("estimate_us", "bound_us", "floor_us")
LARGE = 0.2  # errors of this size have a reason
_MEANING = f"""All values are **estimates** of the time model for an Ascend 910B1. Nothing was measured on a device.
The range of the times is {range_text()}. The command prints `?` after estimates outside of the calibrated range, for
example all estimates of ConvTbcBackward.

- `bytes`: bytes copied from and to global memory, divided by the bytes of all inputs and outputs.
- `eff`: bound of the time, divided by the estimated time without launch overhead. The bound contains only bytes and
  multiplications.
- `of_floor`: floor of the time, divided by the same time. The floor is the time that every kernel of the case needs at
  least: the bound, or the issue of the DMAs, the latency of dependent copies, the padded blocks of the cube unit, and
  barriers.
- `bal`: time of the busiest core, divided by the mean of all cores."""


def operator_rows(op_type: str) -> list[tuple[str, str, dict[str, float]]]:
    """Return case, dtype and values of each recorded row of an operator."""
    recorded: dict[str, dict[str, float]] = json.loads(OPERATORS.read_text(encoding="utf-8"))
    rows = []
    for key, figures in recorded.items():
        operator, _, case = key.partition(" ")
        name, _, dtype = case.rpartition(" ")
        if operator == op_type:
            rows.append((name, dtype, figures))
    return rows


def operator_section(op_type: str) -> str:
    """Return the section of an operator page with the estimates, empty if there is no record."""
    rows = [
        [
            name,
            dtype,
            *(f"{figures[ratio]:.2f}" for ratio in RATIOS),
            *(f"{figures[time]:.1f}" for time in TIMES),
            f"{figures['dma_count']:,.0f}",
        ]
        for name, dtype, figures in operator_rows(op_type)
    ]
    if not rows:
        return ""
    table = _table(["case", "dtype", *RATIOS, "estimate us", "bound us", "floor us", "DMAs"], rows)
    command = f"python benchmarks/operators.py --operators {op_type}"
    return f"\n## Estimated performance\n\n{_MEANING}\n\n```console\n$ {command}\n```\n\n{table}"


def page(op_types: Sequence[str]) -> str:
    """Return the page with one row per operator and the cost of conversions."""
    operators = _table(["operator", "cases", *(f"{ratio}, best to worst" for ratio in RATIOS)], _summaries(op_types))
    recorded = json.loads(FRONTEND.read_text(encoding="utf-8"))
    conversions = _table(
        ["command", "model", "CPU s", "baseline CPU s", "ratio", "peak MB", "limit"], map(_conversion, recorded)
    )
    return f"""# Recorded results

This page shows the recorded results of the [benchmarks](../../benchmarks/README.md) with their commands.

## Operators

{_MEANING}
The pages of the operators have a row for each case. Small problems have the worst values, because filling the pipes
takes most of their time.

```console
$ python benchmarks/operators.py --update
```

{operators}

## Conversions

The table has user CPU seconds and peak memory of whole processes, including their start. Each command is compared with
a baseline: the command after `/`, or else `onnx.load`. Both run alternately. The ratio is the median of the pairs.

```console
$ python benchmarks/frontend.py --json benchmarks/frontend.json
```

{conversions}"""


def error_table() -> str:
    """Return the errors of the time model on published times, by kind of kernel and by series."""
    errors = json.loads(MODEL.read_text(encoding="utf-8"))["errors"]
    fitted, apart = (
        {name: found[name] for name in ("described", "generic", "all") if name in found} | found["series"]
        for found in (errors, errors["left_out"])
    )
    rows = [
        [name, str(fitted[name]["points"])]
        + [
            text
            for facts in (fitted[name], apart[name])
            for text in (
                f"{100 * facts['median']:.1f} %",
                f"{100 * facts['low']:+.0f} % to {100 * facts['high']:+.0f} %",
                f"{100 * facts['worst']:+.0f} %",
            )
        ]
        for name in fitted
    ]
    heads = [f"{figure}, {fit}" for fit in ("in the fit", "left out") for figure in ("median", "80 %", "worst")]
    return "\n" + _table(["kernels", "points", *heads], rows) + _large_errors(errors)


def _large_errors(errors: dict[str, Any]) -> str:
    """Return the points with the worst error of all kernels and of each series, with the reasons of large errors."""
    reasons = json.loads(REASONS.read_text(encoding="utf-8"))
    named = {f"**all**, {errors['all']['worst_point']}": errors["all"]}
    named |= {facts["worst_point"]: facts for facts in errors["series"].values() if abs(facts["worst"]) >= LARGE}
    rows = []
    for name, facts in named.items():
        point = facts["worst_point"]
        reason = reasons["points"].get(point) or reasons["series"].get(point.partition("/")[0], "Not known.")
        rows.append([name, f"{100 * facts['worst']:+.0f} %", reason])
    table = _table(["point", "error", "reason"], rows)
    text = "The worst point of all kernels, and that of each series with an error of 20 % or more:"
    return f"\n\n### Large errors\n\n{text}\n\n{table}"


def _summaries(op_types: Sequence[str]) -> Iterator[list[str]]:
    for op_type in op_types:
        rows = [figures for _, _, figures in operator_rows(op_type)]
        if rows:
            ranges = [sorted((row[ratio] for row in rows), reverse=ratio in {"eff", "of_floor"}) for ratio in RATIOS]
            link = f"[{op_type}](../../operators/aclnn{op_type}.md#estimated-performance)"
            yield [link, str(len(rows)), *(f"{values[0]:.2f} to {values[-1]:.2f}" for values in ranges)]


def _conversion(row: dict[str, Any]) -> list[str]:
    numbers = [f"{row['cpu_s']:.2f}", f"{row['yardstick_s']:.2f}", f"{row['ratio']:.2f}", f"{row['peak_mb']:.0f}"]
    shown = ["stopped" if number == "nan" else number for number in numbers]
    limit = f"{row['limited_value']} {row['limit']:g}" if row["limited_value"] else "-"
    is_missed = row["limited_value"] and not row[row["limited_value"]] <= row["limit"]
    return [f"`{row['what']}`", row["model"], *shown, f"{limit}, **missed**" if is_missed else limit]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
