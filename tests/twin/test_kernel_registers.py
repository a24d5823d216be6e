"""Test functions that set registers, flags and atomic modes, sort and fill: results, times and planted mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from charged import COPY, FREE, GM, ISSUE, MODEL, UB, vector
from instruction_rows import Array, Row, check_mistake, check_numbers, source_of
from test_kernel_numbers import CPP, F16, F32

I8, U8, I16, I32, U32 = (np.dtype(name) for name in ("i1", "u1", "i2", "i4", "u4"))
BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (F32,) * 3
V_S = "SetFlag<HardEvent::V_S>(EVENT_ID0); WaitFlag<HardEvent::V_S>(EVENT_ID0);"
TO_S = "SetFlag<HardEvent::MTE2_S>(EVENT_ID0); WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);"
ALL = "PipeBarrier<PIPE_ALL>();"
Formula = Callable[[Array, Array, Array], Array]


def _row(name: str, body: str, expected: Formula, mistake: Any, times: dict[str, float], **options: Any) -> Row:
    """Return a row with 64 floats of each operand."""
    return Row(
        name, body, **{"dtypes": FLOATS, "counts": (64,) * 3} | options, expected=expected, mistake=mistake, times=times
    )


def _plus_one(a: Array, *_: Array) -> Array:
    return a + np.float32(1)


def _entries(a: Array, b: Array, run: int) -> Array:
    """Return entries of value and index, the largest value first in each run."""
    order = np.concatenate([np.argsort(-a[at : at + run], kind="stable") + at for at in range(0, a.size, run)])
    return np.stack([a[order], b[order].view(np.float32)], axis=1).ravel()


SORTED = "Sort32(t, x, y, 2); PipeBarrier<PIPE_V>();"
MERGED = (
    "const MrgSortSrcList<float> lists(t, t[64], t, t); const uint16_t lengths[4] = {{{length}, 32, 0, 0}};"
    "uint32_t taken[4]; MrgSort<float, false>(z, lists, lengths, taken, 3, 1);"
)
COUNTS = f"{V_S} uint16_t n[4]; GetMrgSortResult(n[0], n[1], n[2], n[3]); z.SetValue(0, n[0] + n[1]);"
WHOLE = "LocalTensor<float> k, tmp = t{}; Concat(k, x, t, 2); Sort<float, true>(z, k, y, tmp, 2);"
OFFSETS = f"{TO_S} for (uint32_t i = 0; i < 8; ++i) {{ y.SetValue(i, (i ^ 5) * 32); }}"
OFFSETS += "SetFlag<HardEvent::S_V>(EVENT_ID0); WaitFlag<HardEvent::S_V>(EVENT_ID0);"
ENTRIES: dict[str, Any] = {"dtypes": (F32, U32, F32), "counts": (64, 64, 128)}
SORT32, MRGSORT = MODEL["sort32_cycles_per_repeat"], MODEL["mrgsort_cycles_per_element"]
SORTS = [
    _row(
        "sort_repeats",
        "Sort32(z, x, y, 2);",
        lambda a, b, _: _entries(a, b, 32),
        ("Sort32(z, x[1], y, 1);", "ub_misaligned"),
        {"Sort32": vector(2, SORT32)},
        **ENTRIES,
    ),
    _row(
        "merge_lists",
        f"{SORTED} {MERGED.format(length=32)}",
        lambda a, b, _: _entries(a, b, 64),
        (f"{SORTED} {MERGED.format(length=4096)}", "field_range"),
        {"MrgSort": vector(64, MRGSORT)},
        **ENTRIES,
    ),
    _row(
        "merged_counts",
        f"{SORTED} {MERGED.format(length=32)} {COUNTS}",
        lambda a, b, _: np.append(np.float32(64), _entries(a, b, 64)[1:]),
        (COUNTS, "no_reduction"),
        {"GetMrgSortResult": FREE},
        **ENTRIES,
    ),
    _row(
        "sort_all",
        WHOLE.format(""),
        lambda a, b, _: _entries(a, b, 64),
        (WHOLE.format("[2032]"), "ub_out_of_range"),
        {"Sort": vector(2, SORT32) + vector(64, MRGSORT), "Concat": FREE},
        **ENTRIES,
    ),
    _row(
        "extract_values",
        f"{SORTED} Extract(z, y, t, 2);",
        lambda a, b, _: _entries(a, b, 32)[::2],
        (f"{SORTED} Extract(z[1], y, t, 1);", "ub_misaligned"),
        {"Extract": vector(2 * 2)},  # values and indices
        dtypes=(F32, U32, F32),
        counts=(64, 128, 64),
    ),
    _row(
        "gather_blocks",
        f"{OFFSETS} Gatherb(z, x, y, 1, {{0, 8}});",  # 0 is 1
        lambda a, *_: a.reshape(8, 8)[np.arange(8) ^ 5].ravel(),
        (f"{OFFSETS} Gatherb(z, x[1], y, 1, {{1, 8}});", "ub_misaligned"),
        {"Gatherb": vector(1)},
        dtypes=(U32,) * 3,
    ),
    _row(
        "kept_count",
        f"uint64_t kept; GatherMask(z, x, 1, false, 0, {{1, 1, 8, 0}}, kept); {V_S}"
        "z.SetValue(32, static_cast<float>(GetGatherMaskRemainCount()));",
        lambda a, *_: np.append(a[::2], np.float32(32)),
        ("z.SetValue(32, static_cast<float>(GetGatherMaskRemainCount()));", "no_reduction"),
        {"GetGatherMaskRemainCount": FREE},
        counts=(64, 64, 33),
    ),
]
FILL = (
    f"{ALL} GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float*)b, 64); {{}}(g, {{}}, 3.0f);"
    f"{ALL} DataCopy(z, g, 64); {ALL}"
)
FILLS = [
    _row(
        f"fill_by_{name}",
        FILL.format(name, 64),
        lambda *_: np.full(64, 3, np.float32),
        (FILL.format(name, 65), "gm_out_of_range"),
        {name: vector(2) + COPY},  # whole repeats and one more, and the copy
    )
    for name in ("InitOutput", "Fill")
]
STORE = (
    f"{ALL} GlobalTensor<{{t}}> g; g.SetGlobalBuffer((__gm__ {{t}}*)b, 29); {{set}} DataCopyPad(g, x,"
    f"DataCopyExtParams(1, 29 * sizeof({{t}}), 0, 0, 0)); {{end}} {ALL}"
    f"DataCopyPad(z, g, DataCopyExtParams(1, 29 * sizeof({{t}}), 0, 0, 0), DataCopyPadExtParams<{{t}}>()); {ALL}"
)


def _wide(a: Array) -> Array:
    return a.astype(np.float64 if a.dtype.kind not in "iu" else np.int64)


ATOMICS = [
    _row(
        f"{name}_{dtype.name}",
        STORE.format(t=CPP[dtype], set=f"{name}<{CPP[dtype]}>();", end="SetAtomicNone();"),
        lambda a, b, _, function=function: function(_wide(a), _wide(b)),
        (
            STORE.format(t=CPP[dtype], set=f"{name}<{CPP[F32 if dtype != F32 else F16]}>();", end="SetAtomicNone();"),
            "atomic_dtype",
            "the atomic mode set at",
        ),
        {name: FREE, "SetAtomicNone": FREE, "DataCopyPad": (4 + 2) * COPY},  # also a, b and c of the frame
        dtypes=(dtype,) * 3,
        counts=(29,) * 3,
    )
    for name, function in (("SetAtomicAdd", np.add), ("SetAtomicMax", np.maximum), ("SetAtomicMin", np.minimum))
    for dtype in (F32, F16, BF16, I32, I16, I8)
]
ADD = "Adds<float, false>(z, x, 1.0f, static_cast<uint64_t>(0), 1, {1, 1, 8, 8});"
MASKS = [
    _row(
        "mask_of_elements",
        f"SetVectorMask<float>(40); {ADD} ResetMask();",
        lambda a, _, c: np.append(a[:40] + np.float32(1), c[40:]),
        (f"SetVectorMask<float>(65); {ADD} ResetMask();", "field_range"),
        {"SetVectorMask": FREE, "ResetMask": FREE},
    ),
    _row(
        "mask_reset",
        f"SetVectorMask<float>(0, 7); ResetMask(); {ADD}",
        _plus_one,
        (f"SetVectorMask<float>(0, 7); {ADD}", "mask_left", "ResetMask"),
        {"ResetMask": FREE},
    ),
    _row(
        "mask_counter",
        f"SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(40); {ADD} SetMaskNorm(); ResetMask();",
        lambda a, _, c: np.append(a[:40] + np.float32(1), c[40:]),
        (
            f"SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(40); {ADD} ResetMask();",
            "mask_left",
            "SetMaskNorm",
        ),
        {"SetMaskNorm": FREE},
    ),
    _row(
        "mask_count",
        f"SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(64); {ADD} SetMaskNorm(); ResetMask();",
        _plus_one,
        (
            f"SetVectorMask<float, MaskMode::COUNTER>(100); {ADD} SetMaskNorm(); ResetMask();",
            "mask_range",
            "SetMaskCount",
        ),
        {"SetMaskCount": FREE},
    ),
]
FLAGS = [
    _row(
        "flag_set",
        "Adds(z, x, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(EVENT_ID3); WaitFlag<HardEvent::V_MTE3>(EVENT_ID3);",
        _plus_one,
        ("Adds(z, x, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(8); WaitFlag<HardEvent::V_MTE3>(8);", "field_range"),
        {"SetFlag": FREE},
    ),
    _row(
        "flag_awaited",
        "Adds(z, x, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(EVENT_ID3); WaitFlag<HardEvent::V_MTE3>(EVENT_ID3);",
        _plus_one,
        ("Adds(z, x, 1.0f, 64); WaitFlag<HardEvent::V_MTE3>(EVENT_ID3);", "flag_not_set"),
        {"WaitFlag": FREE},
    ),
    _row(
        "barrier_of_pipe",
        "Adds(t, x, 0.5f, 64); PipeBarrier<PIPE_V>(); Adds(z, t, 0.5f, 64);",
        lambda a, *_: (a + np.float32(0.5)) + np.float32(0.5),
        ("Adds(t, x, 0.5f, 64); Adds(z, t, 0.5f, 64);", "race", "put PipeBarrier<PIPE_V>"),
        {"PipeBarrier": FREE, "Adds": vector(1, instructions=2)},
    ),
]
POINTER = "{all} __gm__ float* to = (__gm__ float*)b; WriteGmByPassDCache<float>(to + {at}, x.GetValue(5)); {all}"
OTHERS = [
    _row(
        "write_past_cache",
        POINTER.format(all=ALL, at=3) + "z.SetValue(0, ReadGmByPassDCache<float>(to + 3));",
        lambda a, *_: a[5:6],
        (POINTER.format(all=ALL, at=1 << 20), "gm_out_of_range"),
        {"WriteGmByPassDCache": GM, "ReadGmByPassDCache": GM},
        counts=(64, 64, 1),
    ),
    _row(
        "store_by_address",
        f"{ALL} DataCopyUB2GMImpl((__gm__ float*)b, (__ubuf__ float*)x.GetPhyAddr(), {{1, 8, 0, 0}});"
        f"{ALL} y = lb.In(); Adds(z, y, 0.0f, 64);",
        lambda a, *_: a,
        (
            f"{ALL} DataCopyUB2GMImpl((__gm__ float*)b, (__ubuf__ float*)x.GetPhyAddr(), {{1, 9, 0, 0}});",
            "gm_out_of_range",
        ),
        {"DataCopyUB2GMImpl": COPY},
    ),
    _row(
        "rest_of_buffer",
        "LocalTensor<float> rest; PopStackBuffer<float, TPosition::LCM>(rest); rest.SetSize(64);"
        "Adds(rest, x, 1.0f, 64); PipeBarrier<PIPE_V>(); Adds(z, rest, 0.0f, 64);",
        _plus_one,
        (
            (
                "LocalTensor<float> rest; PopStackBuffer<float, TPosition::LCM>(rest);"
                "Duplicate(rest, 1.0f, rest.GetSize() + 64);"
            ),
            "ub_out_of_range",
            "of a tensor that has",
        ),
        {"PopStackBuffer": FREE},
    ),
    _row(
        "cache_hints",
        f"DataCachePreload(GlobalTensor<uint64_t>(), int64_t{{0}}); ICachePreLoad(1); {TO_S}"
        "DataSyncBarrier<MemDsbT::ALL>();"
        "z.SetValue(0, static_cast<float>(GetICachePreloadStatus()));",
        lambda *_: np.zeros(1, np.float32),
        ("z.SetValue(1 << 20, 0.0f);", "ub_out_of_range"),
        {
            "LocalTensor::SetValue": UB,
            **dict.fromkeys(("DataCachePreload", "ICachePreLoad", "GetICachePreloadStatus", "DataSyncBarrier"), ISSUE),
        },
        counts=(64, 64, 1),
    ),
    _row(
        "scaled_sums",
        "SetDeqScale(half(0.5f)); Cast(z, x, RoundMode::CAST_NONE, 64);",
        lambda a, *_: a * np.float32(0.5),
        ("Cast(z, x, RoundMode::CAST_NONE, 64);", "cast_mode", "SetDeqScale"),
        {"SetDeqScale": FREE, "Cast": vector(1)},
        dtypes=(I32, I32, F16),
    ),
]
ROWS = [*SORTS, *FILLS, *ATOMICS, *MASKS, *FLAGS, *OTHERS]


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(source_of(ROWS))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_function_has_its_effect_in_time(kernels, row):
    check_numbers(kernels, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_planted_mistake_is_found(kernels, record_planted, row):
    check_mistake(kernels, record_planted, row)
