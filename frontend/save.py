"""Writes models, with the files that hold their external data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.frontend.external import carry_external_data, locations
from opforge.frontend.files import NewFile, require_writable, write_files
from opforge.frontend.names import first_line, path_text


def data_files(model: ModelProto, *folders: Path) -> list[Path]:
    """The external files of a model as they are called in these folders."""
    return [folder / location for folder in folders for location in locations(model)]


def require_targets(model: ModelProto, source: Path, targets: Sequence[tuple[Path, str]]) -> None:
    """Check that files may be written beside a model: the result first, then what is written with it.

    Args:
        model: The model.
        source: File that it came from.
        targets: Each with its name in messages ("model", "report").

    Raises:
        UserError: One cannot be written, or is the model, its external data, or another of them.
    """
    used = [source, *data_files(model, source.parent, *(path.parent for path, what in targets[:1]))]
    for target, what in targets:
        require_writable(target, used, what)
        used.append(target)


def write_model(data: bytes, model: ModelProto, source: Path, target: Path, *others: NewFile) -> None:
    """Write a serialized model; its external files go along when the target is in another folder than the source.

    Args:
        data: The bytes of the model.
        model: The same, parsed.
        source: File that the model came from.
        target: File that it goes to.
        others: Files that are written with it, or not at all.

    Raises:
        UserError: Something cannot be written; neither the model nor new external files are left behind.
    """
    require_targets(model, source, [(target, "model"), *((other.target, other.what) for other in others)])
    new: list[Path] = []
    try:
        if not target.parent.samefile(source.parent):
            new = carry_external_data(model, source.parent, target.parent)
        write_files([NewFile(target, lambda file: file.write(data), "model"), *others])
    except BaseException as error:
        for path in new:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(
                f"{path_text(target)}: cannot write the external data: {first_line(error)}; nothing was changed"
            ) from error
        raise
