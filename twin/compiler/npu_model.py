"""Read the constants of the time model, and print the tables that the twin's C++ sources include."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from opforge.codegen.spec.dtypes import CANN_DTYPES
from opforge.codegen.spec.products import PRODUCTS, SOCS

TWIN = Path(__file__).resolve().parent.parent


@lru_cache(maxsize=1)
def npu_model() -> dict[str, Any]:
    """Return the constants of the time model (twin/npu_model.json)."""
    model: dict[str, Any] = json.loads((TWIN / "npu_model.json").read_text(encoding="utf-8"))
    return model


LEVELS = ("strict", "device", "fast")


@lru_cache(maxsize=1)
def check_levels() -> list[dict[str, Any]]:
    """Return the checks that are off in some levels (twin/check_levels.json)."""
    checks: list[dict[str, Any]] = json.loads((TWIN / "check_levels.json").read_text(encoding="utf-8"))["checks"]
    return checks


@lru_cache(maxsize=1)
def tables() -> dict[str, str]:
    """The text of each table that the twin's C++ sources include, by file name."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TWIN),
        undefined=StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - C++ text from the tables of the project
    )
    rows = {
        "socs": SOCS.values(),
        "dtypes": CANN_DTYPES,
        "products": PRODUCTS.values(),
        "constants": list(_constants()),
        "checks": check_levels(),
        "levels": LEVELS,
    }
    printed = environment.get_template("tables.inc.j2").make_module(rows)
    names = ("soc_table", "dtype_table", "value_type_table", "product_table", "time_model", "check_levels")
    return {f"{name}.inc": str(getattr(printed, name)()) for name in names}


def _constants() -> Iterator[tuple[str, float]]:
    """Yield the name in C++ and the value of each number."""
    for name, constant in npu_model()["constants"].items():
        values = constant["value"] if isinstance(constant["value"], dict) else {"": constant["value"]}
        for suffix, value in values.items():
            if isinstance(value, int | float):
                words = f"{name}_{suffix}".strip("_").split("_")
                yield f"k{''.join(map(str.capitalize, words))}", float(value)
