"""Test scalar functions, fixed addresses, messages and tiling macros of kernels: values and planted mistakes."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from planted import Planted, kernels_of

# Expressions of a kernel and their values, from the documents of the functions.
SCALARS = {
    "DivCeil(10, 4)": 3,
    "AlignUp(33, 32)": 64,
    "Ceil(64, 32)": 2,
    "CeilDivision(7, 0)": 0,
    "CeilDivision(7, 2)": 4,
    "GetBitCount<1>(0xFFFF)": 16,
    "GetBitCount<0>(0xFFFF)": 48,
    "ScalarGetCountOfValue<1>(5)": 2,
    "CountLeadingZero(0xFFFF)": 48,
    "CountLeadingZero(0)": 64,
    "ScalarCountLeadingZero(1)": 63,
    "CountBitsCntSameAsSignBit(0)": -1,
    "CountBitsCntSameAsSignBit(-1)": -1,
    "CountBitsCntSameAsSignBit(1)": 62,
    "CountBitsCntSameAsSignBit(0x0100000000000020LL)": 6,
    "GetSFFValue<1>(0xFF00)": 8,
    "GetSFFValue<0>(0x00FF)": 8,
    "GetSFFValue<1>(0)": -1,
    "ScalarGetSFFValue<0>(0xFFFFFFFFFFFFFFFF)": -1,
    "(Cast<float, int32_t, RoundMode::CAST_RINT>(2.5f))": 2,
    "(Cast<float, int32_t, RoundMode::CAST_ROUND>(-2.5f))": -3,
    "(Cast<float, int32_t, RoundMode::CAST_CEIL>(1.2f))": 2,
    "(ScalarCast<float, int32_t, RoundMode::CAST_FLOOR>(-1.2f))": -2,
    "(Cast<float, half, RoundMode::CAST_ODD>(3.14159f)).bits": 0x4249,
    "(Cast<float, half, RoundMode::CAST_ODD>(1e9f)).bits": 0x7BFF,
    "GetBlockIdx() + 2 * GetBlockNum() + 4 * GetSubBlockIdx()": 2,
    "GetSubBlockNum() + 2 * GetTaskRatio() + 4 * GetTaskRation()": 7,
    "GetCtrlSpr<48, 48>()": 1,
    "GetSaturationFlag<SaturationMode::FLOAT>() + 2 * GetSaturationFlag<SaturationMode::CAST>()": 2,
    "GetVecLen()": 256,
    "GetSortLen<float>(32) + GetSortLen<half>(32)": 64 + 128,
    "GetSortOffset<float>(3) + GetSortOffset<half>(3)": 6 + 12,
    "GetUserWorkspace(workspace) - workspace": 16 << 20,
    "GetProgramCounter() > 0": 1,
    "GetICachePreloadStatus()": 0,
    "[] { uint32_t version = 0; GetArchVersion(version); return version; }()": 0x220,
    "GetBufferLogicPos(TPosition::A2, true) == TPosition::A1 && "
    "GetBufferLogicPos(TPosition::A2, false) == TPosition::A2": 1,
    "SupportType<half, float, half>() + 2 * SupportType<half, float>()": 1,
    "(Nop<3>(), PRELOAD(2), MarkStamp<1>(), MetricsProfStart(), MetricsProfStop(), PrintTimeStamp(1), 1)": 1,
    "(DataCachePreload(GlobalTensor<uint64_t>(), int64_t{0}), ICachePreLoad(1), 1)": 1,
    "Std::get<1>(MakeTile(2, 3))": 3,
    "MakeTensorTrait<float, TPosition::GM>(MakeLayout(MakeShape(4, 5), MakeStride(5, 1)))"
    ".GetLayout()(MakeCoord(1, 2))": 7,
    "g_coreType == AIV": 1,
    "g_coreType == AscendC::AIC": 0,
    "(g_coreType == AscendC::AIV_TYPE) + 2 * (g_coreType == AscendC::AIC_TYPE)": 1,
    "ONE_FOURTH_DEFAULT_REPEAT_STRIDE": 2,
    "TOTAL_VEC_LOCAL_SIZE": 188416,
    "RESERVED_WORKSPACE": 16777216,
    "EIGHT * SIXTEEN": 128,
    "(ProcessLock::GetProcessLock()->Write(), ProcessLock::GetProcessLock()->Unlock(), 1)": 1,
    "(InitDump(false, 0), InitDump(true, x, 8), OOMCheckAddrRange(x, 8), SetSyncBaseAddr(0), 1)": 1,
    "static_cast<int>(DataCopyEnhancedParams(BlockMode::BLOCK_MODE_MATRIX, DeqScale::DEQ_NONE, 0, 0, false, "
    "pad_t::PAD_NONE, 3).padValue)": 3,
    "ReduceLastND{1, 2, 3, 4, 5, 6}.dstK": 6,
    "sqrt(16.0f)": 4,
    "Std::max(3, 4L) + Std::min(3, 4L)": 7,
    "Std::abs(-5)": 5,
    "abs(-5)": 5,
    "abs(-2.5f) * 2": 5,
    "(IsSameType<half, half>::value && !IsSameType<half, float>::value)": 1,
    "Std::get<1>(Std::make_tuple(1, 7))": 7,
    "unlikely(GetBlockIdx() > 100)": 0,
    "AscendCUtils::GetC0Count(2)": 16,
    "GetRuntimeUBSize()": 196352,
    "GetUBSizeInBytes()": 196608,
    "GetDataBlockSizeInBytes()": 32,
    "MakeLayout(MakeShape(4, 5, 6), MakeStride(20, 5, 1))(MakeCoord(1, 2, 3))": 33,
    "Crd2Idx(MakeCoord(11, 12), MakeShape(MakeShape(2, 3), MakeShape(3, 4)), "
    "MakeStride(MakeStride(3, 6), MakeStride(1, 24)))": 129,
    "is_layout<decltype(MakeLayout(MakeShape(1), MakeStride(1)))>::value": 1,
    "GetShapeSize(ShapeInfo(2, dims))": 32,
    "t.GetLength()": 256,
    "t[8].ReinterpretCast<half>().GetPhyAddr() - t.ReinterpretCast<half>().GetPhyAddr()": 32,
    "second.GetPhyAddr() + 32": 288,
    "second.GetPhyAddr(3) + second.ReinterpretCast<half>().GetPhyAddr(3)": 268 + 262,
    "std::is_same_v<decltype(t.GetPhyAddr()), uint64_t> && std::is_same_v<decltype(t.GetPhyAddr(1)), uint64_t>": 1,
    "ub.GetCurAddr()": 512,
    "TILING_KEY_LIST(3, 5)": 1,
    "pointer->n[1] + member->a + (*array)[0]": 4,
    "GetSystemCycle() > 0": 1,
}
CLEAN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR list, GM_ADDR values, GM_ADDR workspace, GM_ADDR tiling)
{
    REGISTER_NONE_TILING;
    GET_TILING_DATA_PTR_WITH_STRUCT(Outer, pointer, tiling);
    COPY_TILING_WITH_STRUCT(Inner, &pointer->inner, member);
    COPY_TILING_WITH_ARRAY(int64_t, 2, pointer->n, array);
    InitSocState();
    SetSysWorkspace(workspace);
    SetSysWorkspaceForce(workspace);
    SetSysWorkSpace(workspace);
    [[maybe_unused]] const uint32_t dims[] = {4, 8};
    LocalMemAllocator<Hardware::UB> ub;
    LocalTensor<float> t = ub.Alloc<float, 64>();
    LocalTensor<float> second = ub.Alloc<TPosition::VECCALC, float>(60);
    GlobalTensor<float> xGm;
    xGm.SetGlobalBuffer((__gm__ float*)x, 64);
    DataCopy(t, xGm, 64);
    ORDER(MTE2_V);
    Adds(second, t, 1.0f, 56);
    ORDER(V_S);
    LocalTensor<float> same(TPosition::VECCALC, 256, 60);
    LocalTensor<half> halves;
    halves.SetAddrWithOffset(second, 2);
    TensorDesc<int32_t> desc;
    uint64_t shape[2];
    desc.SetShapeAddr(shape);
    ListTensorDesc tensors((__gm__ void*)list, 48, 2);
    tensors.GetDesc(desc, 1);
    ascendc_assert(same.GetValue(3) == t.GetValue(3) + 1.0f, "got %f", same.GetValue(3));
    ASSERT(halves.GetLength() == 240 && "bytes");
    ascendc_assert(desc.GetDim() == 2 && desc.GetIndex() == 9 && desc.GetShape(1) == 7);
    ascendc_assert(tensors.GetDataPtr<int32_t>(1) == desc.GetDataPtr() && tensors.GetSize() == 2);
    GlobalTensor<int64_t> out;
    out.SetGlobalBuffer((__gm__ int64_t*)values);
    [[maybe_unused]] int64_t index = 0;
    SCALARS
    DataCacheCleanAndInvalid<int64_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(out);
}
"""
PLANTED = [
    Planted("false_condition", "ASSERT(halves.GetLength() == 240", "ASSERT(halves.GetLength() == 7", "assertion",
            "the condition `halves.GetLength() == 7"),
    Planted("false_condition_with_text", "== t.GetValue(3) + 1.0f", "== 0.5f", "assertion",
            "is false, expected true: got 4.0"),
    Planted("trapped", "int64_t index = 0;", "int64_t index = 0; Trap();", "trap", "the kernel called Trap"),
    Planted("wrong_workspace", "SetSysWorkspace(workspace);", "(void)workspace; SetSysWorkspace(x);",
            "workspace_argument", "is not the workspace"),
    Planted("forced_workspace", "SetSysWorkspaceForce(workspace);", "SetSysWorkspaceForce(x);",
            "workspace_argument", "SetSysWorkspaceForce: "),
    Planted("older_workspace", "SetSysWorkSpace(workspace);", "SetSysWorkSpace(x);", "workspace_argument",
            "SetSysWorkSpace: "),
    Planted("dump_too_far", "int64_t index = 0;", "int64_t index = 0; DumpTensor(xGm, 1, 65);", "gm_out_of_range",
            "DumpTensor: "),
    Planted("checkpoint_too_far", "int64_t index = 0;", "int64_t index = 0; DumpAccChkPoint(xGm, 1, 60, 5);",
            "gm_out_of_range", "DumpAccChkPoint: "),
    Planted("text_of_number", "int64_t index = 0;", 'int64_t index = 0; printf("%s", 3);', "print_format",
            "printf: conversion 1 of the format is s, but the argument is an integer"),
    Planted("number_of_float", "int64_t index = 0;", 'int64_t index = 0; PRINTF("%5d%%%8.2lf%d", 1, 2.0f, 3.0f);',
            "print_format", "PRINTF: conversion 3 of the format is d, but the argument is a float"),
    Planted("few_arguments", "int64_t index = 0;", 'int64_t index = 0; printf("%d %p", 1);', "print_format",
            "conversion 2 of the format is p, but the call has 1 arguments"),
    Planted("written_count", "int64_t index = 0;", 'int64_t index = 0; printf("%n", &index);', "print_format",
            "is n, expected one of d i u"),
    *(
        Planted(f"{name}_by_zero", "int64_t index = 0;",
                f"int64_t index = 0; volatile uint32_t zero = 0; out.SetValue(0, {name}(4, zero));",
                "division_by_zero", "")
        for name in ("DivCeil", "AlignUp")
    ),
    Planted("allocator_overflow", "(60);", "(50000);", "ub_budget", "bytes [256, 200256) of the unified buffer"),
    Planted("address_of_17", "same(TPosition::VECCALC, 256", "same(TPosition::VECCALC, 17", "ub_misaligned",
            "address 17 "),
    Planted("past_the_fixed_tensor", "Adds(second, t, 1.0f, 56);", "Adds(second, t, 1.0f, 64);", "ub_out_of_range",
            "of a tensor that has 240 bytes"),
    Planted("cube_tensor", "same(TPosition::VECCALC, 256, 60);", "same(TPosition::A1, 256, 60);", "core_kind", "AIV"),
    Planted("tensor_2_of_2", "tensors.GetDesc(desc, 1);", "tensors.GetDesc(desc, 2);", "field_range", "index is 2"),
    Planted("three_tensors", "list, 48, 2);", "list, 48, 3);", "field_range", "shapeSize is 3, expected 2"),
    Planted("fixed_tensors_race", "ORDER(MTE2_V);", "", "race", "Adds"),
]  # fmt: skip

