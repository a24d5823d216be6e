"""Compare products of int8_t, and the quantizations of Fixpipe and DataCopy from L0C, with NumPy; planted mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

pytestmark = pytest.mark.slow

M, N, K = 16, 32, 96
HEAD = """
#include "kernel_operator.h"
using namespace AscendC;
template <HardEvent event>
__aicore__ inline void Order()
{
    SetFlag<event>(EVENT_ID0);
    WaitFlag<event>(EVENT_ID0);
}
"""
# c = quantized (bias + A B'): A has 16 rows, B' 32 rows of 96 values, which are contiguous for each sum. The last four
# rows of A are filled with 1, 2, 1, 2, ...
CUBE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR scales, GM_ADDR c, GM_ADDR,
                                           GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> a1Buffer;
    TBuf<TPosition::B1> b1Buffer;
    TBuf<TPosition::C1> c1Buffer, scaleBuffer, keptBuffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::C2> c2Buffer;
    TBuf<TPosition::C2PIPE2GM> fixpipeBuffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(a1Buffer, 1536);
    pipe.InitBuffer(b1Buffer, 3072);
    pipe.InitBuffer(c1Buffer, 128);
    pipe.InitBuffer(scaleBuffer, 256);
    pipe.InitBuffer(keptBuffer, 1024);
    pipe.InitBuffer(a2Buffer, 1536);
    pipe.InitBuffer(b2Buffer, 3072);
    pipe.InitBuffer(c2Buffer, 128);
    pipe.InitBuffer(co1Buffer, 2048);
    pipe.InitBuffer(fixpipeBuffer, 256);
    GlobalTensor<int8_t> aGm, bGm;
    GlobalTensor<int32_t> biasGm;
    GlobalTensor<uint64_t> scalesGm;
    GlobalTensor<OUT_T> cGm;
    aGm.SetGlobalBuffer((__gm__ int8_t*)a);
    bGm.SetGlobalBuffer((__gm__ int8_t*)b);
    biasGm.SetGlobalBuffer((__gm__ int32_t*)bias);
    scalesGm.SetGlobalBuffer((__gm__ uint64_t*)scales);
    cGm.SetGlobalBuffer((__gm__ OUT_T*)c);
    LocalTensor<int8_t> a1 = a1Buffer.Get<int8_t>(), b1 = b1Buffer.Get<int8_t>();
    LocalTensor<int8_t> a2 = a2Buffer.Get<int8_t>(), b2 = b2Buffer.Get<int8_t>();
    LocalTensor<int32_t> c1 = c1Buffer.Get<int32_t>(), c2 = c2Buffer.Get<int32_t>(), co1 = co1Buffer.Get<int32_t>();
    LocalTensor<uint64_t> columns = scaleBuffer.Get<uint64_t>(), scales128 = fixpipeBuffer.Get<uint64_t>();
    LocalTensor<OUT_T> kept = keptBuffer.Get<OUT_T>();
    Fill(a1.ReinterpretCast<int16_t>(), InitConstValueParams<int16_t>(1, 48, 0, 0x0201));
    PipeBarrier<PIPE_MTE2>();
    DataCopy(a1, aGm, Nd2NzParams(1, 12, 96, 0, 96, 16, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(1, 32, 96, 0, 96, 32, 1, 0));
    DataCopy(c1, biasGm, 32);
    Order<HardEvent::MTE2_MTE1>();
    DataCopy(columns, scalesGm, 32);
    Order<HardEvent::MTE2_FIX>();
    LoadData(a2, a1, LoadData2DParams(0, 3, 1, 0, 0, false, 0));
    LoadData(b2, b1, LoadData2DParams(0, 6, 1, 0, 0, false, 0));
    DataCopy(c2, c1, DataCopyParams(1, 2, 0, 0));
    Order<HardEvent::MTE1_M>();
    Mmad(co1, a2, b2, c2, MmadParams(16, 32, 96, 0, false, false));
    Order<HardEvent::M_FIX>();
    FixpipeParamsV220 store(32, 16, 16, 32, RELU);
    DataCopyCO12DstParams copy(32, 16, 32, 16, MODE, RELU, false, true);
    store.quantPre = MODE;
    store.deqScalar = SCALE;
    FixpipeParams<int32_t> gaps(2, 32, 0, 0);
    gaps.quantParams = {MODE, SCALE};
    gaps.reluEn = RELU;
    gaps.nz2ndParams.originalNSize = 32;
    (void)columns; (void)copy; (void)scales128; (void)kept;
    STORE
}
"""
FIX = "Fixpipe<OUT_T, int32_t, CFG_ROW_MAJOR>(cGm, co1, store);"
TENSOR = FIX.replace("co1, store", "co1, columns, store")
COPY = "SetFixpipePreQuantFlag(SCALE); SetFixpipeNz2ndFlag(1, 0, 0); DataCopy(cGm, co1, copy);"
TO_COLUMNS = "SetFixPipeConfig(scales128); SetFixpipeNz2ndFlag(1, 0, 0); DataCopy(cGm, co1, copy);"
COLUMNS = "DataCopy(scales128, columns, DataCopyParams(1, 2, 0, 0)); " + TO_COLUMNS
COUNTED_COLUMNS = "DataCopy(scales128, columns, 32); " + TO_COLUMNS
# Two blocks of 128 bytes, in both orders of L1: the first copy is overwritten.
BLOCKS = " ".join(f"DataCopy(scales128, columns, DataCopyParams(2, 1, {stride}, 1));" for stride in (0, 4))
# L1 receives fractals: columns of 32 bytes, each with all rows.
OUT = " Order<HardEvent::FIX_MTE3>(); DataCopy(cGm, kept, 512);"
KEPT_COPY = "SetFixpipePreQuantFlag(SCALE); copy.nz2ndEn = false; copy.dstStride = 16; DataCopy(kept, co1, copy);" + OUT
KEPT_COLUMNS = "Fixpipe(kept, co1, columns, gaps);" + OUT
KEPT = "Fixpipe(kept, co1, gaps);" + OUT
ROWS = "gaps.nz2ndParams.nz2ndEn = true; gaps.dstStride = 32; "


