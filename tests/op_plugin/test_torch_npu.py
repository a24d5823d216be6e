"""Test the ctypes binding for NPU tensors with device memory of the CPU twin.

The memory is protected like that of a device: only the aclnn functions and copies can read it. The tensors are views of
this memory with strides and offsets.
"""

import contextlib
import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")

from opforge.codegen.errors import MissingToolError  # noqa: E402
from opforge.codegen.project import BUILTIN_ROOT, Project  # noqa: E402
from opforge.torch import npu  # noqa: E402
from opforge.torch.register import SPECS  # noqa: E402
from opforge.torch.schema import operator_arguments  # noqa: E402
from opforge.twin import AclnnError  # noqa: E402
from opforge.twin.build import build_project  # noqa: E402
from opforge.twin.runtime.acl import runtime  # noqa: E402

SOC = "Ascend910B1"


class Device:
    """Device memory of the twin as tensors, and the functions that the binding calls of a device module."""

    def __init__(self, stack):
        self.stack = stack
        self.acl = runtime()
        self.acl.call("aclrtSetDevice", 0)
        self.acl.set_options(soc=SOC, strict=1, threads=0, seed=1)
        self.stream = stack.enter_context(self.acl.stream())
        self.events = []

    def empty(self, shape, dtype, device):
        del device
        size = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
        self.events.append("workspace" if dtype == torch.uint8 else "output")
        pointer = self.stack.enter_context(self.acl.memory(max(size, 1)))
        memory = (ctypes.c_char * max(size, 1)).from_address(pointer.value)
        return torch.frombuffer(memory, dtype=dtype, count=int(np.prod(shape))).reshape(shape)

    def put(self, tensor):
        """The storage of a tensor on the device, with its strides and its offset."""
        storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        there = self.empty([storage.numel()], tensor.dtype, None)
        data = storage.view(torch.uint8).numpy()
        self.acl.upload(ctypes.c_void_p(there.data_ptr()), data)
        return there.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def get(self, tensor):
        """A contiguous tensor of the device."""
        self.acl.call("aclrtSynchronizeStream", self.stream)
        assert not [finding for report in self.acl.take_reports() for finding in report["findings"]]
        data = np.empty(tensor.numel() * tensor.element_size(), np.uint8)
        self.acl.download(data, ctypes.c_void_p(tensor.data_ptr()))
        return torch.from_numpy(data).view(tensor.dtype).reshape(tensor.shape)

    def device(self, index):
        del index
        return contextlib.nullcontext()

    def current_stream(self, device):
        del device
        self.events.append("stream")
        return SimpleNamespace(npu_stream=self.stream.value)


@pytest.fixture
def device(monkeypatch):
    with contextlib.ExitStack() as stack:
        made = Device(stack)
        monkeypatch.setattr(torch, "get_device_module", lambda _device: made)
        monkeypatch.setattr(npu, "empty", made.empty)
        yield made


@pytest.fixture
def call(device):
    def kernel(name, *arguments):
        spec = SPECS[name]
        opapi = ctypes.CDLL(str(build_project(Project(BUILTIN_ROOT), [SOC], [spec.op_type]).opapi))
        libraries = npu.Libraries([opapi], [device.acl.library])
        return npu.npu_kernel(spec, operator_arguments(spec), lambda: libraries)(*arguments)

    return kernel


def test_a_view_with_strides_and_an_offset(device, call):
    grad = torch.randn(40, 12)
    view, ends = grad[4:24, 1:11:2], torch.tensor([5, 20])
    got = device.get(call("grouped_bias_add_grad", device.put(view), device.put(ends)))
    torch.testing.assert_close(got, torch.stack([view[:5].sum(0), view[5:].sum(0)]))


def test_attributes_lists_and_several_results(device, call):
    half = torch.float16
    grad, rows, factors = torch.randn(2, 2, 8).to(half), torch.randn(64, 2, 8).to(half), torch.randn(32, 2).to(half)
    given = [device.put(tensor) for tensor in (grad, rows, factors)]
    first, second = (device.get(one) for one in call("nsa_compress_grad", *given, [32, 64], 32, 16, 0, "TND"))
    wide = grad.double()
    expected = torch.cat([factors.double()[:, :, None] * wide[0], factors.double()[:, :, None] * wide[1]])
    sums = (rows.double()[:32] * wide[0]).sum(2) + (rows.double()[32:] * wide[1]).sum(2)
    torch.testing.assert_close(first.double(), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(second.double(), sums, rtol=2e-3, atol=4e-3)


def test_the_stream_is_read_last_in_every_call(device, call):
    grad, ends = device.put(torch.ones(8, 4)), device.put(torch.tensor([3, 8]))
    for _ in range(2):
        device.events.clear()
        call("grouped_bias_add_grad", grad, ends)
        assert (device.events[-1], device.events.count("stream")) == ("stream", 1)


def test_a_refused_call_has_the_label(device, call):
    grad, ends = device.put(torch.ones(8, 4)), device.put(torch.tensor([3, 8]))
    with pytest.raises(AclnnError, match=r"got 2, expected 0 or 1 \[C6\]") as error:
        call("grouped_bias_add_grad", grad, ends, 2)
    assert error.value.status == 161002
    with pytest.raises(AclnnError, match=r"\[C2\]"):
        call("grouped_bias_add_grad", device.put(torch.ones(8, 4, dtype=torch.float64)), ends)


def test_a_missing_package_is_named(monkeypatch):
    for name in ("ASCEND_CUSTOM_OPP_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    npu.installed_libraries.cache_clear()
    with pytest.raises(MissingToolError, match=r"libascendcl.so: got .*, expected CANN"):
        npu.installed_libraries()
