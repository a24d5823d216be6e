"""Check one vendor folder: its files, the lists of its files, and its supported toolkits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.data.names import snake_case
from opforge.codegen.errors import UserError
from opforge.codegen.files import open_regular
from opforge.package.cann.toolkit import ToolkitError, check_version, key_values
from opforge.package.layout import CANN_VERSIONS, TBE
from opforge.package.manifest import NAME as MANIFEST
from opforge.package.manifest import SUMS
from opforge.package.places import children, is_dir, is_file

from .cann_environment import ENGINE, PARSER, REGISTRY, CannEnvironment, Vendor
from .fault import Checks, Fault, unreadable

# Maximum total bytes of a vendor's files that are compared with its manifest.
MOST_BYTES = 4 << 30
_INSTALL_AGAIN = "install the package again with --force"


@dataclass(frozen=True)
class Installed:
    """A vendor folder, its environment, and the SoC directory to check; None checks all of them."""

    environment: CannEnvironment
    vendor: Vendor
    soc: str | None = None


FOLDER: Checks[Vendor] = Checks(first_only=True)
VENDOR: Checks[Vendor] = Checks()
VERSIONS: Checks[Installed] = Checks()


@FOLDER.row("vendor-too-large")
def _too_large(vendor: Vendor) -> Iterator[Fault]:
    if vendor.tree.excess:
        repair = (
            "remove the files that are not part of the package; doctor checks nothing else in the folder until then"
        )
        yield Fault(str(vendor.path), vendor.tree.excess, repair)


@FOLDER.row("unreadable")
def _closed(vendor: Vendor) -> Iterator[Fault]:
    # Other checks would report unreadable files as missing.
    if vendor.closed:
        place, *others = vendor.closed
        yield unreadable(place, vendor.path, len(others))


def op_file(op_type: str, entry: Mapping[str, Mapping[str, str]]) -> str:
    """Return the stem of the kernel files of an operator: from its description, else CANN's default for the type."""
    return entry.get("opFile", {}).get("value") or snake_case(op_type)


@VENDOR.row("impl-missing")
def _no_implementation(vendor: Vendor) -> Iterator[Fault]:
    folder = vendor.path / TBE / f"{vendor.name}_impl"
    if vendor.ops_info and not is_dir(folder):
        others = [path.name.removesuffix("_impl") for path in children(vendor.path / TBE, "*_impl") if is_dir(path)]
        why = f"; it was packed as '{others[0]}'" if others else ""
        repair = f"name the folder '{others[0]}' again" if others else "install the package again"
        yield Fault(str(folder), f"is not a folder, so FE and ATC ignore the vendor{why}", repair, (ENGINE,))
        return
    described = {op_type: entry for entries in vendor.ops_info.values() for op_type, entry in entries.items()}
    for op_type, entry in sorted(described.items()):
        path = folder / "dynamic" / f"{op_file(op_type, entry)}.py"
        if not is_file(path):
            cause = f"does not exist, so FE and ATC cannot compile {op_type}"
            yield Fault(str(path), cause, "install the package again, with its sources", (ENGINE,), (op_type,))


@VENDOR.row("manifest-missing")
def _no_manifest(vendor: Vendor) -> Iterator[Fault]:
    is_from_opforge = is_file(vendor.path / "scripts/vendor_tree.sh")
    for name in (MANIFEST, SUMS):
        if not os.path.lexists(vendor.path / name) and (is_from_opforge or (vendor.built and name == MANIFEST)):
            cause = "does not exist; without it, the package cannot be verified, upgraded or removed"
            yield Fault(str(vendor.path / name), cause, _INSTALL_AGAIN)


@VENDOR.row("tiling-hidden")
def _tiling_hidden(vendor: Vendor) -> Iterator[Fault]:
    folder = vendor.path / TBE / "op_master/lib" / vendor.machine
    if is_dir(folder) and not any(is_file(path) for path in children(folder, "*.so")):
        cause = "has no library; GE then searches no other folder and does not find op_tiling"
        yield Fault(str(folder), cause, "remove the folder op_master", (REGISTRY,))


@VENDOR.row("malformed")
def _malformed(vendor: Vendor) -> Iterator[Fault]:
    for path, document in vendor.documents.items():
        if document.problem:
            yield Fault(str(path), document.problem, _INSTALL_AGAIN)


