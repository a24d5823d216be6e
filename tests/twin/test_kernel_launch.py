"""Test blocks of a launch: order, barriers, atomics, counters, workspace, task types, and endless kernels."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

struct Tiling {
    int64_t count = 0;
    int32_t rows[3] = {};
    float scale = 0.0f;
};

/// Two phases over the workspace: every block leaves a sum, then every block adds up all of them in order.
extern "C" __global__ __aicore__ void two_phases(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(Tiling);
    GET_TILING_DATA(data, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    GM_ADDR user = GetUserWorkspace(workspace);
    if (user == nullptr) {
        return;
    }
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    GlobalTensor<float> xGm, yGm, sums;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    sums.SetGlobalBuffer((__gm__ float*)user);
    LocalTensor<float> work = buffer.Get<float>();
    const int64_t block = GetBlockIdx();
    DataCopy(work, xGm[block * data.count], data.count);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    ReduceSum(work, work, work[512], data.count);
    DataCopyExtParams one(1, sizeof(float), 0, 0, 0);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopyPad(sums[block * 8], work, one);
    SyncAll();
    DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(sums);
    float total = 0.0f;
    for (int64_t i = 0; i < GetBlockNum(); ++i) {
        total = total * data.scale + sums.GetValue(i * 8);
    }
    work.SetValue(0, total);
    SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
    DataCopyPad(yGm[block * 8], work, one);
    SyncAll();
}

/// All blocks add to one row; only block 0 clears it.
extern "C" __global__ __aicore__ void atomics(GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE(7, KERNEL_TYPE_MIX_AIV_1_0);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);  // the type of a key has priority
    (void)workspace;
    GET_TILING_DATA_MEMBER(Tiling, scale, scale, tiling);
    GET_TILING_DATA_MEMBER(Tiling, rows, rows, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    if (GetBlockIdx() == 0) {
        InitOutput<int32_t>(yGm, 100, 5);
    }
    SyncAll();
    LocalTensor<int32_t> ones = buffer.Get<int32_t>();
    Duplicate(ones, static_cast<int32_t>(scale) * rows[2], 100);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    SetAtomicAdd<int32_t>();
    DataCopyPad(yGm, ones, DataCopyExtParams(1, 400, 0, 0, 0));
    SetAtomicNone();
}

/// The soft barrier and the flags between cores.
extern "C" __global__ __aicore__ void barriers(GM_ADDR y, GM_ADDR sync, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    (void)workspace;
    (void)tiling;
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 48 * 32);
    GlobalTensor<int32_t> yGm, syncGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    syncGm.SetGlobalBuffer((__gm__ int32_t*)sync);
    const int64_t block = GetBlockIdx();
    const int64_t blocks = GetBlockNum();
    yGm.SetValue(block * 16, 1);
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yGm[block * 16]);
    SyncAll(syncGm, buffer.Get<int32_t>());
    int32_t seen = 0;
    DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(yGm);
    for (int64_t i = 0; i < blocks; ++i) {
        seen += yGm.GetValue(i * 16);
    }
    SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
    CrossCoreSetFlag<0, PIPE_MTE3>(3);
    CrossCoreWaitFlag(3);
    yGm.SetValue(block * 16, seen);
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yGm[block * 16]);
}

extern "C" __global__ __aicore__ void one_flag_less(GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    (void)y;
    (void)workspace;
    (void)tiling;
    if (GetBlockIdx() != 1) {
        CrossCoreSetFlag<0, PIPE_MTE3>(3);
    }
    CrossCoreWaitFlag(3);
}

/// Copies through without the vector unit; rows of 100 bytes at a pitch of 160.
extern "C" __global__ __aicore__ void copy_rows(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    (void)workspace;
    (void)tiling;
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 2, 1024);
    GlobalTensor<uint8_t> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ uint8_t*)x);
    yGm.SetGlobalBuffer((__gm__ uint8_t*)y);
    if (GetBlockIdx() > 0) {
        return;
    }
    LocalTensor<uint8_t> rows = queue.AllocTensor<uint8_t>();
    DataCopyPad(rows, xGm, DataCopyExtParams(4, 100, 60, 1, 0), DataCopyPadExtParams<uint8_t>());
    queue.EnQue(rows);
    rows = queue.DeQue<uint8_t>();
    DataCopyPad(yGm, rows, DataCopyExtParams(4, 100, 1, 28, 0));
    queue.FreeTensor(rows);
}

extern "C" __global__ __aicore__ void endless(GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    (void)workspace;
    (void)tiling;
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    int32_t value = yGm.GetValue(0);
    volatile uint32_t counter = 0;
    while (value >= 0) {
        counter = counter + 1;
    }
}

extern "C" __global__ __aicore__ void endless_issue(GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)
{
    (void)workspace;
    (void)tiling;
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    while (yGm.GetValue(0) >= 0) {
    }
}
ENDLESS
"""
# Loops of functions that use no memory, and one without a function: each is in one line.
LOOPS = {
    "index": "while (GetBlockIdx() >= 0) {}",
    "count": "while (GetBlockNum() + GetSubBlockNum() + GetSubBlockIdx() + GetTaskRatio() >= 0) {}",
    "cores": "for (;;) { if ASCEND_IS_AIC { break; } }",
    "type": "while (g_coreType != AIC) {}",
    "block": "while (block_idx >= 0) {}",
    "key": "while (!TILING_KEY_IS(7)) {}",
    "space": "while (GetSysWorkSpacePtr() != nullptr) {}",
    "user": "while (GetUserWorkspace(nullptr) != nullptr) {}",
    "empty": "for (volatile uint32_t counter = 0;;) { counter = counter + 1; }",
}
HEAD = 'extern "C" __global__ __aicore__ void'
SOURCE = SOURCE.replace(
    "ENDLESS",
    "\n".join(
        f"{HEAD} endless_{name}(GM_ADDR, GM_ADDR, GM_ADDR)\n{{\n    {loop}  // {name}\n}}"
        for name, loop in LOOPS.items()
    ),
)
TILING = struct.pack("q3ifxxxx", 0, 1, 2, 3, 2.0)


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def _two_phases(kernels, **options):
    blocks, count = 48, 128
    x = np.random.default_rng(3).standard_normal(blocks * count).astype(np.float32)
    y = np.zeros(blocks * 8, np.float32)
    tiling = struct.pack("q3if", count, 0, 0, 0, 0.5)
    kernels.run("two_phases", x, y, blocks=blocks, tiling=tiling, **options)
    return y


