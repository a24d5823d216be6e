"""Test unordered accesses: without one line of a clean kernel, the resulting race must be reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

# Every statement that determines an order is on a separate line; ORDER sets a flag and waits for it immediately.
CLEAN = """
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    TPipe pipe;
    TBuf<TPosition::VECCALC> scratch;
    TQue<TPosition::VECIN, 1> queue;
    pipe.InitBuffer(scratch, 8192);
    pipe.InitBuffer(queue, 2, 1024);
    const int64_t block = GetBlockIdx();
    const int64_t next = (block + 1) % GetBlockNum();
    GlobalTensor<float> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    zGm.SetGlobalBuffer((__gm__ float*)z);
    LocalTensor<float> a = scratch.Get<float>();
    LocalTensor<float> b = a[256];
    LocalTensor<float> c = a[512];
    LocalTensor<float> d = a[768];
    // Unified buffer: load, compute, look at it, store, load again.
    DataCopy(a, xGm, 256);
    ORDER(MTE2_V);
    Adds(b, a, 1.0f, 256);
    ORDER(V_MTE2);
    DataCopy(a, xGm[256], 256);
    PipeBarrier<PIPE_V>(); // b
    Muls(c, b, 2.0f, 256);
    PipeBarrier<PIPE_V>(); // b again
    Duplicate(b, 3.0f, 256);
    PipeBarrier<PIPE_V>(); // b once more
    Duplicate(b, 4.0f, 128);
    ORDER(V_S);
    float value = c.GetValue(3);
    c.SetValue(5, value);
    ORDER(S_V);
    Adds(c, c, 1.0f, 256);
    ORDER(V_MTE3);
    DataCopy(yGm[block * 256], c, 256);
    ORDER(MTE3_V);
    Duplicate(c, 1.0f, 256);
    ORDER(V_MTE3); // c
    ORDER(MTE3_MTE2);
    DataCopy(b[128], yGm[block * 256], 128);
    ORDER(MTE2_S);
    a.SetValue(7, a.GetValue(6));
    ORDER(S_MTE2);
    DataCopy(a, xGm[512], 128);
    PipeBarrier<PIPE_MTE2>();
    DataCopy(a[64], xGm, 128);
    d.SetValue(0, value);
    ORDER(S_MTE3);
    DataCopyPad(zGm[block * 16], d, DataCopyExtParams(1, 4, 0, 0, 0));
    ORDER(MTE3_S);
    d.SetValue(0, 2.0f);
    // A queue orders its two pipes.
    LocalTensor<float> in = queue.AllocTensor<float>();
    DataCopy(in, xGm, 256);
    queue.EnQue(in);
    in = queue.DeQue<float>();
    ORDER(MTE2_S); // look
    value = in.GetValue(1);
    queue.FreeTensor(in);
    // The scalar unit writes the first block of a progression.
    LocalTensor<int32_t> steps = scratch.GetWithOffset<int32_t>(64, 6144);
    Duplicate(steps, 0, 64);
    ORDER(V_S); // steps
    CreateVecIndex(steps, 1, 64);
    PipeBarrier<PIPE_V>();
    Adds(steps, steps, 1, 64);
    // Global memory, within the core.
    DataCopy(b[192], yGm[block * 256], 64);
    ORDER(MTE2_MTE3);
    DataCopy(yGm[block * 256], c, 64);
    PipeBarrier<PIPE_MTE3>();
    DataCopy(yGm[block * 256 + 32], c, 64);
    ORDER(MTE3_S); // y
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yGm[block * 256 + 40]);
    value = yGm.GetValue(block * 256 + 40);
    // Global memory, between cores.
    SyncAll(); // written
    DataCopy(a, yGm[next * 256], 256);
    ORDER(MTE2_MTE3); // read
    CrossCoreSetFlag<0, PIPE_MTE3>(1);
    CrossCoreWaitFlag(1);
    DataCopy(yGm[block * 256 + 128], c, 128);
    SyncAll(); // rewritten
    DataCopy(yGm[next * 256 + 128], c, 8);
    SetAtomicAdd<float>();
    DataCopy(zGm[GetBlockNum() * 16], c, 8);
    SetAtomicNone();
    ORDER(MTE3_MTE2); // of the core itself
    SyncAll(); // added
    DataCopy(a[512 - 8], zGm[GetBlockNum() * 16], 8);
    // Instructions that read what they write, after others that read it.
    PipeBarrier<PIPE_ALL>();
    Muls(d, a, 5.0f, 256);
    PipeBarrier<PIPE_V>(); // in place
    Exp(a, a, 256);
    PipeBarrier<PIPE_V>();
    Muls(d, a, 6.0f, 256);
    PipeBarrier<PIPE_V>(); // accumulated
    Axpy(a, c, 2.0f, 256);
}
"""


@dataclass(frozen=True)
class Planted:
    """A removed line, the two accesses that it ordered, and the expected finding of the twin."""

    name: str
    line: str
    first: str
    second: str
    finding_text: tuple[str, ...]
    instead: str = ""
    blocks: int = 1


RAW, WAR, WAW = "(read after write)", "(write after read)", "(write after write)"
BARRIER = "SyncAll or flag between cores"
PLANTED = [
    Planted("load_then_compute", "ORDER(MTE2_V);", "DataCopy(a, xGm, 256);", "Adds(b, a", (RAW, "MTE2_V>(id)", "src")),
    Planted(
        "vector_read_after_write",
        "PipeBarrier<PIPE_V>(); // b\n",
        "Adds(b, a",
        "Muls(c, b",
        (RAW, "PipeBarrier<PIPE_V>()", "[1024, 2048)", "dst of Adds"),
    ),
    Planted(
        "vector_then_progression",
        "ORDER(V_S); // steps",
        "Duplicate(steps",
        "CreateVecIndex(steps",
        (WAW, "V_S>(id)", "first block of dst"),
    ),
    Planted(
        "vector_write_after_read",
        "PipeBarrier<PIPE_V>(); // b again",
        "Muls(c, b",
        "Duplicate(b, 3.0f",
        (WAR, "PipeBarrier<PIPE_V>()", "src of Muls"),
    ),
    Planted(
        "in_place_after_read",
        "PipeBarrier<PIPE_V>(); // in place",
        "Muls(d, a, 5.0f",
        "Exp(a, a",
        (WAR, "PipeBarrier<PIPE_V>()", "src of Muls"),
    ),
    Planted(
        "accumulated_after_read",
        "PipeBarrier<PIPE_V>(); // accumulated",
        "Muls(d, a, 6.0f",
        "Axpy(a, c",
        (WAR, "PipeBarrier<PIPE_V>()", "src of Muls"),
    ),
    Planted(
        "vector_write_after_write",
        "PipeBarrier<PIPE_V>(); // b once more",
        "Duplicate(b, 3.0f",
        "Duplicate(b, 4.0f",
        (WAW, "PipeBarrier<PIPE_V>()", "[1024, 1536)"),
    ),
    Planted(
        "barrier_of_another_pipe",
        "PipeBarrier<PIPE_V>(); // b\n",
        "Adds(b, a",
        "Muls(c, b",
        (RAW,),
        "PipeBarrier<PIPE_MTE2>();",
    ),
    Planted("vector_then_get_value", "ORDER(V_S);", "Muls(c, b", "c.GetValue(3)", (RAW, "V_S>(id)", "[2060, 2064)")),
    Planted("set_value_then_vector", "ORDER(S_V);", "c.SetValue(5", "Adds(c, c", (RAW, "S_V>(id)", "SetValue")),
    Planted("vector_then_store", "ORDER(V_MTE3);", "Adds(c, c", "DataCopy(yGm[block * 256], c, 256)", (RAW, "V_MTE3")),
    Planted("reload_while_computing", "ORDER(V_MTE2);", "Adds(b, a", "DataCopy(a, xGm[256]", (WAR, "V_MTE2>(id)")),
    Planted("load_then_get_value", "ORDER(MTE2_S);", "DataCopy(a, xGm[256]", "a.SetValue(7", (RAW, "MTE2_S>(id)")),
    Planted("set_value_then_load", "ORDER(S_MTE2);", "a.SetValue(7", "DataCopy(a, xGm[512]", ("S_MTE2>(id)",)),
    Planted(
        "two_loads_overlap",
        "PipeBarrier<PIPE_MTE2>();",
        "DataCopy(a, xGm[512]",
        "DataCopy(a[64], xGm",
        (WAW, "PipeBarrier<PIPE_MTE2>()", "[256, 512)"),
    ),
    Planted(
        "overwrite_while_storing",
        "ORDER(MTE3_V);",
        "DataCopy(yGm[block * 256], c, 256)",
        "Duplicate(c",
        (WAR, "MTE3_V"),
    ),
    Planted("set_value_then_store", "ORDER(S_MTE3);", "d.SetValue(0, value)", "DataCopyPad(zGm", (RAW, "S_MTE3>(id)")),
    Planted("set_value_while_storing", "ORDER(MTE3_S);", "DataCopyPad(zGm", "d.SetValue(0, 2.0f)", (WAR, "MTE3_S>")),
    Planted("queue_does_not_order_scalars", "ORDER(MTE2_S); // look", "DataCopy(in", "in.GetValue(1)", (RAW, "MTE2_S")),
    Planted("wait_of_another_event", "ORDER(V_S);", "Muls(c, b", "c.GetValue(3)", (RAW, "V_S>(id)"), "ORDER(MTE2_S);"),
    Planted(
        "read_back_at_once",
        "ORDER(MTE3_MTE2);",
        "DataCopy(yGm[block * 256], c, 256)",
        "DataCopy(b[128], yGm[block",
        (RAW, "MTE3_MTE2>(id)", "'1'", "[0, 512)"),
    ),
    Planted(
        "store_while_reading_back",
        "ORDER(MTE2_MTE3);",
        "DataCopy(b[192], yGm[block",
        "DataCopy(yGm[block * 256], c, 64)",
        (WAR, "MTE2_MTE3>(id)", "'1'"),
    ),
    Planted(
        "two_stores_overlap",
        "PipeBarrier<PIPE_MTE3>();",
        "DataCopy(yGm[block * 256], c, 64)",
        "DataCopy(yGm[block * 256 + 32]",
        (WAW, "PipeBarrier<PIPE_MTE3>()", "[128, 256)"),
    ),
    Planted(
        "get_value_of_what_is_stored", "ORDER(MTE3_S); // y", "yGm[block * 256 + 32]", "yGm.GetValue", (RAW, "MTE3_S>")
    ),
    Planted(
        "cores_without_barrier",
        "SyncAll(); // written",
        "DataCopy(yGm[block * 256",
        "DataCopy(a, yGm[next",
        (BARRIER, "of block "),
        "",
        3,
    ),
    Planted(
        "flag_between_cores_forgotten",
        "CrossCoreSetFlag<0, PIPE_MTE3>(1);\n    CrossCoreWaitFlag(1);\n",
        "DataCopy(",
        "DataCopy(",
        (BARRIER, "'1'"),
        "",
        3,
    ),
    Planted(
        "flag_set_too_early", "ORDER(MTE2_MTE3); // read", "DataCopy(", "DataCopy(", (BARRIER, "MTE2", "'1'"), "", 3
    ),
    Planted("cores_write_the_same", "SyncAll(); // rewritten", "DataCopy(", "DataCopy(", (BARRIER, "'1'"), "", 3),
    Planted(
        "read_while_others_add", "SyncAll(); // added", "DataCopy(", "DataCopy(", (BARRIER, "'2'", "on pipe"), "", 3
    ),
    Planted("add_without_atomic_mode", "SetAtomicAdd<float>();", "DataCopy(zGm", "DataCopy(zGm", (BARRIER, WAW), "", 3),
]
# The locations depend on the order of the blocks.
EITHER_ORDER = {"cores_without_barrier", *(planted.name for planted in PLANTED if planted.first == "DataCopy(")}

SILENT = """
/// In place, accumulation over repeats, rows that share 32 bytes, disjoint halves, a count that waits for itself.
extern "C" __global__ __aicore__ void exceptions(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> scratch;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
    pipe.InitBuffer(scratch, 8192);
    pipe.InitBuffer(through, 2, 1024);
    GlobalTensor<float> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    zGm.SetGlobalBuffer((__gm__ float*)z);
    LocalTensor<float> a = scratch.Get<float>();
    const int64_t block = GetBlockIdx();
    DataCopy(a, xGm, 512);
    DataCopy(a[512], xGm[512], 256);
    ORDER(MTE2_V);
    Adds(a, a, 1.0f, 256);
    Adds(a[256], a[256], 1.0f, 256);
    PipeBarrier<PIPE_V>();
    Add(a, a[64], a, 64, 3, {1, 1, 1, 0, 8, 0});
    uint64_t kept = 0;
    GatherMask(a[1024], a[512], 1, false, 0, {1, 2, 8, 0}, kept);
    a.SetValue(1600, a.GetValue(1024) + static_cast<float>(kept));
    PipeBarrier<PIPE_ALL>();
    for (int64_t row = 0; row < 5; ++row) {
        DataCopyPad(yGm[block * 15 + row * 3], a[row * 8], DataCopyExtParams(1, 12, 0, 0, 0));
    }
    SetAtomicAdd<float>();
    DataCopy(zGm, a, 8);
    DataCopy(zGm, a[8], 8);
    SetAtomicNone();
    for (int64_t tile = 0; tile < 4; ++tile) {
        LocalTensor<float> piece = through.AllocTensor<float>();
        DataCopy(piece, xGm, 256);
        through.EnQue(piece);
        piece = through.DeQue<float>();
        DataCopy(yGm[1024 + block * 1024 + tile * 256], piece, 256);
        through.FreeTensor(piece);
    }
}

