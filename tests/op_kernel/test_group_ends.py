"""Test op_kernel/common/memory/group_ends.h: lists for more rows than a test can allocate."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from golden import ROOT

from opforge.twin import launch

# One group per lane of an output line; `limits` contains the rows and whether the list contains lengths.
KERNEL = """
#include "kernel_operator.h"
#include "common/memory/group_ends.h"

extern "C" __global__ __aicore__ void list_ends(GM_ADDR list, GM_ADDR limits, GM_ADDR ends)
{
    AscendC::TPipe pipe;
    AscendC::GlobalTensor<INDEX> listGm;
    AscendC::GlobalTensor<int64_t> limitsGm;
    AscendC::GlobalTensor<int32_t> endsGm;
    listGm.SetGlobalBuffer(reinterpret_cast<__gm__ INDEX*>(list), 16);
    limitsGm.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(limits), 2);
    endsGm.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(ends), 16);
    AscendC::TBuf<AscendC::TPosition::VECCALC> work;
    pipe.InitBuffer(work, 5 * 64 * sizeof(int32_t));
    opforge::kernel::Groups<INDEX, true> groups;
    groups.Init(&pipe, 32 + 64 * sizeof(int32_t));
    groups.Load(listGm, 16, limitsGm.GetValue(0), limitsGm.GetValue(1) != 0, work.Get<int32_t>());
    for (int64_t group = 0; group < 16; ++group) {
        endsGm.SetValue(static_cast<uint64_t>(group), static_cast<int32_t>(groups.End(group)));
    }
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                      AscendC::DcciDst::CACHELINE_OUT>(endsGm);
}
"""


def ends_of(index, rows, *, are_lengths):
    ends = np.zeros(16, np.int32)
    # The text contains the folder of the headers: a copy of the project compiles its headers.
    kernel = f"// {ROOT}\n" + KERNEL.replace("INDEX", f"{index.dtype.name}_t")
    assert launch(kernel, "list_ends", 1, [index, np.array([rows, are_lengths], np.int64), ends]) == []
    return ends


@pytest.fixture(autouse=True)
def _kernel_headers(monkeypatch):
    monkeypatch.setenv("CPATH", str(ROOT / "op_kernel"))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("rows", [2**30 - 1, 2**30, 2**30 + 1, 2**31 - 1])
@pytest.mark.parametrize("are_lengths", [False, True])
def test_ends_up_to_the_largest_number_of_rows(rows, are_lengths, dtype):
    numbers = [0, 5, 2**30 - 7, 3, 2**30 - 1, 2**31 - 1, 0, 2**31 - 1, 2**30, 2**30 + 1, *[2**31 - 1] * 6]
    index = np.array(numbers if are_lengths else sorted(numbers), dtype)
    expected = list(accumulate(numbers)) if are_lengths else sorted(numbers)
    np.testing.assert_array_equal(ends_of(index, rows, are_lengths=are_lengths), [min(end, rows) for end in expected])
