"""Compute the expected result of RotaryEmbedding from its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def reference(inputs: Mapping[str, Array], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Multiply each pair of `x` [B, S, H, D] as a complex number by cos + i sin of its position, in complex128."""
    x = inputs["x"].astype(np.float64)
    angles = inputs["cos"].astype(np.float64) + 1j * inputs["sin"].astype(np.float64)
    half = x.shape[-1] // 2
    is_interleaved = attrs.get("interleaved", False)
    real, imaginary = (x[..., 0::2], x[..., 1::2]) if is_interleaved else (x[..., :half], x[..., half:])
    rotated = (real + 1j * imaginary) * angles[None, :, None, :]
    parts = [rotated.real, rotated.imag]
    return {"y": np.stack(parts, axis=-1).reshape(x.shape) if is_interleaved else np.concatenate(parts, axis=-1)}
