"""Read one node of a model as a draft of a spec."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorShapeProto, TypeProto, helper

from opforge.codegen.data.names import suggest
from opforge.codegen.errors import UserError
from opforge.codegen.importers.draft import (
    NODE,
    OPTIONAL,
    REQUIRED,
    AttrDraft,
    Dim,
    Note,
    OperatorDraft,
    Shape,
    TensorDraft,
)
from opforge.codegen.printing import path_text, shown

from .ge.messages import GE_DOMAIN
from .io.load import SourceModel
from .ir.op_names import NPU_DOMAIN, OPFORGE_DOMAIN
from .ir.tensor_type import ValueType, value_type
from .sources import load_source

Types = ChainMap[str, TypeProto]
_MOST_ITEMS = 16

_TYPES = {
    AttributeProto.INT: "int",
    AttributeProto.FLOAT: "float",
    AttributeProto.STRING: "string",
    AttributeProto.INTS: "list_int",
    AttributeProto.FLOATS: "list_float",
    AttributeProto.STRINGS: "list_string",
}


def node_draft(model: Path | SourceModel, name: str) -> OperatorDraft:
    """Return a draft of the operator of a node.

    Args:
        model: The model.
        name: The name of the node, or its type or an output, if no other node has it.

    Raises:
        UserError: The model cannot be read, the node is ambiguous, or no spec can describe it.
    """
    source = load_source(model)
    path = source.path
    node, types = _node(source.model, name, path)
    notes: list[Note] = []
    attrs = _attributes(node, path, notes)
    taken = {attr.name for attr in attrs}
    inputs = _tensors(node.input, types, "input", taken, notes)
    outputs = _tensors(node.output, types, "output", taken, notes)
    if not (inputs or outputs or attrs):
        got = f"got a node {shown(node.op_type)} without inputs, outputs and attributes"
        raise UserError(f"--node: {got}, expected one of them at least; import another node", path_text(path))
    op_type = re.sub(r"[^A-Za-z0-9]", "", node.op_type)
    op_type = op_type[:1].upper() + op_type[1:]
    return OperatorDraft(
        op_type,
        f"{path_text(path)}: node {shown(node.name or node.op_type)}",
        NODE,
        inputs,
        outputs,
        attrs,
        summary=f"{node.domain or 'ai.onnx'}::{node.op_type} of a model.",
        shapes=tuple(_shapes(node, types)),
        notes=tuple(notes),
        aliases=_aliases(node, op_type, notes),
    )


def _aliases(node: NodeProto, op_type: str, notes: list[Note]) -> tuple[str, ...]:
    """Return the name of the node, if `convert` does not map it by the name of the operator."""
    own = f"{node.domain}::{node.op_type}"
    if node.domain in {"", "ai.onnx", GE_DOMAIN} or own in {
        f"{OPFORGE_DOMAIN}::{op_type}",
        f"{NPU_DOMAIN}::NPU{op_type}",
    }:
        return ()
    if re.fullmatch(r"[a-z][\w.]*::[A-Z]\w*", own, re.ASCII) and len(own) <= 160:
        return (own,)
    notes.append(Note(0, f"the name {shown(own)}: a spec has aliases such as 'com.example::ScaledSum' only"))
    return ()


def _attributes(node: NodeProto, path: Path, notes: list[Note]) -> tuple[AttrDraft, ...]:
    """Return the attributes; a note has the value of each one in the model."""
    attrs: dict[str, AttrDraft] = {}
    for attribute in node.attribute:
        if attribute.name in attrs:
            got = f"got the attribute {shown(attribute.name)} again, expected each attribute once"
            raise UserError(f"--node: {got}; correct the model", path_text(path))
        if (kind := _TYPES.get(attribute.type)) is None:
            got = AttributeProto.AttributeType.Name(attribute.type).lower()
            notes.append(Note(0, f"attribute {attribute.name}: got {got}, expected {', '.join(_TYPES.values())}"))
            continue
        notes.append(Note(0, f"attribute {attribute.name}: the node has the value {_value(attribute)!r:.80}"))
        words = chain((_word(attribute.name, ""),), (f"attr{number}" for number in count(len(attrs) + 1)))
        word = next(word for word in words if word and word not in {attr.name for attr in attrs.values()})
        if word != attribute.name:
            notes.append(Note(0, f"attribute {attribute.name}: the spec has the name {word}"))
        attrs[attribute.name] = AttrDraft(word, kind)
    return tuple(attrs.values())


def _nodes(model: ModelProto) -> Iterator[tuple[NodeProto, Types]]:
    """Yield the nodes of the graph, of its inner graphs and of functions, with the types of their values."""
    graphs: list[tuple[GraphProto | FunctionProto, Types]] = [(model.graph, ChainMap())]
    graphs += [(function, ChainMap()) for function in model.functions]
    while graphs:
        graph, outer = graphs.pop(0)
        types = outer.new_child({value.name: value.type for value in graph.value_info})
        if isinstance(graph, GraphProto):
            types |= {
                tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                for tensor in graph.initializer
            }
            types |= {value.name: value.type for value in (*graph.input, *graph.output)}
        for node in graph.node:
            yield node, types
            inner = [one for attribute in node.attribute for one in (attribute.g, *attribute.graphs) if one.node]
            graphs += [(one, types) for one in inner]


def _node(model: ModelProto, name: str, path: Path) -> tuple[NodeProto, Types]:
    every = list(_nodes(model))
    properties: list[Callable[[NodeProto], Sequence[str]]] = [
        lambda node: [node.name], lambda node: [node.op_type], lambda node: node.output,
    ]  # fmt: skip
    groups = ([one for one in every if name and name in names_of(one[0])] for names_of in properties)
    found = next(filter(None, groups), [])
    if len(found) == 1:
        return found[0]
    if found:
        outputs = ", ".join(shown(node.output[0]) for node, _ in found[:8] if node.output)
        problem = f"got {len(found)} nodes with the name or type {shown(name)}, expected one; name an output: {outputs}"
    else:
        known = {known for node, _ in every for known in (node.name or node.op_type,)}
        problem = f"got no node with the name, type or output {shown(name)}; {suggest(name, known)}"
    raise UserError(f"--node: {problem}", path_text(path))


def _tensors(
    names: Sequence[str], types: Types, side: str, taken: set[str], notes: list[Note]
) -> tuple[TensorDraft, ...]:
    """Return the tensors of a node; names of values are names of parameters if they are short.

    An absent tensor before another one is optional, because the position of a tensor is its meaning.
    """
    letter = "x" if side == "input" else "y"
    tensors = []
    last = max((index for index, name in enumerate(names, 1) if name), default=0)
    for index, name in enumerate(names[:last], 1):
        usual = f"{letter}{index}"
        words = chain((_word(name, usual), usual), (f"{usual}_{number}" for number in count(2)))
        word = next(word for word in words if word not in taken)
        taken.add(word)
        if not name:
            notes.append(Note(0, f"{side} {word} is absent in the node; the draft has an optional {side}"))
            tensors.append(TensorDraft(word, OPTIONAL))
            continue
        declared = types.get(name)
        if declared is not None and not declared.HasField("tensor_type"):
            kind = declared.WhichOneof("value") or "no type"
            notes.append(Note(0, f"{side} {word}: the model has {kind.removesuffix('_type')}, the draft has a tensor"))
        known = ValueType() if declared is None else value_type(declared)
        rank = None if known.shape is None or len(known.shape) > 8 else (len(known.shape),) * 2
        tensors.append(TensorDraft(word, REQUIRED, (known.dtype,) if known.dtype else (), ranks=rank))
    return tuple(tensors)


def _shapes(node: NodeProto, types: Types) -> Iterator[tuple[int, Shape]]:
    """Yield the shapes of outputs that the model states: that of an input, or dimensions of inputs and numbers."""
    inputs = [_dims(types, name) for name in node.input]
    known = [
        (number, axis, dim) for number, dims in enumerate(inputs) for axis, dim in enumerate(dims or ()) if dim != ""
    ]
    for number, name in enumerate(node.output):
        dims = _dims(types, name)
        if dims is None or "" in dims:
            continue
        if dims in inputs:
            yield number, inputs.index(dims)
            continue
        found: list[Dim] = []
        for at, dim in enumerate(dims):
            equal = [(source, axis) for source, axis, other in known if other == dim]
            source = next((one for one in equal if one[1] == at), equal[0] if equal else None)
            found += [("dim", *source)] if source else [dim] if isinstance(dim, int) else []
        if len(found) == len(dims):
            yield number, tuple(found)


def _dims(types: Types, name: str) -> list[int | str] | None:
    """Return the sizes and symbols of a value, "" for unknown ones; None if its rank is unknown."""
    tensor = types[name].tensor_type if name in types else None
    return [_dim(dim) for dim in tensor.shape.dim] if tensor is not None and tensor.HasField("shape") else None


def _dim(dim: TensorShapeProto.Dimension) -> int | str:
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param


def _word(name: str, other: str) -> str:
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name) and len(name) <= 32 else other


def _value(attribute: AttributeProto) -> object:
    value = helper.get_attribute_value(attribute)
    items = list(value)[:_MOST_ITEMS] if isinstance(value, Iterable) and not isinstance(value, bytes) else value
    if isinstance(items, list):
        return [_text(item) for item in items]
    return _text(items)


def _text(item: object) -> object:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item
