"""Run the benchmark of the frontend: its limits, and the rows of the recorded results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_small_models_give_the_rows_that_are_recorded(tmp_path):
    out = tmp_path / "rows.json"
    options = ["--nodes", "5000", "--megabytes", "1", "--repeat", "1", "--no-peers", "--json", str(out)]
    command = [sys.executable, str(BENCHMARKS / "frontend.py"), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    rows, recorded = (json.loads(path.read_text()) for path in (out, BENCHMARKS / "frontend.json"))
    missed = [row["what"] for row in rows if row["limited_value"] and row[row["limited_value"]] > row["limit"]]
    assert result.returncode == bool(missed), result.stderr
    assert len(result.stdout.splitlines()) == 1 + len(rows)
    assert result.stdout.count("MISSED") == len(missed)
    limited_value = [(row["what"], row["model"], row["limited_value"], row["limit"]) for row in rows]
    assert limited_value == [
        (row["what"], row["model"], row["limited_value"], row["limit"]) for row in recorded if row["limited_value"]
    ]
    assert all(row["cpu_s"] > 0 and row["peak_mb"] > 10 for row in rows)
