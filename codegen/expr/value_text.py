"""Format values, shapes and alternatives for messages."""

from __future__ import annotations

from collections.abc import Sequence

from .attr_kinds import AttrValue
from .tree import single_precision

_MOST_ITEMS = 8


def alternatives(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def shape_text(shape: Sequence[int | None] | None) -> str:
    """`shape [4, ?]`, or `a shape of unknown rank`."""
    if shape is None:
        return "a shape of unknown rank"
    return f"shape {dims_text(shape)}"


def dims_text(dims: Sequence[int | None]) -> str:
    """`[4, ?]`."""
    return f"[{', '.join('?' if dim is None or dim < 0 else str(dim) for dim in dims)}]"


def tensors_text(shapes: Sequence[Sequence[int | None] | None]) -> str:
    """`2 tensors [4, ?], [3]`; for a long list, the first shapes."""
    shown = ["?" if shape is None else dims_text(shape) for shape in shapes[:_MOST_ITEMS]]
    more = ", ..." if len(shapes) > _MOST_ITEMS else ""
    return f"{count_text(len(shapes))} {', '.join(shown)}{more}" if shapes else "no tensors"


def count_text(count: int) -> str:
    """`2 tensors`."""
    return f"{count} tensor{'' if count == 1 else 's'}"


def value_text(value: AttrValue | None) -> str:
    """Return an attribute or host list as text; for a long list, the first values and their number."""
    if isinstance(value, tuple | list):
        shown = ", ".join(map(value_text, value[:_MOST_ITEMS]))
        return f"[{shown}, ... {len(value)} values]" if len(value) > _MOST_ITEMS else f"[{shown}]"
    if isinstance(value, float):
        return f"{single_precision(value):g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
