"""Compare the results of vector instructions with NumPy: dtypes, tails, masks, strides, rounding."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from charged import DIV, FAST, FREE, MODEL, SLOW, TWO_OPERANDS, repeats, vector

from opforge.twin import launch

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)
CPP = {
    BF16: "bfloat16_t",
    F16: "half",
    F32: "float",
    np.dtype(np.int16): "int16_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.uint32): "uint32_t",
    np.dtype(np.int64): "int64_t",
    np.dtype(np.uint64): "uint64_t",
    np.dtype(np.float64): "double",
    np.dtype(np.int8): "int8_t",
    np.dtype(np.uint8): "uint8_t",
}
INTEGERS = [np.dtype(np.int16), np.dtype(np.int32)]
FLOATS = [F16, F32]
COUNT = 203  # three repeats and a tail of float, one and a tail of half

FRAME = """
#include "kernel_operator.h"
using namespace AscendC;
constexpr int64_t kCount = 203;

/// Moves all of an argument into scratch memory and back out, with flags instead of queues.
template <typename T>
class Loaded {
public:
    __aicore__ inline void Init(TPipe* pipe, GM_ADDR gm, int64_t count)
    {
        count_ = count;
        gm_.SetGlobalBuffer((__gm__ T*)gm, count);
        pipe->InitBuffer(buffer_, 8192);
    }
    __aicore__ inline LocalTensor<T> In()
    {
        DataCopyExtParams rows(1, count_ * sizeof(T), 0, 0, 0);
        DataCopyPad(buffer_.template Get<T>(), gm_, rows, DataCopyPadExtParams<T>());
        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
        return buffer_.template Get<T>();
    }
    __aicore__ inline LocalTensor<T> Out() { return buffer_.template Get<T>(); }
    __aicore__ inline void Store()
    {
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
        SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
        DataCopyExtParams rows(1, count_ * sizeof(T), 0, 0, 0);
        DataCopyPad(gm_, buffer_.template Get<T>(), rows);
    }

private:
    GlobalTensor<T> gm_;
    TBuf<TPosition::VECCALC> buffer_;
    int64_t count_ = 0;
};
"""

KERNEL = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR, GM_ADDR)
{{
    TPipe pipe;
    Loaded<{ta}> la;
    Loaded<{tb}> lb;
    Loaded<{tc}> lc;
    la.Init(&pipe, a, {na});
    lb.Init(&pipe, b, {nb});
    lc.Init(&pipe, c, {nc});
    TBuf<TPosition::VECCALC> spare;
    pipe.InitBuffer(spare, 8192);
    LocalTensor<{ta}> x = la.In();
    LocalTensor<{tb}> y = lb.In();
    LocalTensor<{tc}> z = lc.{load}();
    LocalTensor<{ta}> t = spare.Get<{ta}>();
    (void)x; (void)y; (void)z; (void)t;
    {body}
    lc.Store();
}}
"""