def _bits(scale: float, offset: int = 0, signed: int = 0) -> int:
    """Return the bits of the scale as float, of an offset of 9 bits from bit 37 on, and of the sign of the result."""
    return int(np.float32(scale).view(np.uint32)) | (offset & 0x1FF) << 37 | signed << 46


# name -> (type of c, mode, relu, bits of the scale, storage)
CASES = {
    "to_sums": ("int32_t", "NoQuant", False, 0, FIX),
    "sums_relu": ("int32_t", "NoQuant", True, 0, FIX),
    "to_half": ("half", "DEQF16", False, _bits(0.037), FIX),
    "half_relu": ("half", "DEQF16", True, _bits(0.5), FIX),
    "half_columns": ("half", "VDEQF16", False, 0, TENSOR),
    "to_int8": ("int8_t", "REQ8", False, _bits(0.004, -7, 1), FIX),
    "to_uint8": ("uint8_t", "REQ8", True, _bits(0.01, 3), FIX),
    "half_offset": ("half", "DEQF16", False, _bits(200.0, 7), FIX),  # unused offset, and results that saturate
    "int8_range": ("int8_t", "REQ8", True, _bits(0.1, -200, 1), FIX),  # products beyond 9 bits
    "int8_unsigned": ("int8_t", "REQ8", False, _bits(0.004), FIX),
    "uint8_signed": ("uint8_t", "REQ8", False, _bits(0.01, 3, 1), FIX),
    "negative_scale": ("int8_t", "REQ8", True, _bits(-0.004, 0, 1), FIX),
    "int8_columns": ("int8_t", "VREQ8", False, 0, TENSOR),
    "copy_half": ("half", "DEQF16", True, _bits(2.0), COPY),
    "copy_columns": ("half", "VDEQF16", False, 0, COLUMNS),
    "copy_counted_columns": ("half", "VDEQF16", False, 0, COUNTED_COLUMNS),
    "copy_blocks": ("half", "VDEQF16", False, 0, BLOCKS + " " + TO_COLUMNS),
    "copy_sums": ("int32_t", "NoQuant", False, 0, COPY),
    "kept_copy": ("half", "DEQF16", True, _bits(0.25), KEPT_COPY),
    "kept_columns": ("half", "VDEQF16", False, 0, KEPT_COLUMNS),
    "kept_int8": ("int8_t", "REQ8", False, _bits(0.004, -7, 1), KEPT),
    "gaps_rows": ("half", "VDEQF16", True, 0, ROWS + "Fixpipe(cGm, co1, columns, gaps);"),
    "gaps_fractals": ("int32_t", "NoQuant", False, 0, "Fixpipe(cGm, co1, gaps);"),
}
DTYPES = {"int32_t": np.int32, "half": np.float16, "int8_t": np.int8, "uint8_t": np.uint8}
PLANTED = [
    Planted("no_scale_tensor", "cGm, co1, columns, store", "cGm, co1, store", "quant_mode", "pass cbufWorkspace"),
    Planted("mode_of_float", "store.quantPre = VDEQF16;", "store.quantPre = F322F16;", "quant_mode", "DEQF16"),
    Planted("b_not_loaded", "LoadData(b2,", "LoadData(b2[512],", "cube_out_of_range", "dst"),
    Planted("filled_too_far", "int16_t>(1, 48,", "int16_t>(1, 49,", "cube_out_of_range", "dst"),
    Planted("scales_unordered", "    Order<HardEvent::MTE2_FIX>();\n", "", "race", "cbufWorkspace"),
]

