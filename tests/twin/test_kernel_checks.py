"""Plant mistakes: each changes one line of a clean kernel, and the right check must report it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from planted import Planted, kernels_of

CLEAN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR absent, GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    GM_ADDR user = GetUserWorkspace(workspace);
    TPipe pipe;
    TQue<TPosition::VECIN, 2> inQueue;
    TQue<TPosition::VECOUT, 1> outQueue;
    TBuf<TPosition::VECCALC> scratch;
    GlobalTensor<float> xGm;
    GlobalTensor<float> yGm;
    GlobalTensor<float> userGm;
    GlobalTensor<float> absentGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * 1024, 1024);
    userGm.SetGlobalBuffer((__gm__ float*)user + GetBlockIdx() * 64);
    absentGm.SetGlobalBuffer((__gm__ float*)absent);
    pipe.InitBuffer(inQueue, 2, 4096);
    pipe.InitBuffer(outQueue, 1, 4096);
    pipe.InitBuffer(scratch, 4096);
    if (TILING_KEY_IS(7)) {
        LocalTensor<float> in = inQueue.AllocTensor<float>();
        DataCopy(in, xGm, 1024);
        inQueue.EnQue(in);
        in = inQueue.DeQue<float>();
        LocalTensor<float> work = scratch.Get<float>();
        LocalTensor<bfloat16_t> narrow = scratch.Get<bfloat16_t>();
        const TEventID id = pipe.AllocEventID<HardEvent::V_S>();
        pipe.ReleaseEventID<HardEvent::V_S>(id);
        Duplicate(work, 0.0f, 1024);
        PipeBarrier<PIPE_V>();
        Add(work, in, work, 64, 16, {1, 1, 1, 8, 8, 8});
        PipeBarrier<PIPE_V>();
        LocalTensor<float> out = outQueue.AllocTensor<float>();
        UnaryRepeatParams repeats;
        Adds(out, work, 1.0f, 64, 16, repeats);
        PipeBarrier<PIPE_V>();
        Cast(narrow, in, RoundMode::CAST_RINT, 1024);
        inQueue.FreeTensor(in);
        outQueue.EnQue(out);
        out = outQueue.DeQue<float>();
        DataCopyExtParams rows(2, 100, 0, 0, 0);
        DataCopyPad(userGm, out, rows);
        PipeBarrier<PIPE_MTE3>();
        SetAtomicAdd<float>();
        DataCopyPad(userGm, out, rows);
        SetAtomicNone();
        DataCopy(yGm, out, 1024);
        outQueue.FreeTensor(out);
        SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);
        WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);
        in = inQueue.AllocTensor<float>();
        DataCopyPadExtParams<float> padding(true, 0, 7, 0.0f);
        DataCopyPad(in, yGm, rows, padding);
        inQueue.EnQue(in);
        in = inQueue.DeQue<float>();
        PipeBarrier<PIPE_V>();
        Adds(work, in, 1.0f, 32);
        inQueue.FreeTensor(in);
    }
    if (GetBlockIdx() >= 0) {
        SyncAll();
    }
}
"""


