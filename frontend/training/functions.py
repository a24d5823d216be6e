"""Formulas of onnxruntime's activations, normalisations and losses, and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, prod, sqrt

import numpy as np

from opforge.codegen.printing import shown
from opforge.frontend.ir.graph import INPUT
from opforge.frontend.ir.value_types import ELEMENT_TYPES

from .lowering import FLOATS, MICROSOFT, REPAIR, Key, Lowering, NotLowered, Site, Value, whole

# The tanh approximation of Gelu: 0.5 x (1 + tanh(_FAST (x + _CUBE x^3))).
_FAST, _CUBE = sqrt(2 / pi), 0.044715


def _relu_grad(site: Site, dy: Value, y: Value) -> Value:
    return site.op("Where", site.op("Greater", y, 0.0), dy, 0.0)


def _leaky_relu_grad(site: Site, dy: Value, y: Value) -> Value:
    return site.op("Where", site.op("Greater", y, 0.0), dy, site.attribute("alpha", 0.01) * dy)


def _sigmoid_grad(_: Site, dy: Value, y: Value) -> Value:
    return dy * y * (1.0 - y)


def _tanh_grad(_: Site, dy: Value, y: Value) -> Value:
    return dy * (1.0 - y * y)


def _gelu(site: Site, x: Value) -> Value:
    return 0.5 * x * (1.0 + site.op("Erf", x * sqrt(0.5)))


def _gelu_grad(site: Site, dy: Value, x: Value) -> Value:
    """Phi(x) + x phi(x), of the normal distribution."""
    density = site.op("Exp", -0.5 * x * x) * sqrt(0.5 / pi)
    return dy * (0.5 * (1.0 + site.op("Erf", x * sqrt(0.5))) + x * density)


def _fast_gelu(site: Site, x: Value, bias: Value | None = None) -> Value:
    biased = x if bias is None else x + bias
    return 0.5 * biased * (1.0 + _fast_tanh(site, biased))


def _fast_gelu_grad(site: Site, dy: Value, x: Value) -> Value:
    tanh = _fast_tanh(site, x)
    slope = _FAST * (1.0 + 3.0 * _CUBE * x * x)
    return dy * 0.5 * (1.0 + tanh + x * (1.0 - tanh * tanh) * slope)


def _fast_tanh(site: Site, x: Value) -> Value:
    return site.op("Tanh", _FAST * (x + _CUBE * x * x * x))


def _quick_gelu(site: Site, x: Value) -> Value:
    alpha: float = site.attribute("alpha", 1.702)
    return x * site.op("Sigmoid", alpha * x)


def _quick_gelu_grad(site: Site, dy: Value, x: Value) -> Value:
    alpha: float = site.attribute("alpha", 1.702)
    gate = site.op("Sigmoid", alpha * x)
    return dy * gate * (1.0 + alpha * x * (1.0 - gate))


def _bias_gelu(site: Site, x: Value, bias: Value) -> Value:
    return _gelu(site, x + bias)


def _bias_gelu_grad(site: Site, dy: Value, x: Value, bias: Value) -> Value:
    return _gelu_grad(site, dy, x + bias)


def _bias_fast_gelu_grad(site: Site, dy: Value, x: Value, bias: Value) -> Value:
    return _fast_gelu_grad(site, dy, x + bias)


def _softmax_axes(site: Site, y: Value) -> list[int]:
    """One axis; before opset 13 that and all behind it."""
    if site.node.op_type.endswith("_13"):
        return [site.attribute("axis", -1)]
    return list(range(site.attribute("axis", 1) % max(y.rank, 1), y.rank))


def _softmax_grad(site: Site, dy: Value, y: Value) -> Value:
    return y * (dy - (dy * y).sum(_softmax_axes(site, y), keepdims=True))


def _log_softmax_grad(site: Site, dy: Value, y: Value) -> Value:
    return dy - site.op("Exp", y) * dy.sum(_softmax_axes(site, y), keepdims=True)


def _layer_norm_grad(site: Site, dy: Value, x: Value, scale: Value, mean: Value, inv_std: Value) -> list[Value]:
    """With h = (x - mean) inv_std and g = dy scale: inv_std (g - mean(g) - h mean(g h))."""
    axis = site.attribute("axis", -1) % x.rank
    _require_kept_axes(x, mean, inv_std)
    inner, outer = range(axis, x.rank), range(axis)
    hat, g = (x - mean) * inv_std, dy * scale
    dx = inv_std * (g - g.mean(inner) - hat * (g * hat).mean(inner))
    return [dx, (dy * hat).sum(outer), dy.sum(outer)]


def _require_kept_axes(x: Value, *statistics: Value) -> None:
    for value in statistics:
        if value.type.shape is not None and value.rank != x.rank:
            raise NotLowered(
                f"needs statistics of rank {x.rank}, as {shown(x.name)}; {shown(value.name)} is {value.type}"
            )


def _rms_norm(site: Site, x: Value, scale: Value) -> list[Value]:
    """A layer normalisation that takes no mean away, with the inverse root that its gradient reads."""
    if x.type.dtype in ("float16", "bfloat16"):
        raise NotLowered(f"needs float32 or float64, in which it would count; {shown(x.name)} is {x.type}")
    inner = range(site.attribute("axis", -1) % x.rank, x.rank)
    inv_std = 1.0 / site.op("Sqrt", (x * x).mean(inner) + site.attribute("epsilon", 1e-5))
    return [x * inv_std * scale, inv_std]


def _rms_norm_grad(site: Site, dy: Value, x: Value, scale: Value, inv_std: Value) -> list[Value]:
    """With h = x inv_std and g = dy scale: inv_std (g - h mean(g h))."""
    axis = site.attribute("axis", -1) % x.rank
    _require_kept_axes(x, inv_std)
    hat, g = x * inv_std, dy * scale
    return [inv_std * (g - hat * (g * hat).mean(range(axis, x.rank))), (dy * hat).sum(range(axis))]


def _batch_norm(site: Site, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> list[Value]:
    """Batch normalisation in training, with the mean and the inverse standard deviation that its gradient reads."""
    if not site.attribute("training_mode", 1):
        raise NotLowered("has training_mode 0, expected 1")
    axes, column = [0, *range(2, x.rank)], (-1, *[1] * (x.rank - 2))
    batch_mean = x.mean(axes, keepdims=False)
    centred = x - batch_mean.reshape(*column)
    batch_variance = (centred * centred).mean(axes, keepdims=False)
    inv_std = 1.0 / site.op("Sqrt", batch_variance + site.attribute("epsilon", 1e-5))
    y = centred * (inv_std * scale).reshape(*column) + bias.reshape(*column)
    keep = site.attribute("momentum", 0.9)
    running = []
    for old, new in ((mean, batch_mean), (variance, batch_variance)):
        if site.scope.makers.get(old.origin or old.name) == INPUT:
            site.require_only_reader(old)
            site.overwritten[old.name] = keep * old + (1.0 - keep) * new
        running.append(keep * old + (1.0 - keep) * new)
    return [y, *running, batch_mean, inv_std]


def _batch_norm_grad(_: Site, dy: Value, x: Value, scale: Value, mean: Value, inv_std: Value) -> list[Value]:
    """With h = (x - mean) inv_std: scale inv_std (dY - mean(dY) - h mean(dY h)).

    What becomes BatchNormElemtBackward does not come here; nor what may become it, once type and channels are known.
    """
    if x.type.dtype is None or not x.dim(1):
        raise NotLowered(f"needs a known type and channels; {shown(x.name)} is {x.type}; {REPAIR}")
    axes, column = [0, *range(2, x.rank)], (-1, *[1] * (x.rank - 2))
    hat = (x - mean.reshape(*column)) * inv_std.reshape(*column)
    dx = (scale * inv_std).reshape(*column) * (dy - dy.mean(axes) - hat * (dy * hat).mean(axes))
    return [dx, (dy * hat).sum(axes), dy.sum(axes)]


def _cross_entropy_grad(
    site: Site,
    dy: Value,
    log_prob: Value,
    labels: Value,
    weight: Value | None = None,
    ignored: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """(softmax - one_hot) times weight of the label times dY; for a mean over the sum of these weights."""
    rank, classes = log_prob.rank, log_prob.dim(1)
    hot = site.op("OneHot", labels, _like_labels(site, labels, classes), site.numbers([0.0, 1.0]), axis=1)
    reduction = site.attribute("reduction", "mean")
    if reduction not in ("mean", "sum", "none"):
        raise NotLowered(f"has the reduction {shown(reduction)}, expected mean, sum or none")
    index = int(site.known(ignored).item()) if ignored else site.attribute("ignore_index", None)
    gradient = site.op("Exp", log_prob) - hot
    if weight is None and index is None:
        gradient = gradient / _count(site, log_prob, labels) if reduction == "mean" else gradient
    else:
        ones = site.numbers(np.ones(classes)) if weight is None else weight
        factor = (hot * ones.reshape(1, -1, *[1] * (rank - 2))).sum([1])
        if index is not None:
            is_ignored = site.op("Equal", labels, _like_labels(site, labels, index))
            factor = site.op("Where", is_ignored, 0.0, factor)
        if reduction == "mean":
            total = factor.sum(range(rank - 1))
            # Where all labels are ignored, there is no gradient.
            factor = factor / site.op("Where", site.op("Equal", total, 0.0), 1.0, total)
        gradient = gradient * factor.unsqueeze(1)
    # A constant dY stays out of arithmetic with other constants, which ATC would drop.
    gradient = gradient * (dy.unsqueeze(1) if reduction == "none" and dy.type.shape != () else dy)
    return gradient if bias is None else gradient + bias.reshape(*log_prob.dims)


def _count(site: Site, log_prob: Value, labels: Value) -> Value | float:
    """How many labels there are; counted by a node where the model does not say it."""
    sizes = whole(log_prob.dims)
    if sizes is None:
        return site.op("Cast", site.op("Size", labels), to=ELEMENT_TYPES[site.dtype])
    return prod(sizes) // sizes[1]


def _like_labels(site: Site, labels: Value, number: int) -> Value:
    """A number of the type of the labels."""
    word = labels.type.dtype
    if word not in ("int32", "int64"):
        raise NotLowered(f"needs labels of int32 or int64; {shown(labels.name)} has {word}")
    return site.array(np.array(number, word))


def _cross_entropy(
    site: Site, scores: Value, labels: Value, weight: Value | None = None, ignored: Value | None = None
) -> list[Value]:
    """The standard loss, its ignored label an attribute."""
    more = {} if ignored is None else {"ignore_index": int(site.known(ignored).item())}
    reduction = site.attribute("reduction", "mean")
    return site.ops("SoftmaxCrossEntropyLoss", 2, scores, labels, weight, reduction=reduction, **more)


def _dropout_grad(
    site: Site, dy: Value, mask: Value, ratio: Value | None = None, _training: Value | None = None
) -> Value:
    """What was kept was divided by 1 - ratio; onnxruntime does so outside of training too."""
    share = 0.5 if ratio is None else float(site.known(ratio).item())
    return site.op("Where", mask, dy / (1.0 - share), 0.0)


def _div_grad(site: Site, dy: Value, a: Value, b: Value) -> list[Value | None]:
    """Sums of dY / B and -dY A / B^2 over what A and B were repeated along."""
    has_a, has_b = (any(site.node.output[place : place + 1]) for place in range(2))
    return [
        _unrepeated(dy / b, dy, a, b) if has_a else None,
        _unrepeated(site.op("Neg", dy * a / (b * b)), dy, b, a) if has_b else None,
    ]


def _unrepeated(value: Value, result: Value, part: Value, other: Value) -> Value:
    """The sum of a value of the shape of `result` to the shape of `part`, which was combined with `other`."""
    first, offset = result.rank - part.rank, other.rank - part.rank
    for axis, dim in enumerate(part.dims):
        place = axis + offset
        is_alone = place < 0 or other.dims[place] == 1
        if dim is None and not is_alone and not (part.symbols[axis] and part.symbols[axis] == other.symbols[place]):
            raise NotLowered(f"needs a known shape; {shown(part.name)} is {part.type}; {REPAIR}")
    repeated = [axis for axis, dim in enumerate(part.dims) if dim == 1 and result.dims[first + axis] != 1]
    return value.sum(range(first)).sum(repeated, keepdims=True)


def _reduce_l1(site: Site, x: Value, axes: Value | None = None) -> Value:
    return _norm(site, "ReduceSum", site.op("Abs", x), axes)


def _reduce_l2(site: Site, x: Value, axes: Value | None = None) -> Value:
    if x.type.dtype not in FLOATS:
        raise NotLowered(f"needs a known float type; {shown(x.name)} is {x.type}")
    return site.op("Sqrt", _norm(site, "ReduceSumSquare", x, axes))


def _norm(site: Site, op_type: str, x: Value, axes: Value | None) -> Value:
    if site.attribute("noop_with_empty_axes", 0):
        raise NotLowered("has noop_with_empty_axes 1, expected 0")
    return site.op(op_type, x, axes, keepdims=site.attribute("keepdims", 1))


_FORMULAS: Mapping[str, Lowering] = {
    "BatchNormInternal": _batch_norm,
    "BatchNormalizationGrad": _batch_norm_grad,
    "BiasFastGeluGrad_dX": _bias_fast_gelu_grad,
    "BiasGelu": _bias_gelu,
    "BiasGeluGrad_dX": _bias_gelu_grad,
    "DivGrad": _div_grad,
    "DropoutGrad": _dropout_grad,
    "FastGelu": _fast_gelu,
    "FastGeluGrad": _fast_gelu_grad,
    "Gelu": _gelu,
    "GeluGrad": _gelu_grad,
    "LayerNormalizationGrad": _layer_norm_grad,
    "LeakyReluGrad": _leaky_relu_grad,
    "LogSoftmaxGrad": _log_softmax_grad,
    "LogSoftmaxGrad_13": _log_softmax_grad,
    "QuickGelu": _quick_gelu,
    "QuickGeluGrad": _quick_gelu_grad,
    "ReluGrad": _relu_grad,
    "SigmoidGrad": _sigmoid_grad,
    "SimplifiedLayerNormalizationGrad": _rms_norm_grad,
    "SoftmaxCrossEntropyLossGrad": _cross_entropy_grad,
    "SoftmaxCrossEntropyLossInternal": _cross_entropy,
    "SoftmaxCrossEntropyLossInternalGrad": _cross_entropy_grad,
    "SoftmaxGrad": _softmax_grad,
    "SoftmaxGrad_13": _softmax_grad,
    "TanhGrad": _tanh_grad,
}
FUNCTIONS: Mapping[Key, Lowering] = {
    **{(MICROSOFT, name): formula for name, formula in _FORMULAS.items()},
    # onnxruntime puts it into the standard's own domain.
    ("", "SimplifiedLayerNormalization"): _rms_norm,
    # Of opset 18, which is made, ATC has no parser for them.
    ("", "ReduceL1"): _reduce_l1,
    ("", "ReduceL2"): _reduce_l2,
}
