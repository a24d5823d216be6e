"""Compute NsaCompressGrad from its formulas."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def first_rows_of_windows(ends: list[int], block: int, stride: int) -> list[int]:
    """Return the first row of every window: every `stride` rows of a sequence, while `block` rows remain."""
    return [row for start, end in pairwise([0, *ends]) for row in range(start, end - block + 1, stride)]


def equal_ends(rows: int, windows: int, block: int, stride: int) -> list[int]:
    """Return the ends of equal sequences with `windows` windows in total; there is exactly one solution."""
    counts = [count for count in range(1, rows + 1) if rows % count == 0]
    possible = [list(range(rows // count, rows + 1, rows // count)) for count in counts]
    (ends,) = (ends for ends in possible if len(first_rows_of_windows(ends, block, stride)) == windows)
    return ends


def ends_of_sequences(act_seq_len: Array, act_seq_len_type: int) -> list[int]:
    """Return the row after the last one of every sequence."""
    values = [int(value) for value in act_seq_len]
    return list(accumulate(values)) if act_seq_len_type == 1 else values


def reference(inputs: Mapping[str, Array | None], attrs: Mapping[str, Any]) -> dict[str, Array]:
    """Return both gradients of output[o, n, d] = sum(weight[w, n] * input[r(o) + w, n, d] for w < W), in float64.

    Args:
        inputs: `output_grad` [O, N, D], `input` [T, N, D], `weight` [W, N], and `act_seq_len` [B] or None, then
            sequences are equal.
        attrs: `compress_block_size` W, `compress_stride`, `act_seq_len_type`: 0 if the list contains ends, 1: lengths.

    Returns:
        `input_grad` [T, N, D] and `weight_grad` [W, N] in the dtype of `input`.
    """
    output_grad, rows, weight = inputs["output_grad"], inputs["input"], inputs["weight"]
    assert output_grad is not None
    assert rows is not None
    assert weight is not None
    block, stride = int(attrs["compress_block_size"]), int(attrs["compress_stride"])
    listed = inputs.get("act_seq_len")
    if listed is None or listed.size == 0:
        ends = equal_ends(len(rows), len(output_grad), block, stride)
    else:
        ends = ends_of_sequences(listed, int(attrs["act_seq_len_type"]))
    grad, wide, factors = (array.astype(np.float64) for array in (output_grad, rows, weight))
    input_grad, weight_grad = np.zeros_like(wide), np.zeros_like(factors)
    for window, row in enumerate(first_rows_of_windows(ends, block, stride)):
        input_grad[row : row + block] += factors[:, :, None] * grad[window]
        weight_grad += (wide[row : row + block] * grad[window]).sum(axis=2)
    return {"input_grad": input_grad.astype(rows.dtype), "weight_grad": weight_grad.astype(weight.dtype)}
