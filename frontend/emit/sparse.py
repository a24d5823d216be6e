"""Make sparse constants dense, because ATC drops those of a graph and empties those of a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

from opforge.codegen.errors import UserError
from opforge.codegen.printing import first_line, shown
from opforge.frontend.ir.external import with_data
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Reason, Unmatched
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.tensor_data import BITS, data_problem, element_count
from opforge.frontend.state import State

_MAX_BYTES = 64 << 20
_CONSTANTS = (("", "Constant"), ("ai.onnx", "Constant"))


def without_sparse(view: GraphView, folder: Path | None) -> tuple[ModelProto, dict[str, Reason]]:
    """Return a model with dense instead of sparse constants, and by name the reasons for those that are kept."""
    if not any(sparse_constants(view)):
        return view.model, {}
    model = ModelProto()
    model.CopyFrom(view.model)
    stays: dict[str, Reason] = {}
    free_bytes = _MAX_BYTES

    def written(sparse: SparseTensorProto, name: str) -> TensorProto | None:
        nonlocal free_bytes
        try:
            tensor = _dense(sparse, name, folder, free_bytes)
        except Unmatched as unmatched:
            stays[name] = unmatched.reason
            return None
        free_bytes -= len(tensor.raw_data)
        return tensor

    for scope in view.over(model).scopes:
        for number, sparse in reversed(list(enumerate(_initializers(scope)))):
            if tensor := written(sparse, sparse.values.name):
                scope.body.initializer.append(tensor)  # type: ignore[union-attr]  # functions have no initializers
                del scope.body.sparse_initializer[number]  # type: ignore[union-attr]
        for node in _nodes(scope):
            if tensor := written(node.attribute[0].sparse_tensor, node.output[0]):
                node.attribute[0].CopyFrom(helper.make_attribute("value", tensor))
    return model, stays


def dense(state: State) -> State:
    """Make sparse constants dense, and warn of those that are kept."""
    model, stays = without_sparse(state.view, state.context.folder)
    view = state.view if model is state.view.model else GraphView(model, state.view.where)
    warnings = (f"sparse constant {shown(name)} stays sparse; ATC drops it: {reason}" for name, reason in stays.items())
    return replace(state, view=view, warnings=(*state.warnings, *warnings))


def sparse_constants(view: GraphView) -> Iterator[tuple[Scope, str]]:
    """Yield the sparse constants of a model by scope and name."""
    for scope in view.scopes:
        yield from ((scope, sparse.values.name) for sparse in _initializers(scope))
        yield from ((scope, node.output[0]) for node in _nodes(scope))


def _initializers(scope: Scope) -> list[SparseTensorProto]:
    return [] if isinstance(scope.body, FunctionProto) else list(scope.body.sparse_initializer)


def _nodes(scope: Scope) -> Iterator[NodeProto]:
    """Yield nodes that are a sparse constant."""
    for key in _CONSTANTS:
        for number in scope.keys.get(key, ()):
            node = scope.node(number)
            if [attribute.name for attribute in node.attribute] == ["sparse_value"] and len(node.output) == 1:
                yield node


def _dense(sparse: SparseTensorProto, name: str, folder: Path | None, free_bytes: int) -> TensorProto:
    count, bits = element_count(TensorProto(dims=sparse.dims)), BITS.get(sparse.values.data_type)
    if bits is None or count is None or count * bits > 8 * free_bytes:
        kind = TensorProto.DataType.Name(sparse.values.data_type) if bits else f"element type {sparse.values.data_type}"
        most = f"expected numbers, of at most {_MAX_BYTES >> 20} MB in all"
        raise Unmatched(f"has {kind} with dims {shown(list(sparse.dims[:9]))}, {most}")
    for tensor in (sparse.values, sparse.indices):
        if problem := data_problem(tensor):
            raise Unmatched(f"is malformed: {problem}")
        if (element_count(tensor) or 0) > count * max(len(sparse.dims), 1):
            raise Unmatched(f"is malformed: has more entries than its {count} elements")
    try:
        values, places = (numpy_helper.to_array(with_data(part, folder)) for part in (sparse.values, sparse.indices))
        # One number per entry that counts through all elements, or one per axis.
        flat = np.ravel_multi_index(tuple(places.T), tuple(sparse.dims)) if places.ndim == 2 else places
    except (ValueError, TypeError, UserError) as error:
        raise Unmatched(f"is malformed: {first_line(error)}") from error
    if flat.shape != values.shape or (flat.size and not 0 <= flat.min() <= flat.max() < count):
        raise Unmatched(f"is malformed: has {shown(flat[:9].tolist())} as indices of {count} elements")
    array = np.zeros(count, values.dtype)
    array[flat] = values
    tensor = numpy_helper.from_array(array, name)
    # numpy arrays have fewer axes than tensors may have.
    tensor.dims[:] = sparse.dims
    return tensor
