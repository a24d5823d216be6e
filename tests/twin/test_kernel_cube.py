"""Plant mistakes on cube cores and between them and vector cores: each changes one line of a clean kernel."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Planted, kernels_of

M, N, K = 20, 24, 40
# d += bias + 2 A B, e = 2 A B with unit flags, c = half of d; ORDER sets a flag and waits for it immediately.
CUBE = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR d, GM_ADDR e, GM_ADDR,
                                           GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TQue<TPosition::A1, 1> a1Queue;
    TBuf<TPosition::B1> b1Buffer;
    TBuf<TPosition::C1> c1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::C2> c2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(a1Queue, 1, 3072);
    pipe.InitBuffer(b1Buffer, 3072);
    pipe.InitBuffer(c1Buffer, 128);
    pipe.InitBuffer(a2Buffer, 3072);
    pipe.InitBuffer(b2Buffer, 3072);
    pipe.InitBuffer(c2Buffer, 128);
    pipe.InitBuffer(co1Buffer, 8192);
    const int64_t block = GetBlockIdx();
    GlobalTensor<half> aGm, bGm, cGm;
    GlobalTensor<float> biasGm, dGm, eGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    biasGm.SetGlobalBuffer((__gm__ float*)bias);
    cGm.SetGlobalBuffer((__gm__ half*)c + block * 480);
    dGm.SetGlobalBuffer((__gm__ float*)d);
    eGm.SetGlobalBuffer((__gm__ float*)e + block * 480);
    LocalTensor<half> b1 = b1Buffer.Get<half>();
    LocalTensor<float> c1 = c1Buffer.Get<float>();
    LocalTensor<half> a2 = a2Buffer.Get<half>();
    LocalTensor<half> b2 = b2Buffer.Get<half>();
    LocalTensor<float> c2 = c2Buffer.Get<float>();
    LocalTensor<float> co1 = co1Buffer.Get<float>();
    LocalTensor<float> other = co1[1024];
    // L1: A as 32 rows of 48 columns, B as 48 rows of 32 columns, its last 8 rows 0.
    LocalTensor<half> a1 = a1Queue.AllocTensor<half>();
    DataCopy(a1, aGm, Nd2NzParams(1, 20, 40, 0, 40, 32, 1, 0));
    a1Queue.EnQue(a1);
    InitConstValue(b1, InitConstValueParams<half>(2, 48, 0, half(0)));
    PipeBarrier<PIPE_MTE2>();
    DataCopy(b1, bGm, Nd2NzParams(1, 40, 24, 0, 24, 48, 1, 0));
    DataCopy(c1, biasGm, 24);
    ORDER(MTE2_MTE1);
    a1 = a1Queue.DeQue<half>();
    // L0
    for (int32_t i = 0; i < 2; ++i) {
        LoadData(a2[i * 768], a1[i * 256], LoadData2DParams(0, 3, 2, 0, 0, false, 0));
    }
    a1Queue.FreeTensor(a1);
    for (int32_t j = 0; j < 3; ++j) {
        LoadData(b2[j * 512], b1[j * 256], LoadData2DParams(0, 2, 3, 0, 0, true, 0));
    }
    DataCopy(c2, c1, DataCopyParams(1, 2, 0, 0));
    ORDER(MTE1_M);
    // L0C: with flags
    Mmad(co1, a2, b2, c2, MmadParams(20, 24, 48, 0, false, false));
    PipeBarrier<PIPE_M>();
    Mmad(co1, a2, b2, MmadParams(20, 24, 48, 0, false, false));
    ORDER(M_FIX);
    FixpipeParamsV220 store(24, 20, 32, 24, false);
    store.quantPre = F322F16;
    Fixpipe<half, float, CFG_ROW_MAJOR>(cGm, co1, store);
    store.quantPre = NoQuant;
    SetAtomicAdd<float>();
    Fixpipe<float, float, CFG_ROW_MAJOR>(dGm, co1, store);
    SetAtomicNone();
    ORDER(FIX_M);
    MmadImpl(co1, a2, b2, MmadParams(20, 24, 40, 0, false, true));
    // and with unit flags
    Mmad(other, a2, b2, MmadParams(20, 24, 40, 2, false, true));
    PipeBarrier<PIPE_M>(); // other
    Mmad(other, a2, b2, MmadParams(20, 24, 40, 3, false, false));
    store.unitFlag = 3;
    Fixpipe<float, float, CFG_ROW_MAJOR>(eGm, other, store);
    ORDER(M_MTE1);
    LoadData3DParamsV2<half> window;
    window.l1H = 1;
    window.l1W = 48;
    window.channelSize = 32;
    window.mExtension = 40;
    window.kExtension = 32;
    LoadData(b2, b1, window);
    uint8_t padding[4] = {0, 0, 0, 0};
    SetFmatrix(6, 8, padding, FmatrixMode::FMATRIX_LEFT);
    window.l1H = 0;
    PipeBarrier<PIPE_MTE1>();
    LoadData<half, IMAGE_OF_SET>(b2, b1, window);
    Load3DSetFMatrixCal(48, 1, padding);
    SetLoadDataPaddingValue(half(0));
    SetLoadDataBoundary(0);
    SetLoadDataRepeat({0, 1, 0});
    PipeBarrier<PIPE_MTE1>();
    LoadData<half, IMAGE_OF_SET>(b2, b1, window);
    ORDER(MTE1_MTE2);
    DataCopy(b1, bGm, 960);
    SetHF32Mode(true);
    SetHF32Mode(false);
}
"""
# The cube cores compute x = A B in global memory, the two vector cores of each double it, then all wait, and block 0
# computes the sum.
MIX = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> xGm, yGm, zGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    const int64_t group = GetBlockIdx() / GetTaskRation();
    xGm.SetGlobalBuffer((__gm__ float*)x + group * 256);
    yGm.SetGlobalBuffer((__gm__ float*)y + group * 256);
    zGm.SetGlobalBuffer((__gm__ float*)z);
    if ASCEND_IS_AIC {
        TBuf<TPosition::A1> l1Buffer;
        TBuf<TPosition::A2> a2Buffer;
        TBuf<TPosition::B2> b2Buffer;
        TBuf<TPosition::CO1> co1Buffer;
        pipe.InitBuffer(l1Buffer, 1024);
        pipe.InitBuffer(a2Buffer, 512);
        pipe.InitBuffer(b2Buffer, 512);
        pipe.InitBuffer(co1Buffer, 1024);
        LocalTensor<half> l1 = l1Buffer.Get<half>();
        DataCopy(l1, aGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
        DataCopy(l1[256], bGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
        ORDER(MTE2_MTE1);
        LoadData(a2Buffer.Get<half>(), l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
        LoadData(b2Buffer.Get<half>(), l1[256], LoadData2DParams(0, 1, 1, 0, 0, true, 0));
        ORDER(MTE1_M);
        MmadParams product(16, 16, 16, 0, false, true);
        Mmad(co1Buffer.Get<float>(), a2Buffer.Get<half>(), b2Buffer.Get<half>(), product);
        ORDER(M_FIX);
        Fixpipe<float, float>(xGm, co1Buffer.Get<float>(), FixpipeParamsV220(16, 16, 16, 16, false));
        CrossCoreSetFlag<2, PIPE_FIX>(0);
        CrossCoreWaitFlag(1);
        CrossCoreSetFlag<0, PIPE_FIX>(2);
        CrossCoreWaitFlag(2);
        SyncAll<false>();
    }
    if ASCEND_IS_AIV {
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 8192);
        LocalTensor<float> rows = buffer.Get<float>();
        const int64_t half = GetSubBlockIdx() * 128;
        CrossCoreWaitFlag(0);
        DataCopy(rows, xGm[half], 128);
        ORDER(MTE2_V);
        Muls(rows, rows, 2.0f, 128);
        ORDER(V_MTE3);
        DataCopy(yGm[half], rows, 128);
        CrossCoreSetFlag<2, PIPE_MTE3>(1);
        CrossCoreSetFlag<1, PIPE_MTE3>(3);
        CrossCoreWaitFlag(3);
        ORDER(MTE3_MTE2);
        DataCopy(rows[1024], yGm, 256);
        SyncAll();
        SyncAll<false>();
        if (GetBlockIdx() == 0) {
            DataCopy(rows, yGm, 256 * GetBlockNum());
            ORDER(MTE2_V); // sum
            for (int64_t i = 1; i < GetBlockNum(); ++i) {
                Add(rows, rows, rows[256 * i], 256);
                PipeBarrier<PIPE_V>();
            }
            ORDER(V_MTE3); // sum
            DataCopy(zGm, rows, 256);
        }
    }
}
"""


FEWEST_BLOCKS = 2


def left_out(name: str, line: str, message: str, kind: str = "race") -> Planted:
    """Return a planted mistake without this statement."""
    return Planted(name, line, "", kind, message)


A_NZ, B_NZ = "Nd2NzParams(1, 20, 40, 0, 40, 32, 1, 0)", "Nd2NzParams(1, 40, 24, 0, 24, 48, 1, 0)"
A_LOAD, B_LOAD = "LoadData2DParams(0, 3, 2, 0, 0, false, 0)", "LoadData2DParams(0, 2, 3, 0, 0, true, 0)"
FIRST = "Mmad(co1, a2, b2, c2, MmadParams(20, 24, 48, 0, false, false));"
SECOND = "Mmad(co1, a2, b2, MmadParams(20, 24, 48, 0, false, false));"
LAST = "Mmad(other, a2, b2, MmadParams(20, 24, 40, 3, false, false));"
STORE = "FixpipeParamsV220 store(24, 20, 32, 24, false);"
WINDOW = "window.kExtension = 32;"
CUBE_PLANTED = [
    # memories
    Planted(
        "l0a_budget",
        "pipe.InitBuffer(a2Buffer, 3072);",
        "pipe.InitBuffer(a2Buffer, 65568);",
        "cube_budget",
        "expected at most the 65536 bytes of the L0A",
    ),
    Planted(
        "l1_budget",
        "pipe.InitBuffer(b1Buffer, 3072);",
        "pipe.InitBuffer(b1Buffer, 524288);",
        "cube_budget",
        "expected at most the 524032 bytes of the L1",
    ),
    Planted(
        "bias_budget",
        "pipe.InitBuffer(c2Buffer, 128);",
        "pipe.InitBuffer(c2Buffer, 1056);",
        "cube_budget",
        "expected at most the 1024 bytes of the bias table",
    ),
    Planted(
        "l0c_budget",
        "pipe.InitBuffer(co1Buffer, 8192);",
        "pipe.InitBuffer(co1Buffer, 131104);",
        "cube_budget",
        "expected at most the 131072 bytes of the L0C",
    ),
    Planted(
        "unified_buffer",
        "pipe.InitBuffer(c1Buffer, 128);",
        "pipe.InitBuffer(c1Buffer, 128); TBuf<TPosition::VECCALC> ub; pipe.InitBuffer(ub, 128);",
        "core_kind",
        "AIC cores do not have; use `if ASCEND_IS_AIV`",
    ),
    Planted("columns_too_far", A_NZ, "Nd2NzParams(1, 20, 40, 0, 40, 48, 1, 0)", "cube_out_of_range", "dst writes"),
    Planted("l1_address", "DataCopy(b1, bGm, 960);", "DataCopy(b1[8], bGm, 960);", "cube_misaligned", "multiple of 32"),
    Planted("l0a_address", "LoadData(a2[i * 768],", "LoadData(a2[i * 528],", "cube_misaligned", "multiple of 512"),
    Planted(
        "l0c_address",
        "LocalTensor<float> other = co1[1024];",
        "LocalTensor<float> other = co1[784];",
        "cube_misaligned",
        "multiple of 1024",
    ),
    Planted(
        "bias_length",
        "DataCopy(c2, c1, DataCopyParams(1, 2, 0, 0));",
        "DataCopy(c2, c1, 24);",
        "cube_misaligned",
        "multiples of 64 bytes, got 96",
    ),
    Planted(
        "product_to_l0a",
        SECOND,
        SECOND.replace("co1", "a2.ReinterpretCast<float>()"),
        "position",
        "expected TPosition::CO1",
    ),
    Planted("factor_from_l1", FIRST, FIRST.replace("b2", "b1"), "position", "expected TPosition::B2"),
    Planted(
        "load_to_l0c",
        f"LoadData(a2[i * 768], a1[i * 256], {A_LOAD});",
        f"LoadData(co1.ReinterpretCast<half>(), a1[i * 256], {A_LOAD});",
        "position",
        "expected L0A",
    ),
    Planted("copy_to_l0a", "DataCopy(b1, bGm, 960);", "DataCopy(a2, bGm, 960);", "position", "use LoadData"),
    Planted("copy_out_of_l0a", "DataCopy(b1, bGm, 960);", "DataCopy(cGm, a2, 480);", "position", "MTE3 does not read"),
    Planted("scalar_in_l1", "DataCopy(b1, bGm, 960);", "b1.SetValue(0, half(1));", "position", "pipe S does not write"),
    Planted("vector_instruction", "DataCopy(b1, bGm, 960);", "Adds(b1, b1, half(1), 16);", "core_kind", "no pipe V"),
    Planted(
        "padded_copy",
        "DataCopy(b1, bGm, 960);",
        "DataCopyPad(b1, bGm, DataCopyExtParams(1, 64, 0, 0, 0), DataCopyPadExtParams<half>());",
        "core_kind",
        "ASCEND_IS_AIV",
    ),
    Planted(
        "flag_of_others",
        "ORDER(MTE1_MTE2);",
        "ORDER(MTE1_MTE2); SetFlag<HardEvent::V_MTE2>(0);",
        "core_kind",
        "no pipe V",
    ),
    Planted(
        "barrier_of_others", "ORDER(MTE1_MTE2);", "ORDER(MTE1_MTE2); PipeBarrier<PIPE_V>();", "core_kind", "no pipe V"
    ),
    Planted("tile_too_far", FIRST, FIRST.replace("co1", "co1[4096]"), "cube_out_of_range", "of a tensor that has 8192"),
    Planted("no_memory", FIRST, FIRST.replace("co1", "LocalTensor<float>()"), "no_buffer", "dst is a LocalTensor"),
    # fields
    Planted("row_pitch", A_NZ, "Nd2NzParams(1, 20, 40, 0, 65576, 32, 1, 0)", "field_range", "srcDValue is 65576"),
    Planted("rows_of_nz", A_NZ, "Nd2NzParams(1, 16385, 40, 0, 40, 32, 1, 0)", "field_range", "nValue is 16385"),
    Planted("no_rows", A_NZ, "Nd2NzParams(1, 0, 40, 0, 40, 32, 1, 0)", "uninitialised_read", "fm reads"),
    Planted("repeats_wrap", A_LOAD, "LoadData2DParams(0, 259, 2, 0, 0, false, 0)", "field_range", "repeatTimes is 259"),
    Planted(
        "float_transposed",
        f"LoadData(b2[j * 512], b1[j * 256], {B_LOAD});",
        f"LoadData(b2[j * 512].ReinterpretCast<float>(), b1[j * 256].ReinterpretCast<float>(), {B_LOAD});",
        "field_range",
        "2-byte types only",
    ),
    Planted("too_many_rows", SECOND, SECOND.replace("20, 24", "4096, 24"), "field_range", "m is 4096"),
    Planted("tile_pitch", STORE, STORE.replace("32, 24", "16, 24"), "field_range", "rows of the tile in L0C"),
    Planted("no_row_pitch", STORE, STORE.replace("32, 24", "32, 0"), "field_range", "dstStride is 0"),
    Planted("half_without_mode", "store.quantPre = F322F16;", "", "quant_mode", "QuantMode_t::F322F16"),
    Planted("mode_left", "store.quantPre = NoQuant;", "", "quant_mode", "QuantMode_t::NoQuant"),
    Planted("window_start", WINDOW, WINDOW + " window.kStartPt = 8;", "window", "expected multiples of 16"),
    Planted("window_rows", "window.l1W = 48;", "window.l1W = 32;", "window", "of a matrix of 32 rows"),
    Planted(
        "small_other_image",
        "Load3DSetFMatrixCal(48, 1,",
        "Load3DSetFMatrixCal(32, 1,",
        "window",
        "of a matrix of 32 rows",
    ),
    Planted("other_boundary", "SetLoadDataBoundary(0);", "SetLoadDataBoundary(1024);", "field_range", "DataBoundary: "),
    Planted("two_loads", "SetLoadDataRepeat({0, 1, 0});", "SetLoadDataRepeat({0, 2, 0});", "window", "whole fractals"),
    Planted(
        "product_too_wide",
        "MmadImpl(co1, a2, b2, MmadParams(20, 24,",
        "MmadImpl(co1, a2, b2, MmadParams(20, 4096,",
        "field_range",
        "n is 4096",
    ),
    Planted("small_image", "SetFmatrix(6, 8,", "SetFmatrix(4, 8,", "window", "of a matrix of 32 rows"),
    Planted("large_filter", WINDOW, WINDOW + " window.filterW = 2;", "window", "a matrix of 0 rows"),
    Planted(
        "bias_table_too_short",
        SECOND,
        SECOND.replace("24, 48, 0, false, false", "32, 48, 0, true, false"),
        "uninitialised_read",
        "bias",
    ),
    Planted("bias_and_zero", FIRST, FIRST.replace("false, false", "false, true"), "field_range", "cmatrixInitVal"),
    Planted(
        "fractals_of_odd_width",
        "Fixpipe<float, float, CFG_ROW_MAJOR>(dGm, co1, store);",
        "Fixpipe<float, float, CFG_NZ>(dGm, co1, store);",
        "field_range",
        "nSize must be a multiple of 16 columns; got ",
    ),
    # contents
    left_out(
        "no_fill",
        "InitConstValue(b1, InitConstValueParams<half>(2, 48, 0, half(0)));",
        "filter reads",
        "uninitialised_read",
    ),
    Planted("rows_rounded_up", STORE, STORE.replace("24, 20", "24, 32"), "uninitialised_read", "src reads"),
    Planted("bias_missing", "DataCopy(c1, biasGm, 24);", "", "uninitialised_read", "bias reads"),
    Planted("sums_not_started", FIRST, "", "uninitialised_read", "dst reads"),
    Planted("store_rounded_up", STORE, STORE.replace("24, 20", "32, 20"), "uninitialised_read", "src reads"),
    # orders
    left_out("l1_not_filled", "ORDER(MTE2_MTE1);", "put SetFlag<HardEvent::MTE2_MTE1>"),
    left_out("l0_not_filled", "ORDER(MTE1_M);", "put SetFlag<HardEvent::MTE1_M>"),
    left_out("sums_not_finished", "ORDER(M_FIX);", "put SetFlag<HardEvent::M_FIX>"),
    left_out("sums_not_stored", "ORDER(FIX_M);", "put SetFlag<HardEvent::FIX_M>"),
    left_out("l0_still_read", "ORDER(M_MTE1);", "put SetFlag<HardEvent::M_MTE1>"),
    left_out("l1_still_read", "ORDER(MTE1_MTE2);", "put SetFlag<HardEvent::MTE1_MTE2>"),
    left_out("sums_of_small_tile", "PipeBarrier<PIPE_M>();", "put PipeBarrier<PIPE_M>()"),
    left_out("fill_not_finished", "PipeBarrier<PIPE_MTE2>();", "put PipeBarrier<PIPE_MTE2>()"),
    Planted(
        "filled_by_all",
        "cGm.SetGlobalBuffer((__gm__ half*)c + block * 480);",
        "cGm.SetGlobalBuffer((__gm__ half*)c);",
        "race",
        "of block",
    ),
    Planted(
        "kept_while_loaded",
        "ORDER(MTE1_MTE2);",
        "ORDER(M_FIX); FixpipeParamsV220 keep(16, 20, 32, 48, false, F322F16, 0, 1, 0, 0, 0);"
        " Fixpipe<half, float>(b1, co1, keep); ORDER(MTE1_MTE2);",
        "race",
        "put SetFlag<HardEvent::MTE1_FIX>",
    ),
    # queues
    left_out("no_enque", "a1Queue.EnQue(a1);", "", "missing_enque"),
    left_out("not_freed", "a1Queue.FreeTensor(a1);", "MTE2 -> MTE1", "queue_unbalanced"),
    Planted(
        "used_after_free",
        "ORDER(MTE1_MTE2);",
        f"LoadData(a2, a1, {A_LOAD}); ORDER(MTE1_MTE2);",
        "use_after_free",
        "src",
    ),
    # global memory
    Planted("row_behind_input", A_NZ, "Nd2NzParams(1, 21, 40, 0, 40, 32, 1, 0)", "gm_out_of_range", "src reads"),
    Planted("row_behind_output", STORE, STORE.replace("32, 24", "32, 2000"), "gm_out_of_range", "dst writes"),
    left_out("atomic_still_on", "SetAtomicNone();", "", "atomic_left_on"),
    Planted("atomic_of_half", "SetAtomicAdd<float>();", "SetAtomicAdd<half>();", "atomic_dtype", "another dtype"),
    # states
    left_out("hf32_still_on", "SetHF32Mode(false);", "SetHF32TransMode(false)", "hf32_left"),
    Planted("never_last", LAST, LAST.replace("40, 3", "40, 2"), "unit_flag", "both are 3"),
    Planted("flag_on_product_only", "store.unitFlag = 3;", "", "unit_flag", "that of the last Mmad of the tile 3"),
    Planted(
        "flag_on_store_only", LAST, LAST.replace("40, 3", "40, 0"), "unit_flag", "use 2 for the next products and 3"
    ),
    Planted("product_behind_last", LAST, LAST + " " + LAST, "unit_flag", "no Fixpipe with unitFlag 3 has stored it"),
    Planted(
        "flagged_part", "store.unitFlag = 3;", "store.unitFlag = 3; store.nSize = 16;", "unit_flag", "both must agree"
    ),
    Planted("flag_of_one", LAST, LAST.replace("40, 3", "40, 1"), "unit_flag", "expected 0, 2 or 3"),
    Planted(
        "never_stored",
        "Fixpipe<float, float, CFG_ROW_MAJOR>(eGm, other, store);",
        "",
        "unit_flag",
        "was not stored by a Fixpipe",
    ),
]
SET, WAIT = "CrossCoreSetFlag<2, PIPE_FIX>(0);", "CrossCoreWaitFlag(0);"
BACK = "CrossCoreSetFlag<2, PIPE_MTE3>(1);"
MIX_PLANTED = [
    Planted(
        "l1_of_aiv",
        "pipe.InitBuffer(buffer, 8192);",
        "pipe.InitBuffer(buffer, 8192); TBuf<TPosition::A1> l1; pipe.InitBuffer(l1, 32);",
        "core_kind",
        "AIV cores do not have; use `if ASCEND_IS_AIC`",
    ),
    Planted("both_sides", "if ASCEND_IS_AIC {", "if (GetBlockNum() > 0) {", "core_kind", "use `if ASCEND_IS_AIC`"),
    Planted("vector_not_told", WAIT, "", "race", "no SyncAll or flag between cores"),
    Planted("told_too_early", SET, "CrossCoreSetFlag<2, PIPE_MTE1>(0);", "race", "of AIC block"),
    left_out("never_told", SET, "CrossCoreSetFlag with this flagId is missing on the other side", "deadlock"),
    Planted(
        "one_vector_core_answers",
        BACK,
        "if (GetSubBlockIdx() == 0) { " + BACK + " }",
        "deadlock",
        "by 1 of 2 blocks on AIV cores",
    ),
    left_out("answer_not_waited_for", "CrossCoreWaitFlag(1);", "not waited for by AIC block", "flag_left_set"),
    left_out("cubes_wait_for_all", "CrossCoreSetFlag<0, PIPE_FIX>(2);", "flag 2 is not set", "deadlock"),
    left_out("partner_not_awaited", "CrossCoreWaitFlag(3);", "of AIV block"),
    Planted(
        "flag_of_sync_all", "CrossCoreWaitFlag(1);", "CrossCoreWaitFlag(11);", "field_range", "SyncAll uses 11..14"
    ),
    Planted("pipe_of_others", SET, "CrossCoreSetFlag<2, PIPE_V>(0);", "core_kind", "AIC cores have no pipe V"),
    Planted(
        "mode_one_on_cube",
        "CrossCoreSetFlag<0, PIPE_FIX>(2);",
        "CrossCoreSetFlag<1, PIPE_FIX>(2);",
        "core_kind",
        "for AIV cores",
    ),
    Planted(
        "cube_in_vector_barrier",
        "CrossCoreWaitFlag(2);",
        "CrossCoreWaitFlag(2); SyncAll();",
        "sync_task_type",
        "SyncAll<false>",
    ),
    left_out("no_barrier", "SyncAll<false>();", "SyncAll number 1", "deadlock"),
    Planted("too_many_groups", "SyncAll<false>();", "SyncAll<false>();", "sync_block_num", "24 cube cores", 25),
    Planted("no_scheduler", "KERNEL_TYPE_MIX_AIC_1_2", "KERNEL_TYPE_AIC_ONLY", "sync_task_type", "MIX_AIC_1_2"),
    Planted(
        "set_again_and_again",
        SET,
        f"for (int32_t i = 0; i < 17; ++i) {{ {SET} }}",
        "flag_overflow",
        "counter overflows",
    ),
    Planted(
        "two_types",
        "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);",
        "if ASCEND_IS_AIV { if (GetSubBlockIdx() == 1) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); } }"
        " KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);",
        "task_type",
        "has declared MIX_AIC_1_2",
    ),
]


# c = A I. The rows of A are loaded in blocks of 16, from the last block to the first, with and without transposition.
DOWN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> l1Buffer;
    TBuf<TPosition::A2> a2Buffer;
    TBuf<TPosition::B2> b2Buffer;
    TBuf<TPosition::CO1> co1Buffer;
    pipe.InitBuffer(l1Buffer, 4096);
    pipe.InitBuffer(a2Buffer, 2048);
    pipe.InitBuffer(b2Buffer, 512);
    pipe.InitBuffer(co1Buffer, 4096);
    GlobalTensor<half> aGm, bGm;
    GlobalTensor<float> cGm;
    aGm.SetGlobalBuffer((__gm__ half*)a);
    bGm.SetGlobalBuffer((__gm__ half*)b);
    cGm.SetGlobalBuffer((__gm__ float*)c);
    LocalTensor<half> l1 = l1Buffer.Get<half>(), a2 = a2Buffer.Get<half>(), b2 = b2Buffer.Get<half>();
    LocalTensor<float> sums = co1Buffer.Get<float>();
    DataCopy(l1, aGm, Nd2NzParams(1, 64, 16, 0, 16, 64, 1, 0));
    DataCopy(l1[1024], bGm, Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0));
    ORDER(MTE2_MTE1);
    LOAD;
    LoadData(b2, l1[1024], LoadData2DParams(0, 1, 1, 0, 0, true, 0));
    ORDER(MTE1_M);
    Mmad(sums, a2, b2, MmadParams(64, 16, 16, 0, false, true));
    ORDER(M_FIX);
    FixpipeParamsV220 store(16, 64, 64, 16, false);
    store.ndNum = 1;
    Fixpipe<float, float, CFG_ROW_MAJOR>(cGm, sums, store);
}
"""
DOWN_LOADS = {
    "down": "LoadData(a2, l1, LoadData2DParams(3, 4, 1, 0, 0, false, 1))",
    "down_turned": "LoadDataWithTranspose(a2, l1, LoadData2dTransposeParams(3, 4, 1, 0, 0, 1))",
}


ONE_MATRIX = "Nd2NzParams(1, 64, 16, 0, 16, 64, 1, 0)"
MATRICES = {
    "adjacent": "Nd2NzParams(4, 16, 16, 256, 16, 16, 1, 256)",
    "interleaved": "Nd2NzParams(4, 16, 16, 16, 64, 16, 1, 256)",
}


def _saturated(on: str) -> str:
    """Return the text of `down` with results of half."""
    text = DOWN.replace("GlobalTensor<float>", "GlobalTensor<half>").replace("(__gm__ float*)", "(__gm__ half*)")
    text = text.replace("LOAD;", f"{DOWN_LOADS['down']}; SetSaturationFlag<SaturationMode::FLOAT>({on});")
    text = text.replace("store.ndNum = 1;", "store.ndNum = 1; store.quantPre = QuantMode_t::F322F16;")
    return text.replace("Fixpipe<float,", "Fixpipe<half,").replace("NAME", f"saturated_{on}")


def _source() -> str:
    kernels = [*kernels_of(CUBE, "clean_cube", CUBE_PLANTED), *kernels_of(MIX, "clean_mix", MIX_PLANTED)]
    kernels += kernels_of(CUBE.replace("ORDER(M_MTE1);", "ORDER(FIX_MTE1);"), "order_of_unit_flag", [])
    kernels += [DOWN.replace("NAME", name).replace("LOAD;", f"{load};") for name, load in DOWN_LOADS.items()]
    kernels += [_saturated("true"), _saturated("false")]
    kernels += [
        DOWN.replace("NAME", name).replace("LOAD;", f"{DOWN_LOADS['down']};").replace(ONE_MATRIX, copy)
        for name, copy in MATRICES.items()
    ]
    image = "static constexpr IsResetLoad3dConfig IMAGE_OF_SET{false, false};\n"
    order = "#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID5); WaitFlag<HardEvent::event>(EVENT_ID5)\n"
    return '#include "kernel_operator.h"\nusing namespace AscendC;\n' + image + order + "".join(kernels)


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(_source())


def _launch_cube(kernels, symbol, blocks, **options):
    random = np.random.default_rng(1)
    a = random.integers(-4, 5, (M, K)).astype(np.float16)
    b = random.integers(-4, 5, (K, N)).astype(np.float16)
    bias = random.integers(-4, 5, N).astype(np.float32)
    c, d, e = np.zeros((blocks, M, N), np.float16), np.zeros((M, N), np.float32), np.zeros((blocks, M, N), np.float32)
    report = kernels.launch(symbol, a, b, bias, c, d, e, blocks=blocks, task_type="AIC_ONLY", **options)
    product = 2 * a.astype(np.float32) @ b.astype(np.float32)
    return report, (c, d, e), (product + bias, blocks * (product + bias), product)


def _launch_mix(kernels, symbol, blocks, **options):
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    x, y = np.zeros((blocks, 16, 16), np.float32), np.zeros((blocks, 16, 16), np.float32)
    z = np.zeros((16, 16), np.float32)
    report = kernels.launch(symbol, a, b, x, y, z, blocks=blocks, task_type="AIV_ONLY", **options)
    return report, z, blocks * 2 * a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize("strict", [True, False])
def test_the_clean_cube_kernel_is_silent(kernels, strict):
    report, results, expected = _launch_cube(kernels, "clean_cube", 2, strict=strict)
    assert report["findings"] == []
    for result, expected_array in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, np.broadcast_to(expected_array, result.shape))


