"""Define the formulas of onnxruntime's activations, normalizations and losses, and of their gradients."""

from __future__ import annotations

from math import pi, prod, sqrt

import numpy as np

from opforge.codegen.printing import shown
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import INPUT
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.rules.node_builder import FLOATS, REPAIR, NodeBuilder, Value, whole

from .formula import formula

# The tanh approximation of Gelu: 0.5 x (1 + tanh(_FAST (x + _CUBE x^3))).
_FAST, _CUBE = sqrt(2 / pi), 0.044715


@formula("ReluGrad")
def _relu_grad(builder: NodeBuilder, dy: Value, y: Value) -> Value:
    return builder.op("Where", builder.op("Greater", y, 0.0), dy, 0.0)


@formula("LeakyReluGrad")
def _leaky_relu_grad(builder: NodeBuilder, dy: Value, y: Value) -> Value:
    return builder.op("Where", builder.op("Greater", y, 0.0), dy, builder.attribute("alpha", 0.01) * dy)


@formula("SigmoidGrad")
def _sigmoid_grad(_: NodeBuilder, dy: Value, y: Value) -> Value:
    return dy * y * (1.0 - y)


@formula("TanhGrad")
def _tanh_grad(_: NodeBuilder, dy: Value, y: Value) -> Value:
    return dy * (1.0 - y * y)


@formula("Gelu")
def _gelu(builder: NodeBuilder, x: Value) -> Value:
    return 0.5 * x * (1.0 + builder.op("Erf", x * sqrt(0.5)))


@formula("GeluGrad")
def _gelu_grad(builder: NodeBuilder, dy: Value, x: Value) -> Value:
    """Return Phi(x) + x phi(x), of the normal distribution."""
    density = builder.op("Exp", -0.5 * x * x) * sqrt(0.5 / pi)
    return dy * (0.5 * (1.0 + builder.op("Erf", x * sqrt(0.5))) + x * density)


@formula("FastGelu")
def _fast_gelu(builder: NodeBuilder, x: Value, bias: Value | None = None) -> Value:
    biased = x if bias is None else x + bias
    return 0.5 * biased * (1.0 + _fast_tanh(builder, biased))


@formula("FastGeluGrad")
def _fast_gelu_grad(builder: NodeBuilder, dy: Value, x: Value) -> Value:
    tanh = _fast_tanh(builder, x)
    slope = _FAST * (1.0 + 3.0 * _CUBE * x * x)
    return dy * 0.5 * (1.0 + tanh + x * (1.0 - tanh * tanh) * slope)


def _fast_tanh(builder: NodeBuilder, x: Value) -> Value:
    return builder.op("Tanh", _FAST * (x + _CUBE * x * x * x))


@formula("QuickGelu")
def _quick_gelu(builder: NodeBuilder, x: Value) -> Value:
    alpha: float = builder.attribute("alpha", 1.702)
    return x * builder.op("Sigmoid", alpha * x)


@formula("QuickGeluGrad")
def _quick_gelu_grad(builder: NodeBuilder, dy: Value, x: Value) -> Value:
    alpha: float = builder.attribute("alpha", 1.702)
    gate = builder.op("Sigmoid", alpha * x)
    return dy * gate * (1.0 + alpha * x * (1.0 - gate))


@formula("BiasGelu")
def _bias_gelu(builder: NodeBuilder, x: Value, bias: Value) -> Value:
    return _gelu(builder, x + bias)


@formula("BiasGeluGrad_dX")
def _bias_gelu_grad(builder: NodeBuilder, dy: Value, x: Value, bias: Value) -> Value:
    return _gelu_grad(builder, dy, x + bias)


@formula("BiasFastGeluGrad_dX")
def _bias_fast_gelu_grad(builder: NodeBuilder, dy: Value, x: Value, bias: Value) -> Value:
    return _fast_gelu_grad(builder, dy, x + bias)


def _softmax_axes(builder: NodeBuilder, y: Value) -> list[int]:
    """Compute along one axis; before opset 13, along that axis and all later ones."""
    if builder.node.op_type.endswith("_13"):
        return [builder.attribute("axis", -1)]
    return list(range(builder.attribute("axis", 1) % max(y.rank, 1), y.rank))


@formula("SoftmaxGrad", "SoftmaxGrad_13")
def _softmax_grad(builder: NodeBuilder, dy: Value, y: Value) -> Value:
    return y * (dy - (dy * y).sum(_softmax_axes(builder, y), keepdims=True))


@formula("LogSoftmaxGrad", "LogSoftmaxGrad_13")
def _log_softmax_grad(builder: NodeBuilder, dy: Value, y: Value) -> Value:
    return dy - builder.op("Exp", y) * dy.sum(_softmax_axes(builder, y), keepdims=True)


