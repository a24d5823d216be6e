"""Compute BatchNormElemtBackward from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array | None], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Evaluate the formula in float64.

    Args:
        inputs: `grad_out`, `input` [N, C, ...]; `mean`, `invstd`, `sum_dy`, `sum_dy_xmu` [C]; `weight` [C] or None;
            `counter`, all elements of which are summed.
        attrs: None.

    Returns:
        `grad_input` [N, C, ...] in the dtype of `grad_out`.
    """
    wide = {name: array.astype(np.float64) for name, array in inputs.items() if array is not None}
    channels = (-1, *(1,) * (wide["input"].ndim - 2))
    mean, invstd, sum_dy, sum_dy_xmu = (
        wide[name].reshape(channels) for name in ("mean", "invstd", "sum_dy", "sum_dy_xmu")
    )
    weight = wide["weight"].reshape(channels) if "weight" in wide else 1.0
    with np.errstate(all="ignore"):
        count = wide["counter"].sum()
        slope = invstd**2 * (sum_dy_xmu / count)
        result = ((wide["grad_out"] - sum_dy / count) - (wide["input"] - mean) * slope) * (invstd * weight)
        grad_out = inputs["grad_out"]
        assert grad_out is not None
        return {"grad_input": result.astype(grad_out.dtype)}
