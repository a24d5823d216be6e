"""Describe the distribution of the errors of estimates."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from opforge.codegen.untrusted import read_json

from .evaluate import DESCRIBED
from .runner import KERNELS
from .series import Point, named_soc

_LOW, _HIGH = 0.1, 0.9  # of the errors
LARGE = 0.2  # An error of this size needs a reason.


class _Reasons(TypedDict):
    points: dict[str, str]
    series: dict[str, str]


_REASONS = TypeAdapter(_Reasons)


def worst_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return id and error of the row with the largest error; for a large error, its reason."""
    worst = max(rows, key=lambda row: abs(float(row["error"])))
    reason = reason_of(worst) if abs(worst["error"]) >= LARGE else ""
    return {"id": worst["id"], "error": worst["error"], "reason": reason}


def reason_of(row: Mapping[str, Any]) -> str:
    """Return the reason for a large error of a point."""
    reasons = read_json(KERNELS / "reasons.json", _REASONS, "file of reasons", "restore the file")
    known = reasons["points"].get(row["id"]) or reasons["series"].get(row["series"])
    return str(known or "Not known.")


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (at - low)


def distribution(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return median and range of the errors of described kernels, of generic ones, and of all."""
    kinds = {
        "described": [row for row in rows if row["series"] in DESCRIBED],
        "generic": [row for row in rows if row["series"] not in DESCRIBED],
        "all": rows,
    }
    return {kind: _facts(own) for kind, own in kinds.items() if own}


def _facts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [row["error"] for row in rows]
    worst = worst_of(rows)
    return {
        "points": len(values),
        "median": round(statistics.median(map(abs, values)), 4),
        "low": round(_quantile(values, _LOW), 4),
        "high": round(_quantile(values, _HIGH), 4),
        "worst": round(worst["error"], 4),
        "worst_point": worst["id"],
    }


def by_series(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the same for each series."""
    names = dict.fromkeys(row["series"] for row in rows)
    return {name: _facts([row for row in rows if row["series"] == name]) for name in names}


def calibrated(points: Sequence[Point], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the SoCs that the evaluated points name, and the shortest and the longest time of a kernel."""
    times = {row["id"]: row["measured_us"] for row in rows}
    known = [point for point in points if point["id"] in times]
    kernels = [times[point["id"]] for point in known if "counter" not in point.get("timing", "")]
    return {"socs": sorted({named_soc(point) for point in known} - {""}), "us": [min(kernels), max(kernels)]}
