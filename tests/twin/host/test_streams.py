"""Test streams, events, threads, contexts, and the start and the end of a process."""

from __future__ import annotations

import subprocess
import sys
import threading
from ctypes import CFUNCTYPE, byref, c_float, c_int32, c_size_t, c_uint32, c_void_p

import numpy as np
import pytest

from opforge.twin.build import build_runtime

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3


def copy_async(acl, dst, src, count, kind, stream):
    return acl.library.aclrtMemcpyAsync(dst, c_size_t(count), src, c_size_t(count), kind, stream)


def test_tasks_of_a_stream_run_in_order(device, acl):
    stream, memory = device.stream(), device.memory(4)
    data = np.arange(200, dtype=np.uint32)
    back = np.zeros(200, np.uint32)
    for i in range(200):
        assert copy_async(acl, memory, c_void_p(data[i:].ctypes.data), 4, TO_DEVICE, stream) == 0
        assert copy_async(acl, c_void_p(back[i:].ctypes.data), memory, 4, TO_HOST, stream) == 0
    acl.call("aclrtSynchronizeStream", stream)
    np.testing.assert_array_equal(back, data)


def test_event_orders_two_streams(device, acl):
    first, second = device.stream(), device.stream()
    size = 8 << 20
    source, target = device.memory(size), device.memory(size)
    data, back = np.full(size, 5, np.uint8), np.zeros(size, np.uint8)
    event = c_void_p()
    acl.call("aclrtCreateEvent", byref(event))
    assert copy_async(acl, source, c_void_p(data.ctypes.data), size, TO_DEVICE, first) == 0
    acl.call("aclrtRecordEvent", event, first)
    acl.call("aclrtStreamWaitEvent", second, event)
    assert copy_async(acl, target, source, size, ON_DEVICE, second) == 0
    assert copy_async(acl, c_void_p(back.ctypes.data), target, size, TO_HOST, second) == 0
    acl.call("aclrtSynchronizeStream", second)
    assert (back == 5).all()
    acl.call("aclrtDestroyEvent", event)
    assert acl.library.aclrtDestroyEvent(event) == 107000


def test_host_functions_run_in_the_order_of_the_stream(device, acl):
    stream, memory = device.stream(), device.memory(4)
    pinned, seen = c_void_p(), []
    acl.call("aclrtMallocHost", byref(pinned), c_size_t(4))
    value = c_uint32.from_address(pinned.value)

    @CFUNCTYPE(None, c_void_p)
    def note(argument):
        seen.append((argument, value.value))

    for number in range(1, 20):
        byte = c_int32(number)
        assert acl.library.aclrtMemsetAsync(memory, c_size_t(4), byte, c_size_t(4), stream) == 0
        assert copy_async(acl, pinned, memory, 4, TO_HOST, stream) == 0
        acl.call("aclrtLaunchHostFunc", stream, note, c_void_p(number))
    acl.call("aclrtSynchronizeStream", stream)
    assert seen == [(number, 0x01010101 * number) for number in range(1, 20)]
    acl.call("aclrtFreeHost", pinned)


def test_a_host_function_cannot_wait_for_its_stream(device, acl):
    stream, statuses = device.stream(), []

    @CFUNCTYPE(None, c_void_p)
    def wait(_):
        acl.call("aclrtSetDevice", 0)
        for name, handles in (
            ("aclrtSynchronizeStream", [stream]),
            ("aclrtDestroyStream", [stream]),
            ("aclrtSynchronizeDevice", []),
        ):
            status = getattr(acl.library, name)(*handles)
            statuses.append((status, "in another thread" in acl.message()))

    acl.call("aclrtLaunchHostFunc", stream, wait, None)
    acl.call("aclrtSynchronizeStream", stream)
    assert statuses == [(107000, True)] * 3