PLANTED_KEPT = [
    Planted("kept_as_rows", "gaps.reluEn = false;", "gaps.nz2ndParams.nz2ndEn = true;", "field_range", "nz2ndEn"),
    Planted("kept_too_far", "gaps(2, 32, 0, 0)", "gaps(2, 32, 0, 8)", "cube_out_of_range", "dst"),
    Planted("kept_unordered", "Order<HardEvent::FIX_MTE3>(); ", "", "race", "FIX"),
    Planted("kept_scales", "    Order<HardEvent::MTE2_FIX>();\n", "", "race", "cbufWorkspace"),
]
CONFIG, TO_FIXPIPE = "SetFixPipeConfig(scales128);", "DataCopy(scales128, columns, DataCopyParams(1, 2, 0, 0));"
PLANTED_COLUMNS = [
    Planted("columns_without_scales", CONFIG, "", "quant_mode", "SetFixPipeConfig"),
    Planted("columns_after_tensor", CONFIG, "SetFixPipeConfig(scales128[16]);", "cube_out_of_range", "cbufWorkspace"),
    Planted("columns_of_l1", CONFIG, "SetFixPipeConfig(columns);", "position", "expected the fixpipe buffer"),
    Planted("columns_not_copied", TO_FIXPIPE, "", "uninitialised_read", "cbufWorkspace"),
    Planted("columns_unordered", "    Order<HardEvent::MTE2_FIX>();\n", "", "race", "src"),
    Planted("columns_odd", TO_FIXPIPE, "DataCopy(scales128, columns, 24);", "cube_misaligned", "multiples of 128"),
    Planted("columns_too_far", TO_FIXPIPE, TO_FIXPIPE.replace("1, 2", "1, 3"), "cube_out_of_range", "src"),
    Planted("columns_to_l0a", TO_FIXPIPE, "DataCopy(a2, a1, 512);", "position", "use LoadData for L0A"),
]
PLANTED_COPY = [
    Planted("copied_without_scale", f"SetFixpipePreQuantFlag({_bits(0.25)}ull);", "", "quant_mode", "without a scale"),
    Planted("shift", f"Flag({_bits(0.25)}ull", f"Flag({_bits(0.25) | 1 << 36}ull", "quant_mode", "bit 36"),
    Planted("copied_as_rows", "copy.nz2ndEn = false; ", "", "field_range", "nz2ndEn"),
    Planted("copied_too_far", "copy.dstStride = 16; ", "copy.dstStride = 17; ", "cube_out_of_range", "dst"),
]


