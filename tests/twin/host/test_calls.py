"""Test the two-phase call: results, strides, status codes, misuse."""

from __future__ import annotations

import ctypes
import shutil
from ctypes import byref, c_int64, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(7).uniform(-2, 2, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dense_call_computes(device, dtype):
    x, bias = numbers(5, 37, dtype=dtype), numbers(37, dtype=dtype)
    out = device.tensor(np.zeros((5, 37), dtype))
    result = device.run(device.tensor(x), out, bias=device.tensor(bias))
    np.testing.assert_array_equal(result, x * np.dtype(dtype).type(2) + bias)


def test_absent_bias_and_other_dtype_of_bias(device):
    x, bias = numbers(3, 16), numbers(16, dtype="float16")
    out = device.tensor(np.zeros((3, 16), np.float32))
    np.testing.assert_array_equal(device.run(device.tensor(x), out), x * 2)
    np.testing.assert_array_equal(device.run(device.tensor(x), out, bias=device.tensor(bias)), x * 2 + bias)


def test_strided_input_and_output(device):
    base = numbers(8, 40)
    target = np.full((6, 100), 9.0, np.float32)
    x, out = base[1:7:2, 3:40:2], target[0:6:2, 10:48:2]
    device.run(device.tensor(x), written := device.tensor(out))
    expected = np.full((6, 100), 9.0, np.float32)
    expected[0:6:2, 10:48:2] = x * 2
    np.testing.assert_array_equal(written.data, expected)


def test_transposed_view_and_level0_transpose(device):
    x = numbers(6, 10)
    out = device.tensor(np.zeros((10, 6), np.float32))
    np.testing.assert_array_equal(device.run(device.tensor(x.T), out), x.T * 2)
    bias = numbers(10)  # for the rows, which are the columns of the transposed call
    result = device.run(device.tensor(x.T), out, bias=device.tensor(bias), mode="transposed")
    np.testing.assert_array_equal(result, (x * 2 + bias).T)


@pytest.mark.parametrize("mode", ["shifted", "shifted into tensors"])
def test_level0_pad_slice_and_transpose(device, mode):
    x = numbers(5, 12)
    expected = np.zeros((5, 12), np.float32)
    expected[1:, :-1] = x[:-1, 1:] * 2
    out = device.tensor(np.zeros((5, 12), np.float32))
    np.testing.assert_array_equal(device.run(device.tensor(x), out, mode=mode), expected)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("slice too much", "Slice: got offsets [0, 0] and sizes [-1, 9] for shape [2, 8], expected parts of it"),
        ("pad with device values", "Pad: paddings is on the device"),
    ],
)
def test_impossible_level0_calls_report_the_reason(device, mode, message):
    planned = device.plan(device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8)), mode=mode)
    assert planned.status == 561103
    assert message in planned.message


def test_dense_view_with_an_offset_is_not_copied(device, acl):
    base = numbers(10, 16)
    out = device.tensor(np.zeros((4, 16), np.float32))
    acl.take_reports()
    np.testing.assert_array_equal(device.run(device.tensor(base[3:7]), out), base[3:7] * 2)
    (report,) = acl.take_reports()
    assert report["op_type"] == "ScaledAdd"
    assert report["minimal_bytes"] == 2 * 4 * 16 * 4
    assert report["gm_bytes_read"] == report["gm_bytes_written"] == 4 * 16 * 4
    assert report["findings"] == []


def test_empty_and_one_element(device):
    out = device.tensor(np.zeros((1, 1), np.float32))
    np.testing.assert_array_equal(device.run(device.tensor(np.array([[3]], np.float32)), out), [[6]])


def test_null_arguments_are_161001(device):
    x = device.tensor(numbers(2, 8))
    assert device.plan(None, x).status == 161001
    planned = device.plan(x, None)
    assert planned.status == 161001
    assert "out: got null" in planned.message
    status = device.opapi.aclnnScaledAddGetWorkspaceSize(
        x.handle, None, None, 1.0, None, x.handle, None, byref(c_void_p())
    )
    assert status == 161001


def test_wrong_dtype_and_shape_are_161002(device):
    x = device.tensor(numbers(2, 8))
    planned = device.plan(device.tensor(np.zeros((2, 8), np.int64)), x)
    assert planned.status == 161002
    assert "got dtype int64, expected one of float32, float16, int32" in planned.message
    assert device.plan(x, device.tensor(np.zeros((2, 9), np.float32))).status == 161002
    assert device.plan(device.tensor(numbers(8)), x).status == 161002


def test_inference_that_refuses_is_561001(device):
    x, out = device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8))
    planned = device.plan(x, out, bias=device.tensor(numbers(9)))
    assert planned.status == 561001
    assert "shape inference function refused" in planned.message
    planned = device.plan(x, out, mode="unknown result")
    assert planned.status == 561001
    assert "inferred [-1] from known shapes" in planned.message


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("refuse", "tiling function refused the call (status 4294967295): it logged no reason"),
        ("refuse with a reason", "tiling function refused the call (status 4294967295): rows: got 2, expected more"),
        ("read a dim behind the last", "dim 2 of a shape with 2 dims"),
        ("read the factor as int", "attribute 0 is a float, it was read as an int"),
        ("set no block dim", "set no block dim"),
    ],
)
def test_tiling_that_refuses_or_errs_is_561002(device, mode, message):
    x, out = device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8))
    planned = device.plan(x, out, mode=mode)
    assert planned.status == 561002
    assert message in planned.message


