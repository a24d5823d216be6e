"""Compute functions of PyTorch in NumPy, from their definitions; see `run/reference_ops.py`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .aten import ATEN_DOMAIN

Array = NDArray[Any]


def _as_float64(array: Array) -> NDArray[np.float64]:
    """Return the numbers in float64, the type of all computations here."""
    return array.astype(np.float64)


def _embedding(
    grad: Array, indices: Array, rows: Array, padding: Array, scaled: Array, _sparse: Array | None = None
) -> tuple[Array, ...]:
    """Compute the gradient of the table of `torch.nn.functional.embedding`; skip rows outside of the table."""
    count, width = int(rows.item()), grad.shape[-1]
    table = np.zeros((count, width))
    flat = indices.reshape(-1).astype(np.int64)
    kept = (flat >= 0) & (flat < count) & (flat != int(padding.item()))
    np.add.at(table, flat[kept], _as_float64(grad).reshape(-1, width)[kept])
    if scaled.item():
        table /= np.maximum(np.bincount(flat[kept], minlength=count), 1)[:, None]
    return (table.astype(grad.dtype),)


def _batch_norm(
    dy: Array,
    x: Array,
    mean: Array,
    invstd: Array,
    weight: Array | None,
    sum_dy: Array,
    sum_dy_xmu: Array,
    count: Array | None = None,
) -> tuple[Array, ...]:
    """Compute `batch_norm_backward_elemt`; without `count`, use the old schema, whose sums are already means."""
    total = 1.0 if count is None else float(_as_float64(count).sum())
    inner = [1] * (x.ndim - 2)
    m, s, a, b = (_as_float64(v).reshape(-1, *inner) for v in (mean, invstd, sum_dy, sum_dy_xmu))
    scale = 1.0 if weight is None else _as_float64(weight).reshape(-1, *inner)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = (_as_float64(dy) - a / total - (_as_float64(x) - m) * s**2 * b / total) * s * scale
    return (result.astype(dy.dtype),)


def _conv_tbc(g: Array, x: Array, w: Array, bias: Array, pad: Array) -> tuple[Array, ...]:
    """Compute the gradients of `torch.conv_tbc`, one tap at a time."""
    border, time, out_time = int(pad.item()), x.shape[0], g.shape[0]
    wide = np.pad(_as_float64(x), ((border, border), (0, 0), (0, 0)))
    dx, dw, dy = np.zeros(wide.shape), np.zeros(w.shape), _as_float64(g)
    for tap in range(w.shape[0]):
        dx[tap : tap + out_time] += dy @ _as_float64(w[tap]).T
        dw[tap] = np.tensordot(wide[tap : tap + out_time], dy, ((0, 1), (0, 1)))
    return dx[border : border + time].astype(x.dtype), dw.astype(w.dtype), dy.sum((0, 1)).astype(bias.dtype)


def _nsa(g: Array, x: Array, w: Array, block: Array, stride: Array, ends: Array | None = None) -> tuple[Array, ...]:
    """Compute the gradients of the weighted sums over windows of `npu_nsa_compress`."""
    width, step = int(block.item()), int(stride.item())
    limits = [0, *(np.reshape(ends, -1).tolist() if ends is not None else [])]
    if len(limits) == 1:
        # Without ends, the sequences have equal lengths.
        divisors = [count for count in range(1, len(x) + 1) if len(x) % count == 0]
        fits = [count for count in divisors if count * (max(len(x) // count - width + step, 0) // step) == len(g)]
        limits = list(range(0, len(x) + 1, len(x) // fits[0])) if fits else [0, len(x)]
    begins = [begin for start, end in pairwise(limits) for begin in range(start, end - width + 1, step)]
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for begin, row in zip(begins, _as_float64(g), strict=True):
        dx[begin : begin + width] += _as_float64(w)[:, :, None] * row
        dw += (_as_float64(x[begin : begin + width]) * row).sum(-1)
    return dx.astype(x.dtype), dw.astype(w.dtype)


# By domain and node type.
REFERENCE: dict[tuple[str, str], Callable[..., tuple[Array, ...]]] = {
    (ATEN_DOMAIN, "embedding_dense_backward"): _embedding,
    (ATEN_DOMAIN, "embedding_backward"): _embedding,
    (ATEN_DOMAIN, "batch_norm_backward_elemt"): _batch_norm,
    (ATEN_DOMAIN, "conv_tbc_backward"): _conv_tbc,
    ("npu", "npu_nsa_compress_grad"): _nsa,
}
