"""Evaluate a file of published points: measured time, estimate and error of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text
from opforge.codegen.untrusted import read_json

from . import described
from .form import problems_of
from .generic import generic
from .runner import NotRunError
from .series import Point

Row = dict[str, Any]


class _Point(TypedDict):
    """The keys of every point. Each kernel checks its further keys."""

    __pydantic_config__ = ConfigDict(extra="allow")

    id: str
    series: str
    device: str
    shapes: Any
    tiling: Any
    total_us: Any


class _File(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")

    points: list[_Point]


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


_FORM = TypeAdapter(_File)


def load_points(path: Path) -> list[Point]:
    """Read a file of points.

    Raises:
        UserError: The file cannot be read, or has another form.
    """
    data = read_json(path, _FORM, "file of points", "correct the file")
    if not data["points"]:
        raise UserError(f"{path_text(path)}: got no points, expected at least one; add published times of kernels")
    return [_stated(point) for point in data["points"]]


def _stated(point: Mapping[str, Any]) -> Point:
    """Return the fields of a point that have a value. A number of blocks in words is none."""
    tiling = point["tiling"] or {}
    if isinstance(tiling, dict):
        tiling = {name: value for name, value in tiling.items() if value is not None}
        if isinstance(tiling.get("block_dim"), str):
            del tiling["block_dim"]
    needed = {name: point.get(name) for name in ("shapes", "dtypes", "total_us")}
    return {name: value for name, value in point.items() if value is not None} | needed | {"tiling": tiling}


def estimate_of(point: Point) -> float:
    """Return the estimate of a point in us.

    Raises:
        NotRunError: The point cannot be evaluated.
    """
    measured = point["total_us"]
    if measured is None:
        raise NotRunError("the source states no time of the kernel")
    for problem in problems_of(point):
        raise NotRunError(problem)
    try:
        return DESCRIBED.get(point["series"], generic)(point)
    except KeyError as error:
        raise NotRunError(f"the point has no field {error}, which the kernel of its series needs") from error
    except MemoryError as error:
        raise NotRunError("the tensors of the point do not fit into the memory of this computer") from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise NotRunError(
            f"shapes, dtypes and tiling do not fit each other: got those of {point['series']} in another combination,"
            " expected the combination of the points in benchmarks/published/points.json"
        ) from error


def evaluate(points: Sequence[Point]) -> tuple[list[Row], list[Row]]:
    """Return the evaluated points and the skipped ones."""
    rows: list[Row] = []
    skipped: list[Row] = []
    names: set[str] = set()
    for point in points:
        head = {"id": point["id"], "series": point["series"]}
        if point["id"] in names:
            reason = "id: got the id of an earlier point, expected another one; only the first one is evaluated"
            skipped.append({"id": point["id"], "reason": reason})
            continue
        names.add(point["id"])
        try:
            estimate = estimate_of(point)
        except NotRunError as error:
            skipped.append({"id": point["id"], "reason": str(error).splitlines()[0]})
            continue
        measured = float(point["total_us"])
        rows.append(head | {"measured_us": measured, "estimated_us": estimate, "error": estimate / measured - 1})
    return rows, skipped
