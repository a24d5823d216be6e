"""Reads model files. A file is hostile until proven otherwise: every mistake is one `UserError`, nothing hangs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from opforge.codegen.errors import UserError
from opforge.frontend.external import check_external_data
from opforge.frontend.files import open_regular

# protobuf cannot hold more in one message.
_MAX_MODEL_BYTES = 2**31 - 1


@dataclass(frozen=True)
class SourceModel:
    """A model as it came from a file.

    Attributes:
        path: The file.
        data: Its bytes.
        model: The same, parsed; external data stays external.
    """

    path: Path
    data: bytes
    model: onnx.ModelProto


def parse_model(data: bytes, where: object) -> onnx.ModelProto:
    """Parse a serialized ONNX model; `where` stands in front of messages.

    Raises:
        UserError: The bytes are empty, cut off, or something else than an ONNX model.
    """
    if not data:
        raise UserError(f"{where}: the file is empty; expected an ONNX model")
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise UserError(
            f"{where}: {len(data)} bytes that do not parse as an ONNX model (not protobuf, cut off, or nested too"
            " deeply); expected a file as onnx.save writes it; export or copy it again"
        ) from error
    if not model.HasField("graph"):
        raise UserError(f"{where}: the protobuf message has no graph; expected an ONNX model, not another kind of file")
    if not model.HasField("ir_version"):
        raise UserError(f"{where}: the model has no ir_version; expected an ONNX model with ir_version 3 or later")
    return model


def load_model(path: Path) -> SourceModel:
    """Read a model file; its external data is checked for existence, place and size, but not read.

    Raises:
        UserError: The file or its external data is unusable.
    """
    with open_regular(path, "model") as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MAX_MODEL_BYTES:
            raise UserError(
                f"{path}: the model has {size} bytes, expected at most {_MAX_MODEL_BYTES}; save it with external data"
            )
        data = file.read(_MAX_MODEL_BYTES + 1)
    model = parse_model(data, path)
    check_external_data(model, path)
    return SourceModel(path, data, model)
