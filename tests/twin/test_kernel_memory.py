"""Plant mistakes about the contents of memory: global memory, caches, atomic mode, barriers, bases."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from planted import Planted, kernels_of

CLEAN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR sync, GM_ADDR workspace, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    GlobalTensor<float> xGm, yGm, zGm, userGm;
    GlobalTensor<int32_t> syncGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    zGm.SetGlobalBuffer((__gm__ float*)z);
    syncGm.SetGlobalBuffer((__gm__ int32_t*)sync);
    userGm.SetGlobalBuffer((__gm__ float*)GetUserWorkspace(workspace));
    TPipe pipe;
    TBuf<TPosition::VECCALC> scratch, counts;
    pipe.InitBuffer(scratch, 4096);
    pipe.InitBuffer(counts, 48 * 32);
    LocalTensor<float> a = scratch.Get<float>();
    const int64_t block = GetBlockIdx();
    const int64_t next = (block + 1) % GetBlockNum();
    const DataCopyExtParams row(1, 256, 0, 0, 0);
    const DataCopyPadExtParams<float> noPadding;
    DataCopyPad(a, xGm, row, noPadding);
    ORDER(MTE2_MTE3);
    DataCopyPad(userGm[block * 64], a, row); // start
    PipeBarrier<PIPE_MTE3>();
    SetAtomicAdd<float>();
    DataCopyPad(userGm[block * 64], a, row); // add
    SetAtomicNone();
    ORDER(MTE3_MTE2);
    DataCopyPad(a[64], userGm[block * 64], row, noPadding); // back
    ORDER(MTE2_V);
    Adds(a[128], a[64], 1.0f, 64);
    ORDER(V_MTE3);
    DataCopyPad(yGm[block * 64], a[128], row);
    ORDER(MTE3_S);
    CLEAN_LINE(yGm[block * 64]);
    float value = yGm.GetValue(block * 64);
    SyncAll(syncGm, counts.Get<int32_t>());
    CLEAN_LINE(yGm[next * 64]); // of the next
    value += yGm.GetValue(next * 64);
    zGm.SetValue(block * 16, value);
    CLEAN_LINE(zGm[block * 16]);
    zGm.SetValue(block * 16 + 15, value);
    ORDER(S_MTE2);
    DataCopyPad(a[960], zGm[block * 16], DataCopyExtParams(1, 4, 0, 0, 0), noPadding); // not what the cache holds
    CLEAN_LINE(zGm[block * 16 + 15]);
    CrossCoreSetFlag<0, PIPE_MTE3>(3);
    CrossCoreWaitFlag(3);
}
"""