def test_a_store_with_a_unit_flag_is_after_its_product(kernels):
    """Fixpipe with the flag ends after Mmad: MTE1 may wait for Fixpipe, and load the factors again."""
    report, _, _ = _launch_cube(kernels, "order_of_unit_flag", 1)
    assert report["findings"] == []


@pytest.mark.parametrize("name", DOWN_LOADS)
def test_loads_with_descending_addresses(kernels, name):
    a = np.random.default_rng(3).integers(-4, 5, (4, 16, 16)).astype(np.float16)
    c = np.zeros((4, 16, 16), np.float32)
    kernels.run(name, a, np.eye(16, dtype=np.float16), c, None, task_type="AIC_ONLY")
    blocks = a[::-1]
    np.testing.assert_array_equal(c, blocks if name == "down" else blocks.transpose(0, 2, 1))


@pytest.mark.parametrize("name", MATRICES)
def test_copies_of_several_matrices(kernels, name):
    """The estimate moves each row to L2 once, and no bytes outside of the argument."""
    matrices = np.random.default_rng(4).integers(-4, 5, (4, 16, 16)).astype(np.float16)
    a = matrices if name == "adjacent" else np.ascontiguousarray(matrices.transpose(1, 0, 2))
    c = np.zeros((4, 16, 16), np.float32)
    report = kernels.run(name, a, np.eye(16, dtype=np.float16), c, None, task_type="AIC_ONLY")
    np.testing.assert_array_equal(c, matrices[::-1])
    one = kernels.run("down", matrices, np.eye(16, dtype=np.float16), np.zeros_like(c), None, task_type="AIC_ONLY")
    assert report["gm_bytes_read"] == one["gm_bytes_read"]
    times = [part["pipes"]["MTE2"]["critical_us"] for part in (report, one)]
    assert times[0] == times[1] if name == "adjacent" else times[0] > times[1]


