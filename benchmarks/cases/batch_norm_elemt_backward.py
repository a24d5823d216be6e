"""Cases of BatchNormElemtBackward: large planes, small odd planes, channels along the row, few batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from case import Array, Case, Target, values

WIDE = Target(bytes=1.03, eff=0.85, bal=1.1)
NARROW = Target(bytes=1.03, eff=0.60, bal=1.1)
PER_CHANNEL = ("mean", "invstd", "weight", "sum_dy", "sum_dy_xmu")


def _inputs(shape: tuple[int, ...], dtype: str, channel_dtype: str) -> Mapping[str, Array]:
    data = {name: values(shape, dtype, seed) for seed, name in enumerate(("grad_out", "input"))}
    per_channel = {name: values(shape[1:2], channel_dtype, seed) for seed, name in enumerate(PER_CHANNEL, 2)}
    counter = np.array([math.prod(shape) // shape[1]], np.int32)
    return {**data, **per_channel, "counter": counter}


def _case(shape: tuple[int, ...], dtype: str, channel_dtype: str = "fp32", *, quick: bool = False) -> Case:
    return Case(
        name=str(list(shape)),
        dtype=dtype if dtype == channel_dtype else f"{dtype}/{channel_dtype}",
        inputs=lambda: _inputs(shape, dtype, channel_dtype),
        target=WIDE if math.prod(shape[2:]) >= 64 or (len(shape) > 2 and shape[0] == 1) else NARROW,
        quick=quick,
    )


def _cases() -> Iterator[Case]:
    for shape in ((128, 64, 56, 56), (256, 2048, 7, 7), (65536, 512), (1, 13107, 2700)):
        yield _case(shape, "fp16")
        yield _case(shape, "fp32")
        yield _case(shape, "bf16")
    yield _case((128, 64, 56, 56), "fp16", "fp16")
    # With one batch, every channel is used once, so the time to compute its factors is not amortized.
    yield _case((1, 200000, 7, 7), "fp16")
    yield _case((2, 3, 2160, 3841), "fp16")
    yield _case((262144, 33), "fp16")
    yield _case((32, 512, 7, 7), "fp16", quick=True)
    yield _case((4096, 512), "fp32", quick=True)
    yield _case((8, 64, 56, 56), "bf16", quick=True)
    yield _case((17, 130), "fp32", quick=True)


CASES = tuple(_cases())
