"""Test device memory: extents, directions of copies, misuse."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_void_p

import numpy as np
import pytest

from opforge.twin.runtime.acl import ARRAYS

HOST_TO_HOST, TO_DEVICE, TO_HOST, ON_DEVICE, DEFAULT = range(5)


def copy(acl, dst, src, count, kind, limit=None):
    return acl.library.aclrtMemcpy(dst, c_size_t(count if limit is None else limit), src, c_size_t(count), kind)


def at(pointer: c_void_p, offset: int) -> c_void_p:
    return c_void_p((pointer.value or 0) + offset)


def test_copies_in_all_directions(device, acl):
    data, back = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    first, second = device.memory(64), device.memory(64)
    host, target = c_void_p(data.ctypes.data), c_void_p(back.ctypes.data)
    assert copy(acl, first, host, 64, TO_DEVICE) == 0
    assert copy(acl, at(second, 16), at(first, 32), 32, ON_DEVICE) == 0
    assert copy(acl, target, at(second, 16), 32, DEFAULT) == 0
    np.testing.assert_array_equal(back[:32], data[32:])
    assert copy(acl, target, host, 64, HOST_TO_HOST) == 0
    np.testing.assert_array_equal(back, data)


def test_rows_of_a_2d_copy(device, acl):
    data, back = np.arange(48, dtype=np.uint8).reshape(4, 12), np.zeros((4, 6), np.uint8)
    memory = device.memory(4 * 12)
    acl.upload(memory, data)
    copy2d = acl.library.aclrtMemcpy2d
    copy2d.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t, c_size_t, c_size_t, ctypes.c_int]
    assert copy2d(back.ctypes.data, 6, at(memory, 3), 12, 6, 4, TO_HOST) == 0
    np.testing.assert_array_equal(back, data[:, 3:9])
    assert copy2d(back.ctypes.data, 6, memory, 12, 7, 4, TO_HOST) == 100000
    assert "width is 7 bytes" in acl.message()


@pytest.mark.parametrize(
    ("offset", "count", "kind", "limit", "code", "message"),
    [
        (0, 65, TO_DEVICE, None, 107000, "bytes 0 to 65 of an allocation of 64 bytes"),
        (60, 8, TO_DEVICE, None, 107000, "bytes 60 to 68 of an allocation of 64 bytes"),
        (0, 64, TO_DEVICE, 63, 100000, "count is 64 bytes, expected at most 63 (destMax)"),
        (0, 64, TO_HOST, None, 107000, "says host memory, got device memory"),
        (0, 64, ON_DEVICE, None, 107000, "is no device memory"),
        (0, 64, 99, None, 100000, "99 is no kind of copy"),
    ],
)
def test_wrong_copies_are_refused(device, acl, offset, count, kind, limit, code, message):
    source = np.zeros(128, np.uint8)
    memory = device.memory(64)
    assert copy(acl, at(memory, offset), c_void_p(source.ctypes.data), count, kind, limit) == code
    assert message in acl.message()


def test_null_pointers_are_refused(device, acl):
    memory = device.memory(8)
    assert copy(acl, None, memory, 8, ON_DEVICE) == 100000
    assert copy(acl, memory, None, 8, ON_DEVICE) == 100000
    assert acl.library.aclrtFree(None) == 100000
    assert acl.library.aclrtMalloc(byref(c_void_p()), c_size_t(0), 0) == 100000
    assert "size is 0" in acl.message()


def test_memory_is_freed_once(device, acl):
    memory = c_void_p()
    acl.call("aclrtMalloc", byref(memory), 128, 0)
    assert acl.library.aclrtFree(at(memory, 8)) == 107000
    assert "lies inside an allocation" in acl.message()
    assert acl.library.aclrtFree(memory) == 0
    assert acl.library.aclrtFree(memory) == 107000
    assert "was freed before" in acl.message()
    assert acl.library.aclrtFree(c_void_p(ctypes.addressof(ctypes.create_string_buffer(8)))) == 107000
    assert "is no device memory" in acl.message()
    data = np.zeros(8, np.uint8)
    assert copy(acl, at(memory, 16), c_void_p(data.ctypes.data), 8, TO_DEVICE) == 107000
    assert "was freed before" in acl.message()


def test_fresh_memory_is_huge_finite_and_differs(device, acl):
    """New memory differs from all expected outputs, also in comparisons that accept a NaN."""
    words = 3001
    seen = []
    for _ in range(4):
        data = np.zeros(words, np.uint32)
        acl.download(data, device.memory(data.nbytes))
        halves = data.view(np.float16)
        assert np.isfinite(halves).all()
        assert halves.min() >= 57344
        exponents = data.view(np.uint16) >> 7 & 0xFF  # of bfloat16; the odd ones are those of float
        assert set(exponents.tolist()) == {0xF6, 0xF7}
        doubles = data[:-1].view(np.float64)
        assert np.isfinite(doubles).all()
        assert doubles.min() > 1e280
        assert data.view(np.int32).min() > 2_000_000_000
        assert len(set(data.tolist())) > words // 4
        assert (data[1:] != data[:-1]).all()
        seen.append(data.tobytes())
    assert len(set(seen)) == 4


def test_fills(device, acl):
    memory, data = device.memory(32), np.zeros(32, np.uint8)
    assert acl.library.aclrtMemset(memory, c_size_t(32), 0xAB, c_size_t(32)) == 0
    assert acl.library.aclrtMemset(memory, c_size_t(32), 0x01, c_size_t(4)) == 0
    acl.download(data, memory)
    assert data.tolist() == [1] * 4 + [0xAB] * 28
    assert acl.library.aclrtMemset(memory, c_size_t(64), 0, c_size_t(33)) == 107000
    assert acl.library.aclrtMemset(memory, c_size_t(8), 0, c_size_t(9)) == 100000


def test_memory_of_the_device_is_counted_and_limited(device, acl):
    free, total = c_size_t(), c_size_t()
    acl.call("aclrtGetMemInfo", 1, byref(free), byref(total))
    before = free.value
    device.memory(1 << 20)
    acl.call("aclrtGetMemInfo", 1, byref(free), byref(total))
    assert before - free.value == 1 << 20
    assert acl.library.aclrtMalloc(byref(c_void_p()), c_size_t(total.value + 1), 0) == 207001
    assert "are free" in acl.message()


def test_pinned_host_memory(acl):
    pointer = c_void_p()
    acl.call("aclrtMallocHost", byref(pointer), c_size_t(64))
    ctypes.memset(pointer, 1, 64)
    assert acl.library.aclrtFreeHost(pointer) == 0
    assert acl.library.aclrtFreeHost(pointer) == 107000


@pytest.mark.parametrize("function", ["aclCreateIntArray", "aclCreateFloatArray", "aclCreateBoolArray"])
@pytest.mark.parametrize("size", [2**64 - 1, 2**62, 2**33])
def test_lists_of_impossible_length_are_refused(acl, function, size):
    create = getattr(acl.library, function)
    assert not create((ARRAYS[function.removeprefix("aclCreate")] * 1)(1), ctypes.c_uint64(size))
    assert f"{function}: got {size} elements, expected at most" in acl.message()
