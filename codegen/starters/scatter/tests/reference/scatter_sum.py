"""Compute the expected result of ScatterSum from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Sum the rows of `x` [N, D] in float64 into the rows of `y` [count, D] at `indices` [N]."""
    x, indices = inputs["x"].astype(np.float64), inputs["indices"]
    sums = [x[indices == row].sum(axis=0) for row in range(attrs["count"])]
    return {"y": np.array(sums).reshape(len(sums), x.shape[1])}
