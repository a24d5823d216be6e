"""Return declared or inferred types of values: element type and dims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import onnx.checker
import onnx.helper
import onnx.shape_inference
from google.protobuf.message import DecodeError
from onnx import FunctionProto, GraphProto, ModelProto, TypeProto

from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line
from opforge.codegen.process_limits import LimitError
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.limits import in_child, limits_for, parsing

from .external import is_external
from .graph import GraphView
from .reason import Reason
from .scope import Scope, normal_domain
from .tensor_data import data_problem
from .tensor_type import DTYPE_WORDS, ValueType, type_problem, value_type

if TYPE_CHECKING:
    from .shape_cache import ShapeCache

# Larger initializers are only declared by type in the model for shape inference; none of them is a shape or axis.
_INFERENCE_BYTES = 4096
# Shape inference expands every call of a local function; functions that call each other twice grow exponentially.
MAX_EXPANDED_NODES = 200_000


class ValueTypes:
    """Types of the values of a model.

    What the model declares is used first, then simple types. onnx's shape inference runs at most once, and only when a
    type is still unknown.

    Args:
        view: Index of the model.
        specs: Custom operators that shape inference supports.
    """

    def __init__(self, view: GraphView, specs: Sequence[OpSpec] = ()) -> None:
        self._view = view
        self._specs = specs
        self._caches: dict[int, ShapeCache] = {}
        self.inference_error = ""

    def over(self, view: GraphView) -> ValueTypes:
        """Return the types of a copy of the model with other node spellings and additional constants."""
        types = ValueTypes(view, self._specs)
        types.inference_error = self.inference_error
        if "_inferred" in self.__dict__:
            types.__dict__["_inferred"] = self._inferred
        return types

    def infer(self, scope: Scope) -> None:
        """Infer the simple types of all values of a graph."""
        self._shape_cache(scope).complete()

    def of(self, scope: Scope, name: str) -> ValueType:
        """Return the type of a value that is visible in `scope`."""
        found = scope.find(name) if name else None
        if found is None:
            return ValueType()
        owner, maker = found
        known = self._declared_type(owner, name)
        if known.complete or maker < 0:
            return known
        near = known.or_else(self._shape_cache(owner).of(name))
        return near if near.complete else known.or_else(self._inferred.type_of(owner, name))

    def symbols(self, scope: Scope, name: str) -> tuple[str, ...]:
        """Return names of the sizes of a value in the model, "" for none; equal names are equal sizes."""
        proto = self._declared.proto(scope, name)
        return () if proto is None else tuple(dim.dim_param for dim in proto.tensor_type.shape.dim)

    def problem(self, scope: Scope, name: str) -> Reason | None:
        """Return why a value visible in `scope` is not a tensor: "got .., expected .."; None if unknown."""
        found = scope.find(name) if name else None
        if found is None:
            return None
        owner, maker = found
        declarations = (
            [self._declared] if maker < 0 or self.of(scope, name).complete else [self._declared, self._inferred]
        )
        for known in declarations:
            proto = known.proto(owner, name)
            if proto is not None and (problem := type_problem(proto)):
                return problem
        if isinstance(owner.body, GraphProto) and name in owner.initializers:
            return data_problem(owner.body.initializer[owner.initializers[name]])
        if maker < 0 or (normal_domain(owner.node(maker).domain), owner.node(maker).op_type) != ("", "Constant"):
            return None
        tensors = (attribute.t for attribute in owner.node(maker).attribute if attribute.HasField("t"))
        return next(filter(None, map(data_problem, tensors)), None)

    def _shape_cache(self, scope: Scope) -> ShapeCache:
        if scope.number not in self._caches:
            from .shape_cache import ShapeCache

            declared = partial(self._declared_type, scope)
            self._caches[scope.number] = ShapeCache(self._view, scope, self._specs, declared)
        return self._caches[scope.number]

    def _declared_type(self, scope: Scope, name: str) -> ValueType:
        tensor = scope.initializer(name)
        if tensor is not None:
            return ValueType(DTYPE_WORDS.get(tensor.data_type), tuple(tensor.dims))
        return self._declared.type_of(scope, name)

    @cached_property
    def _declared(self) -> _Declarations:
        return _Declarations(scope.body for scope in self._view.scopes)

    @cached_property
    def _inferred(self) -> _Declarations:
        from .schemas import registered

        # No variable references the skeleton, so its memory is free before the result is parsed.
        has_subgraphs = any(scope.captures for scope in self._view.scopes)
        try:
            with registered(self._specs):
                model = _infer_shapes(_skeleton(self._view.model).SerializeToString(), has_subgraphs)
        except _InferenceError as error:
            # A model that onnx rejects is still converted; values with unknown types have this reason.
            self.inference_error = first_line(error)
            return _Declarations(())
        # If the functions of a model are too large, they are not in the skeleton, which ends before them.
        return _Declarations(self._view.bodies(model))


class _InferenceError(Exception):
    """The reason why onnx cannot infer the shapes of a model."""


def _infer_shapes(data: bytes, has_subgraphs: bool) -> ModelProto:
    """Infer shapes with onnx in a separate process, because some models crash it or take hours.

    The result contains nodes only if subgraphs are declared in them.
    """

    def work() -> bytes:
        try:
            model = onnx.shape_inference.infer_shapes(data)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
            raise UserError(first_line(error)) from error
        if not has_subgraphs:
            del model.graph.node[:]
        return model.SerializeToString()

    try:
        answer = in_child(work, limits_for(len(data)))
        with parsing(len(answer)):
            return ModelProto.FromString(answer)
    except (LimitError, DecodeError, UserError) as error:
        raise _InferenceError(str(error)) from error


class _Declarations:
    """Declared types by scope number and name; the names of a scope are indexed at the first lookup."""

    def __init__(self, bodies: Iterable[GraphProto | FunctionProto]) -> None:
        self._bodies = list(bodies)
        self._indexed: dict[int, dict[str, TypeProto]] = {}

    def type_of(self, scope: Scope, name: str) -> ValueType:
        proto = self.proto(scope, name)
        return ValueType() if proto is None else value_type(proto)

    def proto(self, scope: Scope, name: str) -> TypeProto | None:
        if scope.number >= len(self._bodies):
            return None
        if scope.number not in self._indexed:
            self._indexed[scope.number] = _declarations(self._bodies[scope.number])
        return self._indexed[scope.number].get(name)


def _declarations(body: GraphProto | FunctionProto) -> dict[str, TypeProto]:
    if isinstance(body, FunctionProto):
        return {value.name: value.type for value in body.value_info}
    return {value.name: value.type for values in (body.output, body.value_info, body.input) for value in values}


def _skeleton(model: ModelProto) -> ModelProto:
    """Return a copy of a model without its weights: large initializers become graph inputs of the same type."""
    graph = model.graph
    copy = ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    copy.graph.name = graph.name
    copy.graph.node.extend(graph.node)
    copy.graph.output.extend(graph.output)
    copy.graph.value_info.extend(graph.value_info)
    copy.graph.input.extend(graph.input)
    copy.graph.sparse_initializer.extend(graph.sparse_initializer)
    names = {value.name for value in graph.input}
    for tensor in graph.initializer:
        is_small = not is_external(tensor) and tensor.ByteSize() <= _INFERENCE_BYTES
        if is_small and min(tensor.dims, default=0) >= 0:
            copy.graph.initializer.append(tensor)
        elif tensor.name not in names:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    if expanded_nodes(model) <= MAX_EXPANDED_NODES:
        copy.functions.extend(model.functions)
    _forget_negative_dims(copy)
    return copy


def _forget_negative_dims(model: ModelProto) -> None:
    """Replace negative sizes by unknown ones: onnx's inference of `Slice` crashes for them."""
    bodies: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while bodies:
        body = bodies.pop()
        values = list(body.value_info)
        if isinstance(body, GraphProto):
            values += [*body.input, *body.output]
        for value in values:
            for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                if dim.dim_value < 0:
                    dim.Clear()
        bodies += [graph for node in body.node for a in node.attribute for graph in (a.g, *a.graphs) if graph.node]


