"""Search constants of a plan: the fastest setting, rejected settings, resuming, and wrong input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_runner import command_line

from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.loader import load_project
from opforge.twin.jobs import State
from opforge.twin.tune import command as tune_module
from opforge.twin.tune.worker import Job, Row, build_shared, run_one, work

pytestmark = [pytest.mark.long, pytest.mark.slow]  # the fixture `first`
STARTER = BUILTIN_ROOT / "codegen" / "starters" / "elementwise"
# A tile of 32768 floats does not fit into UB. With `wrong`, all cores work, but the results are wrong: for all calls,
# for one size that no test of the spec has, or on chips with 40 cores. Slow settings are not compiled.
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
    - {name: wrong, value: 0, choices: [0, 1, 2, 3]}
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
    const int64_t factor = 1 + (scaled_add::kWrong == 1) + (scaled_add::kWrong == 2 && problem.S == 19999) +
                           (scaled_add::kWrong == 3 && platform.coreNum == 40);
    const bool isSlow = scaled_add::kWrong > 0 && (scaled_add::kWorkers > 1 || scaled_add::kTileElements != 256);
    const int64_t blocks = isSlow ? 1 : scaled_add::kWrong > 0 ? 8 : scaled_add::kWorkers;
    plan.data.elements = problem.S;
    plan.data.share = RoundUp(CeilDiv(problem.S, blocks), 64);
    plan.data.tile = isSlow ? 64 : scaled_add::kTileElements;
    plan.data.alpha = problem.alpha * factor;
    plan.blockNum = blocks;
    plan.tilingKey = problem.shapeCase == ScaledAddCase::kWithY ? SCALED_ADD_WITH_Y : SCALED_ADD_WITHOUT_Y;
    return plan;
}
}  // namespace opforge
"""
ASSERTION = 'static_assert(scaled_add::kTileElements <= 512, "too large");'


