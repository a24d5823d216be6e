"""Formulas of the gradients of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from opforge.frontend.lowering import MICROSOFT, Key, Lowering, NotLowered, Site, Value
from opforge.frontend.names import shown


def _conv_grad(site: Site, dy: Value, x: Value, w: Value) -> list[Value | None]:
    """A transposed convolution of dY; a convolution of X by dY in which stride and dilation change places; a sum."""
    batch, channels, *size = x.shape
    kernel, rank = w.shape[2:], len(size)
    if (given := site.attribute("kernel_shape", list(kernel))) != list(kernel):
        raise NotLowered(f"has kernel_shape {given}, expected {list(kernel)}, the axes of W")
    if (auto := site.attribute("auto_pad", "NOTSET")) != "NOTSET":
        raise NotLowered(f"has auto_pad {shown(auto)}, expected NOTSET")
    group = site.attribute("group", 1)
    strides, dilations = (site.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads = site.attribute("pads", [0] * 2 * rank)
    room = [size[i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1 for i in range(rank)]
    expected = (batch, w.shape[0], *(room[i] // strides[i] + 1 for i in range(rank)))
    if dy.shape != expected or channels != group * w.shape[1]:
        raise NotLowered(f"has a dY of {list(dy.shape)} for X {list(x.shape)} and W {list(w.shape)}, no result of Conv")
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
        turned.reshape(channels // group, group * batch, *size),
        dy.transpose(1, 0, *range(2, rank + 2)),
        kernel_shape=list(dy.shape[2:]),
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
    shape = Value(site, pool.input[0]).shape
    zeros = site.zeros([prod(shape)], indices)
    sums = site.op("ScatterElements", zeros, indices.reshape(-1), dy.reshape(-1), axis=0, reduction="add")
    return sums.reshape(*shape)


WINDOWS: Mapping[Key, Lowering] = {
    (MICROSOFT, "ConvGrad"): _conv_grad,
    # onnxruntime puts it into the standard's own domain.
    ("", "MaxPoolGrad"): _max_pool_grad,
}
