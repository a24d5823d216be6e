"""Map standard operators to operators of GE: the names of types, ports and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.tensor_type import DTYPE_WORDS

from .messages import CPP_TYPES

# Kind and value of an attribute, by name.
Attributes = Mapping[str, tuple[str, Any]]
# Source of a port: a value of the model, or a list attribute.
Source = str | NDArray[np.int64]


@dataclass(frozen=True)
class Spelled:
    """A standard node as an operator of GE.

    Attributes:
        om_type: Its type.
        inputs: Port and source of each input.
        outputs: Ports of its outputs.
        attrs: Its attributes.
    """

    om_type: str
    inputs: Sequence[tuple[str, Source]]
    outputs: tuple[str, ...] = ("y",)
    attrs: Attributes = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Properties of a node in the model.

    Attributes:
        node: The node.
        numbers: Integers by attribute name, or by position for inputs; None if there are none.
        rank: Rank of its first input; None if unknown.
    """

    node: NodeProto
    numbers: Callable[[str, int], list[int] | None]
    rank: int | None

    def axes(self, rank: int | None) -> list[int] | None:
        """Return the axes without negative ones; None if there are none, because GE drops an empty list."""
        axes = self.numbers("axes", 1)
        if not axes:
            return None
        if rank is None and min(axes) < 0:
            return None
        return [axis % rank if rank else axis for axis in axes]


Spelling = Callable[[Facts], Spelled | None]


def _ports(om_type: str, *ports: str, outputs: tuple[str, ...] = ("y",)) -> Spelling:
    """Return an operator with the inputs of the node."""

    def spell(facts: Facts) -> Spelled | None:
        if len(facts.node.input) != len(ports) or not all(facts.node.input):
            return None
        return Spelled(om_type, tuple(zip(ports, facts.node.input, strict=True)), outputs)

    return spell


def _list(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def _cast(facts: Facts) -> Spelled:
    word = DTYPE_WORDS.get(int_attribute(facts.node, "to") or 0, "")
    return Spelled("Cast", [("x", facts.node.input[0])], attrs={"dst_type": ("i", CPP_TYPES[word])})


def _shape(facts: Facts) -> Spelled | None:
    if any(attribute.name in ("start", "end") and attribute.i for attribute in facts.node.attribute):
        return None
    return Spelled("Shape", [("x", facts.node.input[0])], attrs={"dtype": ("dt", CPP_TYPES["int64"])})


def _transpose(facts: Facts) -> Spelled | None:
    perm = facts.numbers("perm", 9)
    if perm is None and facts.rank is None:
        return None
    perm = perm if perm is not None else list(reversed(range(facts.rank or 0)))
    return Spelled("Transpose", [("x", facts.node.input[0]), ("perm", _list(perm))])


def _unsqueeze(facts: Facts) -> Spelled | None:
    given = facts.numbers("axes", 1) or []
    axes = facts.axes(None if facts.rank is None else facts.rank + len(given))
    return None if axes is None else Spelled("Unsqueeze", [("x", facts.node.input[0])], attrs={"axes": ("ints", axes)})


def _squeeze(facts: Facts) -> Spelled | None:
    axes = facts.axes(facts.rank)
    return None if axes is None else Spelled("Squeeze", [("x", facts.node.input[0])], attrs={"axis": ("ints", axes)})


def _reduce(facts: Facts) -> Spelled | None:
    axes = facts.axes(facts.rank)
    if axes is None and facts.rank is not None and not int_attribute(facts.node, "noop_with_empty_axes"):
        axes = list(range(facts.rank))
    if not axes:
        return None
    keeps = int_attribute(facts.node, "keepdims") != 0
    ports: list[tuple[str, Source]] = [("x", facts.node.input[0]), ("axes", _list(axes))]
    return Spelled(facts.node.op_type, ports, attrs={"keep_dims": ("b", keeps)})


def _gather(facts: Facts) -> Spelled:
    ports = zip(("x", "indices"), facts.node.input, strict=True)
    return Spelled("GatherV2", [*ports, ("axis", _list([int_attribute(facts.node, "axis") or 0]))])


def _concat(facts: Facts) -> Spelled:
    ports = [(f"x{number}", name) for number, name in enumerate(facts.node.input)]
    axis = ("concat_dim", _list([int_attribute(facts.node, "axis") or 0]))
    count = len(ports)
    return Spelled("ConcatV2", [*ports, axis], attrs={"N": ("i", count), "__dynamic_input_x_cnt": ("i", count)})


def _matmul(facts: Facts) -> Spelled | None:
    if facts.rank != 2:
        return None
    attrs = {"transpose_x1": ("b", False), "transpose_x2": ("b", False)}
    ports = (*zip(("x1", "x2"), facts.node.input, strict=True), ("bias", ""))
    return Spelled("MatMul", ports, attrs=attrs)


# Standard operators of one and of two inputs, with the types of GE.
ONE = ("Abs", "Exp", "Identity", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh")
TWO = {
    **{name: name for name in ("Add", "Equal", "Greater", "Less", "Mul", "Pow", "Sub")},
    "And": "LogicalAnd",
    "Div": "RealDiv",
    "GreaterOrEqual": "GreaterEqual",
    "LessOrEqual": "LessEqual",
    "Max": "Maximum",
    "Min": "Minimum",
    "Or": "LogicalOr",
}
SPELLINGS: Mapping[str, Spelling] = {
    **{name: _ports(name, "x") for name in ONE},
    **{name: _ports(om_type, "x1", "x2") for name, om_type in TWO.items()},
    "Cast": _cast,
    "Concat": _concat,
    "Expand": _ports("Expand", "x", "shape"),
    "Gather": _gather,
    "MatMul": _matmul,
    "Not": _ports("LogicalNot", "x"),
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "Reshape": _ports("Reshape", "x", "shape"),
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _ports("SelectV2", "condition", "then", "else", outputs=("result",)),
}
