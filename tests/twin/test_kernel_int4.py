"""Compare products of int4b_t with NumPy; order of the cube unit and enumerations of HF32; planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

pytestmark = pytest.mark.slow

# c = bias + A B': a row has K elements, two in each byte. PITCH is K / 2 up to a multiple of 32, and COLUMNS the
# fractals of a row.
CUBE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> a1Buffer;
    TBuf<TPosition::B1> b1Buffer;
    TBuf<TPosition::C1> c1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::C2> c2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(a1Buffer, 16 * PITCH);
    pipe.InitBuffer(b1Buffer, 32 * PITCH);
    pipe.InitBuffer(c1Buffer, 128);
    pipe.InitBuffer(a2Buffer, 16 * PITCH);
    pipe.InitBuffer(b2Buffer, 32 * PITCH);
    pipe.InitBuffer(c2Buffer, 128);
    pipe.InitBuffer(co1Buffer, 2048);
    GlobalTensor<int4b_t> aGm, bGm;
    GlobalTensor<int32_t> biasGm, cGm;
    aGm.SetGlobalBuffer((__gm__ int4b_t*)a);
    bGm.SetGlobalBuffer((__gm__ int4b_t*)b);
    biasGm.SetGlobalBuffer((__gm__ int32_t*)bias);
    cGm.SetGlobalBuffer((__gm__ int32_t*)c);
    LocalTensor<int4b_t> a1 = a1Buffer.Get<int4b_t>(), b1 = b1Buffer.Get<int4b_t>();
    LocalTensor<int4b_t> a2 = a2Buffer.Get<int4b_t>(), b2 = b2Buffer.Get<int4b_t>();
    LocalTensor<int32_t> c1 = c1Buffer.Get<int32_t>(), c2 = c2Buffer.Get<int32_t>(), co1 = co1Buffer.Get<int32_t>();
    DataCopy(a1, aGm, Nd2NzParams(1, M, K / 2, 0, K / 2, 16, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(1, 32, K / 2, 0, K / 2, 32, 1, 0));
    DataCopy(c1, biasGm, 32);
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    if (M == 1) {
        for (uint16_t column = 0; column < PITCH / 32; ++column) {
            LoadData(a2[column * 1024], a1[column * 1024], LoadData2DParams(0, 1, 1, 0, 0, false, 0));
        }
    } else {
        LoadData(a2, a1, LoadData2DParams(0, PITCH / 32, 1, 0, 0, false, 0));
    }
    LoadData(b2, b1, LoadData2DParams(0, PITCH / 16, 1, 0, 0, false, 0));
    DataCopy(c2, c1, DataCopyParams(1, 2, 0, 0));
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    ORDER
    Mmad(co1, a2, b2, c2, MmadParams(M, N, K, 0, false, false));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    FixpipeParamsV220 store(N, M, 16, N, false);
    store.quantPre = NoQuant;
    Fixpipe<int32_t, int32_t, CFG_ROW_MAJOR>(cGm, co1, store);
}
"""
# m, n, k and the statement before the product
CASES = {
    "whole": (16, 32, 128, "SetMMRowMajor();"),
    "tail": (13, 20, 90, "SetMMColumnMajor();"),
    "narrow": (5, 32, 34, "SetMMLayoutTransform(true);"),
    "vector": (1, 32, 64, ""),
}
LOADED = "    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);\n    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);\n"
PLANTED = [
    Planted("b_short", "LoadData2DParams(0, 64 / 16", "LoadData2DParams(0, 1", "uninitialised_read", "filter"),
    Planted("a_far", "LoadData(a2, a1,", "LoadData(a2[64], a1,", "cube_out_of_range", "dst"),
    Planted("unordered", LOADED, "", "race", "fm"),
]
# c = A B: B has K rows of N elements. SIDE elements are in 32 bytes; LoadDataWithTranspose turns squares of them.
TRANSPOSED = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    constexpr int32_t m = 16, n = 64, k = 128, blocks = n / SIDE, fractals = n / 16;
    TPipe pipe;
    TBuf<TPosition::A1> a1Buffer;
    TBuf<TPosition::B1> b1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(a1Buffer, m * k);
    pipe.InitBuffer(b1Buffer, n * k);
    pipe.InitBuffer(a2Buffer, m * k);
    pipe.InitBuffer(b2Buffer, n * k);
    pipe.InitBuffer(co1Buffer, m * n * 4);
    GlobalTensor<TYPE> aGm, bGm;
    GlobalTensor<int32_t> cGm;
    aGm.SetGlobalBuffer((__gm__ TYPE*)a);
    bGm.SetGlobalBuffer((__gm__ TYPE*)b);
    cGm.SetGlobalBuffer((__gm__ int32_t*)c);
    LocalTensor<TYPE> a1 = a1Buffer.Get<TYPE>(), b1 = b1Buffer.Get<TYPE>();
    LocalTensor<TYPE> a2 = a2Buffer.Get<TYPE>(), b2 = b2Buffer.Get<TYPE>();
    LocalTensor<int32_t> co1 = co1Buffer.Get<int32_t>();
    DataCopy(a1, aGm, Nd2NzParams(1, m, k * 32 / SIDE, 0, k * 32 / SIDE, m, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(1, k, n * 32 / SIDE, 0, n * 32 / SIDE, k, 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    LoadData(a2, a1, LoadData2DParams(0, k / SIDE, 1, 0, 0, false, 0));
    for (int32_t block = 0; block < blocks; ++block) {  // the fractals of B' in order of K, then of N
        LoadDataWithTranspose(b2[block * SIDE * SIDE], b1[block * k * SIDE],
                              LoadData2dTransposeParams(0, k / SIDE, 1, fractals - 1, 0));
    }
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(co1, a2, b2, MmadParams(m, n, k, 0, false, true));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    FixpipeParamsV220 store(n, m, m, n, false);
    store.quantPre = NoQuant;
    Fixpipe<int32_t, int32_t, CFG_ROW_MAJOR>(cGm, co1, store);
}
"""
WITHOUT_ORDER = "    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);\n    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);\n"
PLANTED_TRANSPOSED = [
    Planted("turn_unordered", WITHOUT_ORDER, "", "race", "fm"),
    Planted("turn_far", "(0, k / kSide, 1, fractals", "(9, k / kSide, 1, fractals", "cube_out_of_range", ""),
    Planted("turn_odd", "b2[block * kSide * kSide]", "b2[block * kSide * kSide + 64]", "cube_misaligned", "dst"),
]
FACTORS = {"int8_t": 32, "int4b_t": 64}
MODES = """
extern "C" __global__ __aicore__ void modes(GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    SetHF32TransMode(HF32TransMode::NEAREST_ZERO);
    SetHF32Mode(HF32Mode::ENABLE);
    STATEMENT
}
"""


def _kernel(case: str, text: str = CUBE) -> str:
    m, n, k, order = CASES[case]
    for field, value in {"PITCH": (k // 2 + 31) // 32 * 32, "ORDER": order}.items():
        text = text.replace(field, str(value))
    sizes = "".join(f"#undef {name}\n#define {name} {size}\n" for name, size in (("M", m), ("N", n), ("K", k)))
    return sizes + text


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    head = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
    modes = [
        MODES.replace("STATEMENT", statement).replace("modes", name)
        for name, statement in {
            "modes_reset": "SetHF32Mode(HF32Mode::DISABLE); SetHF32TransMode(HF32TransMode::NEAREST_EVEN);",
            "modes_left": "",
        }.items()
    ]
    cases = [_kernel(case).replace("NAME", case) for case in CASES]
    turned = []
    for dtype, side in FACTORS.items():
        text = TRANSPOSED.replace("TYPE>", f"{dtype}>").replace("TYPE*", f"{dtype}*").replace("SIDE", str(side))
        turned.append(text.replace("NAME", f"turned_{dtype}"))
    text = TRANSPOSED.replace("SIDE", "kSide").replace("constexpr int32_t m", "constexpr int32_t kSide = 64, m")
    text = text.replace("TYPE>", "int4b_t>").replace("TYPE*", "int4b_t*")
    turned += kernels_of(text, "turned", PLANTED_TRANSPOSED)
    turned += [text.replace("NAME", "turned_to_l0a").replace("TPosition::B2", "TPosition::A2")]
    return compile_kernels(head + "".join([*modes, *cases, *kernels_of(_kernel("whole"), "clean", PLANTED), *turned]))


def _pack(values):
    bits = values.astype(np.int64) & 15
    return (bits[:, ::2] | bits[:, 1::2] << 4).astype(np.uint8)


def _inputs(case):
    m, _, k, _ = CASES[case]
    random = np.random.default_rng(k)
    a, b = random.integers(-8, 8, (m, k)), random.integers(-8, 8, (32, k))
    return a, b, random.integers(-1000, 1000, 32).astype(np.int32)


@pytest.mark.parametrize("case", CASES)
def test_products_of_int4(kernels, case):
    m, n, _, _ = CASES[case]
    a, b, bias = _inputs(case)
    c = np.zeros((m, n), np.int32)
    report = kernels.run(case, _pack(a), _pack(b), bias, c)
    np.testing.assert_array_equal(c, (a @ b.T + bias)[:, :n])
    assert report["pipes"]["M"]["critical_us"] > 0


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_of_a_product_of_int4_is_found(kernels, record_planted, planted):
    a, b, bias = _inputs("whole")
    findings = kernels.launch(planted.name, _pack(a), _pack(b), bias, np.zeros((16, 32), np.int32))["findings"]
    assert [planted.kind] == sorted({finding["kind"] for finding in findings}), findings
    assert planted.message in findings[0]["message"]
    record_planted(planted.name, findings[0])


def _turned(kernels, name, dtype):
    random = np.random.default_rng(3)
    low = -8 if dtype == "int4b_t" else -100
    a, b = random.integers(low, -low, (16, 128)), random.integers(low, -low, (128, 64))
    c = np.zeros((16, 64), np.int32)
    arrays = [_pack(a), _pack(b)] if dtype == "int4b_t" else [a.astype(np.int8), b.astype(np.int8)]
    return kernels.launch(name, *arrays, c), a @ b, c


@pytest.mark.parametrize("dtype", FACTORS)
def test_products_of_transposed_squares(kernels, dtype):
    report, expected, c = _turned(kernels, f"turned_{dtype}", dtype)
    assert report["findings"] == []
    np.testing.assert_array_equal(c, expected)
    assert report["pipes"]["MTE1"]["critical_us"] > 0


@pytest.mark.parametrize("planted", PLANTED_TRANSPOSED, ids=lambda planted: planted.name)
def test_a_planted_mistake_of_a_transposed_square_is_found(kernels, record_planted, planted):
    findings = _turned(kernels, planted.name, "int4b_t")[0]["findings"]
    assert planted.kind in {finding["kind"] for finding in findings}, findings
    assert planted.message in findings[0]["message"]
    record_planted(planted.name, findings[0])


def test_int4_squares_are_for_l0b(kernels):
    findings = _turned(kernels, "turned_to_l0a", "int4b_t")[0]["findings"]
    assert [(found["kind"], "expected L0B" in found["message"]) for found in findings] == [("position", True)]


def test_the_values_of_hf32_modes(kernels):
    assert kernels.launch("modes_reset")["findings"] == []
    assert {finding["kind"] for finding in kernels.launch("modes_left")["findings"]} == {"hf32_left"}
