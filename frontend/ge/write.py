"""Write GE IR files (`.air`) of graphs with custom operators and standard operators of a table.

ATC reads them with `--framework=1`; no ONNX plugin takes part, so names, types and absent inputs arrive exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.ir.attributes import counts_in, named_inputs, named_outputs, names_in, read_attributes
from opforge.frontend.ir.constants import Constant, Constants
from opforge.frontend.ir.external import with_data
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.op_names import onnx_keys
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import INITIALIZER, INPUT, Scope, normal_domain
from opforge.frontend.ir.tensor_data import data_problem
from opforge.frontend.ir.tensor_type import ValueType
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.operators import project_specs

from .messages import GE_DOMAIN, LIST_KINDS, PROTO_TYPES, message
from .ports import port_of, tensors_of
from .write_operators import SPELLINGS, Attributes, Facts, Spelled


def air_model(model: ModelProto, folder: Path | None = None, where: object = "model", source: Any = None) -> bytes:
    """Return the bytes of an `.air` file for a converted model, including external data of the model in `folder`.

    Args:
        model: The model.
        folder: Its folder.
        where: Prefix of messages.
        source: The message ModelDef from which the model was read; the result keeps its other content.

    Raises:
        UserError: The model has subgraphs, or a node that is neither a custom node nor in the table of standard ones.
    """
    try:
        return _Writer(model, folder, source).write()
    except Unmatched as reason:
        raise UserError(f"{where}: cannot be written as .air: {reason}") from reason


class _Writer:
    """Writes one graph."""

    def __init__(self, model: ModelProto, folder: Path | None, source: Any) -> None:
        specs = project_specs()
        self._view = GraphView(model)
        self._types = ValueTypes(self._view, specs)
        self._constants = Constants(self._types, folder)
        self._folder = folder
        self._specs = {(key.domain, key.op_type): spec for spec in specs for key in onnx_keys(spec)}
        # GE does not detect two nodes with one name: readers of one node get the output of the other.
        counts = Counter(node.name for node in model.graph.node)
        self._unique = {name for name, count in counts.items() if name and count == 1}
        self._names = FreshNames(counts)
        self._model = message("ModelDef", version=1, graph=[message("GraphDef")])
        if source is not None:
            self._model.CopyFrom(source)
        self._graph = self._model.graph[0]
        # Operators of GE that are written unchanged, by name.
        self._kept = {op.name: deepcopy(op) for op in self._graph.op}
        for field in ("op", "input", "output"):
            self._graph.ClearField(field)
        self._graph.name = self._model.name = model.graph.name or "opforge"
        # `node:index` by value name.
        self._places: dict[str, str] = {}
        self._values = FreshNames(self._main.makers)
        # Lists that are attributes in ONNX and constants in GE.
        self._lists: dict[str, NDArray[np.int64]] = {}

    @property
    def _main(self) -> Scope:
        return self._view.main

    def write(self) -> bytes:
        if len([scope for scope in self._view.scopes if scope.function is None]) > 1:
            raise Unmatched("the model has subgraphs, expected none; write it as .onnx")
        for index, value in enumerate(self._inputs()):
            self._data(value, index)
        for number, node in enumerate(self._main.body.node):
            self._node(node, number)
        self._outputs()
        data: bytes = self._model.SerializeToString(deterministic=True)
        return data

    def _inputs(self) -> list[str]:
        body = self._view.model.graph
        return [value.name for value in body.input if self._main.makers[value.name] == INPUT]

    def _layout(self, name: str) -> str:
        """Return the storage format that an input or constant has in the graph that was read."""
        kept = self._kept.get(name)
        if kept is None or kept.type not in {"Data", "Const", "Constant"} or not kept.output_desc:
            return "ND"
        layout: str = kept.output_desc[0].layout
        return layout or "ND"

    def _descriptor(self, known: ValueType, what: str, port: str, layout: str = "ND") -> Any:
        if known.dtype is None or known.dtype not in PROTO_TYPES:
            raise Unmatched(f"{what} has {known}, expected one of {', '.join(PROTO_TYPES)}; declare its type")
        # An unknown rank is a single -2, an unknown dim -1.
        dims = [-2] if known.shape is None else [-1 if dim is None else dim for dim in known.shape]
        return message(
            "TensorDescriptor",
            name=port,
            dtype=PROTO_TYPES[known.dtype],
            layout=layout,
            shape=message("ShapeDef", dim=dims),
        )

    def _data(self, name: str, index: int) -> None:
        node = self._names.fresh(name)
        known = self._types.of(self._main, name)
        inputs, outputs = ([self._descriptor(known, name, port, self._layout(name))] for port in "xy")
        self._add(node, "Data", [], inputs, outputs, {"index": ("i", index)})
        self._places[name] = f"{node}:0"
        self._graph.input.append(f"{node}:0")

    def _const(self, name: str) -> str:
        found = self._main.find(name)
        tensor = self._main.initializer(name) if found and found[1] == INITIALIZER else None
        try:
            if name in self._lists:
                value: NDArray[np.generic] = self._lists[name]
            else:
                value = self._tensor(tensor) if tensor is not None else self._constants.value(self._main, name)
        except (Unmatched, ValueError, TypeError, UserError) as reason:
            raise Unmatched(f"constant {shown(name)}: {reason}; write the model as .onnx") from reason
        known = ValueType(value.dtype.name, value.shape)
        node = self._names.fresh(name)
        descriptor = self._descriptor(known, name, "y", self._layout(name))
        data = np.ascontiguousarray(value).tobytes()
        tensor_def = message("TensorDef", desc=self._descriptor(known, name, "", self._layout(name)), data=data)
        self._add(node, "Const", [], [], [descriptor], {"value": ("t", tensor_def)})
        self._places[name] = f"{node}:0"
        return self._places[name]

    def _tensor(self, tensor: TensorProto) -> Constant:
        if problem := data_problem(tensor):
            raise ValueError(problem.text)
        return numpy_helper.to_array(with_data(tensor, self._folder))

    def _node(self, node: NodeProto, number: int) -> None:
        key = normal_domain(node.domain), node.op_type
        if key == ("", "Constant"):
            return
        if key in self._specs:
            self._ours(node, self._specs[key])
            return
        if key[0] == GE_DOMAIN and node.name in self._kept:
            self._keep(node, self._kept[node.name])
            return
        spelled = self._spelled(node) if not key[0] else None
        if spelled is None:
            raise Unmatched(
                f"{self._main.label(number)} is not in the table of standard operators; write the model as .onnx"
            )
        sources = [(port, self._listed(node, port, source)) for port, source in spelled.inputs]
        self._call(node, spelled.om_type, sources, spelled.outputs, spelled.attrs)

    def _spelled(self, node: NodeProto) -> Spelled | None:
        """Convert a standard node to an operator of GE; return None if the table does not support it."""
        spelling = SPELLINGS.get(node.op_type)
        if spelling is None or not node.input or not node.input[0]:
            return None
        shape = self._types.of(self._main, node.input[0]).shape
        facts = Facts(
            node,
            lambda name, position: self._constants.numbers(self._main, node, name, position),
            None if shape is None else len(shape),
        )
        try:
            return spelling(facts)
        except (Unmatched, KeyError):
            return None

    def _listed(self, node: NodeProto, port: str, source: str | NDArray[np.int64]) -> str:
        """Return the value of a port; lists that are attributes in ONNX become constants."""
        if isinstance(source, str):
            return source
        name = self._values.fresh(f"{node.output[0]}_{port}")
        self._lists[name] = source
        return name

    def _ours(self, node: NodeProto, spec: OpSpec) -> None:
        try:
            given = read_attributes(node, spec)
            sources, results = named_inputs(spec, node), named_outputs(spec, node)
        except Unmatched as problem:
            raise Unmatched(f"node {shown(node.name)} ({node.op_type}): {problem}") from problem
        attrs = {attr.ir or attr.name: (attr.kind.air, given[attr.name]) for attr in spec.attrs}
        counts = counts_in(spec, [*sources, *results])
        inputs = [(port_of(spec.inputs, name), sources.get(name, "")) for name in names_in(spec.inputs, counts)]
        outputs = [port_of(spec.outputs, name) for name in names_in(spec.outputs, counts)]
        for side, ports in (("inputs", [port for port, _ in inputs]), ("outputs", outputs)):
            if tensors_of(getattr(spec, side), ports) is None or len(set(ports)) < len(ports):
                clash = f"its {side} have the ports {', '.join(ports)}, which are ambiguous; rename one in the spec"
                raise Unmatched(f"node {shown(node.name)} ({node.op_type}): {clash}")
        self._call(node, spec.op_type, inputs, outputs, attrs)

    def _call(
        self,
        node: NodeProto,
        om_type: str,
        inputs: Sequence[tuple[str, str]],
        outputs: Sequence[str],
        attrs: Attributes,
    ) -> None:
        name = node.name if node.name in self._unique else self._names.fresh(node.name or om_type)
        sources = [(self._places.get(value) or self._const(value)) if value else "" for _, value in inputs]
        unfed = message("TensorDescriptor")
        descriptors = [self._descriptor(self._type(value), value, port) if value else unfed for port, value in inputs]
        results = [
            self._descriptor(self._types.of(self._main, value), value, port)
            for port, value in zip(outputs, node.output, strict=False)
        ]
        self._add(name, om_type, sources, descriptors, results, attrs, [port for port, _ in inputs], outputs)
        self._places |= {value: f"{name}:{index}" for index, value in enumerate(node.output) if value}

    def _keep(self, node: NodeProto, op: Any) -> None:
        """Write an operator unchanged, with the inputs of the node."""
        op.name = node.name if node.name in self._unique else self._names.fresh(node.name)
        op.input[:] = [(self._places.get(value) or self._const(value)) if value else "" for value in node.input]
        self._graph.op.append(op)
        self._places |= {value: f"{op.name}:{index}" for index, value in enumerate(node.output) if value}

    def _type(self, value: str) -> ValueType:
        listed = self._lists.get(value)
        return self._types.of(self._main, value) if listed is None else ValueType("int64", listed.shape)

    def _outputs(self) -> None:
        names = [value.name for value in self._view.model.graph.output]
        places = [self._places.get(name) or self._const(name) for name in names]
        known = [self._types.of(self._main, name) for name in names]
        ports = [f"input{index}" for index in range(len(names))]
        descriptors = [
            self._descriptor(type_, *pair) for type_, pair in zip(known, zip(names, ports, strict=True), strict=True)
        ]
        self._add(self._names.fresh("NetOutput"), "NetOutput", places, descriptors, descriptors, {}, ports)
        self._graph.output.extend(places)

    def _add(
        self,
        name: str,
        om_type: str,
        sources: Sequence[str],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attrs: Attributes,
        input_names: Sequence[str] = (),
        output_names: Sequence[str] = (),
    ) -> None:
        op = self._graph.op.add(name=name, type=om_type, input=sources, input_desc=inputs, output_desc=outputs)
        for key, (kind, value) in attrs.items():
            if kind == "ints":
                self._list(op, key, "i", value)
                continue
            if isinstance(value, tuple):
                self._list(op, key, kind, value)
                continue
            encoded = value.encode() if kind == "s" else value
            op.attr.append(message("Attr", key=key, value=message("AttrDef", **{kind: encoded})))
        # Without these, ports are named by position, and an absent input in the middle shifts later ones.
        ports = (
            ("input", input_names or [d.name for d in inputs]),
            ("output", output_names[: len(outputs)] or [d.name for d in outputs]),
        )
        for side, names in ports:
            if names:
                self._list(op, f"_{side}_name_key", "s", [port.encode() for port in names])
                self._list(op, f"_{side}_name_value", "i", list(range(len(names))))

    def _list(self, op: Any, key: str, kind: str, values: Sequence[Any]) -> None:
        listed = message("ListValue", val_type=LIST_KINDS[kind], **{kind: values})
        op.attr.append(message("Attr", key=key, value=message("AttrDef", list=listed)))
