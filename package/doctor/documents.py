"""Read the JSON files of a vendor folder and check their form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, StringConstraints, TypeAdapter

from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.untrusted import MOST_JSON_BYTES, FormError, parse_json
from opforge.package.manifest import MOST_PATH_BYTES, SAFE_PATH

Texts = dict[str, str]
# A path outside the folder would make a reader open an unrelated file.
RelativePath = Annotated[str, StringConstraints(pattern=SAFE_PATH, max_length=MOST_PATH_BYTES)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Files = dict[RelativePath, Sha256]


class Manifest(BaseModel):
    """The properties of a package: operator types, those also in CANN, first and last CANN version, SHA-256 by path.

    Attributes:
        undocumented: The devices with kernels that the CANN document does not list, by operator type.
    """

    operators: list[str]
    builtin_op_types: list[str] = []
    undocumented: dict[str, list[str]] = {}
    cann: tuple[str, str] | None = None
    files: Files


class PackedManifest(BaseModel):
    """A manifest as `opforge pack` writes it, with the fields in the order of `package.info`."""

    vendor: str
    version: str
    note: str
    release: str
    cann: tuple[str, str]
    operators: list[str]
    socs: list[str]
    builtin_op_types: list[str]
    builtin_aclnn: list[str]
    files: dict[str, str]


class Built(BaseModel):
    """The results of a toolkit build: the toolkit version, SHA-256 by path."""

    toolkit: str
    files: Files


class Binary(BaseModel):
    """One compiled kernel: its files below `kernel`."""

    binPath: RelativePath | Annotated[str, Field(max_length=0)] = ""
    jsonPath: RelativePath | Annotated[str, Field(max_length=0)] = ""


class Binaries(BaseModel):
    """The compiled kernels of one operator."""

    binaryList: list[Binary] = []


OpsInfo = dict[str, dict[str, Texts]]
MANIFEST_FORM: TypeAdapter[Any] = TypeAdapter(Manifest)
PACKED_FORM: TypeAdapter[Any] = TypeAdapter(PackedManifest)
BUILT_FORM: TypeAdapter[Any] = TypeAdapter(Built)
OPS_INFO_FORM: TypeAdapter[Any] = TypeAdapter(Annotated[OpsInfo, Field(min_length=1)])
BINARIES_FORM: TypeAdapter[Any] = TypeAdapter(dict[str, Binaries])


class Document(NamedTuple):
    """A file: its value (None if the form is wrong), and the problem as `got ..., expected ...`."""

    value: Any
    problem: str


def read_document(path: Path, form: TypeAdapter[Any]) -> Document:
    """Read an untrusted file. A file that could block the reader, such as a pipe, is not opened."""
    try:
        return Document(parse_json(read_regular(path, "file", MOST_JSON_BYTES, "make it smaller"), form), "")
    except FormError as error:
        return Document(None, str(error))
    except UserError as error:
        return Document(None, error.problem)
