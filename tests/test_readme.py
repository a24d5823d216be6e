"""Run the commands of README.md and compare their output."""

from __future__ import annotations

import subprocess
from pathlib import Path

from shown import follow_in_clone

ROOT = Path(__file__).resolve().parent.parent


def test_printed_compile_command_quotes_a_path_with_a_space(tmp_path):
    lines = (ROOT / "docs" / "how-to" / "call-an-operator.md").read_text().splitlines()
    (command,) = (line for line in lines if "opforge flags)" in line)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tmp_path / "build").mkdir()
    got = tmp_path / "arguments"
    scripts = {
        "opforge": """printf "%s\\n" "-DX '-I/a b/include'" """,
        "g++": f'printf "%s\\n" "$@" >"{got}"; echo "exit 0" >build/example; chmod +x build/example',
    }
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:/usr/bin:/bin"
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, env={"PATH": path}, check=True)
    source = "build/gen/docs/aclnnGroupedBiasAddGrad.cpp"
    assert got.read_text().splitlines() == [source, "-DX", "-I/a b/include", "-o", "build/example"]


def test_commands_of_the_readme_print_the_stated_output(tmp_path):
    assert follow_in_clone(ROOT / "README.md", tmp_path) >= 9
    assert (tmp_path / "opp" / "vendors" / "opforge" / "version.info").is_file()
    made = {f"/{path.name}/" if path.is_dir() else f"/{path.name}" for path in (tmp_path / "clone").iterdir()} - {
        "/examples/"
    }
    assert {"/model.onnx", "/converted.onnx", "/scaled_sum/"} <= made
    assert made <= set((ROOT / ".gitignore").read_text().splitlines())
