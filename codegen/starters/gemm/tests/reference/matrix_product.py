"""Compute the expected result of MatrixProduct from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Multiply `x` [M, K] by the transposed `weight` [N, K] in float64."""
    return {"y": inputs["x"].astype(np.float64) @ inputs["weight"].astype(np.float64).T}
