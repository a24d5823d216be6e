"""Test TBufPool, spill buffers and the longer forms of queues: results and planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

HEAD = """
#include "kernel_operator.h"
using namespace AscendC;
#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID3); WaitFlag<HardEvent::event>(EVENT_ID3)
constexpr TQueConfig CONFIG{};
"""
CLEAN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR spill)
{
    GlobalTensor<float> xGm, yGm, spillGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, 64);
    yGm.SetGlobalBuffer((__gm__ float*)y, 128);
    spillGm.SetGlobalBuffer((__gm__ float*)spill, 64);
    TPipe pipe;
    TBufPool<TPosition::VECCALC> first, second, part;
    pipe.InitBufPool(first, 1024);
    pipe.InitBufPool(second, 1024, first);
    TBuf<TPosition::VECCALC> a, b, c;
    first.InitBuffer(a, 256);
    second.InitBufPool(part, 512);
    TQue<TPosition::VECIN, 1, &CONFIG> queue;
    first.InitBuffer(queue, 1, 256);
    LocalTensor<float> ta = a.Get<float>();
    LocalTensor<float> tq = queue.AllocTensor<float>();
    DataCopy(tq, xGm, 64);
    queue.EnQue<TPosition::GM, TPosition::VECIN>(tq);
    tq = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();
    Adds(ta, tq, 1.0f, 64);
    queue.FreeTensor(tq);
    queue.FreeAllEvent();
    ORDER(V_MTE3);
    pipe.InitSpmBuffer(spillGm, 256);
    pipe.WriteSpmBuffer(ta, 64);
    ORDER(MTE3_MTE2);
    const auto address = ta.GetPhyAddr();
    first.Reset();
    part.InitBuffer(b, 256);
    LocalTensor<float> tb = b.Get<float>();
    ascendc_assert(tb.GetPhyAddr() == address);
    pipe.ReadSpmBuffer(tb, 64);
    ORDER(MTE2_MTE3);
    DataCopy(yGm, tb, 64);
    b.FreeTensor(tb);
}
"""
PLANTED = [
    Planted("tensor_of_a_reset_pool", "DataCopy(yGm, tb, 64);", "DataCopy(yGm, ta, 64);", "use_after_free", "src"),
    Planted("share_of_a_smaller_pool", "InitBufPool(second, 1024, first)", "InitBufPool(second, 2048, first)",
            "field_range", "len is 2048, expected 1..1024"),
    Planted("pool_over_the_memory", "InitBufPool(first, 1024)", "InitBufPool(first, 200000)", "ub_budget", "200000"),
    Planted("buffer_over_the_pool", "part.InitBuffer(b, 256)", "part.InitBuffer(b, 544)", "ub_budget",
            "at most the 512 bytes"),
    Planted("five_buffers", "first.InitBuffer(queue, 1, 256)", "first.InitBuffer(queue, 4, 32)", "buffer_count",
            "the TBufPool has 5 buffers, expected at most 4"),
    Planted("pool_without_memory", "pipe.InitBufPool(first, 1024);", "", "no_buffer", "the TBufPool has no memory"),
    Planted("reset_with_a_tensor", "queue.FreeTensor(tq);", "", "queue_unbalanced", "missing: FreeTensor"),
    Planted("pool_of_a_cube_memory", "TPipe pipe;", "TPipe pipe; TBufPool<TPosition::A1> l1; pipe.InitBufPool(l1, 64);",
            "core_kind", "ASCEND_IS_AIC"),
    Planted("spill_past_its_memory", "pipe.WriteSpmBuffer(ta, 64);", "pipe.WriteSpmBuffer(ta, 64, 32);",
            "gm_out_of_range", "256 bytes"),
]  # fmt: skip

