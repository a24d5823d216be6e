"""Compile programs that draw random problems and check the guarantees of plans, with the undefined-behavior
sanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opforge.codegen.generate import write_project
from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_specs
from opforge.twin.compiler.flags import WARNINGS
from opforge.twin.compiler.units import compiler

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=[pytest.param(4, id="quarter"), pytest.param(1, id="whole", marks=pytest.mark.all)])
def check_plans(request, tmp_path):
    """Run `<name>_plan.cpp` in this folder on `count` random problems, or a quarter; expect no violation."""

    def check(name, count=200_000, seed=1):
        count //= request.param
        project = find_project(ROOT)
        write_project(project, load_specs(project.spec_paths()))
        folders = (ROOT / "op_host", project.gen_dir / "op_host", project.gen_dir / "op_kernel", Path(__file__).parent)
        includes = [f"-I{folder}" for folder in folders]
        sanitizer = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
        source = Path(__file__).with_name(f"{name}_plan.cpp")
        program = tmp_path / "plan"
        command = [compiler()[0], "-std=c++17", "-O2", *WARNINGS, *sanitizer, *includes, str(source), "-o", program]
        subprocess.run(command, check=True)
        result = subprocess.run([program, str(count), str(seed)], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert f"{count} problems, 0 violated guarantees" in result.stdout

    return check