def test_the_last_error_of_a_thread(device, acl):
    library = acl.library
    library.aclrtGetLastError(0)
    device.stream()
    assert library.aclrtPeekAtLastError(0) == 0
    assert library.aclrtDestroyEvent(c_void_p()) == 107000
    seen = []
    thread = threading.Thread(target=lambda: seen.append(library.aclrtGetLastError(0)))
    thread.start()
    thread.join()
    assert seen == [0]
    assert [library.aclrtPeekAtLastError(0), library.aclrtGetLastError(0)] == [107000, 107000]
    assert library.aclrtGetLastError(0) == 0


def test_time_between_events(device, acl):
    stream = device.stream()
    start, end, status, elapsed = c_void_p(), c_void_p(), c_uint32(), c_float(-1)
    acl.call("aclrtCreateEvent", byref(start))
    acl.call("aclrtCreateEvent", byref(end))
    acl.call("aclrtQueryEventStatus", end, byref(status))
    assert status.value == 0
    complete = c_void_p()
    acl.call("aclrtCreateEventExWithFlag", byref(complete), 0x2)
    acl.call("aclrtQueryEventStatus", complete, byref(status))
    assert status.value == 1
    acl.call("aclrtDestroyEvent", complete)
    assert acl.library.aclrtEventElapsedTime(byref(elapsed), start, end) == 107000
    acl.call("aclrtRecordEvent", start, stream)
    acl.call("aclrtRecordEvent", end, stream)
    acl.call("aclrtSynchronizeEvent", end)
    acl.call("aclrtQueryEventStatus", end, byref(status))
    assert status.value == 1
    acl.call("aclrtEventElapsedTime", byref(elapsed), start, end)
    assert 0 <= elapsed.value < 1000
    acl.call("aclrtDestroyEvent", start)
    acl.call("aclrtDestroyEvent", end)


def test_failed_task_drops_later_work_but_no_events(device, acl):
    stream, memory = device.stream(), device.memory(4)
    data, event = np.zeros(2, np.uint32), c_void_p()
    acl.call("aclrtCreateEvent", byref(event))
    assert copy_async(acl, c_void_p(data.ctypes.data), c_void_p(data.ctypes.data), 4, TO_DEVICE, stream) == 0
    assert acl.library.aclrtMemsetAsync(memory, c_size_t(4), 1, c_size_t(4), stream) == 0
    acl.call("aclrtRecordEvent", event, stream)
    acl.call("aclrtSynchronizeEvent", event)
    assert acl.library.aclrtSynchronizeStream(stream) == 107000
    assert "is no device memory" in acl.message()
    assert acl.library.aclrtSynchronizeDevice() == 107000
    back = np.zeros(1, np.uint32)
    acl.download(back, memory)
    assert back[0] != 0x01010101
    acl.call("aclrtDestroyEvent", event)


def test_synchronise_with_a_time_limit(device, acl):
    waiting, other = device.stream(), device.stream()
    size = 64 << 20
    source, target = device.memory(size), device.memory(size)
    for _ in range(4):
        assert copy_async(acl, target, source, size, ON_DEVICE, waiting) == 0
    status = acl.library.aclrtSynchronizeStreamWithTimeout(waiting, c_int32(0))
    assert status in {0, 507046}
    assert acl.library.aclrtSynchronizeStreamWithTimeout(waiting, c_int32(-1)) == 0
    assert acl.library.aclrtSynchronizeStreamWithTimeout(other, c_int32(50)) == 0
    assert acl.library.aclrtSynchronizeStreamWithTimeout(other, c_int32(-2)) == 107000


def test_memory_in_use_cannot_be_freed(device, acl):
    stream, size = device.stream(), 256 << 20
    source, target = device.memory(size), device.memory(size)
    assert copy_async(acl, target, source, size, ON_DEVICE, stream) == 0
    status = acl.library.aclrtFree(source)
    message = acl.message()
    finished = acl.library.aclrtSynchronizeStream(stream)
    if status == 107000:  # the copy is running
        assert "is used by a task that runs" in message
        assert finished == 0
    else:  # the copy had not started or had finished
        assert finished in {0, 107000}


