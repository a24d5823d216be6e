"""Follow both parts of the tutorial with the installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import fences, follow

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"


@pytest.mark.long
def test_tutorial_commands_print_the_stated_output(installed, tmp_path):
    _, *steps = fences(TUTORIALS / "first-operator.md")  # the first fence is in the fixture `installed`
    assert follow(steps, tmp_path, runner(installed)) > 10


@pytest.mark.all
@pytest.mark.long
def test_second_tutorial_commands_print_the_stated_output(installed, tmp_path):
    assert follow(fences(TUTORIALS / "sum-across-cores.md"), tmp_path, runner(installed)) == 8


def runner(installed):
    """Return the function that runs a command in the environment of the wheel."""

    def run(command, folder):
        result = installed.run("bash", "-c", f"exec 2>&1; {command}", cwd=folder)
        return result.returncode, result.stdout

    return run
