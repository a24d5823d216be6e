"""Compute onnxruntime's training nodes in numpy, from their definitions; see `run/reference_ops.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

Array = NDArray[Any]
Function = Callable[..., tuple[Array, ...]]


def as_float64(array: Array) -> NDArray[np.float64]:
    """Return the numbers in float64, the type of all computations here."""
    return array.astype(np.float64)


def _elementwise(function: Callable[..., Array]) -> Function:
    """Return a formula over float64 numbers whose result has the type of the first one."""

    def run(*values: Array, **attributes: Any) -> tuple[Array, ...]:
        result: Array = function(*map(as_float64, values), **attributes)
        return (np.asarray(result).astype(values[0].dtype),)

    return run


def _phi(x: Array) -> Array:
    """Return the normal distribution function."""
    return np.asarray(0.5 * (1 + np.vectorize(erf, otypes=[np.float64])(x / sqrt(2))))


def _gelu_slope(x: Array) -> Array:
    return np.asarray(_phi(x) + x * np.exp(-x * x / 2) / sqrt(2 * pi))


def _fast(x: Array) -> Array:
    return np.asarray(np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def _fast_slope(x: Array) -> Array:
    inner = sqrt(2 / pi) * (1 + 3 * 0.044715 * x**2)
    return np.asarray(0.5 * (1 + _fast(x) + x * inner / np.cosh(sqrt(2 / pi) * (x + 0.044715 * x**3)) ** 2))


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _quick_slope(x: Array, alpha: float) -> Array:
    gate = _logistic(alpha * x)
    return np.asarray(gate + alpha * x * gate * (1 - gate))


def _jacobian(y: Array, dy: Array, axis: int, *, is_log: bool, is_flat: bool) -> Array:
    """Multiply dY by the Jacobian matrix of a softmax or its logarithm, row by row."""
    place = axis % y.ndim
    if not y.size:
        return dy
    rows = [np.moveaxis(value, place, -1) for value in (y, dy)]
    if is_flat:
        rows = [value.reshape(int(np.prod(y.shape[:place])), -1) for value in (y, dy)]
    shape = rows[0].shape
    results = []
    for out, grad in zip(*(value.reshape(-1, shape[-1]) for value in rows), strict=True):
        identity = np.eye(out.size)
        matrix = identity - np.exp(out)[None, :] if is_log else np.diag(out) - np.outer(out, out)
        results.append(grad @ matrix)
    result = np.array(results).reshape(shape)
    return result.reshape(y.shape) if is_flat else np.moveaxis(result, -1, place)


def _softmax_grad(*, is_log: bool, is_flat: bool) -> Function:
    def run(dy: Array, y: Array, *, axis: int = 1 if is_flat else -1, **_: Any) -> Array:
        return _jacobian(y, dy, axis, is_log=is_log, is_flat=is_flat)

    return _elementwise(run)


def _layer_norm_grad(
    dy: Array, x: Array, scale: Array, mean: Array, inv_std: Array, *, axis: int = -1, **_: Any
) -> tuple[Array, ...]:
    """Gradients of a layer normalization, row by row."""
    place = axis % x.ndim
    width = int(np.prod(x.shape[place:]))
    rows, grads = (as_float64(value).reshape(-1, width) for value in (x, dy))
    hat = (rows - as_float64(mean).reshape(-1, 1)) * as_float64(inv_std).reshape(-1, 1)
    dx = np.empty(rows.shape)
    for row in range(len(rows)):
        matrix = np.eye(width) - 1 / width - np.outer(hat[row], hat[row]) / width
        dx[row] = inv_std.reshape(-1)[row] * matrix @ (grads[row] * scale.reshape(-1))
    sums = [values.sum(0).reshape(x.shape[place:]).astype(scale.dtype) for values in (grads * hat, grads)]
    return dx.reshape(x.shape).astype(x.dtype), sums[0], sums[1]


def _rms_norm(x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> tuple[Array, ...]:
    """Return rows over their root mean square, and its inverse."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    inv_std = 1 / np.sqrt((as_float64(x) ** 2).mean(axes, keepdims=True) + epsilon)
    return (as_float64(x) * inv_std * scale).astype(x.dtype), inv_std.astype(x.dtype)


