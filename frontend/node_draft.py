"""Read one node of a model as a draft of a spec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from onnx import AttributeProto, GraphProto, NodeProto

from opforge.codegen.data.names import suggest
from opforge.codegen.errors import UserError
from opforge.codegen.importers.draft import REQUIRED, AttrDraft, Note, OperatorDraft, TensorDraft
from opforge.codegen.printing import path_text, shown

from .ir.tensor_type import DTYPE_WORDS, ValueType, value_type
from .sources import load_source

_TYPES = {
    AttributeProto.INT: "int",
    AttributeProto.FLOAT: "float",
    AttributeProto.STRING: "string",
    AttributeProto.INTS: "list_int",
    AttributeProto.FLOATS: "list_float",
    AttributeProto.STRINGS: "list_string",
}


def node_draft(path: Path, name: str) -> OperatorDraft:
    """Return a draft of the operator of a node.

    Args:
        path: The model.
        name: The name of the node, or the type of the only node with it.

    Raises:
        UserError: The model cannot be read, or the node is ambiguous.
    """
    graph = load_source(path).model.graph
    node = _node(graph, name, path)
    types = {value.name: value_type(value.type) for value in (*graph.input, *graph.output, *graph.value_info)}
    for tensor in graph.initializer:
        types[tensor.name] = ValueType(DTYPE_WORDS.get(tensor.data_type), tuple(tensor.dims))
    notes = [Note(0, f"input {index} is absent in the node") for index, one in enumerate(node.input) if not one]
    attrs = []
    for attribute in node.attribute:
        if (kind := _TYPES.get(attribute.type)) is None:
            notes.append(Note(0, f"attribute {attribute.name}: its type is not one of int, float, string and lists"))
        else:
            value = None if kind.startswith("list_") else f"{_value(attribute)!r:.80}"
            notes += [Note(0, f"attribute {attribute.name}: the node has the value {value}")] if value else []
            attrs.append(AttrDraft(_word(attribute.name, "attr"), kind))
    taken: set[str] = set()
    inputs = _tensors(node.input, types, "x", taken)
    outputs = _tensors(node.output, types, "y", taken)
    place = f"{path_text(path)}:0"
    op_type = re.sub(r"[^A-Za-z0-9]", "", node.op_type)
    op_type = op_type[:1].upper() + op_type[1:]
    summary = f"{node.domain or 'ai.onnx'}::{node.op_type} of a model."
    return OperatorDraft(
        op_type, place, "ONNX node", inputs, outputs, tuple(attrs), summary=summary, notes=tuple(notes)
    )


def _node(graph: GraphProto, name: str, path: Path) -> NodeProto:
    named = [node for node in graph.node if node.name == name]
    found = named or [node for node in graph.node if node.op_type == name]
    if len(found) == 1:
        return found[0]
    known = [node.name for node in graph.node if node.name]
    problem = f"got {len(found)} nodes with the name or type {shown(name)}, expected one"
    hint = suggest(name, known) if not found else f"the names are {', '.join(shown(n.name) for n in found[:8])}"
    raise UserError(f"--node: {problem}; {hint}", path_text(path))


def _tensors(
    names: Sequence[str], types: dict[str, ValueType], letter: str, taken: set[str]
) -> tuple[TensorDraft, ...]:
    """Return the tensors of a node; names of values are names of parameters if they are short."""
    tensors = []
    for index, name in enumerate(names, 1):
        if not name:
            continue
        word = _word(name, f"{letter}{index}")
        word = f"{letter}{index}" if word in taken else word
        taken.add(word)
        known = types.get(name, ValueType())
        rank = None if known.shape is None or len(known.shape) > 8 else (len(known.shape),) * 2
        tensors.append(TensorDraft(word, REQUIRED, (known.dtype,) if known.dtype else (), ranks=rank))
    return tuple(tensors)


def _word(name: str, other: str) -> str:
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name) and len(name) <= 32 else other


def _value(attribute: AttributeProto) -> object:
    if attribute.type == AttributeProto.STRING:
        return attribute.s.decode("utf-8", "replace")
    return attribute.i if attribute.type == AttributeProto.INT else attribute.f