# More queues than event ids of a HardEvent.
EVENTS = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, 64);
    yGm.SetGlobalBuffer((__gm__ float*)y, 64);
    TPipe pipe;
    TBuf<TPosition::VECCALC> sums;
    TQue<TPosition::VECIN, 1> queues[9];
    pipe.InitBuffer(sums, 256);
    LocalTensor<float> sum = sums.Get<float>();
    Duplicate(sum, 0.0f, 64);
    for (auto& queue : queues) {
        pipe.InitBuffer(queue, 1, 256);
        LocalTensor<float> t = queue.AllocTensor<float>();
        DataCopy(t, xGm, 64);
        queue.EnQue(t);
        t = queue.DeQue<float>();
        PipeBarrier<PIPE_V>();
        Add(sum, sum, t, 64);
        queue.FreeTensor(t);
        queue.FreeAllEvent();
    }
    ORDER(V_MTE3);
    DataCopy(yGm, sum, 64);
}
"""
PLANTED_EVENTS = [Planted("events_in_use", "queue.FreeAllEvent();", "", "event_ids", "all 8 event ids of V_MTE2")]

# A tensor goes through one queue in two steps: its positions select the flags.
STEPS = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, 64);
    yGm.SetGlobalBuffer((__gm__ float*)y, 64);
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, 256);
    LocalTensor<float> t = queue.AllocTensor<float>();
    DataCopy(t, xGm, 64);
    queue.EnQue<TPosition::GM, TPosition::VECIN, float>(t);
    t = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();
    Adds(t, t, 1.0f, 64);
    queue.EnQue<TPosition::VECOUT, TPosition::GM, float>(t);
    t = queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();
    DataCopy(yGm, t, 64);
    queue.FreeTensor(t);
}
"""
PLANTED_STEPS = [
    Planted("one_step", "queue.EnQue<TPosition::VECOUT, TPosition::GM, float>(t);\n"
            "    t = queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();", "", "position", "MTE2 before V"),
    Planted("other_positions", "t = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();",
            "t = queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();", "queue_order", "EnQue at"),
    Planted("without_positions", "queue.EnQue<TPosition::GM, TPosition::VECIN, float>(t);\n"
            "    t = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();",
            "queue.EnQue(t);\n    t = queue.DeQue<float>();", "position", "MTE2 before MTE3"),
]  # fmt: skip