BACK = "DataCopyPad(a[64], userGm[block * 64], row, noPadding);"
OWN = "CLEAN_LINE(yGm[block * 64]);"
STORE = "DataCopyPad(yGm[block * 64], a[128], row);"
SOFT = "SyncAll(syncGm, counts.Get<int32_t>());"
LAST = "CrossCoreWaitFlag(3);"
ADDS = "Adds(a[128], a[64], 1.0f, 64);"
PLANTED = [
    # contents of global memory
    Planted("add_to_what_nobody_cleared", "DataCopyPad(userGm[block * 64], a, row); // start", "", "uninitialised_read",
            "adds to bytes [16777216, 16777472) of 'workspace'"),
    Planted("use_of_unwritten_workspace", BACK, "DataCopyPad(a[64], userGm[1024 + block * 64], row, noPadding);",
            "uninitialised_read", " copied it from bytes that no instruction has written, of 'workspace'"),
    Planted("use_of_one_unwritten_element", BACK, "DataCopyPad(a[64], userGm[block * 64 + 1], row, noPadding);",
            "uninitialised_read", "byte 252"),
    Planted("result_with_a_tail", ADDS, ADDS.replace("64);", "60);"), "uninitialised_read", "is undefined: "),
    Planted("padding_in_use", BACK, "DataCopyPad(a[64], userGm[block * 64], DataCopyExtParams(1, 252, 0, 0, 0),"
            " noPadding);", "uninitialised_read", "left it undefined after a row, up to a multiple of 32 bytes"),
    Planted("load_from_unwritten_workspace", "float value = yGm", "float value = userGm.GetValue(2000) + yGm",
            "uninitialised_read", "reads bytes [16785216, 16785220) of 'workspace'"),
    Planted("load_from_unwritten_output", BACK, "float old = yGm.GetValue(block * 64); ORDER(S_MTE3);" + BACK +
            " a.SetValue(900, old);", "uninitialised_read", "reads bytes [0, 4) of '1'"),
    Planted("add_to_unwritten_output", STORE, "SetAtomicAdd<float>(); " + STORE + " SetAtomicNone();",
            "uninitialised_read", "InitOutput"),
    # cache of the scalar unit
    Planted("load_what_dma_stored", OWN, "", "stale_cache", "wrote on pipe MTE3: the scalar unit may still have"),
    Planted("line_dropped_too_early", STORE + "\n    ORDER(MTE3_S);\n    " + OWN, OWN + STORE + " ORDER(MTE3_S);",
            "stale_cache", "DataCacheCleanAndInvalid after that write"),
    Planted("line_flushed_from_its_middle", "CLEAN_LINE(zGm[block * 16]);", "CLEAN_LINE(zGm[block * 16 + 8]);",
            "cache_not_flushed", "has left some"),
    Planted("line_flushed_behind_the_store", "zGm.SetValue(block * 16 + 15, value);",
            "zGm.SetValue(block * 16 + 14, value);", "cache_not_flushed", "at or before its first changed element"),
    Planted("another_line_dropped", OWN, "CLEAN_LINE(yGm[block * 64 + 16]);", "stale_cache", "bytes [0, 4) of '1'"),
    Planted("load_what_another_core_stored", "CLEAN_LINE(yGm[next * 64]); // of the next", "", "stale_cache",
            "of block ", 2),
    *(
        Planted(name, LAST, f"{LAST} ORDER(MTE3_S); zGm.SetValue(block * 16 + 3, 1.0f); ORDER({order}); {access}"
                " CLEAN_LINE(zGm[block * 16]);", "cache_not_flushed", finding_text)
        for name, order, access, finding_text in [
            ("dma_reads_a_dirty_line", "S_MTE2", ("DataCopyPad(a[992], zGm[block * 16], DataCopyExtParams(1, 16,"
             " 0, 0, 0), noPadding);"), "has left some in the scalar unit's cache"),
            ("dma_writes_to_a_dirty_line", "S_MTE3", ("DataCopyPad(zGm[block * 16 + 8], a, DataCopyExtParams(1, 4,"
             " 0, 0, 0));"), "written back over them"),
        ]
    ),
    Planted("cores_share_a_line", "zGm.SetValue(block * 16, value);", "zGm.SetValue(block, value); CLEAN_LINE(zGm);",
            "shared_cache_line", "a cache line of 64 bytes", 2),
    # atomic mode
    Planted("second_tensor_in_atomic_mode", "SetAtomicNone();",
            "DataCopyPad(zGm[block * 16], a, DataCopyExtParams(1, 64, 0, 0, 0)); ORDER(MTE3_S); SetAtomicNone();",
            "atomic_second_tensor", "which was used for 'workspace'"),
    # instructions without effect
    Planted("repeat_0", ADDS, ADDS + " Adds(a[192], a[64], 1.0f, 64, static_cast<uint8_t>(block), {1, 1, 8, 8});",
            "no_effect", "repeat count is 0"),
    Planted("reduce_repeat_0", ADDS, ADDS + " WholeReduceSum(a[192], a[64], 64, static_cast<int32_t>(block), 1, 1, 8);",
            "no_effect", "repeat count is 0"),
    *(
        Planted(f"{name}_repeat_0", ADDS, ADDS + f" {more};", "no_effect", "repeat count is 0")
        for name, more in {
            "select": "Select(a[192], counts.Get<uint8_t>(), a[64], 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64, block,"
                      " {1, 1, 1, 8, 8, 8})",
            "sum": "ReduceSum(a[192], a[64], a[256], 64, static_cast<int32_t>(block), 8)",
            "merge": "uint16_t lengths[4] = {8, 8, 0, 0}; MrgSort(a[192], MrgSortSrcList<float>(a, a[32], a, a),"
                     " MrgSort4Info(lengths, false, 3, block))",
        }.items()
    ),
    Planted("no_rows", ADDS, ADDS + " DataCopyPad(a[192], xGm, DataCopyExtParams(block, 256, 0, 0, 0), noPadding);",
            "no_effect", "blockCount is 0"),
    Planted("rows_of_nothing", ADDS, ADDS + " DataCopyPad(yGm, a, DataCopyExtParams(1, block, 0, 0, 0));",
            "no_effect", "blockLen is 0"),
    # barriers
    Planted("soft_sync_skipped", LAST, LAST + " if (block != 1) { " + SOFT + " }", "deadlock", "ended without it", 3),
    Planted("soft_sync_once_more", LAST, LAST + " if (block == 1) { " + SOFT + " }", "deadlock", "SyncAll number 2", 3),
    Planted("soft_sync_of_a_few", SOFT, "SyncAll(syncGm, counts.Get<int32_t>(), 2);", "field_range",
            "usedCores is 2", 3),
    Planted("soft_sync_without_room", SOFT, "SyncAll(syncGm, counts.Get<int32_t>(8));", "ub_out_of_range",
            "[0, 96)", 3),
    Planted("soft_sync_not_cleared", SOFT, "syncGm.SetValue(block * 8, 1);" + SOFT, "sync_workspace", "not zero"),
    Planted("hard_sync_once_more", LAST, LAST + " if (block == 0) { SyncAll(); }", "deadlock",
            "SyncAll number 2", 2),
    Planted("flag_between_cores_left", LAST, "", "flag_left_set", "flag 3 between cores"),
    Planted("flag_between_cores_waited_twice", LAST, LAST + LAST, "deadlock", "flag 3 is not set", 3),
    Planted("flag_of_sync_all", "CrossCoreSetFlag<0, PIPE_MTE3>(3);", "CrossCoreSetFlag<0, PIPE_MTE3>(11);",
            "field_range", "flagId (SyncAll uses 11..14) is 11"),
]  # fmt: skip
WARNINGS = {"no_effect", "atomic_second_tensor"}


