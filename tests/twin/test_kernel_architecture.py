"""Test the rules of architecture 1001: functions that it lacks, event ids, buffers of queues, task types."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from compile_errors import Lines, errors_once

from opforge.codegen.project import BUILTIN_ROOT
from opforge.twin import launch
from opforge.twin.build import INCLUDE, include_flags
from opforge.twin.compiler.flags import arch_flags
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
_HEAD, _KERNEL = SOURCE.split("extern", 1)
_KERNEL = (
    _KERNEL.replace("{", "{{").replace("}", "}}").replace("planted(", "planted{number}(").replace("BODY", "{line}")
)
CODE = Lines(("-std=c++17", *arch_flags(1001), *include_flags()), _HEAD, f"extern{_KERNEL}")
GATES = (INCLUDE / "opforge_twin" / "kernel" / "gates.inc").read_text(encoding="utf-8")
# A call of functions that the architecture does not have, or has only for other dtypes.
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
    "Mmad": "Mmad(a, a, a, MmadParams(16, 16, 16, 0, false, true));",
    "MmadWithBias": "Mmad(a, a, a, a, MmadParams(16, 16, 16, 0, false, false));",
    "LoadData": "LoadData(a, a, LoadData2DParams());",
    "LoadDataWindow": "LoadData(a, a, LoadData3DParamsV2<float>());",
    "LoadDataWithTranspose": "LoadDataWithTranspose(a, a, LoadData2dTransposeParams());",
    "DataCopyNd2Nz": "DataCopy(a, g, Nd2NzParams());",
    "DataCopyFromL0C": "DataCopy(g, a, DataCopyCO12DstParams());",
    "InitConstValue": "InitConstValue(a, InitConstValueParams<float>());",
    "Fixpipe": "Fixpipe(g, a, FixpipeParamsV220());",
    "SetHF32Mode": "SetHF32Mode(true);",
    "SetStoreAtomicConfig": "SetStoreAtomicConfig<AtomicDtype::ATOMIC_F32, AtomicOp::ATOMIC_SUM>();",
    "CheckLocalMemoryIA": "CheckLocalMemoryIA(CheckLocalMemoryIAParam());",
    "CastDequant": "CastDequant<half, int32_t>(a.ReinterpretCast<half>(), i, 64);",
}


def planted(body: str, **options):
    """Return the kinds of the findings of a kernel with this body."""
    found = launch(SOURCE.replace("BODY", body), "planted", 1, [np.zeros(64, np.float32)], soc=SOC, **options)
    return [finding.kind for finding in found]


@pytest.fixture(scope="module")
def errors(once):
    """Return the errors of each call."""
    return errors_once(once, "missing_functions", CODE, list(CALLS.values()))


@pytest.mark.parametrize("function", CALLS)
def test_a_missing_function_is_a_compile_error_that_names_it(errors, function):
    call, message = CALLS[function], rf"{function}: .*(Ascend 910)"
    assert re.search(message, errors[call]) or re.search(message, CODE.messages([call]))


def test_calls_are_accepted_for_the_default_architecture():
    flags = [flag for flag in CODE.flags if flag not in arch_flags(1001)]
    assert Lines(flags, CODE.head, CODE.function).messages(list(CALLS.values())) == ""


def test_a_missing_function_is_an_error_of_a_launch():
    with pytest.raises(CompileError, match=r"Adds: .*(Ascend 910)"):
        planted(CALLS["Adds"])


def test_rows_of_the_table_name_an_alternative():
    rows = re.findall(r'^OPFORGE_(HAS|LACKS)\((\w+), "([^"]*)"', GATES, re.MULTILINE)
    assert len(rows) == len({name for _, name, _ in rows}) > 60
    assert all(alternative for _, _, alternative in rows)


def test_page_has_the_table():
    page = (BUILTIN_ROOT / "docs" / "reference" / "ascend-c.md").read_text(encoding="utf-8")
    found = set()
    for functions, *facts in re.findall(
        r"^\| ([\w, ]+) \| ([^|]+) \|(?: ([^|]+) \|)?$", page.split("## Architecture 1001")[1], re.MULTILINE
    ):
        found |= {(name, *filter(None, facts)) for name in functions.split(", ")}
    rows = re.findall(r'^OPFORGE_\w+\((\w+), "([^"]*)"(?:, ([^)]*))?\)$', GATES, re.MULTILINE)
    assert {(name, *filter(None, (dtypes, alternative))) for name, alternative, dtypes in rows} <= found


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
    assert "expected a chip of architecture 2201" in found[0]["message"]


# One product of 16 x 32 and 32 x 16 elements: rows in the unified buffer are copied to L1 in columns of 32 bytes.
PRODUCT = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void product(GM_ADDR left, GM_ADDR right, GM_ADDR result)
{
    GlobalTensor<half> a, b;
    GlobalTensor<float> c;
    a.SetGlobalBuffer((__gm__ half*)left, 16 * 32);
    b.SetGlobalBuffer((__gm__ half*)right, 32 * 16);
    c.SetGlobalBuffer((__gm__ float*)result, 16 * 16);
    TPipe pipe;
    TBuf<TPosition::VECCALC> rowBuffer, sumBuffer;
    TBuf<TPosition::A1> l1Buffer;
    TBuf<TPosition::A2> l0aBuffer;
    TBuf<TPosition::B2> l0bBuffer;
    TBuf<TPosition::CO1> l0cBuffer;
    pipe.InitBuffer(rowBuffer, 2048);
    pipe.InitBuffer(sumBuffer, 1024);
    pipe.InitBuffer(l1Buffer, 2048);
    pipe.InitBuffer(l0aBuffer, 1024);
    pipe.InitBuffer(l0bBuffer, 1024);
    pipe.InitBuffer(l0cBuffer, 2048);
    LocalTensor<half> rows = rowBuffer.Get<half>();
    LocalTensor<half> l1 = l1Buffer.Get<half>();
    LocalTensor<half> l0a = l0aBuffer.Get<half>();
    LocalTensor<half> l0b = l0bBuffer.Get<half>();
    LocalTensor<float> l0c = l0cBuffer.Get<float>();
    LocalTensor<float> sums = sumBuffer.Get<float>();
    DataCopy(rows, a, 16 * 32);
    DataCopy(rows[512], b, 32 * 16);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    for (int column = 0; column < 2; ++column) {  // of 16 elements
        DataCopy(l1[column * 256], rows[column * 16], DataCopyParams(16, 1, 1, 0));
    }
    DataCopy(l1[512], rows[512], 512);
    SetFlag<HardEvent::MTE3_MTE1>(0);
    WaitFlag<HardEvent::MTE3_MTE1>(0);
    LoadData2DParams load;
    load.repeatTimes = 2;
    load.srcStride = 1;
    LoadData(l0a, l1, load);
    load.ifTranspose = true;
    LoadData(l0b, l1[512], load);
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    Mmad(l0c, l0a, l0b, MmadParams(16, 16, 32, 0, false, true));
    SetFlag<HardEvent::M_V>(0);
    WaitFlag<HardEvent::M_V>(0);
    DataCopyEnhancedParams matrix;
    matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
    DataCopy(sums, l0c, DataCopyParams(1, 1, 0, 0), matrix);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(c, sums, 256);
}
"""


