"""Define the element types and storage formats of tensors, with their names in each output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Dtypes, storage formats and products.
TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("tables.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class DType:
    """One element type. A spec may name those that have a name in plans.

    Attributes:
        name: The name in specs, NumPy and ml_dtypes.
        number: Its number, equal in ge::DataType, aclDataType and opforge::DataType.
        bytes: Bytes of an element; -1 if they are not a whole number.
        ge: Enumerator of ge::DataType.
        kernel: The C++ type in kernels.
        plan: Enumerator of opforge::DataType.
        air: Its number in the messages of `.air` files.
        onnx: Its number in onnx.TensorProto and onnxruntime; 0: unknown to the library for onnxruntime.
        ops_info: Its name in the ops-info files of CANN, if it differs.
        short: Its short names on command lines and in figures, the preferred one first.
    """

    name: str
    number: int
    bytes: int
    ge: str
    kernel: str = ""
    plan: str = ""
    air: int = 0
    onnx: int = 0
    ops_info: str = ""
    short: tuple[str, ...] = ()


@dataclass(frozen=True)
class StorageFormat:
    """One storage format that a spec may name.

    Attributes:
        name: Its name in specs.
        number: Its number, equal in ge::Format, aclFormat and opforge::Format.
        plan: Enumerator of opforge::Format.
        is_public: Whether the elements of a tensor are in the order of its dimensions.
    """

    name: str
    number: int
    plan: str
    is_public: bool = False


CANN_DTYPES = tuple(DType(**{**row, "short": tuple(row.get("short", ()))}) for row in TABLES["dtypes"])
DTYPES = {dtype.name: dtype for dtype in CANN_DTYPES if dtype.plan}
# Dtypes that are valid only in dtype combinations, and their enumerators of ge::DataType.
DECLARED_DTYPES: dict[str, str] = {dtype.name: dtype.ge for dtype in CANN_DTYPES} | TABLES["declared_dtypes"]
SHORT_DTYPES = {short: dtype.name for dtype in CANN_DTYPES for short in dtype.short}
STORAGE_FORMATS = tuple(StorageFormat(**row) for row in TABLES["formats"])
FORMATS = {entry.name: entry.number for entry in STORAGE_FORMATS}
PUBLIC_FORMATS = tuple(entry.name for entry in STORAGE_FORMATS if entry.is_public)
# Replaces a format: the format of the tensor is not checked.
ANY_FORMAT = "any"
