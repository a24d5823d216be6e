"""Formulas of onnxruntime's matrix products and of gradients that only move or scale elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from opforge.codegen.printing import shown
from opforge.frontend.ir.value_types import ELEMENT_TYPES

from .lowering import MICROSOFT, REPAIR, Key, Lowering, NotLowered, Site, Value, whole


def _fused_matmul(site: Site, a: Value, b: Value) -> Value:
    product = site.op("MatMul", _turned(site, a, "A"), _turned(site, b, "B"))
    alpha = site.attribute("alpha", 1.0)
    return product if alpha == 1.0 else product * alpha


def _turned(site: Site, value: Value, side: str) -> Value:
    """An operand: `transBatch` moves its first axis behind the batch, `trans` then swaps the last two."""
    is_batch, is_turned = site.attribute(f"transBatch{side}", 0), site.attribute(f"trans{side}", 0)
    if not is_batch and not is_turned:
        return value
    rank = value.rank
    if rank < 2:
        return value
    batch, rows, columns = (
        ([*range(1, rank - 1)], 0, rank - 1) if is_batch else ([*range(rank - 2)], rank - 2, rank - 1)
    )
    return value.transpose(*batch, *((columns, rows) if is_turned else (rows, columns)))


def _scale(site: Site, x: Value, scale: Value) -> Value:
    """One number, which may be of another type than what it scales."""
    if site.is_known(scale):
        factor = site.number(float(site.known(scale).item()))
    else:
        factor = site.op("Cast", scale.reshape(), to=ELEMENT_TYPES[site.dtype])
    return x / factor if site.attribute("scale_down", 0) else x * factor


def _gather_grad(site: Site, shape: Value, indices: Value, dy: Value) -> Value:
    """Add up along one axis; all axes of the indices become that one."""
    dims = site.sizes(shape)
    axis = site.attribute("axis", 0) % max(len(dims), 1)
    sizes = whole(indices.dims)
    flat = [*dims[:axis], None if sizes is None else prod(sizes), *dims[axis + 1 :]]
    column = [*[1] * axis, flat[axis], *[1] * (len(dims) - axis - 1)]
    added = dy.reshape(*flat)
    full = whole(flat)
    if full is None:
        spread = site.op("Expand", indices.reshape(*column), site.op("Shape", added))
    elif site.is_known(indices):
        spread = site.array(np.broadcast_to(site.known(indices).reshape(whole(column)), full))
    else:
        spread = site.op("Expand", indices.reshape(*column), site.ints(full))
    zeros = site.zeros(dims, shape, indices)
    return site.op("ScatterElements", zeros, spread, added, axis=axis, reduction="add")


def _gather_elements_grad(site: Site, dy: Value, shape: Value, indices: Value) -> Value:
    zeros = site.zeros(site.sizes(shape), shape, indices)
    return site.op("ScatterElements", zeros, indices, dy, axis=site.attribute("axis", 0), reduction="add")


def _gather_nd_grad(site: Site, shape: Value, indices: Value, dy: Value) -> Value:
    if batch := site.attribute("batch_dims", 0):
        raise NotLowered(f"has batch_dims {batch}, expected 0")
    zeros = site.zeros(site.sizes(shape), shape, indices)
    return site.op("ScatterND", zeros, indices, dy, reduction="add")


def _slice_grad(
    site: Site,
    dy: Value,
    shape: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Put the slice back onto zeros, one axis after the other."""
    dims = site.sizes(shape)
    first, last = site.known(starts).tolist(), site.known(ends).tolist()
    places = site.known(axes).tolist() if axes else list(range(len(first)))
    widths = site.known(steps).tolist() if steps else [1] * len(first)
    part = list(dims)
    taken = {}
    for begin, end, place, width in zip(first, last, places, widths, strict=True):
        axis = place % len(dims)
        if (size := dims[axis]) is None:
            raise NotLowered(f"needs a known dim {axis}; {shown(shape.name)} is {dims}; {REPAIR}")
        taken[axis] = range(size)[slice(begin, end, width)]
        # A stop before the first element is written as a very small end, which Python reads the same way.
        part[axis] = len(taken[axis])
    result = dy
    for axis, picked in taken.items():
        grown = [*part]
        grown[axis] = dims[axis]
        if picked.step == 1 and part[axis]:
            pads = np.zeros((2, len(dims)), np.int64)
            pads[:, axis] = picked.start, dims[axis] - picked.stop
            result = site.op("Pad", result, site.ints(pads.reshape(-1)))
        elif (sizes := whole(part)) is None:
            raise NotLowered(f"needs a known shape to skip elements; {shown(shape.name)} is {dims}; {REPAIR}")
        else:
            column = [1] * len(dims)
            column[axis] = part[axis]
            rows = site.array(np.broadcast_to(np.array(picked, np.int64).reshape(column), sizes))
            result = site.op("ScatterElements", site.numbers(np.zeros(grown)), rows, result, axis=axis)
        part = grown
    return result


def _concat_training(site: Site, *parts: Value) -> list[Value]:
    """Their concatenation, and how long each is."""
    axis = site.attribute("axis", 0)
    joined = site.op("Concat", *parts, axis=axis)
    if len(site.node.output) < 2 or not site.node.output[1]:
        return [joined]
    return [joined, site.ints(part.dim(axis) for part in parts)]


def _split_training(site: Site, x: Value, sizes: Value) -> list[Value]:
    return site.ops("Split", len(site.node.output), x, sizes, axis=site.attribute("axis", 0))


def _reduce_sum_training(site: Site, x: Value, axes: Value) -> Value:
    options = {name: site.attribute(name, default) for name, default in (("keepdims", 1), ("noop_with_empty_axes", 0))}
    return site.op("ReduceSum", x, axes, **options)


def _trilu(site: Site, x: Value, k: Value | None = None) -> Value:
    return site.op("Trilu", x, k, upper=site.attribute("upper", 1))


def _pass_through(site: Site, *values: Value) -> list[Value]:
    if len(values) < len(site.node.output):
        raise NotLowered(f"has fewer inputs than outputs, such as {shown(site.node.output[-1])}")
    return list(values)


_FORMULAS: Mapping[str, Lowering] = {
    "ConcatTraining": _concat_training,
    "FusedMatMul": _fused_matmul,
    "GatherElementsGrad": _gather_elements_grad,
    "GatherGrad": _gather_grad,
    "GatherNDGrad": _gather_nd_grad,
    "PassThrough": _pass_through,
    "ReduceSumTraining": _reduce_sum_training,
    "Scale": _scale,
    "SliceGrad": _slice_grad,
    "SplitTraining": _split_training,
    "Trilu": _trilu,
}
MOVES: Mapping[Key, Lowering] = {(MICROSOFT, name): formula for name, formula in _FORMULAS.items()}
