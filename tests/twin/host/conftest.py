"""Provide a hand-written operator in a vendor tree and the C API of the twin for the tests of the host side."""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.build import build_runtime, include_flags
from opforge.twin.compiler.flags import LINE_FLAGS, WARNINGS
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.units import Library, Unit, build
from opforge.twin.runtime.acl import Runtime, runtime

Array = np.ndarray[Any, Any]
SOURCES = Path(__file__).parent / "scaled_add"
CACHE = Project(BUILTIN_ROOT).build_dir / "twin" / "tests" / "host"
KERNELS = {"float32": ("float", "DT_FLOAT"), "float16": ("half", "DT_FLOAT16")}
POINTER_RESULTS = ("aclCreateTensor", "aclCreateIntArray", "opforgeTwinCreateCall")
TEXT_RESULTS = (
    "aclrtGetSocName",
    "opforgeTwinInfer",
    "opforgeTwinInferRange",
    "opforgeTwinTile",
    "opforgeTwinPlugins",
    "opforgeTwinParseNode",
)


def unit(source: str, name: str, *flags: str) -> Unit:
    return Unit(SOURCES / source, CACHE / f"{name}.o", (*WARNINGS, *include_flags(), f"-I{SOURCES}", *flags), name)


@pytest.fixture(scope="session")
def vendor() -> Path:
    """Build ScaledAdd as an installed package; return its vendor directory."""
    library = build_runtime()
    link = (f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lopforge_twin")
    folder = CACHE / "vendors" / "tests"
    linux = Path("lib") / "linux" / platform.machine()
    tbe = folder / "op_impl" / "ai_core" / "tbe"
    hidden = "-fvisibility=hidden"
    libraries = [
        Library(
            folder / "op_proto" / linux / "libcust_opsproto_rt2.0.so",
            (unit("proto.cpp", "proto", hidden), unit("infershape.cpp", "infershape", hidden)),
            link,
        ),
        Library(
            tbe / "op_tiling" / linux / "libcust_opmaster_rt2.0.so",
            (
                unit("definition.cpp", "definition", hidden, "-DOP_TILING_LIB"),
                unit("tiling.cpp", "tiling", hidden, "-DOP_TILING_LIB"),
            ),
            link,
        ),
        Library(folder / "op_api" / "lib" / "libcust_opapi.so", (unit("aclnn_scaled_add.cpp", "aclnn", hidden),), link),
        Library(
            folder / "framework" / "onnx" / "libcust_onnx_parsers.so", (unit("plugin.cpp", "plugin", hidden),), link
        ),
    ]
    for dtype, (cpp, enumerator) in KERNELS.items():
        defines = (f"-DDTYPE_X={cpp}", f"-DORIG_DTYPE_X={enumerator}", hidden, *LINE_FLAGS)
        kernel = (unit("kernel.cpp", f"kernel_{dtype}", *defines),)
        path = tbe / "kernel" / "ascend910b" / "scaled_add" / f"ScaledAdd_{dtype}_{dtype}.so"
        libraries.append(Library(path, kernel, link))
    with locked(CACHE) as scratch:
        build(libraries, scratch)
    return folder


@pytest.fixture(scope="session")
def acl() -> Runtime:
    """Return the runtime with the result types of the functions that the Python driver does not use."""
    found = runtime()
    for name in POINTER_RESULTS:
        getattr(found.library, name).restype = c_void_p
    for name in TEXT_RESULTS:
        getattr(found.library, name).restype = c_char_p
    return found


@pytest.fixture(autouse=True)
def fresh(acl: Runtime) -> Iterator[None]:
    """Start every test without errors and reports, on the default SoC, in a thread with a device."""
    acl.call("aclrtSetDevice", 0)
    acl.message()
    acl.take_reports()
    acl.set_option("soc", "Ascend910B1")  # another test file may have changed it
    yield
    acl.set_option("soc", "Ascend910B1")


@dataclass
class Tensor:
    """A device tensor: its handle, its memory, and the layout of its elements."""

    handle: c_void_p
    memory: c_void_p
    data: Array

    def read(self, acl: Runtime) -> Array:
        acl.download(self.data, self.memory)
        return self.data


@dataclass
class Planned:
    """The result of GetWorkspaceSize."""

    status: int
    size: int
    executor: c_void_p
    message: str


class Device:
    """Calls of ScaledAdd and their allocations; released at the end of the test."""

    def __init__(self, acl: Runtime, vendor: Path) -> None:
        self.acl = acl
        self.opapi = ctypes.CDLL(str(vendor / "op_api" / "lib" / "libcust_opapi.so"))
        self.opapi.aclnnScaledAddGetWorkspaceSize.argtypes = [
            c_void_p,
            c_void_p,
            c_void_p,
            c_double,
            c_char_p,
            c_void_p,
            c_void_p,
            c_void_p,
        ]
        self.opapi.aclnnScaledAdd.argtypes = [c_void_p, c_uint64, c_void_p, c_void_p]
        self.tensors: list[c_void_p] = []
        self.blocks: list[c_void_p] = []
        self.streams: list[c_void_p] = []

    def memory(self, size: int) -> c_void_p:
        pointer = c_void_p()
        self.acl.call("aclrtMalloc", byref(pointer), size, 0)
        self.blocks.append(pointer)
        return pointer

    def stream(self) -> c_void_p:
        stream = c_void_p()
        self.acl.call("aclrtCreateStream", byref(stream))
        self.streams.append(stream)
        return stream

    def tensor(self, array: Array, memory: c_void_p | None = None) -> Tensor:
        """Create a tensor on the memory of a base array; `array` may be a strided view of it."""
        base = array if array.base is None else array.base
        if memory is None:
            memory = self.memory(base.nbytes)
            self.acl.upload(memory, base)
        offset = (array.ctypes.data - base.ctypes.data) // array.itemsize
        strides = [stride // array.itemsize for stride in array.strides]
        handle = self.create(array.shape, strides, offset, base.shape, memory, array.dtype.name)
        return Tensor(handle, memory, base)

    def create(
        self,
        shape: tuple[int, ...],
        strides: list[int],
        offset: int,
        storage: tuple[int, ...],
        memory: c_void_p | None,
        dtype: str,
    ) -> c_void_p:
        number = {"float32": 0, "float16": 1, "int32": 3, "int64": 9}[dtype]
        rank = len(shape)
        handle = c_void_p(
            self.acl.library.aclCreateTensor(
                (c_int64 * rank)(*shape),
                rank,
                number,
                (c_int64 * rank)(*strides),
                offset,
                2,
                (c_int64 * len(storage))(*storage),
                len(storage),
                memory,
            )
        )
        if handle:
            self.tensors.append(handle)
        return handle

    def plan(
        self,
        x: Tensor | None,
        out: Tensor | None,
        *,
        bias: Tensor | None = None,
        limit: list[int] | None = None,
        factor: float = 2.0,
        mode: str = "plain",
    ) -> Planned:
        size, executor = c_uint64(), c_void_p()
        array = None
        if limit is not None:
            array = c_void_p(self.acl.library.aclCreateIntArray((c_int64 * len(limit))(*limit), len(limit)))
        status = self.opapi.aclnnScaledAddGetWorkspaceSize(
            x and x.handle,
            bias and bias.handle,
            array,
            factor,
            mode.encode(),
            out and out.handle,
            byref(size),
            byref(executor),
        )
        if array is not None:
            assert self.acl.library.aclDestroyIntArray(array) == 0
        return Planned(status, size.value, executor, self.acl.message() if status else "")

    def launch(self, planned: Planned, stream: c_void_p, size: int | None = None) -> int:
        size = planned.size if size is None else size
        workspace = self.memory(size) if size else None
        status: int = self.opapi.aclnnScaledAdd(workspace, size, planned.executor, stream)
        return status

    def run(self, x: Tensor, out: Tensor, **arguments: Any) -> Array:
        """Run both phases and synchronize; return the memory of `out`."""
        planned = self.plan(x, out, **arguments)
        assert planned.status == 0, planned.message
        stream = self.stream()
        assert self.launch(planned, stream) == 0, self.acl.message()
        self.acl.call("aclrtSynchronizeStream", stream)
        return out.read(self.acl)

    def close(self) -> None:
        for stream in self.streams:
            self.acl.library.aclrtDestroyStream(stream)
        for tensor in self.tensors:
            self.acl.library.aclDestroyTensor(tensor)
        for block in self.blocks:
            self.acl.library.aclrtFree(block)


@pytest.fixture
def device(acl: Runtime, vendor: Path) -> Iterator[Device]:
    opened = Device(acl, vendor)
    yield opened
    opened.close()


class HostCall:
    """One call of an operator's host functions through the control API."""

    def __init__(self, acl: Runtime, op_type: str = "ScaledAdd") -> None:
        self.library = acl.library
        self.call = c_void_p(self.library.opforgeTwinCreateCall(op_type.encode()))
        self.values: list[Array] = []

    def input(self, dims: list[int] | None, dtype: int = 0, values: Array | None = None) -> HostCall:
        rank = -1 if dims is None else len(dims)
        pointer, size = (None, 0) if values is None else (c_void_p(values.ctypes.data), values.nbytes)
        if values is not None:
            self.values.append(values)
        self.library.opforgeTwinAddInput(
            self.call, (c_int64 * max(rank, 0))(*(dims or [])), c_int64(rank), c_int32(dtype), pointer, c_uint64(size)
        )
        return self

    def between(self, lowest: list[int], highest: list[int]) -> HostCall:
        """Set the lowest and the highest shape of the last input."""
        rank = len(lowest)
        self.library.opforgeTwinSetRange(self.call, (c_int64 * rank)(*lowest), (c_int64 * rank)(*highest))
        return self

    def output(self, dims: list[int], dtype: int = 0) -> HostCall:
        self.library.opforgeTwinAddOutput(self.call, (c_int64 * len(dims))(*dims), c_int64(len(dims)), c_int32(dtype))
        return self

    def attributes(self, factor: float = 1.0, mode: str = "plain", axes: list[int] | None = None) -> HostCall:
        self.library.opforgeTwinAddFloat(self.call, c_float(factor))
        self.library.opforgeTwinAddText(self.call, mode.encode())
        if axes is not None:
            self.library.opforgeTwinAddInts(self.call, (c_int64 * len(axes))(*axes), c_uint64(len(axes)))
        return self

    def infer(self) -> dict[str, Any]:
        return self._take(self.library.opforgeTwinInfer(self.call))

    def infer_range(self) -> dict[str, Any]:
        return self._take(self.library.opforgeTwinInferRange(self.call))

    def tile(self) -> dict[str, Any]:
        return self._take(self.library.opforgeTwinTile(self.call))

    def _take(self, text: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(text)
        self.library.opforgeTwinDestroyCall(self.call)
        return answer


@pytest.fixture
def host_call(acl: Runtime, vendor: Path) -> type[HostCall] | Any:
    """Return a class that calls the host functions of ScaledAdd."""
    assert acl.library.opforgeTwinLoadPackage(str(vendor).encode()) == 0, acl.message()
    return lambda op_type="ScaledAdd": HostCall(acl, op_type)
