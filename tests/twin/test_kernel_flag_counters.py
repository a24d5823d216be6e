"""The counters of flags between cores: at most 15 flags may be set before a wait."""

import numpy as np
import pytest

from opforge.twin.runtime.launch import launch

# The cube core sets 40 flags. AHEAD, BETWEEN, AFTER, ANSWER: code of the cube cores, and of the vector cores.
KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void kernel(GM_ADDR x)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    for (int32_t i = 0; i < 40; ++i) {
        if ASCEND_IS_AIC {
            AHEAD
            CrossCoreSetFlag<2, PIPE_FIX>(5);
        }
        if ASCEND_IS_AIV {
            CrossCoreWaitFlag(5);
            ANSWER
        }
    }
    if ASCEND_IS_AIC {
        AFTER
    }
    if ASCEND_IS_AIV {
        if (GetBlockIdx() == 0) {
            GlobalTensor<int32_t> result;
            result.SetGlobalBuffer((__gm__ int32_t*)x);
            result.SetValue(0, 7);
            DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(result);
        }
    }
}
"""
ANSWER = "CrossCoreSetFlag<2, PIPE_MTE3>(6);"


def kinds(ahead="", after="", answer="", level="strict", blocks=2):
    text = KERNEL.replace("AHEAD", ahead).replace("AFTER", after).replace("ANSWER", answer)
    x = np.zeros(16, np.int32)
    findings = launch(text, "kernel", blocks, [x], level=level, lint=False)
    return {finding.kind for finding in findings}, int(x[0])


def window(flags):
    return {
        "ahead": f"if (i >= {flags}) {{ CrossCoreWaitFlag(6); }}",
        "after": f"for (int32_t i = 0; i < {flags}; ++i) {{ CrossCoreWaitFlag(6); }}",
        "answer": ANSWER,
    }


@pytest.mark.parametrize("blocks", [1, 2])
def test_flags_without_an_answer(blocks):
    """Nothing makes the cube core wait. The device fails only if the vector cores are too slow."""
    assert kinds(blocks=blocks)[0] == {"flag_overflow"}
    assert kinds(blocks=blocks, level="device") == (set(), 7)
    assert kinds(blocks=blocks, level="fast") == (set(), 7)


@pytest.mark.parametrize("flags", [1, 15, 16])
def test_flags_with_an_answer(flags):
    """The cube core sets the next flag after the vector cores have waited for the flag that is `flags` before."""
    found = kinds(**window(flags))
    assert found == (set(), 7) if flags <= 15 else found[0] == {"flag_overflow"}
    assert kinds(**window(flags), level="device") == (set(), 7)


@pytest.mark.parametrize(("every", "expected"), [(15, set()), (16, {"flag_overflow"})])
def test_flags_with_barriers(every, expected):
    """A barrier of all cores orders the waits before it, and the flags after it."""
    barrier = f"if (i % {every} == {every - 1}) {{ SyncAll<false>(); }}"
    text = KERNEL.replace("CrossCoreSetFlag<2, PIPE_FIX>(5);", f"CrossCoreSetFlag<2, PIPE_FIX>(5); {barrier}")
    text = text.replace("AHEAD", "").replace("AFTER", "").replace("ANSWER", barrier)
    findings = launch(text, "kernel", 2, [np.zeros(16, np.int32)], lint=False)
    assert {finding.kind for finding in findings} == expected


@pytest.mark.parametrize("level", ["strict", "device", "fast"])
@pytest.mark.parametrize("mode", [0, 1])
def test_flags_between_cores_of_a_kind(mode, level):
    """A core that waits for each of its own flags is never ahead; a core that waits at the end is."""
    text = KERNEL.replace("AHEAD", "").replace("AFTER", "").replace("CrossCoreWaitFlag(5);", "")
    text = text.replace("CrossCoreSetFlag<2, PIPE_FIX>(5);", "")
    paired = f"CrossCoreSetFlag<{mode}, PIPE_MTE3>(5); WAIT"
    for wait, expected in (("CrossCoreWaitFlag(5);", set()), ("", {"flag_overflow"})):
        source = text.replace("ANSWER", paired.replace("WAIT", wait))
        findings = launch(source, "kernel", 2, [np.zeros(16, np.int32)], level=level, lint=False)
        assert {finding.kind for finding in findings} == expected


def test_an_order_in_one_direction_is_no_answer():
    """A flag that a vector core sets before its wait does not order the wait."""
    text = KERNEL.replace("AHEAD", "CrossCoreWaitFlag(6);").replace("AFTER", "").replace("ANSWER", "")
    text = text.replace(
        "CrossCoreWaitFlag(5);",
        f"for (; i < 40; ++i) {{ {ANSWER} }}for (i = 0; i < 40; ++i) {{ CrossCoreWaitFlag(5); }}",
    )
    findings = launch(text, "kernel", 1, [np.zeros(16, np.int32)], lint=False)
    assert {finding.kind for finding in findings} == {"flag_overflow"}
    assert any("before this call, wait for a flag that the other core sets" in str(finding) for finding in findings)
