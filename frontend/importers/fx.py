"""Import graphs of torch.fx: those of AOTAutograd, make_fx, torch.export and symbolic_trace.

This module does not import PyTorch; it reads attributes of nodes, targets and symbolic sizes. Calls of functions that
can be custom operators become an ONNX model, in the form that an exporter writes. The pipeline converts this model like
any other model. Values that the calls read from other nodes are inputs of the model. Values that other nodes read from
the calls are outputs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.conversion import Conversion, Unmapped
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES, ValueType
from opforge.frontend.operators import project_specs
from opforge.frontend.pipeline import convert
from opforge.frontend.rules.groups.sorted_groups import FuseSortedGroups
from opforge.frontend.rules.names.aten import ATEN_DOMAIN
from opforge.frontend.rules.names.torch_forms import BoundCall, TorchForm, bound_call, torch_forms

from .fx_patterns import is_pattern, pattern_nodes, writes

# The name of an OpOverload is `aten.name.overload`, that of an OpOverloadPacket `aten.name`.
_TARGET = re.compile(r"(\w+)\.(\w+)(?:\.(\w+))?\Z")
_OPSET = 18
_IR_VERSION = 10
_CONSTANT_TYPES = {f"torch.{word}" for word in ("int32", "int64", "float32", "float16")}
# Larger tensors of a module are inputs of the model.
_MAX_ELEMENTS = 1 << 16


def from_fx(
    graph_module: Any,
    *,
    patterns: bool = False,
    domain: str = OPFORGE_DOMAIN,
    specs: Sequence[OpSpec] | None = None,
) -> Conversion:
    """Find custom operators in a graph of torch.fx.

    Args:
        graph_module: A GraphModule, a Graph or an ExportedProgram; not changed.
        patterns: Also match sums over dims, and scatters that add.
        domain: Domain of custom nodes in the model: "opforge", with function bodies, "npu" or "ai.onnx".
        specs: The operators; default: those of the project.

    Returns:
        The conversion. Its model contains only the custom nodes, with the names of the FX nodes. Entries of `mapped`
        have FX names as inputs; None for an absent input, or one that is not a node of the graph.

    Raises:
        UserError: The argument has no graph.
    """
    specs = project_specs() if specs is None else specs
    nodes = _nodes_of(graph_module)
    forms = torch_forms(specs)
    left: list[Unmapped] = []
    known: list[tuple[Any, BoundCall[Any] | None]] = []
    for node in nodes:
        if patterns and is_pattern(node):
            known.append((node, None))
        if _key(node) not in forms:
            continue
        op_type = forms[_key(node)][0].operator
        try:
            bound = _bind(node, forms[_key(node)], next(spec for spec in specs if spec.op_type == op_type))
        except Unmatched as reason:
            left.append(Unmapped(node.name, op_type, str(reason)))
        else:
            known.append((node, bound))
    tensors = _tensors(graph_module, nodes)
    importer = _Importer(known, tensors)
    conversion = convert(importer.model(), patterns=patterns, domain=domain, specs=specs)
    if conversion.left or importer.left:
        left += [*importer.left, *conversion.left]
        refused = {entry.node for entry in left}
        importer = _Importer([entry for entry in known if entry[0].name not in refused], tensors)
        conversion = convert(importer.model(), patterns=patterns, domain=domain, specs=specs)
    names = {node.name for node in nodes}
    mapped = [replace(e, inputs=[name if name in names else None for name in e.inputs]) for e in conversion.mapped]
    calls = sum(node.op.startswith("call_") for node in nodes)
    return replace(conversion, mapped=mapped, left=left, nodes_before=calls)


def _nodes_of(graph_module: Any) -> list[Any]:
    module = getattr(graph_module, "graph_module", graph_module)
    nodes = getattr(getattr(module, "graph", module), "nodes", None)
    if not isinstance(nodes, Iterable):
        raise UserError(
            f"from_fx: got {type(graph_module).__name__}, expected a GraphModule, Graph or ExportedProgram; trace the"
            " model with torch.export.export, make_fx or torch.fx.symbolic_trace"
        )
    return list(nodes)


def _tensors(graph_module: Any, nodes: Iterable[Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return tensors of a module or an exported program, by name of the node that reads them."""
    lifted = getattr(getattr(graph_module, "graph_signature", None), "inputs_to_lifted_tensor_constants", {})
    found = {name: graph_module.constants[target] for name, target in lifted.items()}
    written = {str(_origin(node).target) for node in nodes if writes(node)}
    for node in nodes:
        value = graph_module
        for word in str(node.target).split(".") if node.op == "get_attr" else ():
            value = getattr(value, word, None)
        if node.op == "get_attr" and str(node.target) not in written and hasattr(value, "detach"):
            is_made = "_tensor_constant" in str(node.target)
            if is_made or not str(value.dtype).startswith("torch.float"):
                found[node.name] = value
    return {name: value.detach().cpu().numpy() for name, value in found.items() if _is_small(value)}


def _origin(node: Any) -> Any:
    """Return the first input of a call, the first input of that, and so on, up to the start."""
    while node.args and _is_node(node.args[0]):
        node = node.args[0]
    return node


def _is_small(value: Any) -> bool:
    """Return whether a tensor has a NumPy dtype and can be a list of groups or rows, or the base of an addition."""
    return str(value.dtype) in _CONSTANT_TYPES and value.numel() <= _MAX_ELEMENTS


def _key(node: Any) -> tuple[str, str]:
    """Return (namespace, name) of the function that a node calls; empty for other nodes."""
    match = _TARGET.match(str(node.target)) if node.op == "call_function" else None
    return (match[1], match[2]) if match and match[3] in (None, "default") else ("", "")


