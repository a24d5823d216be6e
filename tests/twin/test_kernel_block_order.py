"""Test IBSet and IBWait, and blocks in the order of their indices, with planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from charged import COPY, MODEL, vector
from planted import Planted, kernels_of

from opforge.codegen.data.products import SOCS

BLOCKS = 4
HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
# Block i adds i to the value of the previous block in `sum`, and doubles it.
FRAME = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR sum, GM_ADDR flags, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> data, scratch;
    pipe.InitBuffer(data, 32);
    pipe.InitBuffer(scratch, 256);
    GlobalTensor<float> sumGm;
    GlobalTensor<int32_t> flagsGm;
    sumGm.SetGlobalBuffer((__gm__ float*)sum, 8);
    flagsGm.SetGlobalBuffer((__gm__ int32_t*)flags, 8 * 8);
    LocalTensor<float> value = data.Get<float>();
    LocalTensor<int32_t> work = scratch.Get<int32_t>();
    const int32_t block = GetBlockIdx();
    BEFORE
    DataCopy(value, sumGm, 8);
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    Adds(value, value, static_cast<float>(block), 8);
    PipeBarrier<PIPE_V>();
    Muls(value, value, 2.0f, 8);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopy(sumGm, value, 8);
    AFTER
}
"""


def _kernel(before: str, after: str) -> str:
    return FRAME.replace("BEFORE", before).replace("AFTER", after)


