"""Hardware figures of the SoCs and the constants of the time model, and the C++ tables made of them."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.spec.dtypes import CANN_DTYPES
from opforge.codegen.spec.products import DEFAULT_SOC, PRODUCTS

TWIN = Path(__file__).resolve().parent.parent


@lru_cache(maxsize=1)
def npu_model() -> dict[str, Any]:
    """Hardware figures of the SoCs and the constants of the time model (twin/npu_model.json)."""
    model: dict[str, Any] = json.loads((TWIN / "npu_model.json").read_text(encoding="utf-8"))
    return model


def soc_properties(soc: str) -> dict[str, Any]:
    """The figures of one SoC.

    Raises:
        UserError: The SoC is unknown.
    """
    socs = npu_model()["soc"]
    if not isinstance(soc, str) or soc not in socs:
        raise UserError(f"soc: got {shown(soc)}, expected a chip, as in Ascend910B1: {known_socs()}")
    properties: dict[str, Any] = socs[soc]
    return properties


def known_socs() -> str:
    """The directories of SoCs, each with its chips."""
    socs = npu_model()["soc"]
    chips = {soc["dir"]: [name for name, other in socs.items() if other["dir"] == soc["dir"]] for soc in socs.values()}
    return ", ".join(f"{directory} ({', '.join(names)})" for directory, names in chips.items())


def tables() -> dict[str, str]:
    """The text of each table that the twin's C++ sources include, by file name."""
    return {
        "soc_table.inc": _soc_table(),
        "dtype_table.inc": _dtype_table(),
        "product_table.inc": _product_table(),
        "time_model.inc": _time_model(),
    }


def _soc_table() -> str:
    """The default SoC is the first."""
    rows = []
    for name, soc in sorted(npu_model()["soc"].items(), key=lambda row: row[0] != DEFAULT_SOC):
        cores = soc.get("cores", 0)
        numbers = [soc.get("aic", cores), soc.get("aiv", cores), soc["mhz"], soc["ub"], soc["l1"]]
        numbers += [soc.get(key, 0) for key in ("l0a", "l0b", "l0c", "l2")]
        rows.append(f'OPFORGE_SOC("{name}", "{soc["dir"]}", {soc["arch"]}, {", ".join(map(str, numbers))})\n')
    return "".join(rows)


def _dtype_table() -> str:
    return "".join(f'OPFORGE_DTYPE({dtype.ge}, "{dtype.name}", {dtype.bytes})\n' for dtype in CANN_DTYPES)


def _product_table() -> str:
    return "".join(
        f'OPFORGE_PRODUCT("{family.name}", {family.version}, {family.tiling_version or family.version})\n'
        for family in PRODUCTS.values()
    )


def _time_model() -> str:
    lines = []
    for name, constant in npu_model()["constants"].items():
        values = constant["value"] if isinstance(constant["value"], dict) else {"": constant["value"]}
        for suffix, value in values.items():
            if isinstance(value, int | float):
                words = f"{name}_{suffix}".strip("_").split("_")
                lines.append(f"inline constexpr double k{''.join(map(str.capitalize, words))} = {float(value)!r};\n")
    return "".join(lines)
