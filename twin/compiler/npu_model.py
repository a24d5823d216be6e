"""Read the constants of the time model, and print the tables that the twin's C++ sources include."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from opforge.codegen.data.dtypes import CANN_DTYPES
from opforge.codegen.data.products import ARCHITECTURES, PRODUCTS, SOCS
from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line, path_text, shown
from opforge.twin.cpp_text import template

TWIN = Path(__file__).resolve().parent.parent
_KERNEL_SOURCES = TWIN / "src" / "kernel"
_USE = re.compile(r"time_model::(k[A-Z]\w*)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@lru_cache(maxsize=1)
def npu_model() -> dict[str, Any]:
    """Return the constants of the time model (twin/npu_model.json).

    Raises:
        UserError: The file is missing or damaged.
    """
    path = TWIN / "npu_model.json"
    try:
        model: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _require_numbers(model)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path_text(path)}: got a damaged time model ({type(error).__name__}: {first_line(error)}), expected the"
            " file of this version; restore the file, or install opforge again"
        ) from error
    return model


def _require_numbers(model: dict[str, Any]) -> None:
    """Check the numbers of the model.

    Raises:
        ValueError: A constant is missing or no number above 0, or a name or the range of the errors is wrong.
    """
    for name, constant in model["constants"].items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"constants: got the name {shown(name)}, expected lower-case letters, digits and _")
        value = constant["value"]
        numbers = value.values() if isinstance(value, dict) else [value]
        chips = {soc: own["value"] for soc, own in constant.get("soc", {}).items()}
        if isinstance(value, dict) and chips:
            raise ValueError(f"{name}: got values of chips, expected none for a constant with values of dtypes")
        for number in (*numbers, *chips.values()):
            if not (isinstance(number, int | float) and 0 < number < math.inf):
                raise ValueError(f"{name}: got {shown(number)}, expected a number above 0")
    if missing := sorted(_used() - {symbol for symbol, *_ in _constants(model)}):
        raise ValueError(f"constants: {', '.join(map(_constant_name, missing))} missing")
    apart = model["errors"]["left_out"]["all"]
    if not -1 < apart["low"] <= apart["high"] < math.inf:
        raise ValueError(f"errors.left_out: got {apart['low']} to {apart['high']}, expected a range above -1")
    shortest, longest = model["errors"]["calibrated"]["us"]
    if not shortest <= longest:
        raise ValueError(f"errors.calibrated: got {shortest} to {longest} us, expected a range")


def constant_of(name: str, soc: str) -> float:
    """Return a constant of the time model for a chip."""
    entry = npu_model()["constants"].get(name)
    if entry is None:
        raise UserError(f"{path_text(TWIN / 'npu_model.json')}: the constant {name} is missing; restore the file")
    return float(entry.get("soc", {}).get(soc, entry)["value"])


LEVELS = ("strict", "device", "fast")


def require_level(level: str, place: str = "level") -> str:
    """Return a level of checks; `place` is the option or parameter that contains it.

    Raises:
        UserError: The level does not exist.
    """
    if level not in LEVELS:
        raise UserError(f"{place}: got {shown(level)}, expected one of {', '.join(LEVELS)}")
    return level


@lru_cache(maxsize=1)
def check_levels() -> list[dict[str, Any]]:
    """Return the checks that are off in some levels (twin/check_levels.json)."""
    checks: list[dict[str, Any]] = json.loads((TWIN / "check_levels.json").read_text(encoding="utf-8"))["checks"]
    return checks


def error_range() -> tuple[float, float]:
    """Return the range of the device time relative to an estimate.

    The range contains 80 % of the errors of published times. The errors come from fits that do not use the time.
    """
    errors = npu_model()["errors"]["left_out"]["all"]
    return 1 / (1 + errors["high"]) - 1, 1 / (1 + errors["low"]) - 1


def range_text() -> str:
    """Return the range of the error as text: -12 % / +20 %."""
    return " / ".join(f"{100 * share:+.0f} %" for share in error_range())


def outside_texts(reasons: Iterable[str], name: str = "", mark: str = "note:") -> Iterator[str]:
    """Yield a line for each reason why no published time is comparable, without repetition."""
    for reason in dict.fromkeys(reasons):
        yield f"{mark} {name}{': ' if name else ''}outside of the calibrated range: {reason}"


@lru_cache(maxsize=1)
def tables() -> dict[str, str]:
    """Return the text of each table that the twin's C++ sources include, by file name.

    Public headers include those in `include/`.
    """
    rows = {
        "socs": SOCS.values(),
        "arch": ARCHITECTURES,
        "dtypes": CANN_DTYPES,
        "products": PRODUCTS.values(),
        "constants": list(_constants(npu_model())),
        "soc_constants": list(_soc_constants()),
        "error_range": error_range(),
        "published": npu_model()["errors"]["calibrated"],
        "assumed": [name for name, row in npu_model()["constants"].items() if row["status"] == "assumed"],
        "checks": check_levels(),
        "levels": LEVELS,
    }
    printed = vars(template("tables.inc.j2").make_module(rows))
    names = (
        "soc_table",
        "dtype_table",
        "value_type_table",
        "product_table",
        "time_model",
        "time_model_soc",
        "calibrated",
        "check_levels",
        "include/opforge_twin/kernel_dtype_table",
    )
    return {f"{name}.inc": str(printed[Path(name).name]()) for name in names}


def _symbol(name: str) -> str:
    return f"k{''.join(map(str.capitalize, name.split('_')))}"


def _used() -> set[str]:
    """Return the names in C++ of the constants that the twin uses."""
    texts = (path.read_text(encoding="utf-8") for path in _KERNEL_SOURCES.rglob("*.cpp"))
    return {name for text in texts for name in _USE.findall(text)}


def _constant_name(symbol: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", symbol.removeprefix("k")).lower()


def _constants(model: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield the name in C++, the name and the value of each number."""
    for name, constant in model["constants"].items():
        values = constant["value"] if isinstance(constant["value"], dict) else {"": constant["value"]}
        for suffix, value in values.items():
            if isinstance(value, int | float):
                full = f"{name}_{suffix}".strip("_")
                yield _symbol(full), full, float(value)


def _soc_constants() -> Iterator[tuple[str, str, float]]:
    """Yield the SoC, the name in C++ and the value of each number that differs from the default."""
    for name, constant in npu_model()["constants"].items():
        for soc, own in constant.get("soc", {}).items():
            yield soc, _symbol(name), float(own["value"])
