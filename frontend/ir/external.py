"""Read external tensor data.

Only the model's folder may contain it: a location outside the folder, by `..`, an absolute path or a link, is rejected,
and everything except regular files. `onnx.load` also rejects linked data files, so a copy is never a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from opforge.codegen.errors import UserError
from opforge.codegen.files import open_inside
from opforge.codegen.printing import path_text, shown

from .tensor_data import BITS, element_count


@dataclass(frozen=True)
class ExternalData:
    """The place of one tensor's data.

    Attributes:
        location: Path relative to the model's folder.
        offset: First byte.
        length: Bytes; None means up to the end of the file.
    """

    location: str
    offset: int
    length: int | None


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor of a model: initializers and attributes, also in subgraphs and functions."""
    for graph in (model.graph, *(g for info in model.training_info for g in (info.initialization, info.algorithm))):
        yield from _graph_tensors(graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _graph_tensors(attribute.g)
            for graph in attribute.graphs:
                yield from _graph_tensors(graph)


def is_external(tensor: TensorProto) -> bool:
    """Return whether the data of a tensor is in a separate file."""
    return tensor.data_location == TensorProto.EXTERNAL


def external_data(tensor: TensorProto, where: str) -> ExternalData:
    """Read the entries of an external tensor.

    Raises:
        UserError: The location is missing, a number is invalid, or an entry is repeated.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if len(entries) < len(tensor.external_data):
        raise UserError(f"{where}: external data has an entry twice, expected each once")
    numbers = {}
    for key in ("offset", "length"):
        text = entries.get(key)
        if text is not None and not (isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 20):
            raise UserError(f"{where}: external data has {key} {shown(text)}, expected a number of bytes from 0")
        numbers[key] = None if text is None else int(text)
    location = entries.get("location")
    # protobuf returns bytes if a string is not UTF-8.
    if not location or not isinstance(location, str):
        got = "no location" if not location else f"the location {shown(location)}, which is not UTF-8 text"
        raise UserError(f"{where}: external data has {got}, expected a file name in the model's folder")
    return ExternalData(location, numbers["offset"] or 0, numbers["length"])


def check_external_data(model: ModelProto, path: Path) -> dict[str, int]:
    """Check, without reading it, that all external data of the model at `path` is complete and inside its folder.

    Returns:
        Size of each file with external data, by location.

    Raises:
        UserError: A file is missing, too short, outside the folder, or not a regular file.
    """
    sizes: dict[str, int] = {}
    for tensor in tensors_of(model):
        if not is_external(tensor):
            continue
        where = f"{path_text(path)}: tensor {shown(tensor.name)}"
        data = external_data(tensor, where)
        if data.location not in sizes:
            with open_external(path.parent, data.location, where) as file:
                sizes[data.location] = os.fstat(file.fileno()).st_size
        _check_extent(tensor, data, sizes[data.location], where)
    return sizes


def open_external(folder: Path, location: str, where: str) -> BinaryIO:
    """Open an external file; later checks use its descriptor, so a changed path has no effect."""
    relative = PurePosixPath(location)
    place = f"{where}: external data {shown(location)}"
    is_plain = not relative.is_absolute() and ".." not in relative.parts and relative.parts
    if not is_plain or "\0" in location or "\\" in location:
        raise UserError(f"{place} is outside the model's folder; expected a relative path without '..'")
    try:
        file = open_inside(folder, location)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{place} cannot be read from {path_text(folder)}; expected a file beside the model; copy it there"
        ) from error
    if file is None:
        raise UserError(f"{place} is a link or not a regular file; expected a regular file in the model's folder")
    return file


def _check_extent(tensor: TensorProto, data: ExternalData, size: int, where: str) -> None:
    bits, count = BITS.get(tensor.data_type), element_count(tensor)
    if bits is None or count is None:
        dims = shown(list(tensor.dims[:9]))
        raise UserError(
            f"{where}: external data has data type {tensor.data_type} and dims {dims};"
            " expected a type of fixed size and dims of at least 0; export the model again"
        )
    needed = (count * bits + 7) // 8
    length = size - data.offset if data.length is None else data.length
    if data.offset + length > size or length < needed:
        raise UserError(
            f"{where}: external data {shown(data.location)} has {size} bytes; the tensor needs {needed} bytes"
            f" at {data.offset} and declares {'the rest' if data.length is None else data.length}; the file is cut off"
        )


def read_external(tensor: TensorProto, folder: Path) -> bytes:
    """Return the raw bytes of one external tensor, exactly as many as its shape needs.

    Raises:
        UserError: As `check_external_data`.
    """
    where = f"tensor {shown(tensor.name)}"
    data = external_data(tensor, where)
    with open_external(folder, data.location, where) as file:
        _check_extent(tensor, data, os.fstat(file.fileno()).st_size, where)
        file.seek(data.offset)
        return file.read((prod(tensor.dims) * BITS[tensor.data_type] + 7) // 8)


def with_data(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """Return a tensor with its data: itself, or a copy that read it from `folder`.

    Raises:
        UserError: As `check_external_data`, or there is no folder.
    """
    if not is_external(tensor):
        return tensor
    if folder is None:
        raise UserError("model: has external data; load it with onnx.load, or pass the path of its file")
    return TensorProto(
        name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=read_external(tensor, folder)
    )


def locations(model: ModelProto) -> list[str]:
    """Return the external files of a model, without duplicates, in order of appearance."""
    places = (external_data(tensor, shown(tensor.name)).location for tensor in tensors_of(model) if is_external(tensor))
    return list(dict.fromkeys(places))
