"""The JSON files of a vendor folder: the form of each, and the only place where they are read."""

from __future__ import annotations

import reprlib
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

Texts = dict[str, str]


class Manifest(BaseModel):
    """What opforge packed: types of the operators, those that CANN also has, first and last CANN, SHA-256 by path."""

    operators: list[str]
    builtin_op_types: list[str] = []
    cann: tuple[str, str] | None = None
    files: Texts


class Built(BaseModel):
    """What a toolkit built: its version, SHA-256 by path."""

    toolkit: str
    files: Texts


class Binary(BaseModel):
    """One compiled kernel: its files below `kernel`."""

    binPath: str = ""  # noqa: N815  # the name in the file
    jsonPath: str = ""  # noqa: N815


class Binaries(BaseModel):
    """The compiled kernels of one operator."""

    binaryList: list[Binary] = []  # noqa: N815


OpsInfo = dict[str, dict[str, Texts]]
MANIFEST_FORM: TypeAdapter[Any] = TypeAdapter(Manifest)
BUILT_FORM: TypeAdapter[Any] = TypeAdapter(Built)
OPS_INFO_FORM: TypeAdapter[Any] = TypeAdapter(Annotated[OpsInfo, Field(min_length=1)])
BINARIES_FORM: TypeAdapter[Any] = TypeAdapter(dict[str, Binaries])


class Document(NamedTuple):
    """A file: its value, None when it has another form; then what it is instead, as `got ..., expected ...`."""

    value: Any
    problem: str


def read_document(path: Path, form: TypeAdapter[Any]) -> Document:
    """Read a file that may be anything; what could block its reader, like a pipe, is not opened."""
    try:
        if not path.is_file():
            return Document(None, "got a folder, a device or a link to nothing, expected a file")
        return Document(form.validate_json(path.read_bytes(), strict=True), "")
    except OSError as error:
        return Document(None, f"got '{error.strerror}', expected a file that this user may read")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{part!r}]" for part in first["loc"])
        return Document(None, f"got {reprlib.repr(first['input'])}{place and ' at ' + place}, expected: {first['msg']}")
