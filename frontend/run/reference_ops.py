"""Compute source nodes of other domains in numpy, because onnx's evaluator has only standard operators.

`opforge run` and `opforge convert --verify` use them. They are written from the definitions of the functions, not from
custom operators, so that a wrong mapping shows as a difference. Modules of `training` add theirs as `REFERENCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto
from onnx.reference.op_run import OpRun

from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.rules.discovery import TRAINING, modules
from opforge.frontend.rules.names.aten import ATEN_DOMAIN

Array = NDArray[Any]
Function = Callable[..., tuple[Array, ...]]


def as_float64(array: Array) -> NDArray[np.float64]:
    """Return the numbers in the type in which everything here is computed."""
    return array.astype(np.float64)


def _embedding(
    grad: Array, indices: Array, rows: Array, padding: Array, scaled: Array, _sparse: Array | None = None
) -> tuple[Array, ...]:
    """Gradient of the table of `torch.nn.functional.embedding`; rows outside of the table are skipped."""
    count, width = int(rows.item()), grad.shape[-1]
    table = np.zeros((count, width))
    flat = indices.reshape(-1).astype(np.int64)
    kept = (flat >= 0) & (flat < count) & (flat != int(padding.item()))
    np.add.at(table, flat[kept], as_float64(grad).reshape(-1, width)[kept])
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
    """`batch_norm_backward_elemt`; without `count` the old schema, whose sums are means already."""
    total = 1.0 if count is None else float(as_float64(count).sum())
    inner = [1] * (x.ndim - 2)
    m, s, a, b = (as_float64(v).reshape(-1, *inner) for v in (mean, invstd, sum_dy, sum_dy_xmu))
    scale = 1.0 if weight is None else as_float64(weight).reshape(-1, *inner)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = (as_float64(dy) - a / total - (as_float64(x) - m) * s**2 * b / total) * s * scale
    return (result.astype(dy.dtype),)


def _conv_tbc(g: Array, x: Array, w: Array, bias: Array, pad: Array) -> tuple[Array, ...]:
    """Gradients of `torch.conv_tbc`, one tap at a time."""
    border, time, out_time = int(pad.item()), x.shape[0], g.shape[0]
    wide = np.pad(as_float64(x), ((border, border), (0, 0), (0, 0)))
    dx, dw, dy = np.zeros(wide.shape), np.zeros(w.shape), as_float64(g)
    for tap in range(w.shape[0]):
        dx[tap : tap + out_time] += dy @ as_float64(w[tap]).T
        dw[tap] = np.tensordot(wide[tap : tap + out_time], dy, ((0, 1), (0, 1)))
    return dx[border : border + time].astype(x.dtype), dw.astype(w.dtype), dy.sum((0, 1)).astype(bias.dtype)


def _nsa(g: Array, x: Array, w: Array, block: Array, stride: Array, ends: Array | None = None) -> tuple[Array, ...]:
    """Gradients of the weighted sums over windows of `npu_nsa_compress`."""
    width, step = int(block.item()), int(stride.item())
    limits = [0, *(np.reshape(ends, -1).tolist() if ends is not None else [])]
    if len(limits) == 1:
        # Without ends, the sequences have equal lengths.
        divisors = [count for count in range(1, len(x) + 1) if len(x) % count == 0]
        fits = [count for count in divisors if count * (max(len(x) // count - width + step, 0) // step) == len(g)]
        limits = list(range(0, len(x) + 1, len(x) // fits[0])) if fits else [0, len(x)]
    begins = [begin for start, end in pairwise(limits) for begin in range(start, end - width + 1, step)]
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for begin, row in zip(begins, as_float64(g), strict=True):
        dx[begin : begin + width] += as_float64(w)[:, :, None] * row
        dw += (as_float64(x[begin : begin + width]) * row).sum(-1)
    return dx.astype(x.dtype), dw.astype(w.dtype)


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


_TORCH: Mapping[str, Function] = {
    "embedding_dense_backward": _embedding,
    "embedding_backward": _embedding,
    "batch_norm_backward_elemt": _batch_norm,
    "conv_tbc_backward": _conv_tbc,
}
_OTHERS: Mapping[tuple[str, str], Function] = {
    ("npu", "npu_nsa_compress_grad"): _nsa,
    ("com.microsoft", "GatherGrad"): _gather_grad,
    ("com.microsoft", "BatchNormalizationGrad"): _batch_norm_grad,
    ("com.microsoft", "SplitTraining"): _split_training,
}


def _aten(*values: Array | None, operator: str, **_: Any) -> tuple[Array, ...]:
    if operator not in _TORCH:
        raise ValueError(f"ATen {operator!r} is not supported")
    return _TORCH[operator](*values)


def reference_operators(view: GraphView) -> Iterator[type[OpRun]]:
    """Yield classes for onnx's reference evaluator, which is to run a model."""
    known = {(ATEN_DOMAIN, name): function for name, function in _TORCH.items()} | dict(_OTHERS)
    known[ATEN_DOMAIN, "ATen"] = _aten
    for module in modules(TRAINING):
        known |= getattr(module, "REFERENCE", {})
    types = ValueTypes(view)

    def size_of(node: NodeProto) -> Mapping[str, Any]:
        shape = types.of(view.main, node.output[0]).shape
        return {} if shape is None or None in shape[2:] else {"size": shape[2:]}

    for (domain, op_type), function in known.items():
        takes_size = "size" in signature(function).parameters
        yield _operator(domain, op_type, function, size_of if takes_size else lambda _: {})


def _operator(
    domain: str, op_type: str, function: Function, more: Callable[[NodeProto], Mapping[str, Any]]
) -> type[OpRun]:
    def run(self_: OpRun, *values: Array | None, **linked: Any) -> tuple[Array, ...]:
        given = {attribute.name: getattr(self_, attribute.name) for attribute in self_.onnx_node.attribute}
        results: Sequence[Array] = function(*values, **{**given, **linked, **more(self_.onnx_node)})
        return tuple(results[: len(self_.onnx_node.output)])

    return type(op_type, (OpRun,), {"op_domain": domain, "op_schema": None, "_run": run})
