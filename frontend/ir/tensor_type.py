"""Define the type of a value: element type and shape, if they are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx import TensorProto, TypeProto

from .reason import Reason

_LONG_NAMES = {"float": "float32", "double": "float64"}
DTYPE_WORDS: Mapping[int, str] = {
    number: _LONG_NAMES.get(name.lower(), name.lower()) for name, number in TensorProto.DataType.items() if number
}
ELEMENT_TYPES: Mapping[str, int] = {word: number for number, word in DTYPE_WORDS.items()}


@dataclass(frozen=True)
class ValueType:
    """The known type of a tensor.

    Attributes:
        dtype: Name in the spec language ("float16"); None if unknown.
        shape: Dims, None for each unknown one; None if the rank is unknown.
    """

    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None

    @property
    def complete(self) -> bool:
        """Return whether element type and rank are known."""
        return self.dtype is not None and self.shape is not None

    def or_else(self, other: ValueType) -> ValueType:
        """Return this type, with unknown parts from the other one."""
        if self.dtype is None and self.shape is None:
            return other
        return (
            self
            if self.complete
            else ValueType(self.dtype or other.dtype, other.shape if self.shape is None else self.shape)
        )

    def __str__(self) -> str:
        dims = "of unknown rank" if self.shape is None else f"[{', '.join(map(_dim_text, self.shape))}]"
        return f"{self.dtype or 'unknown type'} {dims}"


def _dim_text(dim: int | None) -> str:
    return "?" if dim is None else str(dim)


def value_type(proto: TypeProto) -> ValueType:
    """Read a declared type; other types than tensors are unknown."""
    if not proto.HasField("tensor_type"):
        return ValueType()
    tensor = proto.tensor_type
    shape = None
    if tensor.HasField("shape"):
        # Some exporters write a negative size for "unknown".
        shape = tuple(
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
        )
    return ValueType(DTYPE_WORDS.get(tensor.elem_type), shape)


def type_problem(proto: TypeProto) -> Reason | None:
    """Return why a declared type is not a tensor type: "got .., expected .."; None if it is one."""
    kind = proto.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        return Reason(f"got a {kind.removesuffix('_type').replace('_', ' ')}, expected a tensor")
    if (number := proto.tensor_type.elem_type) and number not in DTYPE_WORDS:
        return Reason(f"got element type {number}, expected one that ONNX defines")
    return None