@formula("LayerNormalizationGrad")
def _layer_norm_grad(
    builder: NodeBuilder, dy: Value, x: Value, scale: Value, mean: Value, inv_std: Value
) -> list[Value]:
    """With h = (x - mean) inv_std and g = dy scale: inv_std (g - mean(g) - h mean(g h))."""
    axis = builder.attribute("axis", -1) % x.rank
    _require_kept_axes(x, mean, inv_std)
    inner, outer = range(axis, x.rank), range(axis)
    hat, g = (x - mean) * inv_std, dy * scale
    dx = inv_std * (g - g.mean(inner) - hat * (g * hat).mean(inner))
    return [dx, (dy * hat).sum(outer), dy.sum(outer)]


def _require_kept_axes(x: Value, *statistics: Value) -> None:
    for value in statistics:
        if value.type.shape is not None and value.rank != x.rank:
            raise Unmatched(
                f"needs statistics of rank {x.rank}, as {shown(x.name)}; {shown(value.name)} is {value.type}"
            )


# onnxruntime uses the standard domain for it.
@formula("SimplifiedLayerNormalization", domain="")
def _rms_norm(builder: NodeBuilder, x: Value, scale: Value) -> list[Value]:
    """Return a layer normalization without subtracting the mean, with the inverse root that its gradient reads."""
    if x.type.dtype in ("float16", "bfloat16"):
        raise Unmatched(f"needs float32 or float64; {shown(x.name)} is {x.type}")
    inner = range(builder.attribute("axis", -1) % x.rank, x.rank)
    inv_std = 1.0 / builder.op("Sqrt", (x * x).mean(inner) + builder.attribute("epsilon", 1e-5))
    return [x * inv_std * scale, inv_std]


@formula("SimplifiedLayerNormalizationGrad")
def _rms_norm_grad(builder: NodeBuilder, dy: Value, x: Value, scale: Value, inv_std: Value) -> list[Value]:
    """With h = x inv_std and g = dy scale: inv_std (g - h mean(g h))."""
    axis = builder.attribute("axis", -1) % x.rank
    _require_kept_axes(x, inv_std)
    hat, g = x * inv_std, dy * scale
    return [inv_std * (g - hat * (g * hat).mean(range(axis, x.rank))), (dy * hat).sum(range(axis))]