ELEMENTWISE = {
    "Add": ("Add(z, x, y, kCount);", np.add, INTEGERS + FLOATS),
    "Sub": ("Sub(z, x, y, kCount);", np.subtract, INTEGERS + FLOATS),
    "Mul": ("Mul(z, x, y, kCount);", np.multiply, INTEGERS + FLOATS),
    "Max": ("Max(z, x, y, kCount);", np.maximum, INTEGERS + FLOATS),
    "Min": ("Min(z, x, y, kCount);", np.minimum, INTEGERS + FLOATS),
    "Div": ("Div(z, x, y, kCount);", np.divide, FLOATS),
    "And": ("And(z, x, y, kCount);", np.bitwise_and, [np.dtype(np.int16), np.dtype(np.uint16)]),
    "Or": ("Or(z, x, y, kCount);", np.bitwise_or, [np.dtype(np.int16), np.dtype(np.uint16)]),
    "Not": ("Not(z, x, kCount);", lambda x, _: ~x, [np.dtype(np.int16), np.dtype(np.uint16)]),
    "Adds": ("Adds(z, x, static_cast<T>(3), kCount);", lambda x, _: x + x.dtype.type(3), INTEGERS + FLOATS),
    "Muls": ("Muls(z, x, static_cast<T>(3), kCount);", lambda x, _: x * x.dtype.type(3), INTEGERS + FLOATS),
    "Maxs": ("Maxs(z, x, static_cast<T>(1), kCount);", lambda x, _: np.maximum(x, x.dtype.type(1)), INTEGERS + FLOATS),
    "Mins": ("Mins(z, x, static_cast<T>(1), kCount);", lambda x, _: np.minimum(x, x.dtype.type(1)), INTEGERS + FLOATS),
    "Abs": ("Abs(z, x, kCount);", lambda x, _: np.abs(x), [np.dtype(np.int16), *FLOATS]),
    "Relu": ("Relu(z, x, kCount);", lambda x, _: np.maximum(x, x.dtype.type(0)), [np.dtype(np.int32), *FLOATS]),
    "ShiftLeft": (
        "ShiftLeft(z, x, static_cast<T>(3), kCount);",
        lambda x, _: x << x.dtype.type(3),
        [*INTEGERS, np.dtype(np.uint16), np.dtype(np.uint32)],
    ),
    "ShiftRight": (
        "ShiftRight(z, x, static_cast<T>(3), kCount);",
        lambda x, _: x >> x.dtype.type(3),
        [*INTEGERS, np.dtype(np.uint16), np.dtype(np.uint32)],
    ),
    "Sqrt": ("Abs(t, x, kCount); PipeBarrier<PIPE_V>(); Sqrt(z, t, kCount);", lambda x, _: np.sqrt(np.abs(x)), FLOATS),
    "Duplicate": (
        "Duplicate(z, static_cast<T>(5), kCount);",
        lambda x, _: np.full_like(x, 5),
        [*INTEGERS, *FLOATS, BF16, np.dtype(np.uint16), np.dtype(np.uint32)],
    ),
    "Index": (
        "CreateVecIndex(z, static_cast<T>(2), kCount);",
        lambda x, _: (2 + np.arange(COUNT)).astype(x.dtype),
        INTEGERS + FLOATS,
    ),
    "Progression": (
        "ArithProgression(z, static_cast<T>(-2), static_cast<T>(3), kCount);",
        lambda x, _: (-2 + 3 * np.arange(COUNT)).astype(x.dtype),
        INTEGERS + FLOATS,
    ),
}
APPROXIMATE = {
    "Exp": ("Exp(z, x, kCount);", np.exp),
    "Ln": ("Abs(t, x, kCount); PipeBarrier<PIPE_V>(); Ln(z, t, kCount);", lambda x: np.log(np.abs(x))),
    "Rsqrt": ("Abs(t, x, kCount); PipeBarrier<PIPE_V>(); Rsqrt(z, t, kCount);", lambda x: 1 / np.sqrt(np.abs(x))),
    "Reciprocal": ("Reciprocal(z, x, kCount);", lambda x: 1 / x),
}
MODES = {
    "CAST_NONE": np.rint,
    "CAST_RINT": np.rint,
    "CAST_FLOOR": np.floor,
    "CAST_CEIL": np.ceil,
    "CAST_ROUND": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "CAST_TRUNC": np.trunc,
}
DIRECTED = list(MODES)[1:]
CASTS = [
    (F16, F32, ["CAST_NONE"]),
    (BF16, F32, ["CAST_NONE"]),
    (F32, F16, list(MODES)),
    (F32, BF16, DIRECTED),
    (F32, np.dtype(np.int32), DIRECTED),
    (F32, np.dtype(np.int16), DIRECTED),
    (F32, np.dtype(np.int64), DIRECTED),
    (F32, F32, DIRECTED),
    (np.dtype(np.int32), F32, ["CAST_NONE"]),
    (np.dtype(np.int32), np.dtype(np.int16), ["CAST_NONE"]),
    (np.dtype(np.int32), np.dtype(np.int64), ["CAST_NONE"]),
    (np.dtype(np.int64), np.dtype(np.int32), ["CAST_NONE"]),
    (np.dtype(np.int64), F32, ["CAST_RINT"]),
    (F16, np.dtype(np.int32), DIRECTED),
    (F16, np.dtype(np.int8), ["CAST_NONE", "CAST_TRUNC"]),
    (F16, np.dtype(np.uint8), ["CAST_RINT"]),
    (np.dtype(np.int8), F16, ["CAST_NONE"]),
    (np.dtype(np.uint8), F16, ["CAST_NONE"]),
    (np.dtype(np.int16), F32, ["CAST_NONE"]),
    (BF16, np.dtype(np.int32), ["CAST_RINT", "CAST_FLOOR"]),
]
LANE_BITS = 0x8000F0F000000013


