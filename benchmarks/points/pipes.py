"""Compute the cycles of instructions of the cube core from published busy times of its pipes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .runner import constant
from .series import Point, soc_of

_STATED = "matmul_basic_8192"  # its source states each instruction; the other kernels use the Matmul API
_LOAD_COLUMNS = 64  # columns of B of one load
_HALF = 2  # bytes


def instruction_costs(points: Sequence[Point]) -> dict[str, dict[str, Any]]:
    """Return value, spread and source of the cycles of Mmad and of a load from L1 in addition to their rates.

    The busy time of a pipe contains waiting inside its instructions. The value is that of the kernel whose source
    states each instruction. The spread is the range of all products with busy times.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for point in points:
        for name, cycles in _costs(point):
            found.setdefault(name, {}).setdefault(point["series"], []).append(float(f"{cycles:.3g}"))
    return {
        name: {
            "value": by_series[_STATED][0],
            "source": f"busy times of the pipes in {', '.join(by_series)}",
            "spread": [min(map(min, by_series.values())), max(map(max, by_series.values()))],
        }
        for name, by_series in found.items()
        if _STATED in by_series
    }


def _costs(point: Point) -> Iterator[tuple[str, float]]:
    pipes, tiling, shapes = point.get("pipes_us", {}), point["tiling"], point["shapes"]
    if not {"mac", "mte1"} <= pipes.keys() or "base_mnk" not in tiling or not isinstance(shapes, dict):
        return
    soc = soc_of(point)
    m, n, k = tiling["base_mnk"]
    steps = math.prod(shapes[name] / size for name, size in zip("mnk", (m, n, k), strict=True)) / tiling["block_dim"]
    mac, mte1 = (pipes[name] * point["chip"]["mhz"] / steps for name in ("mac", "mte1"))
    yield "mmad_issue_cycles", mac - m * n * k / 16**3
    moved = m * k * _HALF / constant("l1_to_l0a_bytes_per_cycle", soc)
    moved += n * k * _HALF / constant("l1_to_l0b_bytes_per_cycle", soc)
    yield "l1_load_issue_cycles", (mte1 - moved) / (1 + n // _LOAD_COLUMNS)
