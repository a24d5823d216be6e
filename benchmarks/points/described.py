"""Evaluate points with a described kernel: copies, additions, matrix products."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from opforge.codegen.data.products import SOCS

from .runner import Launch, NotRunError, constant, report_of
from .series import Point, dtype_of, item_bytes, require_one_kind, soc_of

Evaluate = Callable[[Point], float]
_ALL = 1 << 40
_MOST_TILES = 1 << 24
_MOST_STEPS = 200_000  # of all cores, along k of all tiles of a matrix product
_LANES = 64  # elements of 4 bytes in a repeat


def seconds_of(report: dict[str, Any], point: Point) -> tuple[float, float, float]:
    """Return the time of the slowest core, of global memory and of L2 in us; the clock is that of the chip."""
    soc = SOCS[soc_of(point)]
    mhz = point.get("chip", {}).get("mhz") or soc.mhz
    core = sum(phase["core_us"] for phase in report["phases"]) * soc.mhz / mhz
    return core, sum(phase["gm_us"] for phase in report["phases"]), sum(phase["l2_us"] for phase in report["phases"])


def kernel_us(report: dict[str, Any], point: Point) -> float:
    """Return the estimated duration of a kernel."""
    return float(report["launch_us"] + max(seconds_of(report, point)))


def _per_round(make: Callable[[int], Launch], point: Point, rounds: int) -> float:
    """Return the steady-state time of one iteration of a loop."""
    few, many = (max(seconds_of(report_of(make(count)), point)) for count in (rounds, 3 * rounds))
    return (many - few) / (2 * rounds)


def dma_loop(point: Point) -> float:
    """Return the time of a loop of copies with waits: akl_rows_*, akl_single_copy, akl_stream_*."""
    tiling = point["tiling"]
    is_out = point["operator"].endswith("UB to GM")
    rows = tiling.get("rows", 1)
    row_bytes = tiling.get("row_bytes") or tiling["dma_bytes"]
    gap = tiling.get("gm_gap_bytes", 0)
    copies = tiling.get("copies_per_batch", 1)
    in_flight = tiling.get("batches_in_flight", tiling.get("copies_in_flight", 1))
    pitch = rows * (row_bytes + gap)
    is_ring = "ring" in tiling["data"]
    rounds = max(8, 64 // copies)
    slots = copies * rounds * 3 if is_ring else 1
    blocks = tiling["block_dim"]

    def make(batches: int) -> Launch:
        sizes = (blocks * slots * pitch,)
        values = (int(is_out), rows, row_bytes, gap, copies, in_flight, batches, slots, pitch)
        return Launch("copies.cpp", "batches", blocks, sizes, values, soc_of(point))

    return _per_round(make, point, rounds) / copies


def _require_item(point: Point, count: int) -> None:
    """Reject a point whose elements have another size than those of the kernel."""
    dtype = dtype_of(point)
    if point["dtypes"] is not None and item_bytes(dtype) != count:
        raise NotRunError(f"dtypes: got {dtype}, expected {count} bytes per element, as in the kernel of the series")


def _require_tiles(elements: int, tile: int) -> None:
    """Reject a kernel with so many tiles that it would run for hours."""
    if elements > tile * _MOST_TILES:
        raise NotRunError(f"tiling: got {elements // tile} tiles, expected at most {_MOST_TILES}")


def gather_mask(point: Point) -> float:
    """Return the time of a loop of GatherMask with a wait in each iteration."""
    _require_item(point, 4)
    tiling = point["tiling"]
    found = re.search(r"pattern (\d)", point["variant"])
    pattern = 0 if "mask tensor" in point["variant"] else int(found[1]) if found else 7
    repeats = tiling.get("repeats") or math.ceil(tiling["elements"] / _LANES)

    def make(rounds: int) -> Launch:
        return Launch(
            "vector.cpp", "gather_mask", tiling["block_dim"], (512,), (rounds, repeats, pattern), soc_of(point)
        )

    return _per_round(make, point, 64)


def copied_tiles(point: Point) -> float:
    """Return the time of copies of matrix tiles to the unified buffer or to L1, without waits."""
    _require_item(point, 2)
    (rows, columns) = point["shapes"][0]
    tile_rows, tile_columns = point["tiling"]["tile"]
    blocks = point["tiling"]["block_dim"]
    times = max(1, round(point["gm_bytes"]["read"] / (rows * columns * 2)))
    _require_tiles(times * rows * columns, tile_rows * tile_columns)
    is_shared = "every core reads the whole matrix" in point["variant"]
    panels = 4 if "quarter of the columns" in point["variant"] else 1
    values = (
        rows,
        columns,
        tile_rows,
        tile_columns,
        1 if is_shared else times,
        panels,
        int(is_shared),
        int("shifted" in point["variant"]),
        int("DISABLE" in point["tiling"]["l2_hint"]),
    )
    is_cube = "L1" in point["operator"]
    symbol = "fractals" if is_cube else "tiles"
    launch = Launch("copies.cpp", symbol, blocks, (rows * columns * 2,), values, soc_of(point), is_cube)
    return kernel_us(report_of(launch), point)


def addition(point: Point) -> float:
    """Return the time of an addition of two float16 matrices."""
    _require_item(point, 2)
    tiling = point["tiling"]
    # The kernel copies whole blocks of 32 bytes.
    elements, tile = (-(-count // 16) * 16 for count in (math.prod(point["shapes"][0]), tiling["tile_elements"]))
    _require_tiles(elements, tile)
    is_scalar = "scalar loop" in point["variant"]
    if is_scalar:  # the time is proportional to the tiles
        whole = elements
        elements = 4 * tile
    buffers = 2 if tiling["buffers"].startswith("double") else 1
    found = re.search(r"y at (\d+)", tiling["ub_offsets"])
    pitch = int(found[1]) if found else 32768
    is_small = 3 * pitch * buffers <= SOCS[soc_of(point)].ub
    # With two buffers, a tile of z reuses the memory of its x: the twin has slightly less memory than the device.
    values = (
        elements,
        tile,
        buffers,
        int("DISABLE" in tiling["l2_hint"]),
        int(is_scalar),
        pitch,
        pitch,
        2 * pitch if is_small else 0,
        3 * pitch if is_small else 2 * pitch,
    )
    launch = Launch("vector.cpp", "add", tiling["block_dim"], (2 * elements,) * 3, values, soc_of(point))
    report = report_of(launch)
    if is_scalar:
        return float(report["launch_us"] + max(seconds_of(report, point)) * whole / elements)
    return kernel_us(report, point)


def fractals(point: Point) -> float:
    """Return the time of ND to NZ in the unified buffer."""
    _require_item(point, 2)
    (rows, columns) = point["shapes"][0]
    tiling = point["tiling"]
    values = (rows, columns, *tiling["tile"], tiling.get("dst_stride_blocks", tiling["tile"][0]))
    launch = Launch("vector.cpp", "nd2nz", tiling["block_dim"], (rows * columns * 2,) * 2, values, soc_of(point))
    return kernel_us(report_of(launch), point)


class Gemm:
    """Sizes and tiling of a matrix product.

    Attributes:
        blocks: Cores.
        grid: Cores along m and along n.
        base: Sizes of a product of the cube unit.
        steps: Number of base k blocks of a tile of A and of B in L1.
    """

    def __init__(self, m: int, n: int, k: int, soc: str, **options: Any) -> None:
        self.sizes = (m, n, k)
        self.soc = soc
        chip = SOCS[soc]
        self.blocks: int = options.get("blocks") or chip.aic
        base = options.get("base") or (128, 256, 64)
        self.base = tuple(-(-min(size, whole) // 16) * 16 for size, whole in zip(base, (m, n, k), strict=True))
        self.grid: tuple[int, int] | None = options.get("grid")
        self.core: tuple[int, int] | None = options.get("core")
        steps = list(options.get("steps") or (4, 4))
        while True:
            used = [2 * self.base[index] * self.base[2] * steps[index] * 2 for index in (0, 1)]
            if sum(used) <= chip.l1:
                break
            steps[used.index(max(used))] -= 1
        if min(steps) < 1:
            raise NotRunError(f"tiles of {self.base} do not fit into L1")
        self.steps = tuple(steps)
        self.is_fractal = bool(options.get("is_fractal"))
        self.is_row_major = bool(options.get("is_row_major"))

    def _core(self) -> tuple[int, int]:
        """Return rows and columns of C of one core: the grid with the least work for the busiest core."""
        if self.core:
            return self.core
        m, n, _ = self.sizes
        down, across = -(-m // self.base[0]), -(-n // self.base[1])
        grids = (
            [self.grid]
            if self.grid
            else [(rows, self.blocks // rows) for rows in range(1, self.blocks + 1) if self.blocks % rows == 0]
        )

        def load(grid: tuple[int, int]) -> tuple[int, int]:
            rows, columns = -(-down // grid[0]), -(-across // grid[1])
            return rows * columns, rows * self.base[0] + columns * self.base[1]

        best = min(grids, key=load)
        if not self.grid and load(best)[0] > -(-down * across // self.blocks):
            return self.base[0], self.base[1]  # the tiles one by one, in turns
        return -(-down // best[0]) * self.base[0], -(-across // best[1]) * self.base[1]

    def times(self, point: Point) -> tuple[float, float, float, float]:
        """Return launch overhead, and the time of the slowest core, of global memory and of L2.

        Of a very long product, only the first rows of tiles of each core run; the rest is extrapolated.
        """
        m, n, k = self.sizes
        core = self._core()
        across = -(-min(core[1], n) // self.base[1])
        down = -(-min(core[0], m) // self.base[0]) * -(-(-(-m // core[0]) * -(-n // core[1])) // self.blocks)
        half = max(1, _MOST_STEPS // (2 * self.blocks * across * -(-k // self.base[2])))
        if down <= 2 * half:
            return self._run(point, _ALL, core)
        once, more = (self._run(point, count * across, core) for count in (half, 2 * half))
        core_us, l2_us = (more[index] + (more[index] - once[index]) / half * (down - 2 * half) for index in (1, 3))
        return once[0], core_us, self._gm_us(more), l2_us

    def _gm_us(self, once: tuple[float, float, float, float]) -> float:
        m, n, k = self.sizes
        rate = constant("gm_bandwidth_bytes_per_s", self.soc)
        return max(once[2], (m * k + k * n) * 2 / rate * 1e6)

    def _run(self, point: Point, tiles: int, core: tuple[int, int]) -> tuple[float, float, float, float]:
        m, n, k = self.sizes
        layout = (int(self.is_fractal), int(self.is_row_major))
        values = (m, n, k, *self.base, *self.steps, *core, tiles, 0, 0, *layout, 0, _ALL)
        launch = Launch(
            "gemm.cpp", "gemm", self.blocks, (2 * m * k, 2 * n * k + 65536, 2 * m * n), values, self.soc, True
        )
        report = report_of(launch)
        return (report["launch_us"], *seconds_of(report, point))


def product(point: Point) -> float:
    """Return the time of a matrix product; the tiling is that of the point, where it is stated."""
    require_one_kind(point)
    shapes, tiling = point["shapes"], point["tiling"]
    if not isinstance(shapes, dict) or not {"m", "n", "k"} <= set(shapes):
        raise NotRunError("the product is part of another kernel, which is not described")
    grid = tuple(map(int, tiling["core_grid"].split("x"))) if "core_grid" in tiling else None
    single = tiling.get("single_core_mnk") or tiling.get("single_core_mn")
    step = tiling.get("stepK", 4)
    is_norm = "Norm template" in point["variant"]
    halves = item_bytes(dtype_of(point)) / 2  # of an element: the kernel has elements of 2 bytes
    base = tiling.get("base_mnk") or tiling.get("l0_mnk") or (128, 256, 64 / halves)
    steps = (1, 1) if is_norm else (tiling.get("stepKa", step), tiling.get("stepKb", step))
    gemm = Gemm(
        shapes["m"],
        shapes["n"],
        max(16, round(shapes["k"] * halves)),
        soc_of(point),
        blocks=tiling.get("block_dim"),
        base=(*base[:2], round(base[2] * halves)),
        grid=grid,
        core=tuple(single[:2]) if single else None,
        steps=steps,
        is_fractal=shapes.get("b_format") == "zN",
        is_row_major=not shapes.get("b_transposed") and shapes.get("b_format") in {None, "RowMajor"},
    )
    launch, *times = gemm.times(point)
    return launch + max(times)
