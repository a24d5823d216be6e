"""Test that calls which the device rejects do not compile for the twin, with a readable message."""

from __future__ import annotations

import pytest
from compile_errors import Lines, errors_once

from opforge.twin.build import include_flags
from opforge.twin.compiler.flags import DEVICE_FIELDS

HEAD = """
#include "kernel_operator.h"
#include "lib/matmul_intf.h"
using namespace AscendC;
struct Message {
    CubeGroupMsgHead head;
    uint8_t bytes[62];
};
inline int64_t CeilDiv(int64_t value, int64_t divisor)
{
    return (value + divisor - 1) / divisor;
}
using Factor = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using Product = Matmul<Factor, Factor, Factor>;
"""
KERNEL = """
extern "C" __global__ __aicore__ void kernel{number}(GM_ADDR x, GM_ADDR y)
{{
    (void)x;
    (void)y;
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    LocalTensor<float> f = buffer.Get<float>();
    LocalTensor<half> h = buffer.Get<half>();
    LocalTensor<bfloat16_t> b = buffer.Get<bfloat16_t>();
    LocalTensor<int32_t> i = buffer.Get<int32_t>();
    LocalTensor<int64_t> l = buffer.Get<int64_t>();
    LocalTensor<int8_t> c = buffer.Get<int8_t>();
    LocalTensor<uint8_t> u = buffer.Get<uint8_t>();
    GlobalTensor<float> g;
    int64_t n = GetBlockNum();
    (void)f; (void)h; (void)b; (void)i; (void)l; (void)c; (void)u; (void)g; (void)n;
    {line}
}}
"""

