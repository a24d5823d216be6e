"""Check the estimated times of cores that wait for other cores whose loads hit L2."""

from __future__ import annotations

import numpy as np
import pytest

from opforge.codegen.data.products import SOCS
from opforge.twin.compiler.npu_model import npu_model

TILES, TILE = 32, 8192
SOURCE = f"""
#include "kernel_operator.h"
using namespace AscendC;

/// Each cube core reads all of x. Its vector cores then store a tile; then all vector cores wait for each other.
extern "C" __global__ __aicore__ void shared(GM_ADDR x, GM_ADDR y, GM_ADDR, GM_ADDR)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    GlobalTensor<half> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    yGm.SetGlobalBuffer((__gm__ half*)y);
    if ASCEND_IS_AIC {{
        TBuf<TPosition::A1> buffer;
        pipe.InitBuffer(buffer, 2 * {TILE});
        for (int tile = 0; tile < {TILES}; ++tile) {{
            DataCopy(buffer.Get<half>(), xGm[tile * {TILE}], {TILE});
            PipeBarrier<PIPE_MTE2>();
        }}
        CrossCoreSetFlag<2, PIPE_MTE2>(0);
    }}
    if ASCEND_IS_AIV {{
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 2 * {TILE});
        Duplicate<half>(buffer.Get<half>(), static_cast<half>(1.0f), {TILE});
        PipeBarrier<PIPE_ALL>();
        CrossCoreWaitFlag(0);
        SyncAll<true>();
        DataCopy(yGm[GetBlockIdx() * {TILE}], buffer.Get<half>(), {TILE});
    }}
}}

/// The vector cores read x, so that the cube cores find it in L2. Each cube core reads all of x, then waits for a flag
/// that its vector cores have set long before.
extern "C" __global__ __aicore__ void fetched(GM_ADDR x, GM_ADDR, GM_ADDR, GM_ADDR)
{{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    TPipe pipe;
    GlobalTensor<half> xGm;
    xGm.SetGlobalBuffer((__gm__ half*)x);
    if ASCEND_IS_AIC {{
        TBuf<TPosition::A1> buffer;
        pipe.InitBuffer(buffer, 2 * {TILE});
        for (int tile = 0; tile < {2 * TILES}; ++tile) {{
            if (tile == {TILES}) {{
                CrossCoreWaitFlag(0);
            }}
            DataCopy(buffer.Get<half>(), xGm[tile % {TILES} * {TILE}], {TILE});
            PipeBarrier<PIPE_MTE2>();
        }}
    }}
    if ASCEND_IS_AIV {{
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, 2 * {TILE});
        for (int tile = GetBlockIdx(); tile < {TILES}; tile += 2 * GetBlockNum()) {{
            DataCopy(buffer.Get<half>(), xGm[tile * {TILE}], {TILE});
            PipeBarrier<PIPE_MTE2>();
        }}
        CrossCoreSetFlag<2, PIPE_MTE2>(0);
    }}
}}
"""
MODEL = {name: constant["value"] for name, constant in npu_model()["constants"].items()}
MHZ = SOCS["Ascend910B1"].mhz
BLOCKS = 4


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def cycles(first_touch):
    """Return the cycles of the launch if the slowest cube core has so many first-touch bytes."""
    loads = first_touch / MODEL["port_first_touch_bytes_per_cycle_per_core"]
    loads += (2 * TILES * TILE - first_touch) / MODEL["port_l2_read_bytes_per_cycle_per_core"]
    latency = TILES * MODEL["dma_read_latency_cycles"] + MODEL["dma_write_latency_cycles"]
    latency += (TILES + 1) * MODEL["dma_crowded_latency_cycles"]
    waits = MODEL["cross_core_flag_cycles"] + MODEL["sync_all_cycles"]
    store = 2 * TILE / MODEL["port_first_touch_bytes_per_cycle_per_core"]
    return loads + latency + waits + store


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wait_ends_when_the_loads_of_all_cores_end(kernels, seed):
    x, y = np.ones(TILES * TILE, np.float16), np.zeros(2 * BLOCKS * TILE, np.float16)
    report = kernels.run("shared", x, y, roles=(1, 2), blocks=BLOCKS, strict=False, seed=seed, threads=1)
    assert y.min() == 1
    (phase,) = report["phases"]
    # Whichever core the twin runs first: each tile is a first touch of one core, of another one each time.
    assert cycles(x.nbytes / BLOCKS) <= phase["core_us"] * MHZ <= cycles(x.nbytes / 2)


def test_estimates_hardly_depend_on_the_order_of_the_blocks(kernels):
    x, y = np.ones(TILES * TILE, np.float16), np.zeros(1, np.float16)
    times = []
    for seed in range(1, 9):
        report = kernels.run("fetched", x, y, roles=(1, 2), blocks=BLOCKS, strict=False, seed=seed, threads=1)
        (phase,) = report["phases"]
        times.append(phase["core_us"] * MHZ)
    reads = 2 * x.nbytes / MODEL["port_l2_read_bytes_per_cycle_per_core"]
    latency = 2 * TILES * (MODEL["dma_read_latency_cycles"] + MODEL["dma_crowded_latency_cycles"])
    assert max(times) == pytest.approx(min(times), rel=0.01)
    assert reads + latency <= min(times) <= 1.05 * (reads + latency)
