"""Run the commands of all pages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from shown import fences, follow, shell

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# These pages have their own tests, which prepare a folder or an environment.
TESTED = {"first-operator.md", "run-a-kernel.md", "troubleshooting.md"}
WITH_COMMANDS = [
    page for page in PAGES if page.name not in TESTED and any(fence.language == "console" for fence in fences(page))
]
# build.sh starts these programs after it has created the environment.
BUILD_SH = {"bash build.sh --pkg": "opforge pack --out build_out"}


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_commands_print_the_output_on_the_page(page, tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "examples").symlink_to(ROOT / "examples")
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND", "COLUMNS"))}
    variables |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def run(command, folder):
        return shell(BUILD_SH.get(command, command.replace(".venv/bin/", "")), folder, variables)

    assert follow(fences(page), clone, run) > 0


def test_build_sh_starts_the_program_of_each_command():
    text = (ROOT / "build.sh").read_text()
    assert [command for command in BUILD_SH.values() if command.split(" --")[0] not in text] == []
