"""Loops of the scalar unit that read global memory until another core writes it."""

import numpy as np
import pytest
from charged import GM

from opforge.codegen.data.products import SOCS

pytestmark = pytest.mark.slow

# Each block waits for the flag of the block before it, and then takes its turn on the value y.
START = """#include "kernel_operator.h"
using namespace AscendC;
struct Memory {
    __aicore__ inline Memory(GM_ADDR flagsGm, GM_ADDR yGm) : flag((__gm__ int32_t*)flagsGm)
    {
        flags.SetGlobalBuffer(flag, 512);
        y.SetGlobalBuffer((__gm__ int32_t*)yGm, 8);
    }
    __aicore__ inline void Refresh(const GlobalTensor<int32_t>& line)
    {
        DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(line);
    }
    __aicore__ inline int32_t Flag(int32_t core) { return ReadGmByPassDCache<int32_t>(flag + core * 32); }
    __aicore__ inline void Raise(int32_t core) { WriteGmByPassDCache<int32_t>(flag + core * 32, 1); }
    __aicore__ inline void Turn(int32_t core)
    {
        Refresh(y);
        y.SetValue(0, y.GetValue(0) * 3 + core);
        Refresh(y);
    }
    __aicore__ inline int32_t CachedFlag(int32_t core)
    {
        Refresh(flags[core * 32]);
        return flags.GetValue(core * 32);
    }
    __gm__ int32_t* flag;
    GlobalTensor<int32_t> flags;
    GlobalTensor<int32_t> y;
};
"""
KERNEL = """extern "C" __global__ __aicore__ void NAME(GM_ADDR flags, GM_ADDR y)
{
    Memory memory(flags, y);
    const int32_t core = GetBlockIdx();
    BODY
}
"""
# The blocks take turns: 0, 3, 6, 1, 4, 7, 2, 5.
TURNS = [0, 3, 6, 1, 4, 7, 2, 5]
CHAIN = "if (core != 0) {{ {wait} }} memory.Turn(core); memory.Raise(core);"
# Block 0 goes on when all others have raised their flags.
GATHER = """if (core != 0) { memory.Raise(core); return; }
    int32_t raised = 0;
    while (raised != 7) {
        raised = 0;
        for (int32_t other = 1; other < 8; ++other) { raised += memory.Flag(other); }
    }
    memory.Turn(raised);"""
TRIES = """int32_t tries = 0;
    while (memory.Flag(9) != 1 && tries < 100) { ++tries; }
    if (core == 0) { memory.Turn(tries); }"""
BODIES = {
    "chain": CHAIN.format(wait="while (memory.Flag((core + 5) % 8) != 1) { }"),
    "cached": CHAIN.format(wait="while (memory.CachedFlag((core + 5) % 8) != 1) { }"),
    "gather": GATHER,
    "gives_up": TRIES,
    # Mistakes:
    "no_wait": CHAIN.format(wait=""),
    "own_writes": "while (memory.Flag((core + 5) % 8) != 1) { }  memory.Raise(core);",
    "nobody_writes": "if (core == 3) { while (memory.CachedFlag(9) != 1) { } }",
    "only_late": "if (core == 3) { while (memory.Flag(9) != 1) { } } SyncAll(); if (core == 4) { memory.Raise(9); }",
}
SOURCE = START + "".join(KERNEL.replace("NAME", name).replace("BODY", body) for name, body in BODIES.items())


@pytest.fixture(scope="module")
def kernels(compile_kernels):
    return compile_kernels(SOURCE)


def launch(kernels, name, **options):
    y = np.full(8, 5, np.int32)
    report = kernels.launch(name, np.zeros(512, np.int32), y, blocks=8, **options)
    return int(y[0]), report


def after_turns(turns):
    value = 5
    for core in turns:
        value = value * 3 + core
    return value


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_blocks_that_poll_make_progress(kernels, threads, seed):
    """In any order of the blocks, the numbers, the findings and the estimated time are the same."""
    expected = {"chain": after_turns(TURNS), "gather": after_turns([7]), "gives_up": after_turns([100])}
    for name, value in expected.items():
        result, report = launch(kernels, name, threads=threads, seed=seed)
        assert (name, report["findings"], result) == (name, [], value)
    assert launch(kernels, "cached", threads=threads, seed=seed, strict=0)[0] == after_turns(TURNS)


def test_a_poll_waits_in_estimated_time(kernels):
    """The blocks of the chain run one after the other, with 3 accesses to global memory each."""
    times = {launch(kernels, "chain", seed=seed)[1]["estimate_us"] for seed in range(4)}
    (time,) = times
    alone = launch(kernels, "no_wait")[1]["estimate_us"]
    assert (time - alone) * SOCS["Ascend910B1"].mhz == pytest.approx(7 * 3 * GM, rel=1e-3)


@pytest.mark.parametrize("name", ["own_writes", "nobody_writes", "only_late"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_poll_of_a_value_that_no_core_writes(kernels, name, threads):
    found = launch(kernels, name, threads=threads)[1]["findings"]
    assert {finding["kind"] for finding in found} == {"endless_loop"}
    message = found[0]["message"] + found[-1]["message"]
    assert "the loop reads bytes [" in message
    assert "let another core write them" in message


def test_a_missing_poll_is_a_race(kernels):
    found = launch(kernels, "no_wait")[1]["findings"]
    assert {finding["kind"] for finding in found} >= {"race"}


def test_a_poll_with_the_cache_is_an_order_at_level_device(kernels):
    """The kernel polls with GetValue: the cores run. Level device accepts the order, and level strict does not."""
    found = launch(kernels, "cached")[1]["findings"]
    assert "race" in {finding["kind"] for finding in found}
    for seed in range(3):
        result, report = launch(kernels, "cached", strict=2, seed=seed)
        assert (report["findings"], result) == ([], after_turns(TURNS))
