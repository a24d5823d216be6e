"""Run the commands of all pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import THROUGH_BUILD_SH, fences, follow_in_clone

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# Most commands of these pages compile.
SLOW = {"find-the-slow-line.md"}
# These pages have their own tests, which prepare a folder or an environment.
TESTED = {"example-operators.md", "first-operator.md", "run-a-kernel.md", "sum-across-cores.md", "troubleshooting.md"}
WITH_COMMANDS = [
    page for page in PAGES if page.name not in TESTED and any(fence.language == "console" for fence in fences(page))
]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.all if page.name in SLOW else ()) for page in WITH_COMMANDS],
    ids=name,
)
def test_commands_print_the_output_on_the_page(page, tmp_path):
    assert follow_in_clone(page, tmp_path) > 0


def test_build_sh_starts_the_program_of_each_command():
    text = (ROOT / "build.sh").read_text()
    programs = [command.split(" --")[0].removeprefix("python ") for command in THROUGH_BUILD_SH.values()]
    assert [program for program in programs if program not in text] == []
