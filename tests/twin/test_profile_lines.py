"""Compare times by source line with times computed by hand from twin/npu_model.json."""

from __future__ import annotations

import json
from math import prod

import numpy as np
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.data.products import SOCS
from opforge.codegen.project import BUILTIN_ROOT, find_project
from opforge.codegen.spec.loader import load_specs
from opforge.twin.build import npu_model
from opforge.twin.profile.lines import Step, fold, line_figures

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

constexpr int kCount = 8192;

#define BEGIN(x, y)                          \\
    TPipe pipe;                              \\
    TBuf<TPosition::VECCALC> buffer;         \\
    pipe.InitBuffer(buffer, kCount * 4);     \\
    GlobalTensor<float> xGm, yGm;            \\
    xGm.SetGlobalBuffer((__gm__ float*)x);   \\
    yGm.SetGlobalBuffer((__gm__ float*)y);   \\
    LocalTensor<float> part = buffer.Get<float>()

/// Bytes only.
extern "C" __global__ __aicore__ void moves(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    BEGIN(x, y);
    DataCopy(part, xGm, kCount);  // load
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);  // loaded
    DataCopy(yGm, part, kCount);  // store
}

/// A copy that is finished before its latency.
extern "C" __global__ __aicore__ void little(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    BEGIN(x, y);
    DataCopy(part, xGm, 64);  // little load
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);  // little loaded
    Adds(part, part, 1.0f, 64);  // little add
}

/// A barrier of all pipes that no instruction needs.
extern "C" __global__ __aicore__ void blocked(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    BEGIN(x, y);
    Duplicate(part, 1.0f, 4096);
    PipeBarrier<PIPE_V>();
    Exp(part, part, 4096);  // long
    PipeBarrier<PIPE_ALL>();  // forced
    DataCopy(part[4096], xGm, 4096);  // independent
}

/// Barriers of all cores.
extern "C" __global__ __aicore__ void phases(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    BEGIN(x, y);
    for (int round = 0; round < 3; ++round) {
        part.SetValue(0, 1.0f);  // scalar
        SyncAll();  // all
    }
}

/// Each block reads all of x twice.
extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    BEGIN(x, y);
    for (int tile = 0; tile < 200; ++tile) {
        DataCopy(part, xGm[tile % 100 * kCount], kCount);  // again
        PipeBarrier<PIPE_MTE2>();
    }
}

/// Every block has its own tiles.
extern "C" __global__ __aicore__ void wide(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    BEGIN(x, y);
    for (int tile = 0; tile < 4; ++tile) {
        DataCopy(part, xGm[(GetBlockIdx() * 4 + tile) * kCount], kCount);
        PipeBarrier<PIPE_MTE2>();
    }
}