@VENDOR.row("build-unfinished")
def _unfinished(vendor: Vendor) -> Iterator[Fault]:
    left = vendor.path.parent / f".{vendor.name}.build"
    if is_dir(left):
        cause = "contains an unfinished build; the previous version is in use"
        yield Fault(str(left), cause, f"see {left / 'logs'} and install the package again")


def _listed_files(vendor: Vendor) -> dict[str, str]:
    """Return SHA-256 by path of the files in the manifest and in the list of built files."""
    lists = [listed.files for listed in (vendor.manifest, vendor.built) if listed]
    return {name: digest for files in lists for name, digest in sorted(files.items())}


@VENDOR.row("file-missing")
def _missing(vendor: Vendor) -> Iterator[Fault]:
    missing = sorted(name for name in _listed_files(vendor) if not is_file(vendor.path / name))
    if missing:
        others = f"; {len(missing) - 1} more are missing" if len(missing) > 1 else ""
        yield Fault(str(vendor.path / missing[0]), f"does not exist, but the manifest lists it{others}", _INSTALL_AGAIN)


@VENDOR.row("file-changed")
def _changed(vendor: Vendor) -> Iterator[Fault]:
    files = {name: digest for name, digest in _listed_files(vendor).items() if is_file(vendor.path / name)}
    size = sum((vendor.path / name).stat().st_size for name in files)
    if size > MOST_BYTES:
        cause = f"got {size} bytes in the files that the manifest lists, expected at most {MOST_BYTES}"
        yield Fault(str(vendor.path), cause, _INSTALL_AGAIN)
        return
    changed = sorted(name for name, digest in files.items() if _sha256(vendor.path / name) != digest)
    if changed:
        others = f"; {len(changed) - 1} more differ" if len(changed) > 1 else ""
        cause = f"differs from the installed file{others}"
        yield Fault(str(vendor.path / changed[0]), cause, _INSTALL_AGAIN)


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it no longer exists."""
    try:
        with open_regular(path, "file") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except UserError:
        return ""


@VERSIONS.row("compiler-version")
def _compiler_version(installed: Installed) -> Iterator[Fault]:
    place = installed.vendor.path / "version.info"
    versions = key_values(place)
    built = versions.get("compiler_version") or versions.get("custom_opp_compiler_version", "")
    if not installed.environment.toolkits or not built:
        return
    home = installed.environment.toolkits[0]
    part = home / "compiler" if is_dir(home / "compiler") else home / "runtime"
    required = key_values(part / "version.info").get("required_opp_abi_version", "")
    if required and not all(is_version_accepted(version, required) for version in built.split(",")):
        cause = f"compiler_version is {built}, the toolkit expects {required}; GE ignores the vendor"
        yield Fault(str(place), cause, "build the package with this toolkit", (REGISTRY, PARSER))


def is_version_accepted(version: str, required: str) -> bool:
    """Return whether a toolkit that requires `>=6.3,<=6.4,7.0` accepts a package built with `version`.

    The second part of a version counts as a decimal fraction: 6.21 is less than 6.3. A malformed version is rejected.
    """

    def number(text: str) -> tuple[int, str]:
        parts = text.strip().split(".")
        if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            raise ValueError(text)
        return int(parts[0]), parts[1].ljust(5, "0")

    try:
        wanted = number(version)
        bounds = iter(part.strip() for part in required.split(","))
        for bound in bounds:
            low, high = (bound[2:], next(bounds, "")[2:]) if bound.startswith(">=") else (bound, bound)
            if number(low) <= wanted <= number(high):
                return True
    except ValueError:
        return False
    return False


@VERSIONS.row("cann-version")
def _cann_version(installed: Installed) -> Iterator[Fault]:
    vendor, version = installed.vendor, installed.environment.version
    if vendor.cann and version:
        first, last = vendor.cann
        cause = f"is made for CANN {first} to {last}, but the toolkit is {version}"
        repair = "pack or build it again for this toolkit"
        try:
            # For a toolkit newer than the range of all source packages, the toolkit check reports the problem.
            if check_version(version, vendor.cann) and vendor.cann != CANN_VERSIONS:
                yield Fault(str(vendor.path), cause, repair, is_warning=True)
        except ToolkitError:
            yield Fault(str(vendor.path), cause, repair)
