"""Compress windows of rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def forward(
    input: torch.Tensor,  # noqa: A002  # the name in the schema
    weight: torch.Tensor,
    act_seq_len: Sequence[int] | None,
    compress_block_size: int,
    compress_stride: int,
    act_seq_len_type: int,
    layout: str,
) -> torch.Tensor:
    """Return the weighted sum of each window; without a list all rows are one sequence."""
    del layout
    first_rows: list[int] = []
    start = 0
    for value in act_seq_len or [input.shape[0]]:
        end = start + value if act_seq_len and act_seq_len_type == 1 else value
        first_rows += range(start, end - compress_block_size + 1, compress_stride)
        start = end
    first = torch.tensor(first_rows, dtype=torch.int64, device=input.device)
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    result = input.new_zeros((len(first_rows), *input.shape[1:]), dtype=wide)
    for row in range(compress_block_size):
        result += input[first + row].to(wide) * weight[row].to(wide)[:, None]
    return result.to(input.dtype)
