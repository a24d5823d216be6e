"""Call installed aclnn functions with NPU tensors by ctypes, without the C++ interface of torch_npu."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from opforge.codegen.data.dtypes import CANN_DTYPES, FORMATS
from opforge.codegen.errors import MissingToolError
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.views.facts import Param, aclnn_signature
from opforge.package.doctor.cann_environment import CannEnvironment
from opforge.twin.runtime.acl import ARRAYS, SCALARS
from opforge.twin.runtime.results import AclnnError

from .fake import symbolic_call
from .schema import Argument, bind

_NUMBERS = {dtype.name: dtype.number for dtype in CANN_DTYPES}
# The storage format of a plain tensor by rank, as torch_npu passes it.
_FORMAT_BY_RANK = {3: FORMATS["NCL"], 4: FORMATS["NCHW"], 5: FORMATS["NCDHW"]}
_C_TYPES: Mapping[str, Any] = {
    "int8_t": ctypes.c_int8,
    "int32_t": ctypes.c_int32,
    "int64_t": c_int64,
    "uint64_t": c_uint64,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "bool": ctypes.c_bool,
    "char *": c_char_p,
}
_TENSOR = [POINTER(c_int64), c_uint64, c_int, POINTER(c_int64), c_int64, c_int, POINTER(c_int64), c_uint64, c_void_p]
_ACL: Mapping[str, tuple[Any, list[Any]]] = {
    "aclCreateTensor": (c_void_p, _TENSOR),
    "aclDestroyTensor": (c_int, [c_void_p]),
    **{f"aclCreate{name}": (c_void_p, [POINTER(item), c_uint64]) for name, item in ARRAYS.items()},
    **{f"aclDestroy{name}": (c_int, [c_void_p]) for name in (*ARRAYS, "Scalar")},
    "aclCreateScalar": (c_void_p, [c_void_p, c_int]),
    "aclGetRecentErrMsg": (c_char_p, []),
}
_CANN_LIBRARIES = ("libascendcl.so", "libnnopbase.so", "libopapi.so")


@dataclass(frozen=True)
class Libraries:
    """The libraries that a call searches.

    Attributes:
        functions: Libraries with aclnn functions, in search order.
        acl: Libraries with the functions that make tensor descriptions.
    """

    functions: Sequence[ctypes.CDLL]
    acl: Sequence[ctypes.CDLL]

    def acl_function(self, name: str) -> Any:
        """Return a function of the acl interface with its types."""
        return _typed(self._found(self.acl, name), *_ACL[name])

    def aclnn_function(self, name: str, types: list[Any]) -> Any:
        """Return a function of an operator."""
        return _typed(self._found(self.functions, name), c_int, types)

    def _found(self, libraries: Sequence[ctypes.CDLL], name: str) -> Any:
        for library in libraries:
            if hasattr(library, name):
                return getattr(library, name)
        raise MissingToolError(
            f"{name}: got no library with it, expected one in ASCEND_CUSTOM_OPP_PATH, ASCEND_OPP_PATH or CANN; install"
            " the package and source its set_env.bash; `opforge doctor` lists what is installed"
        )


def _typed(function: Any, result: Any, types: list[Any]) -> Any:
    function.restype, function.argtypes = result, types
    return function


@lru_cache(maxsize=1)
def installed_libraries() -> Libraries:
    """Load the libraries of the installed packages and of CANN, in CANN's search order."""
    vendors = CannEnvironment(os.environ).vendors
    packages = [vendor.libraries["aclnn"] for vendor in vendors if vendor.libraries["aclnn"].is_file()]
    cann = []
    for name in _CANN_LIBRARIES:
        try:
            cann.append(ctypes.CDLL(name, ctypes.RTLD_GLOBAL))
        except OSError as error:
            raise MissingToolError(f"{name}: got '{error}', expected CANN; source its set_env.sh") from error
    return Libraries([*(ctypes.CDLL(str(path)) for path in packages), cann[-1]], cann)


def npu_kernel(
    spec: OpSpec, arguments: Sequence[Argument], libraries: Callable[[], Libraries] = installed_libraries
) -> Callable[..., Any]:
    """Return the kernel of an operator for NPU tensors."""

    def kernel(*given: Any, **named: Any) -> Any:
        values = bind(arguments, given, named)
        call = symbolic_call(spec, arguments, values)
        case = call.case()
        device = next(values[argument.name].device for argument in arguments if argument.is_tensor)
        by_parameter = {argument.parameter: values[argument.name] for argument in arguments}
        leaders = {output.name: by_parameter.get(output.dtype or "") for output in spec.outputs}
        with _on(device):
            outputs = {
                output.name: empty(
                    [max(int(size), 0) for size in call.shape(case.shapes[output.name])],
                    _dtype(leaders[output.name], output.dtypes),
                    device,
                )
                for output in spec.outputs
                if output.name not in spec.in_place
            }
            copies = {source.name: by_parameter[source.name].clone() for source in spec.in_place.values()}
            call_aclnn(spec, by_parameter | outputs | copies, device, libraries())
            outputs |= {name: copies[source.name] for name, source in spec.in_place.items()}
        made = [outputs[output.name] for output in spec.outputs]
        return made[0] if len(made) == 1 else tuple(made)

    return kernel


