"""Build the messages of GE's IR from a table of field numbers.

`.air` files contain them as bytes, dumps as text. The numbers are facts of the interface `ge.proto`; the messages are
created at their first use, so that no generated file and no protobuf compiler is needed.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from opforge.codegen.data.dtypes import CANN_DTYPES, DTYPES

# The domain of ONNX nodes with an operator of GE.
GE_DOMAIN = "ge"
_PACKAGE = "ge.proto"
# Message -> field -> (number, type, repeated); a type with a capital is another message.
_FIELDS = MappingProxyType(
    {
        "ModelDef": {"name": (1, "string", 0), "version": (2, "uint32", 0), "graph": (7, "GraphDef", 1)},
        "GraphDef": {
            "name": (1, "string", 0),
            "input": (4, "string", 1),
            "output": (5, "string", 1),
            "op": (6, "OpDef", 1),
        },
        "OpDef": {
            "name": (1, "string", 0),
            "type": (2, "string", 0),
            "input": (5, "string", 1),
            "attr": (10, "Attr", 1),
            "input_desc": (33, "TensorDescriptor", 1),
            "output_desc": (34, "TensorDescriptor", 1),
            "subgraph_name": (35, "string", 1),
        },
        "TensorDescriptor": {
            "name": (1, "string", 0),
            "dtype": (2, "DataType", 0),
            "shape": (3, "ShapeDef", 0),
            "layout": (4, "string", 0),
        },
        "ShapeDef": {"dim": (1, "int64", 1)},
        "TensorDef": {"desc": (1, "TensorDescriptor", 0), "data": (2, "bytes", 0)},
        # An entry of a map is a message with these two fields.
        "Attr": {"key": (1, "string", 0), "value": (2, "AttrDef", 0)},
        "AttrDef": {
            "list": (1, "ListValue", 0),
            "s": (2, "bytes", 0),
            "i": (3, "int64", 0),
            "f": (4, "float", 0),
            "b": (5, "bool", 0),
            "t": (12, "TensorDef", 0),
            "dt": (15, "int64", 0),
        },
        "ListValue": {
            "s": (2, "bytes", 1),
            "i": (3, "int64", 1),
            "f": (4, "float", 1),
            "b": (5, "bool", 1),
            "val_type": (20, "ListValueType", 0),
        },
    }
)
# Numbers of element types: of the messages, and of the C++ interface, which attributes use.
PROTO_TYPES = MappingProxyType({dtype.name: dtype.air for dtype in DTYPES.values()})
CPP_TYPES = MappingProxyType({dtype.name: dtype.number for dtype in DTYPES.values()})
# Enumerations, with the names in dumps.
_ENUMS = MappingProxyType(
    {
        "DataType": {"DT_UNDEFINED": 0} | {dtype.ge: dtype.air for dtype in CANN_DTYPES if dtype.air},
        "ListValueType": {
            f"VT_LIST_{name}": number
            for number, name in enumerate(
                ("NONE", "STRING", "INT", "FLOAT", "BOOL", "BYTES", "TENSOR_DESC", "TENSOR", "GRAPH", "NAMED_ATTRS")
            )
        }
        | {"VT_LIST_DATA_TYPE": 10},
    }
)
# Kinds of the elements of a list; a list without a kind is dropped when it is read.
LIST_KINDS = MappingProxyType({"s": 1, "i": 2, "f": 3, "b": 4})


@lru_cache(maxsize=1)
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="opforge_ge_ir.proto", package=_PACKAGE, syntax="proto3")
    for enum, values in _ENUMS.items():
        enumerators = file.enum_type.add(name=enum).value
        for name, number in values.items():
            enumerators.add(name=name, number=number)
    for message, fields in _FIELDS.items():
        descriptor = file.message_type.add(name=message)
        if message == "AttrDef":
            descriptor.oneof_decl.add(name="value")
        for name, (number, kind, repeated) in fields.items():
            field = descriptor.field.add(name=name, number=number, label=3 if repeated else 1)
            if kind in _FIELDS:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            elif kind in _ENUMS:
                field.type, field.type_name = field.TYPE_ENUM, f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
            if message == "AttrDef":
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}


def message(kind: str, /, **fields: Any) -> Any:
    """Return a new message of one of the kinds of the table."""
    return _classes()[kind](**fields)