@pytest.mark.parametrize("threads", [1, 2, 7, 48])
def test_order_and_threads_do_not_change_results(kernels, threads):
    expected = _two_phases(kernels, threads=1, seed=1)
    assert expected[0] != 0
    for seed in (2, 3, 4, 5):
        np.testing.assert_array_equal(_two_phases(kernels, threads=threads, seed=seed), expected)
    np.testing.assert_array_equal(_two_phases(kernels, threads=threads, strict=False), expected)


def test_atomic_adds_of_all_blocks_arrive(kernels):
    y = np.zeros(128, np.int32)
    kernels.run("atomics", y, blocks=40, tiling=TILING, tiling_key=7, task_type="AIV_ONLY")
    np.testing.assert_array_equal(y, np.where(np.arange(128) < 100, 5 + 40 * 6, 0))


def test_task_type_of_another_key_does_not_count(kernels):
    report = kernels.launch("atomics", np.zeros(128, np.int32), blocks=2, tiling=TILING, task_type="AIV_ONLY")
    assert [found["kind"] for found in report["findings"]] == ["sync_task_type"]


@pytest.mark.parametrize("blocks", [1, 5, 48])
def test_soft_sync_and_flags_between_cores(kernels, blocks):
    y = np.zeros(48 * 16, np.int32)
    kernels.run("barriers", y, np.zeros(48 * 8, np.int32), blocks=blocks, threads=2)
    np.testing.assert_array_equal(y[::16], np.where(np.arange(48) < blocks, blocks, 0))


def test_soft_sync_needs_a_cleared_workspace(kernels):
    report = kernels.launch("barriers", np.zeros(48 * 16, np.int32), np.ones(48 * 8, np.int32), blocks=2)
    assert report["findings"][0]["kind"] == "sync_workspace"


