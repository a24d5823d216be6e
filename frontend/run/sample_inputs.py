"""Generate inputs of a model that are valid for its custom operators."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.spec.semantics import Call
from opforge.frontend.conversion import Conversion
from opforge.frontend.io.arrays import InputType, input_types
from opforge.frontend.ir.attributes import named_inputs
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.operators import project_specs
from opforge.twin.samples import valid_values

from .comparison import is_float

Array = NDArray[Any]
# Size of an unknown dim.
OPEN_DIM = 4
_SEED = 20
# Maximum size of a generated array: 2 GiB of random numbers.
_MOST_ELEMENTS = 1 << 28
_MATRIX = 2
# Nodes that return values unchanged, or with another type or shape.
_PASSING = {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
# Maximum nodes between an input and a value that must be positive, and maximum number of checked nodes.
_BETWEEN = _PASSING | {"Add", "Mul"}
_MOST_BETWEEN = 3
# Nodes that multiply by weights, their second operand.
_PRODUCTS = {"Conv", "ConvTranspose", "FusedMatMul", "Gemm", "MatMul"}


def sample_inputs(model: ModelProto, conversion: Conversion) -> dict[str, Array]:
    """Return seeded arrays for the inputs of a model, valid for its operators: indices, ascending ends, and so on."""
    generator = np.random.default_rng(_SEED)
    sizes: dict[str, int] = {}
    arrays = {
        name: _plain(name, kind, tuple(_size(dim, sizes) for dim in kind.dims or ()), generator)
        for name, kind in input_types(model).items()
        if not kind.optional
    }
    for name in _positive(conversion.model) & arrays.keys():
        # A root of a negative number or a step 0 would give NaN before and after, which proves nothing.
        array = arrays[name]
        arrays[name] = np.maximum(array, 1) if array.dtype.kind in "iu" else (abs(array) + 0.1).astype(array.dtype)
    for name in _weights(model) & arrays.keys():
        if is_float((array := arrays[name]).dtype) and array.ndim > 1:
            # Like initializers: a product keeps the magnitude of its input, and a later softmax is not 0 almost
            # everywhere.
            fan_in = max(array.shape[-2:]) if array.ndim == _MATRIX else prod(array.shape[1:])
            arrays[name] = (array / sqrt(max(fan_in, 1))).astype(array.dtype)
    specs = {spec.op_type: spec for spec in project_specs()}
    view = GraphView(conversion.model)
    types = ValueTypes(view, list(specs.values()))
    scopes = {node.name: scope for scope in view.scopes for node in scope.body.node if node.name}
    for entry in conversion.mapped:
        if entry.node not in scopes:
            continue
        spec, scope = specs[entry.op], scopes[entry.node]
        node = next(node for node in scope.body.node if node.name == entry.node)
        given = {parameter: name for parameter, name in named_inputs(spec, node).items() if name}
        origins = {parameter: _origin(scope, name) for parameter, name in given.items()}
        made = {parameter: arrays[name].shape for parameter, name in origins.items() if name in arrays}
        shapes = {parameter: types.of(scope, name).shape for parameter, name in given.items()} | made
        call = Call(shapes, attrs=entry.attrs)
        for parameter, name in origins.items():
            if name in arrays:
                arrays[name] = valid_values(spec, parameter, arrays[name], call, generator)
    return arrays


def _size(dim: int | str | None, sizes: dict[str, int]) -> int:
    return dim if isinstance(dim, int) else sizes.setdefault(dim, OPEN_DIM) if dim else OPEN_DIM


def _plain(name: str, kind: InputType, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    dtype = kind.dtype if kind.dtype is not None else np.dtype(np.float32)
    if (count := prod(shape)) > _MOST_ELEMENTS:
        raise UserError(
            f"input {shown(name)}: got {count} elements, expected at most {_MOST_ELEMENTS} in a generated input;"
            " give the model smaller sizes for the comparison"
        )
    try:
        # 0 and 1 are valid for most indices, counts and sizes.
        numbers = generator.integers(0, 2, shape) if dtype.kind in "biu" else generator.standard_normal(shape)
    except ValueError as error:
        raise UserError(
            f"input {shown(name)}: got the shape {shown(list(shape[:9]))}, expected one that NumPy supports"
        ) from error
    return numbers.astype(dtype)


def _positive(model: ModelProto) -> set[str]:
    """Return inputs that must be positive: exponents (step counts), and operands of roots, also in sums or products."""
    makers = {name: node for node in model.graph.node for name in node.output}
    names = {name for node in model.graph.node if node.op_type == "Sqrt" for name in node.input}
    names |= {node.input[1] for node in model.graph.node if node.op_type == "Pow" and len(node.input) > 1}
    found = set(names)
    for _ in range(_MOST_BETWEEN):
        nodes = [makers[name] for name in names if name in makers]
        names = {name for node in nodes if node.op_type in _BETWEEN for name in node.input} - found
        found |= names
    return found


def _weights(model: ModelProto) -> set[str]:
    """Return inputs that are second operands of matrix products and convolutions, also transposed."""
    main = GraphView(model).main
    return {
        _origin(main, node.input[1])
        for node in model.graph.node
        if node.op_type in _PRODUCTS and len(node.input) > 1 and node.input[1]
    }


def _origin(scope: Scope, name: str) -> str:
    """Return the input of which a value is an unchanged copy."""
    found = scope.find(name)
    while found is not None and found[1] >= 0:
        node = found[0].node(found[1])
        if node.op_type not in _PASSING or not node.input:
            break
        name = node.input[0]
        found = found[0].find(name)
    return name