HERE = "UnaryRepeatParams repeats;"
END = "inQueue.FreeTensor(in);\n    }"
LATER = (
    "pipe.Destroy(); TPipe later; TQue<TPosition::VECIN, 1> fresh; later.InitBuffer(fresh, 1, 4096);"
    " TBuf<TPosition::VECCALC> other; later.InitBuffer(other, 512); "
)
PLANTED = [
    # alignment and extents
    Planted(
        "copy_to_odd_address", "DataCopy(in, xGm, 1024);", "DataCopy(in[1], xGm, 1016);", "ub_misaligned", "byte 4"
    ),
    Planted(
        "copy_length",
        "DataCopy(in, xGm, 1024);",
        "DataCopy(in, xGm, 1001);",
        "field_range",
        "count * sizeof(T) must be a multiple of 32 bytes; got 4004 bytes",
    ),
    Planted(
        "read_behind_input", "DataCopy(in, xGm, 1024);", "DataCopy(in, xGm[8], 1024);", "gm_out_of_range", "[32, 4128)"
    ),
    Planted(
        "read_before_input", "DataCopy(in, xGm, 1024);", "DataCopy(in, xGm[-8], 1024);", "gm_out_of_range", "[-32, "
    ),
    Planted(
        "write_behind_output", "DataCopy(yGm, out, 1024);", "DataCopy(yGm[8], out, 1024);", "gm_out_of_range", "writes"
    ),
    Planted(
        "write_behind_declared",
        "yGm.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * 1024, 1024);",
        "yGm.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * 1024, 1016);",
        "gm_out_of_range",
        "SetGlobalBuffer gave 4064",
    ),
    Planted(
        "last_row_behind_output",
        "DataCopyPad(userGm, out, rows);",
        "DataCopyPad(yGm[1024 - 40], out, rows);",
        "gm_out_of_range",
        "[4036, 4136)",
    ),
    Planted(
        "absent_argument",
        "DataCopy(in, xGm, 1024);",
        "DataCopy(in, absentGm, 1024);",
        "null_argument",
        "absent optional",
    ),
    Planted(
        "tensor_too_short", "DataCopy(in, xGm, 1024);", "DataCopy(in[64], xGm, 1024);", "ub_out_of_range", "[256, 4352)"
    ),
    Planted(
        "negative_slice",
        "Duplicate(work, 0.0f, 1024);",
        "Duplicate(work[-8], 0.0f, 1024);",
        "ub_out_of_range",
        "[-32, ",
    ),
    Planted(
        "vector_odd_address",
        "Duplicate(work, 0.0f, 1024);",
        "Duplicate(work[3], 0.0f, 1000);",
        "ub_misaligned",
        "multiple of 32",
    ),
    *(
        Planted(name, HERE, HERE + more, "ub_misaligned", "round the offset")
        for name, more in {
            "broadcast_of_odd_address": " Brcb(out, work[1], 2, {1, 8});",
            "pairs_to_odd_address": " PairReduceSum(out[1], work, 1, 64, 1, 1, 8);",
            "cast_to_odd_address": " Cast(narrow[8], in, RoundMode::CAST_RINT, 64);",
        }.items()
    ),
    Planted(
        "vector_too_long", "Duplicate(work, 0.0f, 1024);", "Duplicate(work, 0.0f, 1025);", "ub_out_of_range", "4100"
    ),
    Planted(
        "slice_behind_buffer",
        "LocalTensor<float> work = scratch.Get<float>();",
        "LocalTensor<float> work = scratch.Get<float>(1025);",
        "ub_out_of_range",
        "TBuf",
    ),
    Planted(
        "raw_pointer",
        "DataCopy(in, xGm, 1024);",
        "DataCopy(in, xGm[(int64_t)*(__gm__ float*)x * 0], 1024);",
        "raw_gm_access",
        "GetValue",
    ),
    # budgets
    Planted(
        "ub_budget",
        "pipe.InitBuffer(scratch, 4096);",
        "pipe.InitBuffer(scratch, 196352 - 12288 + 32);",
        "ub_budget",
        "196352",
    ),
    Planted(
        "too_many_buffers",
        "pipe.InitBuffer(scratch, 4096);",
        "pipe.InitBuffer(scratch, 4096); for (int i = 0; i < 61; ++i) { pipe.InitBuffer(scratch, 4096 - i * 64); }",
        "buffer_count",
        "65",
    ),
    Planted(
        "too_many_events",
        "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);",
        "for (int i = 0; i < 9; ++i) { pipe.AllocEventID<HardEvent::V_S>(); } SetFlag<HardEvent::MTE3_MTE2>(3);",
        "event_ids",
        "V_S",
    ),
    Planted(
        "two_pipes", "PipeBarrier<PIPE_V>();\n        Add(", "TPipe second;\n        Add(", "two_pipes", "second TPipe"
    ),
    # fields
    Planted(
        "repeat_256", "64, 16, {1, 1, 1, 8, 8, 8}", "64, 256, {1, 1, 1, 8, 8, 8}", "field_range", "repeatTime is 256"
    ),
    Planted(
        "repeat_stride_256",
        "UnaryRepeatParams repeats;",
        "UnaryRepeatParams repeats; repeats.srcRepStride = 256;",
        "field_range",
        "repeat stride of src is 256",
    ),
    Planted(
        "block_count_4096", "rows(2, 100, 0, 0, 0);", "rows(4096, 4, 0, 0, 0);", "field_range", "blockCount is 4096"
    ),
    Planted("block_length", "rows(2, 100, 0, 0, 0);", "rows(1, 2097152, 0, 0, 0);", "field_range", "2097151"),
    Planted(
        "length_of_65536_blocks",
        "DataCopy(in, xGm, 1024);",
        "DataCopy(in, xGm, DataCopyParams(1, 65536, 0, 0));",
        "field_range",
        "blockLen (32-byte blocks) is 65536",
    ),
    Planted(
        "gap_of_65536_blocks",
        "DataCopy(in, xGm, 1024);",
        "DataCopy(in, xGm, DataCopyParams(2, 1, 65536, 0));",
        "field_range",
        "is 65536",
    ),
    Planted(
        "part_of_element",
        "rows(2, 100, 0, 0, 0);",
        "rows(2, 98, 0, 0, 0);",
        "field_range",
        "blockLen must be a multiple of 4 bytes; got 98 bytes",
    ),
    Planted(
        "negative_count", "Duplicate(work, 0.0f, 1024);", "Duplicate(work, 0.0f, -1);", "field_range", "count is -1"
    ),
    Planted(
        "mask_65",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "Adds(out, work, 1.0f, 65, 15, repeats);",
        "mask_range",
        "1..64",
    ),
    Planted(
        "mask_0",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "Adds(out, work, 1.0f, static_cast<uint64_t>(0), 16, repeats);",
        "mask_range",
        "mask is 0",
    ),
    Planted(
        "bit_mask_too_wide",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "uint64_t mask[2] = {1, 1}; Adds(out, work, 1.0f, mask, 16, repeats);",
        "mask_range",
        "beyond the 64",
    ),
    Planted("wide_padding", "padding(true, 0, 7, 0.0f);", "padding(true, 0, 9, 0.0f);", "padding", "rightPadding is 9"),
    Planted(
        "event_id_8",
        "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);",
        "SetFlag<HardEvent::MTE3_MTE2>(8);",
        "field_range",
        "event id is 8",
    ),
    # queues
    Planted("missing_enque", "inQueue.EnQue(in);", "", "missing_enque", "EnQue"),
    Planted(
        "missing_free",
        "inQueue.FreeTensor(in);\n        outQueue",
        "outQueue",
        "queue_unbalanced",
        "missing: FreeTensor",
    ),
    Planted(
        "enque_twice",
        "inQueue.EnQue(in);",
        "inQueue.EnQue(in); inQueue.EnQue(in);",
        "queue_order",
        "AllocTensor, EnQue",
    ),
    Planted(
        "queue_too_deep",
        "LocalTensor<float> out = outQueue.AllocTensor<float>();",
        "LocalTensor<float> out = outQueue.AllocTensor<float>(); outQueue.AllocTensor<float>();",
        "queue_exhausted",
        "all 1 buffers",
    ),
    Planted(
        "enque_over_depth",
        HERE,
        HERE + " TQue<TPosition::VECIN, 1> other; pipe.InitBuffer(other, 2, 256);"
        " LocalTensor<float> one = other.AllocTensor<float>(); LocalTensor<float> two = other.AllocTensor<float>();"
        " DataCopy(one, xGm, 64); DataCopy(two, xGm, 64); other.EnQue(one); other.EnQue(two);",
        "queue_depth",
        "its depth is 1",
    ),
    Planted(
        "buffer_without_pipe",
        "pipe.InitBuffer(scratch, 4096);",
        "pipe.Destroy(); pipe.InitBuffer(scratch, 4096);",
        "no_pipe",
        "no live TPipe",
    ),
    Planted(
        "free_twice",
        "inQueue.FreeTensor(in);\n    }",
        "inQueue.FreeTensor(in); inQueue.FreeTensor(in);\n    }",
        "use_after_free",
        "already freed",
    ),
    Planted(
        "use_after_free",
        "outQueue.EnQue(out);",
        "outQueue.EnQue(out); Adds(work, in, 1.0f, 64);",
        "use_after_free",
        "FreeTensor at",
    ),
    Planted(
        "use_in_queue",
        "outQueue.EnQue(out);",
        "outQueue.EnQue(out); Adds(out, out, 1.0f, 64);",
        "queue_order",
        "DeQue returns",
    ),
    Planted(
        "wrong_queue",
        "inQueue.FreeTensor(in);\n    }",
        "outQueue.FreeTensor(in);\n    }",
        "queue_order",
        "not come from",
    ),
    Planted(
        "store_from_input_queue",
        "DataCopy(yGm, out, 1024);",
        "in = inQueue.AllocTensor<float>(); DataCopy(yGm, in, 1024);",
        "position",
        "MTE2",
    ),
    Planted(
        "load_to_output_queue",
        "UnaryRepeatParams repeats;",
        "UnaryRepeatParams repeats; DataCopy(out, xGm, 64);",
        "position",
        "only pipe V",
    ),
    Planted(
        "compute_before_enque",
        "DataCopy(in, xGm, 1024);",
        "DataCopy(in, xGm, 1024); Adds(in, in, 1.0f, 64);",
        "position",
        "EnQue and DeQue it first",
    ),
    Planted(
        "no_memory",
        "Duplicate(work, 0.0f, 1024);",
        "LocalTensor<float> none; Duplicate(none, 0.0f, 64);",
        "no_buffer",
        "AllocTensor",
    ),
    Planted(
        "uninitialised_queue",
        "inQueue.EnQue(in);",
        "TQue<TPosition::VECIN, 1> other; other.EnQue(in);",
        "no_buffer",
        "InitBuffer",
    ),
    # a TPipe that has ended
    *(
        Planted(name, END, f"inQueue.FreeTensor(in); {more}\n    }}", kind, "TPipe")
        for name, kind, more in [
            ("tensor_of_a_destroyed_pipe", "use_after_free", "pipe.Destroy(); Duplicate(work, 0.0f, 8);"),
            ("slice_of_a_destroyed_pipe", "use_after_free", LATER + "Duplicate(work[8], 0.0f, 8);"),
            (
                "cast_of_a_destroyed_pipe",
                "use_after_free",
                LATER + "Duplicate(work.ReinterpretCast<half>(), half(0.0f), 8);",
            ),
            ("buffer_of_a_destroyed_pipe", "use_after_free", LATER + "Duplicate(scratch.Get<float>(8), 0.0f, 8);"),
            ("freed_after_destroy", "use_after_free", LATER + "fresh.FreeTensor(in);"),
            ("queue_of_a_destroyed_pipe", "no_buffer", LATER + "inQueue.AllocTensor<float>();"),
            (
                "tensor_of_a_reset_pipe",
                "use_after_free",
                "pipe.Reset(); pipe.InitBuffer(scratch, 512); Duplicate(work, 0.0f, 8);",
            ),
        ]
    ),
    Planted("pipe_destroyed_too_early", HERE, HERE + " pipe.Destroy();", "queue_unbalanced", "its TPipe ends at "),
    # contents of memory
    Planted(
        "uninitialised_scratch",
        "Duplicate(work, 0.0f, 1024);",
        "Duplicate(work, 0.0f, 1023);",
        "uninitialised_read",
        "src1",
    ),
    Planted(
        "uninitialised_output",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "Adds(out, work, 1.0f, 63, 16, repeats);",
        "uninitialised_read",
        "src",
    ),
    Planted(
        "undefined_padding",
        "padding(true, 0, 7, 0.0f);",
        "padding(false, 0, 0, 0.0f);",
        "uninitialised_read",
        "padding",
    ),
    Planted(
        "overlap",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "Adds(work[8], work, 1.0f, 64, 15, repeats); Adds(out, work, 1.0f, 64, 16, repeats);",
        "overlap",
        "not in the same place",
    ),
    Planted(
        "in_place_over_half_a_repeat",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "Adds(work, work, 1.0f, 64, 30, {1, 1, 4, 4}); Adds(out, work, 1.0f, 64, 16, repeats);",
        "overlap",
        "that an earlier repeat has written",
    ),
    Planted(
        "in_place_over_every_second_block",
        "Adds(out, work, 1.0f, 64, 16, repeats);",
        "Add(work, work, in, 64, 2, {2, 2, 1, 2, 2, 8}); Adds(out, work, 1.0f, 64, 16, repeats);",
        "overlap",
        "repeat 1 reads",
    ),
    Planted(
        "cast_none", "RoundMode::CAST_RINT, 1024", "RoundMode::CAST_NONE, 1024", "cast_mode", "CAST_RINT, CAST_FLOOR"
    ),
    Planted(
        "compare_of_integers",
        HERE,
        HERE + " CompareScalar(scratch.GetWithOffset<uint8_t>(32, 2048), scratch.Get<int32_t>(), 1, CMPMODE::GT, 64);",
        "compare_mode",
        "CMPMODE::EQ only",
    ),
    Planted(
        "select_of_another_mode",
        HERE,
        HERE + " Select(out, scratch.Get<uint8_t>(), work, 0.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);",
        "select_mode",
        "needs VSEL_TENSOR_SCALAR_MODE",
    ),
    Planted(
        "select_without_compare",
        HERE,
        HERE + " Select<float, SELMODE::VSEL_CMPMASK_SPR>(out, work, work, 1, {1, 1, 1, 8, 8, 8});",
        "select_mode",
        "no Compare has filled",
    ),
    Planted(
        "gather_by_elements",
        HERE,
        HERE + " Duplicate(scratch.Get<int32_t>(), 3, 64); PipeBarrier<PIPE_V>();"
        " Gather(out, in, scratch.Get<uint32_t>(), 0, 64);",
        "gather_offset",
        "offsets are bytes, not elements",
    ),
    Planted(
        "fill_without_room",
        "pipe.InitBuffer(scratch, 4096);",
        "pipe.InitBuffer(scratch, 196352 - 12288); InitOutput<float>(yGm, 64, 0.0f);",
        "no_scratch",
        "free memory at the end",
    ),
    Planted(
        "gather_mask_without_elements",
        HERE,
        HERE + " uint64_t kept = 0; GatherMaskParams once; once.repeatTimes = 1;"
        " GatherMask(out, in, 2, true, 0, once, kept);",
        "field_range",
        "mask is 0, expected 1..4294967295",
    ),
    # in place
    *(
        Planted(
            name,
            HERE,
            HERE + " Duplicate(out, 0.0f, 1024); LocalTensor<uint32_t> bits = out.ReinterpretCast<uint32_t>();"
            " PipeBarrier<PIPE_V>(); uint64_t kept = 0; GatherMaskParams once; once.repeatTimes = 1;"
            " (void)kept; (void)bits; " + more,
            "overlap",
            finding_text,
        )
        for name, more, finding_text in [
            ("gather_in_place", "Gather(work, work, bits, 0, 64);", "[0, 4) from the start of dst on are read as src"),
            ("gather_over_later_source", "Gather(work[64], work, bits, 256, 64, 2, 8);", "read as src"),
            ("gather_over_offsets", "Gather(out, in, bits, 0, 64);", "read as srcOffset"),
            (
                "gatherb_in_place",
                (
                    "LocalTensor<uint32_t> w = work.ReinterpretCast<uint32_t>(); Gatherb(w[32], w, bits, 1,"
                    " {1, 8}); Gatherb(w, w, bits, 1, {1, 8});"
                ),
                "read as src",
            ),
            ("sort32_in_place", "Sort32(work, work, bits, 2);", "read as src0"),
            ("sort32_over_indices", "Sort32(out, work, bits[64], 2);", "read as src1"),
            ("brcb_in_place", "Brcb(work, work, 2, {1, 8});", "read as src"),
            ("gather_mask_in_place", "GatherMask(work, work, 2, false, 0, once, kept);", "read as src0"),
            (
                "gather_mask_over_bits",
                (
                    "Duplicate(out.ReinterpretCast<int32_t>(), -1, 8); PipeBarrier<PIPE_V>();"
                    " GatherMask(out, in, bits, true, 64, once, kept);"
                ),
                "src1Pattern",
            ),
            ("whole_reduce_in_place", "WholeReduceSum(work, work, 64, 16, 1, 1, 8);", "the result of repeat 0"),
            (
                "whole_reduce_into_second_repeat",
                "WholeReduceSum(work[72], work, 64, 2, 1, 1, 8);",
                "the result of repeat 0",
            ),
            ("block_reduce_in_place", "BlockReduceSum(work, work, 16, 64, 1, 1, 8);", "the result of repeat 0"),
            ("pair_reduce_in_place", "PairReduceSum(work, work, 2, 64, 1, 1, 8);", "the result of repeat 0"),
            (
                "compare_in_place",
                "CompareScalar(work.ReinterpretCast<uint8_t>(), work, 1.0f, CMPMODE::LT, 1024);",
                "read as src0",
            ),
            (
                "compare_over_second_tensor",
                "Compare(work[64].ReinterpretCast<uint8_t>(), in, work, CMPMODE::LT, 1024);",
                "read as src1",
            ),
            (
                "select_over_mask",
                ("Select(out, bits.ReinterpretCast<uint8_t>(), work, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 512);"),
                "read as selMask",
            ),
            ("copy_over_itself", "DataCopy(work[8], work, 64);", "block 0 of the copy"),
            ("copy_over_later_rows", "DataCopy(work[40], work, DataCopyParams(3, 1, 4, 1));", "block 0 of the copy"),
            ("scratch_in_source", "ReduceMax(out, work, work[1000 - 8], 1024);", "sharedTmpBuffer and src"),
            (
                "narrowing_cast_in_place",
                "Cast(work.ReinterpretCast<half>(), work, RoundMode::CAST_RINT, 1024);",
                "not in the same place",
            ),
            (
                "widening_cast_in_place",
                "Cast(work, work.ReinterpretCast<half>(), RoundMode::CAST_NONE, 512);",
                "not in the same place",
            ),
        ]
    ),
    Planted(
        "merge_of_an_unsorted_list",
        HERE,
        HERE + " Duplicate(work, 1.0f, 256); PipeBarrier<PIPE_V>();"
        " uint64_t second[2] = {uint64_t(1) << 42, 0}; Duplicate(work, 2.0f, second, 1, 1, 8); PipeBarrier<PIPE_V>();"
        " uint16_t lengths[4] = {16, 16, 0, 0};"
        " MrgSort(out, MrgSortSrcList<float>(work, work[32], work, work), MrgSort4Info(lengths, false, 3, 1));",
        "sort_order",
        "list 2 is not in descending order: entry 4 is 1, the next one 2",
    ),
    Planted("event_id_kept", HERE, HERE + " pipe.AllocEventID<HardEvent::V_S>();", "event_ids", "never released"),
    Planted(
        "event_id_of_nobody", HERE, HERE + " pipe.ReleaseEventID<HardEvent::V_S>(2);", "event_ids", "release each id"
    ),
    Planted(
        "system_workspace",
        "userGm.SetGlobalBuffer((__gm__ float*)user + GetBlockIdx() * 64);",
        "userGm.SetGlobalBuffer((__gm__ float*)workspace + GetBlockIdx() * 64); (void)user;",
        "system_workspace",
        "use GetUserWorkspace",
    ),
    Planted(
        "system_workspace_by_scalar",
        HERE,
        HERE + " GlobalTensor<int64_t> g; g.SetGlobalBuffer((__gm__ int64_t*)"
        "GetSysWorkSpacePtr()); g.GetValue((16 << 20) / 8 - 1);",
        "system_workspace",
        "[16777208, 16777216)",
    ),
    # orders
    Planted(
        "flag_left_set",
        "SyncAll();",
        "SyncAll(); SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID5);",
        "flag_left_set",
        "MTE3_MTE2 id 5",
    ),
    Planted("flag_never_set", "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);", "", "flag_not_set", "MTE3_MTE2 id 3"),
    Planted(
        "flag_set_twice",
        "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);",
        "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3); SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);",
        "flag_set_twice",
        "still set since",
    ),
    Planted(
        "other_flag",
        "WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID3);",
        "WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID2);",
        "flag_not_set",
        "id 2",
    ),
    Planted(
        "idle_block_leaves",
        "if (GetBlockIdx() >= 0) {",
        "if (GetBlockIdx() > 0) {",
        "deadlock",
        "ended without it: block 0",
        3,
    ),
    Planted(
        "one_sync_more",
        "if (GetBlockIdx() >= 0) {",
        "if (GetBlockIdx() == 1) { SyncAll(); } {",
        "deadlock",
        "number 2",
        3,
    ),
    Planted("sync_of_vector_only", "KERNEL_TYPE_MIX_AIV_1_0", "KERNEL_TYPE_AIV_ONLY", "sync_task_type", "MIX_AIV_1_0"),
    Planted("other_kind", "KERNEL_TYPE_MIX_AIV_1_0", "KERNEL_TYPE_MIX_AICORE", "task_type", "expected AIV_ONLY"),
    Planted("cube_kernel", "KERNEL_TYPE_MIX_AIV_1_0", "KERNEL_TYPE_AIC_ONLY", "core_kind", "ASCEND_IS_AIV"),
    Planted("sync_of_too_many", "SyncAll();", "SyncAll();", "sync_block_num", "48 vector cores", 49),
    Planted(
        "atomic_left_on", "SetAtomicNone();\n        DataCopy(yGm", "DataCopy(yGm", "atomic_left_on", "SetAtomicNone"
    ),
    Planted(
        "atomic_of_other_dtype", "SetAtomicAdd<float>();", "SetAtomicAdd<int32_t>();", "atomic_dtype", "another dtype"
    ),
    Planted("counter_mode_left", "SyncAll();", "SyncAll(); SetMaskCount();", "mask_left", "SetMaskNorm"),
    Planted("mask_left", "SyncAll();", "SyncAll(); SetVectorMask<float>(0, 1);", "mask_left", "ResetMask"),
    Planted(
        "scalar_store_in_cache",
        "SyncAll();",
        "SyncAll(); yGm.SetValue(0, 1.0f);",
        "cache_not_flushed",
        "DataCacheCleanAndInvalid",
    ),
    # launch
    Planted("unknown_key", "TILING_KEY_IS(7)", "TILING_KEY_IS(8)", "tiling_key", "key 7, expected one of 8; make"),
    Planted(
        "tiling_too_short",
        "GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);",
        "GET_TILING_DATA_WITH_STRUCT(Bigger, data, tiling);",
        "tiling_data",
        "24 bytes",
    ),
    Planted(
        "workspace_for_tiling",
        "GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);",
        "(void)tiling; GET_TILING_DATA_WITH_STRUCT(Tiling, data, workspace);",
        "tiling_data",
        "workspace comes before",
    ),
]
NO_MISTAKE = {"sync_of_too_many"}  # the launch is wrong


