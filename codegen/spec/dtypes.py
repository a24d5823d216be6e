"""The element types and storage formats of tensors, under the names that each consumer of a spec gives them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: The word of specs, NumPy and ml_dtypes.
        ge: Enumerator of ge::DataType.
        number: Its number, equal in ge::DataType, aclDataType and opforge::DataType.
        kernel: The C++ type in kernels.
        plan: Enumerator of opforge::DataType.
    """

    name: str
    ge: str
    number: int
    kernel: str
    plan: str


_ALL = (
    DType("float32", "DT_FLOAT", 0, "float", "kFloat32"),
    DType("float16", "DT_FLOAT16", 1, "half", "kFloat16"),
    DType("int8", "DT_INT8", 2, "int8_t", "kInt8"),
    DType("int32", "DT_INT32", 3, "int32_t", "kInt32"),
    DType("uint8", "DT_UINT8", 4, "uint8_t", "kUint8"),
    DType("int16", "DT_INT16", 6, "int16_t", "kInt16"),
    DType("uint16", "DT_UINT16", 7, "uint16_t", "kUint16"),
    DType("uint32", "DT_UINT32", 8, "uint32_t", "kUint32"),
    DType("int64", "DT_INT64", 9, "int64_t", "kInt64"),
    DType("uint64", "DT_UINT64", 10, "uint64_t", "kUint64"),
    DType("float64", "DT_DOUBLE", 11, "double", "kDouble"),
    DType("bool", "DT_BOOL", 12, "bool", "kBool"),
    DType("bfloat16", "DT_BF16", 27, "bfloat16_t", "kBfloat16"),
)

DTYPES = {dtype.name: dtype for dtype in _ALL}

# Storage formats that a spec may name: number in ge::Format, equal in aclFormat and opforge::Format.
FORMATS = {
    "NCHW": 0,
    "NHWC": 1,
    "ND": 2,
    "NC1HWC0": 3,
    "FRACTAL_Z": 4,
    "HWCN": 16,
    "NDHWC": 27,
    "FRACTAL_NZ": 29,
    "NCDHW": 30,
    "NCL": 47,
}
# Those in which the elements of a tensor lie in the order of its dimensions.
PUBLIC_FORMATS = ("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NCL")
# In their place: a tensor whose format nobody looks at.
ANY_FORMAT = "any"
