"""The twin's C API from Python: device memory, tensors, and the two-phase call of aclnn functions."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # NumPy then knows bfloat16
import numpy as np
import numpy.typing as npt

from opforge.codegen.data.dtypes import CANN_DTYPES, DTYPES, FORMATS
from opforge.codegen.errors import UserError
from opforge.codegen.files import require_writable
from opforge.codegen.printing import shown
from opforge.twin.compiler.npu_model import require_level

Array = npt.NDArray[Any]

# aclDataType numbers by numpy dtype; the import of ml_dtypes registers "bfloat16" with numpy.
ACL_DTYPES: dict[np.dtype[Any], int] = {
    np.dtype(dtype.name): dtype.number
    for dtype in CANN_DTYPES
    if dtype.name in DTYPES or dtype.name in {"complex64", "complex128"}
}
LARGEST_SEED, MOST_THREADS, LARGEST_BYTES = 2**64 - 1, 65535, 1 << 40
_MEMORY_ALLOCATION = 207001  # ACL_ERROR_RT_MEMORY_ALLOCATION
_REPEATED_INITIALIZATION = 100002
# The options of the runtime are per process: only one run at a time.
_one_at_a_time = threading.RLock()
_is_forked_in_run = threading.Event()
FORMAT_ND = FORMATS["ND"]
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
# The structures of lists, and the types of their items.
# The C type and the aclDataType of a scalar object for each type of attributes.
SCALARS: dict[str, tuple[Any, int]] = {"int": (c_int64, 9), "float": (ctypes.c_float, 0), "bool": (ctypes.c_bool, 12)}
ARRAYS: dict[str, Any] = {"IntArray": c_int64, "FloatArray": ctypes.c_float, "BoolArray": ctypes.c_bool}
RUNTIME_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "aclInit": (c_int, [c_char_p]),
    "aclrtSetDevice": (c_int, [c_int32]),
    "aclrtCreateStream": (c_int, [POINTER(c_void_p)]),
    "aclrtDestroyStream": (c_int, [c_void_p]),
    "aclrtSynchronizeStream": (c_int, [c_void_p]),
    "aclrtMalloc": (c_int, [POINTER(c_void_p), ctypes.c_size_t, c_int]),
    "aclrtFree": (c_int, [c_void_p]),
    "aclrtMemcpy": (c_int, [c_void_p, ctypes.c_size_t, c_void_p, ctypes.c_size_t, c_int]),
    "aclGetRecentErrMsg": (c_char_p, []),
    "aclCreateTensor": (
        c_void_p,
        [POINTER(c_int64), c_uint64, c_int, POINTER(c_int64), c_int64, c_int, POINTER(c_int64), c_uint64, c_void_p],
    ),
    "aclDestroyTensor": (c_int32, [c_void_p]),
    **{f"aclCreate{name}": (c_void_p, [POINTER(item), c_uint64]) for name, item in ARRAYS.items()},
    **{f"aclDestroy{name}": (c_int32, [c_void_p]) for name in (*ARRAYS, "Scalar")},
    "aclCreateScalar": (c_void_p, [c_void_p, c_int32]),
    **{f"aclCreate{name}List": (c_void_p, [POINTER(c_void_p), c_uint64]) for name in ("Tensor", "Scalar")},
    **{f"aclDestroy{name}List": (c_int32, [c_void_p]) for name in ("Tensor", "Scalar")},
    "opforgeTwinSetOption": (c_int, [c_char_p, c_char_p]),
    "opforgeTwinTakeReports": (c_char_p, []),
}


def _examine_fork() -> None:
    """Handle a fork: a thread that has locked the runtime does not exist in the child."""
    if _one_at_a_time.acquire(blocking=False):
        _one_at_a_time.release()
    else:
        _is_forked_in_run.set()


os.register_at_fork(after_in_child=_examine_fork)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Allow one thread at a time to use the runtime.

    Raises:
        UserError: The process was forked while another thread used it.
    """
    if _is_forked_in_run.is_set():
        raise UserError(
            f"process {os.getpid()}: it was forked while another thread used the twin, expected a process "
            'without its state; start it with multiprocessing.get_context("spawn"), or fork when no operator runs'
        )
    with _one_at_a_time:
        yield


def level_name(strict: bool, level: str | None) -> str:
    """Return the level of checks: `level`, or the level of `strict`.

    Raises:
        UserError: The level does not exist.
    """
    if level is None:
        return "strict" if strict else "fast"
    return require_level(level)