def search(folder):
    """Search the constants of a new project."""
    shutil.copytree(STARTER, folder, dirs_exist_ok=True)
    spec = folder / "op_proto" / "scaled_add.yaml"
    head, _, rest = spec.read_text(encoding="utf-8").partition("tiling:\n")
    spec.write_text(head + SPEC + "\n" + rest[rest.index("tests:\n") :], encoding="utf-8")
    (folder / "op_host").mkdir()
    (folder / "op_host" / "scaled_add_tiling.h").write_text(PLAN, encoding="utf-8")
    result = tune(folder, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", "--json", folder / "answer.json")
    assert result.returncode == 0, result.stdout + result.stderr
    (folder / "answer.txt").write_text(result.stdout)
    assert [path.name for path in (folder / "build" / "twin" / "tune").iterdir()] == ["state.jsonl"]


@pytest.fixture(scope="session")
def project(once):
    """Return the project of one search, with its results. All workers read it."""
    return once("tuned", search)


def tune(folder, *words):
    return command_line()("tune", *words, cwd=folder)


@pytest.fixture(scope="session")
def first(project):
    return json.loads((project / "answer.json").read_text()), (project / "answer.txt").read_text()


def test_the_fastest_correct_setting_wins(first):
    answer, text = first
    assert answer["best"]["setting"] == {"tile_elements": 1024, "workers": 2, "wrong": 0}
    assert answer["best"]["estimate_us"] < answer["before"]["estimate_us"]
    assert "setting: tile_elements = 1024, workers = 2; write" in text


def test_findings_and_other_numbers_are_not_accepted(first):
    rows = {tuple(row["setting"].values()): row for row in first[0]["settings"]}
    on = ("call", "call, S[0] -1", "call on Ascend910B3")
    for wrong, call in enumerate(on, start=1):
        row = rows[256, 1, wrong]
        assert row["status"] == "rejected"
        assert row["estimate_us"] < first[0]["before"]["estimate_us"]
        assert row["reason"] == f"{call}: other numbers"
    assert rows[32768, 1, 0]["status"] == "rejected"
    assert rows[32768, 1, 0]["reason"]
    assert rows[64, 1, 0]["status"] == "not faster"


def test_second_run_reuses_rows_of_the_state_file(project, first, tmp_path):
    state = tmp_path / "state.jsonl"
    before = (project / "build" / "twin" / "tune" / "state.jsonl").read_bytes()
    first_row, second_row, others = before.split(b"\n", 2)
    other = json.loads(second_row)
    other["row"]["setting"] = {"evil": 1}
    # Lines that are no rows, and a row of another setting: this setting runs again.
    junk = [b'{"key"', b"\xff\xfe", b"[]", b"[" * 100_000, json.dumps(other).encode()]
    state.write_bytes(b"\n".join([*junk, first_row, others]))
    result = tune(project, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", "--state", state)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == first[1].splitlines()[-1]
    after = state.read_bytes().splitlines(keepends=True)
    assert [len(after), after[-1]] == [before.count(b"\n") + len(junk), second_row + b"\n"]


@pytest.mark.parametrize("name", ["op_host/factor.hpp", "vendor/op_impl/libcust.so"])
def test_any_file_of_an_operator_changes_its_version(tmp_path, name):
    shutil.copytree(STARTER, tmp_path, dirs_exist_ok=True)
    before = tune_module._version(Project(tmp_path), tmp_path / "vendor")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("constexpr int kFactor = 2;\n")
    assert tune_module._version(Project(tmp_path), tmp_path / "vendor") != before


def job_of(project, **setting):
    vendor = project / "build" / "twin" / "vendors" / "opforge"
    values = {"tile_elements": 256, "workers": 1, "wrong": 0}
    return Job(
        root=str(project),
        op_suffix="",
        op_type="ScaledAdd",
        soc="Ascend910B1",
        level="strict",
        dtype="fp32",
        cases=(("", {"x": (20000,)}, {}),),
        vendor=str(vendor),
        is_shared=False,
        setting=values | setting,
        seconds=600,
    )


def test_plans_share_a_library_unless_they_need_constants_at_compile_time(project, first, tmp_path):
    shutil.copytree(project, tmp_path / "other", ignore=shutil.ignore_patterns("build"))
    other = Project(tmp_path / "other")
    (spec,) = load_project(other)
    vendor = Path(job_of(project).vendor)
    plan = other.root / "op_host" / "scaled_add_tiling.h"
    text = plan.read_text()
    for number, line in enumerate(("constexpr int64_t kTwice = 2 * scaled_add::kTileElements;", ASSERTION)):
        plan.write_text(text.replace("namespace opforge {\n", f"namespace opforge {{\n{line}\n"))
        built = build_shared(Project(other.root, own_build_dir=tmp_path / str(number)), spec, vendor)
        assert built is None, line
    job = replace(job_of(project, tile_elements=1024), root=str(other.root))
    row = work(job, tmp_path / "setting")
    assert (row.status, row.reason) == ("rejected", "the plan does not compile: static assertion failed: too large")


def test_numbers_of_the_call_that_is_measured_are_compared(project, first, tmp_path):
    shutil.copytree(project, tmp_path / "other", ignore=shutil.ignore_patterns("build"))
    plan = tmp_path / "other" / "op_host" / "scaled_add_tiling.h"
    text = plan.read_text().replace("constexpr Plan<", "inline int64_t calls = 0;\ninline Plan<")
    assert "problem.alpha * factor;" in text
    plan.write_text(text.replace("problem.alpha * factor;", "problem.alpha * (++calls == 1 ? 2 : 1) * factor;"))
    row = run_one(replace(job_of(project), root=str(tmp_path / "other")))
    assert (row.status, row.reason) == ("rejected", "call: other numbers")


# The plan knows whether its constants are known to the compiler.
KNOWN = """template <typename T>
constexpr auto IsKnown(T) -> std::bool_constant<(scaled_add::kWorkers * int64_t{sizeof(T)} > 0)>
{
    return {};
}
constexpr std::false_type IsKnown(...) { return {}; }
"""


@pytest.mark.parametrize(
    ("blocks", "factor", "status", "message"),
    [
        pytest.param(
            *("IsKnown(0) ? 1 : scaled_add::kWorkers", "1", "not faster", "workers = 2: "), marks=pytest.mark.all
        ),
        pytest.param(
            *("IsKnown(0) ? scaled_add::kWorkers : 8", "1", "accepted", "workers = 1: "), marks=pytest.mark.all
        ),
        ("scaled_add::kWorkers", "IsKnown(0) ? scaled_add::kWorkers : 1", "rejected", ""),
    ],
)
def test_accepted_settings_have_the_result_of_the_compiled_plan(tmp_path, blocks, factor, status, message):
    shutil.copytree(STARTER, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "op_proto" / "scaled_add.yaml"
    head, _, rest = spec.read_text(encoding="utf-8").partition("tiling:\n")
    tiling = "".join(line for line in SPEC.splitlines(keepends=True) if "choices" not in line or "workers" in line)
    spec.write_text(head + tiling + "\n" + rest[rest.index("tests:\n") :], encoding="utf-8")
    plan = PLAN.replace("isSlow ? 64 : scaled_add::kTileElements", "256")
    plan = plan.replace("namespace opforge {\n", f"namespace opforge {{\n{KNOWN}\n", 1)
    before, _, after = plan.partition("    const int64_t factor =")
    plan = f"{before}    const int64_t factor = {factor};\n    const int64_t blocks = {blocks};\n"
    plan += after[after.index("    plan.data.elements") :]
    plan = plan.replace("Platform& platform", "Platform&")
    (tmp_path / "op_host").mkdir()
    (tmp_path / "op_host" / "scaled_add_tiling.h").write_text(plan, encoding="utf-8")
    answer = tmp_path / "answer.json"
    result = tune(tmp_path, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", "--json", answer)
    assert result.returncode == 0, result.stdout + result.stderr
    facts = json.loads(answer.read_text())
    one, two = (row for row in facts["settings"])
    assert [one["setting"], two["setting"]] == [{"workers": 1}, {"workers": 2}]
    assert (one["status"], two["status"]) == ("accepted", status)
    assert facts["best"] == (two if status == "accepted" else one)
    assert ("the search compiles each setting now" in result.stdout) == bool(message)
    assert message in result.stdout
    found = [compiled(tmp_path, spec, number) for number in (1, 2)]
    assert [row["estimate_us"] for row in (one, two)] == pytest.approx(found, rel=1e-6)


def compiled(folder, spec, workers):
    """Return the estimate of the operator with another value in its spec."""
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("name: workers, value: 1", f"name: workers, value: {workers}"), encoding="utf-8")
    words = ["profile", "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", "--json", folder / "profile.json"]
    assert command_line()(*words, cwd=folder).returncode == 0
    spec.write_text(text, encoding="utf-8")
    return json.loads((folder / "profile.json").read_text())["estimate_us"]


def test_folders_of_killed_searches_are_removed(tmp_path):
    with tune_module._plan_folder(tmp_path) as other:
        left = tmp_path / "plan-killed"
        (left / "build").mkdir(parents=True)
        (tmp_path / "plan-file").write_text("", encoding="utf-8")
        with tune_module._plan_folder(tmp_path) as folder:
            assert other.is_dir()
            assert folder.is_dir()
            assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["plan-file"]


@pytest.mark.parametrize("estimate", [0.0, -1.0, float("nan"), float("inf")])
def test_rows_with_impossible_estimates_are_not_read(tmp_path, estimate):
    path = tmp_path / "state.jsonl"
    state = State(path, path, Row)
    for status in ("accepted", "not faster", "rejected"):
        row = Row({"workers": 1}, status, 5.0)
        row.estimate_us = estimate
        state.put(status, row)
    state.put("good", Row({"workers": 1}, "accepted", 5.0))
    state._file.close()
    read = State(path, path, Row)
    read._file.close()
    assert [read.get(key) for key in ("accepted", "not faster")] == [None, None]
    assert (read.get("rejected") is None) == (estimate != 0)
    assert read.get("good") == Row({"workers": 1}, "accepted", 5.0)


@pytest.mark.parametrize("change", [{"results": {}}, {"status": "accepted", "reason": "", "estimate_us": 0.5}])
def test_changed_rows_are_not_read(tmp_path, change):
    path = tmp_path / "state.jsonl"
    state = State(path, path, Row)
    for key, status in (("first", "accepted"), ("second", "rejected")):
        state.put(key, Row({"workers": 1}, status, 5.0, results={"call": "digest"}))
    state._file.close()
    line, other = path.read_text().splitlines()
    entry = json.loads(line)
    path.write_text(f"{json.dumps(entry | {'row': entry['row'] | change})}\n{other}\n")
    read = State(path, path, Row)
    read._file.close()
    assert read.get("first") is None
    assert read.get("second") == Row({"workers": 1}, "rejected", 5.0, results={"call": "digest"})


def test_an_interrupt_ends_the_search_and_keeps_the_state(project, first, tmp_path):
    state = tmp_path / "interrupted.jsonl"
    words = ("ScaledAdd", "--shape", "x=30000", "--dtype", "fp32", "--state", state, "-j", "1")
    # A shell without job control starts programs in the background with SIGINT ignored.
    process = subprocess.Popen(
        [sys.executable, "-m", "opforge.cli", "tune", *map(str, words)],
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
        (("ScaledAdd", "--shape", "x=0"), "it launches no kernel"),
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
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        words = ("--executor", f"dask:{cluster.scheduler_address}", "--state", tmp_path / "state", "--json", answer)
        result = tune(project, "ScaledAdd", "--shape", "x=20000", "--dtype", "fp32", *words)
    assert result.returncode == 0, result.stderr
    assert json.loads(answer.read_text())["best"] == first[0]["best"]
