"""Prepare the lines and comparisons for the page of `opforge profile --html`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .compare import changed
from .lines import CAUSES, WAITS
from .tables import brief_steps, change_texts

MOST_LINES = 20


def _bars(row: Mapping[str, Any], causes: Sequence[str], most: float) -> list[dict[str, Any]]:
    """Return the causes of a row; a full bar is the largest row."""
    return [
        {"label": cause, "color": cause, "us": row[f"{cause}_us"]}
        | {"percent": 100 * row[f"{cause}_us"] / most if most else 0.0}
        for cause in causes
        if row[f"{cause}_us"] > 0
    ]


def _with_bars(rows: Sequence[Mapping[str, Any]], causes: Sequence[str]) -> list[dict[str, Any]]:
    most = max((row["us"] for row in rows), default=0.0)
    return [{**row, "bars": _bars(row, causes, most)} for row in rows[:MOST_LINES]]


def lines_of(launch: Mapping[str, Any], launch_us: float) -> dict[str, Any] | None:
    """Return the lines of a launch for the page; None if they were not recorded."""
    if "lines" not in launch:
        return None
    total = sum(row["us"] for row in launch["path"])
    phases = [
        {
            "number": number,
            "core": launch["cores"][phase["core"]]["name"],
            "us": phase["core_us"],
            "steps": list(brief_steps(steps)),
        }
        for number, (phase, steps) in enumerate(zip(launch["phases"], launch["steps"], strict=True), 1)
    ]
    longest = sorted(phases, key=lambda phase: -phase["us"])[:MOST_LINES]
    return {
        "busy": launch["lines"][:MOST_LINES],
        "waits": _with_bars(launch["waits"], WAITS),
        "path": _with_bars(launch["path"], CAUSES),
        "hidden": {key: max(len(launch[key]) - MOST_LINES, 0) for key in ("lines", "waits", "path")},
        "rest_us": sum(row["us"] for row in launch["path"][MOST_LINES:]),
        "launch_us": launch_us,
        "total_us": total + launch_us,
        "legend": [(cause, cause) for cause in CAUSES],
        "phases": sorted(longest, key=lambda phase: phase["number"]),
    }


def comparison(compared: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a comparison for the page."""
    return [
        {
            "name": case["name"],
            "estimate": change_texts(case["estimate_us"]),
            "values": [
                *((f"{pipe}, busy us", change_texts(pair)) for pipe, pair in case["pipes"].items()),
                *((key, change_texts(pair)) for key, pair in case["bytes"].items()),
            ],
            "lines": [{**row, "change": change_texts(row["us"])} for row in changed(case["path"])[:MOST_LINES]],
        }
        for case in compared
    ]
