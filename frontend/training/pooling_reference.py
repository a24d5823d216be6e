"""Compute onnxruntime's gradients of convolutions and poolings in numpy, from their definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .ort_reference import Array, Function, as_float64


def _conv_grad(dy: Array, x: Array, w: Array, **attributes: Any) -> tuple[Array, ...]:
    """Gradients of `Conv`, one tap and one group at a time."""
    size, rank = x.shape[2:], x.ndim - 2
    group = attributes.get("group", 1)
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        raise ValueError("ConvGrad is supported only with explicit pads")
    wide = np.pad(as_float64(x), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    dx, dw, grads, taps = np.zeros(wide.shape), np.zeros(w.shape), as_float64(dy), as_float64(w)
    ins, outs = x.shape[1] // group, w.shape[0] // group
    for number, tap in product(range(group), np.ndindex(w.shape[2:])):
        window = tuple(
            slice(tap[i] * dilations[i], tap[i] * dilations[i] + strides[i] * (dy.shape[2 + i] - 1) + 1, strides[i])
            for i in range(rank)
        )
        read = (slice(None), slice(number * ins, (number + 1) * ins), *window)
        made = slice(number * outs, (number + 1) * outs)
        dx[read] += np.moveaxis(np.tensordot(grads[:, made], taps[(made, slice(None), *tap)], (1, 0)), -1, 1)
        others = [0, *range(2, rank + 2)]
        dw[(made, slice(None), *tap)] = np.tensordot(grads[:, made], wide[read], (others, others))
    inner = tuple(slice(pads[i], pads[i] + size[i]) for i in range(rank))
    db = grads.sum((0, *range(2, rank + 2)))
    return dx[(slice(None), slice(None), *inner)].astype(x.dtype), dw.astype(w.dtype), db.astype(dy.dtype)


def _conv_transpose_grad(dy: Array, x: Array, w: Array, **attributes: Any) -> tuple[Array, ...]:
    """Gradients of `ConvTranspose`: one element of X and one tap at a time."""
    rank, group = x.ndim - 2, attributes.get("group", 1)
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    wide = np.pad(as_float64(dy), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    ins, outs = x.shape[1] // group, w.shape[1]
    for number, place, tap in product(range(group), np.ndindex(x.shape[2:]), np.ndindex(w.shape[2:])):
        at = tuple(place[i] * strides[i] + tap[i] * dilations[i] for i in range(rank))
        read = slice(number * ins, (number + 1) * ins)
        grads = wide[(slice(None), slice(number * outs, (number + 1) * outs), *at)]
        dx[(slice(None), read, *place)] += grads @ as_float64(w)[(read, slice(None), *tap)].T
        dw[(read, slice(None), *tap)] += as_float64(x)[(slice(None), read, *place)].T @ grads
    db = as_float64(dy).sum((0, *range(2, rank + 2)))
    return dx.astype(x.dtype), dw.astype(w.dtype), db.astype(dy.dtype)


def _pooled(dy: Array, **attributes: Any) -> list[int]:
    """Return the spatial dims of the pooled tensor that windows read."""
    rank = dy.ndim - 2
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    reach = [dilation * (k - 1) + 1 for dilation, k in zip(dilations, attributes["kernel_shape"], strict=True)]
    return [(dy.shape[2 + i] - 1) * strides[i] + reach[i] - pads[i] - pads[rank + i] for i in range(rank)]


def _max_pool_grad(
    dy: Array, indices: Array, *, size: Sequence[int] | None = None, **attributes: Any
) -> tuple[Array, ...]:
    """Return the gradient of a `MaxPool` of a tensor with the spatial dims `size`; None if they are unknown."""
    size = _pooled(dy, **attributes) if size is None else size
    result = np.zeros((*dy.shape[:2], *size))
    for place in np.ndindex(dy.shape):
        result.reshape(-1)[int(indices[place])] += dy[place]
    return (result.astype(dy.dtype),)


def _average_pool_grad(dy: Array, *, size: Sequence[int] | None = None, **attributes: Any) -> tuple[Array, ...]:
    """Return the gradient of an `AveragePool`, window by window."""
    size = _pooled(dy, **attributes) if size is None else size
    kernel, rank = attributes["kernel_shape"], len(size)
    pads, strides = attributes.get("pads", [0] * 2 * rank), attributes.get("strides", [1] * rank)
    result = np.zeros((*dy.shape[:2], *size))
    for place in np.ndindex(dy.shape[2:]):
        starts = [place[i] * strides[i] - pads[i] for i in range(rank)]
        window = tuple(slice(max(s, 0), min(s + k, n)) for s, k, n in zip(starts, kernel, size, strict=True))
        part = result[(slice(None), slice(None), *window)]
        count = prod(kernel) if attributes.get("count_include_pad", 0) else prod(part.shape[2:])
        part += as_float64(dy)[(slice(None), slice(None), *place)].reshape(*dy.shape[:2], *[1] * rank) / count
    return (result.astype(dy.dtype),)


# By domain and node type; a function with the parameter `size` gets the spatial dims of its result.
REFERENCE: Mapping[tuple[str, str], Function] = {
    ("com.microsoft", "ConvGrad"): _conv_grad,
    ("com.microsoft", "ConvTransposeGrad"): _conv_transpose_grad,
    # onnxruntime uses the standard domain for them.
    ("", "AveragePoolGrad"): _average_pool_grad,
    ("", "MaxPoolGrad"): _max_pool_grad,
}
