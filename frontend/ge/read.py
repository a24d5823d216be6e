"""Read graphs in GE's format: `.air` files, and text dumps of the same messages by GE and torchair.

An operator of the project becomes its custom node, and an operator of a table becomes a standard node. Each other
operator becomes a node of the domain `ge`, with its type and its attributes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line, shown
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import TensorSpec
from opforge.frontend.ir.attributes import LIST_SIZES, counts_in, list_sizes, make_attribute, names_in
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.limits import parsing

from .messages import GE_DOMAIN, message
from .ports import port_of, tensors_of
from .read_operators import NEUTRAL, OPSET, READERS, Call

MAX_TEXT_BYTES = 1 << 26
_IR_VERSION = 10
_DTYPES = {dtype.air: dtype for dtype in DTYPES.values()}
_LISTS = ("s", "i", "f", "b")


def ge_message(data: bytes, where: str, *, is_text: bool) -> Any:
    """Parse the bytes of an `.air` file, or a text of the same messages, as a ModelDef.

    Raises:
        UserError: They have another format.
    """
    model = message("ModelDef")
    try:
        if is_text:
            text_format.Parse(data.decode(), model, allow_unknown_field=True)
        else:
            with parsing(len(data)):
                model.ParseFromString(data)
    except (DecodeError, MemoryError, RecursionError, UnicodeDecodeError, text_format.ParseError, ValueError) as error:
        kind = "text" if is_text else "bytes"
        raise UserError(
            f"{where}: got {len(data)} bytes that cannot be parsed ({first_line(error)}), expected a graph of GE as"
            f" {kind}; save the graph again"
        ) from error
    if len(model.graph) != 1:
        callers = [op for graph in model.graph for op in graph.op if op.subgraph_name]
        fix = "write another graph"
        if callers:
            caller = f"{shown(callers[0].name)} ({shown(callers[0].type)})"
            fix = f"opforge does not read the subgraphs of node {caller}; export the model to ONNX"
        raise UserError(f"{where}: got {len(model.graph)} graphs, expected 1; {fix}")
    return model


def ge_model(graph: Any, specs: Sequence[OpSpec], where: str) -> ModelProto:
    """Convert a GraphDef to an ONNX model of opset 18.

    Args:
        graph: The message.
        specs: The operators of the project.
        where: Prefix of messages.

    Raises:
        UserError: The graph is inconsistent, or has subgraphs, control dependencies or constants in other files.
    """
    return _GeGraph(graph, specs, where).model()


class _GeGraph:
    """Converts one graph of GE to ONNX."""

    def __init__(self, graph: Any, specs: Sequence[OpSpec], where: str) -> None:
        self._graph, self._where = graph, where
        # ONNX has no nodes without outputs: such an operator is an operator of GE.
        self._specs = {spec.op_type: spec for spec in specs if spec.outputs}
        self._ops: dict[str, Any] = {}
        for op in graph.op:
            if not op.name or op.name in self._ops:
                raise self._error(op, "has a name of another node, or none", "a name for each node")
            self._ops[op.name] = op
        self._names = FreshNames(self._ops)
        # Value names by node and number of the output.
        self._values: dict[tuple[str, int], str] = {(name, 0): name for name in self._ops}
        self._constants: dict[str, TensorProto] = {}
        self._nodes: list[NodeProto] = []
        self._types: list[ValueInfoProto] = []

    def _error(self, op: Any, problem: str, expected: str) -> UserError:
        place = "graph" if op is self._graph else f"node {shown(op.name)} ({shown(op.type)})"
        return UserError(f"{self._where}: {place}: {problem}; expected {expected}")

    def model(self) -> ModelProto:
        """Return the model."""
        ordered = self._ordered()
        inputs = [op for op in ordered if op.type == "Data"]
        numbers = [_attributes(op).get("index") for op in inputs]
        if None not in numbers and len(set(numbers)) == len(numbers):
            inputs.sort(key=lambda op: int(_attributes(op)["index"]))
        for op in ordered:
            if op.type in ("Const", "Constant"):
                self._constants[op.name] = self._constant(op)
            elif op.type not in ("Data", "NetOutput"):
                self._node(op)
        graph_inputs = [self._typed(op, 0) for op in inputs]
        outputs = self._outputs()
        used = {name for node in self._nodes for name in node.input} | {value.name for value in outputs}
        graph = helper.make_graph(
            self._nodes,
            self._graph.name or "graph",
            graph_inputs,
            outputs,
            [tensor for name, tensor in self._constants.items() if name in used],
            value_info=self._types,
        )
        domains = sorted({node.domain for node in self._nodes} - {""})
        opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)

    @cached_property
    def _sources(self) -> dict[str, list[tuple[str, int] | None]]:
        """Return node and number of each input, by node; None for an absent input."""
        return {op.name: [self._source(op, text) for text in op.input] for op in self._graph.op}

    def _source(self, op: Any, text: str) -> tuple[str, int] | None:
        if not text:
            return None
        name, _, number = text.rpartition(":")
        if number == "-1":
            raise self._error(op, f"has a control dependency on {shown(name)}", "data inputs only")
        if name not in self._ops or not (number.isascii() and number.isdecimal() and len(number) < 7):
            raise self._error(op, f"reads {shown(text)}", "a node of the graph and the number of its output")
        if int(number) >= max(len(self._ops[name].output_desc), 1):
            raise self._error(op, f"reads {shown(text)}", f"one of {len(self._ops[name].output_desc)} outputs")
        return name, int(number)

    def _ordered(self) -> list[Any]:
        """Return the nodes in topological order."""
        before = {name: [source[0] for source in sources if source] for name, sources in self._sources.items()}
        try:
            return [self._ops[name] for name in TopologicalSorter(before).static_order()]
        except CycleError as error:
            raise self._error(self._ops[error.args[1][0]], "reads its own result", "a graph without cycles") from error

    def _value(self, source: tuple[str, int] | None) -> str:
        if source is None:
            return ""
        if source not in self._values:
            self._values[source] = self._names.fresh(f"{source[0]}_{source[1]}")
        return self._values[source]

    def _typed(self, op: Any, number: int) -> ValueInfoProto:
        """Return the declared type of an output."""
        if number >= len(op.output_desc) or op.output_desc[number].dtype not in _DTYPES:
            known = ", ".join(_DTYPES[number].ge for number in sorted(_DTYPES))
            raise self._error(op, f"output {number} has no type that ONNX has", f"one of {known}")
        descriptor = op.output_desc[number]
        dims = [None if dim < 0 else dim for dim in descriptor.shape.dim]
        return helper.make_tensor_value_info(
            self._value((op.name, number)),
            ELEMENT_TYPES[_DTYPES[descriptor.dtype].name],
            None if list(descriptor.shape.dim) == [-2] else dims,
        )

    def _constant(self, op: Any) -> TensorProto:
        value = next((entry.value for entry in op.attr if entry.key == "value"), None)
        if value is None or value.WhichOneof("value") != "t":
            raise self._error(op, "has no tensor as the attribute value", "a constant with its data")
        descriptor, dims = value.t.desc, list(value.t.desc.shape.dim)
        dtype = _DTYPES.get(descriptor.dtype)
        if dtype is None or min(dims, default=0) < 0:
            raise self._error(op, "has a constant of an unknown shape or type", "a shape and a type that ONNX has")
        expected = math.prod(dims) * dtype.bytes
        if len(value.t.data) != expected:
            raise self._error(
                op, f"has a constant with {len(value.t.data)} bytes", f"{expected}; dump the graph with its weights"
            )
        return TensorProto(name=op.name, dims=dims, data_type=ELEMENT_TYPES[dtype.name], raw_data=value.t.data)

    def _numbers(self, name: str) -> list[int] | None:
        tensor = self._constants.get(name)
        if tensor is None or tensor.data_type not in (TensorProto.INT32, TensorProto.INT64):
            return None
        kind = "<i4" if tensor.data_type == TensorProto.INT32 else "<i8"
        return [int(number) for number in np.frombuffer(tensor.raw_data, kind)]

    def _list(self, op: Any, numbers: list[int]) -> str:
        name = self._names.fresh(f"{op.name}_list")
        data = np.array(numbers, "<i8").tobytes()
        self._constants[name] = TensorProto(name=name, dims=[len(numbers)], data_type=TensorProto.INT64, raw_data=data)
        return name

    def _node(self, op: Any) -> None:
        if op.subgraph_name:
            raise self._error(op, "has subgraphs", "a graph without subgraphs")
        inputs = [self._value(source) for source in self._sources[op.name]]
        outputs = [self._value((op.name, number)) for number in range(max(len(op.output_desc), 1))]
        spec = self._specs.get(op.type)
        node = self._ours(op, spec, inputs, outputs) if spec is not None else self._standard(op, inputs, outputs)
        if node is None:
            node = self._opaque(op, inputs, outputs)
        node.name = op.name
        self._nodes.append(node)

    def _standard(self, op: Any, inputs: list[str], outputs: list[str]) -> NodeProto | None:
        reader = READERS.get(op.type)
        if reader is None or len(outputs) != 1:
            return None
        names, attrs = _ports(op, "input"), _attributes(op)
        neutral = NEUTRAL.get(op.type, {})
        if len(names) != len(inputs) or any(attrs.get(name, value) != value for name, value in neutral.items()):
            return None
        call = Call(
            dict(zip(names, inputs, strict=True)),
            outputs[0],
            attrs,
            self._numbers,
            lambda numbers: self._list(op, numbers),
        )
        try:
            return reader(call)
        except KeyError:  # another set of ports or attributes
            return None

    def _ours(self, op: Any, spec: OpSpec, inputs: list[str], outputs: list[str]) -> NodeProto:
        given = self._named(op, "input", spec.inputs, inputs)
        results = self._named(op, "output", spec.outputs, outputs)
        counts = counts_in(spec, [*given, *results])
        names = [given.get(name, "") for name in names_in(spec.inputs, counts)]
        kept = [results.get(name, "") for name in names_in(spec.outputs, counts)]
        while kept and not kept[-1]:
            kept.pop()
        node = helper.make_node(spec.op_type, names, kept, domain=OPFORGE_DOMAIN)
        if sizes := list_sizes(spec, counts):
            node.attribute.append(helper.make_attribute(LIST_SIZES, sizes))
        kinds = {attr.ir or attr.name: attr for attr in spec.attrs}
        for entry in op.attr:
            attr = kinds.get(entry.key)
            if attr is None:
                continue
            field, is_list = _field(entry.value)
            is_empty = is_list and not field
            if is_list != attr.kind.is_list or (field != attr.kind.air and not is_empty):
                raise self._error(op, f"attribute {entry.key} has the kind {field or 'none'}", f"{attr.type}")
            value = _python(entry.value)
            node.attribute.append(make_attribute(attr, tuple(value) if is_list else value))
        return node

    def _named(self, op: Any, side: str, tensors: Sequence[TensorSpec], values: list[str]) -> dict[str, str]:
        """Return the values of a custom operator by tensor; those of a list are `x[0]`, `x[1]` and so on."""
        lists = [tensor for tensor in tensors if tensor.dynamic]
        ports = _ports(op, side)
        if (not ports and len(lists) <= 1) or (side == "output" and not lists):  # one list has all further ports
            counts = {tensor.name: max(len(values) - len(tensors) + 1, 0) for tensor in lists}
            ports = [port_of(tensors, name) for name in names_in(tensors, counts)]
        names = tensors_of(tensors, ports)
        if names is None or len(values) > len(names) or len(set(names)) < len(names):
            known = ", ".join(f"{tensor.ir_name}{'0, ...' if tensor.dynamic else ''}" for tensor in tensors)
            got = f"has {len(values)} {side}s: {shown(', '.join(ports))}"
            raise self._error(op, got, f"those of the spec: {known}")
        return dict(zip(names, values, strict=False))

    def _opaque(self, op: Any, inputs: list[str], outputs: list[str]) -> NodeProto:
        """Return a node of the domain of GE, and declare the types of its outputs."""
        node = helper.make_node(op.type, inputs, outputs, domain=GE_DOMAIN)
        for key, value in _attributes(op).items():
            if not key.startswith("_") and value != []:
                node.attribute.append(helper.make_attribute(key, value))
        self._types += [
            self._typed(op, number) for number, descriptor in enumerate(op.output_desc) if descriptor.dtype in _DTYPES
        ]
        return node

    def _outputs(self) -> list[ValueInfoProto]:
        ends = [op for op in self._graph.op if op.type == "NetOutput"]
        if len(ends) > 1:
            raise self._error(ends[1], "is a second NetOutput", "one")
        sources = (
            self._sources[ends[0].name] if ends else [self._source(self._graph, text) for text in self._graph.output]
        )
        outputs = []
        taken = Counter(op.name for op in self._graph.op if op.type in ("Data", "Const", "Constant"))
        for source in sources:
            if source is None:
                continue
            value, typed = self._value(source), self._typed(self._ops[source[0]], source[1])
            if taken[value]:
                # ONNX has one name for each output, which is not an input.
                typed.name = self._names.fresh(f"{value}_output")
                self._nodes.append(helper.make_node("Identity", [value], [typed.name], name=typed.name))
            taken[value] += 1
            outputs.append(typed)
        declared = {value.name for value in outputs}
        self._types = [value for value in self._types if value.name not in declared]
        return outputs


def _field(value: Any) -> tuple[str, bool]:
    """Return the field of an attribute's value or of its items, and whether it is a list."""
    kind = value.WhichOneof("value") or ""
    if kind != "list":
        return kind, False
    return next((field for field in _LISTS if getattr(value.list, field)), ""), True


def _python(value: Any) -> Any:
    """Return the Python value of an attribute; None for messages."""
    field, is_list = _field(value)
    if is_list:
        items = list(getattr(value.list, field)) if field else []
        return [int(item) for item in items] if field == "b" else items
    if field in ("s", "i", "f", "b", "dt"):
        item = getattr(value, field)
        return int(item) if field == "b" else item
    return None


def _attributes(op: Any) -> dict[str, Any]:
    """Return the attributes of an operator that are numbers, texts or lists of them."""
    values = {entry.key: _python(entry.value) for entry in op.attr}
    return {key: value for key, value in values.items() if value is not None}


def _ports(op: Any, side: str) -> list[str]:
    """Return the names of the ports, in their order; empty if the operator has none."""
    attrs = _attributes(op)
    keys, numbers = attrs.get(f"_{side}_name_key"), attrs.get(f"_{side}_name_value")
    if keys and numbers and len(keys) == len(numbers) and sorted(numbers) == list(range(len(keys))):
        return [name.decode(errors="replace") for _, name in sorted(zip(numbers, keys, strict=True))]
    names = [descriptor.name for descriptor in getattr(op, f"{side}_desc")]
    return names if all(names) and len(set(names)) == len(names) else []
