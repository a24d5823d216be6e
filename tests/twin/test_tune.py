"""Search constants of a plan: the fastest setting, rejected settings, resuming, and wrong input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from opforge.codegen.project import BUILTIN_ROOT

pytestmark = pytest.mark.long  # the fixture `first`
STARTER = BUILTIN_ROOT / "codegen" / "starters" / "elementwise"
# A tile of 32768 floats does not fit into UB. With a wrong factor, all cores work, but the results are wrong: for all
# calls, for one size that no test of the spec has, or on chips with 40 cores.
SPEC = """tiling:
  data:
    - {name: elements, type: int64}
    - {name: share, type: int64}
    - {name: tile, type: int64}
    - {name: alpha, type: float32}
    - {name: planned_ub_bytes, type: int64}
  keys:
    - {name: WithY, key: 1, when: present(y), template: [x, true]}
    - {name: WithoutY, key: 2, template: [x, false]}
  constants:
    - {name: tile_elements, value: 256, choices: [64, 256, 1024, 32768]}
    - {name: workers, value: 1, choices: [1, 2]}
    - {name: factor, value: 1, choices: [1, 2]}
    - {name: odd_factor, value: 1, choices: [1, 2]}
    - {name: chip_factor, value: 1, choices: [1, 2]}
"""
PLAN = """#include <algorithm>
#include "common/arithmetic.h"
#include "common/plan.h"
#include "scaled_add_problem.h"
#include "scaled_add_tiling_data.h"
namespace opforge {
constexpr Plan<ScaledAddTilingData> PlanScaledAdd(const ScaledAddProblem& problem, const Platform& platform)
{
    Plan<ScaledAddTilingData> plan;
    const int64_t factor = scaled_add::kFactor * (problem.S == 19999 ? scaled_add::kOddFactor : 1) *
                           (platform.coreNum == 40 ? scaled_add::kChipFactor : 1);
    const int64_t all = scaled_add::kFactor * scaled_add::kOddFactor * scaled_add::kChipFactor;
    const int64_t blocks = all == 1 ? scaled_add::kWorkers : 8;
    plan.data.elements = problem.S;
    plan.data.share = RoundUp(CeilDiv(problem.S, blocks), 64);
    plan.data.tile = scaled_add::kTileElements;
    plan.data.alpha = problem.alpha * factor;
    plan.blockNum = blocks;
    plan.tilingKey = problem.shapeCase == ScaledAddCase::kWithY ? SCALED_ADD_WITH_Y : SCALED_ADD_WITHOUT_Y;
    return plan;
}
}  // namespace opforge
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    shutil.copytree(STARTER, folder, dirs_exist_ok=True)
    spec = folder / "op_proto" / "scaled_add.yaml"
    head, _, rest = spec.read_text(encoding="utf-8").partition("tiling:\n")
    spec.write_text(head + SPEC + "\n" + rest[rest.index("tests:\n") :], encoding="utf-8")
    (folder / "op_host").mkdir()
    (folder / "op_host" / "scaled_add_tiling.h").write_text(PLAN, encoding="utf-8")
    return folder


def command(*words):
    return [sys.executable, "-m", "opforge.cli", "tune", *map(str, words)]


def tune(folder, *words):
    return subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, check=False, timeout=1200)