/// Rows of 30 floats share blocks: what was read before the cores met does not count any more.
extern "C" __global__ __aicore__ void rows_that_share_blocks(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    (void)z;
    TPipe pipe;
    TBuf<TPosition::VECCALC> scratch;
    pipe.InitBuffer(scratch, 2048);
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    LocalTensor<float> a = scratch.Get<float>();
    DataCopy(a[256], xGm, 8);
    const DataCopyExtParams row(1, 120, 0, 0, 0);
    const int64_t block = GetBlockIdx();
    DataCopyPad(a, yGm[block * 90], row, DataCopyPadExtParams<float>());
    SyncAll();
    DataCopyPad(a[128], yGm[block * 90 + 30], row, DataCopyPadExtParams<float>());
    DataCopyPad(yGm[(block + 1) % GetBlockNum() * 90 + 60], a, row);
    SyncAll();
    DataCopyPad(a, yGm[block * 90 + 60], row, DataCopyPadExtParams<float>());
    SyncAll();
    DataCopyPad(a, yGm[block * 90 + 30], row, DataCopyPadExtParams<float>());
    DataCopyPad(yGm[(block + 1) % GetBlockNum() * 90 + 60], a[128], row);
}
"""


def _source() -> str:
    parts = ['#include "kernel_operator.h"\nusing namespace AscendC;\n']
    parts.append("#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)\n")
    parts += [SILENT, CLEAN.replace("NAME", "clean")]
    for planted in PLANTED:
        assert planted.line in CLEAN, planted.name
        end = "\n" if planted.line.endswith("\n") else ""
        parts.append(CLEAN.replace(planted.line, planted.instead + end, 1).replace("NAME", planted.name))
    return "".join(parts)


SOURCE = _source()


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def _launch(kernels, symbol, blocks, **options):
    x = np.arange(1024, dtype=np.float32)
    y = np.zeros(max(blocks, 5) * 1024, np.float32)
    z = np.zeros((blocks + 1) * 16, np.float32)
    return kernels.launch(symbol, x, y, z, roles=(1, 3, 3), blocks=blocks, **options)["findings"]


def _line(symbol, text):
    """Return the line numbers of a kernel that contain `text`."""
    before, kernel = SOURCE.split(f" {symbol}(GM_ADDR")
    start = before.count("\n") + 1
    lines = kernel.split("\n}\n")[0].splitlines()
    return [start + index for index, line in enumerate(lines) if text in line]


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("symbol", ["clean", "exceptions", "rows_that_share_blocks"])
def test_ordered_accesses_have_no_findings(kernels, symbol, blocks):
    for seed in range(1, 4):
        assert _launch(kernels, symbol, blocks, seed=seed) == []


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_missing_order_is_named(kernels, planted, record_planted):
    found = _launch(kernels, planted.name, planted.blocks, seed=5)
    assert found, f"{planted.name}: nothing was found"
    record_planted(planted.name, found[0])
    assert {entry["kind"] for entry in found} == {"race"}, found
    message = found[0]["message"]
    for text in planted.finding_text:
        assert text in message, message
    places = {_line(planted.name, planted.second)[0], _line(planted.name, planted.first)[0]}
    if planted.name not in EITHER_ORDER:
        assert found[0]["where"].endswith(f":{_line(planted.name, planted.second)[0]}"), (found, places)
        earlier = [f":{line} " in message for line in _line(planted.name, planted.first)]
        assert any(earlier), message


@pytest.mark.parametrize("planted", [p for p in PLANTED if p.blocks == 1], ids=lambda planted: planted.name)
def test_without_strict_mode_orders_are_not_watched(kernels, planted):
    assert _launch(kernels, planted.name, 1, strict=False) == []
