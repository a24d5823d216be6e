"""One call of an aclnn function with numpy arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from ctypes import byref, c_uint64, c_void_p
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opforge.codegen.data.names import suggest
from opforge.codegen.errors import UserError
from opforge.codegen.expr.attr_kinds import SCALAR_TYPE
from opforge.codegen.expr.tree import element_name
from opforge.codegen.printing import shown
from opforge.codegen.spec.call import named_members, parameter_of

from .acl import ACL_DTYPES, Array, Extent, runtime
from .results import AclnnError, Finding, FindingsError, findings_of

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec
    from opforge.codegen.spec.parts import TensorSpec
    from opforge.codegen.views.facts import Param

C_INTEGERS = {
    "int8_t": ctypes.c_int8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
}

_EXPECTED_DTYPE = f"expected one of {', '.join(sorted(dtype.name for dtype in ACL_DTYPES))}"

# Findings about buffers whose sizes are set by the tiling plan.
BUFFER_SIZES = {"ub_budget", "ub_plan", "cube_budget"}


def _overlaps(array: Array) -> bool:
    """Return whether elements of a strided array share memory, or may share memory."""
    reach = array.itemsize
    for stride, dim in sorted(
        (abs(stride), dim) for stride, dim in zip(array.strides, array.shape, strict=True) if dim > 1
    ):
        if stride < reach:
            return array.size > 0
        reach = stride * (dim - 1) + reach
    return False


def _plain(value: Any) -> Any:
    """Return a value of an attribute without types of NumPy; lists are tuples."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _undefined(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array like undefined device memory: NaN in floats, -1 in integers.

    Raises:
        UserError: There is not enough memory.
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        array: Array = np.full(size, 0xFF, np.uint8).view(dtype).reshape(shape)
    except (MemoryError, ValueError) as error:
        raise UserError(
            f"an output of shape {list(shape)} needs {size} bytes, which this process cannot allocate; use smaller"
            " tensors, or give the process more memory"
        ) from error
    return array


def require_attribute_types(spec: OpSpec, attrs: Mapping[str, Any]) -> None:
    """Check that the given attributes have the types of the spec; shapes are inferred from them before the call.

    Raises:
        UserError: An attribute has another type.
    """
    for attr in spec.attrs:
        value = attrs.get(attr.name)
        if value is not None and not attr.kind.accepts(value):
            raise UserError(f"{spec.op_type}: {attr.name}: got {shown(value)}, expected {attr.kind.meaning}")