FLAGS = _kernel(
    "if (block > 0) { IBWait(flagsGm, work, block - 1, 1); }",
    "if (block < 3) { IBSet(flagsGm, work, block, 1); }",
)
ORDERED = _kernel(
    "InitDetermineComputeWorkspace(flagsGm, work); WaitPreBlock(flagsGm, work);", "NotifyNextBlock(flagsGm, work);"
)
# Blocks 0 and 1 store i + 1; blocks 2 and 3 wait for both and store the sum, twice.
GROUPS = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR values, GM_ADDR flags, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> data;
    pipe.InitBuffer(data, 64);
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float*)values, 8 * 8);
    LocalTensor<float> own = data.Get<float>();
    GroupBarrier<PipeMode::MTE3_MODE> barrier(flags, 2, 2);
    const int32_t block = GetBlockIdx();
    for (int32_t round = 0; round < 2; ++round) {
        GlobalTensor<float> part = gm[round * 32];
        if (block < 2) {
            Duplicate(own, block + 1.0f + round, 8);
            SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
            WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
            DataCopy(part[block * 8], own, 8);
            barrier.Arrive(block);
            SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
            WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
        } else {
            barrier.Wait(block - 2);
            DataCopy(own, part, 16);
            SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
            WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
            Add(own, own, own[8], 8);
            SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
            WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
            DataCopy(part[block * 8], own, 8);
            SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
            WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
        }
    }
}
"""
PLANTED_GROUPS = [
    Planted("group_no_wait", "barrier.Wait(block - 2);", "", "race", ""),
    Planted("group_no_arrive", "barrier.Arrive(block);", "", "deadlock", "nothing will set it"),
    Planted("group_third", "barrier.Arrive(block);", "barrier.Arrive(2);", "field_range", "arriveIndex"),
    Planted("group_many", "barrier(flags, 2, 2)", "barrier(flags, 2, 3)", "gm_out_of_range", "groupWorkspace"),
    Planted("group_full", "InitBuffer(data, 64)", "InitBuffer(data, 195584)", "no_scratch", "1600"),
    Planted("group_odd", "barrier(flags, 2, 2)", "barrier(flags + 32, 2, 1)", "api_contract", "512"),
]
# Two rounds of work before the flags, after them, or both: the work of the waiting blocks follows that of the others.
WORK = "for (int32_t i = 0; i < 1000; ++i) { Duplicate(own, 1.0f, 8); PipeBarrier<PIPE_V>(); }"
ARRIVE, WAIT = "if (block < 2) {", "barrier.Wait(block - 2);"
WORKING = {"arrive": [ARRIVE], "wait": [WAIT], "chain": [ARRIVE, WAIT]}


def _with_work(name):
    text = GROUPS.replace("NAME", f"groups_{name}")
    for place in WORKING[name]:
        text = text.replace(place, f"{place} {WORK}")
    return text


PLANTED_FLAGS = [
    Planted("no_wait", "IBWait(flagsGm, work, block - 1, 1);", "", "race", ""),
    Planted("no_set", "IBSet(flagsGm, work, block, 1);", "", "deadlock", "nothing will set it"),
    Planted(
        "beyond_workspace", "IBSet(flagsGm, work, block, 1)", "IBSet(flagsGm, work, block, 2)", "gm_out_of_range", ""
    ),
    Planted("no_such_block", "block - 1, 1);", "4, 1);", "field_range", "blockIdx"),
]
PLANTED_ORDER = [
    Planted("not_ordered", "WaitPreBlock(flagsGm, work);", "", "race", ""),
    Planted("not_notified", "NotifyNextBlock(flagsGm, work);", "", "deadlock", "nothing will set it"),
    Planted(
        "small_scratch",
        "pipe.InitBuffer(scratch, 256);",
        "pipe.InitBuffer(scratch, 96);",
        "ub_out_of_range",
        "InitDetermineComputeWorkspace: ",
    ),
]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    texts = [*kernels_of(FLAGS, "flags", PLANTED_FLAGS), *kernels_of(ORDERED, "ordered", PLANTED_ORDER)]
    texts += kernels_of(GROUPS, "groups", PLANTED_GROUPS)
    texts += [_with_work(name) for name in WORKING]
    return compile_kernels(HEAD + "".join(texts))


def _launch(kernels, name):
    total = np.ones(8, np.float32)
    report = kernels.launch(name, total, np.zeros(64, np.int32), blocks=BLOCKS, task_type="AIV_ONLY")
    return report["findings"], total


@pytest.mark.parametrize("name", ["flags", "ordered"])
def test_blocks_run_in_the_order_of_their_indices(kernels, name):
    findings, total = _launch(kernels, name)
    assert findings == []
    expected = 1.0
    for block in range(BLOCKS):
        expected = (expected + block) * 2
    np.testing.assert_array_equal(total, np.full(8, expected, np.float32))


@pytest.mark.parametrize("name", ["flags", "ordered"])
def test_each_block_begins_after_the_previous_one_and_the_flag(kernels, name):
    total = np.ones(8, np.float32)
    report = kernels.run(name, total, np.zeros(64, np.int32), blocks=BLOCKS, task_type="AIV_ONLY")
    latencies = MODEL["dma_read_latency_cycles"] + MODEL["dma_write_latency_cycles"]
    copies = 2 * COPY + latencies + 2 * MODEL["dma_crowded_latency_cycles"]
    # A barrier and two flags; the vector unit ends twice.
    waits = 2 * MODEL["vector_drain_cycles"] + 2 * MODEL["flag_cycles"]
    block = copies + vector(1, instructions=2) + waits
    # The twin begins a phase at a flag that all blocks set or wait for; the time is the same.
    cycles = sum(phase["core_us"] + (phase["sync_us"] if name == "flags" else 0) for phase in report["phases"])
    expected = BLOCKS * block + (BLOCKS - 1) * MODEL["sync_all_cycles"]
    assert cycles * SOCS["Ascend910B1"].mhz == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("planted", [*PLANTED_FLAGS, *PLANTED_ORDER], ids=lambda planted: planted.name)
def test_planted_mistakes(kernels, record_planted, planted):
    findings, _ = _launch(kernels, planted.name)
    record_planted(planted.name, planted.assert_in(findings))


def _launch_groups(kernels, name):
    # The address of a group is a multiple of 512 bytes.
    whole = np.zeros(512 + 256, np.int32)
    first = -whole.ctypes.data % 512 // 4
    values = np.zeros(64, np.float32)
    flags = whole[first : first + 256]
    report = kernels.launch(name, values, flags, blocks=BLOCKS, task_type="AIV_ONLY")
    return report, values


def test_groups_wait_for_groups(kernels):
    report, values = _launch_groups(kernels, "groups")
    assert report["findings"] == []
    expected = [[first + second, first, second] for first, second in ((1, 2), (2, 3))]
    for total, (result, first, second) in zip(values.reshape(2, 4, 8), expected, strict=True):
        np.testing.assert_array_equal(total, np.repeat([[first], [second], [result], [result]], 8, axis=1))


def test_the_time_of_a_group_includes_the_blocks_that_it_waits_for(kernels):
    times = {name: _launch_groups(kernels, f"groups_{name}")[0]["estimate_us"] for name in WORKING}
    plain = _launch_groups(kernels, "groups")[0]["estimate_us"]
    work = (times["arrive"] - plain) / 2
    assert work > 10, times
    assert times["wait"] == pytest.approx(plain + 2 * work, rel=0.02)
    # The estimate adds the phases between flags: the second work of the arriving blocks overlaps nothing.
    assert plain + 2.98 * work < times["chain"] < plain + 4.02 * work


def test_only_ascend_910b_has_groups(kernels):
    arrays = (np.zeros(64, np.float32), np.zeros(256, np.int32))
    findings = kernels.launch("groups", *arrays, blocks=BLOCKS, task_type="AIV_ONLY", soc="Ascend910_9391")["findings"]
    assert {finding["kind"] for finding in findings} == {"api_contract"}


@pytest.mark.parametrize("planted", PLANTED_GROUPS, ids=lambda planted: planted.name)
def test_planted_mistakes_of_groups(kernels, record_planted, planted):
    findings = _launch_groups(kernels, planted.name)[0]["findings"]
    record_planted(planted.name, planted.assert_in(findings))
