"""Compute the expected result of RmsNormGrad from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the gradients of y = gamma * x * rstd, where rstd = 1 / sqrt(mean(x**2) + epsilon), in float64."""
    grad_y, x, rstd = (inputs[name].astype(np.float64) for name in ("grad_y", "x", "rstd"))
    columns = x.shape[-1]
    gamma = inputs["gamma"].astype(np.float64) if "gamma" in inputs else np.ones(columns)
    r = rstd[..., None]
    dot = (grad_y * gamma * x).sum(axis=-1, keepdims=True) / max(columns, 1)
    grad_gamma = (grad_y * x * r).sum(axis=tuple(range(x.ndim - 1)))
    return {"grad_x": r * (grad_y * gamma - x * r**2 * dot), "grad_gamma": grad_gamma}
