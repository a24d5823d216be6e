"""Test the order of streams, copies and host functions: accesses to the same bytes without an order are findings."""

from __future__ import annotations

import os
import subprocess

import pytest

from opforge.twin.program import compile_program

pytestmark = pytest.mark.slow

PROGRAM = """
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include "acl/acl.h"
#include "kernel_operator.h"
__vector__ __global__ void copy(__gm__ float* x, __gm__ float* y, int first, bool adds)
{
    AscendC::TPipe pipe;
    AscendC::TBuf<> buffer;
    pipe.InitBuffer(buffer, 128);
    AscendC::LocalTensor<float> row = buffer.Get<float>();
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer(x + first, 32);
    to.SetGlobalBuffer(y + first, 32);
    AscendC::DataCopy(row, from, 32);
    AscendC::PipeBarrier<PIPE_ALL>();
    if (adds) { AscendC::SetAtomicAdd<float>(); }
    for (int i = 0; i < (adds ? 200000 : 1); ++i) { AscendC::DataCopy(to, row, 32); }
    AscendC::PipeBarrier<PIPE_ALL>();
    if (adds) { AscendC::SetAtomicNone(); }
}
float *host, *x, *y;
aclrtStream one, two;
aclrtEvent event;
std::atomic<bool> isCalled{false};
void Launch(aclrtStream stream, int first = 0, bool adds = false) { copy<<<1, nullptr, stream>>>(x, y, first, adds); }
void Read(int first = 0) { aclrtMemcpy(host, 128, y + first, 128, ACL_MEMCPY_DEVICE_TO_HOST); }
void Run(int number)
{
    switch (number) {
CASES
    }
}
int main(int, char** words)
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtMallocHost((void**)&host, 256);
    aclrtMalloc((void**)&x, 256, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&y, 256, ACL_MEM_MALLOC_HUGE_FIRST);
    std::fill_n(host, 64, 1.0f);
    aclrtMemcpy(x, 256, host, 256, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemset(y, 256, 0, 256);
    aclrtCreateStream(&one);
    aclrtCreateStream(&two);
    aclrtCreateEvent(&event);
    Run(std::atoi(words[1]));
    aclrtSynchronizeDevice();
    aclrtDestroyEvent(event);
    aclrtDestroyStream(one);
    aclrtDestroyStream(two);
    aclrtFree(x);
    aclrtFree(y);
    aclrtFreeHost(host);
    aclrtResetDevice(0);
    return aclFinalize();
}
"""
ORDERED = {
    "synchronised stream": "Launch(one); aclrtSynchronizeStream(one); Read();",
    "synchronised device": "Launch(nullptr); Launch(nullptr); aclrtSynchronizeDevice(); Read();",
    "destroyed stream": "Launch(one); aclrtDestroyStream(one); aclrtCreateStream(&one); Read();",
    "event": "Launch(one); aclrtRecordEvent(event, one); aclrtStreamWaitEvent(two, event); Launch(two);"
    " aclrtSynchronizeStream(two); Read();",
    "synchronised event": "Launch(one); aclrtRecordEvent(event, one); aclrtSynchronizeEvent(event); Read();",
    "complete event": "Launch(one); aclrtRecordEvent(event, one); aclrtEventRecordedStatus status;"
    " do { aclrtQueryEventStatus(event, &status); } while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE); Read();",
    "complete stream": "Launch(one); aclrtStreamStatus status; do { aclrtStreamQuery(one, &status); } while (status !="
    " ACL_STREAM_STATUS_COMPLETE); Read();",
    "free after a wait": "Launch(one); aclrtFreeWithDevSync(y);"
    " aclrtMalloc((void**)&y, 256, ACL_MEM_MALLOC_HUGE_FIRST); Launch(two);",
    "host function": "Launch(one); aclrtLaunchHostFunc(one, [](void*) { isCalled = true; }, nullptr);"
    " while (!isCalled) { } Read();",
    "asynchronous copy": "Launch(one); aclrtMemcpyAsync(host, 128, y, 128, ACL_MEMCPY_DEVICE_TO_HOST, one);"
    " aclrtMemsetAsync(y, 128, 0, 128, one);",
    "halves on two streams": "Launch(one); Launch(two, 32);",
    "copy of the other half": "Launch(one); Read(32);",
    "inputs of two streams": "aclrtMemcpyAsync(host, 128, x, 128, ACL_MEMCPY_DEVICE_TO_HOST, two); Launch(one);",
    "atomic additions": "Launch(one, 0, true); Launch(two, 0, true); aclrtSynchronizeDevice(); Read();"
    " if (host[31] != 400000) { std::abort(); }",
    "model": "aclmdlRI model; aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL); Launch(one);"
    " aclmdlRICaptureEnd(one, &model); Read(); aclmdlRIExecuteAsync(model, two); aclrtSynchronizeStream(two);"
    " Read(); aclmdlRIDestroy(model);",
}
READ = "aclrtMemcpy: reads bytes [0, 128) of an allocation of 256 bytes, which kernel copy writes in a stream that may"
UNORDERED = {
    "copy": ("Launch(one); Read();", READ),
    "default stream": ("Launch(nullptr); Read();", READ),
    "other stream": ("Launch(one); aclrtSynchronizeStream(two); Read();", READ),
    "early event": ("aclrtRecordEvent(event, one); Launch(one); aclrtSynchronizeEvent(event); Read();", READ),
    "overlap": ("Launch(one, 16); Read();", READ.replace("[0, 128)", "[64, 128)")),
    "fill": (
        "Launch(one); aclrtMemset(y, 256, 0, 256);",
        "aclrtMemset: writes bytes [0, 128) of an allocation of 256 bytes, which kernel copy writes in a stream that",
    ),
    "input": (
        "Launch(one); aclrtMemcpy2d(x + 8, 64, host, 64, 32, 2, ACL_MEMCPY_HOST_TO_DEVICE);",
        "aclrtMemcpy2d: writes bytes [32, 64) of an allocation of 256 bytes, which kernel copy reads in a stream that",
    ),
    "free": (
        "Launch(one); aclrtFree(x); aclrtMalloc((void**)&x, 256, ACL_MEM_MALLOC_HUGE_FIRST);",
        "aclrtFree: frees bytes [0, 128) of an allocation of 256 bytes, which kernel copy reads in a stream that may",
    ),
    "two streams": (
        "Launch(one); Launch(two);",
        "kernel copy: writes bytes [0, 128) of an allocation of 256 bytes, which kernel copy writes in another stream",
    ),
    "asynchronous copy": (
        "aclrtMemcpyAsync(host, 128, y, 128, ACL_MEMCPY_DEVICE_TO_HOST, two); Launch(one);",
        "kernel copy: writes bytes [0, 128) of an allocation of 256 bytes, which aclrtMemcpyAsync reads in another",
    ),
    "additions and a read": (
        "Launch(one, 0, true); Read();",
        READ.replace("copy writes", "copy adds to"),
    ),
    "model": (
        (
            "aclmdlRI model; aclmdlRICaptureBegin(one, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL); Launch(one);"
            " aclmdlRICaptureEnd(one, &model); aclmdlRIExecuteAsync(model, two); Read(); aclrtSynchronizeStream(two);"
            " aclmdlRIDestroy(model);"
        ),
        READ,
    ),
}
CASES = [*ORDERED.values(), *(code for code, _ in UNORDERED.values())]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("order")
    cases = "\n".join(f"        case {number}: {{ {code} break; }}" for number, code in enumerate(CASES))
    (folder / "program.asc").write_text(PROGRAM.replace("CASES", cases))
    return compile_program([folder / "program.asc"], folder / "program").path


def _findings(program, code, level):
    command = [program, str(CASES.index(code))]
    environment = {**os.environ, "OPFORGE_TWIN_LEVEL": level}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    lines = ended.stderr.splitlines()
    assert ended.returncode == (1 if lines else 0)
    return lines


@pytest.mark.parametrize("code", ORDERED.values(), ids=ORDERED)
def test_ordered_accesses(program, code):
    assert _findings(program, code, "strict") == []


@pytest.mark.parametrize(("code", "message"), UNORDERED.values(), ids=UNORDERED)
def test_accesses_without_an_order(program, code, message):
    for level in ("strict", "device"):
        (finding,) = _findings(program, code, level)
        place, _, text = finding.partition("error: race: ")
        assert text.startswith(message)
        source = (program.parent / "program.asc").read_text()
        call = text.partition(":")[0]
        if call.startswith("aclrt"):  # a call of the host has a line
            assert call in source.splitlines()[int(place.split(":")[1]) - 1]
    assert _findings(program, code, "fast") == []
