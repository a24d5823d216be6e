"""Define shared plans: their inputs in a spec, their fields in the tiling data, and their guarantees for kernels.

`tiling.plan` names one of them instead of a header of the operator; the C++ is `op_host/common/<name>.h`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A size that a spec states as an expression in `tiling.work`."""

    name: str
    meaning: str
    is_optional: bool = False


@dataclass(frozen=True)
class Filled:
    """A field of the tiling data that a shared plan fills: name, type, meaning."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class SharedPlan:
    """A shared plan.

    Attributes:
        name: Its name in `tiling.plan`.
        work: The sizes it plans for.
        fields: The first fields of the tiling data; those of the spec follow.
        needs_barrier: Whether kernels need a barrier of all cores.
    """

    name: str
    work: tuple[Quantity, ...]
    fields: tuple[Filled, ...]
    needs_barrier: bool = False


_RESERVED = Quantity("reserved_bytes", "bytes of UB that a core needs besides", is_optional=True)
_PLANNED = Filled("planned_ub_bytes", "int32", "Bytes of all buffers in UB.")
_ROW_FIELDS = (
    Filled("rows", "int64", "Rows of the whole problem."),
    Filled("columns", "int64", "Elements of a row."),
    Filled("row_blocks", "int32", "Cores; their numbers of rows differ by one at most."),
    Filled("tile_rows", "int32", "Rows that are reduced at once; 1 where a row needs several tiles."),
    Filled(
        "tile_columns",
        "int32",
        "Elements of a row that fit at once: all of them, or a multiple of 128 of them.",
    ),
    _PLANNED,
)
_ALL = (
    SharedPlan(
        "elementwise",
        (
            Quantity("elements", "elements of the whole problem"),
            Quantity("bytes_per_element", "bytes of UB that all buffers together need for one element of a tile"),
            _RESERVED,
        ),
        (
            Filled("elements", "int64", "Elements of the whole problem."),
            Filled("share", "int64", "Elements of a core, a multiple of 128; the last core may have fewer."),
            Filled("tile", "int32", "Elements that fit into the buffers at once, a multiple of 128."),
            _PLANNED,
        ),
    ),
    SharedPlan(
        "row_reduction",
        (
            Quantity("rows", "rows, each of which is reduced separately"),
            Quantity("columns", "elements of a row"),
            Quantity("bytes_per_element", "bytes of UB that all buffers together need for one element of a tile"),
            Quantity(
                "bytes_per_row", "bytes of UB that a row of a tile needs besides, as its result", is_optional=True
            ),
            _RESERVED,
        ),
        _ROW_FIELDS,
    ),
    SharedPlan(
        "row_column_reduction",
        (
            Quantity("rows", "rows, each of which is reduced separately"),
            Quantity("columns", "elements of a row, each with a sum over all rows"),
            Quantity("bytes_per_element", "bytes of UB that all buffers together need for one element of a tile"),
            Quantity("bytes_per_column", "bytes of UB that the buffers for all columns need for one column"),
            Quantity("bytes_per_row", "bytes of UB that a row of a tile needs besides", is_optional=True),
            Quantity("sums", "sums of each column; default: 1", is_optional=True),
            _RESERVED,
        ),
        (
            *_ROW_FIELDS,
            Filled("partial_pitch", "int64", "Floats from one row of the workspace to the next; 0 for one core."),
        ),
        needs_barrier=True,
    ),
    SharedPlan(
        "segmented_rows",
        (
            Quantity("rows", "rows of all segments together"),
            Quantity("columns", "elements of a row"),
            Quantity(
                "segments",
                "runs of rows, each of which is reduced separately; their ends may be known only on the device",
            ),
            Quantity("element_bytes", "bytes of one element in global memory"),
            Quantity("bytes_per_column", "bytes of UB that all buffers together need for one column of a tile"),
            _RESERVED,
        ),
        (
            Filled("rows", "int64", "Rows of all segments together."),
            Filled("columns", "int64", "Elements of a row."),
            Filled("segments", "int64", "Segments, those without rows included."),
            Filled("slice_width", "int64", "Columns of a core; the last slice may have fewer."),
            Filled("partial_pitch", "int64", "Floats from one parked row of the workspace to the next."),
            Filled("column_slices", "int32", "The cores form a grid of row blocks times column slices."),
            Filled("row_blocks", "int32", "Row blocks of the grid; each may store two rows in the workspace."),
            Filled("tile_width", "int32", "Columns that fit into the buffers at once."),
            _PLANNED,
        ),
        needs_barrier=True,
    ),
)
SHARED_PLANS = {shared_plan.name: shared_plan for shared_plan in _ALL}