def test_missing_kernels_are_561003(device, acl):
    x, out = device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8))
    integers = device.tensor(np.zeros((2, 8), np.int32))
    planned = device.plan(integers, integers)
    assert planned.status == 561003
    assert "no kernel for dtypes (int32, int32); expected (float32, float32) or (float16, float16)" in planned.message
    for soc, message in {
        "Ascend910A": "no kernel for Ascend910A (ascend910) is built",
        "Ascend910_9391": "no kernel for Ascend910_9391 (ascend910_93) is built",
    }.items():
        acl.set_option("soc", soc)
        planned = device.plan(x, out)
        assert planned.status == 561003
        assert message in planned.message


def test_strided_tensor_for_a_kernel_is_refused(device):
    x = device.tensor(numbers(4, 16)[:, ::2])
    planned = device.plan(x, device.tensor(numbers(4, 8)), mode="pass strides on")
    assert planned.status == 561000
    assert "call l0op::Contiguous" in planned.message


def test_workspace_must_be_there_and_large_enough(device, acl):
    planned = device.plan(device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8)))
    assert planned.size > 16 << 20
    stream = device.stream()
    run = device.opapi.aclnnScaledAdd
    assert run(None, planned.size, planned.executor, stream) == 161001
    assert "workspace is null" in acl.message()
    assert device.launch(planned, stream, planned.size - 1) == 161002
    assert f"expected {planned.size}, the result of GetWorkspaceSize" in acl.message()
    short = device.memory(planned.size - 1)
    assert run(short, planned.size, planned.executor, stream) == 161002
    assert "of an allocation of" in acl.message()
    on_host = ctypes.create_string_buffer(16)
    assert run(on_host, planned.size, planned.executor, stream) == 161002
    assert "is no device memory" in acl.message()
    assert device.launch(planned, stream) == 0
    acl.call("aclrtSynchronizeStream", stream)


def test_executor_cannot_be_used_twice_or_be_null(device, acl):
    planned = device.plan(device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8)))
    stream = device.stream()
    assert device.launch(planned, stream) == 0
    assert device.launch(planned, stream) == 161002
    assert "the executor was used before" in acl.message()
    assert device.opapi.aclnnScaledAdd(None, 0, None, stream) == 161001
    assert "executor is null" in acl.message()
    acl.call("aclrtSynchronizeStream", stream)


def test_repeatable_executor_runs_again_with_other_memory(device, acl):
    x, other = numbers(2, 8), numbers(2, 8) + 1
    source, out = device.tensor(x), device.tensor(np.zeros((2, 8), np.float32))
    planned = device.plan(source, out)
    stream = device.stream()
    assert acl.library.aclSetInputTensorAddr(planned.executor, c_uint64(0), source.handle, source.memory) == 161002
    assert "not repeatable" in acl.message()
    assert acl.library.aclSetAclOpExecutorRepeatable(planned.executor) == 0
    assert device.launch(planned, stream) == 0
    acl.call("aclrtSynchronizeStream", stream)
    np.testing.assert_array_equal(out.read(acl), x * 2)
    moved = device.memory(other.nbytes)
    acl.upload(moved, other)
    assert acl.library.aclSetInputTensorAddr(planned.executor, c_uint64(0), source.handle, moved) == 0
    assert acl.library.aclSetInputTensorAddr(planned.executor, c_uint64(1), source.handle, moved) == 161002
    assert device.launch(planned, stream) == 0
    acl.call("aclrtSynchronizeStream", stream)
    np.testing.assert_array_equal(out.read(acl), other * 2)
    assert acl.library.aclDestroyAclOpExecutor(planned.executor) == 0
    assert acl.library.aclDestroyAclOpExecutor(planned.executor) == 161002


def test_tensor_destroyed_between_the_functions_is_noticed(device, acl):
    x, out = device.tensor(numbers(2, 8)), device.tensor(numbers(2, 8))
    planned = device.plan(x, out)
    assert acl.library.aclDestroyTensor(x.handle) == 0
    stream = device.stream()
    assert device.launch(planned, stream) == 161002
    assert "a tensor was destroyed after GetWorkspaceSize" in acl.message()
    again = device.plan(x, out)
    assert again.status == 161002
    assert "parameter 0 (from 0), or a member of it, was destroyed" in again.message
    assert acl.library.aclDestroyAclOpExecutor(planned.executor) == 0


def test_host_pointer_as_device_memory_fails_the_stream(device, acl):
    data = numbers(2, 8)
    x = device.tensor(data, memory=c_void_p(data.ctypes.data))
    planned = device.plan(x, device.tensor(numbers(2, 8)))
    stream = device.stream()
    assert device.launch(planned, stream) == 0
    assert acl.library.aclrtSynchronizeStream(stream) == 507015
    message = acl.message()
    assert "x (64 bytes)" in message
    assert "is no device memory; expected a pointer from aclrtMalloc" in message


