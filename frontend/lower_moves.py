"""Formulas of onnxruntime's matrix products and of gradients that only move or scale elements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opforge.frontend.lowering import MICROSOFT, Key, Lowering, NotLowered, Site, Value
from opforge.frontend.names import shown


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
    return x / scale if site.attribute("scale_down", 0) else x * scale


def _gather_grad(site: Site, shape: Value, indices: Value, dy: Value) -> Value:
    """Add up along one axis; all axes of the indices become that one."""
    dims = [int(dim) for dim in site.known(shape)]
    axis = site.attribute("axis", 0) % max(len(dims), 1)
    count = int(np.prod(indices.shape))
    flat = [*dims[:axis], count, *dims[axis + 1 :]]
    column = [1] * len(dims)
    column[axis] = count
    spread = site.op("Expand", indices.reshape(*column), site.ints(flat))
    return _added(site, dims, spread, dy.reshape(*flat), axis)


def _gather_elements_grad(site: Site, dy: Value, shape: Value, indices: Value) -> Value:
    dims = [int(dim) for dim in site.known(shape)]
    return _added(site, dims, indices, dy, site.attribute("axis", 0))


def _added(site: Site, dims: list[int], indices: Value, dy: Value, axis: int) -> Value:
    return site.op("ScatterElements", site.zeros(dims), indices, dy, axis=axis, reduction="add")


def _gather_nd_grad(site: Site, shape: Value, indices: Value, dy: Value) -> Value:
    if batch := site.attribute("batch_dims", 0):
        raise NotLowered(f"has batch_dims {batch}, expected 0")
    zeros = site.zeros([int(dim) for dim in site.known(shape)])
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
    dims = [int(dim) for dim in site.known(shape)]
    first, last = site.known(starts).tolist(), site.known(ends).tolist()
    places = site.known(axes).tolist() if axes else list(range(len(first)))
    widths = site.known(steps).tolist() if steps else [1] * len(first)
    part = list(dims)
    taken = {}
    for begin, end, place, width in zip(first, last, places, widths, strict=True):
        axis = place % len(dims)
        taken[axis] = range(dims[axis])[slice(begin, end, width)]
        # A stop before the first element is written as a very small end, which Python reads the same way.
        part[axis] = len(taken[axis])
    result = dy
    for axis, picked in taken.items():
        grown = [*part]
        grown[axis] = dims[axis]
        column = [1] * len(dims)
        column[axis] = part[axis]
        if list(picked) != list(range(dims[axis])):
            rows = site.array(np.array(picked, np.int64).reshape(column))
            indices = site.op("Expand", rows, site.ints(part))
            result = site.op("ScatterElements", site.zeros(grown), indices, result, axis=axis)
        part = grown
    return result


def _concat_training(site: Site, *parts: Value) -> list[Value]:
    """Their concatenation, and how long each is."""
    axis = site.attribute("axis", 0)
    joined = site.op("Concat", *parts, axis=axis)
    if len(site.node.output) < 2 or not site.node.output[1]:
        return [joined]
    return [joined, site.ints(part.shape[axis] for part in parts)]


def _split_training(site: Site, x: Value, sizes: Value) -> list[Value]:
    return site.ops("Split", len(site.node.output), x, sizes, axis=site.attribute("axis", 0))


def _reduce_sum_training(site: Site, x: Value, axes: Value) -> Value:
    options = {name: site.attribute(name, default) for name, default in (("keepdims", 1), ("noop_with_empty_axes", 0))}
    return site.op("ReduceSum", x, axes, **options)


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
}
MOVES: Mapping[Key, Lowering] = {(MICROSOFT, name): formula for name, formula in _FORMULAS.items()}
