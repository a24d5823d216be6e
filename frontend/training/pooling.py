"""Formulas of the gradients of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from opforge.codegen.printing import shown
from opforge.frontend.ir.constants import int_attribute

from .lowering import MICROSOFT, Key, Lowering, NotLowered, Site, Value, whole


@dataclass(frozen=True)
class _Windows:
    """A convolution of `large` by W to `small`: forward, or backward where it was a transposed one.

    Attributes:
        large: What windows lie in.
        small: One element for each window.
        sizes: Spatial dims of `small`.
        unread: How many elements of `large` lie behind the last window, by axis.
        options: Attributes of the convolution.
    """

    large: Value
    small: Value
    sizes: list[int]
    unread: list[int]
    options: Mapping[str, Any]

    @staticmethod
    def of(site: Site, large: Value, small: Value, w: Value) -> _Windows:
        """Read them from the attributes of a node."""
        batch, rank = large.dims[0], large.rank - 2
        size, kernel = [large.dim(axis) for axis in range(2, rank + 2)], list(w.shape[2:])
        if (given := site.attribute("kernel_shape", kernel)) != kernel:
            raise NotLowered(f"has kernel_shape {given}, expected {kernel}, the axes of W")
        if (auto := site.attribute("auto_pad", "NOTSET")) != "NOTSET":
            raise NotLowered(f"has auto_pad {shown(auto)}, expected NOTSET")
        if shape := site.attribute("output_shape", []):
            raise NotLowered(f"has output_shape {shape}, expected pads")
        group = site.attribute("group", 1)
        strides, dilations = (site.attribute(name, [1] * rank) for name in ("strides", "dilations"))
        pads = site.attribute("pads", [0] * 2 * rank)
        room = [size[i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1 for i in range(rank)]
        sizes = [room[i] // strides[i] + 1 for i in range(rank)]
        expected = [batch, w.shape[0], *sizes]
        fits = (got == want or None in (got, want) for got, want in zip(small.dims, expected, strict=False))
        if small.rank != large.rank or not all(fits) or large.dim(1) != group * w.shape[1]:
            raise NotLowered(f"is no convolution of {large.dims} by {w.dims} to {small.dims}")
        unread = [left % stride for left, stride in zip(room, strides, strict=True)]
        options = {"kernel_shape": kernel, "pads": pads, "strides": strides, "dilations": dilations, "group": group}
        return _Windows(large, small, sizes, unread, options)

    def kernel_grad(self) -> Value:
        """A convolution of `large` by `small` in which stride and dilation change places."""
        (batch, *_), rank, group = self.large.dims, len(self.sizes), self.options["group"]
        size, channels = self.large.dims[2:], self.large.dim(1) // group
        # Batch and channels change places, within each group.
        turned = self.large.reshape(batch, group, channels, *size).transpose(2, 1, 0, *range(3, rank + 3))
        taps = self.large.site.op(
            "Conv",
            turned.reshape(channels, None if batch is None else group * batch, *size),
            self.small.transpose(1, 0, *range(2, rank + 2)),
            kernel_shape=self.sizes,
            pads=self.options["pads"],
            strides=self.options["dilations"],
            dilations=self.options["strides"],
            group=group,
        )
        if any(left >= step for left, step in zip(self.unread, self.options["dilations"], strict=True)):
            first, last = ([0] * rank, self.options["kernel_shape"])
            taps = taps.site.op("Slice", taps, *map(taps.site.ints, (first, last, range(2, rank + 2))))
        return taps.transpose(1, 0, *range(2, rank + 2))


def _conv_grad(site: Site, dy: Value, x: Value, w: Value) -> list[Value]:
    """A transposed convolution of dY; the gradient of W; a sum."""
    windows = _Windows.of(site, x, dy, w)
    dx = site.op("ConvTranspose", dy, w, output_padding=windows.unread, **windows.options)
    return [dx, windows.kernel_grad(), dy.sum([0, *range(2, dy.rank)])]


def _conv_transpose_grad(site: Site, dy: Value, x: Value, w: Value) -> list[Value]:
    """A convolution of dY; the gradient of W; a sum."""
    windows = _Windows.of(site, dy, x, w)
    return [site.op("Conv", dy, w, **windows.options), windows.kernel_grad(), dy.sum([0, *range(2, dy.rank)])]


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
    (MICROSOFT, "ConvTransposeGrad"): _conv_transpose_grad,
    # onnxruntime puts them into the standard's own domain.
    ("", "MaxPoolGrad"): _max_pool_grad,
    ("", "AveragePoolGrad"): _average_pool_grad,
}