REFUSED = {
    "float value = *f.GetPhyAddr(); (void)value;": "invalid type argument",
    "TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, Std::make_tuple(0, 64), Std::make_tuple(0, 64, 1));": "each tuple",
    "TSCM<TPosition::GM, 1> q; pipe.InitBuffer(q, Std::make_tuple(0, 64));": "a TSCM has no addresses",
    "TBufPool<TPosition::VECCALC> p; TQue<TPosition::VECIN, 1> q; p.InitBuffer(q, Std::tuple(0, 64));": "no addresses",
    "float* place = f.GetPhyAddr(1); (void)place;": "invalid conversion from",
    "LocalTensor<TensorTrait<float>> t; Add(t, t, f, 64);": "no matching function",
    "LocalTensor<TensorTrait<float>> t; Adds(t, t, 1, 64);": "no matching function",
    "LocalTensor<TensorTrait<float>> t; Duplicate(t, 1.0f, 64);": "no matching function",
    "LocalTensor<TensorTrait<float>> t; DataCopy(t, g, 64);": "no matching function",
    "LocalTensor<TensorTrait<float>> t; t = f;": "no match for",
    "LocalTensor<TensorTrait<float>> t; f = t;": "no match for",
    "LocalTensor<TensorTrait<float>> t; Cast(h, t, RoundMode::CAST_RINT, 64);": "TensorTrait: all tensors of a call",
    "LocalTensor<TensorTrait<float>> t; Compare(u, t, t, CMPMODE::LT, 64);": "TensorTrait: all tensors of a call",
    "LocalTensor<TensorTrait<float>> t; Mmad(t, h, h, MmadParams());": "TensorTrait: all tensors of a call",
    "LocalTensor<TensorTrait<float>> t; Fixpipe(g, t, FixpipeParamsV220());": "TensorTrait: all tensors of a call",
    "LocalTensor<TensorTrait<float>> t; t.SetShapeInfo(ShapeInfo());": "TensorTrait: such tensors have no ShapeInfo",
    "LocalTensor<TensorTrait<float>> t; Gelu(t, t, 64);": "TensorTrait: high-level functions have no such tensors",
    "LocalTensor<float> t = buffer.Get<TensorTrait<float>>(); (void)t;": "conversion from",
    "GlobalTensor<TensorTrait<float>> t = g; (void)t;": "conversion from",
    "SliceInfo s[1]; GlobalTensor<TensorTrait<float>> t; DataCopy(t, buffer.Get<TensorTrait<float>>(), s, s);": (
        "TensorTrait: such tensors have no ShapeInfo"
    ),
    "LocalTensor<TensorTrait<float, TPosition::VECIN>> t; Abs(t, t, 64);": (
        "accept the default position and layout only"
    ),
    "LocalTensor<TensorTrait<float>> t(TPosition::VECIN, 0, 64); (void)t;": "a TensorTrait gives position and size",
    "LocalTensor<float> t(0); (void)t;": "needs a TensorTrait with both",
    "LocalTensor<TensorTrait<float>> t(0); (void)t;": "needs a position of on-chip memory",
    "LocalTensor<TensorTrait<float, TPosition::VECIN>> t(0); (void)t;": "needs a layout of constants",
    "LocalMemAllocator a; a.Alloc<TensorTrait<float>>(64);": "a TensorTrait gives position and size; use Alloc<T>()",
    "struct Plain { uint64_t head; }; CubeResGroupHandle<Plain> handle(x, 0, 2, 1, 0);": (
        "CubeResGroupHandle: the first member of a message is CubeGroupMsgHead head"
    ),
    "CubeResGroupHandle<Message> handle; handle.AllocMessage<PipeMode::MAX>();": (
        "AllocMessage: the modes are SCALAR_MODE and MTE3_MODE"
    ),
    "Product mm; mm.SetSparseIndex(GlobalTensor<uint8_t>());": "SetSparseIndex: the index has uint8_t",
    "AippParams<uint8_t> params; SetAippFunctions(GlobalTensor<uint8_t>(), AippInputFormat::RGB888_U8, params);": (
        "SetAippFunctions: Ascend 910B has images of int8_t and half"
    ),
    "Clamp(f, f, 0.0f, 1.0f, 64);": "Clamp: Ascend 910B does not have it; use ClampMin and ClampMax",
    "LocalTensor<int32_t> sums; DataCopy(h, sums, DataCopyParams(), DataCopyEnhancedParams());": "use Fixpipe",
    "Fixpipe<float, float, CFG_COLUMN_MAJOR>(g, f, FixpipeParamsV220());": "Ascend 910B has CFG_ROW_MAJOR and CFG_NZ",
    "static constexpr SortConfig config{SortType::RADIX_SORT, true}; Sort<float, false, config>(f, f, 64);": (
        "Sort: Ascend 910B does not have SortConfig"
    ),
    "LoadDataWithTranspose(l, l, LoadData2dTransposeParams(0, 1, 1, 0, 0));": (
        "LoadDataWithTranspose: Ascend 910B has int8_t"
    ),
    "GroupBarrier<PipeMode::SCALAR_MODE> barrier(x, 1, 1);": "GroupBarrier: Ascend 910B has MTE3_MODE only",
    "static constexpr TransDataConfig config{DataFormat::ND, DataFormat::NZ};"
    "const auto shape = MakeLayout(MakeShape(1), MakeStride());"
    "TransDataParams<decltype(MakeLayout(MakeShape(1), MakeStride())), "
    "decltype(MakeLayout(MakeShape(1), MakeStride()))> params{shape, shape}; TransData<config>(h, h, params);": (
        "TransData: NCDHW to NDC1HWC0 or to FRACTAL_Z_3D, and back"
    ),
    "LoadData2dTransposeParamsV2 params; params.srcFracGap = 1; LoadDataWithTranspose(h, h, params);": (
        "LoadDataWithTranspose: Ascend 910B does not have LoadData2dTransposeParamsV2; use LoadData2dTransposeParams"
    ),
    "LoadDataWithTranspose(c, c, LoadData2dTransposeParamsV2(0, 1, 1, 0, 0, 0));": "LoadData2dTransposeParamsV2; use",
    "float most; GetReduceRepeatMaxMinSpr<float>(most);": (
        "GetReduceRepeatMaxMinSpr: Ascend 910B does not have it with one operand; use GetReduceRepeatMaxMinSpr("
    ),
    "half most; GetReduceMaxMinCount(most);": "GetReduceMaxMinCount: Ascend 910B does not have it with one operand",
    "Add(b, b, b, 64);": "Add: Ascend 910B has int16_t, half, int32_t, float",
    "Add(l, l, l, 64);": "Add: Ascend 910B has",
    "Div(i, i, i, 64);": "Div: Ascend 910B has half, float",
    "Muls(c, c, static_cast<int8_t>(2), 64);": "Muls: Ascend 910B has",
    "Exp(i, i, 64);": "Exp: Ascend 910B has half, float",
    "Abs(i, i, 64);": "Abs: Ascend 910B has",
    "Not(f, f, 64);": "Not: Ascend 910B has int16_t, uint16_t",
    "Duplicate(l, static_cast<int64_t>(0), 64);": "Duplicate: Ascend 910B has",
    "Duplicate(u, static_cast<uint8_t>(0), 64);": "Duplicate: Ascend 910B has",
    "ReduceSum(i, i, i, 64);": "reductions: Ascend 910B has half and float",
    "ReduceMax(i, i, i, 64);": "reductions: Ascend 910B has half and float",
    "Cast(b, h, RoundMode::CAST_RINT, 64);": "go through float",
    "Cast(h, b, RoundMode::CAST_RINT, 64);": "go through float",
    "Cast(u, f, RoundMode::CAST_RINT, 64);": "go through float",
    "Select(i, u, i, i, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);": "Select: Ascend 910B has half and float",
    "Gather(l, l, i.ReinterpretCast<uint32_t>(), 0, 64);": "Ascend 910B has 2- and 4-byte types",
    "SetAtomicMax<int64_t>();": "SetAtomicMax: Ascend 910B has",
    "LoadData(h, h, LoadData2DParamsV2());": "LoadData: Ascend 910B does not have LoadData2DParamsV2",
    "PipeBarrier<PIPE_S>();": "PipeBarrier<PIPE_S> does not exist",
    "Sort32(i, i, i.ReinterpretCast<uint32_t>(), 1);": "Sort32, MrgSort, Extract: Ascend 910B has half and float",
    "RpSort16(h, h, 1);": "RpSort16",
    "uint32_t v = 0; GetReduceMaxMinCount(v);": "GetReduceMaxMinCount",
    "Mmad(f, h, b, MmadParams());": "Mmad: the twin has (float, half, half)",
    "Mmad(f, c, c, MmadParams());": "Mmad: the twin has (float, half, half)",
    "Mmad(i, h, h, MmadParams());": "Mmad: the twin has (float, half, half)",
    "Mmad(f, h, h, h, MmadParams());": "the bias has the type of dst",
    "LoadData(f, f, LoadData3DParamsV2<half>());": "no matching function",
    "DataCopy(l, GlobalTensor<int64_t>(), Nd2NzParams());": "elements of 1, 2 or 4 bytes",
    "MmadParams p{n, 16, 16, 0, false, true}; (void)p;": "narrowing",
    "Fixpipe<half, half>(GlobalTensor<half>(), h, FixpipeParamsV220());": "Fixpipe: the twin stores float of L0C",
    "Fixpipe<float, float>(f, f, FixpipeParamsV220());": "L1 receives types of 1 and 2 bytes",
    "InitConstValue(l, InitConstValueParams<int64_t>());": "InitConstValue: Ascend 910B has",
    "CrossCoreSetFlag<3, PIPE_FIX>(0);": "the modes are 0, 1 and 2",
    "CrossCoreSetFlag<2, PIPE_ALL>(0);": "name the pipe",
    "Select<float, SELMODE::VSEL_TENSOR_SCALAR_MODE>(f, f, f, 1, {1, 1, 1, 8, 8, 8});": "takes a mask tensor",
    "Sort<int32_t, true>(i, i, i.ReinterpretCast<uint32_t>(), i, 1);": "Ascend 910B has half and float",
    "Mmad(f, h, h, 1);": "Mmad",
    "g.SetGlobalBuffer((float*)x);": "cast",
    "g.SetGlobalBuffer(reinterpret_cast<float*>(x));": "casts away qualifiers",
    "float* raw = (__gm__ float*)x; (void)raw;": "invalid conversion",
    "bfloat16_t s = ToBfloat16(1.0f); s = s + s;": "deleted function",
    "SetCtrlSpr<6, 8>(1);": "SetCtrlSpr: Ascend 910B has bit 48 only",
    "n = GetCtrlSpr<6, 8>();": "GetCtrlSpr: Ascend 910B has bit 48 only",
    "TQueSync<PIPE_V, PIPE_M> s;": "TQueSync: no flag exists",
    "l = l + l;": "Add: Ascend 910B has",
    "Adds(f, f, 1, 64);": "no matching function",
    "Add(f, f, f, 64, 1, {1, 1, 1, 8, 8, n});": "narrowing",
    "Add(f, f, f, 64, 1, {1, 1, 1, 8, 8, 256});": "narrowing",
    "DataCopyExtParams rows{1, n * 4, 0, 0, 0};": "narrowing",
    "uint32_t rows = 1; DataCopyExtParams p{rows, 4, 0, 0, 0};": "narrowing",
    "int rows = 1; DataCopyExtParams p{static_cast<uint16_t>(rows), rows, 0, 0, 0};": "narrowing",
    "uint16_t pitch = 8; Adds(f, f, 1.0f, 64, 1, {1, 1, 8, pitch});": "narrowing",
    "uint16_t pitch = 8; Adds(f, f, 1.0f, 64, 1, UnaryRepeatParams{1, 1, pitch, 8});": "narrowing",
    "uint16_t step = 1; Add(f, f, f, 64, 1, {step, 1, 1, 8, 8, 8});": "narrowing",
    "uint32_t gap = 1; DataCopy(f, g, {1, 8, gap, 0});": "narrowing",
    "uint32_t size = 8; Copy(f, f, 64, 1, {1, 1, 8, size});": "narrowing",
    "int32_t step = 1; Brcb(f, f, 1, {step, 8});": "narrowing",
    "uint16_t step = 1; Gatherb(i.ReinterpretCast<uint32_t>(), i.ReinterpretCast<uint32_t>(),"
    " i.ReinterpretCast<uint32_t>(), 1, {1, step});": "narrowing",
    "uint16_t step = 1; uint64_t kept; GatherMask(f, f, 1, false, 0, {step, 1, 8, 8}, kept);": "narrowing",
    "uint16_t right = 1; DataCopyPadExtParams<float> p{true, 0, right, 0.0f};": "narrowing",
    "int right = 1; DataCopyPadParams p{true, 0, static_cast<uint8_t>(right), right};": "narrowing",
    "Adds(f, f, 1.0f, 64, 1, {1, 1, 8});": "no matching function",
    "if (ASCEND_IS_AIV) { n = 0; }": "ASCEND_IS_AIV",
    "GET_TILING_DATA(data, y);": "OpforgeDefaultTiling",
}
PARAMETERS = (
    "uint8_t pads[4] = {}; LoadData(h, h, {pads, 4, 4, 32, 128, 16, 0, 0, 1, 1, 2, 2, 1, 1, false, false, half(0)});"
    "LoadData(h, h, LoadData3DParamsV2<half>(pads, 1, 1, 16, 16, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, half(0), 0, 0, 0));"
    "LoadData(h, h, LoadData3DParamsV2Pro(16, false, false, false, false, false, 0, 0)); SetLoadDataRepeat({1, 2, 0});"
    "LoadData(f, g, {0, 1, 1, 0, 0, false, 0}); InitConstValue(h, {1, half(0)});"
    "static constexpr FixpipeConfig rows(CO2Layout::ROW_MAJOR, false, false), fractals{CO2Layout::NZ, false};"
    "Fixpipe<float, float, rows>(g, f, {16, 16, 16, 16, false}); Fixpipe<float, float, fractals>(g, f, {});"
    "Adds(f, f, 1.0f, 64, 1, {1, 1, 8, 8, false}); SetPadValue<int64_t>(0); And(i, i, i, 128); i = i | i;"
    "asc_prof_start(); asc_prof_stop(); asc_time_stamp(70000); asc_mark_stamp(1); asc_mark_stamp<PIPE_V, 2>();"
)
ACCEPTED = [
    "",
    "if ASCEND_IS_AIV { n = 0; }",
    "n = CeilDiv(n, int64_t{70000}) + CeilDiv(static_cast<uint32_t>(n), 4);",
    "if ASCEND_IS_AIC { n = 0; } else { n = 1; }",
    "TQue<TPosition::A1, 1> queue; pipe.InitBuffer(queue, 2, 1024);",
    "DataCopy(f, g, Nd2NzParams(1, n, 16, 0, 16, 16, 1, 0)); LoadData(f, f, {0, 1, 1, 0, 0, false, 0});",
    "MmadParams p{16, 16, 16, 0, false, true}; Mmad(f, h, h, p); p.m = n; Mmad(f, b, b, f, p);",
    "FixpipeParamsV220 p; p.mSize = n; p.quantPre = QuantMode_t::F322F16; Fixpipe(GlobalTensor<half>(), f, p);",
    "FixpipeParamsV220 p(16, 16, 16, 16, false); Fixpipe<float, float, CFG_ROW_MAJOR>(g, f, p);",
    "InitConstValue(h, {1, 16, 0, half(0)}); SetHF32Mode(true); SetHF32TransMode(false);",
    "const uint8_t stride = 8; Add(f, f, f, 64, 1, {1, 1, 1, 8, 8, stride});",
    "uint8_t stride = 8; Add(f, f, f, 64, static_cast<uint8_t>(n), {1, 1, 1, 8, 8, stride});",
    "Adds<float, false>(f, f, 1.0f, 64, 1, {1, 1, 8, 8});",
    "uint16_t step = 1; Adds(f, f, 1.0f, 64, 1, {step, step, 8, 8}); Copy(f, f, 64, 1, {step, step, step, step});",
    "uint64_t kept = 0; uint16_t r = 1; GatherMask(f, f, 1, false, 0, {1, r, r, 0}, kept); Brcb(f, f, 1, {r, r});",
    "DataCopyExtParams p(n, n, n, n, 0); p.blockLen = n; DataCopyPadParams q{true, 0, 1, 7}; (void)p; (void)q;",
    "DataCopyExtParams rows{static_cast<uint16_t>(n), static_cast<uint32_t>(n * 4), 0, 0, 0}; (void)rows;",
    "DataCopyPadExtParams<bfloat16_t> padding{true, 0, 3, 0}; (void)padding;",
    "bfloat16_t s = 1.5f; s = 0.5; Duplicate<bfloat16_t>(b, 0.0, 64); float t = ToFloat(2.0f) + Cast(s); (void)t;",
    "uint8_t pads[4] = {}; SetFmatrix(1, 16, pads, FmatrixMode::FMATRIX_LEFT); SetLoadDataRepeat({0, 1, 0});",
    "SetLoadDataPaddingValue(0); SetLoadDataBoundary(0); SetSaturationFlag<SaturationMode::CAST>(true);",
    "static constexpr IsResetLoad3dConfig set{false, false}; LoadData<half, set>(h, h, LoadData3DParamsV2<half>());",
    PARAMETERS,
    "DataCopyPadExtParams<half> padding{false, 0, 0, 0}; (void)padding;",
    "event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S)); SetFlag<HardEvent::V_S>(id);",
    "const int32_t id = static_cast<int32_t>(pipe.AllocEventID<HardEvent::V_S>()); WaitFlag<HardEvent::V_S>(id);",
    "DataCopy(f, g, {1, 8, 0, 0}); DataCopy(g, f, DataCopyParams()); pipe_barrier(PIPE_V);",
    "float s = ToFloat(b.GetValue(0)); b.SetValue(0, ToBfloat16(s)); f(1) = f(0) + s;",
    "half s = h.GetValue(0); s += s; s = s * half(2) + static_cast<half>(1.0f); h.SetValue(0, s);",
    "uint64_t mask[2] = {1, 0}; Cast(f, h, RoundMode::CAST_NONE, mask, 1, {1, 1, 8, 4});",
    "TQue<TPosition::VECIN, 1> queue; pipe.InitBuffer(queue, 2, 1024); LocalTensor<float> t; queue.AllocTensor(t);",
]


FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wcast-qual", *DEVICE_FIELDS, *include_flags())
CODE = Lines(FLAGS, HEAD, KERNEL)


@pytest.fixture(scope="module")
def errors(once):
    """Return the errors of each refused line."""
    return errors_once(once, "refused_lines", CODE, list(REFUSED))


@pytest.mark.parametrize("line", REFUSED)
def test_refused(errors, line):
    assert REFUSED[line] in errors[line] or REFUSED[line] in CODE.messages([line])


def test_accepted():
    assert CODE.messages(ACCEPTED) == ""


@pytest.mark.parametrize("line", ["n = 0", "Add(b, b, b, 64);"])
def test_errors_of_a_refused_line_are_found_beside_accepted_lines(line):
    errors = CODE.errors([*ACCEPTED, line])
    assert errors.pop(line)
    assert not any(errors.values())