def test_a_flag_that_one_block_never_sets(kernels):
    report = kernels.launch("one_flag_less", np.zeros(1, np.int32), blocks=3)
    assert report["findings"][0]["kind"] == "deadlock"
    assert "by 2 of 3 blocks" in report["findings"][0]["message"]


def test_rows_and_their_counters(kernels):
    x = np.arange(640, dtype=np.uint16).astype(np.uint8)
    y = np.full(512, 9, np.uint8)
    report = kernels.run("copy_rows", x, y, blocks=2)
    expected = np.full((4, 128), 9, np.uint8)
    expected[:, :100] = x.reshape(4, 160)[:, :100]
    np.testing.assert_array_equal(y, expected.ravel())
    assert report["gm_bytes_read"] == report["gm_bytes_written"] == 400
    assert report["dma_count"] == 2
    # Rows at 0, 160, 320 and 480 touch sectors 0, 1 2, 2 3, 3 4; the written rows one sector each.
    assert report["first_touch_bytes"] == 5 * 128 + 4 * 128
    assert report["balance"] == 48.0  # one of 48 cores did all the work


def test_the_last_sector_is_as_long_as_its_argument(kernels):
    x, y = np.zeros(580, np.uint8), np.zeros(484, np.uint8)
    report = kernels.run("copy_rows", x, y)
    assert report["first_touch_bytes"] == 580 + 484


@pytest.mark.parametrize("symbol", ["endless", "endless_issue"])
def test_a_loop_that_does_not_end_is_stopped(kernels, symbol, monkeypatch):
    monkeypatch.setenv("OPFORGE_TWIN_TIMEOUT", "0.5")
    report = kernels.launch(symbol, np.zeros(1, np.int32), blocks=2)
    assert [found["kind"] for found in report["findings"]] == ["endless_loop"]
    assert report["findings"][0]["where"]


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_does_not_end_has_a_line(kernels, name, monkeypatch):
    monkeypatch.setenv("OPFORGE_TWIN_TIMEOUT", "0.2")
    (found,) = kernels.launch(f"endless_{name}", np.zeros(1, np.int32))["findings"]
    path, _, line = found["where"].rpartition(":")
    assert found["kind"] == "endless_loop"
    assert Path(path).read_text().splitlines()[int(line) - 1].endswith(f"// {name}")


def test_loops_of_many_launches_at_once_are_stopped(kernels, monkeypatch):
    """The signal that stops a block can arrive at any time: between two launches, or while the block ends."""
    monkeypatch.setenv("OPFORGE_TWIN_TIMEOUT", "0.05")

    def stop(symbol):
        found = kernels.launch(symbol, np.zeros(1, np.int32), blocks=3, threads=3)["findings"]
        return [entry["kind"] for entry in found]

    with ThreadPoolExecutor(max_workers=4) as pool:
        kinds = list(pool.map(stop, ["endless_issue", "endless"] * 4))
    assert kinds == [["endless_loop"]] * 8


def test_launches_that_cannot_start(kernels):
    y = np.zeros(1, np.int32)
    for options, message in [
        ({"soc": "Ascend999"}, "expected a chip, as in Ascend910B1"),
        ({"soc": "Ascend910A"}, "architecture 1001"),
        ({"blocks": 0}, "got blockNum 0"),
    ]:
        found = kernels.launch("endless", y, **options)["findings"]
        assert [found[0]["kind"], message in found[0]["message"]] == ["launch", True]


def test_poison_differs_from_launch_to_launch(compile_kernels):
    source = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void leak(GM_ADDR y, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    DataCopyPad(yGm, buffer.Get<int32_t>(), DataCopyExtParams(1, 4, 0, 0, 0));
}
"""
    kernels = compile_kernels(source)
    seen = set()
    for seed in range(1, 5):
        y = np.zeros(1, np.int32)
        found = kernels.launch("leak", y, seed=seed)["findings"]
        assert [entry["kind"] for entry in found] == ["uninitialised_read"]
        seen.add(int(y[0]))
    assert len(seen) == 4
