"""Write models with their external data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import EncodeError
from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, require_writable, write_files
from opforge.codegen.printing import first_line, path_text

from .external import carry_external_data, locations, tensors_of
from .load import MAX_MODEL_BYTES, SourceModel


def require_targets(
    source: SourceModel, targets: Sequence[tuple[Path, str]], *inputs: Path, carried: bool = False
) -> None:
    """Check that files may be written beside a model.

    Args:
        source: The model.
        targets: Each with its name in messages ("model", "report").
        inputs: Other files that are read.
        carried: Whether the external data is to go along with the first one.

    Raises:
        UserError: One cannot be written, or is the model, its external data, an input, or another of them.
    """
    folders = [source.path.parent, *(path.parent for path, _ in targets[:1] if carried)]
    used = [source.path, *inputs, *(folder / location for folder in folders for location in source.external)]
    for target, what in targets:
        require_writable(target, used, what)
        used.append(target)


def serialized(model: ModelProto, where: str) -> bytes:
    """Return the bytes of a model; `where` is the prefix of messages.

    Raises:
        UserError: It is larger than protobuf allows.
        EncodeError: There is not enough memory.
    """
    try:
        return model.SerializeToString()
    except EncodeError as error:
        # protobuf does not say which of the two it is.
        size = sum(len(tensor.raw_data) for tensor in tensors_of(model))
        if size < MAX_MODEL_BYTES:
            raise
        raise UserError(
            f"{where}: the result has {size} bytes of constants, expected at most {MAX_MODEL_BYTES} bytes in all; save"
            " the model with external data"
        ) from error


def write_model(data: bytes, model: ModelProto, source: SourceModel, target: Path, *others: NewFile) -> None:
    """Write a serialized model; its external files go along when the target is in another folder than the source.

    Args:
        data: The bytes of the model.
        model: The same, parsed.
        source: What it was made from.
        target: File that it goes to.
        others: Files that are written with it, or not at all.

    Raises:
        UserError: Something cannot be written; neither the model nor new external files are left behind.
    """
    targets = [(target, "model"), *((other.target, other.what) for other in others)]
    require_targets(source, targets, carried=True)
    new: list[Path] = []
    try:
        if source.external and not target.parent.samefile(source.path.parent):
            new = carry_external_data(locations(model), source.path.parent, target.parent)
        write_files([NewFile(target, lambda file: file.write(data), "model"), *others])
    except BaseException as error:
        for path in new:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UserError(
                f"{path_text(target)}: cannot write the external data: {first_line(error)}; nothing was changed"
            ) from error
        raise
