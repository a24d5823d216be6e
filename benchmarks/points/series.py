"""Read the fields of published points: devices, sizes, and the bytes and rows of generic kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from opforge.codegen.data.products import DEFAULT_SOC, SOCS
from opforge.codegen.printing import shown

from .runner import NotRunError

Point = Mapping[str, Any]

_NEAR = 0.06
_BYTES = {"4": 0.5, "8": 1, "16": 2, "32": 4, "64": 8}


def named_soc(point: Point) -> str:
    """Return the SoC that the source of a point names; empty if it names none."""
    found = re.match(r"Ascend\w+", point["device"])
    return found[0] if found else ""


def soc_of(point: Point) -> str:
    """Return the SoC with the right constants; for an unnamed chip, the number of cores on the page selects it.

    Raises:
        NotRunError: The model has no such chip.
    """
    if name := named_soc(point):
        # The kernels of benchmarks/published are for the architecture of the default SoC.
        if name not in SOCS or SOCS[name].arch != SOCS[DEFAULT_SOC].arch:
            raise NotRunError(f"device: the time model has no constants of {name}")
        return name
    device = point["device"]
    product = re.search(r"\bA([23])\b", device)
    if product is None:
        raise NotRunError(f"device: got {shown(device)}, expected a chip as Ascend910B1, or the product A2 or A3")
    if product[1] == "3":
        return "Ascend910_9391"
    return "Ascend910B3" if "20 cube cores" in device else "Ascend910B1"


def require_one_kind(point: Point) -> None:
    """Reject kernels that use cube and vector cores.

    Raises:
        NotRunError: The kernel uses both.
    """
    if "MIX" in str(point["tiling"].get("kernel_type", "")):
        raise NotRunError("a mixed kernel whose vector part is not described")


def attrs_of(point: Point) -> Mapping[str, Any]:
    """Return the attributes of a call; empty if none are stated."""
    return (point.get("tiling") or {}).get("attrs") or {}


def dtype_of(point: Point) -> str:
    """Return the dtype of the first tensor."""
    dtypes = point["dtypes"]
    return str(dtypes[0]) if isinstance(dtypes, list) else _first(dtypes)


def item_bytes(dtype: str | None) -> float:
    """Return the bytes of an element of a dtype name: float16, bf16, int8, complex64, bool."""
    if not dtype or dtype == "bool":
        return 1
    if "complex" in dtype:
        return 8
    found = re.search(r"\d+", dtype)
    return _BYTES.get(found[0], 4) if found else 4


def tensors_of(point: Point) -> list[tuple[tuple[int, ...], float]]:
    """Return shape and element bytes of each tensor; lists of tensors count one by one."""
    shapes, dtypes = point["shapes"], point["dtypes"]
    if isinstance(shapes, Mapping):
        elements = shapes.get("elements") or shapes.get("out_elements_about")
        return [((_count(elements),), item_bytes(_first(dtypes)))] if elements else []
    found = []
    for index, shape in enumerate(shapes or []):
        dtype = dtypes[min(index, len(dtypes) - 1)] if isinstance(dtypes, list) else _first(dtypes)
        found += [(flat, item_bytes(dtype)) for flat in _flat(shape)]
    return found


def _first(dtypes: Any) -> str:
    """Return the dtype of the inputs in "float32 in, complex64 out"."""
    return str(dtypes).split(" ")[0]


def _count(text: str | int) -> int:
    """Return a number of elements; "134M" means the nearest power of two."""
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"([\d.]+)([KM]?)", text)
    if not found:
        return 0
    about = float(found[1]) * {"": 1, "K": 1e3, "M": 1e6}[found[2]]
    power = 1 << round(math.log2(about))
    return power if abs(power / about - 1) < _NEAR else int(about)


def _flat(shape: Any) -> Iterator[tuple[int, ...]]:
    if shape is None:
        return
    if shape and isinstance(shape[0], list):
        for inner in shape:
            yield from _flat(inner)
    else:
        yield tuple(shape)


def elements_of(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)
