"""Find the reasons why CANN's programs do not find an operator, with cause and fix."""

from __future__ import annotations

from dataclasses import replace

from . import kernel_checks, library_checks, search_checks, toolkit_checks, vendor_checks
from .cann_environment import CUSTOM_PATH, CannEnvironment, Vendor, is_visible
from .fault import UNREADABLE, Fault
from .vendor_checks import Installed


def find_faults(environment: CannEnvironment, soc: str | None = None) -> list[Fault]:
    """Return all faults; those of the environment are first.

    Args:
        environment: The variables and the folders that they select.
        soc: Target SoC directory (ascend910b) of the operators; None selects every one that a vendor lists.
    """
    found = _environment_faults(environment)
    for vendor in environment.vendors:
        for fault in _vendor_faults(Installed(environment, vendor, soc)):
            blind = _blind(vendor) if fault.check == UNREADABLE else fault.programs
            found.append(replace(fault, programs=blind, vendors=(str(vendor.path),)))
    # One unreadable place can cause faults in several checks, each with a command for a different folder.
    unique: dict[tuple[str, str, str, tuple[str, ...]], Fault] = {}
    for fault in found:
        unique.setdefault((fault.check, fault.place, fault.cause, fault.vendors), fault)
    return list(unique.values())


def _environment_faults(environment: CannEnvironment) -> list[Fault]:
    one = [environment]
    return [
        *(
            toolkit_checks.VARIABLES.find(toolkit_checks.variables(environment))
            or toolkit_checks.TOOLKIT.find(one) + toolkit_checks.OPP.find(one)
        ),
        *search_checks.ENTRIES.find(environment.texts(CUSTOM_PATH)),
        *search_checks.LISTED.find(search_checks.listed_vendors(environment)),
        *search_checks.CONFIGS.find(search_checks.configs(environment)),
        *search_checks.SEARCH.find(one),
    ]


def _vendor_faults(installed: Installed) -> list[Fault]:
    vendor, one = installed.vendor, [installed]
    return vendor_checks.FOLDER.find([vendor]) or [
        *library_checks.SEARCHED.find(one),
        *vendor_checks.VENDOR.find([vendor]),
        *vendor_checks.VERSIONS.find(one),
        *library_checks.ABSENT.find(library_checks.absent_libraries(vendor)),
        *library_checks.OPENED.find(library_checks.opened_libraries(installed)),
        *kernel_checks.SOC_FOLDERS.find(kernel_checks.soc_folders(vendor)),
        *kernel_checks.SOC.find(one),
        *kernel_checks.BINARIES.find(kernel_checks.described_kernels(installed)),
    ]


def _blind(vendor: Vendor) -> tuple[str, ...]:
    """Return programs that cannot read a file or folder of a vendor when this user runs them."""
    return tuple(program for program, paths in vendor.needs.items() if not all(map(is_visible, paths)))
