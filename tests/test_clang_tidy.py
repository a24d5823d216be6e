"""Run clang-tidy on the twin and on generated host code; .clang-tidy has the checks."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opforge.codegen.generate import write_project
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.loader import load_project
from opforge.twin.build import build_project
from opforge.twin.compiler.operators import host_libraries
from opforge.twin.compiler.runtime_library import runtime_units, twin_dir
from opforge.twin.compiler.units import Unit

ROOT = Path(__file__).resolve().parent.parent
TIDY = Path(sys.executable).with_name("clang-tidy")  # of the extra `tidy`, which `build.sh -u --all` installs
OWN_HEADERS = "/(twin/(src|include)|op_host|op_plugin|gen)/"


def findings(unit: Unit) -> str:
    """Return the diagnostics of one unit."""
    before = [word for path in unit.before for word in ("-include", str(path))]
    flags = [flag for flag in unit.flags if flag.startswith(("-I", "-D"))]
    command = [str(TIDY), "--quiet", f"--header-filter={OWN_HEADERS}", f"--config-file={ROOT / '.clang-tidy'}"]
    command += [str(unit.source), "--", "-std=c++17", *flags, *before]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout if result.returncode == 0 else result.stdout + result.stderr


@pytest.mark.all
def test_clang_tidy_has_no_findings():
    project = Project(BUILTIN_ROOT)
    build_project(project)
    units = [*runtime_units(twin_dir(project))]
    specs = load_project(project)
    generated = write_project(project, specs).present
    libraries = host_libraries(project, [spec.name for spec in specs], generated)
    units += [unit for library in libraries for unit in library.units]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert "".join(pool.map(findings, units)) == ""
