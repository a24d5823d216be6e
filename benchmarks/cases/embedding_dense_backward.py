"""Cases of EmbeddingDenseBackward: tables of up to 32000 rows, frequent rows, sorted and unique indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from case import Array, Case, Target, values
from floor import Floor

TARGET = Target(bytes=1.35, eff=0.60, bal=1.15)
NARROW = {64: Target(bytes=1.35, eff=0.30, bal=1.15, of_small=True)}  # by columns
# Maximum total bytes of grad and table (512 MiB).
MAX_BYTES = 1 << 29
ROWS, WEIGHTS = 65536, 32000
UNIQUE = 1 << 15


def uniform(rows: int, weights: int) -> Array:
    """Return random rows of the table."""
    return np.random.default_rng(0).integers(0, weights, rows)


def zipf(rows: int, weights: int) -> Array:
    """Return rows with a Zipf distribution: the r-th most frequent row has a probability proportional to r ** -1.1."""
    random = np.random.default_rng(0)
    frequency = np.arange(1, weights + 1) ** -1.1
    return random.permutation(weights)[random.choice(weights, rows, p=frequency / frequency.sum())]


def all_equal(rows: int, weights: int) -> Array:
    """Return the same row of the table for all indices."""
    return np.full(rows, weights // 2)


def ascending(rows: int, weights: int) -> Array:
    """Return every row of the table, in order."""
    return np.arange(rows) * weights // rows


def unique(rows: int, weights: int) -> Array:
    """Return every row of the table once, in random order."""
    return np.random.default_rng(0).permutation(weights)[:rows]


SPREADS: dict[str, Callable[[int, int], Array]] = {
    "uniform": uniform,
    "Zipf": zipf,
    "all equal": all_equal,
    "sorted": ascending,
    "one per row": unique,
}


# A DMA loads rows at equal distances, so it loads two rows of these spreads.
UNORDERED = ("uniform", "Zipf", "one per row")
# A row of the table has more indices than the mean of all cores, so several cores sum it.
FREQUENT = ("Zipf", "all equal")


def _case(shape: tuple[int, int, int], spread: str, dtype: str, *, scale: bool = False) -> Case:
    rows, weights, columns = shape
    return Case(
        name=f"[{rows}, {columns}] to {weights}, {spread}{', scaled' if scale else ''}",
        dtype=dtype,
        inputs=lambda: {
            "grad": values((rows, columns), dtype),
            "indices": SPREADS[spread](rows, weights).astype(np.int32),
        },
        attrs={"num_weights": weights, "scale_grad_by_freq": scale},
        target=NARROW.get(columns, TARGET) if rows >= 5000 else TARGET,
        floor=Floor(
            dmas=rows // 2 if spread in UNORDERED else 0,
            loads=3 if spread in FREQUENT else 2,
            stores=2 if spread in FREQUENT else 1,
            barriers=1 if spread in FREQUENT else 0,
        ),
        quick=rows < 5000,
    )


def _shape(columns: int, dtype: str, spread: str) -> tuple[int, int, int]:
    """Return the usual number of rows, or the maximum that fits."""
    total = MAX_BYTES // (columns * (4 if dtype == "fp32" else 2))
    if spread == "one per row":
        rows = min(UNIQUE, total // 2)
        return rows, rows, columns
    weights = min(WEIGHTS, total // 2)
    return min(ROWS, total - weights), weights, columns


def _cases() -> Iterator[Case]:
    for dtype in ("fp16", "bf16", "fp32"):
        for spread in SPREADS:
            yield _case(_shape(1024, dtype, spread), spread, dtype)
    for dtype in ("fp16", "fp32"):
        for spread in ("uniform", "Zipf"):
            yield _case(_shape(1024, dtype, spread), spread, dtype, scale=True)
        for columns in (2048, 4096):
            for spread in ("uniform", "Zipf", "all equal", "one per row"):
                yield _case(_shape(columns, dtype, spread), spread, dtype)
        for columns in (64, 256):
            for spread in ("uniform", "Zipf"):
                yield _case((ROWS, WEIGHTS, columns), spread, dtype)
    for spread in ("uniform", "Zipf", "all equal"):
        yield _case((4096, 2000, 1024), spread, "fp16")
    yield _case((100, 50, 64), "uniform", "fp32", scale=True)


CASES = tuple(_cases())
