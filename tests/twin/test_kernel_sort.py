"""Compare sorting and merging of (value, index) entries with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;
#define ORDER(event) SetFlag<HardEvent::event>(EVENT_ID0); WaitFlag<HardEvent::event>(EVENT_ID0)

/// Sorts four runs of 32, merges them (MERGE), takes the entries apart; the counts of the merge go behind the indices.
template <typename T, bool kSuspends>
__aicore__ inline void SortRuns(GM_ADDR x, GM_ADDR values, GM_ADDR indices, uint16_t last, uint16_t valid)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 8192);
    GlobalTensor<T> xGm, valuesGm;
    GlobalTensor<uint32_t> indicesGm;
    xGm.SetGlobalBuffer((__gm__ T*)x);
    valuesGm.SetGlobalBuffer((__gm__ T*)values);
    indicesGm.SetGlobalBuffer((__gm__ uint32_t*)indices);
    LocalTensor<T> keys = buffer.GetWithOffset<T>(128, 0);
    LocalTensor<uint32_t> numbers = buffer.GetWithOffset<uint32_t>(128, 512);
    LocalTensor<T> runs = buffer.GetWithOffset<T>(1024 / sizeof(T), 1024);
    LocalTensor<T> merged = buffer.GetWithOffset<T>(1024 / sizeof(T), 2048);
    LocalTensor<T> first = buffer.GetWithOffset<T>(128, 3072);
    LocalTensor<uint32_t> second = buffer.GetWithOffset<uint32_t>(256, 4096);
    DataCopy(keys, xGm, 128);
    CreateVecIndex<int32_t>(numbers.template ReinterpretCast<int32_t>(), 0, 128);
    ORDER(MTE2_V);
    PipeBarrier<PIPE_V>();
    Sort32(runs, keys, numbers, 4);
    Duplicate(merged.template ReinterpretCast<int32_t>(), 0, 256);
    PipeBarrier<PIPE_V>();
    const uint32_t run = GetSortLen<T>(32);
    MrgSortSrcList<T> lists(runs, runs[run], runs[GetSortOffset<T>(64)], runs[3 * run]);
    const uint16_t lengths[4] = {32, 32, 32, last};
    uint32_t taken[4] = {};
    MrgSort<T, kSuspends>(merged, lists, lengths, taken, valid, 1);
    uint16_t again[4] = {};
    GetMrgSortResult(again[0], again[1], again[2], again[3]);
    PipeBarrier<PIPE_V>();
    Extract(first, second, merged, 4);
    ORDER(V_S);
    for (uint32_t list = 0; list < 4; ++list) {
        second.SetValue(128 + list, taken[list] + (again[list] - taken[list]) * 1000);
    }
    ORDER(S_MTE3);
    ORDER(V_MTE3);
    DataCopy(valuesGm, first, 128);
    DataCopyPad(indicesGm, second, DataCopyExtParams(1, 132 * 4, 0, 0, 0));
}

/// Sorts 160 values in one call, whole or in runs of 32.
template <typename T, bool kIsFull>
__aicore__ inline void SortAll(GM_ADDR x, GM_ADDR values, GM_ADDR indices, int32_t tmpBytes)
{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 8192);
    GlobalTensor<T> xGm, valuesGm;
    GlobalTensor<uint32_t> indicesGm;
    xGm.SetGlobalBuffer((__gm__ T*)x);
    valuesGm.SetGlobalBuffer((__gm__ T*)values);
    indicesGm.SetGlobalBuffer((__gm__ uint32_t*)indices);
    LocalTensor<T> keys = buffer.GetWithOffset<T>(160, 0);
    LocalTensor<uint32_t> numbers = buffer.GetWithOffset<uint32_t>(160, 672);
    LocalTensor<T> sorted = buffer.GetWithOffset<T>(1280 / sizeof(T), 1312);
    LocalTensor<T> tmp = buffer.GetWithOffset<T>(tmpBytes / sizeof(T), 2592);
    LocalTensor<T> first = buffer.GetWithOffset<T>(160, 3840);
    LocalTensor<uint32_t> second = buffer.GetWithOffset<uint32_t>(320, 4480);
    DataCopy(keys, xGm, 160);
    CreateVecIndex<int32_t>(numbers.template ReinterpretCast<int32_t>(), 0, 160);
    ORDER(MTE2_V);
    PipeBarrier<PIPE_V>();
    LocalTensor<T> concat;
    Concat(concat, keys, tmp, 5);
    Sort<T, kIsFull>(sorted, concat, numbers, tmp, 5);
    PipeBarrier<PIPE_V>();
    Extract(first, second, sorted, 5);
    ORDER(V_MTE3);
    DataCopy(valuesGm, first, 160);
    DataCopy(indicesGm, second, 160);
}

#define SORT(name, ...) \\
    extern "C" __global__ __aicore__ void name(GM_ADDR x, GM_ADDR values, GM_ADDR indices, GM_ADDR, GM_ADDR) \\
    { SortAll<__VA_ARGS__>(x, values, indices
SORT(all_floats, float, true), 1280); }
SORT(all_halves, half, true), 1280); }
SORT(runs_of_floats, float, false), 1280); }
SORT(little_scratch, float, true), 1248); }

#define KERNEL(name, ...) \\
    extern "C" __global__ __aicore__ void name(GM_ADDR x, GM_ADDR values, GM_ADDR indices, GM_ADDR, GM_ADDR) \\
    { SortRuns<__VA_ARGS__>(x, values, indices
KERNEL(floats, float, false), 32, 15); }
KERNEL(halves, half, false), 32, 15); }
KERNEL(three_lists, float, false), 32, 7); }
KERNEL(short_list, float, false), 20, 15); }
KERNEL(suspended, float, true), 2, 15); }
KERNEL(one_list, float, false), 32, 1); }
KERNEL(too_long, float, false), 4096, 15); }
"""


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def _arrays(dtype, seed=3):
    # Few different values: equal ones must keep their order.
    x = np.random.default_rng(seed).integers(-20, 20, 128).astype(dtype)
    return x, np.zeros(128, dtype), np.zeros(132, np.uint32)


