"""Define the types of attributes: one row each, with its spelling in every generated language and file."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

# The type of an attribute that an aclnn function has as a scalar object.
SCALAR_TYPE = "const aclScalar *"
AttrValue: TypeAlias = bool | int | float | str | tuple[bool | int | float | str, ...]


@dataclass(frozen=True)
class AttrKind:
    """A type of attributes.

    Attributes:
        name: Its name in specs.
        types: The Python types of a value, or of an item of a list.
        meaning: A value in messages.
        c_types: Its types in aclnn functions; the first is the usual one. Empty: OpDef and aclnn do not have the type.
        cpp: Its type in plans and checks.
        ge: Its name in REG_OP and OpDef.
        getter: Its getter in gert::RuntimeAttrs.
        torch: Its type in schemas of PyTorch.
        torchair: Its type in `torchair.ge.attr`.
        cann: Its word in the files of a package.
        air: The field of its value or items in the messages of the graph IR.
        onnx: The name of its type in onnx.AttributeProto.
        plugin: Its getter in opforge::OnnxNode.
        item: The type of the items of a list; empty: the type is no list.
        array: The aclnn structure of a list.
    """

    name: str
    types: tuple[type, ...]
    meaning: str
    c_types: tuple[str, ...]
    cpp: str
    ge: str
    getter: str
    torch: str
    torchair: str
    cann: str
    air: str
    onnx: str
    plugin: str
    item: str = ""
    array: str = ""

    @property
    def is_list(self) -> bool:
        """Return whether a value is a list."""
        return bool(self.item)

    def accepts(self, value: object) -> bool:
        """Return whether a Python value has the type."""
        if self.is_list:
            return isinstance(value, list | tuple) and all(ATTR_KINDS[self.item].accepts(one) for one in value)
        return isinstance(value, self.types) and isinstance(value, bool) == (self.name == "bool")


def _list_of(item: AttrKind, array: str, getter: str, onnx: str, plugin: str) -> AttrKind:
    return AttrKind(
        f"list_{item.name}",
        item.types,
        f"a list, each item {item.meaning}",
        (f"const {array} *",) if array else (),
        f"std::vector<{item.cpp}>",
        f"List{item.ge}",
        getter,
        f"{item.torch}[]",
        f"List{item.torchair}",
        f"list{item.ge}",
        item.air,
        onnx,
        plugin,
        item.name,
        array,
    )


_INTS = ("int64_t", "int8_t", "int32_t", "uint64_t", SCALAR_TYPE)
_INT = AttrKind(
    "int", (int,), "an integer", _INTS, "int64_t", "Int", "GetInt", "int", "Int", "int", "i", "INT", "GetInt"
)
_FLOAT = AttrKind(
    "float", (int, float), "a number", ("double", "float", SCALAR_TYPE), "float", "Float", "GetFloat", "float", "Float",
    "float", "f", "FLOAT", "GetFloat",
)  # fmt: skip
# ONNX has no bool; bools are stored as integers.
_BOOL = AttrKind(
    "bool",
    (bool,),
    "True or False",
    ("bool", SCALAR_TYPE),
    "bool",
    "Bool",
    "GetBool",
    "bool",
    "Bool",
    "bool",
    "b",
    "INT",
    "GetInt",
)
_STRING = AttrKind(
    "string", (str,), "a string", ("char *",), "const char*", "String", "GetStr", "str", "Str", "str", "s", "STRING",
    "GetString",
)  # fmt: skip
# OpDef and aclnn have no lists of strings: only REG_OP declares them. Aclnn functions have no lists of lists.
ATTR_KINDS: Mapping[str, AttrKind] = {
    kind.name: kind
    for kind in (
        _INT,
        _FLOAT,
        _BOOL,
        _STRING,
        _list_of(_INT, "aclIntArray", "GetListInt", "INTS", "GetInts"),
        _list_of(_FLOAT, "aclFloatArray", "GetListFloat", "FLOATS", "GetFloats"),
        _list_of(_BOOL, "aclBoolArray", "GetAttrPointer<gert::TypedContinuousVector<bool>>", "INTS", "GetInts"),
        _list_of(_STRING, "", "", "STRINGS", ""),
    )
}


def is_float32(value: float) -> bool:
    """Return whether a number has a value in 32 bits other than 0 and infinity, or is 0."""
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return False
    return value == 0 or narrow != 0
