"""Functions of PyTorch that are our operators in some surroundings: as the nodes that its exporter writes for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper

from opforge.frontend.aten import ATEN_DOMAIN
from opforge.frontend.standard import constant
from opforge.frontend.value_types import ELEMENT_TYPES, ValueType

# Arguments by function and overload.
_SCHEMAS: Mapping[str, tuple[str, ...]] = {
    "aten.sum.dim_IntList": ("self", "dim", "keepdim"),
    "aten.index_add.default": ("self", "dim", "index", "source"),
    "aten.index_put.default": ("self", "indices", "values", "accumulate"),
}
# Functions whose result is all zeros.
_ZEROS = {"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default"}
_FULL = {"aten.full.default": 1, "aten.full_like.default": 1, "aten.new_full.default": 2}
# Functions that pass a tensor of the graph on.
_PASSING = {"aten.lift_fresh_copy.default", "aten.clone.default", "aten.detach_.default", "aten.detach.default"}
_REPEAT = "aten.repeat_interleave.Tensor"


def is_pattern(node: Any) -> bool:
    """Whether a node of a graph calls a function that may be one of our operators."""
    return node.op == "call_function" and str(node.target) in _SCHEMAS


def pattern_nodes(
    node: Any,
    value: Callable[[Any], str],
    type_of: Callable[[Any], ValueType],
    constants: Mapping[str, NDArray[Any]],
) -> list[NodeProto] | str:
    """The ONNX nodes that a call stands for; its result has the name of the call.

    Args:
        node: The call.
        value: Name of the value that a node of the graph is.
        type_of: What tracing recorded of it.
        constants: Tensors that the graph holds, by name of the node.

    Returns:
        The nodes, or why there are none.
    """
    arguments = dict(zip(_SCHEMAS[str(node.target)], node.args, strict=False)) | dict(node.kwargs)
    if str(node.target) == "aten.sum.dim_IntList":
        if arguments.get("dtype") is not None:
            return f"sums in {arguments['dtype']}"
        name = f"{node.name}.axes"
        axes = constant(name, np.array(arguments["dim"], np.int64).reshape(-1))
        keepdims = int(bool(arguments.get("keepdim")))
        return [axes, helper.make_node("ReduceSum", [value(arguments["self"]), name], [node.name], keepdims=keepdims)]
    if str(node.target) == "aten.index_put.default":
        ids, updates = arguments["indices"], arguments["values"]
        if len(ids) != 1 or ids[0] is None or not arguments.get("accumulate"):
            return "writes at other places than rows, or does not add"
        rows = ids[0]
    else:
        rows, updates = arguments["index"], arguments["source"]
        if arguments["dim"] != 0 or arguments.get("alpha", 1) != 1:
            return f"adds along dim {arguments['dim']} with alpha {arguments.get('alpha', 1)}, expected rows, 1"
    nodes, names = [], []
    for role, read in (("self", arguments["self"]), ("index", rows)):
        names.append(f"{node.name}.{role}")
        made = _made(read, names[-1], value, type_of, constants)
        nodes += made
        if not made:
            names[-1] = value(read)
    column, last = f"{node.name}.column", f"{node.name}.last"
    return [
        *nodes,
        constant(last, np.array([-1], np.int64)),
        helper.make_node("Unsqueeze", [names[1], last], [column]),
        helper.make_node("ScatterND", [names[0], column, value(updates)], [node.name], reduction="add"),
    ]


def _made(
    read: Any,
    name: str,
    value: Callable[[Any], str],
    type_of: Callable[[Any], ValueType],
    constants: Mapping[str, NDArray[Any]],
) -> list[NodeProto]:
    """Nodes that make a value whose origin matters; none when it does not."""
    while str(read.target) in _PASSING:
        read = read.args[0]
    target, known = str(read.target), type_of(read)
    if read.name in constants:
        return [constant(name, constants[read.name])]
    place = _FULL.get(target)
    is_zero = target in _ZEROS or (place is not None and len(read.args) > place and read.args[place] == 0)
    if read.op == "call_function" and is_zero and known.shape is not None and None not in known.shape:
        made = constant(f"{name}.dims", np.array(known.shape, np.int64))
        zero = helper.make_tensor("value", ELEMENT_TYPES[known.dtype or "float32"], [1], [0])
        return [made, helper.make_node("ConstantOfShape", [made.output[0]], [name], value=zero)]
    if read.op == "call_function" and target == _REPEAT:
        return [helper.make_node("repeat_interleave", [value(read.args[0])], [name], domain=ATEN_DOMAIN)]
    return []