def test_memory_too_short_for_its_tensor_fails_the_stream(device, acl):
    x = device.tensor(numbers(2, 8), memory=device.memory(63))
    planned = device.plan(x, device.tensor(numbers(2, 8)))
    stream = device.stream()
    assert device.launch(planned, stream) == 0
    assert acl.library.aclrtSynchronizeStream(stream) == 507015
    assert "bytes 0 to 64 of an allocation of 63 bytes" in acl.message()


def test_finding_of_a_kernel_fails_the_stream_permanently(device, acl):
    x, out = device.tensor(numbers(2, 8)), device.tensor(np.zeros((2, 8), np.float32))
    planned = device.plan(x, out, mode="overrun")
    stream = device.stream()
    assert device.launch(planned, stream) == 0
    assert acl.library.aclrtSynchronizeStream(stream) == 507015
    message = acl.message()
    assert "ScaledAdd" in message
    assert "kernel.cpp" in message
    (report,) = acl.take_reports()
    assert report["findings"]
    assert report["findings"][0]["message"] in message
    after = device.plan(x, out)
    assert device.launch(after, stream) == 0
    assert acl.library.aclrtSynchronizeStream(stream) == 507015
    assert acl.take_reports() == []


def test_kernel_without_workspace(device):
    x = numbers(2, 8)
    result = device.run(device.tensor(x), device.tensor(np.zeros((2, 8), np.float32)), mode="no workspace")
    np.testing.assert_array_equal(result, x * 2)


def test_package_of_the_environment_comes_first(device, acl, vendor, tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path}/missing:{vendor}")
    x = numbers(2, 8)
    result = device.run(device.tensor(x), device.tensor(np.zeros((2, 8), np.float32)))
    np.testing.assert_array_equal(result, x * 2)


def loaded_kernels(folder):
    """Return the kernel libraries below a folder that the process has loaded."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if "/kernel/" in line and line.endswith(".so")}
    return {Path(path).relative_to(folder).parts[0] for path in paths if Path(path).is_relative_to(folder)}


def test_vendors_of_the_toolkit_come_in_the_order_of_load_priority(device, vendor, tmp_path, monkeypatch):
    vendors = tmp_path / "vendors"
    for name in ("one", "two", "three"):
        shutil.copytree(vendor, vendors / name)
    (vendors / "config.ini").write_text("load_priority = absent, two,one\nload_priority=three\n", encoding="utf-8")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
    x = numbers(2, 8)
    result = device.run(device.tensor(x), device.tensor(np.zeros((2, 8), np.float32)))
    np.testing.assert_array_equal(result, x * 2)
    assert loaded_kernels(vendors) == {"two"}
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(vendors / "three"))
    device.run(device.tensor(x), device.tensor(np.zeros((2, 8), np.float32)))
    assert loaded_kernels(vendors) == {"two", "three"}


def test_getters_of_a_tensor(device, acl):
    x = device.tensor(numbers(4, 16)[1:, ::2])
    offset, count = c_int64(), c_uint64()
    dims = ctypes.POINTER(c_int64)()
    assert acl.library.aclGetViewOffset(x.handle, byref(offset)) == 0
    assert offset.value == 16
    for function, expected in {
        "aclGetViewShape": [3, 8],
        "aclGetViewStrides": [16, 2],
        "aclGetStorageShape": [4, 16],
    }.items():
        assert getattr(acl.library, function)(x.handle, byref(dims), byref(count)) == 0
        assert [dims[i] for i in range(count.value)] == expected
    assert acl.library.aclGetViewOffset(None, byref(offset)) == 161001


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "storage", "dtype", "message"),
    [
        ((2, 8), [8, 1], 1, (2, 8), "float32", "reaches outside the storage [2, 8]"),
        ((2, 8), [9, 1], 0, (16,), "float32", "reaches outside the storage [16]"),
        ((2, -1), [1, 1], 0, (16,), "float32", "expected dims of at least 0"),
        ((2, 8), [-8, 1], 8, (16,), "float32", "expected at least 0"),
        ((1,) * 26, [1] * 26, 0, (1,), "float32", "expected at most 25"),
    ],
)
def test_impossible_tensors_are_refused(device, acl, shape, strides, offset, storage, dtype, message):
    assert not device.create(shape, strides, offset, storage, device.memory(64), dtype)
    assert message in acl.message()


def test_objects_are_destroyed_once(acl, device):
    handle = device.create((2,), [1], 0, (2,), device.memory(8), "float32")
    array = c_void_p(acl.library.aclCreateIntArray((c_int64 * 2)(1, 2), 2))
    assert acl.library.aclDestroyTensor(handle) == 0
    assert acl.library.aclDestroyTensor(handle) == 161002
    assert "destroyed before" in acl.message()
    assert acl.library.aclDestroyIntArray(array) == 0
    assert acl.library.aclDestroyIntArray(array) == 161002
    size = c_uint64()
    assert acl.library.aclGetIntArraySize(array, byref(size)) == 161002
