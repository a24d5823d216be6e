"""Compare the declared and the actual size of the data of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TensorProto

from opforge.codegen.printing import shown

from .reason import Reason

_MAX_ELEMENTS = 1 << 60
# Bits of one element, by TensorProto.DataType; strings have no fixed size.
BITS: Mapping[int, int] = {
    **dict.fromkeys((TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1), 4),
    **dict.fromkeys((TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8), 8),
    **dict.fromkeys((TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ), 8),
    **dict.fromkeys((TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ), 8),
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT16, TensorProto.UINT16), 16),
    **dict.fromkeys((TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT32), 32),
    **dict.fromkeys((TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64, TensorProto.COMPLEX64), 64),
    TensorProto.COMPLEX128: 128,
}
# Field of the elements if they are not raw; the other types of 8 to 32 bits are in int32_data.
_FIELDS: Mapping[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
    **dict.fromkeys((TensorProto.INT32, TensorProto.INT16, TensorProto.INT8), "int32_data"),
    **dict.fromkeys((TensorProto.UINT16, TensorProto.UINT8, TensorProto.BOOL), "int32_data"),
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16), "int32_data"),
}


def element_count(tensor: TensorProto) -> int | None:
    """Return the number of elements by the dims; None if a dim is negative or the number exceeds any file."""
    if any(dim < 0 for dim in tensor.dims):
        return None
    if 0 in tensor.dims:
        return 0
    count = 1
    for dim in tensor.dims:
        count *= dim
        if count > _MAX_ELEMENTS:
            return None
    return count


def data_problem(tensor: TensorProto) -> Reason | None:
    """Return why a tensor is malformed: "got .., expected .."; None if it is not. External data is not read."""
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_type == TensorProto.UNDEFINED:
        return Reason(f"got element type {tensor.data_type}, expected one that ONNX defines")
    count = element_count(tensor)
    if count is None:
        return Reason(f"got dims {shown(list(tensor.dims[:9]))}, expected sizes of at least 0 that fit a file")
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    if tensor.HasField("raw_data"):
        bits, found = BITS.get(tensor.data_type), len(tensor.raw_data)
        needed = found if bits is None else (count * bits + 7) // 8
        return _difference(tensor, found, needed, "bytes")
    field = _FIELDS.get(tensor.data_type)
    return None if field is None else _difference(tensor, len(getattr(tensor, field)), count, "elements")


def _difference(tensor: TensorProto, found: int, needed: int, unit: str) -> Reason | None:
    dims = shown(list(tensor.dims[:9]))
    return None if found == needed else Reason(f"got {found} {unit} for dims {dims}, expected {needed} {unit}")
