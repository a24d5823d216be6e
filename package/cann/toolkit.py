"""Find the CANN toolkit for a build: its folder, generation and environment variables.

Every package contains the folder of this module, and the module runs without opforge: it uses only the standard library
and the syntax of Python 3.7.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# The build method: the opforge CMake project with opc, or npu_op_package from the find_package(ASC) of the toolkit.
CANN_8, CANN_2026 = "8.x", "2026"
_VERSION = "compiler/version.info"
_MOST_BYTES = 1 << 20
# The values are debug, information, warning and error.
_LOG_LEVELS = ("0", "1", "2", "3")
# The keys that can contain the version, in order. Toolkits since 9.0 have version_dir=cann. install/vendor_tree.sh has
# the same rule.
_VERSION_KEYS = ("version_dir", "Version")
_VERSION_LINE = r'^[ \t]*{}[ \t]*=[ \t]*"?([0-9]{{1,9}}\.[0-9]{{1,9}}[0-9A-Za-z.+_-]{{0,60}})'
_OP_PACKAGE = re.compile(r"^[ \t]*(?:function|macro)[ \t]*\([ \t]*npu_op_package[ \t)]", re.IGNORECASE | re.MULTILINE)


class ToolkitError(Exception):
    """The folder is not a usable toolkit; the text has place, problem, expected value and fix."""


class Toolkit(NamedTuple):
    """An installed toolkit.

    Attributes:
        root: Its folder: ASCEND_HOME_PATH.
        generation: CANN_8 or CANN_2026.
        version: The release version: 8.1.RC1.
        compiler_version: The version that GE compares with the version of a package: 7.7.0.1.238.
        asc_dir: Folder of asc-config.cmake; empty for CANN_8.
        machine: Processor architecture of its host libraries: x86_64, aarch64.
    """

    root: str
    generation: str
    version: str
    compiler_version: str
    asc_dir: str
    machine: str


def read_toolkit(root: Path) -> Toolkit:
    """Read the properties of a toolkit from its folder.

    Raises:
        ToolkitError: The folder is not a toolkit, or has no version.
    """
    version = toolkit_version(root)
    if not version:
        raise ToolkitError("; ".join(filter(None, no_toolkit(root))))
    asc_dir = _asc_dir(root)
    machine = key_values(root / "opp" / "scene.info").get("arch", "")
    return Toolkit(
        root=str(root),
        generation=CANN_2026 if asc_dir else CANN_8,
        version=version,
        compiler_version=_version_of(_first_text(root / _VERSION), "Version") or version,
        asc_dir=asc_dir,
        # The value must be a folder name, not a path.
        machine=machine if re.fullmatch(r"[0-9A-Za-z_-]+", machine) else platform.machine(),
    )


def toolkit_version(root: Path) -> str:
    """Return the first of `version_dir` and `Version` that starts with digits.digits, as in 8.1.RC1; else ""."""
    text = _first_text(root / _VERSION)
    return next(filter(None, (_version_of(text, key) for key in _VERSION_KEYS)), "")


def _version_of(text: str, key: str) -> str:
    found = re.search(_VERSION_LINE.format(key), text, re.MULTILINE)
    return found.group(1) if found else ""


def _asc_dir(root: Path) -> str:
    """Return the folder of asc-config.cmake; empty if it is missing or has no npu_op_package, as in CANN 8.x."""
    modules = root / "compiler" / "tikcpp" / "ascendc_kernel_cmake"
    for library in (root / "lib64", *sorted(root.glob("*-linux/lib64"))):
        for config in sorted((library / "cmake").glob("**/asc-config.cmake")):
            sources = [config, *sorted(modules.glob("*.cmake")), *sorted(modules.glob("*/*.cmake"))]
            if any(_OP_PACKAGE.search(_first_text(path)) for path in sources):
                return str(config.parent)
    return ""


def no_toolkit(root: Path) -> tuple[str, str]:
    """Explain why a folder without a version cannot be used, and the fix; vendor_tree.sh prints the same texts."""
    if os.path.isfile(str(root / _VERSION)):  # noqa: PTH113  # no error for a path that is too long
        cause = (
            f"got '{root}', whose {_VERSION} cannot be read or names no version, expected version_dir= or Version= "
            "with a number such as 8.5.0"
        )
        return cause, "install the toolkit again, or name another one"
    cause = (
        f"got '{root}', expected the folder of a CANN toolkit, in which {_VERSION} is, as in "
        "/usr/local/Ascend/ascend-toolkit/latest"
    )
    return cause, ""


def _first_text(path: Path) -> str:
    """Return the first MiB of a file; empty if it cannot be read. A pipe is not opened."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def key_values(path: Path) -> Mapping[str, str]:
    """Return the lines `key=value` of the first MiB of a file; empty if it cannot be read."""
    pairs = [line.partition("=") for line in _first_text(path).splitlines()]
    return {key.strip(): value.strip().strip('"') for key, separator, value in pairs if separator}


def check_version(version: str, supported: Sequence[str]) -> str:
    """Compare a toolkit with the first and last version that a package supports; RC and patch do not count.

    Returns:
        A warning for a newer toolkit, which may work; otherwise an empty text.

    Raises:
        ToolkitError: The toolkit is older.
    """
    first, last = supported
    if release(version) < release(first):
        raise ToolkitError(f"got CANN {version}, expected {first} to {last}; use a newer toolkit")
    if release(version) > release(last):
        limits = f"range {first} to {last}" if first != last else f"version {first}"
        return f"CANN {version} is newer than the supported {limits}"
    return ""


def release(version: str) -> tuple[int, ...]:
    """Return the release as numbers: 8.1.RC1 -> (8, 1)."""
    return tuple(int(part) for part in re.findall(r"[0-9]+", version[:80])[:2])


def tool_environment(toolkit: Toolkit, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables for the programs of the toolkit: those of set_env.sh, then the log settings.

    Without the log variables, the compilers write messages to files in the home folder. If the user has set a more
    detailed log level, it is kept.
    """
    root = toolkit.root
    level = environment.get("ASCEND_GLOBAL_LOG_LEVEL", "")
    folders = {
        "PATH": ("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"),
        "LD_LIBRARY_PATH": (
            "tools/aml/lib64",
            "tools/aml/lib64/plugin",
            "lib64",
            "lib64/plugin/opskernel",
            "lib64/plugin/nnengine",
            f"opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{toolkit.machine}",
        ),
        "PYTHONPATH": ("python/site-packages", "opp/built-in/op_impl/ai_core/tbe"),
    }
    found = {key: value for key, value in environment.items() if key != "DESTDIR"}  # could redirect the installation
    for variable, paths in folders.items():
        before = [path for path in environment.get(variable, "").split(":") if path]
        own = [f"{root}/{path}" for path in paths]
        found[variable] = ":".join([*own, *(path for path in before if path not in own)])
    found.update(
        {
            "ASCEND_HOME_PATH": root,
            "ASCEND_TOOLKIT_HOME": root,
            "ASCEND_OPP_PATH": f"{root}/opp",
            "ASCEND_AICPU_PATH": root,
            "TOOLCHAIN_HOME": f"{root}/toolkit",
            "ASCEND_SLOG_PRINT_TO_STDOUT": "1",
            "ASCEND_GLOBAL_LOG_LEVEL": level if level in _LOG_LEVELS else _LOG_LEVELS[-1],
        }
    )
    return found
