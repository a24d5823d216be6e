"""Convolve along the time axis."""

from __future__ import annotations

import torch


def _as_conv1d(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pad: int = 0) -> torch.Tensor:
    swapped = torch.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return swapped.permute(2, 0, 1)


# PyTorch has no translation of this function to ONNX.
ONNX_FORMS = {torch.ops.aten.conv_tbc.default: _as_conv1d}


def forward(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    pad: int,
    cube_math_type: int,
) -> torch.Tensor:
    """Return the convolution of [T, B, C]; the type of the cube unit matters for the gradient only."""
    del cube_math_type
    # aten's kernel needs contiguous tensors.
    return torch.conv_tbc(input.contiguous(), weight.contiguous(), bias.contiguous(), pad)
