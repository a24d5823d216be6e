"""Read a model from a file of any kind that commands accept."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text

from .io.load import MAX_MODEL_BYTES, SourceModel, check_versions, load_model
from .io.save import serialized
from .ir.graph import GraphView
from .limits import claimed, limits_for
from .state import Loaded, Request

# Suffixes of files in GE's format, and whether they are text.
GE_SUFFIXES = {".air": False, ".pbtxt": True, ".txt": True}


def load(request: Request) -> Loaded:
    """Read and index a model."""
    given = request.model
    if isinstance(given, ModelProto):
        check_versions(given, "model")
        return Loaded(request.options, GraphView(given), None)
    source = given if isinstance(given, SourceModel) else load_model(Path(given))
    return Loaded(request.options, source.view, source.path.parent)


def path_of(given: Path | SourceModel) -> Path:
    """Return the path of a model."""
    return given.path if isinstance(given, SourceModel) else given


def load_source(path: Path | SourceModel) -> SourceModel:
    """Read an ONNX model, or a graph of GE as an ONNX model; a model that was read before is returned.

    Raises:
        UserError: The file or its external data is unusable.
    """
    if isinstance(path, SourceModel):
        return path
    if path.suffix not in GE_SUFFIXES:
        return load_model(path)
    from .ge.read import MAX_TEXT_BYTES, ge_message, ge_model
    from .operators import project_specs

    is_text, where = GE_SUFFIXES[path.suffix], path_text(path)
    most = MAX_TEXT_BYTES if is_text else MAX_MODEL_BYTES
    data = read_regular(path, "graph", most, "write it as .air" if is_text else "convert its model as .onnx")
    with claimed(where, limits_for(len(data))):
        message = ge_message(data, where, is_text=is_text)
        model = ge_model(message.graph[0], project_specs(), where)
        return SourceModel(path, serialized(model, where), model, ge=message)