# Planted lines of the kernel that dumps memories of a cube core.
DUMP_MISTAKES = {
    "dump_past_l0c": (
        "asc_dump_cbuf((__cc__ float*)c.GetPhyAddr(), 1, 40000);",
        "cube_out_of_range",
        "asc_dump_cbuf: ",
    ),
    "dump_past_all": ("asc_dump((__cc__ float*)c.GetPhyAddr(), 1, 4000000);", "cube_out_of_range", "asc_dump: "),
    "dump_of_nothing": (
        "asc_dump((__cc__ float*)(1 << 28), 1, 1);",
        "no_buffer",
        "asc_dump: address 268435456 is in no",
    ),
    "dump_of_ub": ("asc_dump_ubuf((__ubuf__ float*)0, 1, 1);", "core_kind", "asc_dump_ubuf: "),
}


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    steps = "\n".join(f"out.SetValue(index++, static_cast<int64_t>({expression}));" for expression in SCALARS)
    head = """
    #include "kernel_operator.h"
    #include "kernel_tiling/kernel_tiling.h"
    using namespace AscendC;
    struct Inner { int32_t a; int32_t b; };
    struct Outer { Inner inner; int64_t n[2]; };
    #define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)
    extern "C" __global__ __aicore__ void messages(GM_ADDR x)
    {
        GlobalTensor<half> gm;
        gm.SetGlobalBuffer((__gm__ half*)x);
        printf("block %d of %s: %.2f %.1f %u\\n", 1, "two", half(0.5f), 2.5f, true);
        const uint32_t dims[] = {2, 2};
        DumpTensor(gm, 7, 4, ShapeInfo(2, dims));
        DumpTensor(gm, 7, 3, ShapeInfo(2, dims));
        const uint32_t few[] = {1, 1, 2};
        DumpTensor(gm, 7, 4, ShapeInfo(3, few));
        DumpAccChkPoint(gm, 8, 2, 2);
        GlobalTensor<bool> flags;
        flags.SetGlobalBuffer((__gm__ bool*)x);
        DumpTensor(flags, 9, 4);
        LocalTensor<int32_t> t(TPosition::VECCALC, 64, 8);
        for (int32_t i = 0; i < 8; ++i) {
            t.SetValue(i, i - 1);
        }
        t.Print(8);
        PRINTF("%d\\n", t.ToFile("/nonexistent/file"));
        asc_dump_ubuf((__ubuf__ int32_t*)t.GetPhyAddr(), 10, 3);
        asc_dump((__ubuf__ int32_t*)(t.GetPhyAddr() + 4), 13, 3);
        asc_dump((__gm__ half*)x, 14, 2);
    }
    extern "C" __global__ __aicore__ void dumps(GM_ADDR x)
    {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
        GlobalTensor<half> gm;
        gm.SetGlobalBuffer((__gm__ half*)x);
        LocalTensor<half> l1(TPosition::A1, 0, 256), a(TPosition::A2, 0, 256), b(TPosition::B2, 0, 256);
        LocalTensor<float> c(TPosition::CO1, 1024, 256);
        DataCopy(l1, gm, 256);
        ORDER(MTE2_MTE1);
        LoadData(a, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
        LoadData(b, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
        ORDER(MTE1_M);
        Mmad(c, a, b, MmadParams(16, 16, 16, false, 0, false, false, false));
        PipeBarrier<PIPE_ALL>();
        DumpTensor(c, 15, 1);
        asc_dump_cbuf((__cc__ float*)c.GetPhyAddr(), 16, 18);
        asc_dump((__cbuf__ half*)l1.GetPhyAddr(), 17, 2);
        asc_dump((__cbuf__ half*)(l1.GetPhyAddr() + (1 << 18)), 18, 1);
        MISTAKE
    }
    extern "C" __global__ __aicore__ void messages_of_l1(GM_ADDR x)
    {
        KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
        GlobalTensor<half> gm;
        gm.SetGlobalBuffer((__gm__ half*)x);
        LocalTensor<half> t(TPosition::A1, 64, 32);
        DataCopy(t, gm, 32);
        ORDER(MTE2_S);
        asc_dump_l1buf((__cbuf__ half*)t.GetPhyAddr(), 11, 3);
        asc_dump_l1buf((__cbuf__ half*)t.GetPhyAddr(), 12, PLANTED);
    }
    """
    text = "".join(kernels_of(CLEAN, "clean", PLANTED))
    l1 = head[head.index('    extern "C" __global__ __aicore__ void messages_of_l1') :]
    dumps = head[head.index('    extern "C" __global__ __aicore__ void dumps') : head.index(l1)]
    head = head.replace("MISTAKE", "")
    for name, mistake in DUMP_MISTAKES.items():
        head += dumps.replace("dumps", name).replace("MISTAKE", mistake[0])
    head = head.replace("PLANTED", "1") + l1.replace("PLANTED", "400000").replace("of_l1", "past_l1")
    return compile_kernels(head + text.replace("SCALARS", steps, 1).replace("SCALARS", ""))