def _bind(node: Any, forms: Sequence[TorchForm], spec: OpSpec) -> BoundCall[Any]:
    """Return a call by the first matching schema.

    Raises:
        Unmatched: No schema matches.
    """
    if (call := bound_call(forms, spec, node.args, node.kwargs)) is not None:
        return call
    given = ", ".join([*(["..."] * len(node.args)), *node.kwargs])
    expected = " or ".join(f"({', '.join(form.args)})" for form in forms)
    raise Unmatched(f"has arguments ({given}), expected {expected}")


def _is_node(value: object) -> bool:
    return hasattr(value, "op") and hasattr(value, "name") and hasattr(value, "target")


def _known_int(value: Any) -> int | None:
    """Return the number of an argument, a size or the value of a node; None if it is known only at run time."""
    if _is_node(value):
        return _known_int(value.meta.get("val"))
    if isinstance(value, int):
        return value
    # torch.SymInt: a specialized one has a known number.
    known = getattr(getattr(value, "node", None), "maybe_as_int", lambda: None)()
    return known if isinstance(known, int) else None


def _type_of(value: Any) -> ValueType:
    """Return the traced element type and dims of a tensor, if they are known."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    shape = getattr(value, "shape", None)
    dims = None if shape is None else tuple(_known_int(dim) for dim in shape)
    return ValueType(dtype if dtype in ELEMENT_TYPES else None, dims)


def _traced(node: Any) -> Any:
    return node.meta.get("val", node.meta.get("tensor_meta"))


class _Importer:
    """Writes bound calls as ONNX nodes."""

    def __init__(
        self, calls: Sequence[tuple[Any, BoundCall[Any] | None]], tensors: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        self.left: list[Unmapped] = []
        self.inputs: dict[str, ValueInfoProto] = {}
        self.nodes: list[NodeProto] = []
        self.outputs: list[ValueInfoProto] = []
        # Value by FX name; a second `getitem` of one result uses the first.
        self._values: dict[str, str] = {}
        self._calls = {node.name for node, _ in calls}
        for node, bound in calls:
            if bound is None:
                self._add_pattern(node, tensors)
            else:
                self._add(node, bound)

    def model(self) -> ModelProto:
        """Return all calls, in the order of the graph."""
        graph = helper.make_graph(self.nodes, "fx", list(self.inputs.values()), self.outputs)
        domains: Collection[str] = dict.fromkeys(filter(None, (node.domain for node in self.nodes)))
        opsets = [helper.make_opsetid("", _OPSET), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)

    def _add_pattern(self, node: Any, tensors: Mapping[str, np.ndarray[Any, Any]]) -> None:
        try:
            made = pattern_nodes(node, self._value, lambda read: _type_of(_traced(read)), tensors)
        except Unmatched as reason:
            self.left.append(Unmapped(node.name, FuseSortedGroups.operator, str(reason)))
            return
        made[-1].name = node.name
        self.nodes += made
        self._values[node.name] = node.name
        self._leave(node, node.name, _type_of(_traced(node)))

    def _add(self, node: Any, bound: BoundCall[Any]) -> None:
        form = bound.form
        given = [self._argument(node, name, value) for name, value in bound.args.items()]
        while not given[-1]:
            given.pop()
        domain = ATEN_DOMAIN if form.namespace == "aten" else form.namespace
        self.nodes.append(
            helper.make_node(form.name, given, self._results(node, len(bound.spec.outputs)), node.name, domain=domain)
        )

    def _argument(self, node: Any, name: str, value: Any) -> str:
        """Return the value of an argument in the model."""
        if value is None:
            return ""
        number = _known_int(value)
        if number is not None:
            return self._constant(f"{node.name}.{name}", np.array(value if isinstance(value, bool) else number))
        if isinstance(value, (list, tuple)):
            numbers = [_known_int(item) for item in value]
            if None not in numbers:
                return self._constant(f"{node.name}.{name}", np.array(numbers, np.int64))
            return self._input(f"{node.name}.{name}", ValueType("int64", (len(numbers),)))
        if not _is_node(value):
            return self._constant(f"{node.name}.{name}", np.array(str(value)))
        return self._value(value)

    def _value(self, node: Any) -> str:
        """Return the value of a graph node in the model."""
        return self._values.get(node.name) or self._input(node.name, _type_of(_traced(node)))

    def _constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        self.nodes.append(constant(name, value))
        return name

    def _input(self, name: str, known: ValueType) -> str:
        if name not in self.inputs:
            self.inputs[name] = _declaration(name, known)
        return name

    def _results(self, node: Any, count: int) -> list[str]:
        """Return names of the outputs of a call; "" for an output without a reader."""
        if count == 1:
            self._values[node.name] = node.name
            self._leave(node, node.name, _type_of(_traced(node)))
            return [node.name]
        names = [""] * count
        for user in node.users:
            if user.target is not operator.getitem or user.args[1] not in range(count):
                # A reader uses the whole tuple.
                names = [name or f"{node.name}.{index}" for index, name in enumerate(names)]
                self.outputs += [_declaration(name, ValueType()) for name in names if name.startswith(f"{node.name}.")]
                break
            index = user.args[1]
            if not names[index]:
                names[index] = user.name
                self._leave(user, user.name, _type_of(_traced(user)))
            self._values[user.name] = names[index]
        return names if any(names) else [f"{node.name}.0", *names[1:]]

    def _leave(self, node: Any, name: str, known: ValueType) -> None:
        """Make a value an output, unless only calls in the model read it."""
        if not node.users or any(user.name not in self._calls for user in node.users):
            self.outputs.append(_declaration(name, known))


def _declaration(name: str, known: ValueType) -> ValueInfoProto:
    if known.dtype is None:
        return ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[known.dtype], known.shape)
