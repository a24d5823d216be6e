"""The tutorial, done as it is written, with the installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import fences, follow

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "first-operator.md"


@pytest.mark.long
def test_tutorial_does_what_it_says(installed, tmp_path):
    _, *steps = fences(TUTORIAL)  # the first is how `installed` was made

    def run(command, folder):
        result = installed.run("bash", "-c", f"exec 2>&1; {command}", cwd=folder)
        return result.returncode, result.stdout

    assert follow(steps, tmp_path, run) > 10
