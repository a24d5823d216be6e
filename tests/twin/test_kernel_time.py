"""Compare the time model with times computed by hand from twin/npu_model.json."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.data.products import SOCS
from opforge.twin.build import npu_model

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

struct Tiling {
    int64_t tiles = 0;
    int64_t length = 0;  // floats of a tile
    int64_t buffers = 0;
    int64_t workers = 0;
};

#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)

/// Tiles through the unified buffer, dealt out to the first `workers` blocks.
extern "C" __global__ __aicore__ void copy(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, data.buffers, data.length * 4);
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    for (int64_t tile = GetBlockIdx(); GetBlockIdx() < data.workers && tile < data.tiles; tile += data.workers) {
        LocalTensor<float> part = queue.AllocTensor<float>();
        DataCopy(part, xGm[tile * data.length], data.length);
        queue.EnQue(part);
        part = queue.DeQue<float>();
        DataCopy(yGm[tile * data.length], part, data.length);
        queue.FreeTensor(part);
    }
}

/// Load, compute, store, each after the other.
extern "C" __global__ __aicore__ void chain(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, data.length * 4);
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    LocalTensor<float> part = buffer.Get<float>();
    DataCopy(part, xGm, data.length);
    ORDER(MTE2_V);
    Adds(part, part, 1.0f, data.length);
    PipeBarrier<PIPE_V>();
    Exp(part, part, data.length);
    ORDER(V_MTE3);
    DataCopy(yGm, part, data.length);
}

/// Rows of 100 bytes at a pitch of 160, read twice.
extern "C" __global__ __aicore__ void rows(GM_ADDR x, GM_ADDR, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    GlobalTensor<uint8_t> xGm;
    xGm.SetGlobalBuffer((__gm__ uint8_t*)x);
    DataCopyPad(buffer.Get<uint8_t>(), xGm, DataCopyExtParams(4, 100, 60, 0, 0), DataCopyPadExtParams<uint8_t>());
    PipeBarrier<PIPE_MTE2>();
    DataCopyPad(buffer.Get<uint8_t>(), xGm, DataCopyExtParams(4, 100, 60, 0, 0), DataCopyPadExtParams<uint8_t>());
}

/// Every block reads its part of x (all of x when there is one worker only) `buffers` times.
extern "C" __global__ __aicore__ void reread(GM_ADDR x, GM_ADDR, GM_ADDR, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, data.length * 4);
    GlobalTensor<float> xGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    const int64_t share = data.tiles / data.workers;
    const int64_t first = GetBlockIdx() % data.workers * share;
    for (int64_t tile = 0; tile < share * data.buffers; ++tile) {
        DataCopy(buffer.Get<float>(), xGm[(first + tile % share) * data.length], data.length);
        PipeBarrier<PIPE_MTE2>();
    }
}

/// Scalar accesses, and a barrier of the cores.
extern "C" __global__ __aicore__ void scalars(GM_ADDR x, GM_ADDR, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    GlobalTensor<float> xGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    LocalTensor<float> part = buffer.Get<float>();
    part.SetValue(0, xGm.GetValue(0));
    SyncAll();
    part.SetValue(1, part.GetValue(0));
}

extern "C" __global__ __aicore__ void waits(GM_ADDR, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    while (GetBlockIdx() >= 0) {
        SyncAll();
    }
}

/// A row added to global memory.
extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    GlobalTensor<float> xGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    Duplicate(buffer.Get<float>(), 1.0f, 1024);
    ORDER(V_MTE3);
    SetAtomicAdd<float>();
    DataCopy(xGm, buffer.Get<float>(), 1024);
    SetAtomicNone();
}
"""
MODEL = {name: constant["value"] for name, constant in npu_model()["constants"].items()}
MHZ = SOCS["Ascend910B1"].mhz
PORT = MODEL["port_first_touch_bytes_per_cycle_per_core"]
TILE = 8192  # floats


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def _run(kernels, symbol, floats, tiles=1, length=TILE, buffers=2, workers=48, **options):
    x, y = np.ones(floats, np.float32), np.zeros(floats, np.float32)
    tiling = struct.pack("4q", tiles, length, buffers, workers)
    roles = (1 if symbol != "add" else 3, 3 if symbol in {"add", "rows", "scalars"} else 2)  # 3: y may stay unwritten
    return kernels.run(symbol, x, y, roles=roles, tiling=tiling, **options)


def _cycles(microseconds):
    return microseconds * MHZ


