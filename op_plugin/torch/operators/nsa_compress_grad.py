"""Compress windows of rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def forward(
    input: torch.Tensor,
    weight: torch.Tensor,
    act_seq_len: Sequence[int] | None,
    compress_block_size: int,
    compress_stride: int,
    act_seq_len_type: int,
    layout: str,
) -> torch.Tensor:
    """Return the weighted sum of each window; without a list all rows are one sequence."""
    del layout
    # The export to ONNX accepts neither lists as tensors nor tensors that change.
    first_rows: list[torch.Tensor] = []
    start = 0
    for value in act_seq_len or [input.shape[0]]:
        end = start + value if act_seq_len and act_seq_len_type == 1 else value
        behind = max(start, end - compress_block_size + 1)
        first_rows.append(torch.arange(start, behind, compress_stride, device=input.device))
        start = end
    first = torch.cat(first_rows)
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    result = input.new_zeros((first.shape[0], *input.shape[1:]), dtype=wide)
    for row in range(compress_block_size):
        result = result + input[first + row].to(wide) * weight[row].to(wide)[:, None]
    return result.to(input.dtype)
