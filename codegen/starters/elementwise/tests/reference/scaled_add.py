"""Compute the expected result of ScaledAdd from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return `alpha * x + y` in float64, or `alpha * x` without `y`."""
    scaled = attrs.get("alpha", 1.0) * inputs["x"].astype(np.float64)
    return {"z": scaled + inputs["y"].astype(np.float64) if "y" in inputs else scaled}
