"""Find the toolkit and the vendor folders that CANN's programs use in an environment. Read only."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from opforge.package.cann.build import BUILT
from opforge.package.cann.commands import PYTHON_TILING
from opforge.package.cann.toolkit import key_values, toolkit_version
from opforge.package.layout import TBE
from opforge.package.manifest import NAME as MANIFEST
from opforge.package.places import Tree, children, exists, first_text, is_dir, real, walk, why_unusable

from .documents import (
    BINARIES_FORM,
    BUILT_FORM,
    MANIFEST_FORM,
    OPS_INFO_FORM,
    Binaries,
    Built,
    Document,
    Manifest,
    OpsInfo,
    read_document,
)

HOME_PATH, OPP_PATH, CUSTOM_PATH = "ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH"
LIBRARY_PATH = "LD_LIBRARY_PATH"
# CANN's programs that search for operators.
REGISTRY, ENGINE, PARSER = "GE registry", "FE and ATC", "ONNX parser"
FUNCTIONS, KERNELS = "aclnn, torch_npu", "aclnn kernels"
PRIORITY = "load_priority"
_MOST_SOCS = 100
_MOST_ENTRIES = 1000
_MOST_CONFIG_BYTES = 1 << 16
# A comment without an end includes the rest of the text. Otherwise, each such comment would be searched to the end of
# the text.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"\baclnnStatus\s+(aclnn\w+)\s*\(")
# Default folders of CANN's installers.
USUAL_TOOLKITS = (
    Path("/usr/local/Ascend/ascend-toolkit/latest"),
    Path("/usr/local/Ascend/cann"),
    Path("/usr/local/Ascend/latest"),
    Path.home() / "Ascend/ascend-toolkit/latest",
)


@dataclass(frozen=True)
class Vendor:
    """A folder that contains the operators of one vendor.

    Attributes:
        path: The folder.
        origin: The source of the path: ASCEND_CUSTOM_OPP_PATH or config.ini.
        machine: Folder of the libraries: linux/x86_64, linux/aarch64.
    """

    path: Path
    origin: str
    machine: str

    @property
    def name(self) -> str:
        """Return the last part of the path, which is also the first part of the name of its `_impl` folder."""
        return self.path.name

    @cached_property
    def tree(self) -> Tree:
        """Return all files and folders in it, within the limits."""
        return walk(self.path)

    @cached_property
    def closed(self) -> list[Path]:
        """Return its entries that this user cannot open: folders, then files."""
        return [*self.tree.closed_folders, *(path for path in self.tree.files if _is_closed(path))]

    @cached_property
    def documents(self) -> dict[Path, Document]:
        """Return its existing JSON files."""
        forms = {self.path / MANIFEST: MANIFEST_FORM, self.path / BUILT: BUILT_FORM}
        tbe = self.path / TBE
        for soc in children(tbe / "config", most=_MOST_SOCS):
            forms |= dict.fromkeys(children(soc, "aic-*-ops-info.json", most=_MOST_SOCS), OPS_INFO_FORM)
        for soc in children(tbe / "kernel/config", most=_MOST_SOCS):
            forms[soc / "binary_info_config.json"] = BINARIES_FORM
        return {path: read_document(path, form) for path, form in forms.items() if os.path.lexists(path)}

    def _value(self, path: Path) -> Any:
        """Return the value of a JSON file; None if it is missing or malformed."""
        return self.documents.get(path, Document(None, "")).value

    @cached_property
    def ops_info(self) -> dict[str, OpsInfo]:
        """Return SoC directory -> operator type -> entry; a malformed file counts as empty."""
        folder = self.path / TBE / "config"
        paths = [path for path in self.documents if folder in path.parents]
        return {path.parent.name: self._value(path) or {} for path in paths if path.name == ops_info_name(path.parent)}

    @cached_property
    def functions(self) -> list[str]:
        """Return the aclnn functions that its headers declare."""
        headers = children(self.path / "op_api/include", "aclnn*.h")
        return sorted({name for path in headers for name in _functions(path)})

    @cached_property
    def operators(self) -> frozenset[str]:
        """Return the types of its operators, according to its files."""
        return frozenset(self.manifest.operators if self.manifest else ()).union(*self.ops_info.values())

    def binaries(self, soc: str) -> dict[str, Binaries]:
        """Return operator type -> its kernel binaries for a SoC directory; empty without a binary release."""
        found: dict[str, Binaries] | None = self._value(self.binary_info(soc))
        return {op_type: entry for op_type, entry in (found or {}).items() if entry.binaryList}

    def binary_info(self, soc: str) -> Path:
        """Return the file that lists the kernel binaries for a SoC directory."""
        return self.path / TBE / "kernel/config" / soc / "binary_info_config.json"

    @property
    def manifest(self) -> Manifest | None:
        """Return the manifest of opforge; None for packages of other tools."""
        found: Manifest | None = self._value(self.path / MANIFEST)
        return found

    @property
    def built(self) -> Built | None:
        """Return the list of files that a toolkit built during the installation; None if it does not exist."""
        found: Built | None = self._value(self.path / BUILT)
        return found

    @property
    def cann(self) -> tuple[str, str] | None:
        """Return the first and the last supported version of CANN; None if unknown."""
        if self.built:
            return self.built.toolkit, self.built.toolkit
        return self.manifest.cann if self.manifest else None

    @property
    def libraries(self) -> dict[str, Path]:
        """Return the paths of the libraries by purpose."""
        return {
            "shape inference": self.path / "op_proto/lib" / self.machine / "libcust_opsproto_rt2.0.so",
            "tiling": self.path / TBE / "op_tiling/lib" / self.machine / "libcust_opmaster_rt2.0.so",
            "tiling for static shapes (E90003)": self.path / PYTHON_TILING,
            "aclnn": self.path / "op_api/lib/libcust_opapi.so",
            "ONNX plugin": self.path / "framework/onnx/libcust_onnx_parsers.so",
        }

    @property
    def needs(self) -> dict[str, list[Path]]:
        """Return program -> paths that it needs in the folder for every SoC."""
        libraries, tbe = self.libraries, self.path / TBE
        return {
            REGISTRY: [libraries["shape inference"], libraries["tiling"]],
            ENGINE: [tbe / f"{self.name}_impl"],
            PARSER: [libraries["ONNX plugin"]],
            FUNCTIONS: [libraries["aclnn"]],
            KERNELS: [libraries["tiling"], tbe / "kernel/config"],
        }

    def users(self, path: Path) -> tuple[str, ...]:
        """Return programs that need a file or folder."""
        return tuple(program for program, paths in self.needs.items() if path in paths)


@dataclass(frozen=True)
class CannEnvironment:
    """The environment variables of a process, and the toolkits and vendors that they select.

    Attributes:
        variables: Its variables.
        usual_toolkits: Default folders of toolkits.
    """

    variables: Mapping[str, str]
    usual_toolkits: Sequence[Path] = USUAL_TOOLKITS

    def folder(self, variable: str) -> Path | None:
        """Return the folder in a variable; None if the variable is unset or empty, or no program can use the path."""
        text = self.variables.get(variable, "")
        return Path(text) if text and not why_unusable(text) else None

    def texts(self, variable: str) -> list[str]:
        """Return the first 1000 entries of a colon list."""
        return [text for text in self.variables.get(variable, "").split(":", _MOST_ENTRIES)[:_MOST_ENTRIES] if text]

    def entries(self, variable: str) -> list[Path]:
        """Return the folders of a colon list that programs can use, without duplicates."""
        return list(dict.fromkeys(Path(text) for text in self.texts(variable) if not why_unusable(text)))

    @cached_property
    def toolkits(self) -> list[Path]:
        """Return toolkits that this user can read: first those of the variables, then those in the default folders."""
        home, opp = self.folder(HOME_PATH), self.folder(OPP_PATH)
        places = [*([home] if home else []), *([opp.parent] if opp else []), *self.usual_toolkits]
        return list(dict.fromkeys(path for path in places if not closed(path) and toolkit_version(path)))

    @cached_property
    def version(self) -> str:
        """Return the version of the toolkit that programs use: 8.1.RC1; empty if there is no toolkit."""
        return toolkit_version(self.toolkits[0]) if self.toolkits else ""

    @cached_property
    def machine(self) -> str:
        """Return `<os>/<arch>` of the libraries: from scene.info of the toolkit, else of this machine."""
        opp = self.folder(OPP_PATH)
        scene = key_values(opp / "scene.info") if opp else {}
        return f"{scene.get('os', 'linux')}/{scene.get('arch', platform.machine())}"

    @cached_property
    def vendors(self) -> list[Vendor]:
        """Return vendor folders, in the search order of all programs."""
        found = [Vendor(path, CUSTOM_PATH, self.machine) for path in self.entries(CUSTOM_PATH)]
        if opp := self.folder(OPP_PATH):
            names = priorities(opp / "vendors/config.ini") or ()
            listed = [opp / "vendors" / name for name in names if "/" not in name]
            found += [Vendor(path, "config.ini", self.machine) for path in listed]
        return [vendor for vendor in found if is_vendor(vendor.path)]


def ops_info_name(folder: Path) -> str:
    """Return the name of the only file that FE and ATC read in the folder of a SoC."""
    return f"aic-{folder.name}-ops-info.json"


def _functions(header: Path) -> list[str]:
    return _FUNCTION.findall(_COMMENT.sub("", first_text(header)))


def is_vendor(path: Path) -> bool:
    """Return whether a folder contains operators; distinguishes a vendor folder from its parent."""
    return not closed(path) and (is_visible(path / "op_impl") or is_visible(path / "op_proto"))


def closed(path: Path) -> Path | None:
    """Return `path` or the first parent folder that this user cannot open; follows links.

    Files in such a folder would seem to be missing.
    """
    path = real(path)
    for folder in reversed(path.parents):
        if is_dir(folder) and not os.access(folder, os.X_OK, effective_ids=True):
            return folder
    needed = os.R_OK | os.X_OK if is_dir(path) else os.R_OK
    return path if exists(path) and not os.access(path, needed, effective_ids=True) else None


def is_visible(path: Path) -> bool:
    """Return whether this user's programs find a file or folder."""
    return not why_unusable(str(path)) and os.access(path, os.R_OK, effective_ids=True)


def _is_closed(path: Path) -> bool:
    """Return whether a file below a folder exists, but this user cannot open it."""
    try:
        path.stat()
    except (OSError, ValueError) as error:
        return isinstance(error, PermissionError)
    return not is_visible(path)


def priorities(config: Path) -> list[str] | None:
    """Return the vendors in the first line of a config.ini (`load_priority=a,b`); None if it is unusable."""
    first, end, _ = first_text(config, _MOST_CONFIG_BYTES).partition("\n")
    if not end and len(first) >= _MOST_CONFIG_BYTES:
        return None
    key, separator, value = first.partition("=")
    names = [name.strip() for name in value.split(",") if name.strip()]
    is_list = separator and "=" not in value and value.strip().isprintable()
    return names if is_list and key.strip() == PRIORITY and names else None
