"""Compare kernels with tensors of a TensorTrait with NumPy and with the same kernels on plain tensors."""

from __future__ import annotations

import re

import numpy as np
import pytest
import test_kernel_sparse
from planted import Planted, kernels_of
from test_kernel_numbers import FRAME, KERNEL

pytestmark = pytest.mark.slow

# y = x + 2, through queues.
VECTOR = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    using Element = TensorTrait<int16_t>;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 1024);
    pipe.InitBuffer(out, 1, 1024);
    GlobalTensor<Element> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ int16_t*)x, 512);
    yGm.SetGlobalBuffer((__gm__ int16_t*)y, 512);
    LocalTensor<Element> src = in.AllocTensor<Element>();
    DataCopy(src, xGm, 512);
    in.EnQue(src);
    src = in.DeQue<Element>();
    LocalTensor<Element> dst = out.AllocTensor<Element>();
    const int16_t scalar = 2;
    const uint64_t mask = 128;
    Adds(dst, src, scalar, mask, 4, {1, 1, 8, 8});
    out.EnQue(dst);
    in.FreeTensor(src);
    dst = out.DeQue<Element>();
    DataCopy(yGm, dst, 512);
    out.FreeTensor(dst);
}
"""
REPEATS = "Adds(dst, src, scalar, mask, 4, {1, 1, 8, 8});"
PLANTED = [
    Planted("too_many", REPEATS, REPEATS.replace("4,", "5,"), "ub_out_of_range", "Adds"),
    Planted("misaligned", REPEATS, "Adds(dst, src[1], scalar, mask, 3, {1, 1, 8, 8});", "ub_misaligned", "Adds"),
    Planted("outside", "DataCopy(src, xGm, 512)", "DataCopy(src, xGm[256], 512)", "gm_out_of_range", "DataCopy"),
    Planted("no_dequeue", "src = in.DeQue<Element>();", "", "queue_order", "Adds"),
    Planted("not_written", REPEATS, REPEATS.replace("4,", "3,"), "uninitialised_read", "DataCopy"),
]
# y = a b. Fill writes a and b for the first block, copies for the second one.
CUBE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    using Factor = TensorTrait<half>;
    using Sum = TensorTrait<float>;
    constexpr int32_t M = 16, K = 32, N = 16;
    TPipe pipe;
    TQue<TPosition::A1, 1> a1Queue;
    TQue<TPosition::A2, 1> a2Queue;
    TQue<TPosition::B1, 1> b1Queue;
    TQue<TPosition::B2, 2> b2Queue;
    TQue<TPosition::CO1, 1> sums;
    pipe.InitBuffer(a1Queue, 1, M * K * sizeof(half));
    pipe.InitBuffer(a2Queue, 1, M * K * sizeof(half));
    pipe.InitBuffer(b1Queue, 1, K * N * sizeof(half));
    pipe.InitBuffer(b2Queue, 2, K * N * sizeof(half));
    pipe.InitBuffer(sums, 1, M * N * sizeof(float));
    GlobalTensor<Factor> aGm, bGm;
    GlobalTensor<Sum> yGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    auto a1 = a1Queue.AllocTensor<Factor>();
    auto b1 = b1Queue.AllocTensor<Factor>();
    if (GetBlockIdx() == 0) {
        Fill(a1, {static_cast<uint16_t>(M * K * sizeof(half) / 32), 1, 0, half(2)});
        Fill(b1, {static_cast<uint16_t>(K * N * sizeof(half) / 32), 1, 0, half(3)});
    } else {
        DataCopy(a1, aGm, M * K);
        DataCopy(b1, bGm, K * N);
    }
    a1Queue.EnQue(a1);
    b1Queue.EnQue(b1);
    a1 = a1Queue.DeQue<Factor>();
    b1 = b1Queue.DeQue<Factor>();
    auto a2 = a2Queue.AllocTensor<Factor>();
    auto b2 = b2Queue.AllocTensor<Factor>();
    LoadData2DParams load;
    load.repeatTimes = M * K * sizeof(half) / 512;
    load.srcStride = 1;
    LoadData(a2, a1, load);
    LoadData(b2, b1, load);
    a2Queue.EnQue<Factor>(a2);
    b2Queue.EnQue<Factor>(b2);
    a1Queue.FreeTensor(a1);
    b1Queue.FreeTensor(b1);
    a2 = a2Queue.DeQue<Factor>();
    b2 = b2Queue.DeQue<Factor>();
    auto c = sums.AllocTensor<Sum>();
    MmadParams product;
    product.m = M;
    product.n = N;
    product.k = K;
    Mmad(c, a2, b2, product);
    sums.EnQue<Sum>(c);
    a2Queue.FreeTensor(a2);
    b2Queue.FreeTensor(b2);
    c = sums.DeQue<Sum>();
    Fixpipe(yGm[GetBlockIdx() * M * N], c, FixpipeParamsV220(N, M, M, N, false));
    sums.FreeTensor(c);
}
"""
CUBE_PLANTED = [
    Planted("wide_product", "product.k = K", "product.k = 2 * K", "cube_out_of_range", "Mmad"),
    Planted("wrong_memory", "LoadData(a2, a1, load)", "LoadData(a1, a1, load)", "position", "LoadData"),
]
# Calls of the documented functions that the twin has: name, statements, and dtypes of x, y and z. E<T> is T, or
# TensorTrait<T>.
F, H, I32, I16, U8, I8, U32 = "float", "half", "int32_t", "int16_t", "uint8_t", "int8_t", "uint32_t"
SIZES = {F: 4, H: 2, I32: 4, I16: 2, U8: 1, I8: 1, U32: 4}
SCALE = "SetDeqScale(half(0.25f)); "
INDEX = "LocalTensor<uint32_t> o = y.template ReinterpretCast<uint32_t>(); "
CALLS = [
    *((name, f"{name}(z, x, 64);", F, F, F) for name in ["Exp", "Ln", "Abs", "Reciprocal", "Sqrt", "Rsqrt", "Relu"]),
    *(
        (name, f"{name}(z, x, y, 64);", H, H, H)
        for name in ["Add", "Sub", "Mul", "Div", "Max", "Min", "AddRelu", "SubRelu"]
    ),
    *((name, f"{name}(z, x, y, 64);", F, F, F) for name in ["FusedMulAdd", "MulAddRelu", "FusedMulAddRelu"]),
    *((name, f"{name}(z, x, y, 64);", I16, I16, I16) for name in ("And", "Or")),
    *((name, f"{name}(z, x, half(1.5f), 64);", H, H, H) for name in ["Adds", "Muls", "Maxs", "Mins", "LeakyRelu"]),
    ("Adds_repeats", "Adds(z, x, 1.5f, 64, 1, {1, 1, 8, 8});", F, F, F),
    (
        "SetVectorMask",
        "SetVectorMask<E<half>>(32); uint64_t m = 0; Abs<E<half>, false>(z, y, m, 1, {1, 1, 8, 8}); ResetMask();",
        *(H, H, H),
    ),
    ("Adds_literal", "Adds(z, x, 2, 64);", I32, I32, I32),
    ("Adds_bits", "uint64_t m[2] = {5, 0}; Adds<E<float>>(z, x, 1.5f, m, 1, {1, 1, 8, 8});", F, F, F),
    *((name, f"{name}(z, x, static_cast<int16_t>(2), 64);", I16, I16, I16) for name in ("ShiftLeft", "ShiftRight")),
    ("ShiftRight_round", "ShiftRight(z, x, static_cast<int16_t>(2), 64, 1, {1, 1, 8, 8}, true);", I16, I16, I16),
    ("MulAddDst", "MulAddDst(z, x, y, 64);", H, H, F),
    ("AddReluCast", "AddReluCast(z, x, y, 64);", F, F, H),
    ("SubReluCast", "SubReluCast(z, x, y, 64, 1, {1, 1, 1, 4, 8, 8});", F, F, H),
    ("MulCast", "MulCast(z, x, y, 64);", H, H, I8),
    ("AddDeqRelu", f"{SCALE} AddDeqRelu(z, x, y, 64);", I32, I32, H),
    (
        "AddDeqRelu_bits",
        f"{SCALE} uint64_t m[2] = {{5, 0}}; AddDeqRelu(z, x, y, m, 1, {{1, 1, 1, 4, 8, 8}});",
        I32,
        I32,
        H,
    ),
    ("CastDequant", f"{SCALE} CastDequant<E<half>, E<int32_t>>(z, x, 64);", I32, I32, H),
    (
        "CastDequant_bytes",
        "SetDeqScale(1.5f, -3, true); CastDequant<E<int8_t>, E<int16_t>, false>(z, x, 32);",
        I16,
        I16,
        I8,
    ),
    ("Cast", "Cast(z, x, RoundMode::CAST_RINT, 64);", F, F, H),
    ("Cast_repeats", "Cast(z, x, RoundMode::CAST_FLOOR, 64, 1, {1, 1, 8, 8});", F, F, I32),
    ("DataCopy", "DataCopy(z, x, 64);", H, H, H),
    ("DataCopy_rows", "DataCopy(z, x, {2, 1, 1, 0});", F, F, F),
    ("Copy", "Copy(z, x, 64, 1, {1, 1, 8, 8});", F, F, F),
    ("Compare", "Compare(z, x, y, CMPMODE::LT, 64);", F, F, U8),
    (
        "GetCmpMask",
        "Compare(x, y, CMPMODE::LT, 64, {1, 1, 1, 8, 8, 8}); PipeBarrier<PIPE_V>(); GetCmpMask(z);",
        *(F, F, U8),
    ),
    (
        "SetCmpMask",
        (
            "SetCmpMask(y); PipeBarrier<PIPE_V>(); Select<E<float>, SELMODE::VSEL_CMPMASK_SPR>(z, x, x[64], 1,"
            "{1, 1, 1, 8, 8, 8});"
        ),
        *(F, U8, F),
    ),
    ("Select", "Select(z, y, x, x[64], SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);", F, U8, F),
    ("GatherMask", "uint64_t n; GatherMask(z, x, 1, false, 0, {1, 1, 8, 0}, n);", F, F, F),
    ("GatherMask_bits", "uint64_t n; GatherMask(z, x, y, true, 64, {1, 1, 8, 8}, n);", F, U32, F),
    *((name, f"{name}(z, x, y, 64);", F, F, F) for name in ("ReduceMax", "ReduceMin", "ReduceSum")),
    *(
        (f"{name}_{op}", f"{name}<ReduceType::{op}>(z, x, 64, 1, 1, 1, 8);", F, F, F)
        for name, op in (("ReduceDataBlock", "SUM"), ("ReduceRepeat", "MAX"), ("ReducePairElem", "SUM"))
    ),
    ("BlockReduceMax", "BlockReduceMax(z, x, 1, 128, 1, 1, 8);", H, H, H),
    ("Transpose", "Transpose(z, x);", H, H, H),
    (
        "TransDataTo5HD",
        (
            "LocalTensor<E<half>> d[16], s[16]; for (int i = 0; i < 16; ++i) { d[i] = z[16 * i]; s[i] = x[16 * i]; }"
            "TransDataTo5HD<E<half>>(d, s, TransDataTo5HDParams(false, false, 1, 0, 0));"
        ),
        *(H, H, H),
    ),
    ("Brcb", "Brcb(z, x, 1, {1, 8});", F, F, F),
    ("Gather", f"{INDEX} Gather(z, x, o, 0, 64);", F, U32, F),
    ("Gatherb", f"{INDEX} Gatherb(z, x, o, 1, {{1, 8}});", U32, U32, U32),
    (
        "BilinearInterpolation",
        (
            f"{INDEX} TBuf<> more; pipe.InitBuffer(more, 16384); auto v = x, w = x[256]; v.SetSize(256); w.SetSize(16);"
            "BilinearInterpolation(z, v, o, w, 128, 1, false, 1, 128, 1, more.Get<uint8_t>());"
        ),
        *(H, U32, H),
    ),
    ("Sort32", f"{INDEX} Sort32(z, x, o, 2);", F, U32, F),
    (
        "MrgSort",
        (
            f"{INDEX} Sort32(t, x, o, 2); PipeBarrier<PIPE_V>(); const uint16_t lengths[4] = {{32, 32, 0, 0}};"
            "MrgSort(z, MrgSortSrcList<E<float>>(t, t[64], t, t), MrgSort4Info(lengths, false, 3, 1));"
        ),
        *(F, U32, F),
    ),
]


