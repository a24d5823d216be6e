"""Import onnx's messages without the rest of onnx, whose import is slow.

The classes are those of the package, whoever loads them first: protobuf keeps one for each message.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = ["AttributeProto", "FunctionProto", "GraphProto", "ModelProto", "NodeProto", "TensorProto"]


def _messages() -> Any:
    package = None if "onnx" in sys.modules else find_spec("onnx")
    if package is not None and package.origin is not None:
        path = Path(package.origin).with_name("onnx_ml_pb2.py")
        generated = spec_from_file_location("opforge.frontend.onnx_ml_pb2", path) if path.is_file() else None
        if generated is not None and generated.loader is not None:
            module = module_from_spec(generated)
            generated.loader.exec_module(module)
            return module
    import onnx

    return onnx


if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
else:
    _found = _messages()
    AttributeProto, FunctionProto, GraphProto = _found.AttributeProto, _found.FunctionProto, _found.GraphProto
    ModelProto, NodeProto, TensorProto = _found.ModelProto, _found.NodeProto, _found.TensorProto
