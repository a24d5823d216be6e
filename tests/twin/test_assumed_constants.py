"""Check the part of an estimate that depends on assumed constants of the time model, and the note about it."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from opforge.codegen.data.products import SOCS
from opforge.twin.compiler.npu_model import npu_model
from opforge.twin.runtime.results import Result

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

struct Tiling {
    int64_t local = 0;  // scalar accesses to the unified buffer
    int64_t global = 0;  // scalar accesses to global memory
    int64_t barriers = 0;
    int64_t stores = 0;
    int64_t isAtomic = 0;
    int64_t reads = 0;
};

extern "C" __global__ __aicore__ void mixture(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4 * 4096);
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    LocalTensor<float> part = buffer.Get<float>();
    Duplicate(part, 1.0f, 1024);
    PipeBarrier<PIPE_ALL>();
    for (int64_t access = 0; access < data.local; ++access) {
        part.SetValue(access % 1024, part.GetValue(0));
    }
    float sum = 0.0f;
    for (int64_t access = 0; access < data.global; ++access) {
        sum += xGm.GetValue(access % 1024);
    }
    PipeBarrier<PIPE_ALL>();
    if (data.isAtomic) {
        SetAtomicAdd<float>();
    }
    for (int64_t store = 0; store < data.stores; ++store) {
        DataCopy(yGm[GetBlockIdx() * 1024], part, 1024);
    }
    SetAtomicNone();
    PipeBarrier<PIPE_ALL>();
    for (int64_t read = 0; read < data.reads; ++read) {
        DataCopy(part, xGm[(GetBlockIdx() * data.reads + read) * 4096], 4096);
        PipeBarrier<PIPE_MTE2>();
    }
    for (int64_t barrier = 0; barrier < data.barriers; ++barrier) {
        SyncAll();
    }
}

/// The vector cores wait for the cube core.
extern "C" __global__ __aicore__ void handover(GM_ADDR, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    if ASCEND_IS_AIC {
        CrossCoreSetFlag<2, PIPE_MTE2>(0);
    }
    if ASCEND_IS_AIV {
        CrossCoreWaitFlag(0);
        SyncAll<true>();
    }
}
"""
CONSTANTS = npu_model()["constants"]
MODEL = {name: constant["value"] for name, constant in CONSTANTS.items()}
ASSUMED = {name for name, constant in CONSTANTS.items() if constant["status"] == "assumed"}
SOC = "Ascend910B1"


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def _run(kernels, blocks=1, **counts):
    names = ("local", "global", "barriers", "stores", "isAtomic", "reads")
    tiling = struct.pack("6q", *(counts.get(name, 0) for name in names))
    reads = max(1, counts.get("reads", 0))
    x, y = np.ones(blocks * reads * 4096, np.float32), np.zeros(blocks * 1024, np.float32)
    report = kernels.run("mixture", x, y, roles=(3, 3), tiling=tiling, blocks=blocks)
    return report, {name: us * SOCS[SOC].mhz for name, us in report["assumed_us"].items()}


def _notes(report):
    reasons = Result({}, [{**report, "minimal_bytes": 8192}]).report.outside_range
    return [reason for reason in reasons if "assumed" in reason]


def test_time_of_each_assumed_constant(kernels):
    _, cycles = _run(kernels, blocks=2, **{"local": 5, "global": 7, "barriers": 3})
    assert cycles["scalar_gm_access_cycles"] == pytest.approx(7 * MODEL["scalar_gm_access_cycles"], rel=1e-4)
    assert cycles["sync_all_cycles"] == pytest.approx(3 * MODEL["sync_all_cycles"], rel=1e-4)
    assert cycles["atomic_dma_factor"] == cycles["cross_core_flag_cycles"] == 0
    (plain, none), (atomic, cycles) = (_run(kernels, stores=1, isAtomic=number) for number in (0, 1))
    assert set(none.values()) == {0.0}
    assert cycles.pop("atomic_dma_factor") == pytest.approx(
        (atomic["estimate_us"] - plain["estimate_us"]) * SOCS[SOC].mhz, rel=1e-3
    )
    assert set(cycles.values()) == {0.0}


def test_time_of_flags_and_barriers_inside_a_phase(kernels):
    report = kernels.run("handover", blocks=2)
    assert len(report["phases"]) == 1
    cycles = {name: us * SOCS[SOC].mhz for name, us in report["assumed_us"].items()}
    for name in ("cross_core_flag_cycles", "sync_all_cycles"):
        assert cycles[name] == pytest.approx(MODEL[name], rel=1e-4)


def test_every_assumed_constant_is_reported(kernels):
    report, _ = _run(kernels)
    assert set(report["assumed_us"]) >= ASSUMED


def test_times_that_are_shorter_than_all_published_ones_have_a_note(kernels):
    shortest = npu_model()["errors"]["calibrated"]["us"][0]
    (short, _), (long, _) = _run(kernels), _run(kernels, local=5000)
    assert short["estimate_us"] < shortest < long["estimate_us"]
    (reason,) = short["outside_range"]
    assert reason.startswith(f"{short['estimate_us']} us, published times are {shortest} to ")
    assert long["outside_range"] == []


def test_local_scalar_accesses_have_no_note(kernels):
    report, _ = _run(kernels, local=5000)
    assert report["phases"][0]["path"]["S"] > 0.9 * report["estimate_us"]
    assert _notes(report) == []


@pytest.mark.parametrize(
    ("counts", "name"),
    [
        ({"global": 200}, "scalar_gm_access_cycles"),
        ({"barriers": 20}, "sync_all_cycles"),
        ({"stores": 500, "isAtomic": 1}, "atomic_dma_factor"),
    ],
)
def test_one_assumed_constant_has_a_note(kernels, counts, name):
    report, _ = _run(kernels, blocks=2 if "barriers" in counts else 1, **counts)
    (note,) = _notes(report)
    assert note.split(": ")[1].split()[:1] == [name]


def test_parts_of_a_third_together_have_one_note(kernels):
    parts = {"global": 20, "barriers": 3, "stores": 40, "isAtomic": 1}
    report, _ = _run(kernels, blocks=2, **parts, reads=15)
    names = ("scalar_gm_access_cycles", "atomic_dma_factor", "sync_all_cycles")
    shares = [report["assumed_us"][name] / report["estimate_us"] for name in names]
    assert max(shares) < 1 / 3 < sum(shares)
    parts = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True))
    assert _notes(report) == [f"{sum(shares):.0%} of the time depends on assumed constants: {parts}"]


@pytest.mark.parametrize("reads", [0, 20])
def test_phases_that_global_memory_limits_do_not_count(kernels, reads):
    report, cycles = _run(kernels, blocks=48, stores=1, isAtomic=1, reads=reads)
    phase = report["phases"][0]
    assert (phase["core_us"] < phase["gm_us"]) == (reads > 0)
    assert (cycles["atomic_dma_factor"] == 0) == (reads > 0)
