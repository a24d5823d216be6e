"""Evaluate constant values that exporters compute by nodes.

`emit/fold.py` also uses onnx's evaluator. Rules use this one very often, for shapes and indices. It needs no separate
process: it supports few types, and rejects large results before they are created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line, shown

from .attributes import int_attribute
from .external import is_external, with_data
from .reason import Malformed, Unmatched
from .scope import INPUT, Scope, normal_domain
from .tensor_data import data_problem, element_count
from .tensor_type import DTYPE_WORDS
from .value_types import ValueTypes

Constant = NDArray[np.generic]

# Shapes, axes and group ends are small; large arrays are not evaluated.
_MAX_ELEMENTS = 1 << 16
_MAX_BYTES = 32 << 20
_MAX_CHAIN = 64


class Constants:
    """Evaluates values that only depend on initializers, `Constant` nodes and static shapes.

    Args:
        types: Types of the model's values, for `Shape`.
        folder: Folder of the model, for external data; None if it is not known.
    """

    def __init__(self, types: ValueTypes, folder: Path | None = None) -> None:
        self._types = types
        self._folder = folder
        self._known: dict[tuple[int, str], Constant | Unmatched] = {}
        self._held = 0

    def value(self, scope: Scope, name: str, depth: int = 0) -> Constant:
        """Return the value of a name that is visible in `scope`.

        Raises:
            Unmatched: It depends on an input, is too large, or is computed by an unsupported node; Malformed if it
                depends on a tensor with contradictory type, dims and data.
        """
        found = scope.find(name) if name else None
        if found is None:
            raise Unmatched("is absent")
        owner, maker = found
        key = owner.number, name
        if key not in self._known:
            try:
                self._known[key] = self._evaluate(owner, maker, name, depth)
            except Unmatched as reason:
                self._known[key] = reason.with_traceback(None)
        known = self._known[key]
        if isinstance(known, Unmatched):
            # A cached error is raised many times; without this, Python would extend its traceback each time.
            raise known.with_traceback(None)
        return known

    def find(self, scope: Scope, name: str) -> Constant | None:
        """Return the value of a name; None if it is not constant."""
        try:
            return self.value(scope, name)
        except Unmatched:
            return None

    def required(self, scope: Scope, name: str, role: str) -> Constant:
        """Return the value of a name that must be constant; `role` names it in the message.

        Raises:
            Unmatched: It is not constant.
        """
        try:
            return self.value(scope, name)
        except Unmatched as reason:
            raise Unmatched(f"{role} must be constant; {shown(name)} {reason}") from reason

    def _evaluate(self, scope: Scope, maker: int, name: str, depth: int) -> Constant:
        if depth > _MAX_CHAIN:
            raise Unmatched(f"is computed by more than {_MAX_CHAIN} nodes")
        if maker < 0:
            tensor = scope.initializer(name)
            if tensor is None:
                raise Unmatched("is an input" if maker == INPUT else "is an input with a default value")
            return self._tensor(tensor)
        node = scope.node(maker)
        rule = _EVALUATORS.get(node.op_type) if normal_domain(node.domain) == "" else None
        if rule is None or len(node.output) != 1:
            raise Unmatched(f"is computed by {node.op_type} at run time")
        try:
            value = rule(self, scope, node, depth + 1)
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            raise Unmatched(f"comes from a malformed {node.op_type}: {first_line(error)}") from error
        if value.size > _MAX_ELEMENTS:
            raise Unmatched(f"has {value.size} elements, more than {_MAX_ELEMENTS}")
        self._held += value.nbytes
        if self._held > _MAX_BYTES:
            raise Unmatched(f"is one of too many constants, which have more than {_MAX_BYTES >> 20} MB in all")
        return value

    def _tensor(self, tensor: TensorProto) -> Constant:
        if problem := data_problem(tensor):
            raise Malformed(f"is a malformed tensor: {problem}")
        count = element_count(tensor)
        if count is None or count > _MAX_ELEMENTS:
            raise Unmatched(f"has dims {shown(list(tensor.dims[:9]))}, expected at most {_MAX_ELEMENTS} elements")
        if tensor.data_type == TensorProto.STRING:
            raise Unmatched("has strings")
        try:
            if is_external(tensor) and self._folder is None:
                raise Unmatched("is external data of a model without a folder")
            return numpy_helper.to_array(with_data(tensor, self._folder))
        except (ValueError, TypeError, UserError) as error:
            raise Malformed(f"is a malformed tensor: {first_line(error)}") from error

    def constant_node(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """Return the value of `Constant` in all its spellings."""
        del scope, depth
        if len(node.attribute) != 1 or node.attribute[0].ref_attr_name:
            raise Unmatched("is a Constant without exactly one value")
        attribute = node.attribute[0]
        match attribute.name:
            case "value":
                return self._tensor(attribute.t)
            case "value_int":
                return np.array(attribute.i, np.int64)
            case "value_ints":
                return np.array(attribute.ints, np.int64)
            case "value_float":
                return np.array(attribute.f, np.float32)
            case "value_floats":
                return np.array(attribute.floats, np.float32)
        raise Unmatched(f"is a Constant of kind {attribute.name}")

    def shape_node(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """Return `Shape` of a value with known dims, with `start` and `end`."""
        del depth
        shape = self._types.of(scope, node.input[0]).shape
        start, end = int_attribute(node, "start") or 0, int_attribute(node, "end")
        dims = None if shape is None else shape[start:end]
        if dims is None or None in dims:
            raise Unmatched("is the shape of a value whose dims are not known")
        return np.array(dims, np.int64)

    def size_node(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """Return `Size` of a value with known dims."""
        return np.array(prod(self.shape_node(scope, node, depth).tolist()), np.int64)

    def identity(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Identity`."""
        return self.value(scope, node.input[0], depth)

    def cast(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """Return `Cast` between the types of shapes and scalars."""
        word = DTYPE_WORDS.get(int_attribute(node, "to") or 0)
        if word not in {"int32", "int64", "float32", "bool"}:
            raise Unmatched(f"is a Cast to {word}")
        return self.value(scope, node.input[0], depth).astype(word)

    def gather(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Gather`."""
        data, indices = (self.value(scope, name, depth) for name in node.input)
        if data.size and indices.size > _MAX_ELEMENTS // data.size:
            raise Unmatched("is a Gather of too many elements")
        return np.take(data, indices.astype(np.int64), axis=int_attribute(node, "axis") or 0)

    def slice(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Slice` with its limits as attributes (to opset 9) or inputs."""
        data = self.value(scope, node.input[0], depth)
        starts, ends, axes, steps = self.slice_limits(scope, node, depth)
        if starts is None or ends is None:
            raise Unmatched("is a Slice without limits")
        index = [slice(None)] * data.ndim
        for n, axis in enumerate(range(len(starts)) if axes is None else axes):
            step = 1 if steps is None else steps[n]
            # If numpy would begin before the first element, ONNX begins at it.
            start = max(starts[n], -data.shape[axis]) if step < 0 else starts[n]
            index[axis] = slice(start, ends[n], step)
        return data[tuple(index)]

    def slice_limits(self, scope: Scope, node: NodeProto, depth: int = 0) -> list[list[int] | None]:
        """Starts, ends, axes and steps of a `Slice`; raises as `numbers` does."""
        names = ("starts", "ends", "axes", "steps")
        return [self.numbers(scope, node, name, position, depth) for position, name in enumerate(names, start=1)]

    def squeeze(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Squeeze` with axes as attribute (to opset 12) or input."""
        axes = self.numbers(scope, node, "axes", 1, depth)
        return np.squeeze(self.value(scope, node.input[0], depth), None if axes is None else tuple(axes))

    def unsqueeze(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Unsqueeze` with axes as attribute (to opset 12) or input."""
        axes = self.numbers(scope, node, "axes", 1, depth)
        if axes is None or len(axes) > 8:
            raise Unmatched("is an Unsqueeze without axes")
        return np.expand_dims(self.value(scope, node.input[0], depth), tuple(axes))

    def reshape(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Reshape`."""
        dims = self.numbers(scope, node, "shape", 1, depth)
        data = self.value(scope, node.input[0], depth)
        if dims is None or len(dims) > 8:
            raise Unmatched("is a Reshape without a shape")
        if not int_attribute(node, "allowzero"):
            dims = [data.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
        return data.reshape(dims)

    def transpose(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Transpose`."""
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
        return np.transpose(self.value(scope, node.input[0], depth), perm)

    def constant_of_shape(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`ConstantOfShape` of few elements."""
        dims = self.numbers(scope, node, "input", 0, depth)
        if dims is None or min(dims, default=0) < 0 or prod(dims) > _MAX_ELEMENTS:
            raise Unmatched(f"is a ConstantOfShape of {shown(dims)}")
        fill = [self._tensor(a.t) for a in node.attribute if a.name == "value"] or [np.zeros(1, np.float32)]
        return np.full(dims, fill[0].reshape(-1)[0], fill[0].dtype)

    def range_node(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Range` of few elements."""
        values = [self.value(scope, name, depth).reshape(()) for name in node.input]
        start, limit, step = (value.item() for value in values)
        if not step or not np.isfinite([start, limit, step]).all():
            raise Unmatched(f"is a Range from {start} to {limit} by {step}")
        count = max(ceil((limit - start) / step), 0)
        if count > _MAX_ELEMENTS:
            raise Unmatched(f"is a Range of {count} elements, more than {_MAX_ELEMENTS}")
        return np.add(values[0], np.multiply(np.arange(count).astype(values[0].dtype), values[2]))

    def expand(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Expand` to few elements."""
        data, dims = self.value(scope, node.input[0], depth), self.numbers(scope, node, "shape", 1, depth)
        return np.broadcast_to(data, _small(data.shape, tuple(dims or ()))).copy()

    def where(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Where` of small values."""
        condition, first, second = (self.value(scope, name, depth) for name in node.input)
        _small(condition.shape, first.shape, second.shape)
        return np.where(condition.astype(bool), first, second)

    def unary(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """Return a function of one value, element by element."""
        return np.asarray(_UNARY[node.op_type](self.value(scope, node.input[0], depth)))

    def elementwise(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """Arithmetic of two small values of one type; integers wrap around as at run time."""
        first, second = (self.value(scope, name, depth) for name in node.input)
        if first.dtype != second.dtype:
            raise Unmatched(f"is a {node.op_type} of {first.dtype} and {second.dtype}")
        _small(first.shape, second.shape)
        with np.errstate(all="ignore"):
            return np.asarray(_ARITHMETIC[node.op_type](first, second))

    def concat(self, scope: Scope, node: NodeProto, depth: int) -> Constant:
        """`Concat`."""
        values = [self.value(scope, name, depth) for name in node.input]
        if (count := sum(value.size for value in values)) > _MAX_ELEMENTS:
            raise Unmatched(f"is a Concat of {count} elements, more than {_MAX_ELEMENTS}")
        return np.concatenate(values, int_attribute(node, "axis") or 0)

    def numbers(self, scope: Scope, node: NodeProto, name: str, position: int, depth: int = 0) -> list[int] | None:
        """Return integers that were an attribute in old opsets and are an input in newer ones; None if absent.

        Raises:
            Unmatched: The input is present but computed at run time.
        """
        for attribute in node.attribute:
            if attribute.name == name and attribute.type == AttributeProto.INTS:
                return list(attribute.ints)
        if position >= len(node.input) or not node.input[position]:
            return None
        value = self.value(scope, node.input[position], depth)
        if value.ndim > 1 or value.dtype.kind not in "iu":
            raise Unmatched(f"has {value.ndim} dims of {value.dtype}, expected a list of integers")
        return [int(number) for number in value.reshape(-1)]

    def axes(self, scope: Scope, node: NodeProto, like: Sequence[int] = ()) -> list[int] | None:
        """Return `axes` of a `ReduceSum`, `Squeeze` or `Unsqueeze`; None if absent, `like` for the same axes.

        Raises:
            Unmatched: They are not constant.
        """
        try:
            axes = self.numbers(scope, node, "axes", 1)
        except Unmatched as reason:
            raise Unmatched(f"the axes of {node.op_type} must be constant; {shown(node.input[1])} {reason}") from reason
        if not axes or not like or axes == list(like):
            return axes
        shape = self._types.of(scope, node.output[0] if node.op_type == "Unsqueeze" else node.input[0]).shape or ()
        return list(like) if _from_front(axes, len(shape)) == _from_front(like, len(shape)) else axes


def _from_front(axes: Sequence[int], rank: int) -> Sequence[int]:
    return [axis % rank for axis in axes] if all(-rank <= axis < rank for axis in axes) else axes


def _small(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which shapes are broadcast.

    Raises:
        Unmatched: It has too many elements.
    """
    shape = np.broadcast_shapes(*shapes)
    if prod(shape) > _MAX_ELEMENTS:
        raise Unmatched(f"has {prod(shape)} elements, more than {_MAX_ELEMENTS}")
    return shape


def _divide(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Divide as in ONNX: integer division truncates."""
    if first.dtype.kind not in "iu":
        return np.asarray(np.divide(first, second))
    if not second.all():
        raise Unmatched("divides an integer by 0")
    return np.asarray(np.where((first < 0) ^ (second < 0), -(abs(first) // abs(second)), abs(first) // abs(second)))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Div": _divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
_UNARY: dict[str, Callable[[Any], Any]] = {"Neg": np.negative, "Not": np.logical_not}
_EVALUATORS: dict[str, Callable[[Constants, Scope, NodeProto, int], Constant]] = {
    **dict.fromkeys(_ARITHMETIC, Constants.elementwise),
    **dict.fromkeys(_UNARY, Constants.unary),
    "Cast": Constants.cast,
    "Concat": Constants.concat,
    "Constant": Constants.constant_node,
    "ConstantOfShape": Constants.constant_of_shape,
    "Expand": Constants.expand,
    "Gather": Constants.gather,
    "Identity": Constants.identity,
    "Range": Constants.range_node,
    "Reshape": Constants.reshape,
    "Shape": Constants.shape_node,
    "Size": Constants.size_node,
    "Slice": Constants.slice,
    "Squeeze": Constants.squeeze,
    "Transpose": Constants.transpose,
    "Unsqueeze": Constants.unsqueeze,
    "Where": Constants.where,
}
