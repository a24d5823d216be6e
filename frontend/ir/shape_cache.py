"""Infer types of values from earlier nodes, for the operators that are frequent in large models.

One look at each node costs far less than shape inference by onnx, which needs a copy of the model in a separate
process. Complex cases stay unknown for onnx; the rules are those of ONNX's operator documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from math import prod

from onnx import AttributeProto, FunctionProto, TensorProto

from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import Call, ShapeInferenceError, infer

from .attributes import int_attribute, named_inputs, named_outputs, read_attributes
from .external import is_external
from .graph import GraphView
from .op_names import onnx_keys
from .reason import Unmatched
from .scope import Scope
from .tensor_type import DTYPE_WORDS, ValueType

Shape = tuple[int | None, ...]

# Since this version, arithmetic broadcasts like numpy, and Reshape and Expand have their dims as inputs.
_OPSET = 8
_MAX_RANK = 16
_CACHED = 1 << 12
_SAME = (
    *("Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log"),
    *("LogSoftmax", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sin", "Softmax", "Softplus"),
    *("Softsign", "Sqrt", "Tanh"),
)
_ARITHMETIC = ("Add", "Div", "Mul", "Sub")


class ShapeCache:
    """Types of the values of one graph, inferred on request in the order of its nodes.

    Args:
        view: The model.
        scope: The graph.
        specs: Custom operators.
        declared: Returns the declared type of a value.
    """

    def __init__(
        self, view: GraphView, scope: Scope, specs: Iterable[OpSpec], declared: Callable[[str], ValueType]
    ) -> None:
        self._scope = scope
        self._declared = declared
        # Complete types only.
        self._types = _weights(scope)
        self._next = 0
        standard = _RULES if scope.opsets.get("", 0) >= _OPSET else {}
        rules = {(domain, op_type): rule for op_type, rule in standard.items() for domain in ("", "ai.onnx")}
        rules["com.microsoft", "GatherGrad"] = _gather_grad
        rules |= {(key.domain, key.op_type): _Ours(spec) for spec in specs for key in onnx_keys(spec)}
        # By node; reading the index costs less than reading the nodes again.
        self._outputs: list[str] = [""] * len(scope.body.node)
        self._rules: list[_Rule | None] = [None] * len(scope.body.node)
        for key, numbers in scope.keys.items():
            if key in rules and key not in view.functions:
                for number in numbers:
                    self._rules[number] = rules[key]
        for name, maker in scope.makers.items():
            if maker >= 0:
                if self._outputs[maker]:
                    self._rules[maker] = None
                self._outputs[maker] = name
        values = () if isinstance(scope.body, FunctionProto) else scope.body.output
        self._stated = {value.name for value in (*values, *scope.body.value_info)}

    def of(self, name: str) -> ValueType:
        """Return the simple type of a value that a node of the graph defines; unknown for any other name."""
        self._infer(self._scope.makers.get(name, -1) + 1)
        return self._types.get(name, _UNKNOWN)

    def complete(self) -> None:
        """Infer the types of all values."""
        self._infer(len(self._rules))

    def _infer(self, end: int) -> None:
        """Infer the output types of the nodes before number `end`."""
        first = self._next
        if end <= first:
            return
        self._next = end
        scope, types = self._scope, self._types
        for number, rule, names in zip(range(first, end), self._rules[first:end], scope.inputs[first:end], strict=True):
            if rule is None:
                continue
            inputs = [known for name in names if (known := types.get(name) or self._read(name))]
            found = rule(scope, number, inputs) if 0 < len(inputs) == len(names) else None
            if found is not None:
                output = self._outputs[number]
                types[output] = self._declared(output).or_else(found) if output in self._stated else found

    def _read(self, name: str) -> ValueType | None:
        """Return the declared type of a value without tried rules."""
        known = self._declared(name) if name in self._scope.makers else _UNKNOWN
        if not known.complete:
            return None
        self._types[name] = known
        return known


class _Ours:
    """Infers the output type of a custom operator from its input types; cached, because many nodes have equal types."""

    def __init__(self, spec: OpSpec) -> None:
        self._spec = spec
        self._known: dict[Hashable, ValueType | None] = {}

    def __call__(self, scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
        node = scope.node(number)
        try:
            names, outputs = tuple(named_inputs(self._spec, node)), tuple(named_outputs(self._spec, node))
            attrs = read_attributes(node, self._spec)
        except Unmatched:
            return None
        key = (tuple(inputs), names, outputs, tuple(attrs.items()))
        if key not in self._known:
            self._known[key] = self._infer(dict(zip(names, inputs, strict=False)), attrs, outputs)
        return self._known[key]

    def _infer(
        self, inputs: Mapping[str, ValueType], attrs: Mapping[str, AttrValue], outputs: Sequence[str]
    ) -> ValueType | None:
        shapes, dtypes = ({n: t.shape for n, t in inputs.items()}, {n: t.dtype for n, t in inputs.items()})
        try:
            found = infer(self._spec, Call(shapes=shapes, dtypes=dtypes, attrs=attrs)).get(outputs[0])
        except ShapeInferenceError:
            return None
        if found is None:
            return None
        dims = None if found.shape is None else tuple(dim if dim >= 0 else None for dim in found.shape)
        return _typed(found.dtype, dims)


_Rule = Callable[[Scope, int, Sequence[ValueType]], ValueType | None]
_UNKNOWN = ValueType()


def _dims(scope: Scope, name: str) -> tuple[int, ...] | None:
    """Return the dims in a constant of a graph."""
    tensor = scope.initializer(name)
    if tensor is None or tensor.data_type != TensorProto.INT64 or len(tensor.dims) != 1 or is_external(tensor):
        return None
    raw, (count,) = tensor.raw_data, tensor.dims
    if count > _MAX_RANK or (len(raw) != 8 * count if raw else len(tensor.int64_data) != count):
        return None
    return struct.unpack(f"<{count}q", raw) if raw else tuple(tensor.int64_data)


def _weights(scope: Scope) -> dict[str, ValueType]:
    """Return types of the initializers that are not inputs."""
    if isinstance(scope.body, FunctionProto):
        return {}
    known: dict[tuple[int, tuple[int, ...]], ValueType] = {}
    found = {}
    for tensor in scope.body.initializer:
        key = (tensor.data_type, tuple(tensor.dims[:]))
        if key not in known:
            known[key] = ValueType(DTYPE_WORDS.get(key[0]), key[1] if min(key[1], default=0) >= 0 else None)
        if known[key].complete:
            found[tensor.name] = known[key]
    for name in scope.defaulted_inputs:
        found.pop(name, None)
    return found


def _same(_scope: Scope, _number: int, inputs: Sequence[ValueType]) -> ValueType:
    return inputs[0]


def _cast(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    node = scope.node(number)
    numbers = [a.i for a in node.attribute if a.name == "to" and a.type == AttributeProto.INT and not a.ref_attr_name]
    return _typed(DTYPE_WORDS.get(numbers[0]), inputs[0].shape) if len(numbers) == 1 else None


def _arithmetic(_scope: Scope, _number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    if len(inputs) != 2 or inputs[0].dtype != inputs[1].dtype:
        return None
    first, second = inputs
    return first if first.shape == second.shape else _typed(first.dtype, _broadcast(first.shape, second.shape))


def _matmul(_scope: Scope, _number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    if len(inputs) != 2 or inputs[0].dtype != inputs[1].dtype:
        return None
    return _typed(inputs[0].dtype, _product(inputs[0].shape, inputs[1].shape))


def _reshape(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    dims = _dims(scope, scope.inputs[number][1]) if len(inputs) == 2 else None
    return None if dims is None else _typed(inputs[0].dtype, _reshaped(inputs[0].shape, dims))


def _expand(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    dims = _dims(scope, scope.inputs[number][1]) if len(inputs) == 2 else None
    if dims is None or min(dims, default=0) < 0:
        return None
    return _typed(inputs[0].dtype, _broadcast(inputs[0].shape, dims))


def _transpose(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    node, shape = scope.node(number), inputs[0].shape or ()
    perms = [list(a.ints) for a in node.attribute if a.name == "perm" and a.type == AttributeProto.INTS]
    axes = perms[0] if perms else list(range(len(shape)))[::-1]
    if sorted(axes) != list(range(len(shape))) or len(node.attribute) > len(perms):
        return None
    return _typed(inputs[0].dtype, tuple(shape[axis] for axis in axes))


def _shape(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    return None if scope.node(number).attribute else _typed("int64", (len(inputs[0].shape or ()),))


def _gather(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    node, shapes = scope.node(number), [known.shape or () for known in inputs]
    if len(shapes) != 2 or any(attribute.ref_attr_name for attribute in node.attribute):
        return None
    (data, indices), axis = shapes, int_attribute(node, "axis") or 0
    if not -len(data) <= axis < len(data):
        return None
    axis %= len(data)
    return _typed(inputs[0].dtype, (*data[:axis], *indices, *data[axis + 1 :]))


def _gather_grad(scope: Scope, number: int, inputs: Sequence[ValueType]) -> ValueType | None:
    """Return the type of a table whose shape is the first input; if that is computed, only its rank is known."""
    if len(inputs) != 3 or len(inputs[0].shape or ()) != 1:
        return None
    dims = _dims(scope, scope.inputs[number][0])
    (rank,) = inputs[0].shape or ()
    if dims is None:
        return _typed(inputs[2].dtype, None if rank is None or rank > _MAX_RANK else (None,) * rank)
    return _typed(inputs[2].dtype, dims) if min(dims, default=0) >= 0 else None


@lru_cache(_CACHED)
def _typed(dtype: str | None, shape: Shape | None) -> ValueType | None:
    return None if dtype is None or shape is None else ValueType(dtype, shape)


@lru_cache(_CACHED)
def _broadcast(first: Shape | None, second: Shape | None) -> Shape | None:
    """Return the broadcast shape of two shapes; None if they do not match."""
    dims = []
    for pair in zip_longest(reversed(first or ()), reversed(second or ()), fillvalue=1):
        known = {size for size in pair if size not in (None, 1)}
        if len(known) > 1:
            return None
        # With a size other than 1, an unknown one can be 1 or equal.
        dims.append(known.pop() if known else None if None in pair else 1)
    return tuple(reversed(dims))


@lru_cache(_CACHED)
def _product(first: Shape | None, second: Shape | None) -> Shape | None:
    """Return the shape of a matrix product, also of batches; None if the shapes do not match."""
    if first is None or second is None or len(first) < 2 or len(second) < 2:
        return None
    if first[-1] != second[-2] and None not in (first[-1], second[-2]):
        return None
    outer = _broadcast(first[:-2], second[:-2])
    return None if outer is None else (*outer, first[-2], second[-1])


@lru_cache(_CACHED)
def _reshaped(shape: Shape | None, dims: tuple[int, ...]) -> Shape | None:
    """Return the shape for `dims`; None if they do not match, or copy a size."""
    if 0 in dims or min(dims, default=1) < -1 or dims.count(-1) > 1:
        return None
    known = prod(dim for dim in dims if dim > 0)
    total = None if shape is None or None in shape else prod(size for size in shape if size is not None)
    if total is not None and (total % known if -1 in dims else total != known):
        return None
    rest = None if total is None else total // known
    return tuple(rest if dim == -1 else dim for dim in dims)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    "Cast": _cast,
    "Expand": _expand,
    "Gather": _gather,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Shape": _shape,
    "Transpose": _transpose,
}
