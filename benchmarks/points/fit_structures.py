"""Fit the unknown parts of generic structures: instructions over a tile and for each row, buffers, overhead."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opforge.codegen.data.products import SOCS

from .described import seconds_of
from .generic import Stream, group_of, host_us, product_times
from .runner import NotRunError, constant, report_of
from .series import Point

_FITTED = {"operations", "row_operations", "fixed_us", "buffers", "factor"}
_FIXED = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0)
_OPERATIONS = np.unique(np.round(np.geomspace(1, 400, 60)).astype(int)).tolist()
_ROW_OPERATIONS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
_FACTORS = tuple(round(0.5 + 0.05 * step, 2) for step in range(31))


class _Shape:
    """A point with the parts of its time; `idle` is the time without instructions."""

    def __init__(self, point: Point, structure: Mapping[str, Any]) -> None:
        stream = Stream(point, structure)
        report = report_of(stream.launch(0, 0, stream.tiles))
        self.idle, *others = seconds_of(report, point)
        self.shared = max(others)
        self.launch = report["launch_us"] + host_us(point)
        self.measured = float(point["total_us"])
        self.group = group_of(point, structure)
        cycles = SOCS[stream.soc].mhz
        drain = constant("vector_drain_cycles", stream.soc)
        issue = constant("vector_issue_cycles", stream.soc)
        length = stream.tile * stream.elements
        rows = -(-stream.rows // stream.blocks)
        self.tile_us = stream.tiles * (-(-length // 4096) * (issue + drain) + length / 64) / cycles
        self.row_us = rows * (issue + 1) / cycles
        self.is_serial = stream.buffers == 1

    def estimate(self, fixed: float, row_operations: int, operations: Any) -> Any:
        """Return the estimate for each number of instructions."""
        vector = operations * self.tile_us + row_operations * self.row_us
        core = self.idle + vector if self.is_serial else np.maximum(self.idle, vector)
        return self.launch + fixed + np.maximum(core, self.shared)


def _best_stream(points: Sequence[Point], structure: Mapping[str, Any]) -> dict[str, Any]:
    best: tuple[float, dict[str, Any]] = (float("inf"), {})
    rows = _ROW_OPERATIONS if structure["kind"] == "rows" else (0,)
    operations = np.array([0, *_OPERATIONS])
    for buffers in (2, 1):
        shapes = []
        for point in points:
            try:
                shapes.append(_Shape(point, {**structure, "buffers": buffers}))
            except NotRunError:
                continue
        if not shapes:
            return {}
        for fixed, row_operations in itertools.product(_FIXED, rows):
            cost = 0.001 * (fixed > 0) + 0.0001 * row_operations
            numbers: dict[str, int] = {}
            for group in dict.fromkeys(shape.group for shape in shapes):
                own = [shape for shape in shapes if shape.group == group]
                sums = sum(
                    np.abs(np.log(shape.estimate(fixed, row_operations, operations) / shape.measured)) for shape in own
                )
                at = int(np.argmin(np.round(sums, 4)))
                numbers[group] = int(operations[at])
                cost += float(sums[at])
            if cost < best[0] - 1e-6:
                found = {"operations": numbers, "row_operations": row_operations}
                best = (cost, found | {"fixed_us": fixed, "buffers": buffers})
    return best[1]


def _best_products(points: Sequence[Point], structure: Mapping[str, Any]) -> dict[str, Any]:
    times = []
    for point in points:
        try:
            times.append((*product_times(point, structure), float(point["total_us"])))
        except (NotRunError, IndexError, KeyError, TypeError):
            continue
    if not times:
        return {}
    launch, us, measured = np.array(times).T

    def cost(choice: tuple[float, float]) -> float:
        fixed, factor = choice
        return float(np.abs(np.log((launch + fixed + factor * us) / measured)).sum()) + 0.01 * abs(factor - 1)

    fixed, factor = min(itertools.product(_FIXED, _FACTORS), key=lambda choice: (round(cost(choice), 5), choice))
    return {"fixed_us": fixed, "factor": factor}


def unfitted(structure: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stated part of a structure."""
    return {key: value for key, value in structure.items() if key not in _FITTED}


def fit(points: Sequence[Point], table: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the structures with their fitted parts."""
    fitted = {}
    for name, structure in table.items():
        own = [point for point in points if point["series"] == name and point["total_us"]]
        found = (_best_products if structure["kind"] == "products" else _best_stream)(own, structure)
        fitted[name] = {**structure, **found}
    return fitted