def _rms_norm_grad(dy: Array, x: Array, scale: Array, inv_std: Array, *, axis: int = -1, **_: Any) -> tuple[Array, ...]:
    """Gradients of the same, row by row."""
    place = axis % x.ndim
    width = int(np.prod(x.shape[place:]))
    rows, grads = (as_float64(value).reshape(-1, width) for value in (x, dy))
    dx, inverse = np.empty(rows.shape), inv_std.reshape(-1)
    for row in range(len(rows)):
        matrix = np.eye(width) - np.outer(rows[row], rows[row]) * inverse[row] ** 2 / width
        dx[row] = inverse[row] * matrix @ (grads[row] * scale.reshape(-1))
    d_scale = (grads * rows * as_float64(inverse)[:, None]).sum(0).reshape(scale.shape)
    return dx.reshape(x.shape).astype(x.dtype), d_scale.astype(scale.dtype)


def _div_grad(dy: Array, a: Array, b: Array) -> tuple[Array, ...]:
    """Gradients of a quotient, element by element."""
    sums = np.zeros(a.shape), np.zeros(b.shape)
    dividend, divisor = (np.broadcast_to(as_float64(value), dy.shape) for value in (a, b))
    for place in np.ndindex(dy.shape):
        left = dy[place] / divisor[place]
        for part, grad in zip(sums, (left, -left * dividend[place] / divisor[place]), strict=True):
            part[tuple(np.minimum(place[dy.ndim - part.ndim :], np.array(part.shape) - 1))] += grad
    return sums[0].astype(a.dtype), sums[1].astype(b.dtype)


def _trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> tuple[Array, ...]:
    kept = np.triu if upper else np.tril
    return (kept(x, 0 if k is None else int(k.item())),)


def _batch_norm_internal(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, **attributes: Any
) -> tuple[Array, ...]:
    """Batch normalization in training; the variance is that of the batch, not an estimate."""
    momentum, epsilon = attributes.get("momentum", 0.9), attributes.get("epsilon", 1e-5)
    channels = np.moveaxis(as_float64(x), 1, -1)
    flat = channels.reshape(-1, x.shape[1])
    centre, inv_std = flat.mean(0), 1 / np.sqrt(flat.var(0) + epsilon)
    y = np.moveaxis((channels - centre) * inv_std * scale + bias, -1, 1)
    running = [old * momentum + new * (1 - momentum) for old, new in ((mean, centre), (variance, flat.var(0)))]
    return y.astype(x.dtype), *(value.astype(mean.dtype) for value in (*running, centre, inv_std))


def _cross_entropy_grad(
    dy: Array,
    log_prob: Array,
    labels: Array,
    weight: Array | None = None,
    ignored: Array | None = None,
    bias: Array | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    output_type: int = 0,
) -> tuple[Array, ...]:
    """Return the gradient of the scores, label by label."""
    index = ignore_index if ignored is None else int(ignored.item())
    result = np.zeros(log_prob.shape)
    total = 0.0
    for place in np.ndindex(labels.shape):
        label = int(labels[place])
        if label == index:
            continue
        factor = 1.0 if weight is None else float(weight[label])
        total += factor
        column = (place[0], slice(None), *place[1:])
        grad = np.exp(as_float64(log_prob)[column])
        grad[label] -= 1
        result[column] = grad * factor * float(dy[place] if dy.ndim else dy)
    # If all labels are ignored, there is no gradient.
    result = result / (total or 1.0) if reduction == "mean" else result
    result = result if bias is None else result + bias.reshape(result.shape)
    return (result.astype(_dtype(output_type, log_prob)),)


def _cross_entropy(
    scores: Array,
    labels: Array,
    weight: Array | None = None,
    ignored: Array | None = None,
    *,
    reduction: str = "mean",
    output_type: int = 0,
) -> tuple[Array, ...]:
    """Return the loss and the logarithms of the probabilities."""
    wide = as_float64(scores)
    log_prob = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    loss, factors = np.zeros(labels.shape), np.zeros(labels.shape)
    for place in np.ndindex(labels.shape):
        label = int(labels[place])
        if ignored is not None and label == ignored.item():
            continue
        factors[place] = 1.0 if weight is None else weight[label]
        loss[place] = -factors[place] * log_prob[(place[0], label, *place[1:])]
    total = {"none": loss, "sum": loss.sum(), "mean": loss.sum() / factors.sum()}[reduction]
    kind = _dtype(output_type, scores)
    return np.asarray(total).astype(kind), log_prob.astype(kind)


