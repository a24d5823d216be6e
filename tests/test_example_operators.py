"""Follow the page of the example operators, and compare its sizes with the files."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from shown import fences, follow, shell

from opforge.codegen.project import Project
from opforge.codegen.spec.loader import load_project

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "examples" / "operators"
PAGE = ROOT / "docs" / "explanation" / "example-operators.md"
OP_TYPES = ["RmsNormGrad", "RotaryEmbedding", "TopKGating"]


@pytest.mark.all
@pytest.mark.long
def test_commands_print_the_output_on_the_page(tmp_path):
    shutil.copytree(PROJECT, tmp_path / "examples" / "operators", ignore=shutil.ignore_patterns("build", "build_out"))
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OPFORGE", "COLUMNS"))}
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert follow(fences(PAGE), tmp_path, lambda command, folder: shell(command, folder, variables)) == 7


def test_sizes_are_those_of_the_files():
    specs = load_project(Project(PROJECT))
    assert [spec.op_type for spec in specs] == OP_TYPES
    for spec in specs:
        files = [f"op_proto/{spec.name}.yaml", spec.own_plan, spec.kernel]
        files += [f"tests/reference/{spec.name}.py", f"tests/test_{spec.name}.py"]
        counts = [f"{_lines(PROJECT / file)} lines" if file else "shared" for file in files]
        row = re.escape(" | ".join(["", spec.op_type, *counts, ""]).strip())
        assert re.search(rf"^{row} \d+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