def _calls(traits: bool) -> str:
    """Return a kernel for each call, in a namespace, with plain tensors or with those of a TensorTrait."""
    space = "traits" if traits else "plain"
    parts = [re.sub(r"#include.*|using namespace.*", "", FRAME)]
    for name, body, a, b, c in CALLS:
        types = {"ta": a, "tb": b, "tc": c}
        counts = {f"n{key[1]}": 1024 // SIZES[dtype] for key, dtype in types.items()}
        parts.append(KERNEL.format(name=f"{space}_{name}", body=body, load="In", **types, **counts))
    text = "".join(parts)
    text = re.sub(r"\b((?:Local|Global)Tensor|(?<!more\.)Get)<(?!uint32_t>\s*o\b)(T|[a-z]\w*)>", r"\1<E<\2>>", text)
    return f"namespace {space} {{\ntemplate <typename T> using E = {'TensorTrait<T>' if traits else 'T'};\n{text}}}\n"


def traits_of(text: str) -> str:
    """Return a kernel with tensors of a TensorTrait instead of plain tensors."""
    text = re.sub(r"\b((?:Local|Global)Tensor|Get)<(\w+)>", r"\1<TensorTrait<\2>>", text)
    return re.sub(r"\bFixpipe<(\w+), (\w+)", r"Fixpipe<TensorTrait<\1>, TensorTrait<\2>", text)


# y = a b + bias, with the loads of windows and the parameters before FixpipeParamsV220.
WINDOW = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> a1Buffer;
    TBuf<TPosition::B1> b1Buffer;
    TBuf<TPosition::C1> c1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::C2> c2Buffer;
    TBuf<TPosition::CO1> sumBuffer;
    pipe.InitBuffer(a1Buffer, 512);
    pipe.InitBuffer(b1Buffer, 512);
    pipe.InitBuffer(c1Buffer, 64);
    pipe.InitBuffer(a2Buffer, 512);
    pipe.InitBuffer(b2Buffer, 512);
    pipe.InitBuffer(c2Buffer, 64);
    pipe.InitBuffer(sumBuffer, 1024);
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> biasGm, yGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    biasGm.SetGlobalBuffer((__gm__ float*)bias);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    LocalTensor<half> a1 = a1Buffer.Get<half>(), b1 = b1Buffer.Get<half>();
    LocalTensor<half> a2 = a2Buffer.Get<half>(), b2 = b2Buffer.Get<half>();
    LocalTensor<float> c1 = c1Buffer.Get<float>(), c2 = c2Buffer.Get<float>(), sums = sumBuffer.Get<float>();
    DataCopy(a1, aGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    DataCopy(b1, bGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    DataCopy(c1, biasGm, 16);
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    LoadData3DParamsV2<half> window;
    window.l1H = 1;
    window.l1W = 16;
    window.channelSize = 16;
    window.kExtension = 16;
    window.mExtension = 16;
    LoadData(a2, a1, window);
    LoadDataWithTranspose(b2, b1, LoadData2dTransposeParams(0, 1, 1, 0, 0));
    DataCopy(c2, c1, DataCopyParams(1, 1, 0, 0));
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(sums, a2, b2, c2, MmadParams(16, 16, 16, 0, false, false));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    FixpipeParams<float> store(1, 32, 0, 16);
    store.nz2ndParams = {true, 1, 0, 0, 16};
    Fixpipe(yGm, sums, store);
}
"""
WINDOW_PLANTED = [
    Planted("unordered", "WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);", "", "race", "Mmad"),
    Planted("short_bias", "DataCopy(c1, biasGm, 16);", "DataCopy(c1, biasGm, 8);", "uninitialised_read", "Mmad"),
]
# The planes of a part of an image.
IMAGE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> buffer;
    pipe.InitBuffer(buffer, 2048);
    GlobalTensor<uint8_t> xGm;
    GlobalTensor<int8_t> yGm;
    xGm.SetGlobalBuffer((__gm__ uint8_t*)x);
    yGm.SetGlobalBuffer((__gm__ int8_t*)y);
    LocalTensor<int8_t> l1 = buffer.Get<int8_t>();
    AippParams<int8_t> params;
    params.dtcParams.dtcMeanCh0 = 100;
    SetAippFunctions(xGm, AippInputFormat::RGB888_U8, params);
    LoadImageToLocal(l1, LoadImageToLocalParams(8, 6, 2, 1, 12, 0, 0, 0, 0));
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    DataCopy(yGm, l1, 8 * 6 * 32);
}
"""
# Tensors at an address, and of an allocator: position and layout of a TensorTrait. y[0] is the sum of some elements,
# the others are sizes, addresses and strides. The rows of the last tensor have gaps.
PLACED = """
extern "C" __global__ __aicore__ void placed(GM_ADDR y, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    InitSocState();
    const auto layout = MakeLayout(MakeShape(Std::Int<4>{}, Std::Int<16>{}), MakeStride(Std::Int<16>{}, Std::Int<1>{}));
    using Placed = decltype(MakeTensorTrait<float, TPosition::VECIN>(layout));
    LocalMemAllocator allocator;
    LocalTensor<Placed> first = allocator.Alloc<Placed>(), second(256);
    LocalTensor<Placed> third(512, MakeLayout(MakeShape(8), MakeStride(1)));
    GlobalTensor<TensorTrait<float>> yGm;
    yGm.SetGlobalBuffer((__gm__ float*)y, 8);
    const auto rows = MakeLayout(MakeShape(4, 16), MakeStride(32, 1));
    using Rows = decltype(MakeTensorTrait<float, TPosition::VECIN>(rows));
    LocalTensor<Rows> fourth = allocator.Alloc<Rows>(rows);
    fourth.SetTensorTrait(rows);
    static_assert(is_tensorTrait_v<Rows> && is_layout_v<Placed::LiteLayoutType> && !is_layout_v<Rows>);
    fourth(fourth.GetLayout()(MakeCoord(ROW, 15))) = 4.0f;
    first.SetValue(0, 1.5f);
    second(0) = 2.0f;
    third(LAST) = 3.0f;
    yGm.SetValue(0, first(0) + second.GetValue(0) + third(LAST) + fourth(3 * 32 + 15));
    yGm(1) = static_cast<float>(first.GetSize());
    yGm(2) = static_cast<float>(second.GetLength());
    yGm(3) = static_cast<float>(third.GetSize());
    yGm(4) = static_cast<float>(allocator.GetCurAddr());
    yGm(5) = static_cast<float>(second.GetPosition() == static_cast<int32_t>(TPosition::VECIN));
    yGm(6) = static_cast<float>(fourth.GetSize());
    yGm(7) = static_cast<float>(Std::get<0>(fourth.GetTensorTrait().GetStride()) + Std::get<1>(first.GetShape()));
    DataCacheCleanAndInvalid<TensorTrait<float>, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(yGm);
}
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    clean = {"vector": VECTOR, "cube": CUBE, "placed": PLACED.replace("LAST", "7").replace("ROW", "3")}
    parts = ['#include "kernel_operator.h"\nusing namespace AscendC;\n', _calls(False), _calls(True)]
    parts += [*kernels_of(VECTOR, "vector", PLANTED), *kernels_of(CUBE, "cube", CUBE_PLANTED)]
    parts += [clean["placed"], clean["placed"].replace("placed", "placed_outside").replace("third(7)", "third(8)")]
    parts += [clean["placed"].replace("placed", "row_outside").replace("MakeCoord(3,", "MakeCoord(4,")]
    parts += [traits_of(text) for text in kernels_of(WINDOW, "window", WINDOW_PLANTED)]
    parts += [traits_of(IMAGE.replace("NAME", "image"))]
    parts += [
        IMAGE.replace("NAME", "plain_image"),
        traits_of(test_kernel_sparse._kernel("whole").replace("NAME", "sparse")),
    ]
    return compile_kernels("".join(parts))


def test_a_vector_kernel(kernels):
    x, y = np.arange(-200, 312, dtype=np.int16), np.zeros(512, np.int16)
    kernels.run("vector", x, y)
    assert np.array_equal(y, x + 2)


def test_a_cube_kernel(kernels):
    random = np.random.default_rng(1)
    a, b = random.integers(-4, 5, (16, 32)).astype(np.float16), random.integers(-4, 5, (32, 16)).astype(np.float16)
    y = np.zeros((2, 16, 16), np.float32)
    fractals = [np.ascontiguousarray(part.reshape(16, 2, 16).swapaxes(0, 1)) for part in (a, b.T)]
    kernels.run("cube", *fractals, y, blocks=2, task_type="AIC_ONLY")
    assert np.array_equal(y, [np.full((16, 16), 2 * 3 * 32), a.astype(np.float32) @ b.astype(np.float32)])


def test_windows_and_a_bias(kernels):
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    bias, y = random.integers(-9, 9, 16).astype(np.float32), np.zeros((16, 16), np.float32)
    kernels.run("window", a, b, bias, y, task_type="AIC_ONLY")
    assert np.array_equal(y, a.astype(np.float32) @ b.astype(np.float32) + bias)


def test_a_sparse_factor(kernels):
    a, values, indices, b = test_kernel_sparse._inputs("whole")
    c = np.zeros((16, 32), np.int32)
    kernels.run("sparse", a, values, indices, c, task_type="AIC_ONLY")
    assert np.array_equal(c, a.astype(np.int64) @ b.T)


def test_an_image(kernels):
    x = np.random.default_rng(4).integers(0, 256, (9, 12, 3)).astype(np.uint8)
    y = np.zeros((6, 8, 32), np.int8)
    kernels.run("image", x, y, task_type="AIC_ONLY")
    mean = np.array([100, 0, 0])
    assert np.array_equal(y[:, :, 0], (x[1:7, 2:10].astype(int) - mean)[:, :, 0].clip(-128, 127))
    plain = np.zeros_like(y)
    kernels.run("plain_image", x, plain, task_type="AIC_ONLY")
    assert np.array_equal(y, plain)


def test_tensors_at_addresses(kernels):
    y = np.zeros(8, np.float32)
    kernels.run("placed", y)
    assert y.tolist() == [10.5, 64, 256, 8, 256 + 4 * 32 * 4, 1, 4 * 32, 32 + 16]
    for name in ("placed_outside", "row_outside"):
        (finding,) = kernels.launch(name, y)["findings"]
        assert finding["kind"] == "ub_out_of_range"


@pytest.mark.parametrize("name", [name for name, *_ in CALLS])
def test_a_call_has_the_bits_of_plain_tensors(kernels, name):
    types = next(call[2:] for call in CALLS if call[0] == name)
    random = np.random.default_rng(5)
    arrays = []
    for number, dtype in enumerate(types):
        count = 1024 // SIZES[dtype]
        if dtype in (F, H):
            low = 0.5 if number == 0 else -2.0
            arrays.append(random.uniform(low, 2.0, count).astype({F: np.float32, H: np.float16}[dtype]))
        elif dtype == U32:
            arrays.append(((np.arange(count) ^ 5) * 32 % 1024).astype(np.uint32))
        else:
            arrays.append(random.integers(-100 if dtype[0] == "i" else 0, 100, count).astype(dtype[:-2]))
    plain, traits = ([array.copy() for array in arrays] for _ in range(2))
    kernels.run(f"plain_{name}", *plain)
    kernels.run(f"traits_{name}", *traits)
    assert plain[2].tobytes() == traits[2].tobytes()
    assert plain[2].tobytes() != arrays[2].tobytes()


@pytest.mark.parametrize("planted", PLANTED + CUBE_PLANTED + WINDOW_PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_found(kernels, record_planted, planted):
    types = "i2 i2" if planted in PLANTED else "f2 f2 f4 f4"
    arrays = [np.ones(512, dtype) for dtype in types.split()]
    findings = kernels.launch(planted.name, *arrays)["findings"]
    record_planted(planted.name, planted.assert_in(findings))
