"""Read model files. A file may be malicious: each error is one `UserError`, and nothing hangs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text, shown
from opforge.frontend.ir.external import check_external_data
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.limits import allow_more, parsed_bytes, parsing

# onnx cannot look up operators of a later one.
_MAX_VERSION = 2**31 - 1
# Maximum size of a protobuf message.
MAX_MODEL_BYTES = 2**31 - 1


@dataclass(frozen=True)
class SourceModel:
    """A model read from a file.

    Attributes:
        path: The file.
        data: Its bytes.
        model: The parsed model; external data stays external.
        external: Size of each file with external data, by its path in the model's folder.
        ge: The message ModelDef if the file is in GE's format.
    """

    path: Path
    data: bytes
    model: ModelProto
    external: Mapping[str, int] = field(default_factory=dict)
    ge: Any = None

    @cached_property
    def view(self) -> GraphView:
        """Return its index, for code that does not change the model."""
        return GraphView(self.model, path_text(self.path))

    @property
    def files(self) -> list[Path]:
        """Return the file of the model, and those of its external data."""
        return [self.path, *(self.path.parent / location for location in self.external)]

    @property
    def size(self) -> int:
        """Return bytes of the model and of its external data."""
        return len(self.data) + sum(self.external.values())


def parse_model(data: bytes, where: object) -> ModelProto:
    """Parse a serialized ONNX model; `where` is the prefix of messages.

    Raises:
        UserError: The bytes are empty, incomplete, or not an ONNX model.
    """
    if not data:
        raise UserError(f"{where}: got an empty file, expected an ONNX model; export or copy it again")
    try:
        with parsing(len(data)):
            model = ModelProto.FromString(data)
    except (DecodeError, MemoryError) as error:
        if isinstance(error, MemoryError) or "alloc failed" in str(error):
            raise UserError(
                f"{where}: the messages in its {len(data)} bytes need far more memory than those of exported models; if"
                f" the model is correct, {allow_more(parsed_bytes(len(data)))}"
            ) from error
        raise UserError(
            f"{where}: {len(data)} bytes that do not parse as an ONNX model (not protobuf, cut off, or nested too"
            " deeply); expected a file as onnx.save writes it; export or copy it again"
        ) from error
    if not model.HasField("graph"):
        raise UserError(f"{where}: the protobuf message has no graph; expected an ONNX model, not another kind of file")
    check_versions(model, where)
    return model


def check_versions(model: ModelProto, where: object) -> None:
    """Check that a model states the versions of the format and of its operator sets.

    Raises:
        UserError: A version is missing or less than 1, as in an incomplete file.
    """
    if model.ir_version < 1:
        got = f"ir_version {model.ir_version}" if model.HasField("ir_version") else "no ir_version"
        raise UserError(f"{where}: the model has {got}, expected one from 1; export or copy it again")
    if not model.opset_import:
        raise UserError(
            f"{where}: the model imports no operator set, expected at least one; the file may be cut off, export or"
            " copy it again"
        )
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        for entry in imports:
            if not 1 <= entry.version <= _MAX_VERSION:
                raise UserError(
                    f"{where}: the model imports version {entry.version} of {shown(entry.domain or 'ai.onnx')},"
                    " expected one from 1; export or copy it again"
                )


def load_model(path: Path) -> SourceModel:
    """Read a model file; check existence, path and size of its external data without reading it.

    Raises:
        UserError: The file or its external data is unusable.
    """
    data = read_regular(path, "model", MAX_MODEL_BYTES, "save it with external data")
    model = parse_model(data, path_text(path))
    # Checking each tensor is slow for many nodes; external data has an entry with this name.
    external = check_external_data(model, path) if b"location" in data else {}
    return SourceModel(path, data, model, external)
