"""Check the SoC directories of a vendor folder, and the kernel binaries in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from opforge.codegen.data.products import FIRST_GENERATION, OTHER_DIRECTORIES, PRODUCTS, SOCS
from opforge.package.layout import TBE
from opforge.package.places import children, exists, is_dir, is_file

from .cann_environment import KERNELS, Vendor, ops_info_name
from .fault import Checks, Fault
from .library_checks import BUILD_IT
from .vendor_checks import Installed, op_file

_KNOWN = frozenset((*PRODUCTS, *OTHER_DIRECTORIES))


class Kernels(NamedTuple):
    """The kernels of a vendor for one SoC directory."""

    vendor: Vendor
    soc: str


def soc_folders(vendor: Vendor) -> list[Path]:
    """Return the folders of a vendor that have, or should have, the name of a SoC directory."""
    return [path for path in children(vendor.path / TBE / "config") if is_dir(path)]


def described_kernels(installed: Installed) -> list[Kernels]:
    """Return the SoC directories to check that have operator descriptions of the vendor."""
    socs = [installed.soc] if installed.soc else sorted(installed.vendor.ops_info)
    return [Kernels(installed.vendor, soc) for soc in socs if installed.vendor.ops_info.get(soc)]


SOC_FOLDERS: Checks[Path] = Checks(first_only=True)
SOC: Checks[Installed] = Checks()
BINARIES: Checks[Kernels] = Checks()


@SOC_FOLDERS.row("soc-directory")
def _unknown(folder: Path) -> Iterator[Fault]:
    if folder.name not in _KNOWN:
        cause = f"is not an SoC directory; expected one of {', '.join(sorted({soc.dir for soc in SOCS.values()}))}"
        families = {chip.lower(): family for chip, family in FIRST_GENERATION.items()}
        hint = families.get(folder.name, folder.name.rstrip("0123456789"))
        yield Fault(str(folder), cause, f"rename it to {hint}" if hint in _KNOWN else "pack again with --product")


@SOC_FOLDERS.row("ops-info-missing")
def _no_ops_info(folder: Path) -> Iterator[Fault]:
    place = folder / ops_info_name(folder)
    if not exists(place):
        others = ", ".join(path.name for path in children(folder)[:5]) or "nothing"
        cause = f"does not exist, so FE and ATC ignore the vendor; got {others}"
        yield Fault(str(place), cause, "install the package again")


@SOC.row("wrong-soc")
def _other_soc(installed: Installed) -> Iterator[Fault]:
    vendor, soc = installed.vendor, installed.soc
    if not soc or not vendor.operators or soc in vendor.ops_info:
        return
    folder = vendor.path / TBE / "config" / soc
    if not is_dir(folder):
        cause = f"does not exist; the vendor has {', '.join(sorted(vendor.ops_info)) or 'no SoC'}"
        yield Fault(str(folder), cause, f"pack the operators with --product={soc}")


@BINARIES.row("binaries-missing")
def _no_kernel(kernels: Kernels) -> Iterator[Fault]:
    vendor, soc = kernels
    missing = tuple(sorted(set(vendor.ops_info[soc]).difference(vendor.binaries(soc))))
    if missing:
        cause = f"has no kernel of {', '.join(missing)}; aclnn calls return 561003"
        yield Fault(str(vendor.binary_info(soc)), cause, BUILD_IT, (KERNELS,), missing)


@BINARIES.row("binary-file-missing")
def _no_file(kernels: Kernels) -> Iterator[Fault]:
    vendor, soc = kernels
    info = vendor.binary_info(soc)
    for op_type, entry in sorted(vendor.binaries(soc).items()):
        names = [name for file in entry.binaryList for name in (file.binPath, file.jsonPath)]
        listed = info.parent / f"{op_file(op_type, vendor.ops_info[soc].get(op_type, {}))}.json"
        for path in (listed, *(vendor.path / TBE / "kernel" / name for name in names)):
            if not is_file(path) or not path.stat().st_size:
                state = "is empty" if is_file(path) else "does not exist"
                cause = f"{state}, but {info.name} lists kernels of {op_type}"
                yield Fault(str(path), cause, "install the package again with --force", (KERNELS,), (op_type,))
