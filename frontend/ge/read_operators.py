"""Map operators of GE to standard operators of ONNX: the inverse of `write_operators`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from onnx import NodeProto, helper

from opforge.frontend.ir.tensor_type import ELEMENT_TYPES

from .messages import CPP_TYPES
from .write_operators import ONE, TWO

# The opset of the nodes.
OPSET = 18
_NAMES = {number: name for name, number in CPP_TYPES.items()}


@dataclass(frozen=True)
class Call:
    """An operator of GE with the properties that its reader needs.

    Attributes:
        inputs: Value by port; "" for an absent one.
        output: The value of its first output.
        attrs: Python values of its attributes.
        numbers: Integers of a constant value; None for another value.
        constant: Adds a constant of int64, and returns its name.
    """

    inputs: Mapping[str, str]
    output: str
    attrs: Mapping[str, Any]
    numbers: Callable[[str], list[int] | None]
    constant: Callable[[list[int]], str]

    def node(self, op_type: str, *inputs: str, **attrs: Any) -> NodeProto:
        """Return a standard node with the output of this operator."""
        return helper.make_node(op_type, list(inputs), [self.output], **attrs)


Reader = Callable[[Call], NodeProto | None]


def _ports(op_type: str, *ports: str) -> Reader:
    """Return a standard operator with the inputs at `ports`."""

    def read(call: Call) -> NodeProto | None:
        if set(call.inputs) != set(ports) or not all(call.inputs.values()):
            return None
        return call.node(op_type, *(call.inputs[port] for port in ports))

    return read


def _with_list(op_type: str, port: str) -> Reader:
    """Return a standard operator whose second input is a list of int64."""

    def read(call: Call) -> NodeProto | None:
        numbers = call.numbers(call.inputs[port])
        if numbers is None:
            return None
        return call.node(op_type, call.inputs["x"], call.constant(numbers))

    return read


def _cast(call: Call) -> NodeProto | None:
    return call.node("Cast", call.inputs["x"], to=ELEMENT_TYPES[_NAMES[call.attrs["dst_type"]]])


def _shape(call: Call) -> NodeProto | None:
    return call.node("Shape", call.inputs["x"]) if call.attrs["dtype"] == CPP_TYPES["int64"] else None


def _transpose(call: Call) -> NodeProto | None:
    perm = call.numbers(call.inputs["perm"])
    return None if perm is None else call.node("Transpose", call.inputs["x"], perm=perm)


def _axes(op_type: str, attr: str) -> Reader:
    """Return a standard operator whose axes are the attribute `attr`; GE drops an empty list."""

    def read(call: Call) -> NodeProto | None:
        axes = list(call.attrs.get(attr, ()))
        if not axes and op_type == "Unsqueeze":
            return None
        return call.node(op_type, call.inputs["x"], *([call.constant(axes)] if axes else []))

    return read


def _reduce(op_type: str) -> Reader:
    def read(call: Call) -> NodeProto | None:
        axes = call.numbers(call.inputs["axes"])
        if not axes:
            return None
        keeps = int(call.attrs.get("keep_dims", False))
        return call.node(op_type, call.inputs["x"], call.constant(axes), keepdims=keeps)

    return read


def _gather(call: Call) -> NodeProto | None:
    axes = call.numbers(call.inputs["axis"])
    if axes is None or len(axes) != 1:
        return None
    return call.node("Gather", call.inputs["x"], call.inputs["indices"], axis=axes[0])


def _concat(call: Call) -> NodeProto | None:
    axes = call.numbers(call.inputs["concat_dim"])
    values = [value for port, value in call.inputs.items() if port != "concat_dim"]
    if axes is None or len(axes) != 1 or not all(values):
        return None
    return call.node("Concat", *values, axis=axes[0])


def _matmul(call: Call) -> NodeProto | None:
    if call.inputs.get("bias"):
        return None
    return call.node("MatMul", call.inputs["x1"], call.inputs["x2"])


# Attributes that must have these values if they are given.
NEUTRAL: Mapping[str, Mapping[str, object]] = {
    "Exp": {"base": -1.0, "scale": 1.0, "shift": 0.0},
    "GatherV2": {"batch_dims": 0},
    "MatMul": {"transpose_x1": False, "transpose_x2": False},
    "Reshape": {"axis": 0, "num_axes": -1},
}
# An operator that is missing here, or whose reader returns None, stays an operator of GE.
READERS: Mapping[str, Reader] = {
    **{name: _ports(name, "x") for name in ONE},
    **{om_type: _ports(name, "x1", "x2") for name, om_type in TWO.items()},
    "Cast": _cast,
    "ConcatV2": _concat,
    "Expand": _with_list("Expand", "shape"),
    "GatherV2": _gather,
    "LogicalNot": _ports("Not", "x"),
    "MatMul": _matmul,
    "ReduceMean": _reduce("ReduceMean"),
    "ReduceSum": _reduce("ReduceSum"),
    "Reshape": _with_list("Reshape", "shape"),
    "SelectV2": _ports("Where", "condition", "then", "else"),
    "Shape": _shape,
    "Squeeze": _axes("Squeeze", "axis"),
    "Transpose": _transpose,
    "Unsqueeze": _axes("Unsqueeze", "axes"),
}