def test_pinned_memory_in_use_cannot_be_freed(device, acl):
    stream, size = device.stream(), 256 << 20
    source, target = device.memory(size), device.memory(size)
    pinned = c_void_p()
    acl.call("aclrtMallocHost", byref(pinned), c_size_t(64))
    for _ in range(3):
        assert copy_async(acl, target, source, size, ON_DEVICE, stream) == 0
    inside = c_void_p(pinned.value + 8)
    assert copy_async(acl, target, inside, 8, TO_DEVICE, stream) == 0
    assert acl.library.aclrtFreeHost(pinned) == 107000
    assert "is used by a copy that waits or runs" in acl.message()
    assert acl.library.aclrtSynchronizeStream(stream) == 0
    assert acl.library.aclrtFreeHost(pinned) == 0


def test_invalid_stream_handles(device, acl):
    stream = device.stream()
    acl.call("aclrtDestroyStream", stream)
    for function in ("aclrtSynchronizeStream", "aclrtDestroyStream"):
        assert getattr(acl.library, function)(stream) == 107000
        assert "or it was destroyed" in acl.message()
    assert acl.library.aclrtDestroyStream(None) == 100000
    assert acl.library.aclrtSynchronizeStream(None) == 0  # null is the default stream
    assert acl.library.aclrtSynchronizeEvent(stream) == 107000


def test_threads_with_separate_streams(device, acl):
    x = np.arange(160, dtype=np.float32).reshape(10, 16)
    tensors = [(device.tensor(x + i), device.tensor(np.zeros_like(x))) for i in range(4)]
    failures: list[str] = []

    def work(index: int) -> None:
        source, out = tensors[index]
        acl.call("aclrtSetDevice", 0)
        for _ in range(5):
            planned = device.plan(source, out, factor=index + 1)
            stream = device.stream()
            status = planned.status or device.launch(planned, stream)
            status = status or acl.library.aclrtSynchronizeStream(stream)
            if status:
                failures.append(f"{index}: {status} {planned.message} {acl.message()}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for index, (_, out) in enumerate(tensors):
        np.testing.assert_array_equal(out.read(acl), (x + index) * (index + 1))


def test_thread_without_device_gets_an_error(acl):
    seen: list[tuple[int, str]] = []

    def work() -> None:
        status = acl.library.aclrtMalloc(byref(c_void_p()), c_size_t(8), 0)
        seen.append((status, acl.message()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[0][0] == 107002
    assert "call aclrtSetDevice" in seen[0][1]


def test_errors_belong_to_their_thread(acl):
    assert acl.library.aclrtSetDevice(c_int32(7)) == 107001
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(acl.message()))
    thread.start()
    thread.join()
    assert seen == [""]
    assert "got device 7, expected 0 to 0" in acl.message()
    assert acl.message() == ""


def test_contexts_keep_streams_apart(device, acl):
    own, context, stream = c_void_p(), c_void_p(), device.stream()
    acl.call("aclrtGetCurrentContext", byref(own))
    acl.call("aclrtCreateContext", byref(context), 0)
    assert acl.library.aclrtSynchronizeStream(stream) == 107003
    assert "aclrtSetCurrentContext" in acl.message()
    acl.call("aclrtSetCurrentContext", own)
    acl.call("aclrtSynchronizeStream", stream)
    acl.call("aclrtDestroyContext", context)
    assert acl.library.aclrtSetCurrentContext(context) == 107000
    assert acl.library.aclrtDestroyContext(own) == 107000


def test_facts_of_the_device(acl):
    count, device = c_uint32(), c_int32(-1)
    acl.call("aclrtGetDeviceCount", byref(count))
    acl.call("aclrtGetDevice", byref(device))
    assert (count.value, device.value) == (1, 0)
    assert acl.library.aclrtGetSocName() == b"Ascend910B1"
    acl.set_option("soc", "Ascend910B4")
    assert acl.library.aclrtGetSocName() == b"Ascend910B4"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("soc", "Ascend910Z", "got 'Ascend910Z'"),
        ("strict", "2", "expected 0 to 1"),
        ("threads", "-1", "expected 0 to"),
        ("speed", "1", "expected soc, level, strict, threads, seed, unread or overwritten"),
    ],
)
def test_unknown_options_are_refused(acl, name, value, message):
    assert acl.library.opforgeTwinSetOption(name.encode(), value.encode()) == 2
    assert message in acl.message()


