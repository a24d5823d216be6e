"""Compute the expected result of L2NormGrad from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the gradients of y = gamma * x / sqrt(sum(x**2) + epsilon) for `x` [N, D] and `gamma` [D] in float64."""
    grad_y, x = inputs["grad_y"].astype(np.float64), inputs["x"].astype(np.float64)
    gamma = inputs["gamma"].astype(np.float64) if "gamma" in inputs else np.ones(x.shape[1])
    r = 1 / np.sqrt((x**2).sum(axis=1, keepdims=True) + attrs.get("epsilon", 1e-6))
    dot = (grad_y * gamma * x).sum(axis=1, keepdims=True)
    return {"grad_x": r * (grad_y * gamma - x * r**2 * dot), "grad_gamma": (grad_y * x * r).sum(axis=0)}
