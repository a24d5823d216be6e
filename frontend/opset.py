"""Another opset for a model: relabelled where every node means the same in both versions, refused elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx.defs
from onnx import GraphProto, ModelProto, NodeProto
from onnx.defs import OpSchema

from opforge.frontend.graph import key_text, normal_domain
from opforge.frontend.names import FreshNames, shown
from opforge.frontend.standard import constant

# ATC knows the standard operators of these versions; of newer ones a handful.
ATC_OPSETS = range(8, 19)
# Their meaning changed while arity and attributes stayed.
_CHANGED = {
    "BatchNormalization",
    "DFT",
    "GridSample",
    "GroupNormalization",
    "Hardmax",
    "LogSoftmax",
    "Resize",
    "Softmax",
}
# Version at which lists moved from an attribute to the second input, by operator.
_MOVED = {
    **{(name, "axes"): 13 for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(f"Reduce{name}", "axes"): 18 for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod")},
    ("ReduceSumSquare", "axes"): 18,
    ("Split", "split"): 13,
}


def opset_problem(model: ModelProto, target: int) -> str:
    """Why a model cannot be written in opset `target`; "" when it can."""
    current = current_opset(model)
    if current is None or current == target:
        return ""
    for graph in _graphs(model.graph):
        for node in graph.node:
            if normal_domain(node.domain) == "" and (problem := _node_problem(node, current, target)):
                name = shown(node.name or next(filter(None, node.output), ""))
                return f"node {name} ({key_text(node)}) {problem}"
    return ""


def write_opset(model: ModelProto, target: int) -> None:
    """Relabel a model that `opset_problem` finds nothing in; lists move from attributes to inputs where they must."""
    current = current_opset(model)
    if current is None:
        return
    names = None
    for graph in _graphs(model.graph):
        nodes: list[NodeProto] = []
        for node in graph.node:
            moved = _moved(node, current, target) if normal_domain(node.domain) == "" else None
            if moved is not None:
                names = names or FreshNames(_values(model.graph))
                attribute = next(a for a in node.attribute if a.name == moved)
                name = names.fresh(f"{node.output[0]}_{moved}")
                nodes.append(constant(name, np.array(attribute.ints, np.int64)))
                nodes[-1].name = f"{name}_constant"
                node.input.append(name)
                node.attribute.remove(attribute)
            nodes.append(node)
        if len(nodes) > len(graph.node):
            del graph.node[:]
            graph.node.extend(nodes)
    for entry in model.opset_import:
        if normal_domain(entry.domain) == "":
            entry.version = target


def current_opset(model: ModelProto) -> int | None:
    """The version of ai.onnx that a model imports."""
    return next((entry.version for entry in model.opset_import if normal_domain(entry.domain) == ""), None)


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all graphs inside it."""
    found = [graph]
    while found:
        graph = found.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    found.append(attribute.g)
                found.extend(attribute.graphs)


def _values(graph: GraphProto) -> Iterator[str]:
    for inner in _graphs(graph):
        yield from (value.name for value in inner.input)
        yield from (tensor.name for tensor in inner.initializer)
        yield from (name for node in inner.node for name in node.output)


def _moved(node: NodeProto, current: int, target: int) -> str | None:
    """The attribute that becomes an input on the way from one version to the other."""
    for attribute in node.attribute:
        version = _MOVED.get((node.op_type, attribute.name))
        if version is not None and current < version <= target and len(node.input) == 1:
            return attribute.name
    return None


def _node_problem(node: NodeProto, current: int, target: int) -> str:
    old, new = _schema(node.op_type, current), _schema(node.op_type, target)
    if old is None or (new is not None and old.since_version == new.since_version):
        # What the model's own opset does not know is another tool's invention, which no version explains.
        return ""
    if new is None or new.deprecated:
        return f"does not exist in opset {target}"
    if node.op_type in _CHANGED:
        return f"means something else in opset {target}"
    moved = _moved(node, current, target)
    if not new.min_input <= len(node.input) + (moved is not None) <= new.max_input:
        return f"has {len(node.input)} inputs, opset {target} takes {new.min_input} to {new.max_input}"
    given = {attribute.name for attribute in node.attribute} - {moved}
    for name in given:
        if name not in new.attributes:
            return f"has the attribute {shown(name)}, which opset {target} does not know"
    for name in set(old.attributes) & set(new.attributes) - given:
        if old.attributes[name].default_value != new.attributes[name].default_value:
            return f"relies on the default of {shown(name)}, which is another in opset {target}"
    if required := [n for n, attribute in new.attributes.items() if attribute.required and n not in given]:
        return f"has no attribute {shown(required[0])}, which opset {target} needs"
    if node.op_type == "Split" and (current < 18) != (target < 18) and len(node.input) < 2 and moved is None:
        return f"has no sizes, which have another default in opset {target}"
    if node.op_type == "Pad" and any(a.name == "mode" and a.s == b"wrap" for a in node.attribute) and target < 19:
        return f"has the mode 'wrap', which opset {target} does not know"
    return ""


def _schema(op_type: str, version: int) -> OpSchema | None:
    if not onnx.defs.has(op_type, max_inclusive_version=version, domain=""):
        return None
    return onnx.defs.get_schema(op_type, max_inclusive_version=version, domain="")
