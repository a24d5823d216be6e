"""Write a converted model and its reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from opforge.codegen.files import NewFile, write_files
from opforge.codegen.printing import path_text

from .conversion import Conversion
from .io.load import SourceModel
from .io.save import serialized, write_model


@dataclass(frozen=True)
class Output:
    """Input of save.

    Attributes:
        source: The model as it was read.
        conversion: The converted model.
        target: Its file.
        differs: Whether the verification failed, so that only the reports are written.
        reports: Returns the other files for a model of that many bytes; None if it is not written.
    """

    source: SourceModel
    conversion: Conversion
    target: Path
    differs: bool
    reports: Callable[[int | None], Sequence[NewFile]]


def save(output: Output) -> Output:
    """Write all files, or none of them.

    Raises:
        UserError: A file cannot be written.
    """
    source, model = output.source, output.conversion.model
    if output.differs:
        write_files(output.reports(None))
        return output
    where, carried = path_text(source.path), model
    if output.target.suffix == ".air":
        from .ge.write import air_model

        data = air_model(model, source.path.parent, where, source.ge)
        carried = ModelProto()  # an .air file holds all its data
    else:
        data = serialized(model, where) if output.conversion.changed else source.data
    write_model(data, carried, source, output.target, *output.reports(len(data)))
    return output
