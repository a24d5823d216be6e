"""Compute gradients of onnxruntime that rules map to custom operators, in numpy, from their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ort_reference import Array, Function, as_float64


def _gather_grad(shape: Array, indices: Array, dy: Array, *, axis: int = 0) -> tuple[Array, ...]:
    """Gradient of `Gather`: negative indices count from the end."""
    sums = np.zeros(shape.tolist())
    place = axis % sums.ndim
    moved = np.moveaxis(sums, place, 0)
    parts = np.moveaxis(as_float64(dy), range(place, place + indices.ndim), range(indices.ndim))
    np.add.at(moved, indices.reshape(-1), parts.reshape(-1, *moved.shape[1:]))
    return (sums.astype(dy.dtype),)


def _batch_norm_grad(dy: Array, x: Array, scale: Array, mean: Array, invstd: Array, **_: Any) -> tuple[Array, ...]:
    """Gradients of a batch normalization in training, by the chain rule on x_hat = (x - mean) * invstd."""
    inner = [1] * (x.ndim - 2)
    axes = (0, *range(2, x.ndim))
    hat = (as_float64(x) - as_float64(mean).reshape(-1, *inner)) * as_float64(invstd).reshape(-1, *inner)
    g = as_float64(dy)
    d_scale, d_bias = (g * hat).sum(axes), g.sum(axes)
    count = x.size / x.shape[1]
    rest = g - d_bias.reshape(-1, *inner) / count - hat * d_scale.reshape(-1, *inner) / count
    dx = rest * as_float64(invstd).reshape(-1, *inner) * as_float64(scale).reshape(-1, *inner)
    return dx.astype(dy.dtype), d_scale.astype(scale.dtype), d_bias.astype(scale.dtype)


def _split_training(x: Array, sizes: Array, *, axis: int = 0) -> tuple[Array, ...]:
    """`Split` with its sizes as an input."""
    return tuple(np.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


# By domain and node type.
REFERENCE: dict[tuple[str, str], Function] = {
    ("com.microsoft", "GatherGrad"): _gather_grad,
    ("com.microsoft", "BatchNormalizationGrad"): _batch_norm_grad,
    ("com.microsoft", "SplitTraining"): _split_training,
}
