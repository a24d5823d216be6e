"""Check the variables of the toolkit and the toolkit folders in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from opforge.codegen.printing import shown
from opforge.package.cann.toolkit import key_values, no_toolkit, release, toolkit_version
from opforge.package.layout import CANN_VERSIONS
from opforge.package.places import MOST_CHILDREN, children, is_dir, is_file, real, why_unusable

from .cann_environment import CUSTOM_PATH, HOME_PATH, OPP_PATH, PARSER, REGISTRY, CannEnvironment, closed
from .fault import Checks, Fault, unreadable

_SOURCE_IT = "source the set_env.sh of the toolkit"


class Variable(NamedTuple):
    """A variable of the toolkit, its value, and a file that exists in a valid folder."""

    name: str
    text: str
    file: str

    @property
    def folder(self) -> Path:
        """Return the folder in the variable."""
        return Path(self.text)


def variables(environment: CannEnvironment) -> Iterator[Variable]:
    """Yield the variables of the toolkit that are set."""
    for name, file in ((HOME_PATH, "compiler/version.info"), (OPP_PATH, "scene.info")):
        if text := environment.variables.get(name, ""):
            yield Variable(name, text, file)


VARIABLES: Checks[Variable] = Checks(first_only=True)
TOOLKIT: Checks[CannEnvironment] = Checks()
OPP: Checks[CannEnvironment] = Checks(first_only=True)


@VARIABLES.row("variable-wrong")
def _unusable(variable: Variable) -> Iterator[Fault]:
    if reason := why_unusable(variable.text):
        yield Fault(variable.name, f"got {shown(variable.text)}, but {reason}", _SOURCE_IT)


@VARIABLES.row("unreadable")
def _closed(variable: Variable) -> Iterator[Fault]:
    if place := closed(variable.folder) or closed(variable.folder / variable.file):
        yield unreadable(place, variable.folder)


@VARIABLES.row("relative-entry")
def _relative(variable: Variable) -> Iterator[Fault]:
    if not variable.folder.is_absolute():
        cause = f"got '{variable.folder}', a relative path; expected an absolute one"
        yield Fault(variable.name, cause, "give the absolute path")


@VARIABLES.row("variable-wrong")
def _absent(variable: Variable) -> Iterator[Fault]:
    if not is_dir(variable.folder):
        yield Fault(variable.name, f"got '{variable.folder}', which is not a folder", _SOURCE_IT)


@VARIABLES.row("no-toolkit")
def _no_version(variable: Variable) -> Iterator[Fault]:
    home = variable.folder
    if variable.name == HOME_PATH and not toolkit_version(home):
        below = [path for path in _two_levels(home) if toolkit_version(path)]
        cause, repair = no_toolkit(home)
        if below:
            cause, repair = f"got '{home}', the folder above the toolkit {below[0]}", ""
        yield Fault(HOME_PATH, cause, repair or _SOURCE_IT)


def _two_levels(folder: Path) -> list[Path]:
    """Return up to 10,000 paths in a folder and its direct subfolders."""
    first = children(folder)
    return sorted([*first, *islice((path for inner in first for path in children(inner)), MOST_CHILDREN)])


@TOOLKIT.row("set-env-not-sourced")
def _not_sourced(environment: CannEnvironment) -> Iterator[Fault]:
    missing = [name for name in (HOME_PATH, OPP_PATH) if environment.folder(name) is None]
    if environment.toolkits and missing:
        place = environment.toolkits[0]
        script = next((path for path in (place / "set_env.sh", place.parent / "set_env.sh") if is_file(path)), None)
        repair = f"source {shlex.quote(str(script))}" if script else _SOURCE_IT
        yield Fault(" and ".join(missing), f"not set, but a toolkit is in {place}", repair)
    elif missing == [HOME_PATH]:
        cause = f"not set, and {OPP_PATH} '{environment.folder(OPP_PATH)}' is not in a toolkit"
        yield Fault(HOME_PATH, cause, _SOURCE_IT)


@TOOLKIT.row("cann-untested")
def _newer(environment: CannEnvironment) -> Iterator[Fault]:
    first, last = CANN_VERSIONS
    if release(environment.version) > release(last):
        cause = f"is CANN {environment.version}, newer than the supported range {first} to {last}"
        repair = "use a supported version if the operators do not work"
        yield Fault(str(environment.toolkits[0]), cause, repair, is_warning=True)


@OPP.row("old-layout")
def _no_built_in(environment: CannEnvironment) -> Iterator[Fault]:
    opp = environment.folder(OPP_PATH)
    if opp and not is_dir(opp / "built-in"):
        above = "is the folder above opp: it " if is_dir(opp / "opp/built-in") else ""
        cause = f"{above}has no folder 'built-in', so programs assume an old layout and ignore {CUSTOM_PATH}"
        ignored = tuple(str(vendor.path) for vendor in environment.vendors if vendor.origin == CUSTOM_PATH)
        repair = f"point {OPP_PATH} at the toolkit's opp folder"
        yield Fault(str(opp), cause, repair, (REGISTRY, PARSER), vendors=ignored)


@OPP.row("mixed-toolkits")
def _two_toolkits(environment: CannEnvironment) -> Iterator[Fault]:
    home, opp = environment.folder(HOME_PATH), environment.folder(OPP_PATH)
    if home and opp and real(home) not in real(opp).parents:
        yield Fault(OPP_PATH, f"got '{opp}', which does not belong to the toolkit {home}", _SOURCE_IT)


@OPP.row("no-scene")
def _no_arch(environment: CannEnvironment) -> Iterator[Fault]:
    opp = environment.folder(OPP_PATH)
    if opp and "arch" not in key_values(opp / "scene.info"):
        cause = "has no arch, so programs cannot select the libraries of a vendor"
        yield Fault(str(opp / "scene.info"), cause, "install the toolkit again")