def _flags(event):
    return f"    SetFlag<HardEvent::{event}>(0);\n    WaitFlag<HardEvent::{event}>(0);\n"


EVENTS = ["MTE2_MTE3", "MTE3_MTE1", "MTE1_M", "M_V", "V_MTE3"]
PLANTED_PRODUCTS = {
    "dstGap is ignored by the chip": ("load.srcStride = 1;", "load.srcStride = 1; load.dstGap = 1;", "field_range"),
    "no unit flag": ("MmadParams(16, 16, 32, 0,", "MmadParams(16, 16, 32, 3,", "field_range"),
    "no plain copy of L0C": ("l0c, DataCopyParams(1, 1, 0, 0), matrix)", "l0c, 256)", "position"),
    "no store of L0C": ("DataCopy(c, sums, 256)", "DataCopy(c, l0c, 256)", "position"),
    "no conversion": ("blockMode =", "isRelu = true; matrix.blockMode =", "field_range"),
    "tile of L0C": ("DataCopy(sums, l0c,", "DataCopy(sums, l0c[16],", "cube_misaligned"),
    "L0A to the buffer": ("DataCopy(sums, l0c,", "DataCopy(sums, l0a.ReinterpretCast<float>(),", "position"),
    "pipe FIX": (_flags("M_V"), "PipeBarrier<PIPE_FIX>();", "core_kind"),
    "L1 is full": ("InitBuffer(l1Buffer, 2048)", "InitBuffer(l1Buffer, 1048608)", "cube_budget"),
    "L0C is full": ("InitBuffer(l0cBuffer, 2048)", "InitBuffer(l0cBuffer, 263168)", "cube_budget"),
    "no bias table": ("TBuf<TPosition::A1>", "TBuf<TPosition::C2>", "core_kind"),
}
ALL_BYTES = [
    ("InitBuffer(l1Buffer, 2048)", "InitBuffer(l1Buffer, 1048576)"),
    ("InitBuffer(l0cBuffer, 2048)", "InitBuffer(l0cBuffer, 262144)"),
]
CHANGES = [("", ""), *((_flags(event), "") for event in EVENTS), *ALL_BYTES]
CHANGES += [(old, new) for old, new, _ in PLANTED_PRODUCTS.values()]


@cache
def _products():
    """Return one source with a kernel for each change of the product."""
    head, kernel = PRODUCT.split("extern", 1)
    assert all(old in kernel for old, _ in CHANGES)
    kernels = (kernel.replace(*change).replace(" product(", f" product{at}(") for at, change in enumerate(CHANGES))
    return head + "".join(f"extern{text}" for text in kernels)


def multiplied(old="", new=""):
    """Return the findings of the product with one change, and whether its result is right."""
    random = np.random.default_rng(3)
    left = random.integers(-4, 5, (16, 32)).astype(np.float16)
    right = random.integers(-4, 5, (32, 16)).astype(np.float16)
    result = np.zeros((16, 16), np.float32)
    found = launch(_products(), f"product{CHANGES.index((old, new))}", 1, [left, right, result], soc=SOC)
    is_right = np.array_equal(result, left.astype(np.float32) @ right.astype(np.float32))
    return [finding.kind for finding in found], is_right


def test_a_product_through_all_memories_of_a_core():
    assert multiplied() == ([], True)


@pytest.mark.parametrize("event", EVENTS)
def test_a_missing_flag_of_the_product(event):
    assert set(multiplied(_flags(event))[0]) == {"race"}


@pytest.mark.parametrize("planted_product", PLANTED_PRODUCTS)
def test_a_planted_mistake_of_the_product(planted_product):
    old, new, kind = PLANTED_PRODUCTS[planted_product]
    assert kind in multiplied(old, new)[0]


@pytest.mark.parametrize("change", ALL_BYTES)
def test_all_bytes_of_l1_and_l0c(change):
    assert multiplied(*change) == ([], True)
