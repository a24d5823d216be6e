"""The plan over random shapes, compiled once with the undefined-behaviour sanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opforge.codegen.generate import write_project
from opforge.codegen.loader import load_specs
from opforge.codegen.project import find_project
from opforge.twin.compiler import WARNINGS, compiler

ROOT = Path(__file__).resolve().parents[2]
COUNT = 200_000


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    project = find_project(ROOT)
    write_project(project, load_specs(project.spec_paths()))
    path = tmp_path_factory.mktemp("plan") / "plan"
    includes = [
        f"-I{folder}" for folder in (ROOT / "op_host", project.gen_dir / "op_host", project.gen_dir / "op_kernel")
    ]
    sanitizer = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    source = Path(__file__).with_name("grouped_bias_add_grad_plan.cpp")
    subprocess.run(
        [compiler()[0], "-std=c++17", "-O2", *WARNINGS, *sanitizer, *includes, str(source), "-o", str(path)], check=True
    )
    return path


def test_every_plan_keeps_its_promises(program):
    result = subprocess.run([str(program), str(COUNT), "1"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{COUNT} problems, 0 broken promises" in result.stdout