def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return memory of the device for an output or a workspace."""
    return torch.empty(list(shape), dtype=dtype, device=device)


def _dtype(leader: torch.Tensor | None, dtypes: Sequence[str]) -> torch.dtype:
    found: torch.dtype = leader.dtype if leader is not None else getattr(torch, dtypes[0])
    return found


def _on(device: torch.device) -> Any:
    """Make a device current: autograd calls kernels in separate threads."""
    module = torch.get_device_module(device)
    return module.device(device.index) if hasattr(module, "device") else nullcontext()


def call_aclnn(spec: OpSpec, values: Mapping[str, Any], device: torch.device, libraries: Libraries) -> None:
    """Call both phases of the function of an operator on the current stream.

    Args:
        spec: The operator.
        values: Tensors, lists and attributes by parameter, outputs included.
        device: The device of the tensors.
        libraries: The libraries to search.

    Raises:
        AclnnError: The function rejects the call.
    """
    function = _function(spec, values)
    parameters = aclnn_signature(spec, function)
    with ExitStack() as stack:
        given = [
            stack.enter_context(_scalar(spec.attr(parameter.of).type, values[parameter.of], libraries))
            if parameter.is_scalar
            else _argument(parameter, values[parameter.of], libraries, stack)
            for parameter in parameters
        ]
        size, executor = c_uint64(), c_void_p()
        types = [_C_TYPES.get(parameter.c_type, c_void_p) for parameter in parameters]
        types += [POINTER(c_uint64), POINTER(c_void_p)]
        plan = libraries.aclnn_function(f"{function}GetWorkspaceSize", types)
        _require(f"{function}GetWorkspaceSize", plan(*given, byref(size), byref(executor)), libraries)
        workspace = empty([size.value], torch.uint8, device) if size.value else None
        launch = libraries.aclnn_function(function, [c_void_p, c_uint64, c_void_p, c_void_p])
        address = workspace.data_ptr() if workspace is not None else None
        # torch_npu queues launches, and reading the stream empties the queue. If the stream had been read earlier, this
        # launch could run before the queued ones.
        stream = torch.get_device_module(device).current_stream(device).npu_stream
        _require(function, launch(address, size, executor, stream), libraries)


def _function(spec: OpSpec, values: Mapping[str, Any]) -> str:
    """Return the first function with a parameter for each attribute that differs from its default."""
    needed = {attr.name for attr in spec.attrs if _comparable(values[attr.name]) != attr.default}
    return next(f.function for f in spec.aclnn if needed <= set(f.params.values()))


def _comparable(value: Any) -> Any:
    """Return a value in the form of specs: a list becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value


def _argument(parameter: Param, value: Any, libraries: Libraries, stack: ExitStack) -> Any:
    if parameter.kind == "attr":
        if parameter.c_type == "char *":
            return str(value).encode()
        if parameter.c_type.endswith("Array *"):
            name = parameter.c_type.removeprefix("const acl").removesuffix(" *")
            return stack.enter_context(_array(name, value, libraries))
        return _C_TYPES[parameter.c_type](value)
    if value is None:
        return None
    if parameter.kind == "host_list":
        return stack.enter_context(_array("IntArray", value, libraries))
    return stack.enter_context(_tensor(parameter.of, value, libraries))


@contextmanager
def _tensor(name: str, tensor: torch.Tensor, libraries: Libraries) -> Iterator[int]:
    """Describe a tensor, with its strides and its offset in its storage."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _NUMBERS:
        raise RuntimeError(f"{name}: got dtype {dtype}, expected a dtype of aclTensor; cast the tensor")
    rank, storage = tensor.dim(), tensor.untyped_storage()
    handle = libraries.acl_function("aclCreateTensor")(
        (c_int64 * rank)(*tensor.shape),
        rank,
        _NUMBERS[dtype],
        (c_int64 * rank)(*tensor.stride()),
        tensor.storage_offset(),
        _FORMAT_BY_RANK.get(rank, FORMATS["ND"]),
        (c_int64 * 1)(storage.nbytes() // tensor.element_size()),
        1,
        storage.data_ptr(),
    )
    if not handle:
        raise RuntimeError(f"{name}: {_message(libraries)}")
    try:
        yield handle
    finally:
        libraries.acl_function("aclDestroyTensor")(handle)


@contextmanager
def _array(name: str, values: Sequence[Any], libraries: Libraries) -> Iterator[int]:
    """Describe a list by one of the structures of `ARRAYS`."""
    handle = libraries.acl_function(f"aclCreate{name}")((ARRAYS[name] * len(values))(*values), len(values))
    try:
        yield handle
    finally:
        libraries.acl_function(f"aclDestroy{name}")(handle)


@contextmanager
def _scalar(kind: str, value: Any, libraries: Libraries) -> Iterator[int]:
    """Describe an attribute by a scalar object."""
    item, dtype = SCALARS[kind]
    handle = libraries.acl_function("aclCreateScalar")(byref(item(value)), dtype)
    try:
        yield handle
    finally:
        libraries.acl_function("aclDestroyScalar")(handle)


def _message(libraries: Libraries) -> str:
    text = libraries.acl_function("aclGetRecentErrMsg")()
    return text.decode(errors="replace") if text else "no message"


def _require(function: str, status: int, libraries: Libraries) -> None:
    if status:
        raise AclnnError(function, status, _message(libraries))