@pytest.mark.parametrize("on", ["true", "false"])
def test_saturation_of_stored_sums(kernels, on):
    a = np.zeros((64, 16), np.float16)
    a[:48, 0] = np.repeat([300, -np.inf, np.nan], 16)
    c = np.zeros((64, 16), np.float16)
    factor = 300 * np.eye(16, dtype=np.float16)
    kernels.run(f"saturated_{on}", a, factor, c, None, task_type="AIC_ONLY")
    values = [0, 0, -65504, 65504] if on == "true" else [0, np.nan, -np.inf, np.inf]
    np.testing.assert_array_equal(c[:, 0], np.repeat(np.array(values, np.float16), 16))


@pytest.mark.parametrize("strict", [True, False])
def test_the_clean_mixed_kernel_is_silent(kernels, strict):
    report, result, expected = _launch_mix(kernels, "clean_mix", 3, strict=strict)
    assert report["findings"] == []
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("planted", CUBE_PLANTED + MIX_PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_named(kernels, planted, record_planted):
    launch = _launch_cube if planted in CUBE_PLANTED else _launch_mix
    report = launch(kernels, planted.name, max(planted.blocks, FEWEST_BLOCKS))[0]
    found = [finding for finding in report["findings"] if not finding["warning"]]
    assert found, f"{planted.name}: nothing was found"
    # Each core reports a deadlock with a separate message.
    named = [finding for finding in found if finding["kind"] == planted.kind and planted.message in finding["message"]]
    assert named, found
    record_planted(planted.name, named[0])
