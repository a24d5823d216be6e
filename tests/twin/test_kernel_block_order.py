"""Test IBSet and IBWait, and blocks in the order of their indices, with planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

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
    Planted("small_scratch", "pipe.InitBuffer(scratch, 256);", "pipe.InitBuffer(scratch, 96);", "ub_out_of_range", ""),
]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    texts = [*kernels_of(FLAGS, "flags", PLANTED_FLAGS), *kernels_of(ORDERED, "ordered", PLANTED_ORDER)]
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


@pytest.mark.parametrize("planted", [*PLANTED_FLAGS, *PLANTED_ORDER], ids=lambda planted: planted.name)
def test_planted_mistakes(kernels, record_planted, planted):
    findings, _ = _launch(kernels, planted.name)
    found = [
        finding for finding in findings if finding["kind"] == planted.kind and planted.message in finding["message"]
    ]
    assert found, findings
    record_planted(planted.name, found[0])
