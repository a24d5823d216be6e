"""Evaluate vendor kernels without a public tiling by a generic structure: rows in tiles, instructions over each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from opforge.codegen.data.products import SOCS

from .described import Gemm, seconds_of
from .runner import KERNELS, Launch, NotRunError, constant, report_of
from .series import Point, elements_of, item_bytes, soc_of, tensors_of

STRUCTURES = KERNELS / "structures.json"
_CHUNK = 256  # elements of a row of an elementwise kernel
_TILE_BYTES = 16384
_MOST_INSTRUCTIONS = 400_000


@lru_cache(maxsize=1)
def structures() -> dict[str, dict[str, Any]]:
    """Return the generic structure of each series."""
    table: dict[str, dict[str, Any]] = json.loads(STRUCTURES.read_text(encoding="utf-8"))["series"]
    return table


class Stream:
    """Rows and bytes of a generic vector kernel.

    Attributes:
        rows: Rows of the first tensor; chunks of 256 elements if the kernel is elementwise.
        elements: Elements of a row.
        read: Bytes that are read for each row.
        written: Bytes that are written for each row.
        inputs: Tensors that are read.
    """

    def __init__(self, point: Point, structure: Mapping[str, Any]) -> None:
        tensors = tensors_of(point)
        if not tensors:
            raise NotRunError("the point states no shapes")
        attrs = (point.get("tiling") or {}).get("attrs") or {}
        first = tensors[structure.get("main", 0)][0]
        total = elements_of(first)
        lists = [shape for shape in point["shapes"] if shape] if isinstance(point["shapes"], list) else []
        if lists and isinstance(lists[0][0], list):  # lists of tensors
            total *= len(lists[0])
        columns = _CHUNK
        if structure["kind"] == "rows":
            columns = _columns(first, attrs, structure)
        self.elements = columns
        self.rows = max(1, total // columns if structure["kind"] == "rows" else -(-total // columns))
        dtypes = point["dtypes"]
        size = item_bytes(dtypes[0] if isinstance(dtypes, list) else str(dtypes).split(" ")[0])
        read = sum(elements_of(shape) * item for shape, item in tensors) * structure.get("reads", 1)
        self.inputs = min(4, structure.get("inputs", 1))
        self.read = max(1, round(read / self.rows / self.inputs))
        item = structure.get("output_bytes") or size
        self.written = max(1, round(structure.get("outputs", 1) * self.elements * item))
        self.soc = soc_of(point)
        self.blocks = min(SOCS[self.soc].aiv, self.rows)
        self.buffers = structure.get("buffers", 2)
        bytes_of_row = max((self.read + 31) // 32 * 32 * self.inputs, (self.written + 31) // 32 * 32)
        self.tile = max(1, min(_TILE_BYTES // bytes_of_row, -(-self.rows // self.blocks), 4095))
        if self.tile * bytes_of_row > _TILE_BYTES:  # a long row in several parts
            parts = -(-bytes_of_row // _TILE_BYTES)
            self.rows *= parts
            self.elements = -(-self.elements // parts)
            self.read, self.written = -(-self.read // parts), -(-self.written // parts)
            self.tile = 1
            self.blocks = min(SOCS[self.soc].aiv, self.rows)

    def launch(self, operations: int, row_operations: int, tiles: int) -> Launch:
        """Return the launch of `tiles` tiles of a core, with these instructions for each tile and each row."""
        values = (
            self.rows,
            self.tile,
            self.elements,
            self.inputs,
            self.read,
            1,
            self.written,
            operations,
            row_operations,
            self.buffers,
            tiles,
        )
        sizes = (self.rows * self.read * self.inputs, self.rows * self.written)
        return Launch("stream.cpp", "stream", self.blocks, sizes, values, self.soc)

    @property
    def tiles(self) -> int:
        """Return the number of tiles of the busiest core."""
        return math.ceil(math.ceil(self.rows / self.blocks) / self.tile)

    def times(self, point: Point, operations: int, row_operations: int) -> tuple[float, float]:
        """Return launch overhead and the time of the kernel; only a part of a long kernel runs."""
        each = operations * -(-self.tile * self.elements // 4096) + row_operations * self.tile + 12
        few = max(4, _MOST_INSTRUCTIONS // self.blocks // each)
        plain = report_of(self.launch(0, 0, self.tiles))
        idle, gm_us, l2_us = seconds_of(plain, point)
        if operations + row_operations == 0:
            return float(plain["launch_us"]), max(idle, gm_us, l2_us)
        if self.tiles <= few:
            core = seconds_of(report_of(self.launch(operations, row_operations, self.tiles)), point)[0]
        else:
            half, whole = (
                seconds_of(report_of(self.launch(operations, row_operations, count)), point)[0]
                for count in (few // 2, few)
            )
            core = whole + (whole - half) / (few - few // 2) * (self.tiles - few)
        return float(plain["launch_us"]), max(core, gm_us, l2_us)


def _columns(shape: tuple[int, ...], attrs: Mapping[str, Any], structure: Mapping[str, Any]) -> int:
    """Return the elements of a row: those of the last dimension, of `dim`, or of a group."""
    if structure.get("columns") == "group" and "num_groups" in attrs:
        return max(1, elements_of(shape[1:]) // int(attrs["num_groups"]))
    if structure.get("columns") == "pool":
        return elements_of(shape[2:])
    return shape[-1]


def group_of(point: Point, structure: Mapping[str, Any]) -> str:
    """Return the key of the number of instructions: the bytes of an element, or the variant of the kernel."""
    if structure.get("group") == "variant":
        return str(point["variant"])
    dtypes = point["dtypes"]
    return f"{item_bytes(dtypes[0] if isinstance(dtypes, list) else str(dtypes).split(' ')[0]):g}"


def operations_of(point: Point, structure: Mapping[str, Any]) -> int:
    """Return the instructions over a tile; a group without points uses the maximum."""
    numbers: Mapping[str, int] = structure.get("operations", {})
    return numbers.get(group_of(point, structure), max(numbers.values(), default=0))


def host_us(point: Point) -> float:
    """Return the additional overhead in times measured on the host."""
    is_host = point.get("timing", "").startswith("host timer")
    return float(constant("host_launch_seconds", soc_of(point)) * 1e6) if is_host else 0.0


def stream(point: Point, structure: Mapping[str, Any]) -> float:
    """Return the estimate of a vector kernel."""
    launch, us = Stream(point, structure).times(
        point, operations_of(point, structure), structure.get("row_operations", 0)
    )
    return launch + host_us(point) + structure.get("fixed_us", 0.0) + us


def products_of(point: Point) -> tuple[list[tuple[int, int, int]], float, float]:
    """Return the sizes of the products of a point, and the bytes of an element of each factor."""
    tensors = tensors_of(point)
    (a, a_bytes), (b, b_bytes) = tensors[0], tensors[1]
    n, k = b[-1], a[-1]
    if b[-2] != k and b[-1] == k:
        n = b[-2]
    if len(a) == 2 and len(b) == 3:
        groups = b[0]
        attrs = point["tiling"].get("attrs") or {}
        ends = attrs.get("group_list") or [a[0] * (index + 1) // groups for index in range(groups)]
        rows = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
        return [(max(1, count), n, k) for count in rows if count > 0], a_bytes, b_bytes
    return [(math.prod(a[:-1]) if len(b) == 2 else a[-2], n, k)] * (a[0] if len(b) == 3 else 1), a_bytes, b_bytes


def product_times(point: Point, structure: Mapping[str, Any]) -> tuple[float, float]:
    """Return launch overhead and time of the matrix products of a point: their tiles are on all cores at once."""
    sizes, a_bytes, b_bytes = products_of(point)
    soc = soc_of(point)
    n, k = sizes[0][1:]
    depth = max(16, round(k * (a_bytes + b_bytes) / 4)) if a_bytes != 4 else 2 * k
    base = best_base([m for m, _, _ in sizes], n, SOCS[soc].aic, depth)
    rows = sum(-(-m // base[0]) for m, _, _ in sizes) * base[0] if len(sizes) > 1 else sizes[0][0]
    gemm = Gemm(rows, n, depth, soc, base=(*base, 64), is_fractal=bool(structure.get("is_fractal")))
    launch, core, gm_us, l2_us = gemm.times(point)
    factors = sum(m for m, _, _ in sizes) * k * a_bytes + len(sizes) * k * n * b_bytes
    return launch, max(core, gm_us, l2_us, factors / constant("gm_bandwidth_bytes_per_s", soc) * 1e6)


def best_base(rows: list[int], n: int, cores: int, k: int) -> tuple[int, int]:
    """Return rows and columns of a product of the cube unit with the least work for the busiest core."""

    def load(base: tuple[int, int]) -> float:
        tiles = sum(-(-m // base[0]) for m in rows) * -(-n // base[1])
        return -(-tiles // cores) * max(base[0] * base[1] * k / 4096, (base[0] + base[1]) * 2 * k / 80)

    bases = [
        (down, across)
        for down in (16, 32, 48, 64, 96, 128, 160, 192, 256)
        for across in (16, 32, 48, 64, 96, 128, 160, 176, 192, 224, 256)
        if down * across * 4 <= 131072 and down <= -(-max(rows) // 16) * 16 and across <= -(-n // 16) * 16
    ]
    return min(bases, key=lambda base: (load(base), -base[0] * base[1]))


def products(point: Point, structure: Mapping[str, Any]) -> float:
    """Return the estimate of a kernel of matrix products."""
    launch, us = product_times(point, structure)
    return launch + structure.get("fixed_us", 0.0) + structure.get("factor", 1.0) * us


def generic(point: Point) -> float:
    """Return the estimate by the generic structure of the series.

    Raises:
        NotRunError: The series has no structure.
    """
    structure = structures().get(point["series"])
    if structure is None:
        raise NotRunError("the structure of the kernel is not described, and no generic structure fits")
    if "skip" in structure:
        raise NotRunError(structure["skip"])
    return products(point, structure) if structure["kind"] == "products" else stream(point, structure)
