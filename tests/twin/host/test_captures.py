"""Test captures of streams: nothing runs before the model is executed, and wrong calls get the documented status."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
from ctypes import byref, c_int32, c_size_t, c_void_p

import numpy as np
import pytest

from opforge.twin.build import build_runtime
from opforge.twin.program import compile_program

pytestmark = pytest.mark.slow

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALIDATED = 0, 1, 2


class Captures:
    """The functions of captures on streams, events and memory that the test releases at its end."""

    def __init__(self, acl, device):
        self.acl, self.device, self.library = acl, device, acl.library
        self.events, self.pinned, self.models = [], [], []

    def event(self):
        self.events.append(c_void_p())
        self.acl.call("aclrtCreateEventExWithFlag", byref(self.events[-1]), 1)
        return self.events[-1]

    def host(self, values):
        """Return pinned memory with the values, and an array of it."""
        self.pinned.append(c_void_p())
        self.acl.call("aclrtMallocHost", byref(self.pinned[-1]), c_size_t(values.nbytes))
        array = np.ctypeslib.as_array((ctypes.c_float * values.size).from_address(self.pinned[-1].value))
        array[:] = values
        return self.pinned[-1], array

    def begin(self, stream, mode=GLOBAL):
        return self.library.aclmdlRICaptureBegin(stream, c_int32(mode))

    def end(self, stream):
        """Return the status and the model."""
        model = c_void_p()
        status = self.library.aclmdlRICaptureEnd(stream, byref(model))
        if status == 0:
            self.models.append(model)
        return status, model

    def status(self, stream):
        status, model = c_int32(-1), c_void_p(1)
        assert self.library.aclmdlRICaptureGetInfo(stream, byref(status), byref(model)) == 0
        assert (model.value is None) == (status.value == NONE)
        return status.value

    def copy(self, dst, src, count, kind, stream):
        return self.library.aclrtMemcpyAsync(dst, c_size_t(count), src, c_size_t(count), kind, stream)

    def execute(self, model, stream):
        assert self.library.aclmdlRIExecuteAsync(model, stream) == 0, self.acl.message()
        assert self.library.aclrtSynchronizeStream(stream) == 0, self.acl.message()

    def close(self):
        for stream in self.device.streams:
            self.end(stream)
        for model in self.models:
            self.library.aclmdlRIDestroy(model)
        for event in self.events:
            self.library.aclrtDestroyEvent(event)
        for pinned in self.pinned:
            assert self.library.aclrtFreeHost(pinned) == 0, self.acl.message()


@pytest.fixture
def captures(acl, device):
    opened = Captures(acl, device)
    yield opened
    opened.close()


def test_a_model_runs_the_tasks_again_on_new_inputs(captures, device, tmp_path):
    """Copies and an operator: out = 2 x."""
    given, x = captures.host(np.zeros(32, np.float32))
    back, y = captures.host(np.full(32, 9, np.float32))
    source, target = device.tensor(np.zeros((4, 8), np.float32)), device.tensor(np.ones((4, 8), np.float32))
    planned, stream = device.plan(source, target), device.stream()
    assert captures.begin(stream) == 0
    x[:] = 5
    assert captures.copy(source.memory, given, 128, TO_DEVICE, stream) == 0
    assert device.launch(planned, stream) == 0
    assert captures.copy(back, target.memory, 128, TO_HOST, stream) == 0
    assert captures.status(stream) == ACTIVE
    status, model = captures.end(stream)
    assert (status, captures.status(stream)) == (0, NONE)
    captures.acl.call("aclrtSynchronizeStream", stream)
    assert (y == 9).all()
    assert (target.read(captures.acl) == 1).all()
    for value in (3, -4):
        x[:] = np.arange(32) + value
        y[:] = 0
        captures.execute(model, stream)
        np.testing.assert_array_equal(y, 2 * x)
    path = tmp_path / "model.json"
    assert captures.library.aclmdlRIDebugJsonPrint(model, str(path).encode(), 0) == 0
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["name"] for event in events]
    assert (names[0], names[-1], set(names[1:-1])) == ("aclrtMemcpyAsync", "aclrtMemcpyAsync", {"aclnnScaledAdd"})
    assert [event["ts"] for event in events] == list(range(len(events)))
    assert captures.library.aclmdlRIDebugJsonPrint(model, str(tmp_path / "no" / "file").encode(), 0) == 107000
    assert captures.library.aclmdlRIDebugJsonPrint(model, None, 0) == 100000


def test_events_join_streams_to_a_capture(captures, device):
    """The copy of the second stream is between the copies of the first one."""
    given, x = captures.host(np.zeros(4, np.float32))
    back, y = captures.host(np.zeros(4, np.float32))
    first, second = device.memory(16), device.memory(16)
    main, other, later = device.stream(), device.stream(), device.stream()
    loaded, copied = captures.event(), captures.event()
    assert captures.begin(main) == 0
    assert captures.copy(first, given, 16, TO_DEVICE, main) == 0
    captures.acl.call("aclrtRecordEvent", loaded, main)
    captures.acl.call("aclrtStreamWaitEvent", other, loaded)
    assert captures.status(other) == ACTIVE
    assert captures.copy(second, first, 16, ON_DEVICE, other) == 0
    captures.acl.call("aclrtRecordEvent", copied, other)
    assert captures.end(other)[0] == 107036
    captures.acl.call("aclrtStreamWaitEvent", main, copied)
    assert captures.copy(back, second, 16, TO_HOST, main) == 0
    status, model = captures.end(main)
    assert status == 0, captures.acl.message()
    assert captures.status(other) == NONE
    x[:] = [1, 2, 3, 4]
    captures.execute(model, later)
    assert y.tolist() == [1, 2, 3, 4]
    captures.acl.call("aclrtStreamWaitEvent", later, copied)
    captures.acl.call("aclrtSynchronizeStream", later)


def test_a_stream_that_is_not_joined(captures, device):
    main, other, memory = device.stream(), device.stream(), device.memory(4)
    fork, join = captures.event(), captures.event()
    for is_late in (False, True):
        assert captures.begin(main) == 0
        captures.acl.call("aclrtRecordEvent", fork, main)
        captures.acl.call("aclrtStreamWaitEvent", other, fork)
        if is_late:
            captures.acl.call("aclrtRecordEvent", join, other)
            captures.acl.call("aclrtStreamWaitEvent", main, join)
        assert captures.library.aclrtMemsetAsync(memory, c_size_t(4), 1, c_size_t(4), other) == 0
        assert captures.end(main)[0] == 107025
        assert "are not joined" in captures.acl.message()
        assert (captures.status(main), captures.status(other)) == (NONE, NONE)


def test_calls_in_a_wrong_order(captures, device):
    library, stream, other = captures.library, device.stream(), device.stream()
    events = [captures.event() for _ in range(3)]
    statuses = {
        "default stream": captures.begin(None),
        "unknown mode": captures.begin(stream, 3),
        "unknown stream": captures.begin(c_void_p(8)),
        "end without begin": captures.end(stream)[0],
        "no model": library.aclmdlRIExecuteAsync(None, stream),
        "unknown model": library.aclmdlRIDestroy(c_void_p(8)),
        "begin": captures.begin(stream),
        "begin again": captures.begin(stream),
        "null": library.aclmdlRICaptureEnd(stream, None),
        "no result": library.aclmdlRICaptureGetInfo(stream, None, None),
        "default stream in a capture": library.aclrtSynchronizeStream(None),
        "wait without record": library.aclrtStreamWaitEvent(stream, events[0]),
        "begin of another": captures.begin(other),
        "record": library.aclrtRecordEvent(events[1], other),
        "two captures": library.aclrtStreamWaitEvent(stream, events[1]),
        "end of another": captures.end(other)[0],
        "end": captures.end(stream)[0],
    }
    assert list(statuses.values()) == [
        *(107031, 107000, 107000, 107029, 107000, 107000, 0, 107027, 100000, 100000, 107031, 107024, 0, 0, 107032),
        *(0, 0),
    ], statuses
    model = captures.models[-1]
    model_in_capture = c_void_p()
    assert captures.begin(stream) == 0
    assert library.aclmdlRICaptureGetInfo(stream, None, byref(model_in_capture)) == 0
    assert library.aclmdlRIExecuteAsync(model_in_capture, other) == 107026
    assert library.aclmdlRIDestroy(model_in_capture) == 107026
    assert captures.end(stream) == (0, captures.models[-1])
    assert captures.models[-1].value == model_in_capture.value
    assert library.aclmdlRIDestroy(model) == 0
    assert library.aclmdlRIDestroy(model) == 107000
    assert library.aclmdlRIExecuteAsync(model, stream) == 107000


def _waits(captures, stream, event):
    library, status, milliseconds = captures.library, c_int32(), ctypes.c_float()
    return {
        "stream": (lambda: library.aclrtSynchronizeStream(stream), 107027),
        "time limit": (lambda: library.aclrtSynchronizeStreamWithTimeout(stream, 10), 107027),
        "device": (library.aclrtSynchronizeDevice, 107027),
        "destroy": (lambda: library.aclrtDestroyStream(stream), 107027),
        "execute": (lambda: library.aclmdlRIExecuteAsync(captures.models[0], stream), 107027),
        "event": (lambda: library.aclrtSynchronizeEvent(event), 107028),
        "query": (lambda: library.aclrtQueryEventStatus(event, byref(status)), 107028),
        "elapsed": (lambda: library.aclrtEventElapsedTime(byref(milliseconds), event, event), 107028),
    }


def test_waiting_in_a_capture_makes_it_invalid(captures, device):
    stream, event = device.stream(), captures.event()
    assert captures.begin(stream) == 0
    assert captures.end(stream)[0] == 0  # an empty model
    captures.execute(captures.models[0], stream)
    for name, (call, expected) in _waits(captures, stream, event).items():
        assert captures.begin(stream) == 0
        captures.acl.call("aclrtRecordEvent", event, stream)
        assert call() == expected, name
        assert "aclmdlRICaptureEnd first" in captures.acl.message()
        assert captures.status(stream) == INVALIDATED
        assert captures.end(stream)[0] == 507903
        assert captures.status(stream) == NONE
    assert len(captures.models) == 1


def _unsafe(captures, memory, stream):
    """Return the statuses of unsafe functions, and one of an unsafe copy to the stream."""
    library, data = captures.library, np.zeros(1, np.float32)
    pointer, size = c_void_p(data.ctypes.data), c_size_t(4)
    return [
        library.aclrtMemcpy(memory, size, pointer, size, TO_DEVICE),
        library.aclrtMemset(memory, size, 0, size),
        library.aclrtMemcpy2d(memory, size, pointer, size, size, c_size_t(1), TO_DEVICE),
        library.aclrtMemcpyAsync(memory, size, pointer, size, TO_DEVICE, stream),
    ]


def _in_thread(captures, call):
    results = []

    def run():
        captures.acl.call("aclrtSetDevice", 0)
        results.append(call())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_unsafe_functions(captures, device, mode):
    stream, other, memory = device.stream(), device.stream(), device.memory(4)
    refused, accepted = [107030] * 4, [0] * 4

    def exchanged(new, target):
        current = c_int32(new)
        assert captures.library.aclmdlRICaptureThreadExchangeMode(byref(current)) == 0
        found = _unsafe(captures, memory, target)
        assert captures.library.aclmdlRICaptureThreadExchangeMode(byref(current)) == 0
        assert current.value == new
        return found

    assert captures.begin(stream, mode) == 0
    assert _unsafe(captures, memory, other) == (accepted if mode == RELAXED else refused)
    assert exchanged(THREAD_LOCAL, other) == (accepted if mode == RELAXED else refused)
    assert exchanged(RELAXED, other) == accepted
    assert _in_thread(captures, lambda: _unsafe(captures, memory, other)) == (refused if mode == GLOBAL else accepted)
    assert _in_thread(captures, lambda: exchanged(THREAD_LOCAL, other)) == accepted
    assert _in_thread(captures, lambda: captures.end(stream)[0]) == (0 if mode == RELAXED else 107038)
    assert captures.end(stream)[0] == (107029 if mode == RELAXED else 0)
    assert _unsafe(captures, memory, other) == accepted
    assert captures.library.aclmdlRICaptureThreadExchangeMode(None) == 100000


def test_a_model_that_runs_cannot_be_destroyed(captures, device):
    size, stream = 256 << 20, device.stream()
    source, target = device.memory(size), device.memory(size)
    assert captures.begin(stream) == 0
    assert captures.copy(target, source, size, ON_DEVICE, stream) == 0
    _, model = captures.end(stream)
    assert captures.library.aclmdlRIExecuteAsync(model, stream) == 0
    status = captures.library.aclmdlRIDestroy(model)
    finished = captures.library.aclrtSynchronizeStream(stream)
    assert (status, finished) in {(107037, 0), (0, 0)}  # 0: the copy has ended
    if status != 0:
        assert captures.library.aclmdlRIDestroy(model) == 0


def test_a_task_of_a_model_that_fails(captures, device):
    """The later tasks of the model do not run."""
    stream, memory = device.stream(), device.memory(4)
    host, values = captures.host(np.zeros(1, np.float32))
    assert captures.begin(stream) == 0
    assert captures.copy(host, host, 4, TO_DEVICE, stream) == 0
    assert captures.library.aclrtMemsetAsync(memory, c_size_t(4), 1, c_size_t(4), stream) == 0
    _, model = captures.end(stream)
    captures.acl.upload(memory, values)
    assert captures.library.aclmdlRIExecuteAsync(model, stream) == 0
    assert captures.library.aclrtSynchronizeStream(stream) == 107000
    captures.acl.download(values, memory)
    assert values[0] == 0


PROCESS = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
stream, model, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(4)
assert lib.aclInit(None) == 0
assert lib.aclrtSetDevice(0) == 0
for _ in range(2):
    assert lib.aclrtCreateStream(ctypes.byref(stream)) == 0
    assert lib.aclmdlRICaptureBegin(stream, 0) == 0
    if not model:
        assert lib.aclmdlRICaptureEnd(stream, ctypes.byref(model)) == 0
        assert lib.aclrtDestroyStream(stream) == 0
assert lib.aclrtResetDevice(0) == 0
assert lib.aclrtSetDevice(0) == 0
assert lib.aclrtSynchronizeStream(None) == 0
assert lib.aclFinalize() == 0
"""


