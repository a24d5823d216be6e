"""Compile the programs of this folder with the headers and the runtime of the twin."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from opforge.twin.build import INCLUDE, build_runtime

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Return `build(name, *include_folders)`, which compiles `<name>.cpp` and returns the program."""

    def compile_program(name, *folders):
        program = tmp_path_factory.mktemp(name) / name
        runtime = build_runtime()
        flags = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-Wcast-qual"]
        flags += [f"-I{folder}" for folder in (INCLUDE, ROOT / "op_host", ROOT / "op_plugin", *folders)]
        flags += [str(HERE / f"{name}.cpp"), str(runtime), f"-Wl,-rpath,{runtime.parent}", "-o", str(program)]
        subprocess.run([os.environ.get("CXX", "g++"), *flags], check=True)
        return program

    return compile_program
