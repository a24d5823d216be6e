"""Compute EmbeddingDenseBackward from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array | None], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Sum the rows of grad with the same index, in float64.

    Args:
        inputs: `grad` [..., E] and `indices` with one element for each row of grad.
        attrs: `num_weights`, `padding_idx` (default -1), `scale_grad_by_freq` (default False).

    Returns:
        `grad_weight` [num_weights, E] in the dtype of `grad`. Rows without an index and row `padding_idx` are zeros;
        indices outside the table are skipped.
    """
    grad, indices = inputs["grad"], inputs["indices"]
    assert grad is not None
    assert indices is not None
    weights, columns = int(attrs["num_weights"]), grad.shape[-1]
    sums = np.zeros((weights, columns))
    if sums.size and grad.size:
        rows = grad.reshape(-1, columns).astype(np.float64)
        index = (np.trunc(indices) if indices.dtype.kind == "f" else indices).reshape(-1).astype(np.int64)
        used = (index >= 0) & (index < weights) & (index != int(attrs.get("padding_idx", -1)))
        np.add.at(sums, index[used], rows[used])
        if attrs.get("scale_grad_by_freq", False):
            counts = np.bincount(index[used], minlength=weights)
            sums /= np.maximum(counts, 1)[:, None]
    return {"grad_weight": sums.astype(grad.dtype, copy=False)}
