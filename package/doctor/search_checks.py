"""Check the search for vendor folders: the entries of the variable, the file config.ini, and their order."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from opforge.codegen.printing import shown
from opforge.package.places import children, exists, is_dir, real, why_unusable

from .cann_environment import CUSTOM_PATH, OPP_PATH, PRIORITY, CannEnvironment, Vendor, closed, is_vendor, priorities
from .fault import Checks, Fault, unreadable

_NAME_IT = "remove the entry, or source bin/set_env.bash of the vendor folder"


class Listed(NamedTuple):
    """A vendor that config.ini names."""

    config: Path
    name: str

    @property
    def folder(self) -> Path | None:
        """Return its folder; None for a name that refers to a folder outside the vendors folder."""
        return None if "/" in self.name else self.config.parent / self.name


def configs(environment: CannEnvironment) -> list[Path]:
    """Return the file config.ini of the toolkit if the vendors folder exists or cannot be read."""
    opp = environment.folder(OPP_PATH)
    vendors = opp / "vendors" if opp and not closed(opp) else None
    return [vendors / "config.ini"] if vendors and (closed(vendors) or is_dir(vendors)) else []


def listed_vendors(environment: CannEnvironment) -> Iterator[Listed]:
    """Yield the vendors that config.ini names."""
    for config in configs(environment):
        yield from (Listed(config, name) for name in priorities(config) or ())


ENTRIES: Checks[str] = Checks(first_only=True)
CONFIGS: Checks[Path] = Checks(first_only=True)
LISTED: Checks[Listed] = Checks(first_only=True)
SEARCH: Checks[CannEnvironment] = Checks()


def _cut_off(vendor: Path) -> Iterator[Fault]:
    """Find a vendor folder that an interrupted installation moved away without a replacement."""
    if not exists(vendor) and is_dir(vendor.parent / f".{vendor.name}.work" / "old"):
        cause = "does not exist, because an installation was interrupted while it replaced the folder"
        yield Fault(str(vendor), cause, "run the installer again, which restores it")


@ENTRIES.row("entry-missing")
def _unusable_entry(text: str) -> Iterator[Fault]:
    if reason := why_unusable(text):
        yield Fault(CUSTOM_PATH, f"got {shown(text)}, but {reason}", _NAME_IT)


@ENTRIES.row("relative-entry")
def _relative_entry(text: str) -> Iterator[Fault]:
    if not Path(text).is_absolute():
        cause = f"got '{Path(text)}', a relative path; expected an absolute one"
        yield Fault(CUSTOM_PATH, cause, "give absolute paths")


@ENTRIES.row("unreadable")
def _closed_entry(text: str) -> Iterator[Fault]:
    if place := closed(Path(text)):
        yield unreadable(place, Path(text))


@ENTRIES.row("cut-off")
def _cut_off_entry(text: str) -> Iterator[Fault]:
    yield from _cut_off(Path(text))


@ENTRIES.row("entry-missing")
def _absent_entry(text: str) -> Iterator[Fault]:
    if not is_dir(Path(text)):
        yield Fault(CUSTOM_PATH, f"got '{Path(text)}', which is not a folder", _NAME_IT)


@ENTRIES.row("parent-of-vendor")
def _parent_entry(text: str) -> Iterator[Fault]:
    entry = Path(text)
    below = [path for path in (*children(entry), *children(entry / "vendors")) if is_vendor(path)]
    if below and not is_vendor(entry):
        cause = f"got '{entry}', the folder above the vendor folder {below[0]}"
        repair = f"source {shlex.quote(str(below[0] / 'bin/set_env.bash'))}, or name the vendor folder"
        yield Fault(CUSTOM_PATH, cause, repair)


@ENTRIES.row("no-vendor-folder")
def _other_entry(text: str) -> Iterator[Fault]:
    if not is_vendor(Path(text)):
        cause = f"got '{Path(text)}', which contains neither op_impl nor op_proto"
        yield Fault(CUSTOM_PATH, cause, "name the vendor folder of an installed package")


def _present(config: Path) -> list[str]:
    """Return names of the vendors in the folder of a config.ini."""
    return [path.name for path in children(config.parent) if is_vendor(path) and path.name[0] != "."]


@CONFIGS.row("unreadable")
def _closed_config(config: Path) -> Iterator[Fault]:
    if place := closed(config.parent) or closed(config):
        yield unreadable(place, place)


@CONFIGS.row("config-unreadable")
def _malformed_config(config: Path) -> Iterator[Fault]:
    present = _present(config)
    if priorities(config) is None and (present or os.path.lexists(config)):
        cause = f"cannot be read, or its first line is not {PRIORITY}=<vendor>,..."
        repair = f"write '{PRIORITY}={','.join(present)}' to it, with the preferred vendor first"
        yield Fault(str(config), cause, repair)


@CONFIGS.row("vendor-not-listed")
def _not_listed(config: Path) -> Iterator[Fault]:
    listed = priorities(config)
    for name in sorted(set(_present(config)).difference(listed)) if listed else ():
        cause = f"does not name the vendor '{name}', which is installed beside it"
        yield Fault(str(config), cause, f"add it to {PRIORITY}")


@LISTED.row("unreadable")
def _closed_vendor(listed: Listed) -> Iterator[Fault]:
    if listed.folder and (place := closed(listed.folder)):
        yield unreadable(place, listed.folder)


@LISTED.row("cut-off")
def _cut_off_vendor(listed: Listed) -> Iterator[Fault]:
    if listed.folder:
        yield from _cut_off(listed.folder)


@LISTED.row("config-vendor-missing")
def _absent_vendor(listed: Listed) -> Iterator[Fault]:
    if listed.folder is None or listed.name[0] == "." or not is_vendor(listed.folder):
        cause = f"names the vendor '{listed.name}', whose folder has no operators"
        yield Fault(str(listed.config), cause, "remove the name, or install its package again")


@SEARCH.row("no-vendor")
def _no_vendor(environment: CannEnvironment) -> Iterator[Fault]:
    is_named = environment.texts(CUSTOM_PATH) or environment.vendors or any(listed_vendors(environment))
    if environment.toolkits and not is_named and not CONFIGS.find(configs(environment)):
        cause = "not set, and no config.ini names a vendor: programs find no custom operator"
        repair = "source bin/set_env.bash of the folder <install path>/vendors/<vendor> of the package"
        yield Fault(CUSTOM_PATH, cause, repair)


@SEARCH.row("same-vendor-name")
def _same_name(environment: CannEnvironment) -> Iterator[Fault]:
    folders = {real(vendor.path): vendor for vendor in environment.vendors}
    for name, count in Counter(vendor.name for vendor in folders.values()).items():
        if count > 1:
            places = " and ".join(str(vendor.path) for vendor in folders.values() if vendor.name == name)
            cause = f"the vendor name of {count} folders: {places}"
            yield Fault(name, cause, "keep one of them, or pack one with another --vendor-name")


@SEARCH.row("shadowed")
def _shadowed(environment: CannEnvironment) -> Iterator[Fault]:
    first: dict[str, Vendor] = {}
    for vendor in environment.vendors:
        for op_type in sorted(vendor.operators):
            other = first.setdefault(op_type, vendor)
            if real(other.path) != real(vendor.path):
                cause = f"{op_type} is hidden by the one in {other.path} ({other.origin}), which is searched first"
                yield Fault(str(vendor.path), cause, "remove one of the packages, or change their order")
