"""Define the formulas of the gradients of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opforge.codegen.printing import shown
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.rules.node_builder import NodeBuilder, Value, whole
from opforge.frontend.rules.pattern import Operators

from .formula import formula


@dataclass(frozen=True)
class _Windows:
    """A convolution of `large` by W to `small`: forward, or backward for a transposed one.

    Attributes:
        large: The tensor that the windows cover.
        small: One element for each window.
        sizes: Spatial dims of `small`.
        unread: Number of elements of `large` after the last window, by axis.
        options: Attributes of the convolution.
    """

    large: Value
    small: Value
    sizes: list[int]
    unread: list[int]
    options: Mapping[str, Any]

    @staticmethod
    def of(builder: NodeBuilder, large: Value, small: Value, w: Value) -> _Windows:
        """Read them from the attributes of a node."""
        batch, rank = large.dims[0], large.rank - 2
        size, kernel = [large.dim(axis) for axis in range(2, rank + 2)], list(w.shape[2:])
        if (given := builder.attribute("kernel_shape", kernel)) != kernel:
            raise Unmatched(f"has kernel_shape {given}, expected {kernel}, the axes of W")
        if (auto := builder.attribute("auto_pad", "NOTSET")) != "NOTSET":
            raise Unmatched(f"has auto_pad {shown(auto)}, expected NOTSET")
        if shape := builder.attribute("output_shape", []):
            raise Unmatched(f"has output_shape {shape}, expected pads")
        group = builder.attribute("group", 1)
        strides, dilations = (builder.attribute(name, [1] * rank) for name in ("strides", "dilations"))
        pads = builder.attribute("pads", [0] * 2 * rank)
        spans = [size[i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1 for i in range(rank)]
        sizes = [spans[i] // strides[i] + 1 for i in range(rank)]
        expected = [batch, w.shape[0], *sizes]
        fits = (got == want or None in (got, want) for got, want in zip(small.dims, expected, strict=False))
        if small.rank != large.rank or not all(fits) or large.dim(1) != group * w.shape[1]:
            raise Unmatched(f"has {large.dims}, {w.dims} and {small.dims}, expected the dims of a convolution")
        unread = [left % stride for left, stride in zip(spans, strides, strict=True)]
        options = {"kernel_shape": kernel, "pads": pads, "strides": strides, "dilations": dilations, "group": group}
        return _Windows(large, small, sizes, unread, options)

    def kernel_grad(self) -> Value:
        """Return a convolution of `large` by `small` with stride and dilation swapped."""
        (batch, *_), rank, group = self.large.dims, len(self.sizes), self.options["group"]
        size, channels = self.large.dims[2:], self.large.dim(1) // group
        # Batch and channels are swapped, within each group.
        turned = self.large.reshape(batch, group, channels, *size).transpose(2, 1, 0, *range(3, rank + 3))
        taps = self.large.builder.op(
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
            taps = taps.builder.op("Slice", taps, *map(taps.builder.ints, (first, last, range(2, rank + 2))))
        return taps.transpose(1, 0, *range(2, rank + 2))


@formula("ConvGrad")
def _conv_grad(builder: NodeBuilder, dy: Value, x: Value, w: Value) -> list[Value]:
    """Return a transposed convolution of dY; the gradient of W; a sum."""
    windows = _Windows.of(builder, x, dy, w)
    dx = builder.op("ConvTranspose", dy, w, output_padding=windows.unread, **windows.options)
    return [dx, windows.kernel_grad(), dy.sum([0, *range(2, dy.rank)])]


@formula("ConvTransposeGrad")
def _conv_transpose_grad(builder: NodeBuilder, dy: Value, x: Value, w: Value) -> list[Value]:
    """Return a convolution of dY; the gradient of W; a sum."""
    windows = _Windows.of(builder, dy, x, w)
    return [builder.op("Conv", dy, w, **windows.options), windows.kernel_grad(), dy.sum([0, *range(2, dy.rank)])]


# Limits the tables of a MaxPoolGrad to 128 MiB.
_MAX_POSITIONS = 1 << 24
# The indices count row by row.
_POOL = Operators().MaxPool("x", storage_order=0, _any_output=True)


def _window_positions(pool: NodeBuilder, size: Sequence[int], outs: Sequence[int]) -> NDArray[np.int64]:
    """Return the positions that each window of a pooling reads, in a flattened map: one row for each window.

    A tap in the padding repeats the first tap of its window inside the map, so that the first maximum does not change.

    Args:
        pool: The node with the attributes.
        size: Spatial dims of the input.
        outs: Spatial dims of the output.
    """
    rank = len(size)
    kernel = pool.attribute("kernel_shape", [1] * rank)
    strides, dilations = (pool.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads, auto = pool.attribute("pads", [0] * 2 * rank), pool.attribute("auto_pad", "NOTSET")
    if max(prod(size), prod(outs) * prod(kernel)) > _MAX_POSITIONS:
        raise Unmatched(f"has windows {kernel} at {list(outs)} places of {list(size)}, more than the lowering supports")
    result = np.zeros([1] * 2 * rank, np.int64)
    for i, (n, out, k, step, gap) in enumerate(zip(size, outs, kernel, strides, dilations, strict=True)):
        reach = gap * (k - 1) + 1
        both = max((out - 1) * step + reach - n, 0) if auto.startswith("SAME_") else 0
        first, last = {"SAME_UPPER": (both // 2, both - both // 2), "SAME_LOWER": (both - both // 2, both // 2)}.get(
            auto, (0, 0) if auto == "VALID" else (pads[i], pads[rank + i])
        )
        span = n + first + last - reach
        taps = (np.arange(out) * step - first)[:, None] + gap * np.arange(k)
        is_inside = (taps >= 0) & (taps < n)
        if out not in (span // step + 1, -(-span // step) + 1) or not is_inside.any(axis=1).all():
            raise Unmatched(f"has a dY of {list(outs)} for windows over {list(size)}, expected that of a MaxPool")
        taps = np.where(is_inside, taps, np.take_along_axis(taps, is_inside.argmax(axis=1)[:, None], axis=1))
        shape = [1] * 2 * rank
        shape[i], shape[rank + i] = out, k
        result = result + taps.reshape(shape) * prod(size[i + 1 :])
    return result.reshape(prod(outs), prod(kernel))


# onnxruntime uses the standard domain for it.
@formula("MaxPoolGrad", domain="")
def _max_pool_grad(builder: NodeBuilder, dy: Value, indices: Value) -> Value:
    """Add each element at the first maximum of its window, which is searched again: ATC's MaxPool has no indices."""
    found = _POOL.match(builder.context, builder.scope, indices.name)
    pool, x = found.maker(indices.name), Value(builder, found.names["x"])
    size, outs = ([value.dim(axis) for axis in range(2, x.rank)] for value in (x, dy))
    positions = _window_positions(NodeBuilder(builder.context, builder.scope, pool), size, outs)
    windows, taps = positions.shape
    table = builder.ints(positions.ravel().tolist())
    maps = x.reshape(-1, prod(size))
    read = builder.op("Gather", maps, table, axis=1).reshape(-1, windows, taps)
    first = builder.op("ArgMax", read, axis=2, keepdims=0) + builder.ints(range(0, windows * taps, taps))
    places = builder.op("Gather", table, first)
    batch = whole(x.dims[:2])
    shape = builder.op("Shape", maps)
    zeros = builder.zeros([None if batch is None else prod(batch), prod(size)], shape, places)
    sums = builder.op("ScatterElements", zeros, places, dy.reshape(-1, windows), axis=1, reduction="add")
    return sums.reshape(*x.dims)


