"""Evaluate vendor kernels without a public tiling by a generic structure: rows in tiles, instructions over each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from opforge.codegen.data.products import SOCS
from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text, shown
from opforge.codegen.untrusted import read_json

from .attention import attention
from .described import seconds_of
from .products import products
from .runner import KERNELS, Launch, NotRunError, constant, launch_us, report_of
from .series import Point, attrs_of, dtype_of, elements_of, item_bytes, require_one_kind, soc_of, tensors_of

STRUCTURES = KERNELS / "structures.json"


class _File(TypedDict):
    series: dict[str, dict[str, Any]]


_FORM = TypeAdapter(_File)
_CHUNK = 256  # elements of a row of an elementwise kernel
_TILE_BYTES = 16384
_MOST_INSTRUCTIONS = 400_000
_MOST_TILES = 4000  # of a core without instructions
_SMALL = 256  # times the bytes of a tensor that is read once
_INNER = 64  # elements of a part of an inner axis


@lru_cache(maxsize=1)
def structures() -> dict[str, dict[str, Any]]:
    """Return the generic structure of each series; a calibration changes this table."""
    found = read_json(STRUCTURES, _FORM, "file of structures", "restore the file")["series"]
    for name, structure in found.items():
        if "skip" not in structure and structure.get("kind") not in KINDS:
            raise UserError(
                f"{path_text(STRUCTURES)}: {name}.kind: got {shown(structure.get('kind'))}, restore the file"
            )
    return dict(found)


@dataclass(frozen=True)
class Work:
    """Instructions of a generic vector kernel.

    Attributes:
        operations: For each tile.
        row_operations: For each row.
        odd_operations: For each row whose bytes are no multiple of 32.
        table_reads: Of the scalar unit, for each element of a table.
    """

    operations: int = 1
    row_operations: int = 0
    odd_operations: int = 0
    table_reads: int = 0


IDLE = Work()


class Stream:
    """Rows and bytes of a generic vector kernel.

    Attributes:
        rows: Rows of the first tensor; chunks of 256 elements if the kernel is elementwise.
        elements: Elements of a row.
        unit: Rows that one core processes, for example the channels of a group.
        is_odd: Whether the bytes of a row are no multiple of 32, so that the kernel processes row by row.
        read: Bytes that are read for each row.
        written: Bytes that are written for each row.
        inputs: Tensors that are read.
        table: Elements that each core reads with the scalar unit.
    """

    def __init__(self, point: Point, structure: Mapping[str, Any]) -> None:
        tensors = tensors_of(point)
        main = structure.get("main", 0)
        if len(tensors) <= main:
            raise NotRunError("the point states no shapes")
        first, size = tensors[main]
        total = elements_of(first)
        if total < 1:
            raise NotRunError("a tensor has no elements")
        lists = [shape for shape in point["shapes"] if shape] if isinstance(point["shapes"], list) else []
        if lists and isinstance(lists[0][0], list):  # lists of tensors
            total *= len(lists[0])
        self.soc = soc_of(point)
        cores = SOCS[self.soc].aiv
        self.elements, self.unit = _CHUNK, 1
        if structure["kind"] == "rows":
            self.elements, self.unit = _row_and_unit(first, attrs_of(point), structure, cores)
        self.rows = -(-total // self.elements)
        self.is_odd = structure["kind"] == "rows" and round(self.elements * size) % 32 != 0
        # Small tensors stay in the unified buffer.
        sizes = [elements_of(shape) * item for shape, item in tensors]
        read = sum(number for number in sizes if number * _SMALL >= max(sizes)) * structure.get("reads", 1)
        self.inputs = min(4, structure.get("inputs", 1))
        self.read = max(1, round(read / self.rows / self.inputs))
        item = structure.get("output_bytes") or size
        self.written = max(1, round(structure.get("outputs", 1) * self.elements * item))
        has_table = "table" in structure and len(tensors) > structure["table"]
        self.table = elements_of(tensors[structure["table"]][0]) if has_table else 0
        self.buffers = structure.get("buffers", 2)
        bytes_of_row = max((self.read + 31) // 32 * 32 * self.inputs, (self.written + 31) // 32 * 32)
        if bytes_of_row > _TILE_BYTES:  # a long row in several parts
            parts = -(-bytes_of_row // _TILE_BYTES)
            self.rows *= parts
            self.unit *= 1 if structure.get("is_sort") else parts  # the cores share a long row of a selection
            self.elements = -(-self.elements // parts)
            self.read, self.written = -(-self.read // parts), -(-self.written // parts)
            bytes_of_row = -(-bytes_of_row // parts)
        self.blocks = min(cores, -(-self.rows // self.unit))
        self.tile = max(1, min(_TILE_BYTES // bytes_of_row, self.core_rows, 4095))

    @property
    def core_rows(self) -> int:
        """Rows of the busiest core."""
        units = -(-self.rows // self.unit)
        return -(-units // self.blocks) * self.unit

    def launch(self, work: Work, tiles: int) -> Launch:
        """Return the launch of `tiles` tiles of a core with these instructions."""
        values = (
            self.rows,
            self.unit,
            self.tile,
            self.elements,
            self.inputs,
            self.read,
            1,
            self.written,
            work.operations,
            work.row_operations + (work.odd_operations if self.is_odd else 0),
            self.table * work.table_reads,
            self.buffers,
            tiles,
        )
        sizes = (self.rows * self.read * self.inputs, self.rows * self.written)
        return Launch("stream.cpp", "stream", self.blocks, sizes, values, self.soc)

    @property
    def tiles(self) -> int:
        """Return the number of tiles of the busiest core."""
        return -(-self.core_rows // self.tile)

    def times(self, point: Point, work: Work) -> tuple[float, float]:
        """Return launch overhead and the time of the kernel; only a part of a long kernel runs."""
        rows = work.row_operations + (work.odd_operations if self.is_odd else 0)
        each = work.operations * -(-self.tile * self.elements // 4096) + rows * self.tile + 12
        few = max(4, _MOST_INSTRUCTIONS // self.blocks // each)
        launch, idle, shared = self.idle(point)
        if work == IDLE:
            return launch, max(idle, shared)
        if self.tiles <= few:
            core = seconds_of(report_of(self.launch(work, self.tiles)), point)[0]
        else:
            half, whole = (
                seconds_of(report_of(self.launch(work, count)), point)[0] for count in (max(1, few // 2), few)
            )
            core = whole + (whole - half) / (few - max(1, few // 2)) * (self.tiles - few)
        return launch, max(core, shared)

    def idle(self, point: Point) -> tuple[float, float, float]:
        """Return launch overhead, and the times of the cores and of the memories with one instruction for each tile."""
        tiles = min(self.tiles, _MOST_TILES)
        report = report_of(self.launch(IDLE, tiles))
        core, *others = seconds_of(report, point)
        return float(report["launch_us"]), core * self.tiles / tiles, max(others) * self.tiles / tiles


def _row_and_unit(
    shape: tuple[int, ...], attrs: Mapping[str, Any], structure: Mapping[str, Any], cores: int
) -> tuple[int, int]:
    """Return the elements of a row, and the rows that one core processes together."""
    kind = structure.get("rows", "last")
    if kind == "channels" and len(shape) > 1:
        groups = max(1, int(attrs.get("num_groups", 1)))
        if len(shape) == 2:  # no row has more than one element: the rows are the groups
            return max(1, shape[1] // groups), 1
        return elements_of(shape[2:]), max(1, shape[1] // groups)
    if kind == "pool":
        return elements_of(shape[2:]), 1
    if kind == "element":
        return 1, 1
    if structure.get("is_sort"):
        return shape[int(attrs.get("dim", -1))], 1
    if is_inner(shape, attrs, structure):
        axis = int(attrs["dim"]) % len(shape)
        outer, inner = elements_of(shape[:axis]), elements_of(shape[axis + 1 :])
        parts = min(-(-inner // _INNER), -(-cores // outer))
        return -(-inner // parts), shape[axis]
    return shape[-1], 1


def is_inner(shape: tuple[int, ...], attrs: Mapping[str, Any], structure: Mapping[str, Any]) -> bool:
    """Return whether a kernel goes along another axis than the last one."""
    axis = attrs.get("dim", -1)
    has_axis = structure.get("rows") == "axis" and isinstance(axis, int) and -len(shape) <= axis < len(shape)
    return has_axis and axis % len(shape) != len(shape) - 1 and elements_of(shape[axis % len(shape) + 1 :]) > 1


def group_of(point: Point, structure: Mapping[str, Any]) -> str:
    """Return the key of the number of instructions: the dtype, "inner" for an inner axis, or the variant."""
    if structure.get("group") == "variant":
        return str(point["variant"])
    shapes = tensors_of(point)
    return "inner" if shapes and is_inner(shapes[0][0], attrs_of(point), structure) else dtype_of(point)


def operations_of(point: Point, structure: Mapping[str, Any]) -> int:
    """Return the instructions over a tile; a group without points takes the mean of its element size, or of all."""
    numbers: Mapping[str, int] = structure.get("operations", {})
    group = group_of(point, structure)
    near = [number for name, number in numbers.items() if item_bytes(name) == item_bytes(group)]
    others = near or list(numbers.values())
    return numbers.get(group) or (round(statistics.geometric_mean(others)) if others else 0)


def host_us(point: Point) -> float:
    """Return the additional overhead in times measured on the host."""
    is_host = point.get("timing", "").startswith("host timer")
    return float(constant("host_launch_seconds", soc_of(point)) * 1e6) if is_host else 0.0


def work_of(structure: Mapping[str, Any], operations: int) -> Work:
    """Return the instructions of a structure."""
    return Work(operations, *(structure.get(name, 0) for name in ("row_operations", "odd_operations", "table_reads")))


def heap_steps(point: Point, structure: Mapping[str, Any]) -> float | None:
    """Return the steps of a selection with a heap: integers have no sort instruction. None for other kernels."""
    tensors = tensors_of(point)
    if not structure.get("is_sort") or not tensors or "float" in dtype_of(point):
        return None
    shape, attrs = tensors[0][0], attrs_of(point)
    length = shape[int(attrs.get("dim", -1))]
    count = min(length, max(1, int(attrs.get("k", length))))
    # Of elements in random order, the heap accepts the first ones and k / i of the others.
    accepted = count * (1 + math.log(length / count))
    return elements_of(shape) / length * accepted * max(1.0, math.log2(count))


def stream(point: Point, structure: Mapping[str, Any]) -> float:
    """Return the estimate of a vector kernel."""
    steps = heap_steps(point, structure)
    if steps is not None:  # the kernel also reads all elements
        return launch_us(soc_of(point)) + max(
            steps * structure.get("heap_ns", 0.0) / 1e3, *Stream(point, structure).idle(point)[1:]
        )
    work = work_of(structure, operations_of(point, structure))
    launch, us = Stream(point, structure).times(point, work)
    return launch + host_us(point) + structure.get("fixed_us", 0.0) + us


KINDS = {"elements": stream, "rows": stream, "products": products, "attention": attention}


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
    require_one_kind(point)
    return KINDS[structure["kind"]](point, structure)
