"""Check the libraries of a vendor folder: their places, and whether a program can open them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from opforge.package.places import is_file, real

from .cann_environment import LIBRARY_PATH, Vendor, is_visible
from .fault import Checks, Fault
from .libraries import Failure, load
from .vendor_checks import Installed

# Symbols of the whole archive librt2_registry.a. Without them, GE registers nothing from a library.
REGISTRY_SYMBOLS = ("GetRegisteredOpNum",)
BUILD_IT = "install the package again with --cann=FOLDER to build it"
OTHER_MACHINE = "other-machine"


class Absent(NamedTuple):
    """A missing library, and files with its name elsewhere in the vendor folder."""

    vendor: Vendor
    purpose: str
    path: Path
    others: list[Path]


class Opened(NamedTuple):
    """A library that could not be opened or lacks a function, and the programs that need it."""

    path: Path
    failure: Failure
    users: tuple[str, ...]


def absent_libraries(vendor: Vendor) -> Iterator[Absent]:
    """Yield the libraries that are not at their paths."""
    for purpose, path in vendor.libraries.items():
        if not is_file(path):
            others = [found for found in sorted(vendor.tree.files) if found.name == path.name and is_file(found)]
            yield Absent(vendor, purpose, path, others)


def opened_libraries(installed: Installed) -> Iterator[Opened]:
    """Yield the libraries at their paths that fail when a program opens them as CANN does."""
    wanted: dict[Path, tuple[str, ...]] = {}
    for purpose, path in installed.vendor.libraries.items():
        # Open a linked library only once.
        if is_file(path) and not any(path.samefile(other) for other in wanted):
            needed = tuple(installed.vendor.functions) if purpose == "aclnn" else ()
            wanted[path] = REGISTRY_SYMBOLS if purpose in {"shape inference", "tiling"} else needed
    if installed.environment.toolkits and wanted:
        for path, failure in load(wanted, installed.environment.variables):
            yield Opened(path, failure, installed.vendor.users(path))


SEARCHED: Checks[Installed] = Checks()
ABSENT: Checks[Absent] = Checks(first_only=True)
OPENED: Checks[Opened] = Checks(first_only=True)


@SEARCHED.row("library-path")
def _not_searched(installed: Installed) -> Iterator[Fault]:
    library = installed.vendor.libraries["aclnn"]
    known = {real(path) for path in installed.environment.entries(LIBRARY_PATH)}
    if is_file(library) and real(library.parent) not in known:
        repair = f"export {LIBRARY_PATH}={shlex.quote(str(library.parent))}:${LIBRARY_PATH}"
        cause = f"does not contain {library.parent}; programs do not find the aclnn functions"
        yield Fault(LIBRARY_PATH, cause, repair)


@SEARCHED.row("library-hidden")
def _hidden(installed: Installed) -> Iterator[Fault]:
    folder, name = installed.vendor.libraries["aclnn"].parent, installed.vendor.libraries["aclnn"].name
    entries = installed.environment.entries(LIBRARY_PATH)
    first = next((path for path in entries if is_visible(path / name)), folder)
    # Two vendors may each have such a file, and torch_npu finds it without the variable.
    if real(first) not in {real(other.libraries["aclnn"].parent) for other in installed.environment.vendors}:
        cause = f"has {first} with another {name} before {folder}; applications use its functions"
        yield Fault(LIBRARY_PATH, cause, f"remove {first}, or put {folder} before it")


def _fault(library: Absent, cause: str, repair: str) -> Fault:
    return Fault(str(library.path), cause, repair, library.vendor.users(library.path))


@ABSENT.row("library-broken")
def _no_file(library: Absent) -> Iterator[Fault]:
    if os.path.lexists(library.path):
        yield _fault(library, "is not a file and not a link to a file", f"remove it; {BUILD_IT}")


@ABSENT.row(OTHER_MACHINE)
def _of_another_machine(library: Absent) -> Iterator[Fault]:
    machine = library.vendor.machine
    is_for_a_machine = str(library.path.parent).endswith(f"/{machine}")
    if is_for_a_machine and library.others and library.others[0].parents[2] == library.path.parents[2]:
        cause = f"does not exist; {library.others[0]} is for another machine"
        yield _fault(library, cause, f"install the package for {machine}")


@ABSENT.row("library-misplaced")
def _misplaced(library: Absent) -> Iterator[Fault]:
    if library.others:
        cause = f"does not exist; {library.others[0]} exists, but no program searches its folder"
        yield _fault(library, cause, f"move it into {library.path.parent}")


@ABSENT.row("library-missing")
def _missing(library: Absent) -> Iterator[Fault]:
    if library.vendor.operators:
        yield _fault(library, f"does not exist; {library.purpose} is not available", BUILD_IT)


@OPENED.row("symbol-missing")
def _lacks_symbols(library: Opened) -> Iterator[Fault]:
    for name in library.failure.lacks:
        repair = "link it with the whole archive librt2_registry.a; otherwise it registers nothing"
        if name.startswith("aclnn"):
            repair = "build the package again with this operator"
        yield Fault(str(library.path), f"does not export {name}", repair, library.users)


@OPENED.row("abi-mismatch")
def _other_abi(library: Opened) -> Iterator[Fault]:
    symbol = library.failure.undefined
    if "cxx11" in symbol:
        cause = f"needs {symbol}, a symbol of the new C++ ABI, which CANN's libraries do not have"
        yield Fault(str(library.path), cause, "build it with -D_GLIBCXX_USE_CXX11_ABI=0", library.users)


@OPENED.row(OTHER_MACHINE)
def _of_another_processor(library: Opened) -> Iterator[Fault]:
    # For a library of another processor, the loader reports that the file does not exist.
    message = library.failure.message
    if message.startswith("cannot open shared object file") or "wrong ELF class" in message:
        cause = "was built for another processor"
        yield Fault(str(library.path), cause, "install the package for this machine", library.users)


@OPENED.row("cannot-load")
def _cannot_load(library: Opened) -> Iterator[Fault]:
    failure = library.failure
    cause, repair = failure.message, "build the package again"
    if failure.undefined:
        is_protobuf = "google" in failure.undefined or "Message" in failure.undefined
        cause = f"needs {failure.undefined}, which no library exports"
        repair = (
            "build the plugin with -Dgoogle=ascend_private" if is_protobuf else "build the package with this toolkit"
        )
    elif "cannot open shared object file" in failure.message:
        cause = f"needs {failure.message.partition(':')[0]}, which is not found"
        repair = "source the set_env.sh of the toolkit"
    yield Fault(str(library.path), cause, repair, library.users)
