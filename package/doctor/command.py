"""Implement `opforge doctor`: list the operators that each program of CANN finds, and faults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Any

from opforge.codegen.data.products import DEVICES, PRODUCTS, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.printing import escaped, say
from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_project
from opforge.package.builtin import hidden_op_types
from opforge.package.cann.toolkit import key_values, toolkit_version
from opforge.package.socs import require_directory

from .cann_environment import (
    CUSTOM_PATH,
    ENGINE,
    FUNCTIONS,
    KERNELS,
    OPP_PATH,
    PARSER,
    REGISTRY,
    CannEnvironment,
    Vendor,
)
from .device import find_device
from .fault import Fault
from .faults import find_faults

_MOST_ROWS, _MOST_NAME = 1000, 100
CANN_OWN = "CANN's own"
NOTHING = "nothing"
NOT_VISIBLE = (
    f"no operator package is visible in this shell: neither {CUSTOM_PATH} nor {OPP_PATH} names one; "
    "source FOLDER/vendors/<vendor>/bin/set_env.bash of the installation"
)
PROGRAMS = (REGISTRY, ENGINE, PARSER, FUNCTIONS, KERNELS)


def doctor_command(soc: str | None, product: str | None) -> tuple[dict[str, Any], int]:
    """Print the toolkits, vendors and operators that the variables of this process select, and every fault.

    Args:
        soc: Target chip of the operators.
        product: Its SoC directory. Without both, it is that of this machine or, if it is unknown, every one that a
            vendor lists.

    Returns:
        The printed data as JSON data, and the exit code: 1 if no package is visible or there is a fault that is not a
        warning, else 0.

    Raises:
        UserError: The SoC is unknown, or both names are given.
    """
    if soc and product:
        raise UserError("--product: got --soc also, expected one of them; omit one")
    if soc:
        product = soc_properties(soc, "--soc").dir
    environment = CannEnvironment(os.environ)
    device = None if product else find_device(os.environ, environment.toolkits)
    directory = require_directory(product) if product else (device.directory if device else "") or None
    faults = find_faults(environment, directory)
    found = diagnosis(environment, directory, faults) | {"device": device._asdict() if device else None}
    _print(found, faults)
    answer = found | {"faults": [asdict(fault) for fault in faults]}
    return answer, int(not found["vendors"] or any(not fault.is_warning for fault in faults))


def diagnosis(environment: CannEnvironment, soc: str | None, faults: Sequence[Fault]) -> dict[str, Any]:
    """Return toolkits, vendor folders in search order, and the folder that each program uses for each operator."""
    socs = sorted({name for vendor in environment.vendors for name in vendor.ops_info})
    operators = sorted({name for vendor in environment.vendors for name in vendor.operators})
    hidden, built_in = _hidden(faults), _builtin_op_types(environment)
    return {
        "toolkits": [
            {"path": str(path), "version": toolkit_version(path) or "unknown"} for path in environment.toolkits
        ],
        "machine": environment.machine,
        "soc": soc or "any",
        "vendors": [
            {
                "path": str(vendor.path),
                "found_by": vendor.origin,
                "version": key_values(vendor.path / "version.info").get("package_version", "unknown"),
                "built_with": vendor.built.toolkit if vendor.built else "",
                "socs": sorted(vendor.ops_info),
                "undocumented": _undocumented(vendor, soc),
            }
            for vendor in environment.vendors
        ],
        "operators": {
            name: _seen_by(environment, name, [soc] if soc else socs, hidden, name in built_in) for name in operators
        },
    }


def _undocumented(vendor: Vendor, soc: str | None) -> dict[str, list[str]]:
    """Return the devices that the CANN document does not list, by operator, if they have the SoC."""
    stated = vendor.manifest.undocumented if vendor.manifest else {}
    known = PRODUCTS[soc].devices if soc and soc in PRODUCTS else DEVICES
    kept = {name: [device for device in known if device in devices] for name, devices in stated.items()}
    return {name: devices for name, devices in sorted(kept.items()) if devices}


def _hidden(faults: Sequence[Fault]) -> frozenset[tuple[str, str, str]]:
    """Return vendor, operator type (empty for all) and program for each operator that a fault hides."""
    return frozenset(
        (vendor, op_type, program)
        for fault in faults
        for vendor in fault.vendors
        for op_type in fault.operators or ("",)
        for program in fault.programs
    )


def _seen_by(
    environment: CannEnvironment,
    op_type: str,
    socs: Sequence[str],
    hidden: frozenset[tuple[str, str, str]],
    is_built_in: bool,
) -> dict[str, str]:
    """Return the folder whose operator each program uses, `CANN's own`, or `nothing`."""
    cann_has = bool(environment.toolkits) and is_built_in
    used_folders = dict.fromkeys(PROGRAMS, CANN_OWN if cann_has else NOTHING)
    for vendor in reversed(environment.vendors):
        if op_type not in vendor.operators:
            continue
        is_described = any(op_type in vendor.ops_info.get(soc, {}) for soc in socs)
        for program in PROGRAMS:
            is_for_soc = is_described or program not in {ENGINE, KERNELS}
            if is_for_soc and hidden.isdisjoint((str(vendor.path), name, program) for name in (op_type, "")):
                used_folders[program] = str(vendor.path)
    return used_folders


def _builtin_op_types(environment: CannEnvironment) -> set[str]:
    """Return the operator types that CANN also has, according to the packages and the specs of the project."""
    found = {name for vendor in environment.vendors if vendor.manifest for name in vendor.manifest.builtin_op_types}
    with suppress(UserError):
        found |= set(hidden_op_types(load_project(find_project())))
    return found


def _device_text(device: dict[str, str] | None) -> str:
    if device is None:
        return ""
    unknown = "" if device["directory"] else ", whose SoC directory is unknown to the toolkit and to opforge"
    return f" ({device['origin']} reports {device['chip']}{unknown})"


def _print(found: dict[str, Any], faults: list[Fault]) -> None:
    toolkits = [f"{toolkit['path']} (version {toolkit['version']})" for toolkit in found["toolkits"]]
    say(*(f"toolkit  {text}" for text in toolkits or ["none found"]))
    say(f"machine  {found['machine']}, product {found['soc']}{_device_text(found['device'])}")
    numbers: dict[str, str] = {}
    for number, vendor in enumerate(found["vendors"], 1):
        numbers.setdefault(vendor["path"], f"vendor {number}")
        facts = f"version {vendor['version']}, {', '.join(vendor['socs']) or 'no SoC'}, by {vendor['found_by']}"
        built = f", built with CANN {vendor['built_with']}" if vendor["built_with"] else ""
        say(f"vendor {number} {vendor['path']} ({facts}{built})")
        for name, devices in vendor["undocumented"].items():
            say(f"note     {escaped(name[:_MOST_NAME])}: CANN's document does not list {', '.join(devices)}; no fault")
    if found["operators"]:
        _print_table(found["operators"], numbers)
    say(*(f"{'warning ' if fault.is_warning else 'fault   '} {fault}" for fault in faults))
    if all(fault.is_warning for fault in faults):
        say("no fault found" if found["vendors"] else NOT_VISIBLE)


def _print_table(operators: dict[str, dict[str, str]], numbers: dict[str, str]) -> None:
    """Print one row for each of the first 1000 operators."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("operator", *PROGRAMS)
    table.columns[0].no_wrap = True
    for column, program in zip(table.columns[1:], PROGRAMS, strict=True):
        column.min_width = len(max(program.split(), key=len))
    for name, programs in islice(operators.items(), _MOST_ROWS):
        folders = (escaped(numbers.get(folder, folder)) for folder in programs.values())
        table.add_row(Text(escaped(name[:_MOST_NAME])), *map(Text, folders))
    Console(soft_wrap=True).print(table)
    if len(operators) > _MOST_ROWS:
        say(f"{len(operators) - _MOST_ROWS} more operators; --json lists all")
