"""Test the rules of architecture 1001: functions that it lacks, event ids, buffers of queues, task types."""

from __future__ import annotations

import re

import numpy as np
import pytest

from opforge.twin import launch
from opforge.twin.build import INCLUDE
from opforge.twin.compiler.units import CompileError

SOC = "Ascend910A"
SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void planted(GM_ADDR x)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 4096);
    LocalTensor<float> a = buffer.Get<float>();
    LocalTensor<int32_t> i = buffer.Get<int32_t>();
    LocalTensor<uint32_t> u = buffer.Get<uint32_t>();
    LocalTensor<uint8_t> b = buffer.Get<uint8_t>();
    GlobalTensor<float> g;
    g.SetGlobalBuffer((__gm__ float*)x, 64);
    BODY
}
"""
GATES = (INCLUDE / "opforge_twin" / "kernel" / "gates.inc").read_text(encoding="utf-8")
# A call of functions that the architecture lacks, or has for other dtypes only.
CALLS = {
    "DataCopyPad": "DataCopyPad(a, g, DataCopyExtParams(1, 4, 0, 0, 0), DataCopyPadExtParams<float>());",
    "Adds": "Adds(i, i, 1, 64);",
    "Muls": "Muls(i, i, 2, 64);",
    "Maxs": "Maxs(a, a, 0.0f, 64);",
    "Mins": "Mins(a, a, 0.0f, 64);",
    "MulAddDst": "MulAddDst(a, a, a, 64);",
    "ShiftRight": "ShiftRight(i, i, 1, 64);",
    "Copy": "Copy(a, a, uint64_t{64}, 1, {1, 1, 8, 8});",
    "Gather": "Gather(a, a, u, 0, 64);",
    "GatherMask": "uint64_t kept; GatherMask(a, a, 1, false, 0, GatherMaskParams(), kept);",
    "Brcb": "Brcb(a, a, 1, {1, 8});",
    "CompareScalar": "CompareScalar(b, a, 0.0f, CMPMODE::LT, 64);",
    "CreateVecIndex": "CreateVecIndex(i, 0, 64);",
    "ArithProgression": "ArithProgression(a, 0.0f, 1.0f, 64);",
    "ReduceSum": "ReduceSum(a, a, a, 64);",
    "ReduceMax": "ReduceMax(a, a, a, 64);",
    "Sort32": "Sort32(a, a, u, 1);",
    "SyncAll": "SyncAll();",
    "SetMaskCount": "SetMaskCount();",
    "InitOutput": "InitOutput(g, 64, 0.0f);",
    "SetAtomicAdd": "SetAtomicAdd<int32_t>();",
    "SetAtomicMax": "SetAtomicMax<float>();",
    "CrossCoreSetFlag": "CrossCoreSetFlag<0, PIPE_MTE3>(1);",
    "KERNEL_TASK_TYPE_DEFAULT": "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);",
    "Mmad": "Mmad(a, a, a, 1);",
}


def planted(body: str, **options):
    """Return the kinds of the findings of a kernel with this body."""
    found = launch(SOURCE.replace("BODY", body), "planted", 1, [np.zeros(64, np.float32)], soc=SOC, **options)
    return [finding.kind for finding in found]


@pytest.mark.parametrize("function", CALLS)
def test_a_missing_function_is_a_compile_error_that_names_it(function):
    with pytest.raises(CompileError, match=rf"{function}: .*(Ascend 910)"):
        planted(CALLS[function])


def test_rows_of_the_table_name_an_alternative():
    rows = re.findall(r'^OPFORGE_(HAS|LACKS)\((\w+), "([^"]*)"', GATES, re.MULTILINE)
    assert len(rows) == len({name for _, name, _ in rows}) > 60
    assert all(alternative for _, _, alternative in rows)


@pytest.mark.parametrize("mode", ["CAST_RINT", "CAST_FLOOR"])
def test_conversions_have_fewer_modes(mode):
    half = "LocalTensor<half> h = buffer.GetWithOffset<half>(64, 1024); Duplicate(a, 1.0f, 64); PipeBarrier<PIPE_V>();"
    assert planted(f"{half} Cast(h, a, RoundMode::CAST_NONE, 64);") == []
    assert planted(f"{half} Cast(h, a, RoundMode::{mode}, 64);") != []


def test_the_fifth_event_id_does_not_exist():
    four = "".join(f"SetFlag<HardEvent::V_S>({number}); WaitFlag<HardEvent::V_S>({number});" for number in range(4))
    assert planted(four) == []
    assert planted("SetFlag<HardEvent::V_S>(4); WaitFlag<HardEvent::V_S>(4);") == ["field_range"]
    with pytest.raises(CompileError, match="EVENT_ID4"):
        planted("SetFlag<HardEvent::V_S>(EVENT_ID4);")


def test_the_fifth_buffer_of_a_position():
    queues = "TQue<TPosition::VECIN, 2> q; TQue<TPosition::VECIN, 2> r; pipe.InitBuffer(q, 2, 64);"
    assert planted(f"{queues} pipe.InitBuffer(r, 2, 64);") == []
    assert planted(f"{queues} pipe.InitBuffer(r, 3, 64);") == ["queue_buffers"]


def test_a_core_with_both_units_is_neither_cube_nor_vector():
    body = "if ASCEND_IS_AIC { SetFlag<HardEvent::V_S>(9); } if ASCEND_IS_AIV { SetFlag<HardEvent::V_S>(9); }"
    assert planted(body) == []
    assert planted("if ASCEND_IS_NOT_AIC { SetFlag<HardEvent::V_S>(9); }") == ["field_range"]
    assert planted("if ASCEND_IS_NOT_AIV { SetFlag<HardEvent::V_S>(9); }") == ["field_range"]


def test_a_library_of_another_architecture_is_refused(compile_kernels):
    kernels = compile_kernels(SOURCE.replace("BODY", "(void)a, (void)i, (void)u, (void)b;"))
    found = kernels.launch("planted", np.zeros(64, np.float32), soc=SOC)["findings"]
    assert "compiled for arch 2201" in found[0]["message"]
