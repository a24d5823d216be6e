"""Check the fields of a published point: each wrong value is a reason with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from opforge.codegen.printing import shown

# Larger numbers are errors of the file; a kernel of such a size would run for hours.
_LARGEST, _MOST_BYTES, _MOST_ELEMENTS = 1 << 31, 1 << 40, 1 << 32
_LONGEST, _MOST_TURNS = 1 << 20, 4096
_MEASURED_US = (1e-3, 1e9)
_CLOCK_MHZ = (100, 10_000)
_MOST_BLOCKS = 1024
_DTYPE = re.compile(r"((float|fp|u?int)(8|16|32|64)|b(float|f)16|complex(64|128)|int4|bool)\b.*")
_AMOUNT = re.compile(r"[1-9]\d{0,9}(\.\d{1,9})?[KM]?")
_GRID = re.compile(r"[1-9]\d{0,3}x[1-9]\d{0,3}")
Kind = tuple[str, Callable[[Any], bool]]


def _is_int(value: Any, least: int = 1, most: int = _LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_amount(value: Any) -> bool:
    """Return whether a value is a number of elements: 4096, 134M."""
    return _is_int(value) or (isinstance(value, str) and _AMOUNT.fullmatch(value) is not None)


def _is_dtype(value: Any) -> bool:
    return value is None or (isinstance(value, str) and _DTYPE.fullmatch(value) is not None)


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(_is_int(size, 0) for size in value)
        and math.prod(size for size in value if size) <= _MOST_ELEMENTS
    )


def _are_shapes(value: Any) -> bool:
    """Return whether a value is a list of shapes; the place of a list of tensors has its shapes, null no tensor."""
    return isinstance(value, list) and all(
        tensor is None or _is_shape(tensor) or (isinstance(tensor, list) and all(map(_is_shape, tensor)))
        for tensor in value
    )


def _sizes(count: int) -> Kind:
    return (
        f"a list of {count} sizes from 1 to {_LONGEST}",
        lambda value: (
            isinstance(value, list) and len(value) == count and all(_is_int(size, 1, _LONGEST) for size in value)
        ),
    )


_COUNT: Kind = ("an integer from 1", _is_int)
_LENGTH: Kind = (f"1 to {_LONGEST}", lambda value: _is_int(value, 1, _LONGEST))
_TURNS: Kind = (f"1 to {_MOST_TURNS}", lambda value: _is_int(value, 1, _MOST_TURNS))
_BYTES: Kind = ("an integer from 0", lambda value: _is_int(value, 0, _MOST_BYTES))
_AXES: Kind = (
    "an integer, or a list of integers",
    lambda value: all(_is_int(axis, -_LARGEST) for axis in (value if isinstance(value, list) else [value])),
)
_TEXT: Kind = ("a text", lambda value: isinstance(value, str))
_FLAG: Kind = ("true or false", lambda value: value in (0, 1))
_TABLE: Kind = ("an object", lambda value: isinstance(value, dict))


def _within(what: str, low: float, high: float) -> Kind:
    """Return the kind of a number within limits."""
    return (
        f"{what} from {low:g} to {high:g}",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high,
    )


_US, _MHZ = _within("a number", *_MEASURED_US), _within("a clock", *_CLOCK_MHZ)
_POINT: Mapping[str, Kind] = {
    "total_us": _US,
    "operator": _TEXT,
    "variant": _TEXT,
    "timing": _TEXT,
    "chip": _TABLE,
    "gm_bytes": _TABLE,
    "tiling": _TABLE,
    "shapes": (
        f"a list of shapes with at most {_MOST_ELEMENTS} elements, or an object with sizes",
        lambda value: isinstance(value, dict) or _are_shapes(value),
    ),
    "dtypes": (
        "a dtype as float16, or a list of dtypes",
        lambda value: (bool(value) and all(map(_is_dtype, value))) if isinstance(value, list) else _is_dtype(value),
    ),
}
_CHIP: Mapping[str, Kind] = {"mhz": _MHZ}
_MOVED: Mapping[str, Kind] = {"read": _BYTES, "written": _BYTES}
_AMOUNTS: Kind = ("a number of elements as 4096 or 16M", _is_amount)
_SHAPES: Mapping[str, Kind] = {
    **dict.fromkeys(("m", "n", "k", "s0", "s1", "head"), _LENGTH),
    **dict.fromkeys(("elements", "out_elements_about"), _AMOUNTS),
}
_TILING: Mapping[str, Kind] = {
    "block_dim": (
        f"1 to {_MOST_BLOCKS} blocks, or a text",
        lambda value: isinstance(value, str) or _is_int(value, 1, _MOST_BLOCKS),
    ),
    "gm_gap_bytes": _BYTES,
    "attrs": _TABLE,
    "core_grid": ("a grid as 2x12", lambda value: isinstance(value, str) and _GRID.fullmatch(value) is not None),
    "tile": _sizes(2),
    "single_core_mn": _sizes(2),
    **dict.fromkeys(("buffers", "ub_offsets", "l2_hint", "data", "kernel_type"), _TEXT),
    **dict.fromkeys(("base_mnk", "l0_mnk", "single_core_mnk"), _sizes(3)),
    **dict.fromkeys(("row_bytes", "dma_bytes", "tile_elements", "elements"), _LENGTH),
    **dict.fromkeys(("rows", "repeats", "copies_per_batch", "copies_in_flight", "batches_in_flight"), _TURNS),
    **dict.fromkeys(("stepK", "stepKa", "stepKb", "dst_stride_blocks"), _TURNS),
}
_ATTRS: Mapping[str, Kind] = {
    "dim": _AXES,
    "k": _COUNT,
    "num_groups": _COUNT,
    "inputLayout": _TEXT,
    "is_causal": _FLAG,
    "transpose_weight": _FLAG,
    "group_list": (
        "a list of integers from 0",
        lambda value: isinstance(value, list) and all(_is_int(end, 0) for end in value),
    ),
}


def _wrong(table: Any, kinds: Mapping[str, Kind], place: str = "") -> Iterator[str]:
    for name, (expected, is_right) in kinds.items():
        value = table.get(name) if isinstance(table, dict) else None
        if value is not None and not is_right(value):
            yield f"{place}{name}: got {shown(value)}, expected {expected}"


def problems_of(point: Mapping[str, Any]) -> Iterator[str]:
    """Yield a reason for each field of a point that has a wrong value; missing fields have none."""
    tiling = point["tiling"]
    yield from _wrong(point, _POINT)
    yield from _wrong(point.get("chip"), _CHIP, "chip.")
    yield from _wrong(point.get("gm_bytes"), _MOVED, "gm_bytes.")
    yield from _wrong(point["shapes"], _SHAPES, "shapes.")
    yield from _wrong(tiling, _TILING, "tiling.")
    yield from _wrong(tiling.get("attrs") if isinstance(tiling, dict) else None, _ATTRS, "tiling.attrs.")
