"""Follow the guide for running a kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shown import fences, follow, shell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "run-a-kernel.md"


def test_guide_works_as_written(tmp_path):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND", "OPFORGE_TWIN"))}
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert follow(fences(PAGE), tmp_path, lambda command, place: shell(command, place, variables)) >= 6