def _dma(nbytes):
    return max(MODEL["dma_issue_cycles"], nbytes / PORT)


def _latency(blocks):
    """Return the latency of a load and of a store, from the transfer to the flag."""
    crowded = MODEL["dma_crowded_latency_cycles"] if blocks > 1 else 0
    return MODEL["dma_read_latency_cycles"] + crowded, MODEL["dma_write_latency_cycles"] + crowded


def test_copy_time_is_bytes_divided_by_port_rate(kernels):
    tiles = 100
    report = _run(kernels, "copy", tiles * TILE, tiles, buffers=4, workers=1)
    core = _cycles(report["phases"][0]["core_us"])
    nbytes = tiles * TILE * 4
    # Loads are back to back; the store of the last tile follows.
    last = MODEL["flag_cycles"] + _dma(TILE * 4) + sum(_latency(1))
    assert core == pytest.approx(tiles * _dma(TILE * 4) + last, rel=0.02)
    assert core == pytest.approx(nbytes / PORT, rel=0.1)
    assert _cycles(report["pipes"]["MTE2"]["critical_us"]) == pytest.approx(tiles * _dma(TILE * 4), rel=1e-4)


def test_double_buffering_overlaps(kernels):
    tiles = 50
    one = _run(kernels, "copy", tiles * TILE, tiles, buffers=1, workers=1)["phases"][0]["core_us"]
    two = _run(kernels, "copy", tiles * TILE, tiles, buffers=2, workers=1)["phases"][0]["core_us"]
    round_trip = 2 * (_dma(TILE * 4) + MODEL["flag_cycles"]) + sum(_latency(1))
    assert _cycles(one) == pytest.approx(tiles * round_trip, rel=0.01)
    assert one > 1.8 * two


def test_a_chain_is_the_sum_of_its_links(kernels):
    report = _run(kernels, "chain", TILE)
    repeats = TILE * 4 / 256
    vector = 2 * MODEL["vector_issue_cycles"] + repeats * (
        MODEL["vector_cycles_per_repeat"] + MODEL["vector_slow_cycles_per_repeat"]
    )
    copies = 2 * _dma(TILE * 4) + sum(_latency(1))
    orders = 2 * MODEL["flag_cycles"] + 2 * MODEL["vector_drain_cycles"]
    assert _cycles(report["phases"][0]["core_us"]) == pytest.approx(copies + vector + orders, rel=1e-4)
    assert _cycles(report["pipes"]["V"]["critical_us"]) == pytest.approx(vector, rel=1e-4)


def test_the_flag_of_a_small_copy_waits_for_the_latency(kernels):
    report = _run(kernels, "chain", 64, length=64)
    vector = (
        2 * MODEL["vector_issue_cycles"] + MODEL["vector_cycles_per_repeat"] + MODEL["vector_slow_cycles_per_repeat"]
    )
    orders = 2 * MODEL["flag_cycles"] + 2 * MODEL["vector_drain_cycles"]
    expected = 2 * _dma(64 * 4) + sum(_latency(1)) + vector + orders
    assert _cycles(report["phases"][0]["core_us"]) == pytest.approx(expected, rel=1e-4)


def test_the_critical_path_of_a_chain_names_its_links(kernels):
    (phase,) = _run(kernels, "chain", TILE)["phases"]
    repeats = TILE * 4 / 256
    vector = 2 * MODEL["vector_issue_cycles"] + repeats * (
        MODEL["vector_cycles_per_repeat"] + MODEL["vector_slow_cycles_per_repeat"]
    )
    waiting = 2 * MODEL["flag_cycles"] + 2 * MODEL["vector_drain_cycles"] + sum(_latency(1))
    expected = {"V": vector, "MTE2": _dma(TILE * 4), "MTE3": _dma(TILE * 4), "waiting": waiting}
    path = {name: _cycles(time) for name, time in phase["path"].items()}
    assert path == pytest.approx(expected, rel=1e-4)


def test_the_critical_path_of_a_double_buffered_copy_is_half_of_its_copies(kernels):
    tiles = 50
    (phase,) = _run(kernels, "copy", tiles * TILE, tiles, workers=1)["phases"]
    path = {name: _cycles(time) for name, time in phase["path"].items()}
    assert path["MTE2"] + path["MTE3"] == pytest.approx((tiles + 1) * _dma(TILE * 4), rel=1e-4)
    assert path["waiting"] <= (tiles + 1) * (MODEL["flag_cycles"] + max(_latency(1)))
    assert sum(phase["path"].values()) == pytest.approx(phase["core_us"], rel=1e-4)
    assert phase["core"] == 0