def _dtype(output_type: int, like: Array) -> np.dtype[Any]:
    """Return the type that a node requests, or that of an array."""
    return helper.tensor_dtype_to_np_dtype(output_type) if output_type else like.dtype


def _dropout_grad(
    dy: Array, mask: Array, ratio: Array | None = None, _training: Array | None = None
) -> tuple[Array, ...]:
    """Return the gradient of a dropout; onnxruntime ignores the mode."""
    share = 0.5 if ratio is None else float(ratio.item())
    return ((dy * mask / (1 - share)).astype(dy.dtype),)


def _fused_matmul(a: Array, b: Array, **attributes: Any) -> tuple[Array, ...]:
    """Return a product of operands whose axes are transposed first."""
    operands = []
    for side, value in (("A", a), ("B", b)):
        turned = np.moveaxis(as_float64(value), 0, -2) if attributes.get(f"transBatch{side}") else as_float64(value)
        operands.append(np.swapaxes(turned, -1, -2) if attributes.get(f"trans{side}") and value.ndim > 1 else turned)
    return ((attributes.get("alpha", 1.0) * (operands[0] @ operands[1])).astype(a.dtype),)


def _scale(x: Array, scale: Array, *, scale_down: int = 0) -> tuple[Array, ...]:
    factor = float(scale.item())
    return (np.asarray(as_float64(x) / factor if scale_down else as_float64(x) * factor).astype(x.dtype),)


def _gather_elements_grad(dy: Array, shape: Array, indices: Array, *, axis: int = 0) -> tuple[Array, ...]:
    result = np.zeros(shape.tolist())
    for place in np.ndindex(dy.shape):
        target = list(place)
        target[axis] = int(indices[place])
        result[tuple(target)] += dy[place]
    return (result.astype(dy.dtype),)


def _gather_nd_grad(shape: Array, indices: Array, dy: Array, *, batch_dims: int = 0) -> tuple[Array, ...]:
    if batch_dims:
        raise ValueError("GatherNDGrad is supported only without batch axes")
    result = np.zeros(shape.tolist())
    for place in np.ndindex(indices.shape[:-1]):
        result[tuple(indices[place].tolist())] += dy[place]
    return (result.astype(dy.dtype),)