def _kernel(name: str, text: str = CUBE) -> str:
    dtype, mode, relu, scale, store = CASES[name]
    fields = {"STORE": store, "OUT_T": dtype, "MODE": mode, "RELU": str(relu).lower(), "SCALE": f"{scale}ull"}
    for field, value in fields.items():
        text = text.replace(field, value)
    return text


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    cases = [_kernel(name).replace("NAME", name) for name in CASES]
    copy = _kernel("copy_half").replace("SetFixpipeNz2ndFlag(1, 0, 0); ", "").replace("NAME", "no_matrices")
    plants = [
        *kernels_of(_kernel("half_columns"), "clean", PLANTED),
        *kernels_of(_kernel("kept_columns"), "kept_clean", PLANTED_KEPT),
        *kernels_of(_kernel("kept_copy"), "copy_clean", PLANTED_COPY),
        *kernels_of(_kernel("copy_columns"), "columns_clean", PLANTED_COLUMNS),
    ]
    return compile_kernels(HEAD + "".join([*cases, copy, *plants]))


def _inputs():
    random = np.random.default_rng(5)
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((M, K), (N, K)))
    bias = random.integers(-1000, 1000, N).astype(np.int32)
    scales = (random.random(N) * 0.01).astype(np.float32)
    return a, b, bias, scales


@pytest.mark.parametrize("name", CASES)
def test_sums_of_int8_are_quantized(kernels, name):
    dtype, mode, relu, bits, _ = CASES[name]
    a, b, bias, scales = _inputs()
    c = np.zeros((M, N), DTYPES[dtype])
    report = kernels.run(name, a, b, bias, scales.view(np.uint32).astype(np.uint64), c)
    a[12:] = np.tile(np.array([1, 2], np.int8), K // 2)
    sums = a.astype(np.int64) @ b.T.astype(np.int64) + bias
    expected = np.maximum(sums, 0) if relu else sums  # ReLU replaces the scale of negative sums by 0
    if mode != "NoQuant":
        scale = (
            scales if mode[0] == "V" else np.array([bits & 0xFFFFFFFF], np.uint64).astype(np.uint32).view(np.float32)
        )
        kept = (scale.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)  # the device keeps 19 bits
        expected = expected.astype(np.float32) * kept
        if dtype == "half":
            expected = np.clip(expected, -65504, 65504).astype(np.float16)
        else:
            offset = ((bits >> 37 & 0x1FF) ^ 0x100) - 0x100
            low, high = (-128, 127) if bits >> 46 & 1 else (0, 255)
            expected = np.clip(np.clip(np.rint(expected), -256, 255) + offset, low, high).astype(np.int32)
            expected = expected.astype(DTYPES[dtype])
    if name.startswith("kept") or name == "gaps_fractals":
        width = 32 if dtype == "int8_t" else 16
        c = c.reshape(N // width, M, width).transpose(1, 0, 2).reshape(M, N)
    np.testing.assert_array_equal(c, expected)
    assert report["pipes"]["M"]["critical_us"] > 0
    assert report["pipes"]["FIX"]["critical_us"] > 0


@pytest.mark.parametrize(
    "planted", [*PLANTED, *PLANTED_KEPT, *PLANTED_COPY, *PLANTED_COLUMNS], ids=lambda planted: planted.name
)
def test_planted_mistakes(kernels, record_planted, planted):
    a, b, bias, scales = _inputs()
    buffers = (a, b, bias, scales.view(np.uint32).astype(np.uint64), np.zeros((M, N), np.float16))
    for clean in ("clean", "kept_clean", "copy_clean", "columns_clean"):
        assert kernels.launch(clean, *buffers)["findings"] == []
    findings = kernels.launch(planted.name, *buffers)["findings"]
    record_planted(planted.name, planted.assert_in(findings))


def test_rows_need_the_number_of_matrices(kernels, record_planted):
    a, b, bias, scales = _inputs()
    buffers = (a, b, bias, scales.view(np.uint32).astype(np.uint64), np.zeros((M, N), np.float16))
    (finding,) = kernels.launch("no_matrices", *buffers)["findings"]
    assert finding["kind"] == "fixpipe_register"
    assert "SetFixpipeNz2ndFlag" in finding["message"]
    record_planted("no_matrices", finding)