def arguments():
    # Two tensors: 1 dimension (5), index 4; 2 dimensions (6, 7), index 9; then their addresses.
    descriptors = np.array([48, 1 | 4 << 32, 5, 2 | 9 << 32, 6, 7, 0x1000, 0x2000], np.uint64)
    return np.arange(64, dtype=np.float32), descriptors, np.zeros(len(SCALARS), np.int64)


TILING = struct.pack("<iiqq", 1, 2, 1, 2)


def test_values(kernels):
    x, descriptors, values = arguments()
    kernels.run("clean", x, descriptors, values, tiling=TILING, tiling_key=5)
    assert dict(zip(SCALARS, values.tolist(), strict=True)) == SCALARS


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted(kernels, record_planted, planted):
    findings = kernels.launch(planted.name, *arguments(), tiling=TILING, tiling_key=5)["findings"]
    record_planted(planted.name, planted.assert_in(findings))


def test_messages(kernels, capfd):
    kernels.run("messages", np.array([1, 2, 3, 4.5], np.float16))
    text = capfd.readouterr().out
    assert "block 1 of two: 0.50 2.5 1\n" in text
    assert "dump_size=4\n[[1.000000,2.000000],\n[3.000000,4.500000]]\n" in text
    few = "shape is [1, 1, 2], dumpSize is 4, dumpSize is greater than shapeSize.\n[[[1.000000,2.000000]]]\n"
    many = "shape is [2, 2], dumpSize is 3, data is not enough.\n[[1.000000,2.000000],\n[3.000000,-]]\n"
    assert few in text
    assert many in text
    assert "desc=8" in text
    assert "dump_size=2\n[3.000000, 4.500000]\n" in text
    assert re.search(r"desc=9, addr=0x[0-9a-f]+, data_type=bool, position=GM, dump_size=4\n\[", text)
    assert "data_type=int32, position=UB, dump_size=8\n[[-1,0,1,2,3,4,5,6]]\n-1\n" in text
    assert re.search(r"desc=10, .*dump_size=3\n\[-1, 0, 1\]\n", text)
    assert re.search(r"desc=13, addr=0x44, .*position=UB, dump_size=3\n\[0, 1, 2\]\n", text)
    assert re.search(r"desc=14, .*position=GM, dump_size=2\n\[1.0+, 2.0+\]\n", text)


