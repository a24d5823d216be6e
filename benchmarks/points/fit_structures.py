"""Fit the unknown parts of generic structures: instructions over a tile and for each row, buffers, overhead."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opforge.codegen.data.products import SOCS

from .attention import Attention
from .generic import Stream, group_of, heap_steps, host_us
from .products import product_times
from .runner import NotRunError, constant
from .series import Point

_FITTED = {"operations", "row_operations", "odd_operations", "table_reads", "fixed_us", "buffers", "factor", "heap_ns"}
_FIXED = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0)
_OPERATIONS = np.unique(np.round(np.geomspace(1, 400, 36)).astype(int)).tolist()
_ROW_OPERATIONS = (0, 1, 2, 4, 8, 16, 32, 50, 64, 100, 160)
_TABLE_READS = (0, 2, 4, 6, 10)
# Costs of a fit in addition to its errors, chosen by the errors of points that the fit does not use: for each factor of
# e between the instructions of two groups, and for a factor and an overhead of products.
_GROUP_COST, _FACTOR_COST, _FIXED_COST = 0.1, 0.3, 0.05
_CENTERS = _OPERATIONS[::3]
_FACTORS = tuple(round(0.5 + 0.05 * step, 2) for step in range(51))


class _Shape:
    """A point with the parts of its time; `idle` is the time with one instruction for each tile."""

    def __init__(self, point: Point, structure: Mapping[str, Any]) -> None:
        stream = Stream(point, structure)
        launch, self.idle, self.shared = stream.idle(point)
        self.launch = launch + host_us(point)
        self.measured = float(point["total_us"])
        self.group = group_of(point, structure)
        cycles = SOCS[stream.soc].mhz
        drain = constant("vector_drain_cycles", stream.soc)
        issue = constant("vector_issue_cycles", stream.soc)
        length = stream.tile * stream.elements
        self.tile_us = stream.tiles * (-(-length // 4096) * (issue + drain) + length / 64) / cycles
        self.row_us = stream.core_rows * (issue + 1) / cycles
        self.odd_us = self.row_us if stream.is_odd else 0.0
        self.table_us = stream.table * constant("scalar_ub_access_cycles", stream.soc) / cycles
        self.is_serial = stream.buffers == 1

    def estimate(self, fixed: Any, rows: Any, odd: Any, reads: int, operations: Any) -> Any:
        """Return the estimate for each number of instructions."""
        vector = operations * self.tile_us + rows * self.row_us + odd * self.odd_us
        core = self.idle - self.tile_us + vector if self.is_serial else np.maximum(self.idle, vector)
        return self.launch + fixed + np.maximum(core + reads * self.table_us, self.shared)


def _best_stream(points: Sequence[Point], structure: Mapping[str, Any]) -> dict[str, Any]:
    best: tuple[float, dict[str, Any]] = (float("inf"), {})
    all_operations = np.array(_OPERATIONS)
    for buffers in (2, 1):
        shapes = []
        for point in points:
            try:
                shapes.append(_Shape(point, {**structure, "buffers": buffers}))
            except NotRunError:
                continue
        if not shapes:
            return {}
        per_row = _ROW_OPERATIONS if structure["kind"] == "rows" else (0,)
        per_odd = per_row if any(shape.odd_us for shape in shapes) else (0,)
        fixed, rows, odd, operations = np.meshgrid(
            np.array(_FIXED), np.array(per_row), np.array(per_odd), all_operations, indexing="ij", sparse=True
        )
        for reads in _TABLE_READS if any(shape.table_us for shape in shapes) else (0,):
            cost: Any = 0.001 * (fixed > 0) + 0.0001 * (rows + odd + reads)
            sums = {
                group: sum(
                    np.abs(np.log(shape.estimate(fixed, rows, odd, reads, operations) / shape.measured))
                    for shape in shapes
                    if shape.group == group
                )
                for group in dict.fromkeys(shape.group for shape in shapes)
            }
            for center in _CENTERS if len(sums) > 1 else (0,):
                distance = _GROUP_COST * np.abs(np.log(all_operations / center)) if center else 0.0
                costs = {group: np.round(own + distance, 4) for group, own in sums.items()}
                total = cost + sum(np.min(own, axis=3, keepdims=True) for own in costs.values())
                at = np.unravel_index(int(np.argmin(total)), total.shape)
                if total[at] < best[0] - 1e-6:
                    numbers = {group: int(all_operations[np.argmin(own[at[:3]])]) for group, own in costs.items()}
                    found = {"operations": numbers, "row_operations": per_row[at[1]], "odd_operations": per_odd[at[2]]}
                    found |= {"table_reads": reads, "fixed_us": _FIXED[at[0]], "buffers": buffers}
                    best = (float(total[at]), found)
    return best[1]


def _best_factor(points: Sequence[Point], structure: Mapping[str, Any]) -> dict[str, Any]:
    times = []
    for point in points:
        try:
            found = (
                (*product_times(point, structure), 0.0)
                if structure["kind"] == "products"
                else Attention(point, structure).times(point)
            )
        except (NotRunError, IndexError, KeyError, TypeError):
            continue
        times.append((*found, float(point["total_us"])))
    if not times:
        return {}
    launch, us, least, measured = np.array(times).T

    def cost(choice: tuple[float, float]) -> float:
        fixed, factor = choice
        estimates = launch + fixed + np.maximum(factor * us, least)
        return (
            float(np.abs(np.log(estimates / measured)).sum())
            + _FACTOR_COST * abs(math.log(factor))
            + _FIXED_COST * math.log1p(fixed)
        )

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
        heaps = [(steps, point["total_us"]) for point in own if (steps := heap_steps(point, structure))]
        own = [point for point in own if not heap_steps(point, structure)]
        found = (_best_factor if structure["kind"] in {"products", "attention"} else _best_stream)(own, structure)
        fitted[name] = {**structure, **found}
        if heaps:
            fitted[name]["heap_ns"] = float(f"{statistics.geometric_mean(us / steps for steps, us in heaps) * 1e3:.3g}")
    return fitted
