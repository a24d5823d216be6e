"""Write calls of PyTorch functions that can be custom operators as nodes in the form of its exporter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper

from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES, ValueType
from opforge.frontend.rules.names.aten import ATEN_DOMAIN

# Arguments by function.
_SCHEMAS: Mapping[str, tuple[str, ...]] = {
    "sum": ("self", "dim", "keepdim"),
    "index_add": ("self", "dim", "index", "source"),
    "index_put": ("self", "indices", "values", "accumulate"),
}
_REQUIRED = {"sum": 2, "index_add": 4, "index_put": 3}
# Arguments of functions of `torch` -> those of aten.
_SPELLINGS = {"input": "self", "axis": "dim", "tensor1": "source"}
_IN_PLACE = {"index_add_", "index_put_"}
# Functions whose result is all zeros.
_ZEROS = {"zeros", "zeros_like", "new_zeros"}
_FULL = {"full": 1, "full_like": 1, "new_full": 2}
# Functions that return a tensor of the graph unchanged.
_PASSING = {"lift_fresh_copy", "clone", "detach_", "detach"}
_REPEAT = "repeat_interleave"
_ATEN = re.compile(r"aten\.(\w+)(?:\.(\w+))?\Z")
_OVERLOADS = {"sum": "dim_IntList", _REPEAT: "Tensor"}


def function_of(node: Any) -> str:
    """Return the PyTorch function that a node calls: of aten, of `torch` or a tensor method; "" for other nodes."""
    if node.op == "call_method":
        return str(node.target)
    if node.op != "call_function":
        return ""
    if match := _ATEN.match(str(node.target)):
        return match[1] if match[2] in (None, "default", _OVERLOADS.get(match[1])) else ""
    return node.target.__name__ if getattr(node.target, "__module__", None) == "torch" else ""


def writes(node: Any) -> bool:
    """Return whether a call writes over its first argument, as its name states."""
    return function_of(node).endswith("_") and function_of(node) not in ("detach_", "requires_grad_")


def is_pattern(node: Any) -> bool:
    """Return whether a node of a graph calls a function that may be a custom operator."""
    function = function_of(node)
    return function in _IN_PLACE or (function in _SCHEMAS and (function != "sum" or "dim" in _arguments(node)))


def _arguments(node: Any) -> dict[str, Any]:
    given = dict(zip(_SCHEMAS[function_of(node)], node.args, strict=False))
    return given | {_SPELLINGS.get(name, name): value for name, value in node.kwargs.items()}


def pattern_nodes(
    node: Any,
    value: Callable[[Any], str],
    type_of: Callable[[Any], ValueType],
    constants: Mapping[str, NDArray[Any]],
) -> list[NodeProto]:
    """Return the ONNX nodes for a call; its result has the name of the call.

    Args:
        node: The call.
        value: Returns the value name of a graph node.
        type_of: Returns the traced type.
        constants: Tensors of the graph, by name of the node.

    Raises:
        Unmatched: The call has no equivalent nodes.
    """
    function = function_of(node)
    if function in _IN_PLACE:
        raise Unmatched(f"{function} overwrites its input; trace the model with make_fx and torch.func.functionalize")
    arguments = _arguments(node)
    if missing := [name for name in _SCHEMAS[function][: _REQUIRED[function]] if name not in arguments]:
        raise Unmatched(f"has no argument {', '.join(missing)}")
    if function == "sum":
        return _sum(node, arguments, value)
    if function == "index_put":
        _require_put(arguments, type_of)
        rows, updates = arguments["indices"][0], arguments["values"]
    else:
        _require_add(arguments)
        rows, updates = arguments["index"], arguments["source"]
    _require_reads(node, arguments["self"], rows, updates)
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


def _sum(node: Any, arguments: Mapping[str, Any], value: Callable[[Any], str]) -> list[NodeProto]:
    if arguments.get("dtype") is not None:
        raise Unmatched(f"sums in {arguments['dtype']}")
    dims = np.array(arguments["dim"]).reshape(-1)
    if dims.dtype.kind != "i":
        raise Unmatched(f"sums over {arguments['dim']}, expected dims that are numbers")
    name = f"{node.name}.axes"
    axes = constant(name, dims.astype(np.int64))
    keepdims = int(bool(arguments.get("keepdim")))
    return [axes, helper.make_node("ReduceSum", [value(arguments["self"]), name], [node.name], keepdims=keepdims)]


def _require_put(arguments: Mapping[str, Any], type_of: Callable[[Any], ValueType]) -> None:
    """Require an index_put that adds one row at each position."""
    ids = arguments["indices"]
    if not isinstance(ids, (list, tuple)) or len(ids) != 1 or ids[0] is None or not arguments.get("accumulate"):
        raise Unmatched("indexes more than rows, or does not accumulate")
    reads = (arguments["self"], ids[0], arguments["values"])
    table, places, added = (getattr(type_of(read), "shape", None) for read in reads)
    if table is None or places is None or not _is_full(added, (*places, *table[1:])):
        raise Unmatched(f"adds {added} at indices {places}, expected one row for each index")


def _require_add(arguments: Mapping[str, Any]) -> None:
    """Require an index_add that adds unscaled rows."""
    dim, alpha = arguments["dim"], arguments.get("alpha", 1)
    if dim != 0 or alpha != 1:
        raise Unmatched(f"adds along dim {dim} with alpha {alpha}, expected dim 0 and alpha 1")


def _require_reads(node: Any, table: Any, rows: Any, updates: Any) -> None:
    """Require that a call can be a scatter of the values that it reads."""
    if not all(hasattr(read, "target") for read in (table, rows, updates)):
        raise Unmatched("has arguments that are not tensors of the graph")
    for read in (table, rows):
        if writer := _other_writer(read, node):
            raise Unmatched(
                f"reads {read.name}, which {writer} may overwrite; trace the model with torch.func.functionalize"
            )


def _is_full(shape: Sequence[int | None] | None, wanted: Sequence[int | None]) -> bool:
    """Return whether a shape is filled without repetition; an unknown size is not 1."""
    return shape is not None and all(
        got == dim or (None in (got, dim) and got != 1) for got, dim in zip_longest(shape, wanted, fillvalue=1)
    )


def _other_writer(read: Any, reader: Any) -> str:
    """Return a node other than `reader` that may overwrite the value of `read`, or alias it."""
    while True:
        for user in read.users:
            if user is not reader and not _only_reads(user):
                return str(user.name)
        if function_of(read) not in _PASSING:
            return ""
        reader, read = read, read.args[0]


def _only_reads(node: Any) -> bool:
    if node.op == "output" or function_of(node) in _SCHEMAS:
        return True
    schema = getattr(node.target, "_schema", None)
    return schema is not None and all(argument.alias_info is None for argument in schema.arguments)


def _made(
    read: Any,
    name: str,
    value: Callable[[Any], str],
    type_of: Callable[[Any], ValueType],
    constants: Mapping[str, NDArray[Any]],
) -> list[NodeProto]:
    """Return nodes that compute a value if its origin matters, else none."""
    while function_of(read) in _PASSING:
        read = read.args[0]
    function, known = function_of(read), type_of(read)
    if read.name in constants:
        return [constant(name, constants[read.name])]
    place = _FULL.get(function)
    is_zero = function in _ZEROS or (place is not None and len(read.args) > place and read.args[place] == 0)
    if is_zero and known.shape is not None and None not in known.shape:
        made = constant(f"{name}.dims", np.array(known.shape, np.int64))
        zero = helper.make_tensor("value", ELEMENT_TYPES[known.dtype or "float32"], [1], [0])
        return [made, helper.make_node("ConstantOfShape", [made.output[0]], [name], value=zero)]
    if function == _REPEAT and read.op == "call_function" and len(read.args) == 1 and "repeats" not in read.kwargs:
        return [helper.make_node("repeat_interleave", [value(read.args[0])], [name], domain=ATEN_DOMAIN)]
    return []
