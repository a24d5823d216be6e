"""Test launches with cube cores, alone and with vector cores: running cores, special loads, and the time model."""

from __future__ import annotations

import numpy as np
import pytest

from opforge.twin.build import npu_model
from opforge.twin.profile import summary
from opforge.twin.profile.page import render
from opforge.twin.runtime.results import Result

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

struct Type {
    int32_t type = 0;
};

/// Every core notes who it is in a line of 64 bytes: cube cores in the first rows, vector cores behind.
template <int type>
__aicore__ inline void Note(GM_ADDR y)
{
    GlobalTensor<int32_t> yGm;
    yGm.SetGlobalBuffer((__gm__ int32_t*)y);
    int64_t row = GetBlockIdx();
    if ASCEND_IS_AIV {
        row += 8;
    }
    yGm.SetValue(row * 16, 1);
    yGm.SetValue(row * 16 + 1, GetSubBlockIdx());
    yGm.SetValue(row * 16 + 2, GetTaskRation());
    yGm.SetValue(row * 16 + 3, GetBlockNum());
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yGm[row * 16]);
}

#define WHO(name)                                                           \
    extern "C" __global__ __aicore__ void who_##name(GM_ADDR y, GM_ADDR, GM_ADDR) \
    {                                                                       \
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_##name);                       \
        Note<0>(y);                                                         \
    }
WHO(AIV_ONLY)
WHO(AIC_ONLY)
WHO(MIX_AIV_1_0)
WHO(MIX_AIC_1_0)
WHO(MIX_AIC_1_1)
WHO(MIX_AIC_1_2)

#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)

/// One row times a matrix: L0A holds a plain vector of 48, or, `dense` false, the first rows of fractals.
template <bool dense>
__aicore__ inline void Row(GM_ADDR a, GM_ADDR b, GM_ADDR c)
{
    TPipe pipe;
    TBuf<TPosition::A1> a1Buffer;
    TBuf<TPosition::B1> b1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(a1Buffer, 1536);
    pipe.InitBuffer(b1Buffer, 1536);
    pipe.InitBuffer(a2Buffer, 1536);
    pipe.InitBuffer(b2Buffer, 1536);
    pipe.InitBuffer(co1Buffer, 1024);
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> cGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    cGm.SetGlobalBuffer((__gm__ float*)c);
    LocalTensor<half> a1 = a1Buffer.Get<half>();
    LocalTensor<half> b1 = b1Buffer.Get<half>();
    InitConstValue(a1, InitConstValueParams<half>(1, 48, 0, half(0)));
    PipeBarrier<PIPE_MTE2>();
    if (dense) {
        DataCopy(a1, aGm, 48);
    } else {
        DataCopy(a1, aGm, Nd2NzParams(1, 1, 48, 0, 48, 16, 1, 0));
    }
    DataCopy(b1, bGm, Nd2NzParams(1, 48, 16, 0, 16, 48, 1, 0));
    ORDER(MTE2_MTE1);
    LoadData(a2Buffer.Get<half>(), a1, LoadData2DParams(0, 3, 1, 0, 0, false, 0));
    LoadData(b2Buffer.Get<half>(), b1, LoadData2DParams(0, 3, 1, 0, 0, true, 0));
    ORDER(MTE1_M);
    MmadParams product(dense ? 1 : 16, 16, 48, 0, false, true);
    Mmad(co1Buffer.Get<float>(), a2Buffer.Get<half>(), b2Buffer.Get<half>(), product);
    ORDER(M_FIX);
    Fixpipe<float, float>(cGm, co1Buffer.Get<float>(), FixpipeParamsV220(16, 1, 16, 16, false));
}

extern "C" __global__ __aicore__ void vector_row(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    Row<true>(a, b, c);
}

extern "C" __global__ __aicore__ void fractal_row(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    Row<false>(a, b, c);
}

