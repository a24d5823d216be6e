"""Define the formulas of nodes that overwrite their inputs: sums of gradients and steps of optimizers."""

from __future__ import annotations

from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.rules.node_builder import NodeBuilder, Value

from .formula import formula

# Inputs that nodes write over, in the order of their outputs after the flag; used for comparing models.
OVERWRITTEN = {"AdamWOptimizer": (2, 4, 5), "InPlaceAccumulatorV2": (0,), "SGDOptimizerV2": (1,)}


@formula("InPlaceAccumulatorV2")
def _accumulate(
    builder: NodeBuilder, buffer: Value, gradient: Value, overwrite: Value | None = None
) -> list[Value | None]:
    """Return the sum so far, or only the gradient if a new sum starts."""
    builder.require_only_reader(buffer)
    total = buffer + gradient
    if overwrite is not None:
        total = builder.op("Where", overwrite, gradient, total)
        # The flag has one dim, which would make a scalar a vector.
        total = total if buffer.rank else total.reshape()
    builder.overwritten[buffer.name] = total
    return [None, total]


@formula("AdamWOptimizer")
def _adam(
    builder: NodeBuilder,
    rate: Value,
    step: Value,
    weights: Value,
    gradients: Value,
    firsts: Value,
    seconds: Value,
    signal: Value | None = None,
) -> None:
    """Return AdamW: moments m and v, then the step rate m / sqrt(v), with bias-corrected moments.

    Mode 0 (PyTorch) decays the weight first and adds epsilon to the corrected root; mode 1 (Hugging Face) decays it
    last and adds epsilon to the root before its correction.
    """
    alpha, beta = builder.attribute("alpha", 0.9), builder.attribute("beta", 0.999)
    epsilon, decay = builder.attribute("epsilon", 1e-8), builder.attribute("weight_decay", 0.01)
    mode, is_corrected = builder.attribute("adam_mode", 0), builder.attribute("correct_bias", 1)
    if mode not in (0, 1):
        raise Unmatched(f"has adam_mode {mode}, expected 0 or 1")
    # Common values of all weights are computed once; the root is corrected by its factor and that of epsilon.
    pace: Value = rate
    small: Value | float = epsilon
    kept = 1.0 - rate * decay if decay else None
    if is_corrected:
        count = builder.op("Cast", step, to=ELEMENT_TYPES[builder.dtype])
        share = builder.op("Sqrt", 1.0 - builder.op("Pow", builder.number(beta), count))
        pace = rate * share / (1.0 - builder.op("Pow", builder.number(alpha), count))
        small = epsilon if mode else epsilon * share
    members = [builder.members(value) for value in (weights, gradients, firsts, seconds)]
    if len({len(group) for group in members}) != 1:
        raise Unmatched(f"has sequences of {[len(group) for group in members]} tensors, expected equal numbers")
    for weight, gradient, first, second in zip(*members, strict=True):
        m = alpha * first + (1.0 - alpha) * gradient
        v = beta * second + (1.0 - beta) * gradient * gradient
        change = pace * m / (builder.op("Sqrt", v) + small)
        if kept is None:
            new = weight - change
        elif mode == 0:
            new = weight * kept - change
        else:
            new = (weight - change) * kept
        for old, value in ((weight, new), (first, m), (second, v)):
            _overwrite(builder, old, value, signal)


@formula("SGDOptimizerV2")
def _sgd(builder: NodeBuilder, rate: Value, weights: Value, gradients: Value, signal: Value | None = None) -> None:
    for weight, gradient in zip(builder.members(weights), builder.members(gradients), strict=True):
        _overwrite(builder, weight, weight - rate * gradient, signal)


def _overwrite(builder: NodeBuilder, old: Value, value: Value, signal: Value | None) -> None:
    new = value if signal is None else builder.op("Where", signal, value, old)
    # The rate has one dim, which would make a scalar a vector.
    builder.overwritten[old.name] = new if old.rank else new.reshape()