def _source() -> str:
    structs = "struct Tiling { int64_t n = 0; int64_t m = 0; };\nstruct Bigger { int64_t n[3] = {}; };\n"
    return (
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        + structs
        + "".join(kernels_of(CLEAN, "clean", PLANTED))
    )


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(_source())


def _launch(kernels, symbol, blocks, **options):
    x = np.arange(1024, dtype=np.float32)
    y = np.zeros((blocks, 1024), np.float32)
    report = kernels.launch(symbol, x, y, None, blocks=blocks, tiling=struct.pack("qq", 1, 2), tiling_key=7, **options)
    return report, x, y


@pytest.mark.parametrize("strict", [True, False])
def test_the_clean_kernel_is_silent(kernels, strict):
    report, x, y = _launch(kernels, "clean", 3, strict=strict)
    assert report["findings"] == []
    np.testing.assert_array_equal(y, np.tile(x + 1, (3, 1)))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_named(kernels, planted, record_planted):
    report, _, _ = _launch(kernels, planted.name, planted.blocks)
    found = report["findings"]
    assert found, f"{planted.name}: nothing was found"
    record_planted(planted.name, found[0])
    assert found[0]["kind"] == planted.kind, found
    assert planted.message in found[0]["message"], found
    assert found[0]["message"].startswith(f"{planted.name} (tiling key 7): ")
    if planted.kind != "tiling_key":
        file, line = found[0]["where"].rsplit(":", 1)
        assert file.endswith(".cpp")
        assert int(line) > 0


def test_extents_are_checked_without_strict_mode_too(kernels):
    report, _, _ = _launch(kernels, "read_behind_input", 1, strict=False)
    assert [found["kind"] for found in report["findings"]] == ["gm_out_of_range"]


def test_a_mistake_of_all_blocks_is_reported_once(kernels):
    report, _, _ = _launch(kernels, "cast_none", 3)
    assert len(report["findings"]) == 1
    assert report["findings"][0]["block"] == 0
    assert "(and in 2 more blocks)" in report["findings"][0]["message"]


def test_inputs_cannot_be_written(kernels):
    report, _, y = _launch(kernels, "clean", 1, roles=(1, 1, 1))
    assert [found["kind"] for found in report["findings"]] == ["input_written"]
    assert not y.any()
