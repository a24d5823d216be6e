"""Normalize with given statistics of the batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def forward(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    counter: torch.Tensor,
) -> torch.Tensor:
    """Return (input - mean) * invstd * weight + bias."""
    del counter
    result = (input.to(_compute_dtype(input)) - _per_channel(mean, input)) * _per_channel(invstd, input)
    if weight is not None:
        result = result * _per_channel(weight, input)
    if bias is not None:
        result = result + _per_channel(bias, input)
    return result.to(input.dtype)


def derive(grad: torch.Tensor, saved: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the sums over the batch, and from them the gradient of the weight."""
    x, mean, invstd = saved["input"], saved["mean"], saved["invstd"]
    wide = grad.to(_compute_dtype(grad))
    dims = [0, *range(2, grad.dim())]
    sum_dy = wide.sum(dims)
    sum_dy_xmu = (wide * (x.to(wide.dtype) - _per_channel(mean, x).to(wide.dtype))).sum(dims)
    return {"sum_dy": sum_dy, "sum_dy_xmu": sum_dy_xmu, "grad_weight": sum_dy_xmu * invstd.to(wide.dtype)}


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.to(_compute_dtype(like)).reshape(1, -1, *[1] * (like.dim() - 2))


def _compute_dtype(tensor: torch.Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