def require_integers(**given: tuple[Any, int, int]) -> None:
    """Check numbers of a call by name: each with its minimum and maximum.

    Raises:
        UserError: A number is out of its range, or is not an integer.
    """
    for name, (number, least, greatest) in given.items():
        is_integer = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not is_integer or not least <= number <= greatest:
            raise UserError(f"{name}: got {shown(number)}, expected an integer from {least} to {greatest}")


class RuntimeCallError(Exception):
    """A call of the acl runtime failed; the text has the function, its code and the runtime's message."""


@dataclass(frozen=True)
class Extent:
    """The bytes of the buffer of a numpy array, and the positions of the array's elements in it."""

    data: Array
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements in the buffer."""
        return self.data.size

    def write_back(self, array: Array) -> None:
        """Write the elements to the array, if it was copied."""
        if array.size and not np.shares_memory(array, self.data):
            strides = tuple(stride * array.itemsize for stride in self.strides)
            array[...] = np.lib.stride_tricks.as_strided(self.data, array.shape, strides)


def extent_of(array: Array) -> Extent:
    """Return the smallest memory range with all elements of `array`, as a flat array that shares its memory.

    Strides are in elements. An array with negative or odd strides is copied first.
    """
    size = array.itemsize
    if any(stride < 0 or stride % size for stride in array.strides):
        array = array.copy()
    if array.size == 0:
        return Extent(np.empty(0, array.dtype), tuple(stride // size for stride in array.strides))
    strides = tuple(stride // size for stride in array.strides)
    elements = 1 + sum((dim - 1) * stride for dim, stride in zip(array.shape, strides, strict=True))
    return Extent(np.lib.stride_tricks.as_strided(array, (elements,), (size,)), strides)


class Runtime:
    """The runtime library of the twin, initialized once per process."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        for name, (result, arguments) in RUNTIME_SIGNATURES.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        # If the library of `opforge ort-library` has initialized the runtime, it also finalizes it.
        if self.library.aclInit(None) != _REPEATED_INITIALIZATION:
            atexit.register(self._finalize)
        self.call("aclrtSetDevice", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns an aclError.

        Raises:
            RuntimeCallError: It did not return 0.
            UserError: There is not enough memory.
        """
        code = getattr(self.library, name)(*arguments)
        if code == _MEMORY_ALLOCATION:
            raise UserError(f"{self.message()}; use smaller tensors, or give the process more memory")
        if code:
            raise RuntimeCallError(f"{name} failed with {code}: {self.message()}")

    def _finalize(self) -> None:
        if not _is_forked_in_run.is_set():  # otherwise it would wait for threads that do not exist
            self.library.aclFinalize()

    def message(self) -> str:
        """Return the last error message of this thread."""
        text: bytes | None = self.library.aclGetRecentErrMsg()
        return text.decode(errors="replace") if text else ""

    def set_option(self, name: str, value: str) -> None:
        """Set an option of later launches: soc, strict, threads, seed."""
        if self.library.opforgeTwinSetOption(name.encode(), value.encode()):
            raise RuntimeCallError(f"option {name}={value}: {self.message()}")

    def set_options(self, **options: str | int) -> None:
        """Set several options."""
        for name, value in options.items():
            self.set_option(name, str(value))

    def take_reports(self) -> list[dict[str, Any]]:
        """Return the reports of all launches since the last call."""
        reports: list[dict[str, Any]] = json.loads(self.library.opforgeTwinTakeReports())
        return reports

    @contextmanager
    def stream(self) -> Iterator[c_void_p]:
        """Provide a stream that is destroyed at the end."""
        stream = c_void_p()
        self.call("aclrtCreateStream", byref(stream))
        try:
            yield stream
        finally:
            self.call("aclrtDestroyStream", stream)

    @contextmanager
    def memory(self, size: int) -> Iterator[c_void_p]:
        """Device memory of `size` bytes (a null pointer for 0) that is freed at the end."""
        pointer = c_void_p()
        if size == 0:
            yield pointer
            return
        self.call("aclrtMalloc", byref(pointer), size, 0)
        try:
            yield pointer
        finally:
            self.call("aclrtFree", pointer)

    @contextmanager
    def tensor(
        self, array: Array, lead: int = 0, *, is_in_list: bool = False
    ) -> Iterator[tuple[c_void_p, c_void_p, Extent]]:
        """Provide an aclTensor with the shape, strides and content of `array`: handle, device memory, extent.

        The storage has `lead` elements before it. A tensor of a list is destroyed with the list.
        """
        extent = extent_of(array)
        before = lead * array.itemsize if extent.data.nbytes else 0
        with self.memory(extent.data.nbytes + before) as storage:
            pointer = c_void_p((storage.value or 0) + before)
            if extent.data.nbytes:
                self.upload(pointer, extent.data)
            rank = array.ndim
            handle = c_void_p(
                self.library.aclCreateTensor(
                    (c_int64 * rank)(*array.shape),
                    rank,
                    ACL_DTYPES[array.dtype],
                    (c_int64 * rank)(*extent.strides),
                    lead,
                    FORMAT_ND,
                    (c_int64 * 1)(extent.elements + lead),
                    1,
                    storage,
                )
            )
            if not handle.value:
                raise UserError(f"shape {shown(list(array.shape))}: {self.message() or 'no aclTensor can have it'}")
            try:
                yield handle, pointer, extent
            finally:
                if not is_in_list:
                    self.library.aclDestroyTensor(handle)

    @contextmanager
    def array(self, name: str, values: Sequence[Any]) -> Iterator[c_void_p]:
        """Provide a list as one of `ARRAYS`."""
        make, destroy = (getattr(self.library, f"acl{verb}{name}") for verb in ("Create", "Destroy"))
        handle = c_void_p(make((ARRAYS[name] * len(values))(*values), len(values)))
        try:
            yield handle
        finally:
            destroy(handle)

    @contextmanager
    def scalar(self, kind: str, value: Any) -> Iterator[c_void_p]:
        """Provide an aclScalar with the value of an attribute type."""
        item, dtype = SCALARS[kind]
        handle = c_void_p(self.library.aclCreateScalar(byref(item(value)), dtype))
        try:
            yield handle
        finally:
            self.library.aclDestroyScalar(handle)

    @contextmanager
    def scalars(self, values: Array, *, is_list: bool) -> Iterator[c_void_p]:
        """Provide an aclScalar with the only value of an array, or an aclScalarList."""
        items = np.ascontiguousarray(values)
        first, step, dtype = items.ctypes.data, items.itemsize, ACL_DTYPES[items.dtype]
        create = self.library.aclCreateScalar
        made = [c_void_p(create(c_void_p(first + step * index), dtype)) for index in range(items.size)]
        handle, destroy = made[0] if made else c_void_p(), self.library.aclDestroyScalar
        if is_list:
            handle = c_void_p(self.library.aclCreateScalarList((c_void_p * len(made))(*made), len(made)))
            destroy = self.library.aclDestroyScalarList  # with its scalars
        try:
            yield handle
        finally:
            destroy(handle)

    @contextmanager
    def tensor_list(self, tensors: Sequence[c_void_p]) -> Iterator[c_void_p]:
        """Provide an aclTensorList, which owns its tensors."""
        handle = c_void_p(self.library.aclCreateTensorList((c_void_p * len(tensors))(*tensors), len(tensors)))
        if not handle.value:
            message = self.message()
            for tensor in tensors:
                self.library.aclDestroyTensor(tensor)
            raise UserError(f"{message}; a list of tensors has no null pointers")
        try:
            yield handle
        finally:
            self.library.aclDestroyTensorList(handle)

    def upload(self, pointer: c_void_p, data: Array) -> None:
        """Copy a contiguous array to the device."""
        self.call("aclrtMemcpy", pointer, data.nbytes, c_void_p(data.ctypes.data), data.nbytes, HOST_TO_DEVICE)

    def download(self, data: Array, pointer: c_void_p) -> None:
        """Copy from the device into a contiguous array."""
        self.call("aclrtMemcpy", c_void_p(data.ctypes.data), data.nbytes, pointer, data.nbytes, DEVICE_TO_HOST)


def _check_variables() -> None:
    """Check the variables that the library reads while it runs kernels: it can only end the process."""
    given = os.environ.get("OPFORGE_TWIN_TIMEOUT")
    try:
        is_valid = not given or (set(given) <= set("0123456789.eE+-") and 0 < float(given) < inf)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UserError(f"OPFORGE_TWIN_TIMEOUT: got {shown(given)}, expected a number of seconds, as in 600")


def require_trace() -> None:
    """Check the file of OPFORGE_TWIN_TRACE before a launch; the library writes it after the launch."""
    if given := os.environ.get("OPFORGE_TWIN_TRACE"):
        require_writable(Path(given), (), "trace of OPFORGE_TWIN_TRACE")


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """Return the twin's runtime, built if necessary."""
    from opforge.twin.build import build_runtime

    _check_variables()
    return Runtime(build_runtime())