def test_dumps_of_a_cube_core(kernels, capfd):
    """Addresses of L1 and L0C have the same numbers: asc_dump prints both memories if both have the elements."""
    x = np.diag(np.arange(1, 17, dtype=np.float16))
    kernels.run("dumps", x, task_type="AIC_ONLY")
    text = capfd.readouterr().out
    product = (x.astype(np.float32) @ x).ravel()
    printed = ", ".join(f"{value:f}" for value in product[:18])
    assert re.search(r"desc=15, .*position=L0C, dump_size=1\n\[1.0+\]\n", text)
    assert f"addr=0x400, data_type=float32, position=L0C, dump_size=18\n[{printed}]\n" in text
    assert re.search(r"desc=17, .*position=L1, dump_size=2\n\[1.0+, 0.0+\]\n", text)
    assert re.search(r"desc=17, .*position=L0C, dump_size=2\n", text)
    assert re.findall(r"desc=18, .*position=(\w+)", text) == ["L1"]


@pytest.mark.parametrize("name", DUMP_MISTAKES)
def test_wrong_dumps(kernels, record_planted, name):
    x = np.diag(np.arange(1, 17, dtype=np.float16))
    findings = kernels.launch(name, x, task_type="AIC_ONLY")["findings"]
    _, kind, message = DUMP_MISTAKES[name]
    assert [finding["kind"] for finding in findings] == [kind]
    assert message in findings[0]["message"]
    record_planted(name, findings[0])


def test_messages_of_l1(kernels, capfd, record_planted):
    x = np.arange(32, dtype=np.float16)
    kernels.run("messages_of_l1", x, task_type="AIC_ONLY")
    assert re.search(r"desc=11, .*position=L1, dump_size=3\n\[0.0+, 1.0+, 2.0+\]\n", capfd.readouterr().out)
    findings = kernels.launch("messages_past_l1", x, task_type="AIC_ONLY")["findings"]
    assert findings
    record_planted("asc_dump_l1buf past L1", findings[0])
