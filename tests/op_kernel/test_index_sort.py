"""Test the sort of indices: every length around the sizes of chunks, every magnitude of indices."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from opforge.twin import launch

COMMON = Path(__file__).resolve().parents[2] / "op_kernel" / "common"
INCLUDE = re.compile(r'#include "common/([\w/]+\.h)"\n')

KERNEL = """
struct SortTiling {
    int64_t length;
    int64_t limit;
    int64_t unwanted;
    int64_t chunk;
    int64_t blocks;
};

extern "C" __global__ __aicore__ void sort_indices(GM_ADDR indices, GM_ADDR lists, GM_ADDR wanted, GM_ADDR workspace,
                                                   GM_ADDR tiling)
{
    REGISTER_TILING_DEFAULT(SortTiling);
    GET_TILING_DATA_WITH_STRUCT(SortTiling, data, tiling);
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
    AscendC::TPipe pipe;
    AscendC::GlobalTensor<INDEX> source;
    AscendC::GlobalTensor<int32_t> target;
    AscendC::GlobalTensor<int64_t> count;
    source.SetGlobalBuffer(reinterpret_cast<__gm__ INDEX*>(indices), static_cast<uint64_t>(data.length));
    target.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(lists), static_cast<uint64_t>(4 * data.length));
    count.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(wanted), 1);
    opforge::kernel::IndexSort<INDEX> sort;
    const int32_t bytes = static_cast<int32_t>(24 * data.chunk + 2 * opforge::kernel::Probes::kBytes);
    sort.Init(&pipe, {data.length, data.limit, data.unwanted, data.chunk, data.blocks}, bytes, source, target);
    const int64_t found = sort.CountWanted(sort.Run());
    if (AscendC::GetBlockIdx() == 0) {
        count.SetValue(0, found);
        AscendC::DataCacheCleanAndInvalid<int64_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                          AscendC::DcciDst::CACHELINE_OUT>(count);
    }
}
"""


def with_includes(name):
    """Return a header of kernels with the text of each header that it includes; include guards drop repetitions."""
    return INCLUDE.sub(lambda found: with_includes(found[1]), (COMMON / name).read_text(encoding="utf-8"))


def source_for(dtype):
    """Return the headers and a kernel as one text."""
    return with_includes("vector/index_sort.h") + KERNEL.replace("INDEX", f"{np.dtype(dtype).name}_t")


def sort(indices, limit, unwanted=-1, chunk=32, blocks=1):
    """Run the kernel; return the wanted sorted indices and their positions in the unsorted list."""
    lists = np.zeros((2, len(indices), 2), np.int32)
    count = np.zeros(1, np.int64)
    tiling = struct.pack("<5q", len(indices), limit, unwanted, chunk, blocks)
    findings = launch(source_for(indices.dtype), "sort_indices", blocks, [indices, lists, count], tiling)
    assert not findings, "\n".join(map(str, findings))
    levels = 0
    while chunk << levels < len(indices):
        levels += 1
    places = lists[levels % 2, :, 1]
    np.testing.assert_array_equal(np.sort(places), np.arange(len(indices)))
    return indices[places[: count[0]]], places[: count[0]]


def check(indices, limit, unwanted=-1, **options):
    expected = np.flatnonzero((indices >= 0) & (indices < limit) & (indices != unwanted))
    expected = expected[np.argsort(indices[expected], kind="stable")]
    got, places = sort(indices.copy(), limit, unwanted, **options)
    np.testing.assert_array_equal(got, indices[expected])
    np.testing.assert_array_equal(places, expected)


DTYPES = [np.int32, np.int64]


# Each length and each chunk has both dtypes.
@pytest.mark.parametrize("length", [1, 31, 32, 33, 127, 128, 129, 500, 2048, 4096])
def test_one_core(length):
    indices = np.random.default_rng(length).integers(-3, 60, length)
    for index, chunk in enumerate((32, 64, 256, 4096)):
        check(indices.astype(DTYPES[(index + len(format(length, "b"))) % 2]), 50, 7, chunk=chunk)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("blocks", [2, 7, 48])
def test_all_cores(blocks, dtype):
    for length in (100, 257, 4097, 10000):
        indices = np.random.default_rng(length).integers(0, length, length).astype(dtype)
        check(indices, length, chunk=64, blocks=blocks)


ORDERS = {
    "ascending": np.arange(6000),
    "descending": np.arange(6000)[::-1],
    "equal": np.full(6000, 5),
    "all_unwanted": np.full(6000, 6),
    "halves_swapped": np.roll(np.arange(6000), 3000),
    "interleaved": np.arange(6000) % 2 * 3000 + np.arange(6000) // 2,
    "one_smaller": np.where(np.arange(6000) == 5999, 0, 3),
}


@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_the_list(order):
    check(ORDERS[order].astype(np.int32), 6000, 6, chunk=128, blocks=20)


@pytest.mark.parametrize("limit", [1, 2**24, 2**24 + 1, 2**30, 2**30 + 1, 2**31 - 2**23, 2**31 - 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_magnitude(limit, dtype):
    info = np.iinfo(dtype)
    near = [number + shift for number in (0, limit, 2**23, 2**24, 2**30, 2**31, 2**32) for shift in range(-2, 3)]
    edges = [
        number for number in [*near, info.min, info.max, -(2**32), 3 * 2**32 + 1] if info.min <= number <= info.max
    ]
    random = np.random.default_rng(0).integers(0, limit, 3000)
    indices = np.random.default_rng(1).permutation(np.r_[random, edges]).astype(dtype)
    check(indices, limit, limit // 2, chunk=1024, blocks=3)
    check(indices, limit, 0, chunk=4096)