def _source() -> str:
    parts = [
        '#include "kernel_operator.h"\nusing namespace AscendC;\n',
        "#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)\n",
        "#define CLEAN_LINE DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>\n",
        *kernels_of(CLEAN, "clean", PLANTED),
    ]
    for planted in PLANTED:
        assert CLEAN.count(planted.line) == 1 or planted.line in {BACK, OWN, SOFT, ADDS}, planted.name
    return "".join(parts)


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(_source())


def _launch(kernels, symbol, blocks, **options):
    x = np.arange(64, dtype=np.float32)
    y = np.zeros((blocks, 64), np.float32)
    z = np.zeros((blocks, 16), np.float32)
    sync = np.zeros(blocks * 8, np.int32)
    report = kernels.launch(symbol, x, y, z, sync, roles=(1, 2, 3, 3), blocks=blocks, **options)
    return report["findings"], x, y, z


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("misalignment", [0, 64, 448])
def test_the_clean_kernel_is_silent(kernels, strict, blocks, misalignment):
    findings, x, y, z = _launch(kernels, "clean", blocks, strict=strict, misalignment=misalignment)
    assert findings == []
    np.testing.assert_array_equal(y, np.tile(2 * x + 1, (blocks, 1)))
    np.testing.assert_array_equal(z[:, [0, 15]], 2.0)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_named(kernels, planted, record_planted):
    found, *_ = _launch(kernels, planted.name, planted.blocks)
    assert found, f"{planted.name}: nothing was found"
    record_planted(planted.name, found[0])
    assert found[0]["kind"] == planted.kind, found
    assert planted.message in found[0]["message"], found
    assert found[0]["warning"] == (planted.kind in WARNINGS)
    assert int(found[0]["where"].rsplit(":", 1)[1]) > 0


ORIGINS = [
    ("use_of_unwritten_workspace", [("DataCopyPad", "userGm[1024")]),
    ("padding_in_use", [("DataCopyPad", "252")]),
    ("result_with_a_tail", [("TPipe::InitBuffer", "scratch, 4096"), ("Adds", "1.0f, 60")]),
]


@pytest.mark.parametrize(("name", "instructions"), ORIGINS)
def test_undefined_bytes_have_the_location_of_their_instruction(kernels, name, instructions):
    found, *_ = _launch(kernels, name, 1)
    places = re.findall(r"(?:undefined: |; )([\w:]+) at ([^ :]+):(\d+) ", found[0]["message"])
    lines = [(call, Path(path).read_text(encoding="utf-8").splitlines()[int(line) - 1]) for call, path, line in places]
    assert len(lines) == len(instructions), found
    for (call, text), (expected, part) in zip(lines, instructions, strict=True):
        assert (call, part in text) == (expected, True)


@pytest.mark.parametrize("misalignment", [4, 32, 96, 508])
def test_cores_share_cache_lines_at_unaligned_addresses(kernels, misalignment):
    """A tensor can start at any element: rows do not start at lines of 64 bytes."""
    found, *_ = _launch(kernels, "clean", 3, misalignment=misalignment)
    assert {entry["kind"] for entry in found} == {"shared_cache_line"}


def test_a_tensor_that_does_not_start_at_an_element(kernels):
    found, *_ = _launch(kernels, "clean", 1, misalignment=2)
    assert found[0]["kind"] == "gm_misaligned"
