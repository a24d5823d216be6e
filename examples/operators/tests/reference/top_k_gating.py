"""Compute the expected result of TopKGating from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the k largest softmax probabilities of each row in float64; of equal logits, the lowest index is first."""
    logits = inputs["logits"].astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=-1, keepdims=True)
    indices = np.argsort(-logits, axis=-1, kind="stable")[..., : attrs["k"]]
    return {"weights": np.take_along_axis(probabilities, indices, axis=-1), "indices": indices.astype(np.int32)}