class AclnnCall:
    """One call of an aclnn function: arguments checked by name, then marshalled in the order of the signature."""

    def __init__(self, spec: OpSpec, inputs: dict[str, Any], attrs: dict[str, Any], function: str | None) -> None:
        self.spec = spec
        for kind, given, known in (("input", inputs, spec.inputs), ("attribute", attrs, spec.attrs)):
            names = [parameter.name for parameter in known]
            if unknown := sorted(set(given) - set(names)):
                raise UserError(f"{spec.op_type}: got {kind} {unknown[0]!r}; {suggest(unknown[0], names)}")
        self.inputs = {
            key: self._array(key, value)
            for name, given in inputs.items()
            for key, value in named_members(spec, name, given).items()
            if value is not None
        }
        # Tensors of a list may be null.
        self.counts = {name: len(inputs[name] or ()) for name in spec.program.lists if name in inputs}
        for tensor in spec.inputs:
            if tensor.scalar and tensor.name in self.inputs:
                self.inputs[tensor.name] = self._scalars(tensor.name, is_list=tensor.scalar == "list")
        self.attrs = {name: _plain(value) for name, value in attrs.items()}
        require_attribute_types(spec, self.attrs)
        self.function = self._choose(function)
        self.host_lists = {of.name: self._host_list(of.name) for of in spec.host_lists if of.name in self.inputs}

    def _host_list(self, name: str) -> list[int]:
        """Return the numbers of an aclIntArray; values that are not 64-bit integers are rejected, not rounded."""
        array = self.inputs[name]
        fits = array.ndim == 1 and (array.size == 0 or np.issubdtype(array.dtype, np.integer))
        if not fits or any(value > np.iinfo(np.int64).max for value in array.tolist()):
            raise UserError(
                f"{self.spec.op_type}: {name}: got {array.dtype} of shape {array.shape}, "
                "expected a list of integers of 64 bits"
            )
        return [int(value) for value in array]

    def _scalars(self, name: str, *, is_list: bool) -> Array:
        """Return one scalar or a list of scalars as an array of one dimension."""
        array = self.inputs[name]
        if array.ndim > 1 or (not is_list and array.size != 1):
            expected = "a list of numbers" if is_list else "one number"
            raise UserError(f"{self.spec.op_type}: {name}: got an array of shape {array.shape}, expected {expected}")
        return array.reshape(-1)

    def _array(self, name: str, value: Any) -> Array:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise UserError(f"{self.spec.op_type}: {name}: got {shown(value)}, expected an array: {error}") from error
        if array.dtype not in ACL_DTYPES:
            raise UserError(f"{self.spec.op_type}: {name}: got dtype {array.dtype}, {_EXPECTED_DTYPE}")
        return array

    def _choose(self, wanted: str | None) -> str:
        names = [candidate.function for candidate in self.spec.aclnn]
        if wanted is not None and wanted not in names:
            raise UserError(f"{self.spec.op_type}: got function {shown(wanted)}; {suggest(str(wanted), names)}")
        for candidate in self.spec.aclnn:
            if wanted in {None, candidate.function} and set(self.attrs) <= set(candidate.params.values()):
                return candidate.function
        attributes = {attr.name for attr in self.spec.attrs}
        takes = [
            f"{candidate.function} ({', '.join(sorted(attributes & set(candidate.params.values()))) or 'none'})"
            for candidate in self.spec.aclnn
            if wanted in {None, candidate.function}
        ]
        raise UserError(
            f"{self.spec.op_type}: got attributes {', '.join(self.attrs)}, which no single function has; expected"
            f" those of one function: {', '.join(takes)}"
        )

    def output_arrays(self, dtypes: Mapping[str, Any], given: Mapping[str, Array | None]) -> dict[str, Array | None]:
        """Return the output arrays: given ones, otherwise new ones of the inferred shape and dtype."""
        names = [result.name for result in self.spec.results]
        if unknown := sorted((set(dtypes) | set(given)) - set(names)):
            raise UserError(f"{self.spec.op_type}: got output {unknown[0]!r}; {suggest(unknown[0], names)}")
        known = {key: array for name, value in given.items() for key, array in self._given(name, value).items()}
        inferred = self._infer() if {output.name for output in self.spec.outputs} - set(given) else {}
        arrays: dict[str, Array | None] = {}
        for output in self.spec.outputs:
            source = self.spec.in_place.get(output.name)
            if source is not None:
                arrays |= {
                    key: self._in_place(key, known.get(key), self.inputs.get(of))
                    for of, key in self._pairs(source.name, output.name).items()
                }
            elif output.name in given:
                arrays |= {key: array for key, array in known.items() if parameter_of(key) == output.name}
            else:
                arrays |= {
                    key: _undefined(shape, self._dtype(output.name, dtypes, dtype))
                    for key, (shape, dtype) in inferred.items()
                    if parameter_of(key) == output.name
                }
        for tensor in self.spec.overwritten:
            arrays |= {
                key: self._in_place(key, known.get(key), self.inputs.get(key)) for key in self._keys(tensor.name)
            }
        return arrays

    def _given(self, name: str, value: Any) -> dict[str, Array | None]:
        """Return the arrays of an output that the caller gives, checked."""
        arrays = named_members(self.spec, name, value)
        for key, array in arrays.items():
            self._check_output(key, array)
        return arrays

    def _pairs(self, source: str, output: str) -> dict[str, str]:
        """Return the keys of an input, or of the tensors of a list, with those of the output in its memory."""
        return {key: output + key.removeprefix(source) for key in self._keys(source)} or {source: output}

    def _keys(self, name: str) -> list[str]:
        """Return the keys of an input; of a list, those of its tensors."""
        return [key for key in self.inputs if parameter_of(key) == name]

    def _in_place(self, name: str, array: Array | None, source: Array | None) -> Array | None:
        """Return the array of an output in place, with the elements of its input, which the function overwrites."""
        if array is None or source is None:
            return None if source is None else np.array(source, order="K")
        if (array.shape, array.dtype) != (source.shape, source.dtype):
            got = f"got {array.dtype} of shape {array.shape}, expected {source.dtype} of shape {source.shape}"
            raise UserError(
                f"{self.spec.op_type}: {name}: {got}: the function overwrites this input; give such an array"
            )
        np.copyto(array, source)
        return array

    def _check_output(self, name: str, array: Any) -> None:
        place = f"{self.spec.op_type}: {name}"
        if array is None:
            return
        if not isinstance(array, np.ndarray):
            raise UserError(f"{place}: got {type(array).__name__}, expected a numpy array to write into, or None")
        if array.dtype not in ACL_DTYPES:
            raise UserError(f"{place}: got dtype {array.dtype}, {_EXPECTED_DTYPE}")
        if not array.flags.writeable:
            raise UserError(f"{place}: got a read-only array, expected a writable one; pass a copy")
        if _overlaps(array):
            raise UserError(
                f"{place}: got strides {array.strides}, with which elements share memory; pass a contiguous array"
            )

    def _dtype(self, name: str, wanted: Mapping[str, Any], inferred: np.dtype[Any]) -> np.dtype[Any]:
        if name not in wanted:
            return inferred
        with suppress(TypeError):
            dtype: np.dtype[Any] = np.dtype(wanted[name])
            if wanted[name] is not None and dtype in ACL_DTYPES:
                return dtype
        raise UserError(f"{self.spec.op_type}: {name}: got dtype {shown(wanted[name])}, {_EXPECTED_DTYPE}")

    def _infer(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        from opforge.codegen.spec.semantics import Call, ShapeInferenceError, TensorType, infer

        shapes = {name: tuple(array.shape) for name, array in self.inputs.items()}
        dtypes = {name: array.dtype.name for name, array in self.inputs.items()}
        types: dict[str, TensorType] = {}
        # The function must reject a call that violates a constraint; its outputs are those of a call without
        # attributes, or have the right rank and one element.
        for attrs in (self.attrs, {}):
            with suppress(ShapeInferenceError):
                types = types or infer(self.spec, Call(shapes, dtypes, attrs), with_checks=False)
        fallback = next((array.dtype for array in self.inputs.values()), np.dtype("float32"))
        known: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        for output in self.spec.outputs:
            names = [name for name in types if parameter_of(name) == output.name] or self._assumed(output)
            for name in names:
                found = types.get(name)
                complete = found is not None and found.shape is not None and all(dim >= 0 for dim in found.shape)
                shape = (1,) * len(self.spec.cases[0].shapes[output.name])
                if found is not None and found.shape is not None and complete:
                    shape = tuple(found.shape)
                known[name] = (shape, np.dtype(found.dtype) if found is not None and found.dtype else fallback)
        return known

    def _assumed(self, output: TensorSpec) -> list[str]:
        """Return the keys of an output of a call that the function rejects."""
        first = next(iter(self.spec.program.cases[0].parallel), "")
        count = max(len(self._keys(first)), 1)
        return [element_name(output.name, index) for index in range(count)] if output.dynamic else [output.name]

    def execute(self, opapi: ctypes.CDLL, outputs: dict[str, Array | None], lead: int) -> dict[str, Array]:
        """Marshal, call both phases, wait, copy the outputs back; tensors start `lead` elements into their storage."""
        from opforge.codegen.views.facts import aclnn_signature

        acl = runtime()
        written_by = {output.name: output.name for output in self.spec.outputs}
        written_by |= {source.name: output for output, source in self.spec.in_place.items()}
        written_by |= {tensor.name: tensor.name for tensor in self.spec.overwritten}
        written: list[tuple[Array, Extent, c_void_p]] = []
        with ExitStack() as stack:
            arguments: list[Any] = []
            for parameter in aclnn_signature(self.spec, self.function):
                if parameter.kind == "attr":
                    value = self._attribute(parameter.of, parameter.c_type)
                    kind = self.spec.attr(parameter.of).kind
                    if parameter.is_scalar:
                        value = stack.enter_context(acl.scalar(kind.name, value))
                    arguments.append(stack.enter_context(acl.array(*value)) if kind.is_list else value)
                    continue
                source = outputs if parameter.of in written_by else self.inputs
                name = written_by.get(parameter.of, parameter.of)
                if not self.spec.tensor(parameter.of).dynamic:
                    arguments.append(self._handle(parameter, source.get(name), stack, written, lead, outputs is source))
                    continue
                count = sum(key.startswith(f"{name}[") for key in outputs) or self.counts.get(name, 0)
                keys = [element_name(name, index) for index in range(count)]
                handles = [
                    self._handle(parameter, source.get(key), stack, written, lead, outputs is source) for key in keys
                ]
                arguments.append(stack.enter_context(acl.tensor_list(handles)) if keys else c_void_p())
            stream = stack.enter_context(acl.stream())
            size, executor = c_uint64(), c_void_p()
            plan = getattr(opapi, f"{self.function}GetWorkspaceSize")
            self._checked(f"{self.function}GetWorkspaceSize", plan(*arguments, byref(size), byref(executor)))
            workspace = stack.enter_context(acl.memory(size.value))
            launch = getattr(opapi, self.function)
            self._checked(self.function, launch(workspace, size, executor, stream))
            self._wait(stream)
            for array, extent, pointer in written:
                if array.size:
                    # The whole extent, so that changes between the elements of the output are detected.
                    acl.download(extent.data, pointer)
                extent.write_back(array)
        return {name: array for name, array in outputs.items() if array is not None}

    def _handle(
        self,
        parameter: Param,
        array: Array | None,
        stack: ExitStack,
        written: list[tuple[Array, Extent, c_void_p]],
        lead: int,
        is_output: bool,
    ) -> c_void_p:
        """Return the object of the acl interface for an array; add an output to `written`."""
        acl, tensor = runtime(), self.spec.tensor(parameter.of)
        if array is None:
            return c_void_p()
        if parameter.kind == "host_list":
            return stack.enter_context(acl.array("IntArray", self.host_lists[parameter.of]))
        if parameter.kind == "scalar":
            return stack.enter_context(acl.scalars(array, is_list=tensor.scalar == "list"))
        handle, pointer, extent = stack.enter_context(acl.tensor(array, lead, is_in_list=tensor.dynamic))
        if is_output:
            written.append((array, extent, pointer))
        return handle

    def _checked(self, function: str, status: int) -> None:
        if status:
            raise AclnnError(function, status, runtime().message())

    def _wait(self, stream: c_void_p) -> None:
        acl = runtime()
        status = acl.library.aclrtSynchronizeStream(stream)
        if status == 0:
            return
        message = acl.message()
        if findings := findings_of(acl.take_reports()):
            raise FindingsError([self._with_plan(finding) for finding in findings])
        raise AclnnError("aclrtSynchronizeStream", status, message)

    def _with_plan(self, finding: Finding) -> Finding:
        """Add the file of the tiling plan to a finding about the sizes of buffers."""
        if finding.kind not in BUFFER_SIZES:
            return finding
        shared = f"op_proto/{self.spec.source_name}.yaml (tiling.work of the shared plan {self.spec.tiling.plan})"
        return replace(finding, message=f"{finding.message}; plan: {self.spec.own_plan or shared}")

    def _attribute(self, name: str, c_type: str) -> Any:
        attribute = next(attribute for attribute in self.spec.attrs if attribute.name == name)
        value = self.attrs.get(name, attribute.default)
        if value is None:
            place = f"{self.spec.op_type}: attribute {name}"
            raise UserError(f"{place}: got no value, expected {attribute.kind.meaning}; add it")
        if attribute.kind.is_list:
            return attribute.kind.array.removeprefix("acl"), value
        if c_type == SCALAR_TYPE:
            return value
        if c_type in C_INTEGERS:
            converted = C_INTEGERS[c_type](int(value))
            # A uint64_t parameter receives the two's complement of a negative number.
            if int(value) != converted.value and int(value) != ctypes.c_int64(converted.value).value:
                raise UserError(f"{self.spec.op_type}: {name}: got {value}, expected a number that {c_type} can hold")
            return converted
        if c_type == "char *":
            text = value.encode(errors="replace")
            if "\0" in value or text.decode() != value:
                raise UserError(f"{self.spec.op_type}: {name}: got {shown(value)}, expected text without a zero byte")
            return ctypes.c_char_p(text)
        if c_type == "bool":
            return ctypes.c_bool(bool(value))
        try:
            return ctypes.c_double(float(value))
        except OverflowError as error:
            raise UserError(
                f"{self.spec.op_type}: {name}: got {value}, expected a number that double can hold"
            ) from error
