"""Define the formulas of onnxruntime's matrix products, and of gradients that only move or scale elements."""

from __future__ import annotations

from math import prod

import numpy as np

from opforge.codegen.printing import shown
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.rules.node_builder import REPAIR, NodeBuilder, Value, whole

from .formula import formula


@formula("FusedMatMul")
def _fused_matmul(builder: NodeBuilder, a: Value, b: Value) -> Value:
    product = builder.op("MatMul", _turned(builder, a, "A"), _turned(builder, b, "B"))
    alpha = builder.attribute("alpha", 1.0)
    return product if alpha == 1.0 else product * alpha


def _turned(builder: NodeBuilder, value: Value, side: str) -> Value:
    """Return a transposed operand: `transBatch` moves its first axis after the batch, `trans` swaps the last two."""
    is_batch, is_turned = builder.attribute(f"transBatch{side}", 0), builder.attribute(f"trans{side}", 0)
    if not is_batch and not is_turned:
        return value
    rank = value.rank
    if rank < 2:
        return value
    batch, rows, columns = (
        ([*range(1, rank - 1)], 0, rank - 1) if is_batch else ([*range(rank - 2)], rank - 2, rank - 1)
    )
    return value.transpose(*batch, *((columns, rows) if is_turned else (rows, columns)))


@formula("Scale")
def _scale(builder: NodeBuilder, x: Value, scale: Value) -> Value:
    """Return the scaled value; the scale is one number, which may have another type."""
    if builder.is_known(scale):
        factor = builder.number(float(builder.known(scale).item()))
    else:
        factor = builder.op("Cast", scale.reshape(), to=ELEMENT_TYPES[builder.dtype])
    return x / factor if builder.attribute("scale_down", 0) else x * factor


@formula("GatherGrad")
def _gather_grad(builder: NodeBuilder, shape: Value, indices: Value, dy: Value) -> Value:
    """Add along one axis; all axes of the indices become that one."""
    dims = builder.sizes(shape)
    axis = builder.attribute("axis", 0) % max(len(dims), 1)
    sizes = whole(indices.dims)
    flat = [*dims[:axis], None if sizes is None else prod(sizes), *dims[axis + 1 :]]
    column = [*[1] * axis, flat[axis], *[1] * (len(dims) - axis - 1)]
    added = dy.reshape(*flat)
    full = whole(flat)
    if full is None:
        spread = builder.op("Expand", indices.reshape(*column), builder.op("Shape", added))
    elif builder.is_known(indices):
        spread = builder.array(np.broadcast_to(builder.known(indices).reshape(whole(column)), full))
    else:
        spread = builder.op("Expand", indices.reshape(*column), builder.ints(full))
    zeros = builder.zeros(dims, shape, indices)
    return builder.op("ScatterElements", zeros, spread, added, axis=axis, reduction="add")


@formula("GatherElementsGrad")
def _gather_elements_grad(builder: NodeBuilder, dy: Value, shape: Value, indices: Value) -> Value:
    zeros = builder.zeros(builder.sizes(shape), shape, indices)
    return builder.op("ScatterElements", zeros, indices, dy, axis=builder.attribute("axis", 0), reduction="add")


@formula("GatherNDGrad")
def _gather_nd_grad(builder: NodeBuilder, shape: Value, indices: Value, dy: Value) -> Value:
    if batch := builder.attribute("batch_dims", 0):
        raise Unmatched(f"has batch_dims {batch}, expected 0")
    zeros = builder.zeros(builder.sizes(shape), shape, indices)
    return builder.op("ScatterND", zeros, indices, dy, reduction="add")


@formula("SliceGrad")
def _slice_grad(
    builder: NodeBuilder,
    dy: Value,
    shape: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Insert the slice into zeros, one axis after another."""
    dims = builder.sizes(shape)
    first, last = builder.known(starts).tolist(), builder.known(ends).tolist()
    places = builder.known(axes).tolist() if axes else list(range(len(first)))
    widths = builder.known(steps).tolist() if steps else [1] * len(first)
    part = list(dims)
    taken = {}
    for begin, end, place, width in zip(first, last, places, widths, strict=True):
        axis = place % len(dims)
        if (size := dims[axis]) is None:
            raise Unmatched(f"needs a known dim {axis}; {shown(shape.name)} is {dims}; {REPAIR}")
        taken[axis] = range(size)[slice(begin, end, width)]
        # A stop before the first element is a very small end, as in Python.
        part[axis] = len(taken[axis])
    result = dy
    for axis, picked in taken.items():
        grown = [*part]
        grown[axis] = dims[axis]
        if picked.step == 1 and part[axis]:
            pads = np.zeros((2, len(dims)), np.int64)
            pads[:, axis] = picked.start, dims[axis] - picked.stop
            result = builder.op("Pad", result, builder.ints(pads.reshape(-1)))
        elif (sizes := whole(part)) is None:
            raise Unmatched(f"needs a known shape to skip elements; {shown(shape.name)} is {dims}; {REPAIR}")
        else:
            column = [1] * len(dims)
            column[axis] = part[axis]
            rows = builder.array(np.broadcast_to(np.array(picked, np.int64).reshape(column), sizes))
            result = builder.op("ScatterElements", builder.numbers(np.zeros(grown)), rows, result, axis=axis)
        part = grown
    return result


@formula("ConcatTraining")
def _concat_training(builder: NodeBuilder, *parts: Value) -> list[Value]:
    """Return the concatenation, and the length of each part."""
    axis = builder.attribute("axis", 0)
    joined = builder.op("Concat", *parts, axis=axis)
    if len(builder.node.output) < 2 or not builder.node.output[1]:
        return [joined]
    return [joined, builder.ints(part.dim(axis) for part in parts)]


@formula("SplitTraining")
def _split_training(builder: NodeBuilder, x: Value, sizes: Value) -> list[Value]:
    return builder.ops("Split", len(builder.node.output), x, sizes, axis=builder.attribute("axis", 0))


@formula("ReduceSumTraining")
def _reduce_sum_training(builder: NodeBuilder, x: Value, axes: Value) -> Value:
    options = {
        name: builder.attribute(name, default) for name, default in (("keepdims", 1), ("noop_with_empty_axes", 0))
    }
    return builder.op("ReduceSum", x, axes, **options)


@formula("Trilu")
def _trilu(builder: NodeBuilder, x: Value, k: Value | None = None) -> Value:
    return builder.op("Trilu", x, k, upper=builder.attribute("upper", 1))


@formula("PassThrough")
def _pass_through(builder: NodeBuilder, *values: Value) -> list[Value]:
    if len(values) < len(builder.node.output):
        raise Unmatched(f"has fewer inputs than outputs, such as {shown(builder.node.output[-1])}")
    return list(values)
