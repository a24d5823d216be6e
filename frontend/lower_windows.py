"""Formulas of the gradients of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod

import numpy as np

from opforge.frontend.constants import int_attribute
from opforge.frontend.lowering import MICROSOFT, Key, Lowering, NotLowered, Site, Value, whole
from opforge.frontend.names import shown


def _conv_grad(site: Site, dy: Value, x: Value, w: Value) -> list[Value | None]:
    """A transposed convolution of dY; a convolution of X by dY in which stride and dilation change places; a sum."""
    batch, channels, rank = x.dims[0], x.dim(1), x.rank - 2
    size, kernel = [x.dim(axis) for axis in range(2, rank + 2)], w.shape[2:]
    if (given := site.attribute("kernel_shape", list(kernel))) != list(kernel):
        raise NotLowered(f"has kernel_shape {given}, expected {list(kernel)}, the axes of W")
    if (auto := site.attribute("auto_pad", "NOTSET")) != "NOTSET":
        raise NotLowered(f"has auto_pad {shown(auto)}, expected NOTSET")
    group = site.attribute("group", 1)
    strides, dilations = (site.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads = site.attribute("pads", [0] * 2 * rank)
    room = [size[i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1 for i in range(rank)]
    expected = [batch, w.shape[0], *(room[i] // strides[i] + 1 for i in range(rank))]
    fits = (got == want or None in (got, want) for got, want in zip(dy.dims, expected, strict=False))
    if dy.rank != x.rank or not all(fits) or channels != group * w.shape[1]:
        raise NotLowered(f"has a dY of {dy.dims} for X {x.dims} and W {w.dims}, no result of Conv")
    # Elements of X behind the last window.
    unread = [left % stride for left, stride in zip(room, strides, strict=True)]
    dx = site.op(
        "ConvTranspose",
        dy,
        w,
        kernel_shape=list(kernel),
        pads=pads,
        strides=strides,
        dilations=dilations,
        output_padding=unread,
        group=group,
    )
    # Batch and channels change places, within each group.
    turned = x.reshape(batch, group, channels // group, *size).transpose(2, 1, 0, *range(3, rank + 3))
    taps = site.op(
        "Conv",
        turned.reshape(channels // group, None if batch is None else group * batch, *size),
        dy.transpose(1, 0, *range(2, rank + 2)),
        kernel_shape=expected[2:],
        pads=pads,
        strides=dilations,
        dilations=strides,
        group=group,
    )
    if any(left >= dilation for left, dilation in zip(unread, dilations, strict=True)):
        taps = site.op("Slice", taps, site.ints([0] * rank), site.ints(kernel), site.ints(range(2, rank + 2)))
    dw = taps.transpose(1, 0, *range(2, rank + 2))
    return [dx, dw, dy.sum([0, *range(2, rank + 2)])]


def _max_pool_grad(site: Site, dy: Value, indices: Value) -> Value:
    """Add each element where its maximum was; the indices count through the whole input."""
    pool = site.maker(indices)
    if pool is None or pool.op_type != "MaxPool":
        raise NotLowered(f"needs the indices of a MaxPool; {shown(indices.name)} is not made by one")
    if order := int_attribute(pool, "storage_order"):
        raise NotLowered(f"needs indices that count along rows; {shown(indices.name)} has storage_order {order}")
    pooled = Value(site, pool.input[0])
    sizes = whole(pooled.dims)
    zeros = site.zeros([None if sizes is None else prod(sizes)], site.op("Size", pooled).reshape(1), indices)
    sums = site.op("ScatterElements", zeros, indices.reshape(-1), dy.reshape(-1), axis=0, reduction="add")
    return sums.reshape(*pooled.dims)


def _average_pool_grad(site: Site, dy: Value) -> Value:
    """Each element goes in equal parts to those of its window: a transposed convolution with ones, channels apart.

    Only the type of the result says how large the pooled tensor was.
    """
    dx = Value(site, site.node.output[0])
    axes, rank = range(2, dx.rank), dx.rank - 2
    size, outs = ([value.dim(axis) for axis in axes] for value in (dx, dy))
    kernel = site.attribute("kernel_shape", [1] * rank)
    strides, dilations = (site.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads, auto = site.attribute("pads", [0] * 2 * rank), site.attribute("auto_pad", "NOTSET")
    # onnxruntime's gradient knows neither dilations nor the paddings of SAME_UPPER and SAME_LOWER.
    if dilations != [1] * rank or auto not in ("NOTSET", "VALID"):
        raise NotLowered(f"has dilations {dilations}, auto_pad {shown(auto)}, expected neither")
    starts = [stride * np.arange(out) - pad for stride, out, pad in zip(strides, outs, pads, strict=False)]
    counts = [np.minimum(s + k, n) - np.maximum(s, 0) for s, k, n in zip(starts, kernel, size, strict=True)]
    # How far the last window reaches behind the padding; negative where elements lie behind it.
    beyond = [int(starts[i][-1]) + kernel[i] - size[i] - pads[rank + i] for i in range(rank)]
    if any(c.min() < 1 for c in counts) or any(abs(b) >= s for b, s in zip(beyond, strides, strict=True)):
        raise NotLowered(f"has a dY of {outs} for windows over {size}, no result of AveragePool")
    if site.attribute("count_include_pad", 0):
        if max(beyond) > 0:
            raise NotLowered("has windows that reach behind the padding, which runtimes count differently")
        parts = dy / prod(kernel)
    else:
        parts = dy / site.numbers(reduce(np.multiply.outer, counts, np.array(1)))
    spread = site.op(
        "ConvTranspose",
        parts.reshape(-1, 1, *outs),
        site.numbers(np.ones((1, 1, *kernel))),
        kernel_shape=kernel,
        strides=strides,
        pads=[*pads[:rank], *(pad + max(b, 0) for pad, b in zip(pads[rank:], beyond, strict=True))],
        output_padding=[max(-b, 0) for b in beyond],
    )
    return spread.reshape(*dx.dims)


WINDOWS: Mapping[Key, Lowering] = {
    (MICROSOFT, "ConvGrad"): _conv_grad,
    # onnxruntime puts them into the standard's own domain.
    ("", "MaxPoolGrad"): _max_pool_grad,
    ("", "AveragePoolGrad"): _average_pool_grad,
}
