"""Find the chip of this machine with npu-smi of the driver or an environment variable."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from opforge.codegen.data.products import PRODUCTS, SOCS
from opforge.package.cann.toolkit import key_values
from opforge.package.places import children

# Environment variable that selects the chip in operator builds.
VARIABLE = "SOC_VERSION"
# Limit of CPU time. The driver either returns immediately or hangs; the limit of elapsed time is five times as long.
SECONDS = 2
_CHIP = re.compile(r"[A-Za-z0-9_]{1,64}")
_ROW = re.compile(r"^\|\s*(\d+)\s+([A-Za-z]*\d\S*)\s*\|\s*[A-Z]", re.MULTILINE)


class Device(NamedTuple):
    """The chip of this machine.

    Attributes:
        chip: Its name: Ascend910B3.
        directory: Its SoC directory: ascend910b; empty if it is unknown to the toolkit and to opforge.
        origin: Source of the information.
    """

    chip: str
    directory: str
    origin: str


def find_device(environment: Mapping[str, str], toolkits: Sequence[Path]) -> Device | None:
    """Return the chip of SOC_VERSION, else the first chip of npu-smi; None if it is unknown."""
    origin = VARIABLE
    chip = environment.get(VARIABLE, "")
    program = shutil.which("npu-smi", path=environment.get("PATH"))
    if not chip and program:
        origin = "npu-smi"
        chip = chip_of(_answer([program, "info"], environment), lambda npu: _board(program, npu, environment))
    return Device(chip, directory_of(chip, toolkits), origin) if chip else None


def chip_of(table: str, board: Callable[[str], str]) -> str:
    """Return the chip in the table of `npu-smi info`; empty if there is none.

    Args:
        table: Output of the program.
        board: Returns the output for the board of one NPU; called if the table has only the family name, as for
            Ascend910_9391.
    """
    row = _ROW.search(table)
    if row is None:
        return ""
    npu, name = row.groups()
    chip = name if name.startswith("Ascend") else f"Ascend{name}"
    if chip in {product.prefix.partition("_")[0] for product in PRODUCTS.values() if product.prefix}:
        number = re.search(r"^\s*NPU Name\s*:\s*(\d{4})\s*$", board(npu), re.MULTILINE)
        chip = f"{chip}_{number[1]}" if number else ""
    return chip


def directory_of(chip: str, toolkits: Sequence[Path]) -> str:
    """Return the SoC directory of a chip: from the toolkit's platform configuration, else from the opforge data."""
    if not _CHIP.fullmatch(chip):
        return ""
    for toolkit in toolkits:
        for system in children(toolkit, "*-linux"):
            if family := key_values(system / "data/platform_config" / f"{chip}.ini").get("Short_SoC_version"):
                return family.lower()
    for product in PRODUCTS.values():
        if product.prefix and chip.startswith(product.prefix):  # the remaining characters are the core count
            return product.name
    return SOCS[chip].dir if chip in SOCS else ""


def _board(program: str, npu: str, environment: Mapping[str, str]) -> str:
    return _answer([program, "info", "-t", "board", "-i", npu, "-c", "0"], environment)


def _answer(command: list[str], environment: Mapping[str, str]) -> str:
    """Return the output of a program; "" if it fails, which means that this machine has no chip."""
    from opforge.codegen.process_limits import MIB, LimitError, Limits
    from opforge.twin.compiler.limited_process import run_limited

    try:
        ended = run_limited(command, Limits(SECONDS, 1024 * MIB, MIB), environment=environment)
    except (OSError, ValueError, LimitError):
        return ""
    return ended.text if ended.status == 0 else ""
