"""Run the benchmark of the generator: its specs and its rows. Speed is not tested here."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "generate.py"


def test_the_table_of_a_few_specs(tmp_path):
    command = [sys.executable, str(SCRIPT), "--specs", "3", "--json", str(tmp_path / "rows.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert done.returncode == int(any(row["cpu_s"] > row["limit_s"] for row in rows)), done.stderr
    assert [row["what"] for row in rows] == ["generate 3 specs", "generate again, no change", "--help"]
    written = [row["files"] for row in rows]
    assert written[0] > 3 * 12, "every kind of file is made"
    assert written[1:] == [0, 0]
    assert all(0 < row["cpu_s"] <= row["elapsed_s"] + 0.05 for row in rows)
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == ["command", *(row["what"] for row in rows)]


def test_invalid_number_of_specs_is_rejected():
    done = subprocess.run([sys.executable, str(SCRIPT), "--specs", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "1" in done.stderr
