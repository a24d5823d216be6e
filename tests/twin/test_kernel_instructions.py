"""Test instructions in tables: the result against NumPy, the time, and a planted mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from charged import COPY, FAST, FREE, GM, ISSUE, TWO_OPERANDS, UB, repeats, vector
from instruction_rows import Array, Row, check_mistake, check_numbers, source_of, values
from test_kernel_numbers import CPP, F16, F32, FRAME, KERNEL

from opforge.twin.runtime.launch import launch

I8, U8, I16, U16, I32, U32 = (np.dtype(name) for name in ("i1", "u1", "i2", "u2", "i4", "u4"))
I64, U64, F64 = (np.dtype(name) for name in ("i8", "u8", "f8"))


def _same(dtype: np.dtype[Any], count: int) -> dict[str, Any]:
    return {"dtypes": (dtype,) * 3, "counts": (count,) * 3}


def _relu(value: Array) -> Array:
    return np.maximum(value, value.dtype.type(0))


def _fused(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.float64) * c + b).astype(a.dtype)


def _elementwise() -> list[Row]:
    """Return instructions with a count; the planted mistake reads from an address that is no multiple of 32 bytes."""
    table: list[tuple[str, str, Callable[[Array, Array, Array], Array], list[np.dtype[Any]]]] = [
        ("AddRelu", "z, x{0}, y", lambda a, b, _: _relu(a + b), [I16, F16, F32]),
        ("SubRelu", "z, x{0}, y", lambda a, b, _: _relu(a - b), [I16, F16, F32]),
        ("FusedMulAdd", "z, x{0}, y", _fused, [F16, F32]),
        ("FusedMulAddRelu", "z, x{0}, y", lambda a, b, c: _relu(_fused(a, b, c)), [F16, F32]),
        ("MulAddRelu", "z, x{0}, y", lambda a, b, c: _relu(_fused(a, b, c)), [F16, F32]),
        (
            "LeakyRelu",
            "z, x{0}, static_cast<T>(0.25f)",
            lambda a, *_: np.where(a > 0, a, a * a.dtype.type(0.25)),
            [F16, F32],
        ),
    ]
    return (
        [
            Row(
                f"{name}_{dtype.name}",
                f"{name}({operands.format('')}, kCount);",
                expected=expected,
                mistake=(f"{name}({operands.format('[1]')}, 64);", "ub_misaligned"),
                times={name: vector(repeats(203, dtype.itemsize), TWO_OPERANDS if "y" in operands else FAST)},
                **_same(dtype, 203),
            )
            for name, operands, expected, dtypes in table
            for dtype in dtypes
        ]
        + [
            Row(  # the count is in halves
                f"{name}_{dtype.name}",
                f"{name}(z, x, y, 2 * kCount);",
                expected=expected,
                mistake=(f"{name}(z, x[1], y, 2 * kCount);", "ub_misaligned"),
                times={name: vector(repeats(2 * 203, 2), TWO_OPERANDS)},
                **_same(dtype, 203),
            )
            for name, expected in (("And", lambda a, b, _: a & b), ("Or", lambda a, b, _: a | b))
            for dtype in (I32, U32)
        ]
        + [
            Row(
                f"{name}_all_bits",
                f"{name}(z, x, static_cast<T>(16), kCount);",
                expected=expected,
                mistake=(f"{name}(z, x, static_cast<T>({wrong}), kCount);", "field_range"),
                times={name: vector(repeats(203, 2), FAST)},
                **_same(I16, 203),
            )
            for name, wrong, expected in (
                ("ShiftLeft", 17, lambda a, *_: np.zeros_like(a)),
                ("ShiftRight", -1, lambda a, *_: np.where(a < 0, -1, 0).astype(a.dtype)),
            )
        ]
    )


def _groups(width: int, function: Callable[..., Array]) -> Callable[[Array, Array, Array], Array]:
    return lambda a, *_: function(a.reshape(-1, width), axis=1)


SOME_LANES = "uint64_t mask[2] = {0xfull | 0xffull << 16 | 1ull << 41, 0};"


def _some_blocks(a: Array, _: Array, c: Array) -> Array:
    """Blocks without active lanes keep their results: the document of ReduceDataBlock."""
    results = c.copy()
    for repeat, row in enumerate(a[: 3 * 64].reshape(3, 64)):
        results[8 * repeat] = row[:4].max()
        results[8 * repeat + 2] = row[16:24].max()
        results[8 * repeat + 5] = row[41]
    return results


def _whole_min(a: Array, *_: Array) -> Array:
    rows = a.reshape(4, 64)[:, :60]
    pairs = np.stack([rows.min(axis=1), np.zeros(4, np.float32)], axis=1)
    pairs[:, 1] = rows.argmin(axis=1).astype(np.uint32).view(np.float32)
    return pairs.ravel()


BLOCKS_BY_ADDRESS = (
    "SetVectorMask<float>(0, ~0ull); BlockReduce{name}IntrinsicsImpl((__ubuf__ float*)z.GetPhyAddr(),"
    "(__ubuf__ float*)(x.GetPhyAddr() + {source}), 4, 1, 1, 8); ResetMask();"
)


def _reductions() -> list[Row]:
    def row(name: str, call: str, count: int, expected: Callable[[Array, Array, Array], Array], **options: Any) -> Row:
        function = call.partition("<")[0].partition("(")[0]
        options = {
            "dtypes": (F32,) * 3,
            "mistake": (call.replace("(z, x,", "(z, x[1],"), "ub_misaligned"),
            "times": {function: vector(4)},
        } | options
        return Row(name, call, counts=(256, 8, count), expected=expected, **options)

    last = "PipeBarrier<PIPE_V>(); SetFlag<HardEvent::V_S>(EVENT_ID0); WaitFlag<HardEvent::V_S>(EVENT_ID0);"
    return [
        row("block_max", "BlockReduceMax(z, x, 4, 64, 1, 1, 8);", 32, _groups(8, np.max)),
        row(
            "block_max_of_some",
            f"{SOME_LANES} BlockReduceMax(z, x, 3, mask, 1, 1, 8); ResetMask();",
            22,
            _some_blocks,
            mistake=(f"{SOME_LANES} BlockReduceMax(z, x[1], 3, mask, 1, 1, 8); ResetMask();", "ub_misaligned"),
            times={"BlockReduceMax": vector(3)},
        ),
        row("block_min", "BlockReduceMin(z, x, 4, 64, 1, 1, 8);", 32, _groups(8, np.min)),
        row(
            "block_max_half",
            "BlockReduceMax(z, x, 2, 128, 1, 1, 8);",
            16,
            _groups(16, np.max),
            dtypes=(F16,) * 3,
            times={"BlockReduceMax": vector(2)},
        ),
        *(
            row(
                f"block_{name.lower()}_by_address",
                BLOCKS_BY_ADDRESS.format(name=name, source=0),
                32,
                _groups(8, function),
                rtol=1e-6,
                times={f"BlockReduce{name}IntrinsicsImpl": vector(4)},
                mistake=(BLOCKS_BY_ADDRESS.format(name=name, source=4), "ub_misaligned"),
            )
            for name, function in (("Sum", np.sum), ("Max", np.max))
        ),
        row("data_block", "ReduceDataBlock<ReduceType::MIN>(z, x, 64, 4, 1, 1, 8);", 32, _groups(8, np.min)),
        row("pair_elem", "ReducePairElem<ReduceType::SUM>(z, x, 64, 4, 1, 1, 8);", 128, _groups(2, np.sum)),
        row("whole_min", "WholeReduceMin(z, x, 60, 4, 1, 1, 8);", 8, _whole_min),
        row(
            "reduce_repeat",
            "ReduceRepeat<ReduceType::MAX>(z, x, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);",
            4,
            _groups(64, np.max),
        ),
        row("repeat_sum", "RepeatReduceSum(z, x, 4, 64, 0, 1, 1, 8);", 4, _groups(64, np.sum), rtol=1e-5),
        row(
            "last_sum",
            f"ReduceSum(t, x, y, 256); {last} z.SetValue(0, GetAccVal<float>() - GetReduceRepeatSumSpr<float>());",
            1,
            lambda a, *_: np.zeros(1, a.dtype),
            mistake=("z.SetValue(0, GetReduceRepeatSumSpr<float>());", "no_reduction"),
            times={"GetReduceRepeatSumSpr": FREE},
        ),
        row(
            "last_sum_bits",
            f"ReduceSum(t, x, y, 256); {last} const int64_t bits = GetAccVal(); float sum = 0; "
            "__builtin_memcpy(&sum, &bits, sizeof(sum)); z.SetValue(0, sum - GetAccVal<float>());",
            1,
            lambda a, *_: np.zeros(1, a.dtype),
            mistake=("z.SetValue(0, static_cast<float>(GetAccVal()));", "no_reduction"),
            times={"GetAccVal": FREE, "ReduceSum": vector(4)},
        ),
        row(
            "last_extreme",
            f"WholeReduceMax(t, x, 64, 4, 1, 1, 8); {last} float most, at; GetReduceMaxMinCount<float>(most, at);"
            "z.SetValue(0, most); z.SetValue(1, at);",
            2,
            lambda a, *_: np.array([a.max(), np.uint32(a.argmax()).view(np.float32)], a.dtype),
            mistake=("float most, at; GetReduceMaxMinCount<float>(most, at);", "no_reduction"),
            times={"GetReduceMaxMinCount": FREE},
        ),
        row(
            "last_extreme_of_register",
            f"WholeReduceMax(t, x, 64, 4, 1, 1, 8); {last} float most, at; GetReduceRepeatMaxMinSpr<float>(most, at);"
            "z.SetValue(0, most);",
            1,
            lambda a, *_: np.array([a.max()], a.dtype),
            mistake=("float most, at; GetReduceRepeatMaxMinSpr<float>(most, at);", "no_reduction"),
            times={"GetReduceRepeatMaxMinSpr": FREE, "WholeReduceMax": vector(4)},
        ),
    ]


def _five_hd(a: Array, *_: Array) -> Array:
    """Return 16 rows of four blocks each, transposed block by block."""
    width = 32 // a.itemsize
    return np.concatenate([tile.T.ravel() for tile in np.split(a.reshape(16, 4 * width), 4, axis=1)])


def _five_hd_bytes(a: Array, _b: Array, c: Array) -> Array:
    result = c.reshape(16, 32).copy()
    result[:, 16:] = a.reshape(16, 32)[:, :16].T
    return result.ravel()


ADDRESSES = (
    "uint64_t d[16], s[16]; for (int i = 0; i < 16; ++i) {{ d[i] = z[{to}].GetPhyAddr();"
    "s[i] = x[{source}].GetPhyAddr(); }}"
    "TransDataTo5HD<{dtype}>(d, s, TransDataTo5HDParams({params}));"
)


TWICE = 2 * FAST  # a repeat moves 512 bytes
POINTERS = (
    "__ubuf__ {dtype}* d[16]; __ubuf__ {dtype}* s[16]; for (int i = 0; i < 16; ++i) {{"
    "d[i] = (__ubuf__ {dtype}*)z[{to}].GetPhyAddr();"
    "s[i] = reinterpret_cast<__ubuf__ {dtype}*>(x[{source}].GetPhyAddr()); }}"
    "TransDataTo5HDImpl(d, s, TransDataTo5HDParams({params}));"
)


def _transpositions() -> list[Row]:
    rows = []
    for dtype in (I16, U16, F16, I32, U32, F32):
        width = 32 // dtype.itemsize
        fields = {"to": f"i * {width}", "source": f"i * {4 * width}", "dtype": CPP[dtype]}
        rows.append(
            Row(
                f"five_hd_{dtype.name}",
                ADDRESSES.format(**fields, params="false, false, 4, 16, 1"),
                expected=_five_hd,
                mistake=(
                    ADDRESSES.format(**fields | {"to": "i * 2"}, params="false, false, 4, 16, 1"),
                    "ub_misaligned",
                ),
                times={"TransDataTo5HD": vector(4, TWICE)},
                **_same(dtype, 16 * 4 * width),
            )
        )
        rows.append(
            Row(
                f"five_hd_impl_{dtype.name}",
                POINTERS.format(**fields, params="false, false, 4, 16, 1"),
                expected=_five_hd,
                mistake=(POINTERS.format(**fields, params="false, false, 4, 16, 1").replace("z[", "x["), "overlap"),
                times={"TransDataTo5HDImpl": vector(4, TWICE)},
                **_same(dtype, 16 * 4 * width),
            )
        )
    for dtype in (I8, U8):
        fields = {"to": "i * 32", "source": "i * 32", "dtype": CPP[dtype]}
        rows.append(
            Row(
                f"five_hd_{dtype.name}",
                ADDRESSES.format(**fields, params="true, false, 1, 0, 0"),
                expected=_five_hd_bytes,
                mistake=(ADDRESSES.format(**fields, params="true, false, 1, 0, 600"), "ub_out_of_range"),
                times={"TransDataTo5HD": vector(1, TWICE)},
                **_same(dtype, 512),
            )
        )
    rows += [
        Row(
            f"transpose_{dtype.name}",
            "Transpose(z, x);",
            expected=lambda a, *_: a.reshape(16, 16).T.ravel(),
            mistake=("Transpose(z, x[8]);", "ub_misaligned"),
            times={"Transpose": vector(1, TWICE)},
            **_same(dtype, 256),
        )
        for dtype in (I16, U16, F16)
    ]
    nchw = "Transpose(z, x, y, TransposeParamsExt(2, 3, 4, 8, TransposeType::TRANSPOSE_NCHW2NHWC));"
    rows += [
        Row(
            "nchw_to_nhwc",
            nchw,
            (F16, U8, F16),
            (192, 5 * 512, 192),
            lambda a, *_: a.reshape(2, 3, 4, 8).transpose(0, 2, 3, 1).ravel(),
            (nchw.replace("x, y", "x, y[8000]"), "ub_out_of_range"),
            {"Transpose": vector(1, 2 * TWICE)},  # through the scratch memory
        ),
        Row(
            "nhwc_to_nchw",
            nchw.replace("NCHW2NHWC", "NHWC2NCHW"),
            (F32, U8, F32),
            (192, 7 * 512, 192),
            lambda a, *_: a.reshape(2, 4, 8, 3).transpose(0, 3, 1, 2).ravel(),
            (nchw.replace("4, 8", "3, 5"), "field_range"),
            {"Transpose": vector(2, 2 * TWICE)},
        ),
    ]
    return rows


# The bits that select are at an address in the register.
ADDRESS = (
    "LocalTensor<uint32_t> words = t.ReinterpretCast<uint32_t>();"
    "Duplicate(words, static_cast<uint32_t>(x.GetPhyAddr()), 8); PipeBarrier<PIPE_V>();"
    "SetCmpMask({source}); PipeBarrier<PIPE_V>(); Select<{t}, SELMODE::VSEL_TENSOR_TENSOR_MODE>(z, y, y[{count}], 2,"
    "{{1, 1, 1, 8, 8, 8}});"
)
COMPARE = "const uint64_t all = 64; Compare(x, y, CMPMODE::GT, all, {1, 1, 1, 8, 8, 8});"
MASKS = [
    Row(
        "compares",
        "Compares(z, x, 0.5f, CMPMODE::GE, 128);",
        (F32, F32, U8),
        (128, 8, 16),
        lambda a, *_: np.packbits(a >= 0.5, bitorder="little"),
        ("Compares(z, x, 0.5f, CMPMODE::GE, 100);", "field_range"),
        {"Compares": vector(2)},
    ),
    Row(
        "compare_mask",
        f"{COMPARE} PipeBarrier<PIPE_V>(); GetCmpMask(z);",
        (F32, F32, U8),
        (64, 64, 16),
        lambda a, b, _: np.packbits(np.append(a > b, np.zeros(64, bool)), bitorder="little"),
        ("GetCmpMask(z);", "compare_mask"),
        {"GetCmpMask": vector(1), "Compare": vector(1)},
    ),
    Row(
        "set_compare_mask",
        (
            "SetCmpMask(x); PipeBarrier<PIPE_V>();"
            "Select<float, SELMODE::VSEL_CMPMASK_SPR>(z, y, y[64], 1, {1, 1, 1, 8, 8, 8});"
        ),
        (U8, F32, F32),
        (16, 128, 64),
        lambda a, b, _: np.where(np.unpackbits(a, bitorder="little")[:64], b[:64], b[64:]),
        ("SetCmpMask(x[8]);", "ub_misaligned"),
        {"SetCmpMask": vector(1), "Select": vector(1)},
    ),
    *(
        Row(
            f"select_or_register_{dtype.name}",
            f"SetCmpMask(y[{count}]); PipeBarrier<PIPE_V>(); Select(z, x, y, 2, {{1, 1, 1, 8, 8, 8}});",
            (U8, dtype, dtype),
            (count // 8, count + 16, count),
            lambda a, b, _: np.where(np.unpackbits(a, bitorder="little"), b[: a.size * 8], b[a.size * 8]),
            ("Select(z, x, y, 2, {1, 1, 1, 8, 8, 8});", "select_mode"),
            {"Select": vector(2), "SetCmpMask": vector(1)},
        )
        for dtype, count in ((F16, 256), (F32, 128))
    ),
    *(
        Row(
            f"select_by_address_{dtype.name}",
            ADDRESS.format(t=CPP[dtype], count=count, source="words"),
            (U8, dtype, dtype),
            (count // 8, 2 * count, count),
            lambda a, b, _: np.where(np.unpackbits(a, bitorder="little"), *b.reshape(2, -1)),
            (ADDRESS.format(t=CPP[dtype], count=count, source="y"), "no_buffer"),
            {"Select": vector(2, TWO_OPERANDS), "SetCmpMask": vector(1), "Duplicate": vector(1)},
        )
        for dtype, count in ((F16, 256), (F32, 128))
    ),
]

LOADED = "SetFlag<HardEvent::MTE2_S>(EVENT_ID0); WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);"
FILLED = (
    "PipeBarrier<PIPE_ALL>(); GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float*)b, 64);"
    "InitGlobalMemory(g, {}, 3.0f); PipeBarrier<PIPE_ALL>(); y = lb.In(); Adds(z, y, 0.0f, 64);"
)
SOURCE = "PipeBarrier<PIPE_MTE2>(); GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float*)a, 261);"
ORDER = "SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);"
SLICES = (
    f"{SOURCE} SliceInfo from[] = {{{{16, 70, 7, 3, 87}}, {{0, 2, 1, 1, 3}}}};"
    f"SliceInfo to[] = {{{{0, 47, 0, 3, 48}}, {{0, 1, 0, 1, 2}}}}; DataCopy(z, g, to, from, 2); {ORDER}"
)
ENHANCED = f"{SOURCE} DataCopy(z, g, DataCopyParams(2, 2, 1, 0), DataCopyEnhancedParams()); {ORDER}"
ATOMIC = (
    "SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); SetAtomicAdd<float>();"
    "SetAtomicType<half>(); lb.Store(); SetAtomicNone(); SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);"
    "WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0); y = lb.In(); Adds(z, y, half(0), kCount);"
)


def _slices(a: Array, *_: Array) -> Array:
    rows = a.reshape(3, 87)[::2]
    return np.concatenate([rows[:, 16:40], rows[:, 47:71]], axis=1).ravel()


NZ = (
    "PipeBarrier<PIPE_MTE2>(); GlobalTensor<{0}> g; g.SetGlobalBuffer((__gm__ {0}*)a, 144);"
    f"DataCopy(z, g, Nd2NzParams(2, 3, 20, 72, 24, 4, 1, {{1}})); {ORDER}"
)
ROWS_OF_COLUMNS = (
    "GlobalTensor<{0}> g; g.SetGlobalBuffer((__gm__ {0}*)b, 203); SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);"
    "WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); DataCopy(g, x, Nz2NdParamsFull(2, 3, 32, 1, 4, 33, 102));"
    "SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0); WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0); y = lb.In();"
    "Adds(z, y, static_cast<{0}>(0), 203);"
)


def _to_nz(a: Array, _b: Array, c: Array) -> Array:
    """Return two matrices of 3 x 20 elements in columns of 32 bytes, which begin 128 bytes apart."""
    wide = 32 // a.itemsize
    result = c.reshape(2, -1)
    for matrix, whole in enumerate(a.reshape(2, 3, 24)):
        padded = np.pad(whole[:, :20], ((0, 0), (0, -20 % wide)))
        for column in range(padded.shape[1] // wide):
            start = column * 4 * wide
            result[matrix, start : start + 3 * wide] = padded[:, column * wide : (column + 1) * wide].ravel()
    return result.ravel()


def _to_nd(a: Array, b: Array, _c: Array) -> Array:
    """Return b after stores of two matrices of 3 x 32 elements, whose columns of 16 begin 64 elements apart."""
    result = b.copy()
    for matrix in range(2):
        for row in range(3):
            for column in range(2):
                to, source = matrix * 102 + row * 33 + column * 16, matrix * 256 + column * 64 + row * 16
                result[to : to + 16] = a[source : source + 16]
    return result


def _nz_rows() -> list[Row]:
    rows = []
    for dtype in (I8, F16, F32):
        name, wide = CPP[dtype], 32 // dtype.itemsize
        columns = -(-20 // wide)
        pitch = 4 * columns * wide
        text = NZ.format(name, pitch)
        rows.append(
            Row(
                f"nd_to_nz_{dtype.name}",
                text,
                (dtype,) * 3,
                (144, 8 * wide, 2 * pitch),
                _to_nz,
                (text.replace("(2, 3,", "(2, 4,"), "gm_out_of_range"),
                {"DataCopy": 2 * columns * COPY},
            )
        )
    for dtype in (I16, F16, F32):
        text = ROWS_OF_COLUMNS.format(CPP[dtype])
        rows.append(
            Row(
                f"nz_to_nd_{dtype.name}",
                text,
                (dtype,) * 3,
                (512, 203, 203),
                _to_nd,
                (text.replace("3, 32,", "3, 24,"), "field_range"),
                {"DataCopy": 4 * COPY},
            )
        )
    return rows


COPIES = [
    *_nz_rows(),
    *(
        Row(
            name,
            SLICES,
            (F32,) * 3,
            (261, 8, 96),
            _slices,
            (SLICES.replace(right, wrong), "field_range"),
            {"DataCopy": 2 * COPY},
        )
        for name, right, wrong in (
            ("slices", "{0, 1, 0, 1, 2}", "{0, 0, 0, 1, 2}"),
            ("slice_end", "{16, 70,", "{16, 71,"),
            ("slice_past_row", "{0, 2, 1, 1, 3}", "{0, 4, 3, 1, 3}"),
        )
    ),
    Row(
        "enhanced",
        ENHANCED,
        (F32,) * 3,
        (261, 8, 32),
        lambda a, *_: np.concatenate([a[:16], a[24:40]]),
        (
            ENHANCED.replace("Params());", "Params(BlockMode::BLOCK_MODE_NORMAL, DeqScale::DEQ_NONE, 0, 0, true));"),
            "field_range",
        ),
        {"DataCopy": COPY},
    ),
    Row(
        "atomic_type",
        ATOMIC,
        expected=lambda _a, b, _c: b + b,
        mistake=(ATOMIC.replace("SetAtomicType<half>();", ""), "atomic_dtype", "the atomic mode set at"),
        times={"SetAtomicType": FREE, "SetAtomicAdd": FREE},
        **_same(F16, 203),
    ),
    Row(
        "atomic_end",
        ATOMIC.replace("SetAtomicNone()", "DisableDmaAtomic()"),
        expected=lambda _a, b, _c: b + b,
        mistake=(ATOMIC.replace("SetAtomicNone();", ""), "atomic_left_on", "the atomic mode set here is still on"),
        times={"DisableDmaAtomic": FREE},
        **_same(F16, 203),
    ),
    Row(
        "global_memory",
        FILLED.format(64),
        (F32,) * 3,
        (8, 64, 64),
        lambda *_: np.full(64, 3, np.float32),
        (FILLED.format(65), "gm_out_of_range"),
        {"InitGlobalMemory": vector(2) + COPY},  # whole repeats, and one more
    ),
    Row(
        "scalar_conversions",
        f"{LOADED} z.SetValue(0, ToFloat(ToBfloat16(x.GetValue(0))) + static_cast<float>(GetVecLen()));",
        (F32,) * 3,
        (8, 8, 1),
        lambda a, *_: a[:1].astype(ml_dtypes.bfloat16).astype(np.float32) + np.float32(256),
        (f"{LOADED} z.SetValue(GetVecLen() * 8, ToFloat(ToBfloat16(x.GetValue(0))));", "ub_out_of_range"),
        {"LocalTensor::SetValue": UB, "ToFloat": FREE, "ToBfloat16": FREE, "GetVecLen": FREE},
    ),
    Row(
        "min_max",
        "SetFlag<HardEvent::MTE2_S>(EVENT_ID0); WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);"
        "z.SetValue(0, min(3, int64_t{5}) + max(2.5f, 1));",
        (F32,) * 3,
        (8, 8, 1),
        lambda *_: np.array([5.5], np.float32),
        ("z.SetValue(max(4096, 7), min(1.0f, 2.0f));", "ub_out_of_range"),
        {"LocalTensor::SetValue": UB},
    ),
    Row(
        "waits_and_caches",
        "SetFlag<HardEvent::MTE2_S>(EVENT_ID0); WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);"
        "DataSyncBarrier<MemDsbT::ALL>(); SetNextTaskStart<PIPE_MTE3, PIPE_FIX, true>(); WaitPreTaskEnd<true>();"
        "ICachePreLoad(1);"
        "GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float*)b, 64); g.SetValue(8, 3.0f);"
        "DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(g[8]); z.SetValue(0, g.GetValue(8));",
        (F32,) * 3,
        (8, 64, 1),
        lambda *_: np.array([3.0], np.float32),
        (
            "GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float*)b, 64); g.SetValue(8, 3.0f);",
            "cache_not_flushed",
            "DataCacheCleanAndInvalid",
        ),
        {
            "DataCacheCleanAndInvalid": FREE,
            "GlobalTensor::SetValue": GM,
            **dict.fromkeys(("DataSyncBarrier", "SetNextTaskStart", "WaitPreTaskEnd", "ICachePreLoad"), ISSUE),
        },
    ),
]
NIBBLES = "const LocalTensor<int4b_t> p = {}.ReinterpretCast<int4b_t>();"
PACK, UNPACK = NIBBLES.format("z"), NIBBLES.format("x")
ROUNDINGS = {
    "NONE": np.rint,
    "RINT": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND": lambda a: np.sign(a) * np.floor(np.abs(a) + 0.5),
    "TRUNC": np.trunc,
}


def _pack(values: Array) -> Array:
    bits = np.clip(values, -8, 7).astype(np.int64) & 15
    return (bits[::2] | bits[1::2] << 4).astype(np.uint8)


def _unpack(a: Array, *_: Array) -> Array:
    bits = np.stack([a & 15, a >> 4], axis=1).ravel().astype(np.int64)
    return np.where(bits > 7, bits - 16, bits)


def _pack_masked(a: Array, _b: Array, c: Array) -> Array:
    """Return 40 of 128 elements of each repeat."""
    result = c.reshape(2, 64)
    result[:, :20] = _pack(np.rint(a.astype(np.float64))).reshape(2, 64)[:, :20]
    return result.ravel()


INT4 = [
    *(
        Row(
            f"pack_{mode.lower()}",
            f"{PACK} Cast(p, x, RoundMode::CAST_{mode}, 202);",
            (F16, F16, U8),
            (202, 16, 101),
            lambda a, *_, how=how: _pack(how(a.astype(np.float64))),
            (f"{PACK} Cast(p, x, RoundMode::CAST_{mode}, 201);", "field_range"),
            {"Cast": vector(2)},
        )
        for mode, how in ROUNDINGS.items()
    ),
    Row(
        "pack_repeats",
        f"{PACK} Cast(p, x, RoundMode::CAST_RINT, 40, 2, {{1, 1, 2, 8}});",
        (F16, F16, U8),
        (256, 16, 128),
        _pack_masked,
        (
            f"{PACK} uint64_t odd[2] = {{3, 1}}; Cast(p, x, RoundMode::CAST_RINT, odd, 2, {{1, 1, 2, 8}});",
            "mask_range",
        ),
        {"Cast": vector(2)},
    ),
    Row(
        "unpack",
        f"{UNPACK} Cast(z, p, RoundMode::CAST_NONE, 202);",
        (U8, F16, F16),
        (101, 16, 202),
        _unpack,
        (f"{UNPACK} Cast(z, p[8], RoundMode::CAST_NONE, 128);", "ub_misaligned"),
        {"Cast": vector(2)},
    ),
    Row(
        "copy_int4",
        f"{NIBBLES.format('z')} PipeBarrier<PIPE_MTE2>(); GlobalTensor<int4b_t> g;"
        "g.SetGlobalBuffer((__gm__ int4b_t*)a, 256); DataCopy(p, g[128], 64);"
        "SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);",
        (U8,) * 3,
        (128, 32, 32),
        lambda a, *_: a[64:96],
        (
            f"{NIBBLES.format('z')} GlobalTensor<int4b_t> g; DataCopy(p, g, 32);",
            "field_range",
        ),
        {"DataCopy": COPY},
    ),
]
FRAME_COPIES = 4  # DataCopyPad of a, b and c to UB, and of c back
PAD = (
    "PipeBarrier<PIPE_MTE2>(); GlobalTensor<{t}> g; g.SetGlobalBuffer((__gm__ {t}*)a, 20);"
    "DataCopyExtParams rows(1, 10 * sizeof({t}), 0, 0, 0);"
    "DataCopyPad(z, g, rows, DataCopyPadExtParams<{t}>(false, 3, 3, 0));"
    "SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);"
)
UNCACHED = (
    "PipeBarrier<PIPE_ALL>(); __gm__ {t}* from = (__gm__ {t}*)a; __gm__ {t}* to = (__gm__ {t}*)b;"
    "WriteGmByPassDCache<{t}>(to + 3, ReadGmByPassDCache<{t}>(from + {index}));"
    "PipeBarrier<PIPE_ALL>(); z.SetValue(0, ReadGmByPassDCache<{t}>(to + 3));"
)
BY_ADDRESS = (
    "PipeBarrier<PIPE_ALL>(); DataCopyUB2GMImpl((__gm__ {t}*)b, (__ubuf__ {t}*)x.GetPhyAddr(), {{1, 2, 0, 0}});"
    "PipeBarrier<PIPE_ALL>(); DataCopyPadGm2UBImpl((__ubuf__ {t}*)z.GetPhyAddr(), (__gm__ {t}*)b,"
    "{{1, {bytes}, 0, 0, 0}}, DataCopyPadExtParams<{t}>(true, 3, 3, 7)); PipeBarrier<PIPE_ALL>();"
)
SCALAR = [
    *(
        Row(
            f"copies_by_address_{dtype.name}",
            BY_ADDRESS.format(t=CPP[dtype], bytes=10 * dtype.itemsize),
            (dtype,) * 3,
            (64, 64, 16),
            lambda a, *_: np.concatenate([[7] * 3, a[:10], [7] * 3]).astype(a.dtype),
            (BY_ADDRESS.format(t=CPP[dtype], bytes=1000 * dtype.itemsize), "gm_out_of_range"),
            {"DataCopyPadGm2UBImpl": (FRAME_COPIES + 1) * COPY, "DataCopyUB2GMImpl": COPY},
        )
        for dtype in (U8, I16, F16, I32, F32)
    ),
    *(
        Row(
            f"pad_value_{dtype.name}",
            f"SetPadValue<{CPP[dtype]}>({CPP[dtype]}(7)); {PAD.format(t=CPP[dtype])}",
            (dtype,) * 3,
            (20, 32, 16),
            lambda a, *_: np.concatenate([[7] * 3, a[:10], [7] * 3]).astype(a.dtype),
            (PAD.format(t=CPP[dtype]), "uninitialised_read", "DataCopyPad: src reads"),
            {"SetPadValue": FREE, "DataCopyPad": (FRAME_COPIES + 1) * COPY},
        )
        for dtype in (U8, I16, F16, I32, F32)
    ),
    *(
        Row(
            f"pad_value_{dtype.name}",
            f"SetPadValue<{CPP[dtype]}>(0); {PAD.format(t=CPP[dtype])}",
            (dtype,) * 3,
            (20, 32, 16),
            lambda a, *_: np.concatenate([[0] * 3, a[:10], [0] * 3]).astype(a.dtype),
            (f"SetPadValue<{CPP[dtype]}>(7); {PAD.format(t=CPP[dtype])}", "padding", "padded with 0 only"),
            {"SetPadValue": FREE, "DataCopyPad": (FRAME_COPIES + 1) * COPY},
        )
        for dtype in (I64, U64, F64)
    ),
    *(
        Row(
            f"uncached_{dtype.name}",
            UNCACHED.format(t=CPP[dtype], index=5),
            (dtype,) * 3,
            (32, 32, 1),
            lambda a, *_: a[5:6],
            (UNCACHED.format(t=CPP[dtype], index=1 << 20), "gm_out_of_range"),
            {"ReadGmByPassDCache": 2 * GM, "WriteGmByPassDCache": GM},
        )
        for dtype in (U8, I16, F16, I32, F32)
    ),
]
ROWS = [*_elementwise(), *_reductions(), *_transpositions(), *MASKS, *COPIES, *INT4, *SCALAR]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(source_of(ROWS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_instruction_computes_the_formula_in_time(kernels, row):
    check_numbers(kernels, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_planted_mistake_of_an_instruction_is_found(kernels, record_planted, row):
    check_mistake(kernels, record_planted, row)


FUNCTIONS = """
template <typename T, void (*Op)(const LocalTensor<T>&, const LocalTensor<T>&, const LocalTensor<T>&, const int32_t&)>
__aicore__ inline void Apply(const LocalTensor<T>& z, const LocalTensor<T>& x, const LocalTensor<T>& y)
{
    Op(z, x, y, kCount);
}
__aicore__ inline void ApplyRepeats(
    void (*op)(const LocalTensor<float>&, const LocalTensor<float>&, const LocalTensor<float>&, uint64_t, uint8_t,
               const BinaryRepeatParams&),
    const LocalTensor<float>& z, const LocalTensor<float>& x, const LocalTensor<float>& y)
{
    op(z, x, y, 64, 4, {1, 1, 1, 8, 8, 8});
}
"""


def test_instructions_are_template_arguments_and_function_pointers(compile_kernels):
    bodies = {"template_argument": "Apply<float, Mul<float>>(z, x, y);", "pointer": "ApplyRepeats(Sub, z, x, y);"}
    fields = {"ta": "float", "tb": "float", "tc": "float", "na": 256, "nb": 256, "nc": 256, "load": "In"}
    text = "".join(KERNEL.format(name=name, body=body, **fields) for name, body in bodies.items())
    wrong = KERNEL.format(name="wrong", body="Apply<float, Mul<float>>(z, x[1], y);", **fields)
    kernels = compile_kernels(FRAME + FUNCTIONS + text + wrong)
    a, b, c = (values(F32, 256, seed) for seed in range(3))
    kernels.run("template_argument", a, b, c)
    np.testing.assert_array_equal(c[:203], (a * b)[:203])
    kernels.run("pointer", a, b, c)
    np.testing.assert_array_equal(c, a - b)
    (finding,) = kernels.launch("wrong", a, b, c)["findings"]
    line = (FRAME + FUNCTIONS).split("\n").index("    Op(z, x, y, kCount);") + 1
    assert finding["where"].endswith(f".cpp:{line}")


UNALIGNED = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR y, GM_ADDR number)
{
    GlobalTensor<int32_t> which;
    which.SetGlobalBuffer((__gm__ int32_t*)number, 1);
    GlobalTensor<float> to;
    to.SetGlobalBuffer((__gm__ float*)y, 16);
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<float> a = buffer.Get<float>(), z = a[64];
    Duplicate(a, 2.0f, 64);
    Duplicate(z, 0.0f, 16);
    PipeBarrier<PIPE_V>();
    if (which.GetValue(0) == 0) {
        BlockReduceSum<float>(z[4], a, 1, 64, 1, 1, 8);
    } else {
        WholeReduceMax<float>(z[1], a, 64, 1, 1, 1, 8, ReduceOrder::ORDER_VALUE_INDEX);
    }
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopy(to, z, 16);
}
"""


@pytest.mark.parametrize(("number", "bytes_"), [(0, 32), (1, 8)], ids=["block", "repeat"])
def test_level_strict_requires_the_documented_alignment_of_results(number, bytes_):
    y, which = np.zeros(16, np.float32), np.array([number], np.int32)
    (finding,) = launch(UNALIGNED, "kernel", 1, [y, which], level="strict", lint=False)
    assert (finding.kind, f"expected a multiple of {bytes_}" in finding.message) == ("api_contract", True)
    assert launch(UNALIGNED, "kernel", 1, [y, which], level="device", lint=False) == []
    assert y.tolist() == ([0] * 4 + [16] * 8 + [0] * 4 if number == 0 else [0, 2] + [0] * 14)
