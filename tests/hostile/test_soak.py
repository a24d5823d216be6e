"""Three hundred runs of all kinds leave the process as it was: memory, threads, open files and child processes."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.twin import AclnnError, launch, run

WARM_UP, RUNS = 60, 300
MOST_GROWTH = 8 << 20  # bytes; a leak of 30 KB a run exceeds it
ROWS = np.ones((12, 8), np.float32)
KERNEL = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void adds(GM_ADDR x, GM_ADDR workspace)
{
    AscendC::GlobalTensor<int32_t> gm;
    gm.SetGlobalBuffer((__gm__ int32_t*)x);
    if (gm.GetValue(1) != 0) {
        gm.SetValue(1000, 0);
    }
    gm.SetValue(0, gm.GetValue(0) + 1);
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                      AscendC::DcciDst::CACHELINE_OUT>(gm);
}
"""


def grouped(step):
    run("GroupedBiasAddGrad", {"grad_y": ROWS, "group_idx": np.array([4, 12])}, strict=step % 2 == 0)


def embedding(step):
    run(
        "EmbeddingDenseBackward",
        {"grad": ROWS, "indices": np.arange(12) % 5},
        {"num_weights": 5, "padding_idx": -1, "scale_grad_by_freq": False},
    )


def refused(step):
    with pytest.raises(AclnnError):
        run("GroupedBiasAddGrad", {"grad_y": ROWS.astype(np.float64)})


def misused(step):
    with pytest.raises(UserError):
        run("GroupedBiasAddGrad", {"grad_y": ROWS.astype(object)})


def launched(step):
    assert launch(KERNEL, "adds", 1, [np.zeros(16, np.int32)], seed=step + 1) == []


def faulty(step):
    (found,) = launch(KERNEL, "adds", 1, [np.ones(16, np.int32)])
    assert found.kind == "gm_out_of_range"


def isolated(step):
    if step % 4 == 0:
        assert launch(KERNEL, "adds", 1, [np.zeros(16, np.int32)], isolate=True) == []


CALLS = (grouped, embedding, refused, misused, launched, faulty, isolated)


def state():
    """Resident bytes, threads, open files, child processes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # freed memory that the allocator keeps is no leak
    own = Path("/proc/self")
    resident = int((own / "statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    children = "".join(path.read_text(encoding="ascii") for path in own.glob("task/*/children"))
    counts = [len(list((own / folder).iterdir())) for folder in ("task", "fd")]
    return resident, [*counts, len(children.split())]


def test_runs_leave_nothing_behind():
    for step in range(WARM_UP):
        CALLS[step % len(CALLS)](step)
    resident, counts = state()
    for step in range(RUNS):
        CALLS[step % len(CALLS)](step)
    resident_after, counts_after = state()
    assert counts_after == counts
    assert resident_after - resident < MOST_GROWTH
