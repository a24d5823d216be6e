"""Compute ConvTbcBackward from its formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def hf32(array: Array) -> Array:
    """Round to the nearest number with 11 bits of mantissa, ties to even; float16 numbers do not change."""
    single = array.astype(np.float32)
    bits = single.view(np.uint32)
    nearest = bits + np.uint32(0x7FF) + (bits >> np.uint32(12) & np.uint32(1))
    return np.where(np.isfinite(single), (nearest & np.uint32(0xFFFFF000)).view(np.float32), single)


def operand(array: Array, cube_math_type: int) -> Array:
    """Return the factor of the cube for a tensor, in float64."""
    if cube_math_type == 2:
        with np.errstate(over="ignore"):  # numbers above 65504 become infinity
            return array.astype(np.float16).astype(np.float64)
    return (array if cube_math_type == 0 else hf32(array)).astype(np.float64)


def products(grad: Array, rows: Array, weight: Array, pad: int) -> tuple[Array, Array]:
    """Return dL/dinput and dL/dweight of output[t, b, o] = sum(input[t + k - pad, b, i] * weight[k, i, o] for k, i).

    Args:
        grad: dL/doutput [T + 2 * pad + 1 - K, B, Cout], float64.
        rows: The input [T, B, Cin], float64, with zeros outside.
        weight: [K, Cin, Cout], float64.
        pad: Steps of zeros at both ends.
    """
    grad_input, grad_weight = np.zeros_like(rows), np.zeros_like(weight)
    for tap in range(len(weight)):
        first, end = max(0, pad - tap), min(len(grad), len(rows) + pad - tap)  # steps of grad that overlap the input
        if first < end:
            met = slice(first + tap - pad, end + tap - pad)
            grad_input[met] += grad[first:end] @ weight[tap].T
            grad_weight[tap] = np.tensordot(rows[met], grad[first:end], ((0, 1), (0, 1)))
    return grad_input, grad_weight


def reference(inputs: Mapping[str, Array | None], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return all gradients, in float64 from the operands of the cube.

    Args:
        inputs: `self` [T + 2 * pad + 1 - K, B, Cout], `input` [T, B, Cin], `weight` [K, Cin, Cout], `bias` [Cout].
        attrs: `pad`; `cube_math_type`: 0 unchanged operands, 1 and 3 float32 as HF32, 2 float16.

    Returns:
        `grad_input`, `grad_weight` and `grad_bias`, each in the dtype of its counterpart.
    """
    grad, rows, weight, bias = (inputs[name] for name in ("self", "input", "weight", "bias"))
    assert grad is not None
    assert rows is not None
    assert weight is not None
    assert bias is not None
    operands = (operand(array, int(attrs["cube_math_type"])) for array in (grad, rows, weight))
    grad_input, grad_weight = products(*operands, int(attrs["pad"]))
    return {
        "grad_input": grad_input.astype(rows.dtype),
        "grad_weight": grad_weight.astype(weight.dtype),
        "grad_bias": grad.astype(np.float64).sum(axis=(0, 1)).astype(bias.dtype),
    }
