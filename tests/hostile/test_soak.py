"""Test that hundreds of calls do not change the process: memory, threads, open files and child processes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def soak():
    """Load the script as a module."""
    sys.path.insert(0, str(FOLDER))
    specification = importlib.util.spec_from_file_location("soak", FOLDER / "soak.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["soak"] = module
    specification.loader.exec_module(module)
    yield module
    sys.path.remove(str(FOLDER))
    del sys.modules["soak"]


def test_calls_leave_no_files_or_processes(tmp_path):
    files = ["--json", str(tmp_path / "soak.json"), "--svg", str(tmp_path / "soak.svg")]
    command = [sys.executable, str(FOLDER / "soak.py"), "--calls", "600", "--samples", "6", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    samples = json.loads((tmp_path / "soak.json").read_text())["samples"]
    assert [each["calls"] for each in samples] == [0, 100, 200, 300, 400, 500, 600]
    picture = (tmp_path / "soak.svg").read_text()
    assert picture.count("<polyline") == 1
    assert "600 calls in one process" in picture


@pytest.mark.parametrize(("name", "more"), [("threads", 1), ("files", 1), ("children", 1), ("resident", 5 << 20)])
def test_leaked_resource_is_named(soak, name, more):
    first = soak.Sample(0, 80 << 20, 3, 6, 0)
    last = replace(first, calls=10, **{name: getattr(first, name) + more})
    assert soak.problems([first, first, first]) == []
    (problem,) = soak.problems([first, first, last])
    assert problem.startswith("memory" if name == "resident" else name)
