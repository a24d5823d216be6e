"""Test the benchmark table: its format, and that no figure of the model is worse than the committed baseline."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def operators(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("operators")


def table(*arguments):
    command = [sys.executable, str(BENCHMARKS / "operators.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_figures_of_the_quick_cases_have_not_dropped(tmp_path):
    rows_path = tmp_path / "rows.json"
    result = table("--quick", "--check", "--json", str(rows_path))
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads(rows_path.read_text())
    lines = [line for line in result.stdout.splitlines() if not line.startswith("? outside of the calibrated range")]
    assert len(lines) == 1 + len(rows)
    for row in rows:
        assert {"operator", "case", "dtype", "bytes", "eff", "bal", "estimate_us", "bound_us", "dma_count"} <= set(row)
        assert 1 <= row["bytes"] < 2
        assert 0 < row["eff"] <= 1.0001
        assert row["bal"] >= 1
        assert row["bound_us"] < row["estimate_us"]


@pytest.mark.all
def test_figures_of_all_cases_have_not_dropped():
    result = table("--check")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("figure", "factor", "is_found"),
    [("eff", 1.04, False), ("eff", 1.06, True), ("bytes", 0.96, False), ("bytes", 0.94, True), ("bal", 0.94, True)],
)
def test_figures_worse_by_more_than_five_percent_are_found(operators, figure, factor, is_found):
    row = {"operator": "Op", "case": "[4]", "dtype": "fp16", "bytes": 1.01, "eff": 0.8, "bal": 1.05, "dma_count": 70}
    known = {name: row[name] for name in ("bytes", "eff", "bal", "dma_count")}
    found = operators.regressions([row], {"Op [4] fp16": known | {figure: known[figure] * factor}})
    assert [figure in line for line in found] == [True] * is_found


def test_floor_of_a_sum_over_all_cores(operators):
    (case,) = (case for case in operators.cases_of("conv_tbc_backward") if "[512,32,80,1,3]" in case.name)
    latencies = 2 * (176 + 209 + 2 * 38.4)
    flags = 300 + 5 * 31.5
    instructions = 22 + 9.95 + 3 * 22 + 9 + 14  # MTE1, M, three DMAs, V with its drain
    cycles = latencies + flags + instructions + 2000  # the barrier
    loads_us = 32 * 512 * (80 + 1) * 2 / 1.42e6
    assert case.floor.us(loads_us) == pytest.approx(loads_us + cycles / 1850)


def test_a_case_without_baseline_is_found(operators):
    row = {"operator": "Op", "case": "[4]", "dtype": "fp16"}
    assert ["--update" in line for line in operators.regressions([row], {})] == [True]


@pytest.mark.parametrize("arguments", [("--operators", "Nothing"), ("--case", "no such case")])
def test_unknown_arguments_are_rejected(arguments):
    result = table(*arguments)
    assert result.returncode == 2
    assert arguments[1] in result.stderr
    assert "Traceback" not in result.stderr
