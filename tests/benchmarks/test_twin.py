"""Run the benchmark of the twin: its rows and its targets. Speed is not tested here."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "twin.py"


def test_the_table_of_small_arrays(tmp_path):
    command = [sys.executable, str(SCRIPT), "--megabytes", "1", "--json", str(tmp_path / "rows.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert done.returncode == int(not all(row["is_met"] for row in rows)), done.stderr
    assert [(row["target"], row["unit"], row["at_least"]) for row in rows] == [
        (25, "MB/s", True),
        (200 + 0.75 * 2 * 30 * 8192 * 4 / 1e6, "MB", False),
        (400, "MB/s", True),
        (200, "MB", False),
        (15, "CPU s", False),
    ]
    for row in rows:
        met = row["value"] >= row["target"] if row["at_least"] else row["value"] <= row["target"]
        assert row["is_met"] == met
        assert row["value"] > 0 or row["unit"] == "MB"
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == ["what", *(row["what"] for row in rows)]


def test_invalid_size_is_rejected():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--megabytes", "0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