PROCESS = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.aclGetRecentErrMsg.restype = ctypes.c_char_p
pointer = ctypes.c_void_p()
assert lib.aclrtSetDevice(0) == 100001, "before aclInit"
assert b"call aclInit first" in lib.aclGetRecentErrMsg()
assert lib.aclInit(b"/no/such/file") == 100000
assert lib.aclInit(None) == 0
assert lib.aclInit(None) == 100002
assert lib.aclrtSetDevice(0) == 0
assert lib.aclrtCreateStream(ctypes.byref(pointer)) == 0
assert lib.aclrtMalloc(ctypes.byref(pointer), ctypes.c_size_t(100), 0) == 0
lib.aclCreateIntArray.restype = ctypes.c_void_p
array = lib.aclCreateIntArray((ctypes.c_int64 * 1)(1), ctypes.c_uint64(1))
context, pinned = ctypes.c_void_p(), ctypes.c_void_p()
if sys.argv[2] in ("leak", "no end"):
    assert lib.aclrtCreateContext(ctypes.byref(context), 0) == 0
    assert lib.aclrtMallocHost(ctypes.byref(pinned), ctypes.c_size_t(60)) == 0
if sys.argv[2] == "no end":
    pass
elif sys.argv[2] == "leak":
    assert lib.aclFinalize() == 0
elif sys.argv[2] == "reset":
    assert lib.aclrtSetDevice(0) == 0  # a second use of the device
    assert lib.aclrtResetDevice(0) == 0
    assert lib.aclrtMemset(pointer, ctypes.c_size_t(100), 0, ctypes.c_size_t(100)) == 0
    assert lib.aclrtResetDevice(0) == 0
    assert lib.aclrtFree(pointer) == 107000
    assert lib.aclrtResetDevice(0) == 107002
    assert lib.aclrtSetDevice(0) == 0 == lib.aclrtSetDevice(0)
    assert lib.aclrtResetDeviceForce(0) == 0
    assert lib.aclrtResetDeviceForce(0) == 107002
else:
    ctypes.string_at(pointer, 8)
"""


def process(mode: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROCESS, str(build_runtime()), mode]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("mode", "place"), [("leak", "aclFinalize"), ("no end", "exit")])
def test_leaks_are_reported_at_the_end(mode, place):
    result = process(mode)
    assert result.returncode == 0, result.stderr
    never_finalised = "exit: aclFinalize was not called; call it before the process ends"
    assert result.stderr.splitlines() == [never_finalised] * (mode == "no end") + [
        f"{place}: 1 device allocations (100 bytes) left; release them with aclrtFree",
        f"{place}: 1 streams left; release them with aclrtDestroyStream",
        f"{place}: 1 host allocations (60 bytes) left; release them with aclrtFreeHost",
        f"{place}: 1 contexts left; release them with aclrtDestroyContext",
        f"{place}: 1 int arrays left; release them with aclDestroyIntArray",
    ]


def test_device_reset_releases_its_allocations():
    result = process("reset")
    assert result.returncode == 0, result.stderr
    assert "aclrtResetDevice: 1 device allocations (100 bytes) left" in result.stderr


def test_host_code_cannot_follow_a_device_pointer():
    assert process("follow").returncode < 0


def test_reports_are_returned_once(device, acl):
    x = device.tensor(np.ones((1, 8), np.float32))
    device.run(x, device.tensor(np.zeros((1, 8), np.float32)))
    assert len(acl.take_reports()) == 1
    assert acl.take_reports() == []