# 96 MiB of L2.
SMALL_L2 = {"soc": "Ascend910B4", "strict": False, "seed": 1, "threads": 1}
L2_TILES = SOCS["Ascend910B4"].l2 // (TILE * 4)


@pytest.mark.parametrize(
    ("tiles", "workers", "blocks", "passes_from_memory"),
    [
        pytest.param(L2_TILES, 1, 1, 1, id="what_fits_stays"),
        pytest.param(L2_TILES + 32, 1, 1, 2, id="more_than_fits_is_gone_when_it_comes_round"),
        pytest.param(L2_TILES + 32, 8, 8, 2, id="cores_that_run_side_by_side_push_out_each_other"),
        pytest.param(L2_TILES + 32, 1, 2, 2, id="cores_that_read_the_same_share_it"),
    ],
)
def test_bytes_are_evicted_from_l2_by_later_bytes(kernels, tiles, workers, blocks, passes_from_memory):
    report = _run(kernels, "reread", tiles * TILE, tiles, buffers=2, workers=workers, blocks=blocks, **SMALL_L2)
    nbytes = tiles * TILE * 4
    moved = 2 * nbytes * (blocks // workers)
    assert report["gm_bytes_read"] == moved
    assert report["first_touch_bytes"] == pytest.approx(passes_from_memory * nbytes, rel=0.005)
    (phase,) = report["phases"]
    fetched = report["first_touch_bytes"]
    bandwidth = npu_model()["constants"]["gm_bandwidth_bytes_per_s"]["soc"]["Ascend910B4"]["value"]
    assert phase["gm_us"] == pytest.approx(fetched / bandwidth * 1e6, rel=1e-4)
    assert phase["l2_us"] == pytest.approx((moved - fetched) / MODEL["l2_bandwidth_bytes_per_s"] * 1e6, rel=1e-3)
    # The copies of a core run one after another: their times add up.
    rates = fetched / PORT + (moved - fetched) / MODEL["port_l2_read_bytes_per_cycle_per_core"]
    mhz = SOCS["Ascend910B4"].mhz
    crowded = MODEL["dma_crowded_latency_cycles"] if blocks > 1 else 0
    waited = 2 * tiles / workers * (MODEL["dma_read_latency_cycles"] + crowded)  # at the barrier after each copy
    assert phase["core_us"] * mhz == pytest.approx(waited + rates / blocks, rel=0.02)


def test_short_rows_cost_their_sectors_and_requests(kernels):
    report = _run(kernels, "rows", 160)
    # At 0, 160, 320 and 480: sectors 0, 1 2, 2 3, 3 4. Five are new, the others come from L2; then all do.
    l2 = MODEL["port_l2_read_bytes_per_cycle_per_core"]
    # Multiples of 32 bytes, split at multiples of 64, 128, 256: [0, 128), [160, 192) [192, 256) [256, 288), and so on.
    pieces = 1 + 3 + 2 + 3
    fresh, again = 5 / 7, 2 / 7
    new = MODEL["dma_fragment_first_touch_cycles"]
    old = MODEL["dma_fragment_read_cycles"]
    first = 5 * 128 / PORT + 2 * 128 / l2 + pieces * (fresh * new + again * old)
    second = 7 * 128 / l2 + pieces * old
    assert _cycles(report["pipes"]["MTE2"]["critical_us"]) == pytest.approx(first + second, rel=1e-4)
    assert report["phases"][0]["gm_us"] == pytest.approx(5 * 128 / MODEL["gm_bandwidth_bytes_per_s"] * 1e6, rel=1e-4)
    assert report["phases"][0]["l2_us"] == pytest.approx(9 * 128 / MODEL["l2_bandwidth_bytes_per_s"] * 1e6, rel=1e-4)


def test_one_busy_core_gains_nothing_from_48(kernels):
    tiles = 96
    alone = _run(kernels, "copy", tiles * TILE, tiles, workers=1, blocks=1)
    lonely = _run(kernels, "copy", tiles * TILE, tiles, workers=1, blocks=48)
    shared = _run(kernels, "copy", tiles * TILE, tiles, workers=48, blocks=48)
    crowded = tiles * MODEL["dma_crowded_latency_cycles"] / MHZ  # of a copy, and of two buffers for load and store
    assert alone["estimate_us"] < lonely["estimate_us"] < alone["estimate_us"] + 2 * crowded
    assert lonely["balance"] == pytest.approx(48)
    assert lonely["critical_core"] == 0
    assert shared["balance"] == pytest.approx(1)
    assert shared["phases"][0]["core_us"] < lonely["phases"][0]["core_us"] / 30


def test_all_cores_together_are_held_by_global_memory(kernels):
    tiles = 480
    report = _run(kernels, "copy", tiles * TILE, tiles, blocks=48)
    nbytes = tiles * TILE * 4  # the results stay in L2
    bound = nbytes / MODEL["gm_bandwidth_bytes_per_s"] * 1e6
    assert report["bound_us"] == pytest.approx(bound, rel=1e-4)
    assert report["phases"][0]["gm_us"] == pytest.approx(bound, rel=1e-4)
    assert report["phases"][0]["gm_us"] > report["phases"][0]["core_us"]
    assert report["estimate_us"] == pytest.approx(MODEL["launch_seconds"] * 1e6 + bound, rel=1e-4)


def test_results_are_evicted_from_l2_by_later_bytes(kernels):
    tiles = L2_TILES
    report = _run(kernels, "copy", tiles * TILE, tiles, workers=8, blocks=8, **SMALL_L2)
    nbytes = tiles * TILE * 4
    bandwidth = npu_model()["constants"]["gm_bandwidth_bytes_per_s"]["soc"]["Ascend910B4"]["value"]
    # Half of all bytes are results; those that later bytes evict from L2 are written back.
    back = (2 * nbytes - SOCS["Ascend910B4"].l2 * MODEL["l2_write_back_share"]) / 2
    assert report["phases"][0]["gm_us"] == pytest.approx((nbytes + back) / bandwidth * 1e6, rel=0.01)


def test_scalar_accesses_and_barriers(kernels):
    report = _run(kernels, "scalars", 256, blocks=2)
    first, second = report["phases"]
    assert _cycles(first["core_us"]) == pytest.approx(
        MODEL["scalar_gm_access_cycles"] + MODEL["scalar_ub_access_cycles"], rel=1e-4
    )
    assert _cycles(second["core_us"]) == pytest.approx(2 * MODEL["scalar_ub_access_cycles"], rel=1e-4)
    assert _cycles(second["sync_us"]) == pytest.approx(MODEL["sync_all_cycles"], rel=1e-4)
    total = MODEL["launch_seconds"] * 1e6 + first["core_us"] + second["core_us"] + second["sync_us"]
    assert report["estimate_us"] == pytest.approx(total, rel=1e-4)


def test_atomic_stores_take_longer(kernels):
    report = _run(kernels, "add", 1024)
    expected = MODEL["atomic_dma_factor"] * 4096 / PORT
    assert _cycles(report["pipes"]["MTE3"]["critical_us"]) == pytest.approx(expected, rel=1e-4)


def test_the_estimate_is_the_same_without_strict_mode(kernels):
    strict = _run(kernels, "copy", 96 * TILE, 96, blocks=48)
    fast = _run(kernels, "copy", 96 * TILE, 96, blocks=48, strict=False)
    assert fast["estimate_us"] == strict["estimate_us"]


def _status(name):
    """Return a value of this process in bytes: VmRSS, or VmHWM, the peak."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) * 1024


@pytest.mark.parametrize("count", [1000, 2_200_000])
def test_a_launch_of_very_many_copies_keeps_its_memory(kernels, count):
    """After 2 M copies, traffic is no longer stored; sums and times are the same."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # VmHWM starts from the current value
    before = _status("VmRSS")
    report = _run(kernels, "reread", 8, 1, length=8, buffers=count, workers=1, strict=False)
    assert _status("VmHWM") - before < 200e6
    assert [report["dma_count"], report["gm_bytes_read"], report["first_touch_bytes"]] == [count, count * 32, 32]
    each = MODEL["dma_issue_cycles"] + MODEL["dma_read_latency_cycles"]  # time of a short copy
    assert _cycles(report["phases"][0]["core_us"]) == pytest.approx(count * each, rel=0.01)
    expected = (count * 128 - 128) / MODEL["l2_bandwidth_bytes_per_s"] * 1e6
    assert report["phases"][0]["l2_us"] == pytest.approx(expected, rel=0.01)


def test_cores_that_wait_for_ever(kernels):
    report = kernels.launch("waits", np.zeros(8, np.float32), blocks=2)
    assert [found["kind"] for found in report["findings"]] == ["endless_loop"]
    assert "10000 times before" in report["findings"][0]["message"]
