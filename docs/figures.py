"""Recorded figures as tables in Markdown: those of the operators and those of the frontend.

They are read from what the scripts in benchmarks/ wrote, so that a page says nothing that nobody measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
OPERATORS = BENCHMARKS / "baseline.json"
FRONTEND = BENCHMARKS / "frontend.json"
RATIOS = ("bytes", "eff", "bal")
_MEANING = """bytes is what is moved between global memory and the cores, over what has to be; eff the bound of the
problem over the time, without launch; bal the busiest core over the mean of all. All are **estimates** by the time
model of the twin for an Ascend 910B1; nothing was measured on a device."""


def operator_rows(op_type: str) -> list[tuple[str, str, dict[str, float]]]:
    """Case, dtype and figures of each recorded row of an operator."""
    recorded: dict[str, dict[str, float]] = json.loads(OPERATORS.read_text(encoding="utf-8"))
    rows = []
    for key, figures in recorded.items():
        operator, _, case = key.partition(" ")
        name, _, dtype = case.rpartition(" ")
        if operator == op_type:
            rows.append((name, dtype, figures))
    return rows


def operator_section(op_type: str) -> str:
    """What the page of an operator says of its speed; nothing if nothing is recorded."""
    rows = [
        [name, dtype, *(f"{figures[ratio]:.2f}" for ratio in RATIOS), f"{figures['dma_count']:,.0f}"]
        for name, dtype, figures in operator_rows(op_type)
    ]
    if not rows:
        return ""
    table = _table(["case", "dtype", *RATIOS, "DMAs"], rows)
    command = f"python benchmarks/operators.py --operators {op_type}"
    return f"\n## Model figures\n\n{_MEANING}\n\n```console\n$ {command}\n```\n\n{table}"


def page(op_types: Sequence[str]) -> str:
    """The page of all figures: a row for each operator, and the costs of conversions."""
    operators = _table(["operator", "cases", *(f"{ratio}, best to worst" for ratio in RATIOS)], _summaries(op_types))
    recorded = json.loads(FRONTEND.read_text(encoding="utf-8"))
    conversions = _table(
        ["command", "model", "CPU s", "of the yardstick", "ratio", "peak MB", "limit"], map(_conversion, recorded)
    )
    return f"""# Figures

Each table is what a command wrote; [benchmarks](../../benchmarks/README.md) says what is judged.

## Operators

{_MEANING}
The pages of the operators have a row for each case; the worst figures are those of small
problems, where filling pipes is most of the time.

```console
$ python benchmarks/operators.py --update
```

{operators}

## Conversions

Whole processes, start-up included: user CPU seconds and the largest memory. A command and its yardstick, which is
behind the stroke (`onnx.load` without one), run by turns; the ratio is the median of the pairs, as a busy machine
stretches both.

```console
$ python benchmarks/frontend.py --json benchmarks/frontend.json
```

{conversions}"""


def _summaries(op_types: Sequence[str]) -> Iterator[list[str]]:
    for op_type in op_types:
        rows = [figures for _, _, figures in operator_rows(op_type)]
        if rows:
            ranges = [sorted((row[ratio] for row in rows), reverse=ratio == "eff") for ratio in RATIOS]
            link = f"[{op_type}](../../operators/aclnn{op_type}.md#model-figures)"
            yield [link, str(len(rows)), *(f"{values[0]:.2f} to {values[-1]:.2f}" for values in ranges)]


def _conversion(row: dict[str, Any]) -> list[str]:
    numbers = [f"{row['cpu_s']:.2f}", f"{row['yardstick_s']:.2f}", f"{row['ratio']:.2f}", f"{row['peak_mb']:.0f}"]
    shown = ["stopped" if number == "nan" else number for number in numbers]
    limit = f"{row['judged']} {row['limit']:g}" if row["judged"] else "-"
    is_missed = row["judged"] and not row[row["judged"]] <= row["limit"]
    return [f"`{row['what']}`", row["model"], *shown, f"{limit}, **missed**" if is_missed else limit]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
