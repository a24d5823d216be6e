"""Compute the expected result of SegmentMax from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the largest element of each column of `x` [T, H] in each segment; segment g ends before row `ends[g]`."""
    x = inputs["x"].astype(np.float64)
    segments = [x[start:end] for start, end in pairwise([0, *inputs["ends"]])]
    return {"y": np.stack([rows.max(axis=0, initial=-np.inf) for rows in segments])}
