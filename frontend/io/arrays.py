"""Read and write arrays of model inputs and outputs: npz files without pickle, with bfloat16.

numpy's file format has no bfloat16. An output of that type is stored as its bit patterns in uint16; as input, uint16
and a 2-byte void array, which `numpy.savez` writes for `ml_dtypes.bfloat16`, are read as bit patterns:
`loaded["y"].view(ml_dtypes.bfloat16)` gives the numbers.
"""

from __future__ import annotations

import difflib
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, file_size, open_regular
from opforge.codegen.printing import first_line, path_text, shown
from opforge.frontend.ir.tensor_type import value_type
from opforge.frontend.limits import claimed, failed_allocation, limits_for

Array = NDArray[np.generic]
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Prefix of numpy files.
_ZIP, _NPY = b"PK", b"\x93NUMPY"
_SUFFIX = ".npy"
_ENCRYPTED = 1  # in the flags of a member
_PIECE_BYTES = 1 << 20
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# Supported kinds: numbers, texts, and the 2-byte void of bfloat16.
_KINDS = "biufcSUV"
# Errors of zipfile, zlib and numpy for a damaged file.
_DAMAGES = (
    *(ValueError, TypeError, LookupError, ArithmeticError, OSError, EOFError, MemoryError, RuntimeError, SyntaxError),
    *(SystemError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)
# Types with another name in numpy or ml_dtypes than in the spec language.
_OTHER_NAMES = {"string": "object"}


@dataclass(frozen=True)
class InputType:
    """The declaration of one input in a model.

    Attributes:
        dtype: numpy dtype; None if the model does not declare it.
        dims: Size, name or None per dim; None if the rank is not declared.
        optional: Whether an initializer is the default.
    """

    dtype: np.dtype[np.generic] | None
    dims: tuple[int | str | None, ...] | None
    optional: bool

    def __str__(self) -> str:
        shape = "any shape" if self.dims is None else f"[{', '.join('?' if d is None else str(d) for d in self.dims)}]"
        return f"{self.dtype or 'any dtype'} {shape}"


def numpy_dtype(word: str) -> np.dtype[np.generic] | None:
    """Return the numpy dtype of a dtype word; None for a type without arrays."""
    scalar = getattr(ml_dtypes, word, None)
    try:
        return np.dtype(scalar or _OTHER_NAMES.get(word, word))
    except TypeError:
        return None


def input_types(model: ModelProto) -> dict[str, InputType]:
    """Return the inputs of a model in order."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        known = value_type(value.type)
        dims: tuple[int | str | None, ...] | None = None
        if known.shape is not None:
            names = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
            dims = tuple(
                size if size is not None else name or None for size, name in zip(known.shape, names, strict=True)
            )
        found[value.name] = InputType(numpy_dtype(known.dtype) if known.dtype else None, dims, value.name in defaults)
    return found


def check_inputs(arrays: Mapping[str, Array], types: Mapping[str, InputType], where: object) -> dict[str, Array]:
    """Check arrays against the model's inputs; bfloat16 bit patterns become bfloat16.

    Raises:
        UserError: An array is missing, unknown, or has another dtype or shape; the message lists every problem.
    """
    problems = []
    for name in arrays:
        if name not in types:
            close = difflib.get_close_matches(name, types, 1)
            hint = f"; did you mean {shown(close[0])}?" if close else ""
            expected = ", ".join(map(shown, types)) or "none"
            problems.append(f"{where}: {shown(name)} is not an input of the model, expected {expected}{hint}")
    checked: dict[str, Array] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for name, expected_type in types.items():
        if name not in arrays:
            if not expected_type.optional:
                problems.append(f"{where}: input {shown(name)} is missing, expected {expected_type}")
            continue
        array = np.asarray(arrays[name])
        if expected_type.dtype == _BFLOAT16 and array.dtype in (np.dtype(np.uint16), np.dtype("V2")):
            array = array.view(_BFLOAT16)
        problem = _mismatch(array, expected_type, sizes, name)
        if problem:
            problems.append(f"{where}: input {shown(name)} has {array.dtype} {list(array.shape)}, {problem}")
        checked[name] = array
    if problems:
        raise UserError("\n".join(problems))
    return checked


def _mismatch(array: Array, expected: InputType, sizes: dict[str, tuple[int, str]], name: str) -> str:
    if expected.dtype is not None and array.dtype != expected.dtype:
        return f"expected {expected}; convert it with .astype"
    if expected.dims is None:
        return ""
    if len(expected.dims) != array.ndim:
        return f"expected {expected}; correct the array"
    for dim, size in zip(expected.dims, array.shape, strict=True):
        if isinstance(dim, int) and dim != size:
            return f"expected {expected}; correct the array"
        if isinstance(dim, str):
            first, owner = sizes.setdefault(dim, (size, name))
            if first != size:
                return f"expected {expected}, where {dim} is {first} in {shown(owner)}; correct one of the arrays"
    return ""


def load_arrays(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """Read arrays from an npz file; no code in it is executed, and memory use is limited by its content.

    Args:
        path: The file.
        names: Inputs of the model; arrays with other names are listed but not read.

    Raises:
        UserError: The file is not an npz file, or an array is damaged or contains Python objects.
    """
    wanted = set(names)
    with open_regular(path, "inputs") as file:
        try:
            with zipfile.ZipFile(_archive(file)) as archive:
                found = _members(archive)
                return {
                    name: _array(archive, member) if name in wanted else np.empty(0) for name, member in found.items()
                }
        except _DAMAGES as error:
            raise UserError(
                f"{path_text(path)}: cannot read the inputs: {_reason(error)}, expected an .npz file; write it with"
                " numpy.savez"
            ) from error


def load_within(path: Path, names: Iterable[str]) -> dict[str, Array]:
    """As `load_arrays`, within the limits of the file."""
    with claimed(path_text(path), limits_for(file_size(path, "inputs"), is_run=True)):
        return load_arrays(path, names)


def _archive(file: BinaryIO) -> BinaryIO:
    """Return the file if it begins like an archive; zipfile also accepts archives after other content."""
    beginning = file.read(len(_NPY))
    if beginning == _NPY:
        raise ValueError("got a single array, expected one array per input in an archive")
    if not beginning.startswith(_ZIP):
        raise ValueError("got other data than an archive of arrays")
    file.seek(0)
    return file


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by the names of their arrays."""
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(_SUFFIX)
        if name == member.filename:
            raise ValueError(f"member {shown(name)}: expected a name that ends with {_SUFFIX}")
        if name in found:
            raise ValueError(f"member {shown(member.filename)}: is in the archive twice")
        found[name] = member
    return found


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    place = f"member {shown(member.filename)}"
    if member.flag_bits & _ENCRYPTED:
        raise ValueError(f"{place}: is encrypted, expected a plain member")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{place}: got compression {member.compress_type}, expected none or deflate")
    try:
        with archive.open(member) as file:
            shape, is_fortran, dtype = _header(file)
            data = bytearray()
            # Read in pieces, so that sizes in the header or the archive do not determine allocations.
            while piece := file.read(_PIECE_BYTES):
                data += piece
        if len(data) != (needed := prod(shape) * dtype.itemsize):
            dims = shown(list(shape[:9]))
            raise ValueError(f"got {len(data)} bytes, expected {shown(needed)} for {dtype} with dims {dims}")
        return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")
    except _DAMAGES as error:
        raise ValueError(f"{place}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return failed_allocation(error) if isinstance(error, MemoryError) else first_line(error)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"got version {version[0]}.{version[1]} of numpy's format, expected 1.0 or 2.0")
    with warnings.catch_warnings():
        # numpy warns of headers written by Python 2.
        warnings.simplefilter("ignore")
        shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError("it contains Python objects, expected numbers")
    if dtype.kind not in _KINDS or dtype.fields or dtype.subdtype or not dtype.itemsize:
        raise ValueError(f"got {shown(str(dtype))}, expected an array of numbers")
    if min(shape, default=0) < 0:
        raise ValueError(f"got dims {shown(list(shape[:9]))}, expected sizes of at least 0")
    return shape, is_fortran, dtype


def arrays_file(path: Path, arrays: Mapping[str, Array]) -> NewFile:
    """Return an npz file with arrays under exactly their names."""

    def fill(file: BinaryIO) -> None:
        # numpy.savez passes names as Python keywords, and "file" is one of its parameters.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, array in arrays.items():
                plain = _plain(name, array)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(plain, order="C"), allow_pickle=False)

    return NewFile(path, fill, "outputs")


def _plain(name: str, array: Array) -> Array:
    """Return an array of a type of numpy's file format."""
    if array.dtype == _BFLOAT16:
        return array.view(np.uint16)
    if not array.dtype.hasobject:
        return array
    if not all(isinstance(value, str) for value in array.flat):
        raise UserError(f"output {shown(name)}: is not a tensor, expected numbers or strings; omit --outputs")
    return array.astype(str)