def _masked_select(dtype, scalar, lanes):
    """Return a row of FORMS: Select with three repeats of which `lanes` selects elements."""
    per_repeat = 256 // dtype.itemsize
    count, kind = 3 * per_repeat, CPP[dtype]
    other, mode = (f"static_cast<{kind}>(0.5f)", "SCALAR") if scalar else (f"y[{count}]", "TENSOR")
    body = f"Select(z, x, y, {other}, SELMODE::VSEL_TENSOR_{mode}_MODE, lanes, 3, {{1, 1, 1, 8, 8, 8}});"
    return f"{lanes} {body}", (np.dtype(np.uint8), dtype, dtype), (count // 8, 2 * count, count), True


# name -> (body, dtypes of a, b, c, their lengths, whether c is read)
FORMS = {
    "select_leading": _masked_select(F32, True, "const uint64_t lanes = 20;"),
    "select_bits": _masked_select(F32, False, f"uint64_t lanes[2] = {{{LANE_BITS}ull, 0}};"),
    "select_bits_half": _masked_select(F16, True, f"uint64_t lanes[2] = {{{LANE_BITS}ull, 1}};"),
    "select_same_bits": (
        (
            f"uint64_t lanes[2] = {{{LANE_BITS}ull, 0}};"
            "Select(z, x, y, y[192], SELMODE::VSEL_CMPMASK_SPR, lanes, 3, {1, 1, 1, 8, 8, 8});"
        ),
        (np.dtype(np.uint8), F32, F32),
        (8, 384, 192),
        True,
    ),
    "leading_mask": ("Add(z, x, y, 40, 4, {1, 1, 1, 8, 8, 8});", (F32, F32, F32), (256, 256, 256), True),
    "bit_mask": (
        "uint64_t m[2] = {0x8000000000000005ull, 0}; Add(z, x, y, m, 4, {1, 1, 1, 8, 8, 8});",
        (F32, F32, F32),
        (256, 256, 256),
        True,
    ),
    "bit_mask_half": (
        "uint64_t m[2] = {6, 1ull << 63}; Mul(z, x, y, m, 2, {1, 1, 1, 8, 8, 8});",
        (F16, F16, F16),
        (256, 256, 256),
        True,
    ),
    "strides": ("Add(z, x, y, 64, 2, {2, 1, 0, 16, 8, 8});", (F32, F32, F32), (128, 128, 256), True),
    "row_broadcast": ("Mul(z, x, y, 64, 4, {1, 1, 1, 8, 8, 0});", (F32, F32, F32), (256, 64, 256), True),
    "fold_rows": ("Add(z, x, z, 64, 4, {1, 1, 1, 0, 8, 0});", (F32, F32, F32), (256, 64, 64), True),
    "counter": (
        (
            "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(100); const uint64_t placeholder = 0;"
            "Adds<float, false>(z, x, 1.0f, placeholder, 1, {1, 1, 8, 8}); SetMaskNorm(); ResetMask();"
        ),
        (F32, F32, F32),
        (256, 64, 256),
        True,
    ),
    "cast_narrow": ("Cast(z, x, RoundMode::CAST_RINT, 64, 4, {1, 1, 4, 8});", (F32, F32, F16), (256, 64, 256), True),
    "copy": ("Copy(z, x, 64, 2, {1, 1, 8, 16});", (F32, F32, F32), (256, 64, 128), True),
    "copy_counter": (
        (
            "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(72);"
            "Copy<float, false>(z, x, MASK_PLACEHOLDER, 2, {1, 2, 9, 18}); SetMaskNorm(); ResetMask();"
        ),
        (F32, F32, F32),
        (288, 64, 144),
        True,
    ),
    "axpy": ("Axpy(z, x, static_cast<half>(0.5f), 203);", (F16, F16, F32), (203, 64, 203), True),
    "mul_add": ("MulAddDst(z, x, y, 203);", (F32, F32, F32), (203, 203, 203), True),
    "reduce_sum": ("ReduceSum(z, x, t, 203);", (F32, F32, F32), (203, 64, 1), False),
    "reduce_sum_half": ("ReduceSum(z, x, t, 203);", (F16, F16, F16), (203, 64, 1), False),
    "reduce_sum_repeats": ("ReduceSum(z, x, t, 50, 4, 8);", (F32, F32, F32), (256, 64, 1), False),
    "reduce_max": ("ReduceMax(z, x, t, 203, true);", (F32, F32, F32), (203, 64, 2), False),
    "reduce_min": ("ReduceMin(z, x, t, 203, true);", (F16, F16, F16), (203, 64, 2), False),
    "whole_sum": ("WholeReduceSum(z, x, 64, 4, 1, 1, 8);", (F32, F32, F32), (256, 64, 4), False),
    "whole_max": ("WholeReduceMax(z, x, 60, 4, 1, 1, 8);", (F32, F32, F32), (256, 64, 8), False),
    "block_sum": ("BlockReduceSum(z, x, 4, 64, 1, 1, 8);", (F32, F32, F32), (256, 64, 32), False),
    "pair_sum": ("PairReduceSum(z, x, 4, 64, 1, 1, 8);", (F32, F32, F32), (256, 64, 128), False),
    "brcb": ("Brcb(z, x, 2, {1, 8});", (F32, F32, F32), (16, 64, 128), False),
    "compare": ("Compare(z, x, y, CMPMODE::LT, 128);", (F32, F32, np.dtype(np.uint8)), (128, 128, 16), False),
    "compare_scalar": (
        "CompareScalar(z, x, 0.0f, CMPMODE::GE, 128);",
        (F32, F32, np.dtype(np.uint8)),
        (128, 64, 16),
        False,
    ),
    "compare_equal": (
        "CompareScalar(z, x, static_cast<int32_t>(3), CMPMODE::EQ, 128);",
        (np.dtype(np.int32), F32, np.dtype(np.uint8)),
        (128, 64, 16),
        False,
    ),
    "select": (
        "Select(z, x, y, y[128], SELMODE::VSEL_TENSOR_TENSOR_MODE, 128);",
        (np.dtype(np.uint8), F32, F32),
        (16, 256, 128),
        False,
    ),
    "select_scalar": (
        "Select(z, x, y, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 128);",
        (np.dtype(np.uint8), F32, F32),
        (16, 128, 128),
        False,
    ),
    "gather": ("Gather(z, x, y, 0, 100);", (F32, np.dtype(np.uint32), F32), (200, 100, 100), False),
    "gather_half": ("Gather(z, x, y, 0, 128, 2, 8);", (F16, np.dtype(np.uint32), F16), (200, 256, 256), False),
    "select_register": (
        (
            "const uint64_t all = 64; Compare(x, y, CMPMODE::GT, all, {1, 1, 1, 8, 8, 8});"
            "Select<float, SELMODE::VSEL_CMPMASK_SPR>(z, x[64], y[64], 2, {1, 1, 1, 8, 8, 8});"
        ),
        (F32, F32, F32),
        (192, 192, 128),
        False,
    ),
    "gather_mask": (
        (
            "uint64_t kept = 0; GatherMask(z, x, 2, false, 0, {1, 2, 8, 0}, kept);"
            "z.SetValue(64, static_cast<float>(kept + static_cast<uint64_t>(GetGatherMaskRemainCount()) * 1000));"
        ),
        (F32, F32, F32),
        (128, 64, 65),
        False,
    ),
    "gather_bits": (
        (
            "uint64_t kept = 0; GatherMask(z, x, y, true, 60, {1, 1, 0, 0}, kept);"
            "z.SetValue(30, static_cast<float>(kept));"
        ),
        (F32, np.dtype(np.uint32), F32),
        (64, 8, 31),
        False,
    ),
    "local_copy": ("DataCopy(z, x, {2, 2, 1, 0});", (F32, F32, F32), (64, 64, 32), False),
}


def _misplaced(body):
    """Return the body with an operand, the source if there is one, that is not at a multiple of 32 bytes."""
    misplaced = re.sub(r"\(z, ([xt])(?=[,)])", r"(z, \1[1]", body, count=1)
    return misplaced if misplaced != body else re.sub(r"\(z(?=,)", "(z[1]", body, count=1)


def _misuses():
    """Return a planted mistake for each instruction: a name, its body, and its types and lengths."""
    for name, (body, _, dtypes) in ELEMENTWISE.items():
        yield name, body, (dtypes[0],) * 3, (COUNT,) * 3
    for name, (body, _) in APPROXIMATE.items():
        yield name, body, (F32,) * 3, (COUNT,) * 3
    yield "Cast", "Cast(z, x, RoundMode::CAST_RINT, kCount);", (F32, F32, F16), (COUNT, 8, COUNT)
    for name, (body, dtypes, lengths, _) in FORMS.items():
        yield name, body, dtypes, lengths


def _source() -> str:
    parts = [FRAME]

    def add(name, body, dtypes, lengths, load="In"):
        ta, tb, tc = (CPP[np.dtype(dtype)] for dtype in dtypes)
        na, nb, nc = lengths
        parts.append(
            KERNEL.format(name=name, body=body, ta=ta, tb=tb, tc=tc, na=na, nb=nb, nc=nc, load=load).replace(
                "static_cast<T>", f"static_cast<{ta}>"
            )
        )

    for name, (body, _, dtypes) in ELEMENTWISE.items():
        for dtype in dtypes:
            add(f"{name}_{dtype.name}", body, (dtype,) * 3, (COUNT,) * 3, "Out")
    for name, (body, _) in APPROXIMATE.items():
        for dtype in FLOATS:
            add(f"{name}_{dtype.name}", body, (dtype,) * 3, (COUNT,) * 3, "Out")
    for src, dst, modes in CASTS:
        for mode in modes:
            body = f"Cast(z, x, RoundMode::{mode}, kCount);"
            add(f"Cast_{src.name}_{dst.name}_{mode}", body, (src, F32, dst), (COUNT, 8, COUNT), "Out")
    for name, (body, dtypes, lengths, reads) in FORMS.items():
        add(
            name,
            body,
            dtypes,
            lengths,
            "In" if reads else "Out",
        )
    for name, body, dtypes, lengths in _misuses():
        add(f"{name}_misplaced", _misplaced(body), dtypes, lengths)
    return "".join(parts)


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(_source())


def _random(dtype, count, seed=1):
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        low = 0 if np.dtype(dtype).kind == "u" else -100
        return random.integers(low, 100, count).astype(dtype)
    return (random.standard_normal(count) * 4).astype(np.float32).astype(dtype)


def function_of(body):
    """Return the function that writes the result of a body."""
    return re.findall(r"(\w+)(?:<[^>]*>)?\(z", body)[0]


RATES = {"Div": DIV, "Exp": SLOW, "Ln": SLOW, "Sqrt": SLOW}
REGISTERS = dict.fromkeys(("SetMaskCount", "SetVectorMask", "SetMaskNorm", "ResetMask"), FREE)
FORM_TIMES = {
    "select_leading": {"Select": vector(3)},
    "select_bits": {"Select": vector(3)},
    "select_bits_half": {"Select": vector(3)},
    "select_same_bits": {"Select": vector(3)},
    "leading_mask": {"Add": vector(4, TWO_OPERANDS)},
    "bit_mask": {"Add": vector(4, TWO_OPERANDS)},
    "bit_mask_half": {"Mul": vector(2, TWO_OPERANDS)},
    "strides": {"Add": vector(2, TWO_OPERANDS)},
    "row_broadcast": {"Mul": vector(4, TWO_OPERANDS)},
    "fold_rows": {"Add": vector(4, TWO_OPERANDS)},
    "counter": {"Adds": vector(2), **REGISTERS},
    "cast_narrow": {"Cast": vector(4)},
    "copy": {"Copy": vector(2)},
    "copy_counter": {"Copy": vector(2, instructions=2), **REGISTERS},
    "axpy": {"Axpy": vector(4)},
    "mul_add": {"MulAddDst": vector(4, TWO_OPERANDS)},
    "reduce_sum": {"ReduceSum": vector(4)},
    "reduce_sum_half": {"ReduceSum": vector(2)},
    "reduce_sum_repeats": {"ReduceSum": vector(4)},
    "reduce_max": {"ReduceMax": vector(4)},
    "reduce_min": {"ReduceMin": vector(2)},
    "whole_sum": {"WholeReduceSum": vector(4)},
    "whole_max": {"WholeReduceMax": vector(4)},
    "block_sum": {"BlockReduceSum": vector(4)},
    "pair_sum": {"PairReduceSum": vector(4)},
    "brcb": {"Brcb": vector(2)},
    "compare": {"Compare": vector(2)},
    "compare_scalar": {"CompareScalar": vector(2)},
    "compare_equal": {"CompareScalar": vector(2)},
    "select": {"Select": vector(2, TWO_OPERANDS)},
    "select_scalar": {"Select": vector(2)},
    "gather": {"Gather": vector(100, MODEL["gather_cycles_per_element"])},
    "gather_half": {"Gather": vector(256, MODEL["gather_cycles_per_element"])},
    "select_register": {"Compare": vector(1), "Select": vector(2, TWO_OPERANDS)},
    "gather_mask": {"GatherMask": vector(2, MODEL["gather_mask_cycles_per_repeat"]), "GetGatherMaskRemainCount": FREE},
    "gather_bits": {
        "GatherMask": vector(1, MODEL["gather_mask_cycles_per_repeat"]) + MODEL["gather_mask_tensor_cycles"]
    },
    "local_copy": {"DataCopy": vector(2)},
}


def times():
    """Return the cycles of the functions by kernel."""
    found = dict(FORM_TIMES)
    for name, (body, _, dtypes) in (ELEMENTWISE | {n: (*row, FLOATS) for n, row in APPROXIMATE.items()}).items():
        each = RATES.get(function_of(body), TWO_OPERANDS if " y" in body else FAST)
        for dtype in dtypes:
            found[f"{name}_{dtype.name}"] = {function_of(body): vector(repeats(COUNT, dtype.itemsize), each)}
    for src, dst, modes in CASTS:
        for mode in modes:
            number = repeats(COUNT, max(src.itemsize, dst.itemsize))
            found[f"Cast_{src.name}_{dst.name}_{mode}"] = {"Cast": vector(number)}
    return found


def _call(kernels, name, a, b, c):
    cycles, expected = kernels.cycles(name, a, b, c), times()[name]
    assert {function: cycles.get(function, FREE) for function in expected} == pytest.approx(expected)
    return c


@pytest.mark.parametrize(("name", "body", "dtypes", "lengths"), list(_misuses()), ids=[row[0] for row in _misuses()])
def test_an_operand_between_blocks_is_a_finding(kernels, record_planted, name, body, dtypes, lengths):
    api = function_of(body)
    arrays = [_random(dtype, count) for dtype, count in zip(dtypes, lengths, strict=True)]
    findings = kernels.launch(f"{name}_misplaced", *arrays)["findings"]
    assert [finding["kind"] for finding in findings] == ["ub_misaligned"], (_misplaced(body), findings)
    assert f": {api}: " in findings[0]["message"]
    record_planted(name, findings[0])


@pytest.mark.parametrize("name", [f"{name}_{dtype.name}" for name, row in ELEMENTWISE.items() for dtype in row[2]])
def test_elementwise(kernels, name):
    op, dtype = name.rsplit("_", 1)
    dtype = BF16 if dtype == "bfloat16" else np.dtype(dtype)
    a, b = _random(dtype, COUNT, 1), _random(dtype, COUNT, 2)
    expected = ELEMENTWISE[op][1](a, b).astype(dtype)
    np.testing.assert_array_equal(_call(kernels, name, a, b, np.zeros(COUNT, dtype)), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", APPROXIMATE)
def test_functions(kernels, op, dtype):
    a = _random(dtype, COUNT)
    a[a == 0] = 1
    with np.errstate(over="ignore"):
        expected = APPROXIMATE[op][1](a.astype(np.float64)).astype(dtype)
    got = _call(kernels, f"{op}_{dtype.name}", a, a.copy(), np.zeros(COUNT, dtype))
    np.testing.assert_array_max_ulp(got, expected, maxulp=2)


def _directed(values, dst, mode):
    """Return every float32 between two neighbors of the format `dst`, rounded by `mode`, from the definition."""
    below = values.astype(np.float64)
    bits, lowest = (11, -14) if dst == F16 else (8, -126)
    exponent = np.floor(np.log2(np.abs(below), where=below != 0, out=np.zeros_like(below)))
    quantum = 2.0 ** (np.maximum(exponent, lowest) - (bits - 1))
    return (MODES[mode](below / quantum) * quantum).astype(np.float32).astype(dst)


@pytest.mark.parametrize(("src", "dst", "mode"), [(s, d, m) for s, d, modes in CASTS for m in modes])
def test_casts(kernels, src, dst, mode):
    a = _random(src, COUNT)
    if src.kind not in "iu" and src == F32:
        a[:6] = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
    if src == np.dtype(np.int64):
        a[:3] = [2**40 + 3, -(2**40), 2**31]
    got = _call(kernels, f"Cast_{src.name}_{dst.name}_{mode}", a, np.zeros(8, np.float32), np.zeros(COUNT, dst))
    wide = a.astype(np.float64)
    if dst.kind in "iu":
        info = np.iinfo(dst)
        rounded = wide if src.kind in "iu" else MODES[mode](wide)
        expected = np.array([min(max(int(value), info.min), info.max) for value in rounded], dtype=dst)
    elif src == F32 and dst in (F16, BF16):
        expected = _directed(a, dst, mode)
    elif src == F32:
        expected = MODES[mode](wide).astype(dst)
    else:
        expected = a.astype(dst)
    np.testing.assert_array_equal(got, expected)


def test_casts_at_the_ends_of_the_formats(kernels):
    a = np.zeros(COUNT, np.float32)
    a[:8] = [np.nan, np.inf, -np.inf, 65520.0, 65519.0, 1e-8, -2.98e-8, 3.0e-8]
    nothing = np.zeros(8, np.float32)
    with np.errstate(over="ignore"):
        expected = a.astype(np.float16)
    half = _call(kernels, "Cast_float32_float16_CAST_RINT", a, nothing, np.zeros(COUNT, F16))
    np.testing.assert_array_equal(half, expected)
    floor = _call(kernels, "Cast_float32_float16_CAST_FLOOR", a, nothing, np.zeros(COUNT, F16))
    np.testing.assert_array_equal(floor[1:7], np.array([np.inf, -np.inf, 65504, 65504, 0, -(2.0**-24)], F16))
    whole = _call(kernels, "Cast_float32_int32_CAST_RINT", a, nothing, np.zeros(COUNT, np.int32))
    np.testing.assert_array_equal(whole[:4], [0, 2**31 - 1, -(2**31), 65520])


def _f32(*counts):
    return tuple(_random(np.float32, count, 10 + count + i) for i, count in enumerate(counts))


def test_leading_mask_keeps_other_elements(kernels):
    a, b, c = _f32(256, 256, 256)
    expected = c.copy().reshape(4, 64)
    expected[:, :40] = (a + b).reshape(4, 64)[:, :40]
    np.testing.assert_array_equal(_call(kernels, "leading_mask", a, b, c), expected.ravel())


def test_bit_mask_picks_elements(kernels):
    a, b, c = _f32(256, 256, 256)
    expected = c.copy().reshape(4, 64)
    expected[:, [0, 2, 63]] = (a + b).reshape(4, 64)[:, [0, 2, 63]]
    np.testing.assert_array_equal(_call(kernels, "bit_mask", a, b, c), expected.ravel())
    a, b, c = (array.astype(F16) for array in _f32(256, 256, 256))
    expected = c.copy().reshape(2, 128)
    expected[:, [1, 2, 127]] = (a * b).reshape(2, 128)[:, [1, 2, 127]]
    np.testing.assert_array_equal(_call(kernels, "bit_mask_half", a, b, c), expected.ravel())


def test_strides_count_blocks(kernels):
    a, b, c = _f32(128, 128, 256)
    expected = c.copy().reshape(2, 8, 2, 8)
    expected[:, :, 0, :] = a.reshape(2, 8, 8) + b.reshape(2, 8, 8)[:, :1]
    np.testing.assert_array_equal(_call(kernels, "strides", a, b, c), expected.ravel())


def test_repeat_stride_zero(kernels):
    a, b, c = _f32(256, 64, 256)
    np.testing.assert_array_equal(_call(kernels, "row_broadcast", a, b, c), (a.reshape(4, 64) * b).ravel())
    a, b, c = _f32(256, 64, 64)
    expected = c.copy()
    for row in a.reshape(4, 64):
        expected = row + expected
    np.testing.assert_array_equal(_call(kernels, "fold_rows", a, b, c), expected)


def test_counter_mode_counts_elements(kernels):
    a, b, c = _f32(256, 64, 256)
    expected = c.copy()
    expected[:100] = a[:100] + 1
    np.testing.assert_array_equal(_call(kernels, "counter", a, b, c), expected)


def test_cast_and_copy_with_repeats(kernels):
    a, b, _ = _f32(256, 64, 1)
    np.testing.assert_array_equal(_call(kernels, "cast_narrow", a, b, np.zeros(256, F16)), a.astype(F16))
    expected = np.concatenate([a[:64], a[128:192]])
    np.testing.assert_array_equal(_call(kernels, "copy", a, b, np.zeros(128, np.float32)), expected)


def test_a_copy_in_counter_mode_counts_the_elements_of_each_repeat(kernels):
    a, b, c = _f32(288, 64, 144)
    np.testing.assert_array_equal(_call(kernels, "copy_counter", a, b, c), a.reshape(36, 8)[::2].ravel())


def test_fused_instructions_round_once(kernels):
    a, b, c = _random(F16, 203), _random(F16, 64), _random(F32, 203, 3)
    expected = (c.astype(np.float64) + a.astype(np.float64) * 0.5).astype(np.float32)
    np.testing.assert_array_equal(_call(kernels, "axpy", a, b, c), expected)
    a, b, c = _f32(203, 203, 203)
    expected = (c.astype(np.longdouble) + a.astype(np.longdouble) * b.astype(np.longdouble)).astype(np.float32)
    np.testing.assert_array_equal(_call(kernels, "mul_add", a, b, c), expected)


def _tree(values):
    while len(values) > 1:
        values = values[0::2] + values[1::2]
    return values[0]


def _rows(a, width):
    padded = np.zeros(-(-len(a) // width) * width, a.dtype)
    padded[: len(a)] = a
    return padded.reshape(-1, width)


@pytest.mark.parametrize(("name", "dtype"), [("reduce_sum", F32), ("reduce_sum_half", F16)])
def test_reduce_sum_is_a_tree_in_a_repeat_and_a_chain_over_repeats(kernels, name, dtype):
    a = _random(dtype, 203)
    expected = dtype.type(0)
    for row in _rows(a, 256 // dtype.itemsize):
        expected = dtype.type(expected + _tree(row))
    got = _call(kernels, name, a, np.zeros(64, dtype), np.zeros(1, dtype))
    assert got[0] == expected


def test_reductions_of_repeats(kernels):
    a, b, _ = _f32(256, 64, 1)
    rows = a.reshape(4, 64)
    sums = np.array([_tree(row) for row in rows])
    np.testing.assert_array_equal(_call(kernels, "whole_sum", a, b, np.zeros(4, F32)), sums)
    pairs = rows.reshape(4, 32, 2).sum(axis=2)
    np.testing.assert_array_equal(_call(kernels, "pair_sum", a, b, np.zeros(128, F32)), pairs.ravel())
    blocks = np.array([_tree(block) for block in a.reshape(32, 8)])
    np.testing.assert_array_equal(_call(kernels, "block_sum", a, b, np.zeros(32, F32)), blocks)
    masked = np.where(np.arange(64) < 50, rows, np.float32(0))
    total = _tree(np.concatenate([[_tree(row) for row in masked], np.zeros(60, F32)]).astype(F32))
    assert _call(kernels, "reduce_sum_repeats", a, b, np.zeros(1, F32))[0] == total
    best = _call(kernels, "whole_max", a, b, np.zeros(8, F32)).reshape(4, 2)
    np.testing.assert_array_equal(best[:, 0], rows[:, :60].max(axis=1))
    np.testing.assert_array_equal(best[:, 1].copy().view(np.uint32), rows[:, :60].argmax(axis=1))


def test_extremes_return_the_first_index(kernels):
    a = _random(F32, 203)
    a[[50, 150]] = 99
    got = _call(kernels, "reduce_max", a, np.zeros(64, F32), np.zeros(2, F32))
    assert got[0] == 99
    assert got.view(np.uint32)[1] == 50
    a = _random(F16, 203)
    a[[7, 201]] = -99
    got = _call(kernels, "reduce_min", a, np.zeros(64, F16), np.zeros(2, F16))
    assert got[0] == -99
    assert got.view(np.uint16)[1] == 7


def test_broadcast_of_scalars_to_blocks(kernels):
    a, b, _ = _f32(16, 64, 1)
    np.testing.assert_array_equal(_call(kernels, "brcb", a, b, np.zeros(128, F32)), np.repeat(a, 8))


def test_comparisons_give_bits(kernels):
    a, b, _ = _f32(128, 128, 1)
    a[5], b[7] = np.nan, np.nan
    bits = np.packbits(a < b, bitorder="little")
    np.testing.assert_array_equal(_call(kernels, "compare", a, b, np.zeros(16, np.uint8)), bits)
    bits = np.packbits(a >= 0, bitorder="little")
    np.testing.assert_array_equal(_call(kernels, "compare_scalar", a, b[:64].copy(), np.zeros(16, np.uint8)), bits)
    whole = np.arange(128, dtype=np.int32) % 5
    bits = np.packbits(whole == 3, bitorder="little")
    np.testing.assert_array_equal(_call(kernels, "compare_equal", whole, b[:64].copy(), np.zeros(16, np.uint8)), bits)


def test_select_uses_bit_masks(kernels):
    mask = np.random.default_rng(5).integers(0, 256, 16).astype(np.uint8)
    takes = np.unpackbits(mask, bitorder="little").astype(bool)
    a = _random(F32, 256)
    expected = np.where(takes, a[:128], a[128:])
    np.testing.assert_array_equal(_call(kernels, "select", mask, a, np.zeros(128, F32)), expected)
    expected = np.where(takes, a[:128], np.float32(0))
    np.testing.assert_array_equal(_call(kernels, "select_scalar", mask, a[:128].copy(), np.zeros(128, F32)), expected)


@pytest.mark.parametrize(
    ("name", "dtype", "words"),
    [
        ("select_leading", F32, (2**20 - 1,)),
        ("select_bits", F32, (LANE_BITS,)),
        ("select_bits_half", F16, (LANE_BITS, 1)),
        ("select_same_bits", F32, (LANE_BITS,)),
    ],
)
def test_each_repeat_of_select_has_its_bits(kernels, name, dtype, words):
    """A mask that excludes elements does not move the bits of the others."""
    lanes = np.unpackbits(np.array(words, np.uint64).view(np.uint8), bitorder="little").astype(bool)
    count = 3 * lanes.size
    mask = np.random.default_rng(6).integers(0, 256, FORMS[name][2][0]).astype(np.uint8)
    takes = np.resize(np.unpackbits(mask, bitorder="little").astype(bool), count)
    values, before = _random(dtype, 2 * count), _random(dtype, count, 3)
    others = dtype.type(0.5) if name in ("select_leading", "select_bits_half") else values[count:]
    expected = np.where(np.tile(lanes, 3), np.where(takes, values[:count], others), before)
    np.testing.assert_array_equal(_call(kernels, name, mask, values, before.copy()), expected)


def test_a_comparison_of_one_repeat_selects_in_all_of_them(kernels):
    a, b, c = _f32(192, 192, 128)
    first = np.tile(a[:64] > b[:64], 2)
    np.testing.assert_array_equal(_call(kernels, "select_register", a, b, c), np.where(first, a[64:], b[64:]))


def test_gathers(kernels):
    a = _random(F32, 200)
    index = np.random.default_rng(6).integers(0, 200, 100)
    got = _call(kernels, "gather", a, (index * 4).astype(np.uint32), np.zeros(100, F32))
    np.testing.assert_array_equal(got, a[index])
    halves, places = _random(F16, 200), np.random.default_rng(3).integers(0, 200, 256)
    got = _call(kernels, "gather_half", halves, (places * 2).astype(np.uint32), np.zeros(256, F16))
    np.testing.assert_array_equal(got, halves[places])
    a, b, _ = _f32(128, 64, 1)
    got = _call(kernels, "gather_mask", a, b, np.zeros(65, F32))
    np.testing.assert_array_equal(got, np.append(a[1::2], 64064))
    bits = np.zeros(8, np.uint32)
    bits[0] = 0x55555555
    bits[1] = 0x05555555
    got = _call(kernels, "gather_bits", a[:64].copy(), bits, np.zeros(31, F32))
    np.testing.assert_array_equal(got, np.append(a[:60:2], 30))


def test_copy_inside_the_unified_buffer(kernels):
    a, b, _ = _f32(64, 64, 1)
    expected = np.concatenate([a[:16], a[24:40]])
    np.testing.assert_array_equal(_call(kernels, "local_copy", a, b, np.zeros(32, F32)), expected)


HALVES = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void scalars(GM_ADDR bits, GM_ADDR wide, GM_ADDR narrow, GM_ADDR, GM_ADDR)
{
    GlobalTensor<half> bitsGm;
    GlobalTensor<float> wideGm;
    GlobalTensor<half> narrowGm;
    bitsGm.SetGlobalBuffer((__gm__ half*)bits);
    wideGm.SetGlobalBuffer((__gm__ float*)wide);
    narrowGm.SetGlobalBuffer((__gm__ half*)narrow);
    for (int64_t i = 0; i < 65536; ++i) {
        const half value = bitsGm.GetValue(i);
        narrowGm.SetValue(i, half(wideGm.GetValue(i)));
        wideGm.SetValue(i, static_cast<float>(value));
    }
    DataCacheCleanAndInvalid<half, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(narrowGm);
}
static_assert(half(1.0f) + half(2.0f) == 3.0f && half(65504.0f) * half(2.0f) > 65504.0f);
static_assert(std::is_same_v<decltype(half(1) + 1.0f), float> && std::is_same_v<decltype(half(1) * half(1)), half>);
"""


def test_scalar_halves_convert_as_numpy_does(compile_kernels):
    bits = np.arange(65536, dtype=np.uint16)
    random = np.random.default_rng(8)
    wide = random.integers(0, 2**32, 65536, dtype=np.uint64).astype(np.uint32).view(np.float32)
    wide[:4096] = (random.standard_normal(4096) * 1e-5).astype(np.float32)
    wide[4096:8192] = random.standard_normal(4096).astype(np.float32)
    given, narrow = wide.copy(), np.zeros(65536, np.float16)
    compile_kernels(HALVES).run("scalars", bits.view(np.float16), wide, narrow)
    np.testing.assert_array_equal(wide, bits.view(np.float16).astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(narrow, given.astype(np.float16))


SCALARS = """#include "kernel_operator.h"
template <typename T, typename U>
__aicore__ inline void Convert(GM_ADDR x, GM_ADDR y)
{
    AscendC::GlobalTensor<T> from;
    AscendC::GlobalTensor<U> to;
    from.SetGlobalBuffer((__gm__ T*)x, 203);
    to.SetGlobalBuffer((__gm__ U*)y, 203);
    for (uint32_t i = 0; i < 203; ++i) {
        to.SetValue(i, static_cast<U>(from.GetValue(i)));
    }
    AscendC::DataCacheCleanAndInvalid<U, AscendC::CacheLine::ENTIRE_DATA_CACHE, AscendC::DcciDst::CACHELINE_OUT>(to);
}
"""
SCALAR_TYPES = [np.dtype(name) for name in ("float16", "float32", "int16", "uint16", "int32", "int64")]
SCALARS += "".join(
    f'extern "C" __global__ __aicore__ void {name}_{dtype.name}(GM_ADDR x, GM_ADDR y) {{ Convert<{types}>(x, y); }}\n'
    for dtype in SCALAR_TYPES
    for name, types in (("to", f"{CPP[dtype]}, bfloat16_t"), ("from", f"bfloat16_t, {CPP[dtype]}"))
    if name == "to" or dtype == F32
)


@pytest.mark.parametrize(
    ("src", "dst"), [*((dtype, BF16) for dtype in SCALAR_TYPES), (BF16, F32)], ids=lambda dtype: dtype.name
)
def test_scalar_casts_of_bfloat16(src, dst):
    """Casts of the scalar unit round to nearest even, like ml_dtypes."""
    values = _random(np.float32, COUNT)
    if src.kind in "iu":
        values = np.linspace(0, np.iinfo(src).max // 2, COUNT)
    else:
        values[:8] = [1.00390625, 1.01171875, -1.00390625, np.inf, -np.inf, np.nan, 1e-40, 65504]
    x, y = values.astype(src), np.zeros(COUNT, dst)
    words = [array.view(np.uint16) if array.dtype == BF16 else array for array in (x, y)]
    name = f"to_{src.name}" if dst == BF16 else f"from_{dst.name}"
    assert not launch(SCALARS, name, 1, words, lint=False)
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32).astype(dst).astype(np.float32))
