"""Write the CMake files for building projects of Ascend C samples for the CPU twin."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from opforge.codegen.data.products import DEFAULT_ARCH, DEFAULT_SOC, SOCS, soc_properties
from opforge.codegen.files import replace_file
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.build import INCLUDE, build_runtime, header_folders
from opforge.twin.compiler.npu_model import require_level

_SOURCES = Path(__file__).with_name("cmake")
# Paths where public projects search for the file that defines ascendc_library.
_ASCENDC = ("tools/tikcpp/ascendc_kernel_cmake", "compiler/tikcpp/ascendc_kernel_cmake", "tikcpp/ascendc_kernel_cmake")


def write_cmake_files(soc: str = DEFAULT_SOC, level: str = "strict") -> Path:
    """Write the CMake files to the build folder; return the toolchain file.

    Raises:
        UserError: The chip or the level is unknown, or the build folder cannot be written.
    """
    soc_properties(soc, "--soc")
    require_level(level, "--level")
    library = build_runtime()
    folder = Project(BUILTIN_ROOT).build_dir / "twin" / "cmake" / f"{soc}-{level}"
    values = {
        "@FOLDER@": str(folder),
        "@INCLUDE@": ";".join(map(str, header_folders())),
        "@LIBRARY@": str(library),
        "@LIBRARY_FOLDER@": str(library.parent),
        "@PYTHON@": sys.executable,
        "@COMMAND@": ";".join(_command(soc, level)),
        "@CHIPS@": " ".join(name for name, chip in SOCS.items() if chip.arch == DEFAULT_ARCH),
        "@COMPILER@": str(folder / "asc-compiler"),
    }
    for source in sorted(_SOURCES.iterdir()):
        text = source.read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(name, value)
        replace_file(folder / source.name, text)
    replace_file(folder / "asc-compiler", f'#!/bin/sh\nexec {shlex.join(_command(soc, level))} "$@"\n')
    (folder / "asc-compiler").chmod(0o755)
    for place in _ASCENDC:
        replace_file(folder / "toolkit" / place / "ascendc.cmake", f'include("{folder}/ASCConfig.cmake")\n')
    for name, target in (("include", INCLUDE), ("lib64", library.parent)):
        link = folder / "toolkit" / name
        if not (link.is_symlink() and link.readlink() == target):
            link.unlink(missing_ok=True)
            link.symlink_to(target)
    return folder / "opforge-twin.cmake"


def _command(soc: str, level: str) -> list[str]:
    return [sys.executable, "-m", "opforge.cli", "cc", "--soc", soc, "--level", level]
