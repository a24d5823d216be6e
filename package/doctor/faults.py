"""The faults for which CANN's programs do not see an installed operator, each with its cause and repair."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_regular
from opforge.codegen.printing import shown
from opforge.codegen.spec.names import snake_case
from opforge.codegen.spec.products import OTHER_DIRECTORIES, PRODUCTS
from opforge.package.cann.toolkit import ToolkitError, check_version, key_values, toolkit_version
from opforge.package.layout import TBE
from opforge.package.manifest import NAME as MANIFEST
from opforge.package.manifest import SUMS
from opforge.package.places import MOST_CHILDREN, children, exists, is_dir, is_file, real, why_unusable
from opforge.package.socs import FIRST_GENERATION, soc_directories

from .cann_environment import (
    CUSTOM_PATH,
    ENGINE,
    HOME_PATH,
    KERNELS,
    LIBRARY_PATH,
    OPP_PATH,
    PARSER,
    PRIORITY,
    REGISTRY,
    Surroundings,
    Vendor,
    closed,
    is_vendor,
    is_visible,
    ops_info_name,
    priorities,
)
from .libraries import OTHER_MACHINE, load

# Of the files of one vendor that are compared with its manifest.
MOST_BYTES = 4 << 30
# What the whole archive librt2_registry.a brings; without it GE registers nothing from a library.
REGISTRY_SYMBOLS = ("GetRegisteredOpNum",)
BUILD_IT = "install the package again with --cann=<toolkit>, which builds it"


@dataclass(frozen=True)
class Fault:
    """One reason why an operator is not seen, or not the one that was meant.

    Attributes:
        check: Name of the check.
        place: Variable, file or folder.
        cause: What is wrong, with the value seen.
        repair: What to do.
        programs: Programs that do not see operators because of it.
        operators: Types of these operators; empty for all of a vendor.
        vendors: Folders of these vendors.
    """

    check: str
    place: str
    cause: str
    repair: str
    programs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.place}: {self.cause}; {self.repair} [{self.check}]"


def _unreadable(place: Path, whole: Path, others: int = 0) -> Fault:
    """A folder or file of `whole`, or above it, that is closed to this user, and so many others in it."""
    place, whole = closed(place) or place, real(whole)
    more = f", nor can {others} more" if others else ""
    cause = f"cannot be read by this user (mode {place.stat().st_mode & 0o777:o}){more}, whose programs do not see it"
    command = f"chmod a+x {shlex.quote(str(place))}"
    if place == whole or whole in place.parents:
        command = f"chmod -R a+rX {shlex.quote(str(whole))}"
    return Fault("unreadable", str(place), cause, f"{command}, or run the programs as a user who may")


def _is_set_aside(vendor: Path) -> bool:
    """Whether an installation that was killed left the version before it under another name, and none in its place."""
    return not exists(vendor) and is_dir(vendor.parent / f".{vendor.name}.work" / "old")


def _cut_off(vendor: Path) -> Fault:
    cause = "does not exist, since an installation was cut off while it replaced it"
    return Fault("cut-off", str(vendor), cause, "run the installer again, which brings it back")


def find_faults(surroundings: Surroundings, soc: str | None = None) -> list[Fault]:
    """All faults, those of the environment first.

    Args:
        surroundings: What to look at.
        soc: SoC directory (ascend910b) that the operators are to run on; None takes every one that a vendor lists.
    """
    found = [fault for check in ENVIRONMENT_CHECKS for fault in _said(check(surroundings))]
    for vendor in surroundings.vendors:
        whole = str(vendor.path)
        for fault in _vendor_faults(surroundings, vendor, soc):
            blind = _blind(vendor) if fault.check == "unreadable" else fault.programs
            found.append(replace(fault, programs=blind, vendors=(whole,)))
    return list(dict.fromkeys(found))


def _vendor_faults(surroundings: Surroundings, vendor: Vendor, soc: str | None) -> Iterator[Fault]:
    if vendor.tree.excess:
        repair = "remove what is no part of the package; until then nothing else in it is checked"
        yield Fault("vendor-too-large", str(vendor.path), vendor.tree.excess, repair)
        return
    if vendor.closed:
        # What cannot be read looks absent to the other checks.
        place, *others = vendor.closed
        yield _unreadable(place, vendor.path, len(others))
        return
    for check in VENDOR_CHECKS:
        yield from _said(check(surroundings, vendor))
    yield from _soc_directory(vendor, soc)
    for directory in [soc] if soc else sorted(vendor.ops_info):
        yield from _binaries(vendor, directory)


def _blind(vendor: Vendor) -> tuple[str, ...]:
    """Programs of this user that miss a file or folder of a vendor."""
    return tuple(program for program, paths in vendor.needs.items() if not all(map(is_visible, paths)))


def _said(faults: Iterator[Fault]) -> Iterator[Fault]:
    """What a check finds, up to a link that leads to where this user may not look."""
    try:
        yield from faults
    except PermissionError as error:
        yield _unreadable(Path(error.filename), Path(error.filename))


def _two_levels(folder: Path) -> list[Path]:
    """Up to 10,000 paths in a folder and in its folders."""
    first = children(folder)
    return sorted([*first, *islice((path for inner in first for path in children(inner)), MOST_CHILDREN)])


_SOURCE_TOOLKIT = "source the set_env.sh of the toolkit"


def _wrong_variables(surroundings: Surroundings) -> dict[str, Fault]:
    """Faults of the variables that name the toolkit, by variable or path."""
    wrong: dict[str, Fault] = {}
    for variable, named in ((HOME_PATH, "compiler/version.info"), (OPP_PATH, "scene.info")):
        folder = surroundings.folder(variable)
        if folder is None:
            if reason := why_unusable(surroundings.environment.get(variable, "")):
                cause = f"got {shown(surroundings.environment[variable])}, but {reason}"
                wrong[variable] = Fault("variable-wrong", variable, cause, _SOURCE_TOOLKIT)
            continue
        if place := closed(folder) or closed(folder / named):
            wrong.setdefault(str(place), _unreadable(place, folder))
        elif not folder.is_absolute():
            cause = f"got '{folder}', which depends on the folder a program starts in"
            wrong[variable] = Fault("relative-entry", variable, cause, "give the absolute path")
        elif not is_dir(folder):
            wrong[variable] = Fault("variable-wrong", variable, f"got '{folder}', which is no folder", _SOURCE_TOOLKIT)
    return wrong


def _toolkit(surroundings: Surroundings) -> Iterator[Fault]:
    if wrong := _wrong_variables(surroundings):
        yield from wrong.values()
        return
    home, opp = surroundings.folder(HOME_PATH), surroundings.folder(OPP_PATH)
    if home and not toolkit_version(home):
        below = [path for path in _two_levels(home) if toolkit_version(path)]
        what = f"the folder above the toolkit {below[0]}" if below else "whose compiler/version.info names no version"
        yield Fault("no-toolkit", HOME_PATH, f"got '{home}', {what}", _SOURCE_TOOLKIT)
        return
    yield from _unset_variables(surroundings, home, opp)
    if opp:
        yield from _opp_folder(surroundings, home, opp)


def _unset_variables(surroundings: Surroundings, home: Path | None, opp: Path | None) -> Iterator[Fault]:
    if surroundings.toolkits and (home is None or opp is None):
        place = surroundings.toolkits[0]
        missing = " and ".join(name for name, folder in ((HOME_PATH, home), (OPP_PATH, opp)) if folder is None)
        script = next((path for path in (place / "set_env.sh", place.parent / "set_env.sh") if is_file(path)), None)
        repair = f"source {shlex.quote(str(script))}" if script else _SOURCE_TOOLKIT
        yield Fault("set-env-not-sourced", missing, f"not set, but a toolkit lies in {place}", repair)
    elif opp and home is None:
        cause = f"not set, and {OPP_PATH} '{opp}' lies in no toolkit"
        yield Fault("set-env-not-sourced", HOME_PATH, cause, _SOURCE_TOOLKIT)


def _opp_folder(surroundings: Surroundings, home: Path | None, opp: Path) -> Iterator[Fault]:
    if not is_dir(opp / "built-in"):
        above = "is the folder above opp: it " if is_dir(opp / "opp/built-in") else ""
        cause = f"{above}has no folder 'built-in', so programs take it for an old layout and ignore {CUSTOM_PATH}"
        repair = f"point {OPP_PATH} at the toolkit's opp folder"
        ignored = tuple(str(vendor.path) for vendor in surroundings.vendors if vendor.origin == CUSTOM_PATH)
        yield Fault("old-layout", str(opp), cause, repair, (REGISTRY, PARSER), vendors=ignored)
    elif home and real(home) not in real(opp).parents:
        yield Fault("mixed-toolkits", OPP_PATH, f"got '{opp}', which is not of the toolkit {home}", _SOURCE_TOOLKIT)
    elif "arch" not in key_values(opp / "scene.info"):
        cause = "names no arch, so programs do not know which libraries of a vendor are theirs"
        yield Fault("no-scene", str(opp / "scene.info"), cause, "install the toolkit again")


def _custom_entries(surroundings: Surroundings) -> Iterator[Fault]:
    for text in surroundings.texts(CUSTOM_PATH):
        entry = Path(text)
        if reason := why_unusable(text):
            repair = "remove the entry, or source bin/set_env.bash of the vendor folder"
            yield Fault("entry-missing", CUSTOM_PATH, f"got {shown(text)}, but {reason}", repair)
        elif not entry.is_absolute():
            cause = f"got '{entry}', which depends on the folder a program starts in"
            yield Fault("relative-entry", CUSTOM_PATH, cause, "give absolute paths")
        elif place := closed(entry):
            yield _unreadable(place, entry)
        elif _is_set_aside(entry):
            yield _cut_off(entry)
        elif not is_dir(entry):
            repair = "remove the entry, or source bin/set_env.bash of the vendor folder"
            yield Fault("entry-missing", CUSTOM_PATH, f"got '{entry}', which is no folder", repair)
        elif not is_vendor(entry):
            below = [path for path in (*children(entry), *children(entry / "vendors")) if is_vendor(path)]
            if below:
                cause = f"got '{entry}', the folder above the vendor folder {below[0]}"
                repair = f"source {shlex.quote(str(below[0] / 'bin/set_env.bash'))}, or name the vendor folder"
                yield Fault("parent-of-vendor", CUSTOM_PATH, cause, repair)
            else:
                cause = f"got '{entry}', in which there is neither op_impl nor op_proto"
                yield Fault("no-vendor-folder", CUSTOM_PATH, cause, "name the vendor folder of an installed package")


def _config(surroundings: Surroundings) -> Iterator[Fault]:
    opp = surroundings.folder(OPP_PATH)
    if opp is None or closed(opp):
        return
    if place := closed(opp / "vendors") or closed(opp / "vendors/config.ini"):
        yield _unreadable(place, place)
    elif is_dir(opp / "vendors"):
        yield from _listed_vendors(opp / "vendors")


def _listed_vendors(vendors: Path) -> Iterator[Fault]:
    config = vendors / "config.ini"
    listed = priorities(config)
    present = [path.name for path in children(vendors) if is_vendor(path) and path.name[0] != "."]
    wanted = f"{PRIORITY}={','.join(present)}"
    if listed is None:
        if present or os.path.lexists(config):
            cause = f"cannot be read, or its first line is not {PRIORITY}=<vendor>,..."
            yield Fault("config-unreadable", str(config), cause, f"write '{wanted}' into it, the preferred one first")
        return
    found = frozenset(present)
    for name in listed:
        if "/" not in name and (place := closed(vendors / name)):
            yield _unreadable(place, vendors / name)
        elif "/" not in name and _is_set_aside(vendors / name):
            yield _cut_off(vendors / name)
        elif name not in found:
            cause = f"names the vendor '{name}', whose folder has no operators"
            yield Fault("config-names-nobody", str(config), cause, "remove the name, or install its package again")
    for name in sorted(found.difference(listed)):
        cause = f"does not name the vendor '{name}', which is installed beside it"
        yield Fault("vendor-not-listed", str(config), cause, f"add it to {PRIORITY}")


def _nothing(surroundings: Surroundings) -> Iterator[Fault]:
    if not surroundings.vendors and surroundings.toolkits and not any(_config(surroundings)):
        cause = "not set, and no config.ini names a vendor: programs see no custom operator"
        if not surroundings.texts(CUSTOM_PATH):
            repair = "source bin/set_env.bash of the folder <install path>/vendors/<vendor> of the package"
            yield Fault("no-vendor", CUSTOM_PATH, cause, repair)


def _twice(surroundings: Surroundings) -> Iterator[Fault]:
    folders = {real(vendor.path): vendor for vendor in surroundings.vendors}
    for name, count in Counter(vendor.name for vendor in folders.values()).items():
        if count > 1:
            places = " and ".join(str(vendor.path) for vendor in folders.values() if vendor.name == name)
            cause = f"the vendor name of {count} folders: {places}"
            yield Fault("same-vendor-name", name, cause, "keep one of them, or pack one with another --vendor-name")


def _shadowed(surroundings: Surroundings) -> Iterator[Fault]:
    first: dict[str, Vendor] = {}
    for vendor in surroundings.vendors:
        for op_type in sorted(vendor.operators):
            other = first.setdefault(op_type, vendor)
            if real(other.path) != real(vendor.path):
                cause = f"{op_type} is hidden by the one in {other.path} ({other.origin}), which is searched first"
                yield Fault("shadowed", str(vendor.path), cause, "remove one of the packages, or change their order")


def _library_path(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    folder = vendor.libraries["aclnn"].parent
    known = {real(path) for path in surroundings.entries(LIBRARY_PATH)}
    if is_file(vendor.libraries["aclnn"]) and real(folder) not in known:
        repair = f"export {LIBRARY_PATH}={shlex.quote(str(folder))}:${LIBRARY_PATH}"
        yield Fault("library-path", LIBRARY_PATH, f"lacks {folder}: programs do not find the aclnn functions", repair)
    name = vendor.libraries["aclnn"].name
    first = next((path for path in surroundings.entries(LIBRARY_PATH) if is_visible(path / name)), folder)
    # Of two vendors each may have its own, which torch_npu finds without the variable.
    if real(first) not in {real(other.libraries["aclnn"].parent) for other in surroundings.vendors}:
        cause = f"has a {name} of no vendor in {first}, before {folder}: applications take its functions"
        yield Fault("library-hidden", LIBRARY_PATH, cause, f"remove {first}, or put {folder} before it")


def _implementation(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    del surroundings
    folder = vendor.path / TBE / f"{vendor.name}_impl"
    if vendor.ops_info and not is_dir(folder):
        others = [path.name.removesuffix("_impl") for path in children(vendor.path / TBE, "*_impl") if is_dir(path)]
        why = f"; it was packed as '{others[0]}'" if others else ""
        repair = f"name the folder '{others[0]}' again" if others else "install the package again"
        yield Fault(
            "impl-missing", str(folder), f"is no folder, so FE and ATC ignore the vendor{why}", repair, (ENGINE,)
        )
        return
    described = {op_type: entry for entries in vendor.ops_info.values() for op_type, entry in entries.items()}
    for op_type, entry in sorted(described.items()):
        path = folder / "dynamic" / f"{op_file(op_type, entry)}.py"
        if not is_file(path):
            cause = f"does not exist, so FE and ATC cannot compile {op_type}"
            repair = "install the package again, with its sources"
            yield Fault("impl-missing", str(path), cause, repair, (ENGINE,), (op_type,))


def _manifest(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    del surroundings
    is_ours = is_file(vendor.path / "scripts/vendor_tree.sh")
    for name in (MANIFEST, SUMS):
        if not os.path.lexists(vendor.path / name) and (is_ours or (vendor.built and name == MANIFEST)):
            cause = "does not exist: a package of opforge cannot be compared, upgraded or removed without it"
            yield Fault("manifest-missing", str(vendor.path / name), cause, "install the package again with --force")


def _tiling_hidden(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    del surroundings
    folder = vendor.path / TBE / "op_master/lib" / vendor.machine
    if is_dir(folder) and not any(is_file(path) for path in children(folder, "*.so")):
        cause = "has no library, but GE looks into no other folder once it is there: it misses op_tiling"
        yield Fault("tiling-hidden", str(folder), cause, "remove the folder op_master", (REGISTRY,))


def _malformed(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    del surroundings
    for path, document in vendor.documents.items():
        if document.problem:
            yield Fault("malformed", str(path), document.problem, "install the package again with --force")


def _version(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    built = key_values(vendor.path / "version.info").get("compiler_version", "")
    if not surroundings.toolkits or not built:
        return
    home = surroundings.toolkits[0]
    place = home / "compiler" if is_dir(home / "compiler") else home / "runtime"
    required = key_values(place / "version.info").get("required_opp_abi_version", "")
    if required and not all(is_version_accepted(version, required) for version in built.split(",")):
        cause = f"compiler_version is {built}, the toolkit takes {required}: GE skips the vendor"
        place = vendor.path / "version.info"
        yield Fault("compiler-version", str(place), cause, "build the package with this toolkit", (REGISTRY, PARSER))


def _range(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    if vendor.cann and surroundings.version:
        try:
            check_version(surroundings.version, vendor.cann)
        except ToolkitError:
            first, last = vendor.cann
            cause = f"is made for CANN {first} to {last}, but the toolkit is {surroundings.version}"
            yield Fault("cann-version", str(vendor.path), cause, "pack or build it again for this toolkit")


def _unfinished(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    del surroundings
    left = vendor.path.parent / f".{vendor.name}.build"
    if is_dir(left):
        cause = "holds a build that did not come to its end, so the version before it is in use"
        yield Fault("build-unfinished", str(left), cause, f"see {left / 'logs'} and install the package again")


def is_version_accepted(version: str, required: str) -> bool:
    """Whether a toolkit that requires `>=6.3,<=6.4,7.0` takes a package built with `version`.

    The second part of a version counts as a decimal fraction: 6.21 lies below 6.3. What is no version is refused.
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


