"""Test the value types of the host side in C++."""

from __future__ import annotations

import subprocess
from pathlib import Path

from opforge.twin.build import build_runtime, include_flags

SOURCE = Path(__file__).parent / "types.cpp"


def test_value_types(tmp_path):
    library = build_runtime()
    program = tmp_path / "types"
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *include_flags(), str(SOURCE), "-o", str(program)]
    links = [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lopforge_twin"]
    compiled = subprocess.run([*command, *links], capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