def test_a_reset_ends_captures_and_models_are_leaks():
    command = [sys.executable, "-c", PROCESS, str(build_runtime())]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines() == [
        "aclrtResetDevice: 1 streams left; release them with aclrtDestroyStream",
        "aclFinalize: 1 models left; release them with aclmdlRIDestroy",
    ]


# A kernel on a second stream; the program prints the first element before and after each execution.
PROGRAM = """
#include <cstdio>
#include "acl/acl.h"
#include "kernel_operator.h"
__vector__ __global__ void twice(__gm__ float* x, __gm__ float* y)
{
    AscendC::LocalMemAllocator<AscendC::Hardware::UB> memory;
    AscendC::LocalTensor<float> rows = memory.Alloc<float, 64>();
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer(x);
    to.SetGlobalBuffer(y);
    AscendC::DataCopy(rows, from, 64);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::Muls(rows, rows, 2.0f, 64);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataCopy(to, rows, 64);
}
int main(int count, char**)
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    float *host = nullptr, *x = nullptr, *y = nullptr;
    aclrtStream main = nullptr, other = nullptr;
    aclrtEvent ready = nullptr, done = nullptr;
    aclmdlRI model = nullptr;
    aclrtMallocHost((void**)&host, 256);
    aclrtMalloc((void**)&x, 256, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&y, 256, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtCreateStream(&main);
    aclrtCreateStream(&other);
    aclrtCreateEventExWithFlag(&ready, ACL_EVENT_SYNC);
    aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC);
    for (int i = 0; i < 64; ++i) { host[i] = 5; }
    aclmdlRICaptureBegin(main, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    aclrtMemcpyAsync(x, 256, host, 256, ACL_MEMCPY_HOST_TO_DEVICE, main);
    aclrtRecordEvent(ready, main);
    aclrtStreamWaitEvent(other, ready);
    twice<<<1, 0, other>>>(x, y);
    aclrtRecordEvent(done, other);
    aclrtStreamWaitEvent(main, done);
    aclrtMemcpyAsync(host, 256, y, 256, ACL_MEMCPY_DEVICE_TO_HOST, main);
    aclmdlRICaptureEnd(main, &model);
    std::printf("%g", host[63]);
    for (int i = 0; i < 3; ++i) {
        aclmdlRIExecuteAsync(model, main);
        aclrtSynchronizeStream(main);
        std::printf(" %g", host[63]);
        host[63] += i;
    }
    std::printf(" %d", aclrtFree(y));
    if (count > 1) {
        aclmdlRIExecuteAsync(model, main);
        std::printf(" %d", aclrtSynchronizeStream(main));
    }
    aclmdlRIDestroy(model);
    aclrtDestroyEvent(ready);
    aclrtDestroyEvent(done);
    aclrtDestroyStream(main);
    aclrtDestroyStream(other);
    aclrtFree(x);
    aclrtFreeHost(host);
    aclrtResetDevice(0);
    return aclFinalize();
}
"""


def test_a_captured_kernel(tmp_path):
    (tmp_path / "program.asc").write_text(PROGRAM)
    program = compile_program([tmp_path / "program.asc"], tmp_path / "program").path
    ended = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "5 10 20 42 0", "")
    freed = subprocess.run([program, "execute"], capture_output=True, text=True, timeout=120, check=False)
    assert (freed.returncode, freed.stdout) == (1, "5 10 20 42 0 107000")
    assert freed.stderr.startswith("error: launch: twice: y points to memory that was freed after the capture")