@formula("BatchNormInternal")
def _batch_norm(builder: NodeBuilder, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> list[Value]:
    """Batch normalization in training, with the mean and the inverse standard deviation that its gradient reads."""
    if not builder.attribute("training_mode", 1):
        raise Unmatched("has training_mode 0, expected 1")
    axes, column = [0, *range(2, x.rank)], (-1, *[1] * (x.rank - 2))
    batch_mean = x.mean(axes, keepdims=False)
    centred = x - batch_mean.reshape(*column)
    batch_variance = (centred * centred).mean(axes, keepdims=False)
    inv_std = 1.0 / builder.op("Sqrt", batch_variance + builder.attribute("epsilon", 1e-5))
    y = centred * (inv_std * scale).reshape(*column) + bias.reshape(*column)
    keep = builder.attribute("momentum", 0.9)
    running = []
    for old, new in ((mean, batch_mean), (variance, batch_variance)):
        if builder.scope.makers.get(old.origin or old.name) == INPUT:
            builder.require_only_reader(old)
            builder.overwritten[old.name] = keep * old + (1.0 - keep) * new
        running.append(keep * old + (1.0 - keep) * new)
    return [y, *running, batch_mean, inv_std]


@formula("BatchNormalizationGrad")
def _batch_norm_grad(_: NodeBuilder, dy: Value, x: Value, scale: Value, mean: Value, inv_std: Value) -> list[Value]:
    """With h = (x - mean) inv_std: scale inv_std (dY - mean(dY) - h mean(dY h)).

    Nodes that become the custom operator, or may do so once type and channels are known, are excluded.
    """
    if x.type.dtype is None or not x.dim(1):
        raise Unmatched(f"needs a known type and channels; {shown(x.name)} is {x.type}; {REPAIR}")
    axes, column = [0, *range(2, x.rank)], (-1, *[1] * (x.rank - 2))
    hat = (x - mean.reshape(*column)) * inv_std.reshape(*column)
    dx = (scale * inv_std).reshape(*column) * (dy - dy.mean(axes) - hat * (dy * hat).mean(axes))
    return [dx, (dy * hat).sum(axes), dy.sum(axes)]


@formula("SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad")
def _cross_entropy_grad(
    builder: NodeBuilder,
    dy: Value,
    log_prob: Value,
    labels: Value,
    weight: Value | None = None,
    ignored: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Return (softmax - one_hot) * weight of the label * dY; for a mean, divided by the sum of these weights."""
    rank, classes = log_prob.rank, log_prob.dim(1)
    hot = builder.op("OneHot", labels, _like_labels(builder, labels, classes), builder.numbers([0.0, 1.0]), axis=1)
    reduction = builder.attribute("reduction", "mean")
    if reduction not in ("mean", "sum", "none"):
        raise Unmatched(f"has the reduction {shown(reduction)}, expected mean, sum or none")
    index = int(builder.known(ignored).item()) if ignored else builder.attribute("ignore_index", None)
    gradient = builder.op("Exp", log_prob) - hot
    if weight is None and index is None:
        gradient = gradient / _count(builder, log_prob, labels) if reduction == "mean" else gradient
    else:
        ones = builder.numbers(np.ones(classes)) if weight is None else weight
        factor = (hot * ones.reshape(1, -1, *[1] * (rank - 2))).sum([1])
        if index is not None:
            is_ignored = builder.op("Equal", labels, _like_labels(builder, labels, index))
            factor = builder.op("Where", is_ignored, 0.0, factor)
        if reduction == "mean":
            total = factor.sum(range(rank - 1))
            # If all labels are ignored, there is no gradient.
            factor = factor / builder.op("Where", builder.op("Equal", total, 0.0), 1.0, total)
        gradient = gradient * factor.unsqueeze(1)
    # A constant dY is not combined with other constants, which ATC would drop.
    gradient = gradient * (dy.unsqueeze(1) if reduction == "none" and dy.type.shape != () else dy)
    return gradient if bias is None else gradient + bias.reshape(*log_prob.dims)


def _count(builder: NodeBuilder, log_prob: Value, labels: Value) -> Value | float:
    """Return the number of labels; a node counts them if the model does not state it."""
    sizes = whole(log_prob.dims)
    if sizes is None:
        return builder.op("Cast", builder.op("Size", labels), to=ELEMENT_TYPES[builder.dtype])
    return prod(sizes) // sizes[1]


def _like_labels(builder: NodeBuilder, labels: Value, number: int) -> Value:
    """Return a number in the type of the labels."""
    word = labels.type.dtype
    if word not in ("int32", "int64"):
        raise Unmatched(f"needs labels of int32 or int64; {shown(labels.name)} has {word}")
    return builder.array(np.array(number, word))


@formula("SoftmaxCrossEntropyLossInternal")
def _cross_entropy(
    builder: NodeBuilder, scores: Value, labels: Value, weight: Value | None = None, ignored: Value | None = None
) -> list[Value]:
    """Return the standard loss with the ignored label as an attribute."""
    more = {} if ignored is None else {"ignore_index": int(builder.known(ignored).item())}
    reduction = builder.attribute("reduction", "mean")
    return builder.ops("SoftmaxCrossEntropyLoss", 2, scores, labels, weight, reduction=reduction, **more)


@formula("DropoutGrad")
def _dropout_grad(
    builder: NodeBuilder, dy: Value, mask: Value, ratio: Value | None = None, _training: Value | None = None
) -> Value:
    """Scale the kept elements by 1 / (1 - ratio); onnxruntime does so also outside of training."""
    share = 0.5 if ratio is None else float(builder.known(ratio).item())
    return builder.op("Where", mask, dy / (1.0 - share), 0.0)


@formula("DivGrad")
def _div_grad(builder: NodeBuilder, dy: Value, a: Value, b: Value) -> list[Value | None]:
    """Return the sums of dY / B and -dY A / B^2 over the broadcast axes of A and B."""
    has_a, has_b = (any(builder.node.output[place : place + 1]) for place in range(2))
    return [
        _unrepeated(dy / b, dy, a, b) if has_a else None,
        _unrepeated(builder.op("Neg", dy * a / (b * b)), dy, b, a) if has_b else None,
    ]


def _unrepeated(value: Value, result: Value, part: Value, other: Value) -> Value:
    """Return the sum of a value of the shape of `result` to the shape of `part`, an operand combined with `other`."""
    first, offset = result.rank - part.rank, other.rank - part.rank
    for axis, dim in enumerate(part.dims):
        place = axis + offset
        is_alone = place < 0 or other.dims[place] == 1
        if dim is None and not is_alone and not (part.symbols[axis] and part.symbols[axis] == other.symbols[place]):
            raise Unmatched(f"needs a known shape; {shown(part.name)} is {part.type}; {REPAIR}")
    repeated = [axis for axis, dim in enumerate(part.dims) if dim == 1 and result.dims[first + axis] != 1]
    return value.sum(range(first)).sum(repeated, keepdims=True)


# ATC has no parser for the norms of opset 18, the opset of formulas.
@formula("ReduceL1", domain="")
def _reduce_l1(builder: NodeBuilder, x: Value, axes: Value | None = None) -> Value:
    return _norm(builder, builder.op("Abs", x), axes)


@formula("ReduceL2", domain="")
def _reduce_l2(builder: NodeBuilder, x: Value, axes: Value | None = None) -> Value:
    if x.type.dtype not in FLOATS:
        raise Unmatched(f"needs a known float type; {shown(x.name)} is {x.type}")
    # ATC's ReduceSumSquare has no axes input.
    return builder.op("Sqrt", _norm(builder, x * x, axes))


def _norm(builder: NodeBuilder, x: Value, axes: Value | None) -> Value:
    if builder.attribute("noop_with_empty_axes", 0):
        raise Unmatched("has noop_with_empty_axes 1, expected 0")
    return builder.op("ReduceSum", x, axes, keepdims=builder.attribute("keepdims", 1))
