"""Cases of NsaCompressGrad: widths, overlaps of windows, sequences of equal and of skewed lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from case import Array, Case, Target, values

TWO = Target(bytes=1.15, eff=0.60, bal=1.15)  # windows overlap in one row
FOUR = Target(bytes=1.15, eff=0.45, bal=1.15)
ROWS = 32768


def equal(rows: int, count: int) -> Array:
    """Return the ends of sequences of equal length."""
    return np.arange(1, count + 1) * rows // count


def skewed(rows: int, count: int) -> Array:
    """Return the ends of sequences whose lengths decrease geometrically; many are shorter than a window."""
    lengths = np.geomspace(1, 1e-4, count)
    return np.round(np.cumsum(lengths) / lengths.sum() * rows).astype(np.int64)


SEQUENCES = {"1 sequence": (equal, 1), "64 sequences": (equal, 64), "64 skewed sequences": (skewed, 64)}


def _case(
    rows: int, heads: tuple[int, int], window: tuple[int, int], sequences: str, dtype: str, *, quick: bool = False
) -> Case:
    block, stride = window
    make_ends, count = SEQUENCES[sequences]
    ends = make_ends(rows, count)
    lengths = np.diff(ends, prepend=0)
    windows = int(np.maximum((lengths - block + stride) // stride, 0).sum())
    return Case(
        name=f"T={rows} N={heads[0]} D={heads[1]} W/S={block}/{stride}, {sequences}",
        dtype=dtype,
        inputs=lambda: {
            "output_grad": values((windows, *heads), dtype, 1),
            "input": values((rows, *heads), dtype),
            "weight": values((block, heads[0]), dtype, 2),
            "act_seq_len": ends,
        },
        attrs={"compress_block_size": block, "compress_stride": stride, "act_seq_len_type": 0},
        target=TWO if block // stride == 2 else FOUR,
        quick=quick,
    )


def _cases() -> Iterator[Case]:
    for window in ((32, 16), (64, 16)):
        for heads in ((8, 64), (4, 128), (4, 256), (16, 64), (8, 256), (32, 64)):
            yield _case(ROWS, heads, window, "1 sequence", "fp16")
        for sequences in SEQUENCES:
            yield _case(ROWS, (8, 128), window, sequences, "bf16")
            yield _case(ROWS, (6, 96), window, sequences, "fp16")
    yield _case(8192, (8, 128), (32, 16), "64 skewed sequences", "fp16", quick=True)
    yield _case(512, (4, 64), (64, 16), "1 sequence", "bf16", quick=True)


CASES = tuple(_cases())