/// A [16, 32] times B [32, 32], whose squares of 16 x 16 lie in L1 row by row and are transposed one by one.
template <typename T>
__aicore__ inline void Squares(GM_ADDR a, GM_ADDR b, GM_ADDR c)
{
    constexpr int32_t c0 = 32 / sizeof(T);
    constexpr int32_t parts = 16 / c0;
    TPipe pipe;
    TQue<TPosition::A1, 1> a1Queue;
    TQue<TPosition::B1, 1> b1Queue;
    TQue<TPosition::A2, 1> a2Queue;
    TQue<TPosition::B2, 1> b2Queue;
    TQue<TPosition::CO1, 1> co1Queue;
    pipe.InitBuffer(a1Queue, 1, 2048);
    pipe.InitBuffer(b1Queue, 1, 4096);
    pipe.InitBuffer(a2Queue, 1, 2048);
    pipe.InitBuffer(b2Queue, 1, 4096);
    pipe.InitBuffer(co1Queue, 1, 2048);
    GlobalTensor<T> aGm, bGm;
    GlobalTensor<float> cGm;
    aGm.SetGlobalBuffer((__gm__ T*)a);
    bGm.SetGlobalBuffer((__gm__ T*)b);
    cGm.SetGlobalBuffer((__gm__ float*)c);
    LocalTensor<T> a1 = a1Queue.AllocTensor<T>();
    LocalTensor<T> b1 = b1Queue.AllocTensor<T>();
    DataCopy(a1, aGm, Nd2NzParams(1, 16, 32, 0, 32, 16, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(2, 16, 32, 16 * 32, 32, 16, 1, 16 * 32));
    a1Queue.EnQue(a1);
    b1Queue.EnQue(b1);
    a1 = a1Queue.DeQue<T>();
    b1 = b1Queue.DeQue<T>();
    LocalTensor<T> a2 = a2Queue.AllocTensor<T>();
    LocalTensor<T> b2 = b2Queue.AllocTensor<T>();
    LoadData(a2, a1, LoadData2DParams(0, 32 / c0, 1, 0, 0, false, 0));
    for (int32_t j = 0; j < 2; ++j) {
        LoadDataWithTranspose(b2[j * 16 * 32], b1, LoadData2dTransposeParams(2 * j, 2, 1, 0, parts - 1));
    }
    a2Queue.EnQue(a2);
    b2Queue.EnQue(b2);
    a1Queue.FreeTensor(a1);
    b1Queue.FreeTensor(b1);
    a2 = a2Queue.DeQue<T>();
    b2 = b2Queue.DeQue<T>();
    LocalTensor<float> co1 = co1Queue.AllocTensor<float>();
    Mmad(co1, a2, b2, MmadParams(16, 32, 32, 0, false, true));
    a2Queue.FreeTensor(a2);
    b2Queue.FreeTensor(b2);
    co1Queue.EnQue(co1);
    co1 = co1Queue.DeQue<float>();
    Fixpipe<float, float>(cGm, co1, FixpipeParamsV220(32, 16, 16, 32, false));
    co1Queue.FreeTensor(co1);
}

extern "C" __global__ __aicore__ void squares_half(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    Squares<half>(a, b, c);
}

extern "C" __global__ __aicore__ void squares_float(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    Squares<float>(a, b, c);
}

/// Y = X X in fractals of half, c = X Y by way of L1.
extern "C" __global__ __aicore__ void chain(GM_ADDR x, GM_ADDR y, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::A1> l1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(l1Buffer, 4096);
    pipe.InitBuffer(a2Buffer, 2048);
    pipe.InitBuffer(b2Buffer, 2048);
    pipe.InitBuffer(co1Buffer, 4096);
    GlobalTensor<half> xGm, yGm;
    GlobalTensor<float> cGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    yGm.SetGlobalBuffer((__gm__ half*)y);
    cGm.SetGlobalBuffer((__gm__ float*)c);
    LocalTensor<half> x1 = l1Buffer.Get<half>();
    LocalTensor<half> y1 = x1[1024];
    LocalTensor<half> a2 = a2Buffer.Get<half>();
    LocalTensor<half> b2 = b2Buffer.Get<half>();
    LocalTensor<float> co1 = co1Buffer.Get<float>();
    DataCopy(x1, xGm, Nd2NzParams(1, 32, 32, 0, 32, 32, 1, 0));
    ORDER(MTE2_MTE1);
    LoadData3DParamsV2<half> window;
    window.l1H = 1;
    window.l1W = window.channelSize = window.mExtension = window.kExtension = 32;
    LoadData(a2, x1, window);
    LoadData(b2, x1, window);
    ORDER(MTE1_M);
    Mmad(co1, a2, b2, MmadParams(32, 32, 32, 0, false, true));
    ORDER(M_FIX);
    FixpipeParamsV220 keep(32, 32, 32, 32, false);
    keep.quantPre = F322F16;
    Fixpipe<half, float, CFG_NZ>(y1, co1, keep);
    Fixpipe<half, float, CFG_NZ>(yGm, co1, keep);
    ORDER(FIX_MTE1);
    ORDER(M_MTE1);
    LoadData(b2, y1, window);
    ORDER(MTE1_M);
    ORDER(FIX_M);
    Mmad(co1, a2, b2, MmadParams(32, 32, 32, 0, false, true));
    ORDER(M_FIX);
    Fixpipe<float, float>(cGm, co1, FixpipeParamsV220(32, 32, 32, 32, false));
}

/// The cube core multiplies for a while, then tells its vector cores.
extern "C" __global__ __aicore__ void handover(GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    KERNEL_TASK_TYPE(0, KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    if ASCEND_IS_AIC {
        TBuf<TPosition::A2> a2Buffer;
        TBuf<TPosition::B2> b2Buffer;
        TBuf<TPosition::CO1> co1Buffer;
        pipe.InitBuffer(a2Buffer, 32768);
        pipe.InitBuffer(b2Buffer, 32768);
        pipe.InitBuffer(co1Buffer, 65536);
        InitConstValue(a2Buffer.Get<half>(), InitConstValueParams<half>(1, 64, 0, half(1)));
        InitConstValue(b2Buffer.Get<half>(), InitConstValueParams<half>(1, 64, 0, half(1)));
        ORDER(MTE1_M);
        for (int32_t i = 0; i < 8; ++i) {
            MmadParams product(128, 120, 128, 0, false, i == 0);
            Mmad(co1Buffer.Get<float>(), a2Buffer.Get<half>(), b2Buffer.Get<half>(), product);
        }
        CrossCoreSetFlag<2, PIPE_M>(0);
    }
    if ASCEND_IS_AIV {
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 256);
        CrossCoreWaitFlag(0);
        Duplicate(buffer.Get<float>(), 1.0f, 64);
        ORDER(V_MTE3);
        GlobalTensor<float> yGm;
        yGm.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * 64);
        DataCopy(yGm, buffer.Get<float>(), 64);
    }
}
"""
CYCLES_PER_US = 1850


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


@pytest.mark.parametrize(
    ("name", "cubes", "vectors"),
    [
        ("AIV_ONLY", 0, 1),
        ("AIC_ONLY", 1, 0),
        ("MIX_AIV_1_0", 0, 1),
        ("MIX_AIC_1_0", 1, 0),
        ("MIX_AIC_1_1", 1, 1),
        ("MIX_AIC_1_2", 1, 2),
    ],
)
@pytest.mark.parametrize("assumed", ["AIV_ONLY", "MIX_AIC_1_2"])
def test_the_cores_of_a_task_type(kernels, name, cubes, vectors, assumed):
    groups = 3
    rows = np.zeros((14, 16), np.int32)
    kernels.run(f"who_{name}", rows, blocks=groups, task_type=assumed)
    expected = np.zeros_like(rows)
    for group in range(groups * cubes):
        expected[group, :4] = 1, 0, 1, groups
    for block in range(groups * vectors):
        expected[8 + block, :4] = 1, block % vectors, vectors, groups
    np.testing.assert_array_equal(rows, expected)


def test_a_single_row_reads_a_plain_vector(kernels):
    random = np.random.default_rng(3)
    a, b = random.integers(-4, 5, 48).astype(np.float16), random.integers(-4, 5, (48, 16)).astype(np.float16)
    for name in ("vector_row", "fractal_row"):
        c = np.zeros(16, np.float32)
        kernels.run(name, a, b, c, task_type="AIC_ONLY")
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("name", "dtype"), [("squares_half", np.float16), ("squares_float", np.float32)])
def test_squares_are_transposed_between_queues(kernels, name, dtype):
    random = np.random.default_rng(4)
    a, b = (random.integers(-4, 5, shape).astype(dtype) for shape in ((16, 32), (32, 32)))
    c = np.zeros((16, 32), np.float32)
    report = kernels.run(name, a, b, c, task_type="AIC_ONLY")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    constants = npu_model()["constants"]
    busy = report["cores"][0]["busy"]
    rates = [constants[f"l1_to_{unit}_bytes_per_cycle"]["value"] for unit in ("l0a", "l0b")]
    # One load of A and two of B.
    loads = 3 * constants["l1_load_issue_cycles"]["value"] + a.nbytes / rates[0] + b.nbytes / rates[1]
    assert busy["MTE1"] == pytest.approx(loads / CYCLES_PER_US, rel=1e-5)
    # Rows of 128 bytes, touched for the first time, are stored through the port, which is slower than L0C.
    port = c.nbytes / constants["port_first_touch_bytes_per_cycle_per_core"]["value"]
    assert port > c.nbytes / constants["l0c_out_bytes_per_cycle"]["value"]
    assert busy["FIX"] == pytest.approx(port / CYCLES_PER_US, rel=1e-5)


def test_product_is_kept_in_l1_for_the_next(kernels):
    x = np.random.default_rng(6).integers(-4, 5, (32, 32)).astype(np.float16)
    y, c = np.zeros(1024, np.float16), np.zeros((32, 32), np.float32)
    kernels.run("chain", x, y, c, task_type="AIC_ONLY")
    square = x.astype(np.float32) @ x.astype(np.float32)
    np.testing.assert_array_equal(y, square.reshape(32, 2, 16).transpose(1, 0, 2).ravel())
    np.testing.assert_array_equal(c, x.astype(np.float32) @ square)


def test_vector_cores_wait_for_the_cycles_of_the_cube_unit(kernels):
    y = np.zeros((3, 2, 64), np.float32)
    report = kernels.run("handover", y, blocks=3)
    np.testing.assert_array_equal(y, 1)
    cores = {core["name"]: core for core in report["cores"]}
    assert [*cores] == [*(f"AIC {core}" for core in range(24)), *(f"AIV {core}" for core in range(48))]
    issue = npu_model()["constants"]["mmad_issue_cycles"]["value"]
    products = 8 * (8 * 8 * 8 + issue)  # of fractals, one a cycle
    for group in range(3):
        assert cores[f"AIC {group}"]["busy"]["M"] == pytest.approx(products / CYCLES_PER_US, rel=1e-5)
    assert cores["AIC 3"]["us"] == 0
    # The vector cores continue after the flag of the cube core, without a delay.
    constants = npu_model()["constants"]
    delay = constants["cross_core_flag_cycles"]["value"]
    for core in range(6):
        behind = cores[f"AIV {core}"]["us"] - cores[f"AIC {core // 2}"]["us"]
        assert delay / CYCLES_PER_US <= behind < 3 * delay / CYCLES_PER_US
    assert cores["AIV 6"]["us"] == 0
    assert report["macs"] == 3 * 8 * 128 * 120 * 128
    peak = constants["cube_macs_per_cycle"]["value"]["fp16"] * 24 * CYCLES_PER_US
    assert report["bound_us"] == pytest.approx(report["macs"] / peak, rel=1e-5)
    busiest = max(core["us"] for core in report["cores"])
    vector_us = [core["us"] for name, core in cores.items() if name.startswith("AIV")]
    assert report["balance"] == pytest.approx(busiest * 48 / sum(vector_us), rel=1e-5)


def test_too_many_cubes_follow_each_other(kernels):
    rows = np.zeros((64, 16), np.int32)
    report = kernels.run("who_AIC_ONLY", rows, blocks=30, task_type="AIC_ONLY")
    assert len(report["cores"]) == 24
    assert sum(rows[:, 0]) == 30


def test_a_page_shows_both_kinds_of_cores(kernels):
    report = kernels.run("handover", np.zeros((3, 2, 64), np.float32), blocks=3)
    figures = summary(Result({}, [{**report, "minimal_bytes": 1536}]))
    assert "no published time was compared with a run of both cube and vector cores" in figures["outside_range"]
    case = {"operator": "handover", "soc": "Ascend910B1", "name": "", "shapes": {}, "dtypes": {}, "attrs": {}}
    page = render([(case | figures, [])])
    for core in report["cores"]:
        assert f"{core['name']}: {core['us']:.3f} us" in page
    assert "all 24 cube units" in page
    assert "AIC 2, M: " in page
    assert "The dashed line is the mean of all 48 of its kind" in page
    # The mean of a pipe is over the cores that have it.
    running_us = sum(max(phase["core_us"], phase["gm_us"], phase["l2_us"]) for phase in report["phases"])
    share = sum(core["busy"].get("M", 0.0) for core in report["cores"]) / 24 / running_us
    assert f'text-anchor="end">{100 * share:.0f} %</text>' in page