@pytest.mark.parametrize(("symbol", "dtype"), [("floats", np.float32), ("halves", np.float16)])
def test_four_runs_become_one(kernels, symbol, dtype):
    x, values, indices = _arrays(dtype)
    kernels.run(symbol, x, values, indices)
    order = np.argsort(-x.astype(np.float64), kind="stable")
    np.testing.assert_array_equal(indices[:128], order)
    np.testing.assert_array_equal(values, x[order])
    np.testing.assert_array_equal(indices[128:], [32, 32, 32, 32])


@pytest.mark.parametrize(("symbol", "used"), [("three_lists", 96), ("short_list", 116)])
def test_lists_that_are_missing_or_short(kernels, symbol, used):
    x, values, indices = _arrays(np.float32)
    kernels.run(symbol, x, values, indices)
    runs = [np.argsort(-x[at : at + 32], kind="stable") + at for at in range(0, 128, 32)]
    entries = np.concatenate(runs)[:used]
    order = entries[np.argsort(-x[entries], kind="stable")]
    np.testing.assert_array_equal(indices[:used], order)
    np.testing.assert_array_equal(values[:used], x[order])
    assert not values[used:].any()
    assert indices[128:].sum() == used


def test_a_merge_stops_when_a_list_ends(kernels):
    x, values, indices = _arrays(np.float32)
    kernels.run("suspended", x, values, indices)
    counts = indices[128:].astype(int)
    assert counts[3] == 2 or 32 in counts[:3]
    used = counts.sum()
    assert 2 <= used < 98
    runs = [np.argsort(-x[at : at + 32], kind="stable") + at for at in range(0, 128, 32)]
    entries = np.concatenate(runs)[:98]
    order = entries[np.argsort(-x[entries], kind="stable")][:used]
    np.testing.assert_array_equal(indices[:used], order)


def test_mistakes_are_named(kernels):
    x, values, indices = _arrays(np.float32)
    found = kernels.launch("one_list", x, values, indices)["findings"]
    assert (found[0]["kind"], "validBit is 1" in found[0]["message"]) == ("field_range", True)
    found = kernels.launch("too_long", x, values, indices)["findings"]
    assert (found[0]["kind"], "elementLengths is 4096" in found[0]["message"]) == ("field_range", True)
    x[77] = np.nan
    found = kernels.launch("floats", x, values, indices)["findings"]
    assert (found[0]["kind"], "-inf" in found[0]["message"]) == ("sort_nan", True)


@pytest.mark.parametrize(
    ("symbol", "dtype", "run"),
    [("all_floats", np.float32, 160), ("all_halves", np.float16, 160), ("runs_of_floats", np.float32, 32)],
)
def test_sort_in_one_call(kernels, symbol, dtype, run):
    x = np.random.default_rng(5).integers(-9, 9, 160).astype(dtype)
    values, indices = np.zeros(160, dtype), np.zeros(160, np.uint32)
    kernels.run(symbol, x, values, indices)
    order = np.concatenate([np.argsort(-x[at : at + run], kind="stable") + at for at in range(0, 160, run)])
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, x[order])


def test_a_full_sort_needs_scratch_as_large_as_its_result(kernels):
    x, values, indices = (np.zeros(160, dtype) for dtype in (np.float32, np.float32, np.uint32))
    found = kernels.launch("little_scratch", x, values, indices)["findings"]
    assert (found[0]["kind"], "tmp writes bytes [0, 1280)" in found[0]["message"]) == ("ub_out_of_range", True)
