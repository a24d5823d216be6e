"""Formulas of nodes that write over their inputs: sums of gradients and steps of optimizers."""

from __future__ import annotations

from collections.abc import Mapping

from opforge.frontend.ir.value_types import ELEMENT_TYPES

from .lowering import MICROSOFT, Key, Lowering, NotLowered, Site, Value


def _accumulate(site: Site, buffer: Value, gradient: Value, overwrite: Value | None = None) -> list[Value | None]:
    """The sum so far, or the gradient alone where a new sum starts."""
    site.require_only_reader(buffer)
    total = buffer + gradient
    if overwrite is not None:
        total = site.op("Where", overwrite, gradient, total)
        # The flag has one dim, which would make a scalar a vector.
        total = total if buffer.rank else total.reshape()
    site.overwritten[buffer.name] = total
    return [None, total]


def _adam(
    site: Site,
    rate: Value,
    step: Value,
    weights: Value,
    gradients: Value,
    firsts: Value,
    seconds: Value,
    signal: Value | None = None,
) -> None:
    """AdamW: moments m and v, then the step rate m / sqrt(v), both moments freed of their start at zero.

    Mode 0 (PyTorch) shrinks the weight first and adds epsilon to the corrected root, mode 1 (Hugging Face) shrinks it
    last and adds epsilon to the root before its correction.
    """
    alpha, beta = site.attribute("alpha", 0.9), site.attribute("beta", 0.999)
    epsilon, decay = site.attribute("epsilon", 1e-8), site.attribute("weight_decay", 0.01)
    mode, is_corrected = site.attribute("adam_mode", 0), site.attribute("correct_bias", 1)
    if mode not in (0, 1):
        raise NotLowered(f"has adam_mode {mode}, expected 0 or 1")
    # What is the same for all weights is computed once; the root is corrected by its factor and that of epsilon.
    pace: Value = rate
    small: Value | float = epsilon
    kept = 1.0 - rate * decay if decay else None
    if is_corrected:
        count = site.op("Cast", step, to=ELEMENT_TYPES[site.dtype])
        share = site.op("Sqrt", 1.0 - site.op("Pow", site.number(beta), count))
        pace = rate * share / (1.0 - site.op("Pow", site.number(alpha), count))
        small = epsilon if mode else epsilon * share
    members = [site.members(value) for value in (weights, gradients, firsts, seconds)]
    if len({len(group) for group in members}) != 1:
        raise NotLowered(f"has sequences of {[len(group) for group in members]} tensors, expected equally many")
    for weight, gradient, first, second in zip(*members, strict=True):
        m = alpha * first + (1.0 - alpha) * gradient
        v = beta * second + (1.0 - beta) * gradient * gradient
        change = pace * m / (site.op("Sqrt", v) + small)
        if kept is None:
            new = weight - change
        elif mode == 0:
            new = weight * kept - change
        else:
            new = (weight - change) * kept
        for old, value in ((weight, new), (first, m), (second, v)):
            _overwrite(site, old, value, signal)


def _sgd(site: Site, rate: Value, weights: Value, gradients: Value, signal: Value | None = None) -> None:
    for weight, gradient in zip(site.members(weights), site.members(gradients), strict=True):
        _overwrite(site, weight, weight - rate * gradient, signal)


def _overwrite(site: Site, old: Value, value: Value, signal: Value | None) -> None:
    new = value if signal is None else site.op("Where", signal, value, old)
    # The rate has one dim, which would make a scalar a vector.
    site.overwritten[old.name] = new if old.rank else new.reshape()


_FORMULAS: Mapping[str, Lowering] = {
    "AdamWOptimizer": _adam,
    "InPlaceAccumulatorV2": _accumulate,
    "SGDOptimizerV2": _sgd,
}
UPDATES: Mapping[Key, Lowering] = {(MICROSOFT, name): formula for name, formula in _FORMULAS.items()}