def expanded_nodes(model: ModelProto) -> int:
    """Count the nodes after inlining of local functions; recursion counts as more than the limit."""
    calls = {(normal_domain(f.domain), f.name): Counter(_node_keys(f)) for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    entered: set[tuple[str, str]] = set()
    stack = list(calls)
    while stack:
        key = stack[-1]
        if key in sizes:
            stack.pop()
            continue
        waiting = [callee for callee in calls[key] if callee in calls and callee not in sizes]
        if not waiting:
            size = sum(count * (1 + sizes.get(callee, 0)) for callee, count in calls[key].items())
            sizes[key] = min(size, MAX_EXPANDED_NODES + 1)
            stack.pop()
        elif key in entered:
            return MAX_EXPANDED_NODES + 1
        else:
            entered.add(key)
            stack += waiting
    return sum(sizes.get(key, 0) for key in _node_keys(model.graph)) if sizes else 0


def _node_keys(body: FunctionProto | GraphProto) -> list[tuple[str, str]]:
    """Return (domain, op type) of all nodes, including those of subgraphs."""
    found: list[tuple[str, str]] = []
    bodies = [body]
    while bodies:
        for node in bodies.pop().node:
            found.append((normal_domain(node.domain), node.op_type))
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    bodies.append(attribute.g)
                bodies += attribute.graphs
    return found