/// One core waits for a flag of the other one.
extern "C" __global__ __aicore__ void handed(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    if ASCEND_IS_AIC {
        CrossCoreSetFlag<2, PIPE_FIX>(3);
    } else {
        BEGIN(x, y);
        CrossCoreWaitFlag(3);  // handed over
        DataCopy(part, xGm, kCount);
    }
}
"""
MODEL = {name: constant["value"] for name, constant in npu_model()["constants"].items()}
MHZ = SOCS["Ascend910B1"].mhz
PORT = MODEL["port_first_touch_bytes_per_cycle_per_core"]
BYTES = 8192 * 4
READ, WRITE = MODEL["dma_read_latency_cycles"], MODEL["dma_write_latency_cycles"]
FLAG, DRAIN, ISSUE = MODEL["flag_cycles"], MODEL["vector_drain_cycles"], MODEL["dma_issue_cycles"]
SPECS = load_specs(find_project(BUILTIN_ROOT).spec_paths())


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


@pytest.fixture
def profiled(kernels, monkeypatch, tmp_path):
    """Return the report of a launch, and its figures by line."""

    def run(symbol, floats=8192, roles=(1, 2), **options):
        monkeypatch.setenv("OPFORGE_TWIN_LINES", "1")
        x, y = np.ones(floats, np.float32), np.zeros(8192, np.float32)
        report = kernels.run(symbol, x, y, roles=roles, strict=False, seed=1, threads=1, **options)
        figures = line_figures(report, tmp_path)
        assert_sums(report, figures)
        return report, figures

    return run


def assert_sums(launch, figures):
    """Check that the times of lines add up to those of pipes, phases and launches."""
    running = launch["estimate_us"] - launch["launch_us"] if "estimate_us" in launch else None
    phases = launch["phases"]
    expected = sum(max(phase["core_us"], phase["gm_us"], phase["l2_us"]) + phase["sync_us"] for phase in phases)
    assert running is None or running == pytest.approx(expected, rel=1e-4)
    assert sum(row["us"] for row in figures["path"]) == pytest.approx(expected, rel=1e-4)
    for row in figures["path"]:
        causes = ("work", "bandwidth", "latency", "drain", "flags")
        assert sum(row[f"{cause}_us"] for cause in causes) == pytest.approx(row["us"])
        assert min(row[f"{cause}_us"] for cause in causes) >= 0
        assert row["text"] != "steps that were not recorded"
    for row in figures["waits"]:
        causes = ("bandwidth", "latency", "drain", "flags")
        assert sum(row[f"{cause}_us"] for cause in causes) == pytest.approx(row["us"])
    for phase, steps in zip(phases, figures["steps"], strict=True):
        assert sum(step["us"] for step in steps) == pytest.approx(phase["core_us"], rel=1e-4, abs=1e-6)
    for pipe, busy in launch["pipes"].items():
        rows = [row for row in figures["lines"] if row["pipe"] == pipe]
        assert sum(row["us"] for row in rows) == pytest.approx(busy["mean_us"], rel=1e-4)
        assert sum(row["share"] for row in rows) == pytest.approx(1, rel=1e-4)
    assert {row["pipe"] for row in figures["lines"]} == set(launch["pipes"])


def number_of(comment):
    """Return the line of the source that ends with this comment."""
    (number,) = (at for at, line in enumerate(SOURCE.splitlines(), 1) if line.endswith(f"// {comment}"))
    return number


def at(rows, comment, pipe=None):
    """Return the row of the line that ends with this comment; times in cycles."""
    number = number_of(comment)
    (row,) = (row for row in rows if row["where"].endswith(f":{number}") and pipe in {None, row.get("pipe")})
    assert row["text"].endswith(f"// {comment}")
    return {key.removesuffix("_us"): value * MHZ for key, value in row.items() if key == "us" or key.endswith("_us")}


def cycles(expected, causes):
    """Return a row with these cycles and no others."""
    return pytest.approx({cause: expected.get(cause, 0) for cause in ("us", *causes)}, rel=1e-4, abs=1e-3)


PATH = ("work", "bandwidth", "latency", "drain", "flags")
WAITS = ("bandwidth", "latency", "drain", "flags")


def test_bytes_are_bandwidth(profiled):
    report, figures = profiled("moves")
    moving = BYTES / PORT
    for comment, latency in (("load", READ), ("store", WRITE)):
        copy = {"us": moving + latency, "bandwidth": moving, "latency": latency}
        assert at(figures["path"], comment) == cycles(copy, PATH)
    assert at(figures["path"], "loaded") == cycles({"us": FLAG, "flags": FLAG}, PATH)
    share = 2 * moving / (2 * moving + READ + WRITE + FLAG)
    bandwidth = sum(row["bandwidth_us"] for row in figures["path"])
    assert bandwidth / report["phases"][0]["core_us"] == pytest.approx(share, rel=1e-4)
    waited = {"us": moving + READ + FLAG, "latency": READ, "bandwidth": moving, "flags": FLAG}
    assert at(figures["waits"], "loaded", "MTE3") == cycles(waited, WAITS)
    rows = {row["pipe"]: row for row in figures["lines"]}
    assert [rows[pipe]["bytes"] for pipe in ("MTE2", "MTE3")] == [BYTES, BYTES]
    assert [rows[pipe]["instructions"] for pipe in ("MTE2", "MTE3")] == [1, 1]
    assert rows["MTE2"]["first_touch_bytes"] == BYTES
    steps = [(step["where"].rpartition(":")[2], step["label"]) for step in figures["steps"][0]]
    names = [("load", "MTE2"), ("load", "latency"), ("loaded", "flags"), ("store", "MTE3"), ("store", "latency")]
    assert steps == [(str(number_of(comment)), label) for comment, label in names]


def test_a_little_copy_is_latency(profiled):
    _, figures = profiled("little")
    moving = 64 * 4 / PORT
    issue = ISSUE - moving  # the rest of the issue, after the bytes
    expected = {"us": ISSUE + READ, "work": issue, "bandwidth": moving, "latency": READ}
    assert at(figures["path"], "little load") == cycles(expected, PATH)
    assert at(figures["path"], "little loaded") == cycles({"us": FLAG, "flags": FLAG}, PATH)
    waited = {"us": ISSUE + READ + FLAG, "latency": issue + READ, "bandwidth": moving, "flags": FLAG}
    assert at(figures["waits"], "little loaded", "V") == cycles(waited, WAITS)


def test_a_forced_barrier_is_flags_at_its_line(profiled):
    _, figures = profiled("blocked")
    issue, repeats = MODEL["vector_issue_cycles"], 4096 * 4 / 256
    fill = issue + repeats * MODEL["vector_cycles_per_repeat"]
    work = issue + repeats * MODEL["vector_slow_cycles_per_repeat"]
    # The scalar unit issues all instructions and then waits for the vector unit: two instructions and two drains.
    waited = {"us": fill + work + 2 * DRAIN, "flags": fill + work, "drain": 2 * DRAIN}
    assert at(figures["waits"], "forced", "S") == cycles(waited, WAITS)
    assert at(figures["path"], "forced") == cycles({"us": DRAIN, "drain": DRAIN}, PATH)
    assert at(figures["path"], "long") == cycles({"us": work, "work": work}, PATH)
    assert at(figures["path"], "independent")["us"] > 4096 * 4 / PORT


def test_barriers_of_all_cores_are_flags_at_their_line(profiled):
    report, figures = profiled("phases", blocks=2, roles=(3, 3))  # 3: x may stay unread
    assert len(report["phases"]) == 4
    barriers = 3 * MODEL["sync_all_cycles"]
    row = at(figures["path"], "all")
    assert row == cycles({"us": barriers, "flags": barriers}, PATH)
    scalar = 3 * MODEL["scalar_ub_access_cycles"]
    assert at(figures["path"], "scalar") == cycles({"us": scalar, "work": scalar}, PATH)


def test_lines_separate_first_touch_and_l2_bytes(profiled):
    report, figures = profiled("twice", 100 * 8192, blocks=2)
    (row,) = (row for row in figures["lines"] if row["pipe"] == "MTE2")
    assert row["bytes"] == 2 * 200 * BYTES
    assert row["first_touch_bytes"] == report["first_touch_bytes"] == 100 * BYTES
    moving = 100 * BYTES / PORT + 300 * BYTES / MODEL["port_l2_read_bytes_per_cycle_per_core"]
    assert row["bandwidth_us"] * MHZ * 48 == pytest.approx(moving, rel=1e-4)
    assert row["us"] * MHZ * 48 == pytest.approx(moving, rel=1e-4)
    assert at(figures["path"], "again")["us"] == pytest.approx(report["phases"][0]["core_us"] * MHZ, rel=1e-4)


def test_bandwidth_of_all_cores_is_a_separate_row(profiled):
    report, figures = profiled("wide", 48 * 4 * 8192, blocks=48)
    (phase,) = report["phases"]
    (row,) = (row for row in figures["path"] if row["text"] == "all cores: GM bandwidth")
    expected = 48 * 4 * BYTES / MODEL["gm_bandwidth_bytes_per_s"] * 1e6
    assert row["bandwidth_us"] == pytest.approx(expected - phase["core_us"], rel=1e-3)
    assert row["where"] == ""


def test_later_blocks_of_a_core_continue_its_path(profiled):
    one, _ = profiled("wide", 96 * 4 * 8192, blocks=48)
    two, figures = profiled("wide", 96 * 4 * 8192, blocks=96)
    assert two["phases"][0]["core_us"] == pytest.approx(2 * one["phases"][0]["core_us"], rel=1e-4)
    assert sum(row["instructions"] for row in figures["lines"]) == 96 * 4


def test_a_flag_of_another_core_is_flags_at_its_line(profiled):
    _, figures = profiled("handed")
    waited = MODEL["cross_core_flag_cycles"]
    assert at(figures["path"], "handed over") == cycles({"us": waited, "flags": waited}, PATH)
    assert at(figures["waits"], "handed over", "S") == cycles({"us": waited, "flags": waited}, WAITS)


def test_lines_are_recorded_on_request_only(kernels, tmp_path):
    report = kernels.run("moves", np.ones(8192, np.float32), np.zeros(8192, np.float32), roles=(1, 2))
    assert "line_times" not in report
    assert line_figures(report, tmp_path) == {}


def test_the_times_of_a_launch_do_not_depend_on_the_recording(kernels, profiled, monkeypatch):
    with_lines, _ = profiled("twice", 100 * 8192, blocks=2)
    monkeypatch.delenv("OPFORGE_TWIN_LINES")
    x, y = np.ones(100 * 8192, np.float32), np.zeros(8192, np.float32)
    without = kernels.run("twice", x, y, roles=(1, 2), strict=False, seed=1, threads=1, blocks=2)
    assert {key: with_lines[key] for key in without} == without


def steps_of(text):
    return [Step(letter, "V", 1.0) for letter in text]


def text_of(steps):
    return "".join(f"{step.rounds}({text_of(step.steps)})" if step.steps else step.where for step in steps)


@pytest.mark.parametrize(
    ("steps", "folded"),
    [
        ("", ""),
        ("abc", "abc"),
        ("ababab", "3(ab)"),
        ("xabababy", "x3(ab)y"),
        ("xy" + "aab" * 4 + "c", "xy4(2(a)b)c"),
        (("ab" * 3 + "c") * 2 + "d", "2(3(ab)c)d"),
        ("abcabd", "abcabd"),
    ],
)
def test_repeated_steps_become_loops(steps, folded):
    result = fold(steps_of(steps))
    assert sum(step.us for step in result) == len(steps)
    assert expand(result) == list(steps)
    assert text_of(result) == folded


def expand(steps):
    """Return the steps of all rounds."""
    return [place for step in steps for place in (expand(step.steps) * step.rounds if step.steps else [step.where])]


def largest_test(spec):
    tests = [test for test in spec.tests.shapes if all(test.symbols.values()) and not test.values]
    sizes = {id(test): prod(np.ravel(list(map(prod_of, test.symbols.values())))) for test in tests}
    return max(tests, key=lambda test: sizes[id(test)])


def prod_of(size):
    return size if isinstance(size, int) else prod(size)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.op_type)
def test_the_lines_of_an_operator_add_up(spec, tmp_path):
    test = largest_test(spec)
    sizes = ",".join(
        f"{name}={size if isinstance(size, int) else 'x'.join(map(str, size))}" for name, size in test.symbols.items()
    )
    attrs = [text for name, value in test.attrs.items() for text in ("--attr", f"{name}={value}")]
    out = tmp_path / "figures.json"
    command = ["profile", spec.op_type, "--case", test.case, sizes, *attrs, "--json", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, (result.output, result.exception)
    (case,) = json.loads(out.read_text(encoding="utf-8"))["cases"]
    assert case["launches"]
    for launch in case["launches"]:
        assert_sums(launch, launch)
    path = sum(row["us"] for launch in case["launches"] for row in launch["path"])
    assert path + case["launch_us"] == pytest.approx(case["estimate_us"], rel=1e-4)
    places = [row["where"] for launch in case["launches"] for row in launch["lines"]]
    assert places
    assert all(place.startswith("op_kernel/") for place in places)