@pytest.fixture(scope="module")
def first(project):
    answer = project / "answer.json"
    result = tune(project, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", "--json", answer)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(answer.read_text()), result.stdout


def test_the_fastest_correct_setting_wins(first):
    answer, text = first
    factors = {"factor": 1, "odd_factor": 1, "chip_factor": 1}
    assert answer["best"]["setting"] == {"tile_elements": 1024, "workers": 2} | factors
    assert answer["best"]["estimate_us"] < answer["before"]["estimate_us"]
    assert "setting: tile_elements = 1024, workers = 2; write" in text


def test_findings_and_other_numbers_are_not_accepted(first):
    rows = {tuple(row["setting"].values()): row for row in first[0]["settings"]}
    wrong = {
        (2, 1, 1): "call: other numbers",
        (1, 2, 1): "call, S[0] -1: other numbers",
        (1, 1, 2): "call on Ascend910B3: other numbers",
    }
    for factors, reason in wrong.items():
        row = rows[256, 1, *factors]
        assert row["status"] == "rejected"
        assert row["estimate_us"] < first[0]["before"]["estimate_us"]
        assert row["reason"] == reason
    assert rows[32768, 1, 1, 1, 1]["status"] == "rejected"
    assert rows[32768, 1, 1, 1, 1]["reason"]
    assert rows[64, 1, 1, 1, 1]["status"] == "not faster"


def test_second_run_reuses_rows_of_the_state_file(project, first):
    state = project / "build" / "twin" / "tune" / "state.jsonl"
    before = state.read_bytes()
    state.write_bytes(b'{"key"\n\xff\xfe\n[]\n' + before)  # lines that are no rows
    result = tune(project, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == first[1].splitlines()[-1]
    assert state.read_bytes().endswith(before)
    assert state.read_bytes().count(b"\n") == before.count(b"\n") + 3


def test_an_interrupt_ends_the_search_and_keeps_the_state(project, first):
    state = project / "interrupted.jsonl"
    words = ("ScaledAdd", "--shape", "x=30000", "--dtype", "fp32", "--state", state, "-j", "1")
    # A shell without job control starts programs in the background with SIGINT ignored.
    process = subprocess.Popen(
        command(*words),
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # no threads here
    )
    assert process.stdout.readline().startswith("accepted")
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert all(json.loads(line)["row"]["status"] != "failed" for line in state.read_text().splitlines())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Nothing", "--shape", "x=4"), "OP: got 'Nothing', not in the project"),
        (("ScaledAdd", "--shape", "x=4", "--level", "hard"), "expected one of strict, device, fast"),
        (("ScaledAdd", "--shape", "x=4", "--timeout", "nan"), "got nan, expected a number of seconds"),
        (("ScaledAdd",), "got no shape of x"),
        (("ScaledAdd", "--shape", "x=99999999999999"), "expected at most"),
        (("ScaledAdd", "--shape", "x=4,y=5"), "does not run with the values of the spec"),
        (("ScaledAdd", "--shape", "x=4", "--executor", "cloud"), "expected 'local' or 'dask:ADDRESS'"),
        (("ScaledAdd", "--shape", "x=4", "--state", "op_proto"), "cannot write the results for --state: it is a link"),
        (("ScaledAdd", "--shape", "x=4", "--state", "none/a.jsonl"), "the folder none does not exist; create it"),
        (("ScaledAdd", "--shape", "x=4", "--state", "a.json", "--json", "a.json"), "the command also uses this file"),
        (("ScaledAdd", "--shape", "x=4", "--state", "op_proto/scaled_add.yaml"), "expected results of earlier runs"),
        (("ScaledAdd", "--shape", "x=4", "--json", "op_proto/scaled_add.yaml"), "the command also uses"),
        (("ScaledAdd", "--shape", "x=4", "--json", "/proc/x.json"), "/proc/x.json: cannot write the report"),
        # All rows of this search are in the state.
        pytest.param(
            ("ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", "--executor", "dask:foo"),
            "--executor",
            marks=pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed"),
        ),
    ],
)
def test_wrong_input_is_one_message(project, first, words, message):
    spec = project / "op_proto" / "scaled_add.yaml"
    before = spec.read_bytes()
    result = tune(project, *words)
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert spec.read_bytes() == before
    assert not (project / "none").exists()


def test_a_plan_without_constants_is_named(tmp_path):
    shutil.copytree(STARTER, tmp_path, dirs_exist_ok=True)
    result = tune(tmp_path, "ScaledAdd", "--shape", "x=4")
    assert result.returncode == 2
    assert "no tiling.constants" in result.stderr


def test_dask_gives_the_same_setting(project, first, tmp_path):
    distributed = pytest.importorskip("distributed")
    answer = tmp_path / "answer.json"
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        words = ("--executor", f"dask:{cluster.scheduler_address}", "--state", tmp_path / "state", "--json", answer)
        result = tune(project, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", *words)
    assert result.returncode == 0, result.stderr
    assert json.loads(answer.read_text())["best"] == first[0]["best"]
