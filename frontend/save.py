"""Writes models, with the files that hold their external data."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.frontend.external import carry_external_data, locations
from opforge.frontend.files import require_writable, write_file


def write_model(data: bytes, model: ModelProto, source: Path, target: Path) -> None:
    """Write a serialized model; its external files go along when the target is in another folder than the source.

    Raises:
        UserError: Something cannot be written; neither the model nor new external files are left behind.
    """
    external = locations(model)
    require_writable(target, [source, *(source.parent / location for location in external)], "model")
    moves = bool(external) and not target.parent.samefile(source.parent)
    if moves and target in {target.parent / location for location in external}:
        raise UserError(f"{target}: is also the name of the model's external data; choose another name")
    new: list[Path] = []
    try:
        if moves:
            new = carry_external_data(model, source.parent, target.parent)
        write_file(target, lambda file: file.write(data), "model")
    except BaseException as error:
        for path in new:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(f"{target}: cannot write the external data: {error}; nothing was changed") from error
        raise