def op_file(op_type: str, entry: Mapping[str, Mapping[str, str]]) -> str:
    """Stem of the files of an operator's kernel, as its description names it or CANN makes it of the type."""
    return entry.get("opFile", {}).get("value") or snake_case(op_type)


def _libraries(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    wanted: dict[Path, tuple[str, ...]] = {}
    for purpose, path in vendor.libraries.items():
        if not is_file(path):
            yield from _absent(vendor, purpose, path)
        elif purpose == "aclnn":
            wanted[path] = tuple(vendor.functions)
        else:
            wanted[path] = REGISTRY_SYMBOLS if purpose in {"shape inference", "tiling"} else ()
    if surroundings.toolkits and wanted:
        for path, check, cause, repair in load(wanted, surroundings.environment):
            yield Fault(check, str(path), cause, repair, vendor.users(path))


def _absent(vendor: Vendor, purpose: str, path: Path) -> Iterator[Fault]:
    """A library that is not in its place: somewhere else, or nowhere."""
    others = [found for found in sorted(vendor.tree.files) if found.name == path.name and is_file(found)]
    of_machines = path.parents[2] if str(path.parent).endswith(f"/{vendor.machine}") else None
    place, users = str(path), vendor.users(path)
    if os.path.lexists(path):
        yield Fault("library-broken", place, "is no file, and no link to one", f"remove it; {BUILD_IT}", users)
    elif others and others[0].parents[2] == of_machines:
        cause = f"does not exist; {others[0]} is for another machine"
        yield Fault(OTHER_MACHINE, place, cause, f"install the package for {vendor.machine}", users)
    elif others:
        cause = f"does not exist; {others[0]} lies where no program looks"
        yield Fault("library-misplaced", place, cause, f"move it into {path.parent}", users)
    elif vendor.operators:
        yield Fault("library-missing", place, f"does not exist: no {purpose}", BUILD_IT, users)


def _changed(surroundings: Surroundings, vendor: Vendor) -> Iterator[Fault]:
    del surroundings
    files = {
        name: digest for listed in (vendor.manifest, vendor.built) if listed for name, digest in listed.files.items()
    }
    repair = "install the package again with --force"
    missing = [name for name in sorted(files) if not is_file(vendor.path / name)]
    if missing:
        others = f"; {len(missing) - 1} more missing" if len(missing) > 1 else ""
        yield Fault("file-missing", str(vendor.path / missing[0]), f"the manifest lists it{others}", repair)
    present = sorted(files.keys() - set(missing))
    size = sum((vendor.path / name).stat().st_size for name in present)
    if size > MOST_BYTES:
        cause = f"got {size} bytes in the files that the manifest lists, expected at most {MOST_BYTES}"
        yield Fault("file-changed", str(vendor.path), cause, repair)
        return
    changed = [name for name in present if sha256(vendor.path / name) != files[name]]
    if changed:
        others = f"; {len(changed) - 1} more differ" if len(changed) > 1 else ""
        cause = f"differs from what was installed{others}"
        yield Fault("file-changed", str(vendor.path / changed[0]), cause, repair)


def sha256(path: Path) -> str:
    """SHA-256 of a file; empty if there is none any more."""
    try:
        with open_regular(path, "file") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except UserError:
        return ""


def _soc_directory(vendor: Vendor, soc: str | None) -> Iterator[Fault]:
    known = {*PRODUCTS, *OTHER_DIRECTORIES}
    config = vendor.path / TBE / "config"
    for name in [path.name for path in children(config) if is_dir(path)]:
        if name not in known:
            cause = f"is no SoC directory; CANN looks into {', '.join(sorted(soc_directories()))}"
            families = {chip.lower(): family for chip, family in FIRST_GENERATION.items()}
            hint = families.get(name, name.rstrip("0123456789"))
            repair = f"rename it to {hint}" if hint in known else "pack again with --soc"
            yield Fault("soc-directory", str(config / name), cause, repair)
        elif not exists(config / name / ops_info_name(config / name)):
            others = ", ".join(path.name for path in children(config / name)[:5]) or "nothing"
            cause = f"does not exist, so FE and ATC ignore the vendor; got {others}"
            place = config / name / ops_info_name(config / name)
            yield Fault("ops-info-missing", str(place), cause, "install the package again")
    if soc and vendor.operators and soc not in vendor.ops_info and not is_dir(config / soc):
        cause = f"does not exist; the vendor has {', '.join(sorted(vendor.ops_info)) or 'no SoC at all'}"
        repair = f"pack the operators with --soc={soc}"
        yield Fault("wrong-soc", str(config / soc), cause, repair)


def _binaries(vendor: Vendor, soc: str) -> Iterator[Fault]:
    info = vendor.binary_info(soc)
    if not vendor.ops_info.get(soc):
        return
    binaries = vendor.binaries(soc)
    missing = sorted(op_type for op_type in vendor.ops_info[soc] if op_type not in binaries)
    if missing:
        cause = f"has no kernel of {', '.join(missing)}: aclnn calls end with 561003; ATC compiles from the sources"
        yield Fault("binaries-missing", str(info), cause, BUILD_IT, (KERNELS,), tuple(missing))
    for op_type, entry in sorted(binaries.items()):
        listed = [info.parent / f"{op_file(op_type, vendor.ops_info[soc].get(op_type, {}))}.json"]
        listed += [
            vendor.path / TBE / "kernel" / name for file in entry.binaryList for name in (file.binPath, file.jsonPath)
        ]
        for path in listed:
            if not is_file(path) or not path.stat().st_size:
                state = "is empty" if is_file(path) else "does not exist"
                cause = f"{state}, but {info.name} lists kernels of {op_type}"
                repair = "install the package again with --force"
                yield Fault("binary-file-missing", str(path), cause, repair, (KERNELS,), (op_type,))


ENVIRONMENT_CHECKS: tuple[Callable[[Surroundings], Iterator[Fault]], ...] = (
    _toolkit,
    _custom_entries,
    _config,
    _nothing,
    _twice,
    _shadowed,
)
VENDOR_CHECKS: tuple[Callable[[Surroundings, Vendor], Iterator[Fault]], ...] = (
    _library_path,
    _implementation,
    _manifest,
    _tiling_hidden,
    _malformed,
    _version,
    _range,
    _unfinished,
    _libraries,
    _changed,
)
