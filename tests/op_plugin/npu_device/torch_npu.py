"""Register the device "npu" of device.cpp with PyTorch, with the part of `torch.npu` that the bindings use."""

import contextlib
import ctypes
import os
import types

import torch

from opforge.twin.runtime.acl import runtime

SOC = "Ascend910B1"
ACL = runtime()
ACL.set_options(soc=SOC, strict=1, threads=0, seed=1)
LIBRARY = ctypes.CDLL(os.environ["OPFORGE_TEST_DEVICE"])
for name in ("npu_read_stream", "npu_new_stream", "npu_exchange_stream"):
    getattr(LIBRARY, name).restype = ctypes.c_void_p
LIBRARY.npu_exchange_stream.argtypes = [ctypes.c_void_p]


class Stream:
    """A stream of the twin."""

    def __init__(self, handle=None):
        self._handle = handle

    @property
    def npu_stream(self):
        return self._handle or LIBRARY.npu_read_stream()


def new_stream():
    return Stream(LIBRARY.npu_new_stream())


@contextlib.contextmanager
def use_stream(stream):
    before = LIBRARY.npu_exchange_stream(stream.npu_stream)
    try:
        yield
    finally:
        LIBRARY.npu_exchange_stream(before)


@contextlib.contextmanager
def use_device(index):
    assert LIBRARY.npu_set_device(index) == 0
    yield


def findings():
    LIBRARY.npu_synchronize()
    found = [finding for report in ACL.take_reports() for finding in report["findings"]]
    return [finding for finding in found if finding["kind"] != "input_not_read"]  # a warning


module = types.ModuleType("torch.npu")
module.device = use_device
module.current_stream = lambda _device=None: Stream()
module.stream = use_stream
module.synchronize = lambda _device=None: LIBRARY.npu_synchronize()
module.is_available = lambda: True
module.device_count = lambda: 1
module.current_device = lambda: 0
module.set_rng_state = lambda _state, _device=None: None
module.get_rng_state = lambda _device=None: torch.get_rng_state()
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda _seed: None
module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]

torch.utils.rename_privateuse1_backend("npu")
torch._register_device_module("npu", module)
LIBRARY.npu_register()
