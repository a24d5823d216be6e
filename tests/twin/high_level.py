"""Kernels for tests of high-level functions: load all inputs, call one function, store all outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from charged import SLOW, repeats, vector

from opforge.twin.build import INCLUDE

Array = np.ndarray[Any, Any]
CPP = {
    "half": np.float16,
    "float": np.float32,
    "bfloat16_t": ml_dtypes.bfloat16,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
}
TABLE = INCLUDE / "opforge_twin" / "kernel" / "high" / "operations.inc"
ROW = re.compile(r"^OPFORGE_HIGH\((\w+), (\w+), (\d+), (\d+), (\d+), (\w+), (\w+)\)$", re.MULTILINE)
OTHER_NAMES = {"BroadCast": "Broadcast", "SelectWithBytesMask": "Select", "ConfusionTranspose": "Transpose"}
TOLERANCE = {"half": 2e-3, "float": 2e-6, "bfloat16_t": 1e-2}
HEADER = """
#include "kernel_operator.h"
using namespace AscendC;
#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)
template <typename T>
__aicore__ inline LocalTensor<T> Take(const TBuf<TPosition::VECCALC>& memory, uint32_t& offset, uint32_t count)
{
    const LocalTensor<T> part = memory.GetWithOffset<T>(count, offset);
    offset += (count * sizeof(T) + 31) / 32 * 32;
    return part;
}
template <typename T>
__aicore__ inline void Load(const LocalTensor<T>& to, GM_ADDR from, uint32_t count)
{
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer((__gm__ T*)from);
    DataCopyPad(to, gm, DataCopyExtParams(1, count * sizeof(T), 0, 0, 0), DataCopyPadExtParams<T>());
}
template <typename T>
__aicore__ inline void Store(GM_ADDR to, const LocalTensor<T>& from, uint32_t count)
{
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer((__gm__ T*)to);
    DataCopyPad(gm, from, DataCopyExtParams(1, count * sizeof(T), 0, 0, 0));
}
"""


@dataclass(frozen=True)
class Operand:
    """A tensor of a kernel; outputs are loaded too, so that unwritten elements keep their values."""

    name: str
    dtype: str
    count: int


def misplaced(code: str) -> str:
    """Return the code with a first operand that starts in the middle of a block of 32 bytes."""
    first = re.search(r"\((d|s|q|fd|fm),", code)
    assert first, code
    return f"auto between = {first[1]}[1]; {code.replace(first[0], '(between,', 1)}"


def assert_misplaced(report: dict[str, Any], code: str) -> dict[str, Any]:
    """Return the finding, which names a function; an operand that fills its tensor also goes beyond it."""
    (finding,) = report["findings"]
    assert finding["kind"] in ("ub_misaligned", "ub_out_of_range", "overlap"), (code, finding)
    assert any(f": {name}: " in finding["message"] for name in re.findall(r"\w+", code)), (code, finding)
    return finding


def table() -> dict[str, tuple[str, ...]]:
    """Return the columns of the table of functions by name."""
    return {row[0]: row[1:] for row in ROW.findall(TABLE.read_text(encoding="utf-8"))}


def function_of(code: str) -> str:
    """Return the first function of the table that the code calls."""
    return next(word for word in re.findall(r"\w+", code) if OTHER_NAMES.get(word, word) in table())


def cycles_of(function: str, first: Array, elements: int) -> float:
    """Return the cycles of the documented formula; `first`: the first operand."""
    _, fast, slow, *_ = table()[OTHER_NAMES.get(function, function)]
    casts = 2 if first.itemsize < 4 else 0
    number = repeats(elements, 4)
    return vector(number, instructions=int(fast) + casts) + vector(number, SLOW, int(slow))


def assert_timed(kernels: Any, symbol: str, code: str, tensors: dict[str, Array], elements: int) -> None:
    """Run a kernel; require the cycles of its function."""
    function = function_of(code)
    first = re.search(rf"\(({'|'.join(tensors)})\b", code)
    assert first, code
    expected = cycles_of(function, tensors[first[1]], elements)
    assert kernels.cycles(symbol, *tensors.values())[function] == pytest.approx(expected)


def kernel(
    symbol: str,
    operands: Sequence[Operand],
    code: str,
    tmp_bytes: int = 4096,
    used: int = 65536,
) -> str:
    """Return the text of a kernel that runs `code` on its operands; `used`: bytes of the buffer of all tensors."""
    parameters = ", ".join(f"GM_ADDR {o.name}Gm" for o in operands)
    takes = "".join(
        f"    LocalTensor<{o.dtype}> {o.name} = Take<{o.dtype}>(memory, offset, {o.count});\n"
        f"    Load({o.name}, {o.name}Gm, {o.count});\n"
        for o in operands
    )
    stores = "".join(f"    Store({o.name}Gm, {o.name}, {o.count});\n" for o in operands)
    return (
        f'extern "C" __global__ __aicore__ void {symbol}({parameters}, GM_ADDR, GM_ADDR)\n'
        "{\n    TPipe pipe;\n    TBuf<TPosition::VECCALC> memory;\n"
        f"    pipe.InitBuffer(memory, {used});\n    uint32_t offset = 0;\n"
        f"    [[maybe_unused]] LocalTensor<uint8_t> tmp = Take<uint8_t>(memory, offset, {tmp_bytes});\n"
        f"{takes}    ORDER(MTE2_V);\n    {code}\n    ORDER(V_MTE3);\n    ORDER(MTE2_MTE3);\n{stores}}}\n"
    )
