"""Build standard ONNX nodes by arithmetic on values, in opset 18."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from onnx import AttributeProto, NodeProto, helper

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.tensor_type import DTYPE_WORDS, ELEMENT_TYPES, ValueType

from .context import Context
from .pattern import Operators

_op = Operators()
_SHAPE, _SEQUENCE = _op.Shape("x"), _op.SequenceConstruct(...)
REPAIR = "fix the dims of the inputs first"
# In descending order of width.
FLOATS = ("float64", "float32", "bfloat16", "float16")
_ATTRIBUTE_TYPES = {
    int: AttributeProto.INT,
    type(None): AttributeProto.INT,
    float: AttributeProto.FLOAT,
    str: AttributeProto.STRING,
    list: AttributeProto.INTS,
}


def whole(dims: Iterable[int | None]) -> list[int] | None:
    """Return the sizes, if all are known."""
    sizes = list(dims)
    known = [dim for dim in sizes if dim is not None]
    return known if len(known) == len(sizes) else None


@dataclass(frozen=True)
class Value:
    """A value in a formula. Arithmetic adds nodes. A number has the element type of the lowered node.

    Attributes:
        builder: Receives the nodes.
        name: Its name.
        origin: The value before a cast; "" if the value is not a cast.
    """

    builder: NodeBuilder
    name: str
    origin: str = ""

    def __add__(self, other: Value | float) -> Value:
        return self.builder.op("Add", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self.builder.op("Sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.builder.op("Sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self.builder.op("Mul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Value | float) -> Value:
        return self.builder.op("Div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.builder.op("Div", other, self)

    @property
    def type(self) -> ValueType:
        """Return its type, if it is known."""
        return self.builder.context.types.of(self.builder.scope, self.origin or self.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return its sizes, which the model must declare or imply."""
        sizes = whole(self.dims)
        if sizes is None:
            raise Unmatched(f"needs a known shape; {shown(self.name)} is {self.type}; {REPAIR}")
        return tuple(sizes)

    @property
    def dims(self) -> list[int | None]:
        """Return its sizes; None for unknown ones."""
        if self.type.shape is None:
            raise Unmatched(f"needs a known rank; {shown(self.name)} is {self.type}")
        return list(self.type.shape)

    @property
    def rank(self) -> int:
        """Return the number of its axes."""
        return len(self.dims)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return the names of its dims in the model; "" for a dim without a name."""
        return self.builder.context.types.symbols(self.builder.scope, self.origin or self.name) or ("",) * self.rank

    def dim(self, axis: int) -> int:
        """Return one of its sizes."""
        dim = self.dims[axis]
        if dim is None:
            raise Unmatched(f"needs a known dim {axis}; {shown(self.name)} is {self.type}; {REPAIR}")
        return dim

    def sum(self, axes: Iterable[int], *, keepdims: bool = False) -> Value:
        """Return the sum over axes; the value itself without axes."""
        return self._reduced("ReduceSum", axes, keepdims=keepdims)

    def mean(self, axes: Iterable[int], *, keepdims: bool = True) -> Value:
        """Return the mean over axes; the value itself without axes."""
        return self._reduced("ReduceMean", axes, keepdims=keepdims)

    def _reduced(self, op_type: str, axes: Iterable[int], *, keepdims: bool) -> Value:
        numbers = list(axes)
        return self.builder.op(op_type, self, self.builder.ints(numbers), keepdims=int(keepdims)) if numbers else self

    def reshape(self, *dims: int | None) -> Value:
        """Return the same elements in another shape; one dim may be -1 or unknown."""
        sizes = [-1 if dim is None else dim for dim in dims]
        if sizes.count(-1) > 1 or {-1, 0} <= set(sizes):
            raise Unmatched(f"needs a known shape; {shown(self.name)} is {self.type}; {REPAIR}")
        # Without the flag, 0 means the dim of the input.
        more = {"allowzero": 1} if 0 in sizes else {}
        return self.builder.op("Reshape", self, self.builder.ints(sizes), **more)

    def unsqueeze(self, axis: int) -> Value:
        """Return the same elements with one axis more."""
        return self.builder.op("Unsqueeze", self, self.builder.ints([axis]))

    def transpose(self, *perm: int) -> Value:
        """Return its axes in another order."""
        return self if list(perm) == sorted(perm) else self.builder.op("Transpose", self, perm=list(perm))


class NodeBuilder:
    """The standard nodes that replace one node.

    Attributes:
        context: The model.
        scope: Graph of the node.
        node: The node.
        nodes: Its replacement so far.
        overwritten: New contents of the inputs that the node overwrites, by name of the input.
    """

    def __init__(self, context: Context, scope: Scope, node: NodeProto) -> None:
        self.context = context
        self.scope = scope
        self.node = node
        self.nodes: list[NodeProto] = []
        self.overwritten: dict[str, Value] = {}

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute with the type of its default; a default of None means an absent integer."""
        given = next((entry for entry in self.node.attribute if entry.name == name), None)
        if given is None:
            return default
        wanted = _ATTRIBUTE_TYPES[type(default)]
        if given.type != wanted:
            got, expected = (AttributeProto.AttributeType.Name(kind) for kind in (given.type, wanted))
            raise Unmatched(f"has an attribute {name} of type {got}, expected {expected}")
        value = helper.get_attribute_value(given)
        return value.decode() if isinstance(value, bytes) else value

    @property
    def inputs(self) -> list[Value | None]:
        """Return inputs, in the widest of their float types; None for an absent one."""
        return [self.widened(name) if name else None for name in self.node.input]

    @cached_property
    def floats(self) -> list[str]:
        """Return float types of the inputs and the requested one, the widest first."""
        values = [Value(self, name) for name in self.node.input if name]
        words = {value.type.dtype for value in values if not self._is_number(value)}
        words.add(DTYPE_WORDS.get(self.attribute("output_type", 0)))
        if {"float16", "bfloat16"} <= words:
            words.add("float32")
        return [word for word in FLOATS if word in words]

    @property
    def dtype(self) -> str:
        """Return the dtype of the formula: the widest float type of the inputs, else that of a number or output."""
        if self.floats:
            return self.floats[0]
        names = (*self.node.input, *self.node.output)
        for name in filter(None, names):
            word = self.context.types.of(self.scope, name).dtype
            if word in FLOATS:
                return word
        raise Unmatched(f"needs a known float type; {shown(names[0])} has none")

    def widened(self, name: str) -> Value:
        """Return a value of the model, in the element type of the formula if it is a float of another one."""
        value = Value(self, name)
        if value.type.dtype not in FLOATS or self._is_number(value) or value.type.dtype == self.dtype:
            return value
        return replace(self.op("Cast", value, to=ELEMENT_TYPES[self.dtype]), origin=name)

    def narrowed(self, value: Value, name: str) -> Value:
        """Return a result in the float type of its output, if it differs."""
        if len(self.floats) < 2:
            return value
        word = Value(self, name).type.dtype
        if word is None:
            raise Unmatched(f"has several float types, and the type of {shown(name)} is unknown")
        is_cast = word in FLOATS and word != self.dtype
        return self.op("Cast", value, to=ELEMENT_TYPES[word]) if is_cast else value

    def op(self, op_type: str, *inputs: Value | float | None, **attributes: Any) -> Value:
        """Return the result of a standard node."""
        return self.ops(op_type, 1, *inputs, **attributes)[0]

    def ops(self, op_type: str, count: int, *inputs: Value | float | None, **attributes: Any) -> list[Value]:
        """Return the results of a standard node of several outputs."""
        names = [self._name(value) for value in inputs]
        results = [Value(self, self._fresh(op_type)) for _ in range(count)]
        self.nodes.append(helper.make_node(op_type, names, [value.name for value in results], **attributes))
        return results

    def ints(self, numbers: Iterable[int]) -> Value:
        """Return a list of int64."""
        return self.array(np.array(list(numbers), np.int64))

    def array(self, array: NDArray[Any]) -> Value:
        """Return a constant."""
        value = Value(self, self._fresh("constant"))
        self.nodes.append(constant(value.name, array))
        return value

    def number(self, number: float) -> Value:
        """Return a number of the element type of the node."""
        return self.numbers(number)

    def numbers(self, numbers: ArrayLike) -> Value:
        """Return numbers of the element type of the node."""
        word = self.dtype
        if word != "bfloat16":
            return self.array(np.asarray(numbers, word))
        return self.op("Cast", self.array(np.asarray(numbers, np.float32)), to=ELEMENT_TYPES[word])

    def zeros(self, dims: Sequence[int | None], shape: Value | None, live: Value) -> Value:
        """Return zeros of the element type of the node; if they are many, computed from integers that are not constant.

        Args:
            dims: Their sizes; None for unknown ones.
            shape: A value that lists the sizes; required if one is unknown.
            live: The integers.
        """
        sizes = whole(dims)
        if sizes is None:
            return self.op("Expand", 0.0, shape)
        if self.is_known(live):
            return self.numbers(np.zeros(sizes))
        least = self.op("ReduceMin", live, keepdims=0)
        return self.op("Expand", self.op("Cast", least - least, to=ELEMENT_TYPES[self.dtype]), self.ints(sizes))

    def is_known(self, value: Value) -> bool:
        """Return whether a value is constant."""
        try:
            self.known(value)
        except Unmatched:
            return False
        return True

    def known(self, value: Value) -> NDArray[Any]:
        """Return the value of a constant."""
        try:
            return self.context.constants.value(self.scope, value.name)
        except Unmatched as reason:
            raise Unmatched(f"needs a constant; {shown(value.name)} {reason}") from reason

    def sizes(self, value: Value) -> list[int | None]:
        """Return the sizes that a value lists; None for unknown ones."""
        if found := _SHAPE.find(self.context, self.scope, value.name):
            maker = found.maker(value.name)
            first, end = int_attribute(maker, "start") or 0, int_attribute(maker, "end")
            return Value(self, found.names["x"]).dims[first:end]
        return [int(size) for size in self.known(value)]

    def members(self, value: Value) -> list[Value]:
        """Return the tensors of a sequence."""
        found = _SEQUENCE.match(self.context, self.scope, value.name)
        return [self.widened(name) for name in found.maker(value.name).input]

    def require_only_reader(self, value: Value) -> None:
        """Reject an overwritten value that another node reads, because the order of both is unknown."""
        if len(self.context.view.uses(self.scope, value.name)) > 1:
            raise Unmatched(f"overwrites {shown(value.name)}, which other nodes read too")

    def _is_number(self, value: Value) -> bool:
        """Return whether a value is one constant number, of any type."""
        return value.type.shape in ((), (1,)) and self.is_known(value)

    def _fresh(self, word: str) -> str:
        base = next(filter(None, self.node.output), self.node.op_type)
        return self.context.value_names.fresh(f"{base}/{word}")

    def _name(self, value: Value | float | None) -> str:
        if value is None:
            return ""
        return value.name if isinstance(value, Value) else self.number(value).name