def _slice_grad(
    dy: Array, shape: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> tuple[Array, ...]:
    result = np.zeros(shape.tolist(), dy.dtype)
    picked = [slice(None)] * result.ndim
    for position, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        axis = position if axes is None else int(axes[position])
        picked[axis] = slice(start, end, 1 if steps is None else int(steps[position]))
    result[tuple(picked)] = dy
    return (result,)


def _concat_training(*parts: Array, axis: int) -> tuple[Array, ...]:
    return np.concatenate(parts, axis), np.array([part.shape[axis] for part in parts], np.int64)


def _reduce_sum_training(
    x: Array, axes: Array, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> tuple[Array, ...]:
    if not axes.size:
        return (x if noop_with_empty_axes else x.sum(keepdims=bool(keepdims)),)
    return (x.sum(tuple(axes.tolist()), keepdims=bool(keepdims)),)


def _accumulate(buffer: Array, gradient: Array, overwrite: Array | None = None) -> tuple[Array, ...]:
    is_new = overwrite is not None and bool(overwrite.item())
    return np.ones(1, bool), gradient if is_new else buffer + gradient


def _adam_step(
    rate: Array,
    step: Array,
    weights: Sequence[Array],
    gradients: Sequence[Array],
    firsts: Sequence[Array],
    seconds: Sequence[Array],
    signal: Array | None = None,
    **attributes: Any,
) -> tuple[Any, ...]:
    """Return a step of AdamW: the flag, weights, first and second moments."""
    is_done = signal is None or bool(signal.item())
    if not is_done:
        return np.array([False]), list(weights), list(firsts), list(seconds)
    alpha, beta = attributes.get("alpha", 0.9), attributes.get("beta", 0.999)
    epsilon, decay = attributes.get("epsilon", 1e-8), attributes.get("weight_decay", 0.01)
    is_late = attributes.get("adam_mode", 0) == 1
    count, lr = int(step.item()), float(rate.item())
    share, root_share = (1 - alpha**count, sqrt(1 - beta**count)) if attributes.get("correct_bias", 1) else (1.0, 1.0)
    results: tuple[list[Array], list[Array], list[Array]] = ([], [], [])
    for weight, gradient, first, second in zip(weights, gradients, firsts, seconds, strict=True):
        w, g = as_float64(weight), as_float64(gradient)
        m, v = alpha * as_float64(first) + (1 - alpha) * g, beta * as_float64(second) + (1 - beta) * g**2
        if is_late:
            w = w - lr * (m / share) / ((np.sqrt(v) + epsilon) / root_share)
            w = w * (1 - lr * decay)
        else:
            w = w * (1 - lr * decay)
            w = w - lr * (m / share) / (np.sqrt(v) / root_share + epsilon)
        for kept, value in zip(results, (w, m, v), strict=True):
            kept.append(value.astype(weight.dtype))
    return np.array([True]), *results


def _descent(
    rate: Array, weights: Sequence[Array], gradients: Sequence[Array], signal: Array | None = None
) -> tuple[Any, ...]:
    """Return a step of plain gradient descent: the flag and the weights."""
    lr = float(rate.item()) if signal is None or signal.item() else 0.0
    pairs = zip(weights, gradients, strict=True)
    return np.array([lr != 0]), [(as_float64(w) - lr * as_float64(g)).astype(w.dtype) for w, g in pairs]


_TRAINING: Mapping[str, Function] = {
    "AdamWOptimizer": _adam_step,
    "BatchNormInternal": _batch_norm_internal,
    "BiasFastGeluGrad_dX": _elementwise(lambda dy, x, b: dy * _fast_slope(x + b)),
    "BiasGelu": _elementwise(lambda x, b: (x + b) * _phi(x + b)),
    "BiasGeluGrad_dX": _elementwise(lambda dy, x, b: dy * _gelu_slope(x + b)),
    "ConcatTraining": _concat_training,
    "DivGrad": _div_grad,
    "DropoutGrad": _dropout_grad,
    "FastGelu": _elementwise(lambda x, b=0.0: 0.5 * (x + b) * (1 + _fast(x + b))),
    "FastGeluGrad": _elementwise(lambda dy, x: dy * _fast_slope(x)),
    "FusedMatMul": _fused_matmul,
    "GatherElementsGrad": _gather_elements_grad,
    "GatherNDGrad": _gather_nd_grad,
    "Gelu": _elementwise(lambda x: x * _phi(x)),
    "GeluGrad": _elementwise(lambda dy, x: dy * _gelu_slope(x)),
    "InPlaceAccumulatorV2": _accumulate,
    "LayerNormalizationGrad": _layer_norm_grad,
    "LeakyReluGrad": _elementwise(lambda dy, y, alpha=0.01: np.where(y > 0, dy, alpha * dy)),
    "LogSoftmaxGrad": _softmax_grad(is_log=True, is_flat=True),
    "LogSoftmaxGrad_13": _softmax_grad(is_log=True, is_flat=False),
    "PassThrough": lambda *values: values,
    "QuickGelu": _elementwise(lambda x, alpha=1.702: x * _logistic(alpha * x)),
    "QuickGeluGrad": _elementwise(lambda dy, x, alpha=1.702: dy * _quick_slope(x, alpha)),
    "ReduceSumTraining": _reduce_sum_training,
    "ReluGrad": _elementwise(lambda dy, y: np.where(y > 0, dy, 0)),
    "Scale": _scale,
    "SGDOptimizerV2": _descent,
    "SigmoidGrad": _elementwise(lambda dy, y: dy * y * (1 - y)),
    "SimplifiedLayerNormalizationGrad": _rms_norm_grad,
    "SliceGrad": _slice_grad,
    "SoftmaxCrossEntropyLossGrad": _cross_entropy_grad,
    "SoftmaxCrossEntropyLossInternal": _cross_entropy,
    "SoftmaxCrossEntropyLossInternalGrad": _cross_entropy_grad,
    "SoftmaxGrad": _softmax_grad(is_log=False, is_flat=True),
    "SoftmaxGrad_13": _softmax_grad(is_log=False, is_flat=False),
    "TanhGrad": _elementwise(lambda dy, y: dy * (1 - y * y)),
    "Trilu": _trilu,
}
# By domain and node type.
REFERENCE: Mapping[tuple[str, str], Function] = {
    **{("com.microsoft", op_type): function for op_type, function in _TRAINING.items()},
    # onnxruntime uses the standard domain for it.
    ("", "SimplifiedLayerNormalization"): _rms_norm,
}
