"""Compute GroupedBiasAddGrad from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def ends_of_groups(group_idx: Array, rows: int, group_idx_type: int) -> list[int]:
    """Return the row after the last one of every group: the list or its running sum, clamped to [0, rows]."""
    index = [int(value) for value in group_idx]
    ends = list(accumulate(index)) if group_idx_type == 1 else index
    return [min(max(end, 0), rows) for end in ends]


def reference(inputs: Mapping[str, Array | None], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Sum the rows of every group in float64.

    Args:
        inputs: `grad_y` [T, H] with `group_idx` [G], or `grad_y` [G, C, H] without.
        attrs: `group_idx_type`: 0 (default): `group_idx` contains ends, 1: lengths.

    Returns:
        `grad_bias` [G, H] in the dtype of `grad_y`. A group whose end is not above its start gives zeros.
    """
    grad_y, group_idx = inputs["grad_y"], inputs.get("group_idx")
    assert grad_y is not None
    wide = grad_y.astype(np.float64)
    if group_idx is None:
        return {"grad_bias": wide.sum(axis=1).astype(grad_y.dtype)}
    ends = ends_of_groups(group_idx, len(wide), int(attrs.get("group_idx_type", 0)))
    sums = [wide[start:end].sum(axis=0) for start, end in pairwise([0, *ends])]
    return {"grad_bias": np.array(sums, np.float64).reshape(len(ends), wide.shape[1]).astype(grad_y.dtype)}
