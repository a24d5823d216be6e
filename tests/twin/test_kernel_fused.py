"""Test instructions that compute and convert in one step against NumPy, with a planted mistake each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from charged import FREE, TWO_OPERANDS, UB, repeats, vector
from instruction_rows import Array, Row, check_mistake, check_numbers, source_of
from test_kernel_numbers import CPP, F16, F32

pytestmark = pytest.mark.slow

I8, U8, I16, I32, U64 = (np.dtype(name) for name in ("i1", "u1", "i2", "i4", "u8"))


def _narrow(values: Array, dtype: np.dtype[Any]) -> Array:
    """Round to nearest even, and saturate integers."""
    if dtype.kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max).astype(dtype)


FORMULAS = {
    "AddReluCast": lambda a, b: np.maximum(a + b, a.dtype.type(0)),
    "SubReluCast": lambda a, b: np.maximum(a - b, a.dtype.type(0)),
    "MulCast": lambda a, b: a * b,
}
PAIRS = {
    "AddReluCast": [(F16, I8), (I16, I8), (F32, F16)],
    "SubReluCast": [(F16, I8), (I16, I8), (F32, F16)],
    "MulCast": [(F16, I8), (F16, U8)],
}
COUNTS = [
    Row(
        f"{name}_{src.name}_{dst.name}",
        f"{name}(z, x, y, kCount);",
        (src, src, dst),
        (203,) * 3,
        lambda a, b, c, f=FORMULAS[name]: _narrow(f(a, b), c.dtype),
        (f"{name}(z, x[1], y, 64);", "ub_misaligned"),
        {name: vector(repeats(203, src.itemsize), TWO_OPERANDS)},
    )
    for name, pairs in PAIRS.items()
    for src, dst in pairs
]


def _masked(name: str, src: np.dtype[Any], dst: np.dtype[Any], bits: str) -> Row:
    """Return a row with two repeats of which a mask selects some elements."""
    per_repeat = 256 // src.itemsize
    stride = 8 * dst.itemsize // src.itemsize
    call = f"{bits} {name}(z, x, y, mask, 2, {{1, 1, 1, {stride}, 8, 8}});"

    def expected(a: Array, b: Array, c: Array) -> Array:
        result = c.reshape(2, per_repeat)
        chosen = np.zeros(per_repeat, bool)
        chosen[[0, 2, 63] if "[" in bits else slice(40)] = True
        result[:, chosen] = _narrow(FORMULAS[name](a, b), dst).reshape(2, per_repeat)[:, chosen]
        return result.ravel()

    form = "bits" if "[" in bits else "leading"
    wrong = call.replace("mask, 2", "mask, 300")
    times = {name: vector(2, TWO_OPERANDS)}
    return Row(f"{name}_{form}", call, (src, src, dst), (2 * per_repeat,) * 3, expected, (wrong, "field_range"), times)


REPEATS = [
    _masked("AddReluCast", F32, F16, "const uint64_t mask = 40;"),
    _masked("AddReluCast", F16, I8, "uint64_t mask[2] = {0x8000000000000005ull, 0};"),
    _masked("SubReluCast", I16, I8, "const uint64_t mask = 40;"),
    _masked("SubReluCast", F32, F16, "uint64_t mask[2] = {0x8000000000000005ull, 0};"),
    _masked("MulCast", F16, U8, "const uint64_t mask = 40;"),
    _masked("MulCast", F16, I8, "uint64_t mask[2] = {0x8000000000000005ull, 0};"),
]


def _add_deq_relu(a: Array, b: Array, *_: Array) -> Array:
    return np.maximum((a + b).astype(np.float32) * np.float32(0.25), 0)


SIX = {"AddDeqRelu": vector(4, instructions=5) + vector(4, TWO_OPERANDS), "SetDeqScale": FREE}
SCALE = "SetDeqScale(half(0.25f));"
DEQUANT = [
    Row(
        "add_deq_relu",
        f"{SCALE} AddDeqRelu(z, x, y, kCount);",
        (I32, I32, F16),
        (203,) * 3,
        _add_deq_relu,
        ("AddDeqRelu(z, x, y, kCount);", "cast_mode"),
        SIX,
    ),
    Row(
        "add_deq_relu_repeats",
        f"{SCALE} AddDeqRelu(z, x, y, 64, 4, {{1, 1, 1, 4, 8, 8}});",
        (I32, I32, F16),
        (256,) * 3,
        _add_deq_relu,
        (f"{SCALE} AddDeqRelu(z, x[4], y, 64, 3, {{1, 1, 1, 4, 8, 8}});", "ub_misaligned"),
        SIX,
    ),
    Row(
        "add_deq_relu_scratch",
        f"{SCALE} uint64_t mask[2] = {{~uint64_t{{0}}, 0}}; AddDeqRelu<half, int32_t>(z, x, y, mask, 4, "
        "{1, 1, 1, 4, 8, 8});",
        (I32, I32, F16),
        (256,) * 3,
        _add_deq_relu,
        (f"{SCALE} TBuf<> all; pipe.InitBuffer(all, 163584); AddDeqRelu(z, x, y, 256);", "no_scratch"),
        SIX,
    ),
    Row(
        "cast_dequant_half",
        f"{SCALE} CastDequant<half, int32_t>(z, x, kCount);",
        (I32, I32, F16),
        (203,) * 3,
        lambda a, *_: a.astype(np.float32) * np.float32(0.25),
        ("SetDeqScale(0.25f, 0, true); CastDequant<half, int32_t>(z, x, kCount);", "cast_mode"),
        {"CastDequant": vector(4), "SetDeqScale": FREE},
    ),
]


def _halves(results: Array, c: Array, is_second: bool) -> Array:
    """Return c with the results in one half of each block of 32 bytes."""
    blocks = c.reshape(-1, 32)
    for index, value in enumerate(results):
        blocks[index // 16, index % 16 + 16 * is_second] = value
    return blocks.ravel()


def _byte_rows(dtype: np.dtype[Any]) -> list[Row]:
    name, sign = CPP[dtype], "true" if dtype == I8 else "false"
    other = "false" if dtype == I8 else "true"
    scale = f"SetDeqScale(1.75f, -3, {sign});"
    one = f"{scale} CastDequant<{name}, int16_t, false, {{half}}>(z, x, kCount);"

    def expected(a: Array, c: Array, count: int, is_second: bool) -> Array:
        return _halves(_narrow(a[:count] * 1.75 - 3, dtype), c, is_second)

    table = (
        "float s[16]; int16_t o[16]; bool m[16]; for (int i = 0; i < 16; ++i) { s[i] = 0.25f * i; o[i] = i - 8;"
        f"m[i] = {sign}; }} SetDeqScale<uint64_t>(t.ReinterpretCast<uint64_t>(), VdeqInfo(s, o, m));"
        "SetFlag<HardEvent::S_V>(EVENT_ID0); WaitFlag<HardEvent::S_V>(EVENT_ID0);"
    )
    each = np.arange(16)
    mask = "uint64_t mask[2] = {~uint64_t{0}, ~uint64_t{0}};"
    return [
        *(
            Row(
                f"cast_dequant_{dtype.name}_{half}",
                one.format(half=half),
                (I16, I16, dtype),
                (203, 32, 416),
                lambda a, _, c, is_second=half == "true": expected(a, c, 203, is_second),
                (one.format(half=half).replace(sign + ");", other + ");", 1), "cast_mode"),
                {"CastDequant": vector(2), "SetDeqScale": FREE},
            )
            for half in ("true", "false")
        ),
        Row(
            f"cast_dequant_{dtype.name}_mask",
            f"{scale} CastDequant<{name}, int16_t, true, false, true>(z, x, 128, 2, {{1, 1, 8, 8}});",
            (I16, I16, dtype),
            (256, 32, 512),
            lambda a, _, c: expected(a, c, 256, True),
            (f"{scale} CastDequant<{name}, int16_t, true, false, true>(z, x, 129, 1, {{1, 1, 8, 8}});", "mask_range"),
            {"CastDequant": vector(2), "SetDeqScale": FREE},
        ),
        Row(
            f"cast_dequant_{dtype.name}_table",
            f"{table} {mask} CastDequant<{name}, int16_t, true, true, true>(z, x, mask, 2, {{1, 1, 8, 8}});",
            (I16, I16, dtype),
            (256, 32, 512),
            lambda a, _, c: _halves(
                _narrow((a.reshape(-1, 16) * (0.25 * each) + (each - 8)).ravel(), dtype), c, is_second=True
            ),
            (f"{table.partition('SetFlag')[0]} CastDequant<{name}, int16_t>(z, x, 256);", "race"),
            {"CastDequant": vector(2), "SetDeqScale": 16 * UB},
        ),
        Row(
            f"cast_dequant_{dtype.name}_offset",
            f"{scale} CastDequant<{name}, int16_t, false>(z, x, 16);",
            (I16, I16, dtype),
            (16, 32, 32),
            lambda a, _, c: expected(a, c, 16, True),
            (f"SetDeqScale(1.0f, 256, {sign});", "field_range"),
            {"SetDeqScale": FREE, "CastDequant": vector(1)},
        ),
    ]


OFFSETS = (
    "SetFlag<HardEvent::MTE2_S>(EVENT_ID0); WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);"
    "for (uint32_t i = 0; i < 32; ++i) { y.SetValue(i, (i ^ 5) * 32); }"
    "SetFlag<HardEvent::S_V>(EVENT_ID0); WaitFlag<HardEvent::S_V>(EVENT_ID0);"
)


def _interpolate(a: Array, weights: Array, lanes: slice, c: Array) -> Array:
    """Return two sums of two weighted repeats of 8 gathered blocks."""
    blocks = a[:512].reshape(32, 16)[np.arange(32) ^ 5]
    products = (blocks * weights[:, None]).reshape(2, 2, 128)
    result = c.reshape(2, 144)
    result[:, :128][:, lanes] = (products[:, 0] + products[:, 1])[:, lanes]
    return result.ravel()


INTERPOLATIONS = [
    Row(
        f"interpolation_{mode}_{kind}",
        f"{OFFSETS} {lines} TBuf<> more; pipe.InitBuffer(more, 20480);"
        f"BilinearInterpolation(z, x, y, w, mask, 2, {mode}, 1, 144, 2, more.Get<uint8_t>());",
        (F16, np.dtype(np.uint32), F16),
        (544, 32, 288),
        lambda a, _, c, lanes=lanes, mode=mode: _interpolate(
            a, a[512:544] if mode == "true" else np.repeat(a[512:516], 8), lanes, c
        ),
        (
            (
                f"{OFFSETS} {lines} TBuf<> more; pipe.InitBuffer(more, {size});"
                f"BilinearInterpolation(z, x, y, w, mask, 2, {mode}, 1, {pitch}, 2, more.Get<uint8_t>());"
            ),
            "field_range",
        ),
        {
            "BilinearInterpolation": FREE,  # the time of its instructions
            "Gatherb": vector(4),
            "Brcb": vector(4 if mode == "true" else 1),
            # A repeat without weights of its own conflicts with its weight in every second case.
            "Mul": vector(1, TWO_OPERANDS, 4 if mode == "true" else 2)
            + vector(1, instructions=0 if mode == "true" else 2),
        },
    )
    for mode, kind, setup, lanes, size, pitch in (
        ("false", "leading", "const uint64_t mask = 100;", slice(100), 20480, 120),
        ("true", "leading", "const uint64_t mask = 128;", slice(128), 16384, 144),
        ("true", "bits", "uint64_t mask[2] = {0xFFFFull, 0};", slice(16), 20480, 136),
    )
    for lines in (f"{setup} LocalTensor<half> w = x[512]; x.SetSize(512); w.SetSize(32);",)
]
ROWS = [*COUNTS, *REPEATS, *DEQUANT, *_byte_rows(I8), *_byte_rows(U8), *INTERPOLATIONS]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(source_of(ROWS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_fused_instruction_computes_the_formula_in_time(kernels, row):
    check_numbers(kernels, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_planted_mistake_of_a_fused_instruction_is_found(kernels, record_planted, row):
    check_mistake(kernels, record_planted, row)
