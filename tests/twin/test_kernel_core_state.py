"""Test the atomic mode by number, watched memory, the end of a TPipe, and functions for one kind of core."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from charged import FREE
from instruction_rows import Row, check_mistake, check_numbers, source_of
from test_kernel_numbers import CPP, F32

NAMES = {"float32": "F32", "float16": "F16", "int16": "S16", "int32": "S32", "int8": "S8", "bfloat16": "BF16"}
MTE3 = "SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);"
BACK = "PipeBarrier<PIPE_ALL>();"
ADD = (
    "{order} SetStoreAtomicConfig<AtomicDtype::ATOMIC_{name}, AtomicOp::ATOMIC_SUM>(); uint16_t type = 9, op = 9;"
    "GetStoreAtomicConfig(type, op); la.Store(); {end} (void)type; (void)op; {back} la.In(); {back}"
    "DataCopy(z, x.ReinterpretCast<{dtype}>(), 64); {back}"
)
END = (
    "SetStoreAtomicConfig<AtomicDtype::ATOMIC_NONE, AtomicOp::ATOMIC_SUM>();"
    f"{BACK} y.SetValue(0, type * 10 + op); lb.Store();"
)


def _atomic(dtype: np.dtype) -> Row:
    fields = {"order": MTE3, "back": BACK, "name": NAMES[dtype.name], "dtype": CPP[dtype]}
    return Row(
        f"atomic_{dtype.name}",
        ADD.format(end=END, **fields),
        (dtype, np.dtype(np.int32), dtype),
        (64, 8, 64),
        lambda a, *_: a + a,
        (ADD.format(end="", **fields), "atomic_left_on", "the atomic mode set here"),
        {"SetStoreAtomicConfig": FREE, "GetStoreAtomicConfig": FREE},
    )


WATCH = (
    "const uint32_t at = static_cast<uint32_t>(z.GetPhyAddr() / 32);"
    "CheckLocalMemoryIA({{1, at + {first}, at + {last}, {flags}, true}}); {use}"
    "CheckLocalMemoryIA({{1, 0, 0, false, false, false, false, false, false, false}});"
)
FLAGS = {
    name: ", ".join(str(one == name).lower() for one in ("sr", "sw", "vr", "vw", "mr", "mw"))
    for name in ("sr", "sw", "vr", "vw", "mr", "mw")
}
USES = {
    "vw": "Adds(z, x, 1.0f, 64);",
    "vr": "Adds(z, x, 1.0f, 64); PipeBarrier<PIPE_V>(); Adds(z, z, 0.0f, 64);",
    "sw": f"Adds(z, x, 1.0f, 64); {BACK} z.SetValue(63, x.GetValue(63) + 1.0f);",
    "sr": f"Adds(z, x, 1.0f, 64); {BACK} z.SetValue(63, z.GetValue(63));",
    "mr": f"Adds(z, x, 1.0f, 64); {BACK} lc.Store(); {BACK}",
    "mw": f"{BACK} lc.In(); {BACK} Adds(z, x, 1.0f, 64);",
}
WATCHES = [
    Row(
        f"watch_{name}",
        # The range begins after `first`: z has the 8 blocks before it.
        WATCH.format(first=7, last=8, flags=FLAGS[name], use=use),
        (F32,) * 3,
        (64,) * 3,
        lambda a, *_: a + np.float32(1),
        (WATCH.format(first=6, last=7, flags=FLAGS[name], use=use), "watched_memory", "CheckLocalMemoryIA"),
        {"CheckLocalMemoryIA": FREE},
    )
    for name, use in USES.items()
]
ROWS = [*(_atomic(np.dtype(name) if name != "bfloat16" else np.dtype(ml_dtypes.bfloat16)) for name in NAMES), *WATCHES]
PIPES = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR, GM_ADDR)
{
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)a, 64);
    to.SetGlobalBuffer((__gm__ float*)b, 64);
    for (int half = 0; half < 2; ++half) {
        TPipe pipe;
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 128);
        LocalTensor<float> x = buffer.Get<float>();
        DataCopy(x, from[half * 32], 32);
        SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
        DataCopy(to[half * 32], x, 32);
        ORDER
        pipe.DestroyWithoutPipeAll();
    }
}
"""
MIXED = """
__aicore__ inline void Note(GlobalTensor<int32_t> c, int32_t base)
{
    c.SetValue(GetBlockIdx() * 16 + base, GetTaskRatio());
    DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE>(c);
}
extern "C" __global__ __aicore__ void mixed(GM_ADDR a, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GlobalTensor<int32_t> c;
    c.SetGlobalBuffer((__gm__ int32_t*)a, 96);
    Async<EngineType::AIC, Note>(c, 64);
    Async<EngineType::AIV, Note>(c, 0);
}
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    pipes = PIPES.replace("NAME", "pipes").replace("ORDER", BACK)
    pipes += PIPES.replace("NAME", "unordered").replace("ORDER", "")
    for name, end in (("ended", ""), ("destroyed", "pipe.Destroy();")):
        pipes += PIPES.replace("NAME", name).replace("ORDER", "").replace("pipe.DestroyWithoutPipeAll();", end)
    return compile_kernels(source_of(ROWS) + pipes + MIXED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_function_for_the_state_of_a_core(kernels, row):
    check_numbers(kernels, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_planted_mistake_with_the_state_of_a_core_is_found(kernels, record_planted, row):
    check_mistake(kernels, record_planted, row)


def test_the_numbers_of_the_atomic_mode(kernels):
    for number, row in enumerate(ROWS[: len(NAMES)], start=1):
        a, b, c = np.ones(64, row.dtypes[0]), np.zeros(8, np.int32), np.zeros(64, row.dtypes[0])
        kernels.run(row.name, a, b, c)
        assert b[0] == 10 * number


def test_a_tpipe_ends_without_order(kernels):
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for name in ("pipes", "ended", "destroyed"):
        kernels.run(name, a, b)
    np.testing.assert_array_equal(b, a)
    assert [finding["kind"] for finding in kernels.launch("unordered", a, b)["findings"]] == ["race"]


def test_functions_run_on_one_kind_of_core(kernels):
    c = np.zeros(96, np.int32)
    kernels.run("mixed", c, blocks=2)
    assert c[[0, 16, 32, 48]].tolist() == [2, 2, 2, 2]
    assert c[[64, 80]].tolist() == [1, 1]
