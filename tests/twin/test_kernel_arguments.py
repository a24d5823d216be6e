"""Plant mistakes in kernels: unused arguments, and bytes beyond the tiling plan."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from planted import Planted, kernels_of

INPUT, OUTPUT = 1, 2

CLEAN = """
struct NAMETiling {
    int64_t rows = 0;
    int32_t plannedUbBytes = 0;
};

extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR, GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(NAMETiling);
    GET_TILING_DATA(data, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    GlobalTensor<float> xGm, yGm, zGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    zGm.SetGlobalBuffer((__gm__ float*)z);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> loads;
    TBuf<TPosition::VECCALC> sums;
    pipe.InitBuffer(loads, 2, 256);
    pipe.InitBuffer(sums, 500);
    const int64_t begin = GetBlockIdx() * data.rows;
    LocalTensor<float> a = sums.Get<float>();
    for (int64_t row = begin; row < begin + data.rows; ++row) {
        LocalTensor<float> in = loads.AllocTensor<float>();
        DataCopyPad(in, xGm[row * 10], DataCopyExtParams(1, 40, 0, 0, 0), DataCopyPadExtParams<float>());
        DataCopyPad(in[16], yGm[row * 10], DataCopyExtParams(1, 40, 0, 0, 0), DataCopyPadExtParams<float>());
        loads.EnQue(in);
        in = loads.DeQue<float>();
        Add(a, in, in[16], 10);
        ORDER(V_MTE3);
        DataCopyPad(zGm[row * 10], a, DataCopyExtParams(1, 40, 0, 0, 0));
        ORDER(MTE3_V);
        loads.FreeTensor(in);
    }
}
"""
LOOP = "row < begin + data.rows;"
STORE = "DataCopyPad(zGm[row * 10], a, DataCopyExtParams(1, 40, 0, 0, 0));"
LOAD = "DataCopyPad(in[16], yGm[row * 10], DataCopyExtParams(1, 40, 0, 0, 0), DataCopyPadExtParams<float>());"
SUMS = "pipe.InitBuffer(sums, 500);"
PLANTED_BYTES = 2 * 256 + 512
PLANTED = [
    Planted("last_row_left_out", LOOP, "row < begin + data.rows - GetBlockIdx();", "output_not_written",
            "output '2': no core has written 40 of 320 bytes, the first of them in [280, 320); 2 of 2 cores wrote", 2),
    Planted("output_left_out", STORE, "", "output_not_written",
            "output '2': no core has written 320 of 320 bytes, the first of them in [0, 320); 0 of 2 cores wrote", 2),
    Planted("store_too_short", STORE, STORE.replace("40", "36"), "output_not_written",
            "no core has written 32 of 320 bytes, the first of them in [36, 40)", 2),
    Planted("input_left_out", LOAD, LOAD.replace("yGm", "xGm"), "input_not_read",
            "input '1': the call gives it (320 bytes), but no core reads it", 2),
    Planted("buffer_not_planned", SUMS, SUMS.replace("500", "513"), "ub_plan",
            "the buffers need 1056 bytes, expected at most planned_ub_bytes = 1024 of the tiling data; count all "
            "buffers in the tiling plan; buffers: loads VECIN 2 x 256 bytes (", 2),
    Planted("list_of_buffers", SUMS, SUMS.replace("500", "200000"), "ub_budget",
            "sums VECCALC 1 x 200000 bytes (", 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    order = """
#include "kernel_operator.h"
using namespace AscendC;
#define ORDER(event)                                                       \\
    {                                                                      \\
        const TEventID id = GetTPipePtr()->FetchEventID(HardEvent::event); \\
        SetFlag<HardEvent::event>(id);                                     \\
        WaitFlag<HardEvent::event>(id);                                    \\
    }
"""
    return compile_kernels(order + "".join(kernels_of(CLEAN, "clean", PLANTED)))


def launched(kernels, name, rows=4, blocks=2, planned=PLANTED_BYTES, **options):
    x, y, z = (np.ones((blocks * rows, 10), np.float32) for _ in range(3))
    tiling = struct.pack("<qi4x", rows, planned)
    report = kernels.launch(name, x, y, z, roles=(INPUT, INPUT, OUTPUT), blocks=blocks, tiling=tiling, **options)
    return z, report["findings"]


@pytest.mark.parametrize("planned", [PLANTED_BYTES, 0, 2 * PLANTED_BYTES])
@pytest.mark.parametrize("strict", [True, False])
def test_the_clean_kernel_has_no_finding(kernels, strict, planned):
    z, found = launched(kernels, "clean", strict=strict, planned=planned)
    assert found == []
    assert (z == 2).all()


def test_an_empty_output_and_an_output_that_is_also_an_input_may_stay_unwritten(kernels):
    assert launched(kernels, "clean", rows=0)[1] == []
    arrays = [np.zeros((8, 10), np.float32) for _ in range(3)]
    tiling = struct.pack("<qi4x", 1, 0)
    report = kernels.launch("clean", *arrays, roles=(INPUT, INPUT, INPUT | OUTPUT), blocks=2, tiling=tiling)
    assert report["findings"] == []


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_mistake_is_named(kernels, planted, record_planted):
    _, found = launched(kernels, planted.name, blocks=planted.blocks)
    assert [finding["kind"] for finding in found] == [planted.kind]
    assert planted.message in found[0]["message"]
    assert found[0]["warning"] is (planted.kind == "input_not_read")
    record_planted(planted.name, found[0])
