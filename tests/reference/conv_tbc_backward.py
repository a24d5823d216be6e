"""What ConvTbcBackward computes, written from its formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HALVED, ROUNDED = (2,), (1, 3)


def hf32(array: Array) -> Array:
    """float32 numbers with 11 explicit bits of mantissa, the nearest ones; of two equally near ones the even."""
    bits = array.astype(np.float32).view(np.uint32)
    dropped = np.uint32(12)
    nearest = bits + (np.uint32(1 << 11) - np.uint32(1)) + ((bits >> dropped) & np.uint32(1))
    rounded = (nearest >> dropped << dropped).view(np.float32)
    return np.where(np.isfinite(array), rounded, array)


def operand(array: Array, dtype: Any, cube_math_type: int) -> Array:
    """What the cube multiplies for a tensor of the promoted `dtype`, in float64."""
    if cube_math_type in HALVED:
        with np.errstate(over="ignore"):  # beyond 65504 lies infinity
            return array.astype(np.float16).astype(np.float64)
    if cube_math_type in ROUNDED and np.dtype(dtype) == np.float32:
        return hf32(array).astype(np.float64)
    return array.astype(np.float64)


def promoted(*arrays: Array) -> Any:
    """The dtype that decides: that of the arrays if they agree, else float32."""
    dtypes = {array.dtype for array in arrays}
    return dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)


def gradients(grad: Array, rows: Array, weight: Array, pad: int) -> tuple[Array, Array]:
    """Of output[t, b, o] = sum(input[t + k - pad, b, i] * weight[k, i, o] for k, i), zeros outside the input.

    Args:
        grad: dL/doutput [T + 2 * pad + 1 - K, B, Cout], float64.
        rows: The input [T, B, Cin], float64.
        weight: [K, Cin, Cout], float64.
        pad: Steps of zeros at both ends.

    Returns:
        dL/dinput and dL/dweight.
    """
    grad_input, grad_weight = np.zeros_like(rows), np.zeros_like(weight)
    for tap in range(len(weight)):
        first = max(0, pad - tap)  # first and last step of grad that meets a step of the input in this tap
        end = min(len(grad), len(rows) + pad - tap)
        if first < end:
            met = slice(first + tap - pad, end + tap - pad)
            grad_input[met] += grad[first:end] @ weight[tap].T
            grad_weight[tap] = np.tensordot(rows[met], grad[first:end], ((0, 1), (0, 1)))
    return grad_input, grad_weight


def reference(inputs: Mapping[str, Array | None], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """All gradients, in float64 from operands as the cube sees them.

    Args:
        inputs: `self` [T + 2 * pad + 1 - K, B, Cout], `input` [T, B, Cin], `weight` [K, Cin, Cout], `bias` [Cout].
        attrs: `pad`; `cube_math_type`: 0 as they are, 1 and 3: float32 as HF32, 2: float16.

    Returns:
        `grad_input`, `grad_weight` and `grad_bias`, each in the dtype of its counterpart.
    """
    grad, rows, weight, bias = (inputs[name] for name in ("self", "input", "weight", "bias"))
    assert grad is not None
    assert rows is not None
    assert weight is not None
    assert bias is not None
    dtype, kind = promoted(grad, rows, weight), int(attrs["cube_math_type"])
    operands = (operand(array, dtype, kind) for array in (grad, rows, weight))
    grad_input, grad_weight = gradients(*operands, int(attrs["pad"]))
    grad_bias = grad.astype(np.float64).sum(axis=(0, 1))
    return {
        "grad_input": grad_input.astype(rows.dtype),
        "grad_weight": grad_weight.astype(weight.dtype),
        "grad_bias": grad_bias.astype(bias.dtype),
    }
