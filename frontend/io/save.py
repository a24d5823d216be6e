"""Write models with their external data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import disk_usage
from typing import BinaryIO

from google.protobuf.message import EncodeError
from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, require_writable, stream, write_files
from opforge.codegen.printing import first_line, path_text
from opforge.codegen.progress import progress
from opforge.frontend.ir.external import locations, open_external, tensors_of

from .load import MAX_MODEL_BYTES, SourceModel

_CHUNK_BYTES = 1 << 24
_PERMISSIONS = 0o777


def require_targets(
    source: SourceModel, targets: Sequence[tuple[Path, str]], *inputs: Path, carried: bool = False
) -> None:
    """Check that files next to a model can be written.

    Args:
        source: The model.
        targets: Each with its name in messages ("model", "report").
        inputs: Other files that are read.
        carried: Whether the external data is copied with the first one.

    Raises:
        UserError: One cannot be written, or it is the model, its external data, an input, or another target.
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
        # protobuf does not distinguish the two reasons.
        size = sum(len(tensor.raw_data) for tensor in tensors_of(model))
        if size < MAX_MODEL_BYTES:
            raise
        raise UserError(
            f"{where}: the result has {size} bytes of constants, expected at most {MAX_MODEL_BYTES} bytes in all; save"
            " the model with external data"
        ) from error


def write_model(data: bytes, model: ModelProto, source: SourceModel, target: Path, *others: NewFile) -> None:
    """Write a serialized model; copy its external files if the target is in another folder than the source.

    Args:
        data: The bytes of the model.
        model: The parsed model.
        source: The source of the conversion.
        target: File to write.
        others: Files that are written together with it, or not at all.

    Raises:
        UserError: A file cannot be written; neither the model nor new external files remain.
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


def carry_external_data(files: Iterable[str], source: Path, target: Path) -> list[Path]:
    """Stream external files of a model from folder `source` to folder `target`; return the new files.

    An existing file is kept if it has the same bytes.

    Raises:
        UserError: A different file of that name exists.
    """
    new: list[Path] = []
    try:
        for location in files:
            new += _carry(source, target, location)
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise
    return new


def _carry(source_folder: Path, target_folder: Path, location: str) -> list[Path]:
    target = target_folder / location
    place = path_text(target)
    # A link in the target folder could redirect the copy outside of it.
    if target.parent.resolve() != (target_folder.resolve() / location).parent:
        raise UserError(
            f"{place}: is behind a link, expected a plain folder for the model's external data; choose another folder"
        )
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise UserError(
            f"{place}: is a link or not a regular file, expected a place for the model's external data; remove it"
        )
    with open_external(source_folder, location, path_text(target)) as reader:
        if target.exists():
            if not _same_bytes(reader, target):
                raise UserError(
                    f"{place}: contains other data than {path_text(source_folder / location)}, which replaces it;"
                    " choose another folder"
                )
            return []
        target.parent.mkdir(parents=True, exist_ok=True)
        found = os.fstat(reader.fileno())
        size, free = found.st_size, disk_usage(target.parent).free
        if size > free:
            raise UserError(
                f"{place}: needs {size} bytes for the model's external data, {free} are free; free some space"
            )
        with progress(f"copying {target.name}", size) as advance:

            def fill(writer: BinaryIO) -> None:
                stream(reader.fileno(), writer.fileno(), advance)

            write_files([NewFile(target, fill, "external data", found.st_mode & _PERMISSIONS)])
    return [target]


def _same_bytes(first: BinaryIO, path: Path) -> bool:
    if path.stat().st_size != os.fstat(first.fileno()).st_size:
        return False
    with path.open("rb") as second, progress(f"comparing {path.name}", path.stat().st_size) as advance:
        while chunk := first.read(_CHUNK_BYTES):
            if chunk != second.read(_CHUNK_BYTES):
                return False
            advance(first.tell())
    return True