# The kernel gives the address and the length of each buffer. The queues share bytes one after the other.
GIVEN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, 128);
    yGm.SetGlobalBuffer((__gm__ float*)y, 128);
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQueBind<TPosition::VECOUT, TPosition::GM, 1> out;
    TQue<TPosition::VECIN, 1> later;
    TBuf<TPosition::VECCALC> ones;
    pipe.InitBuffer(ones, 256);
    pipe.InitBuffer(in, Std::make_tuple(1024, 256), Std::make_tuple(uint32_t(512), int64_t(320)));
    pipe.InitBuffer(out, Std::tuple<int, int>(2048, 256));
    pipe.InitBuffer(later, Std::make_tuple(1024, 256));
    LocalTensor<float> one = ones.Get<float>();
    Duplicate(one, 1.0f, 64);
    PipeBarrier<PIPE_V>();
    const uint64_t addresses[] = {1024, 512}, sizes[] = {64, 80};
    for (int half = 0; half < 2; ++half) {
        LocalTensor<float> a = in.AllocTensor<float>();
        ascendc_assert(a.GetPhyAddr() == addresses[half] && a.GetSize() == sizes[half]);
        DataCopy(a, xGm[half * 64], 64);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Add(b, a, one, 64);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.DeQue<float>();
        DataCopy(yGm[half * 64], b, 64);
        out.FreeTensor(b);
    }
    ORDER(V_MTE2);
    LocalTensor<float> c = later.AllocTensor<float>();
    DataCopy(c, xGm, 64);
    later.EnQue(c);
    c = later.DeQue<float>();
    later.FreeTensor(c);
}
"""
PLANTED_GIVEN = [
    Planted("given_past_the_memory", "<int, int>(2048, 256)", "<int, int>(196160, 256)", "ub_budget",
            "the buffers need at least 196416 bytes"),
    Planted("given_outside_of_the_memory", "<int, int>(2048", "<int, int>(196608", "field_range", "address is 196608"),
    Planted("given_negative", "<int, int>(2048", "<int, int>(-32", "field_range", "address is -32"),
    Planted("given_misaligned", "<int, int>(2048", "<int, int>(2050", "field_range", "got 2050 bytes"),
    Planted("given_odd_length", "int64_t(320)", "int64_t(321)", "field_range", "got 321 bytes"),
    Planted("given_length_of_0", "int64_t(320)", "int64_t(0)", "field_range", "length is 0"),
    Planted("given_over_another_buffer", "<int, int>(2048", "<int, int>(224", "overlap",
            "[224, 480), which overlap the buffer [0, 256)"),
    Planted("placed_over_a_given_buffer", "LocalTensor<float> one =",
            "TBuf<> all; pipe.InitBuffer(all, 512); LocalTensor<float> one =", "overlap",
            "[256, 768), which overlap the buffer [512, 832)"),
    Planted("given_twice_in_a_queue", "int64_t(320)", "int64_t(544)", "overlap",
            "[512, 1056), which overlap the buffer [1024, 1280)"),
    Planted("shared_without_order", "ORDER(V_MTE2);", "", "race", "DataCopy"),
]  # fmt: skip


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    plants = [
        *kernels_of(CLEAN, "clean", PLANTED),
        *kernels_of(EVENTS, "events", PLANTED_EVENTS),
        *kernels_of(STEPS, "steps", PLANTED_STEPS),
        *kernels_of(GIVEN, "given", PLANTED_GIVEN),
    ]
    return compile_kernels(HEAD + "".join(plants))


def arguments():
    return np.arange(64, dtype=np.float32), np.zeros(128, np.float32), np.zeros(64, np.float32)


def test_values(kernels):
    x, y, spill = arguments()
    kernels.run("clean", x, y, spill)
    assert y[:64].tolist() == (x + 1).tolist()
    assert spill.tolist() == (x + 1).tolist()


def test_event_ids_of_a_queue_are_released(kernels):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernels.run("events", x, y)
    assert y.tolist() == (9 * x).tolist()


def test_steps_through_one_queue(kernels):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = kernels.run("steps", x, y)
    assert y.tolist() == (x + 1).tolist()
    assert report["pipes"]["MTE3"]["critical_us"] > 0


def test_given_addresses(kernels):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    report = kernels.run("given", x, y)
    assert y.tolist() == (x + 1).tolist()
    assert report["pipes"]["MTE2"]["critical_us"] > 0


def test_level_device_accepts_overlaps_without_accesses(kernels):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    kernels.run("placed_over_a_given_buffer", x, y, strict=2)
    assert y.tolist() == (x + 1).tolist()


@pytest.mark.parametrize("planted", PLANTED_GIVEN, ids=lambda planted: planted.name)
def test_planted_given(kernels, record_planted, planted):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    findings = kernels.launch(planted.name, x, y)["findings"]
    record_planted(planted.name, planted.assert_in(findings))


@pytest.mark.parametrize("planted", [*PLANTED_STEPS, *PLANTED_EVENTS], ids=lambda planted: planted.name)
def test_planted_steps(kernels, record_planted, planted):
    findings = kernels.launch(planted.name, *arguments()[:2])["findings"]
    record_planted(planted.name, planted.assert_in(findings))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted(kernels, record_planted, planted):
    findings = kernels.launch(planted.name, *arguments())["findings"]
    record_planted(planted.name, planted.assert_in(findings))


CUSTOM = """
class MyPool {
public:
    __aicore__ inline MyPool() { Init(); }
    template <class T>
    __aicore__ inline bool InitBuffer(T& que, uint8_t num, uint32_t len)
    {
        len = (len + 31) / 32 * 32;
        const auto handle = GetBufHandle(GetCurBufSize());
        const uint32_t address = GetCurAddr();
        que.InitStartBufHandle(handle, num, len);
        for (uint8_t i = 0; i < num; i++) {
            que.InitBufHandle(this, i, handle, address + i * len, len);
        }
        SetCurAddr(address + num * len);
        SetCurBufSize(GetCurBufSize() + num);
        return true;
    }
    template <TPosition pos>
    __aicore__ inline bool InitBuffer(TBuf<pos>& buf, uint32_t len)
    {
        buf.InitStartBufHandle(GetBufHandle(GetCurBufSize()), 1, len);
        buf.InitBufHandle(this, 0, GetBufHandle(GetCurBufSize()), GetCurAddr(), len);
        SetCurAddr(GetCurAddr() + len);
        SetCurBufSize(GetCurBufSize() + 1);
        return true;
    }
    EXTERN_IMPL_BUFPOOL(MyPool, TPosition::VECCALC, 4);
};
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y)
{
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, 128);
    yGm.SetGlobalBuffer((__gm__ float*)y, 128);
    TPipe pipe;
    TBuf<TPosition::VECCALC> before, sums;
    pipe.InitBuffer(before, 320);
    MyPool pool;
    pipe.InitBufPool(pool, 1024);
    const uint32_t start = pool.GetCurAddr();
    TQue<TPosition::VECIN, 2> queue;
    pool.InitBuffer(queue, 2, 256);
    pool.InitBuffer(sums, 256);
    ascendc_assert(pool.GetCurAddr() == start + 768 && pool.GetCurBufSize() == 3);
    for (int half = 0; half < 2; ++half) {
        LocalTensor<float> a = queue.AllocTensor<float>();
        DataCopy(a, xGm[half * 64], 64);
        queue.EnQue(a);
        a = queue.DeQue<float>();
        LocalTensor<float> b = sums.Get<float>();
        Adds(b, a, 1.0f, 64);
        queue.FreeTensor(a);
        ORDER(V_MTE3);
        DataCopy(yGm[half * 64], b, 64);
        ORDER(MTE3_V);
    }
    pool.Reset();
    ascendc_assert(pool.GetCurAddr() == start && pool.GetCurBufSize() == 0);
}
"""
CUSTOM_PLANTED = [
    Planted("custom_over_the_pool", "InitBufPool(pool, 1024)", "InitBufPool(pool, 512)", "field_range", "curPoolAddr"),
    Planted("custom_end_of_the_pool", "InitBufPool(pool, 1024)", "InitBufPool(pool, 736)", "ub_budget", "736 bytes"),
    Planted("custom_misaligned", "SetCurAddr(address + num * len)", "SetCurAddr(address + num * len + 8)",
            "field_range", "curPoolAddr"),
    Planted("custom_index", "InitBufHandle(this, i,", "InitBufHandle(this, i + 1,", "field_range", "index"),
    Planted("custom_shared", "pool.InitBuffer(sums, 256);", "pool.SetCurAddr(start + 256); pool.InitBuffer(sums, 256);"
            "pool.SetCurAddr(start + 768);", "race", "dst"),
    Planted("custom_handles", "pool.InitBuffer(sums, 256);", "pool.InitBuffer(sums, 256); pool.GetBufHandle(4);",
            "field_range", "offset"),
    Planted("custom_not_started", "que.InitStartBufHandle(handle, num, len);", "", "no_buffer", "InitStartBufHandle"),
    Planted("custom_without_memory", "pipe.InitBufPool(pool, 1024);", "", "no_buffer", "InitBufPool"),
]  # fmt: skip


@pytest.fixture(scope="module")
def custom(compile_kernels):
    body, _, kernel = CUSTOM.partition('extern "C"')
    sources = []
    for name, planted in (("custom", None), *((planted.name, planted) for planted in CUSTOM_PLANTED)):
        text = body + 'extern "C"' + kernel
        if planted is not None:
            assert planted.line in text, planted.name
            text = text.replace(planted.line, planted.mistake, 1)
        sources.append(text.replace("MyPool", f"Pool_{name}").replace("NAME", name))
    return compile_kernels(HEAD + "".join(sources))


def test_a_pool_with_its_own_class(custom):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    report = custom.run("custom", x, y)
    assert y.tolist() == (x + 1).tolist()
    assert report["pipes"]["V"]["critical_us"] > 0


@pytest.mark.parametrize("planted", CUSTOM_PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_of_a_pool_with_its_own_class(custom, record_planted, planted):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    findings = custom.launch(planted.name, x, y)["findings"]
    record_planted(planted.name, planted.assert_in(findings))
