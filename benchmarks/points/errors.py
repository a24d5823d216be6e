"""Describe the distribution of the errors of estimates."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .evaluate import DESCRIBED
from .series import Point, soc_of

_LOW, _HIGH = 0.1, 0.9  # of the errors


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (at - low)


def distribution(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return median and range of the errors of described kernels, of generic ones, and of all."""
    kinds = {
        "described": [row["error"] for row in rows if row["series"] in DESCRIBED],
        "generic": [row["error"] for row in rows if row["series"] not in DESCRIBED],
        "all": [row["error"] for row in rows],
    }
    return {kind: _facts(values) for kind, values in kinds.items() if values}


def _facts(values: Sequence[float]) -> dict[str, Any]:
    return {
        "points": len(values),
        "median": round(statistics.median(map(abs, values)), 4),
        "low": round(_quantile(values, _LOW), 4),
        "high": round(_quantile(values, _HIGH), 4),
        "worst": round(max(values, key=abs), 4),
    }


def by_series(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the same for each series."""
    names = dict.fromkeys(row["series"] for row in rows)
    return {name: _facts([row["error"] for row in rows if row["series"] == name]) for name in names}


def calibrated(points: Sequence[Point], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the SoCs of the points that run, and the shortest and the longest time of a kernel."""
    times = {row["id"]: row["measured_us"] for row in rows}
    known = [point for point in points if point["id"] in times]
    kernels = [times[point["id"]] for point in known if "counter" not in point["timing"]]
    return {"socs": sorted({soc_of(point) for point in known}), "us": [min(kernels), max(kernels)]}