@formula("AveragePoolGrad", domain="")
def _average_pool_grad(builder: NodeBuilder, dy: Value) -> Value:
    """Distribute each element equally over its window: a transposed convolution with ones, by channel.

    Only the type of the result contains the size of the pooled tensor.
    """
    dx = Value(builder, builder.node.output[0])
    axes, rank = range(2, dx.rank), dx.rank - 2
    size, outs = ([value.dim(axis) for axis in axes] for value in (dx, dy))
    kernel = builder.attribute("kernel_shape", [1] * rank)
    strides, dilations = (builder.attribute(name, [1] * rank) for name in ("strides", "dilations"))
    pads, auto = builder.attribute("pads", [0] * 2 * rank), builder.attribute("auto_pad", "NOTSET")
    # onnxruntime's gradient supports neither dilations nor the paddings of SAME_UPPER and SAME_LOWER.
    if dilations != [1] * rank or auto not in ("NOTSET", "VALID"):
        raise Unmatched(f"has dilations {dilations}, auto_pad {shown(auto)}, expected neither")
    starts = [stride * np.arange(out) - pad for stride, out, pad in zip(strides, outs, pads, strict=False)]
    counts = [np.minimum(s + k, n) - np.maximum(s, 0) for s, k, n in zip(starts, kernel, size, strict=True)]
    # Distance of the end of the last window after the padding; negative if elements are after it.
    beyond = [int(starts[i][-1]) + kernel[i] - size[i] - pads[rank + i] for i in range(rank)]
    if any(c.min() < 1 for c in counts) or any(abs(b) >= s for b, s in zip(beyond, strides, strict=True)):
        raise Unmatched(f"has a dY of {outs} for windows over {size}, expected that of an AveragePool")
    if builder.attribute("count_include_pad", 0):
        if max(beyond) > 0:
            raise Unmatched("has windows beyond the padding, which runtimes handle differently")
        parts = dy / prod(kernel)
    else:
        parts = dy / builder.numbers(reduce(np.multiply.outer, counts, np.array(1)))
    spread = builder.op(
        "ConvTranspose",
        parts.reshape(-1, 1, *outs),
        builder.numbers(np.ones((1, 1, *kernel))),
        kernel_shape=kernel,
        strides=strides,
        pads=[*pads[:rank], *(pad + max(b, 0) for pad, b in zip(pads[rank:], beyond, strict=True))],
        output_padding=[max(-b, 0) for b in beyond],
    )
    return spread.reshape(*dx.dims)
