"""Evaluate a file of published points: measured time, estimate and error of each."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opforge.codegen.errors import UserError

from . import described
from .generic import generic
from .runner import NotRunError
from .series import Point

Row = dict[str, Any]
# The points for the fit of the model.
POINTS = Path(__file__).resolve().parents[1] / "published" / "points.json"
# Series with a described kernel; the others have a generic structure.
DESCRIBED: Mapping[str, described.Evaluate] = {
    "add_8192": described.addition,
    "data_copy_ub": described.copied_tiles,
    "data_copy_l1": described.copied_tiles,
    "nd2nz_ub": described.fractals,
    "akl_gather_mask": described.gather_mask,
    "akl_rows_gm_to_ub": described.dma_loop,
    "akl_rows_ub_to_gm": described.dma_loop,
    "akl_rows_followup": described.dma_loop,
    "akl_single_copy": described.dma_loop,
    "akl_stream_small": described.dma_loop,
    "akl_stream_64mib": described.dma_loop,
    "matmul_8192": described.product,
    "matmul_basic_8192": described.product,
    "pto_gemm": described.product,
    "catlass_matmul": described.product,
    "devkit_doc_cases": described.product,
}


def load_points(path: Path) -> list[Point]:
    """Read a file of points.

    Raises:
        UserError: The file cannot be read, or has another form.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        points: list[Point] = data["points"]
        for index, point in enumerate(points):
            lacking = {"id", "series", "device", "shapes", "tiling", "total_us"} - point.keys()
            if lacking:
                raise UserError(f"{path}: points[{index}]: got no {', '.join(sorted(lacking))}, expected these keys")
            for name in ("id", "series", "device"):
                if not isinstance(point[name], str):
                    raise UserError(f"{path}: points[{index}].{name}: got {point[name]!r:.40}, expected a string")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}; expected a JSON file of published points") from error
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: got another structure ({error}), expected an object with a list `points`") from error
    return [{**point, "tiling": point["tiling"] or {}} for point in points]


def estimate_of(point: Point) -> float:
    """Return the estimate of a point in us.

    Raises:
        NotRunError: The point cannot be evaluated.
    """
    measured = point["total_us"]
    if not isinstance(measured, int | float) or not 0 < measured < math.inf:
        raise NotRunError("the source states no time of the kernel")
    try:
        return DESCRIBED.get(point["series"], generic)(point)
    except KeyError as error:
        raise NotRunError(f"the point has no field {error}") from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError) as error:
        raise NotRunError(f"a field that the kernel needs has another form: {error!r}") from error


def evaluate(points: Sequence[Point]) -> tuple[list[Row], list[Row]]:
    """Return the evaluated points and the skipped ones."""
    rows: list[Row] = []
    skipped: list[Row] = []
    for point in points:
        head = {"id": point["id"], "series": point["series"]}
        try:
            estimate = estimate_of(point)
        except NotRunError as error:
            skipped.append({"id": point["id"], "reason": str(error).splitlines()[0]})
            continue
        measured = float(point["total_us"])
        rows.append(head | {"measured_us": measured, "estimated_us": estimate, "error": estimate / measured - 1})
    return rows, skipped


def summary_of(rows: Sequence[Row], skipped: Sequence[Row]) -> dict[str, Any]:
    """Return the content of the JSON file."""
    errors = [abs(row["error"]) for row in rows]
    return {
        "points": list(rows),
        "skipped": list(skipped),
        "median": statistics.median(errors) if errors else None,
        "worst": max(errors) if errors else None,
    }
