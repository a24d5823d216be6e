"""What a row of the benchmark table is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opforge.codegen.spec.dtypes import SHORT_DTYPES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Target:
    """What the figures of a row should reach: at most `bytes`, at least `eff`, at most `bal`."""

    bytes: float
    eff: float
    bal: float

    def misses(self, row: Mapping[str, Any]) -> list[str]:
        """The figures of a row that do not reach it."""
        missed = {"bytes": row["bytes"] > self.bytes, "eff": row["eff"] < self.eff, "bal": row["bal"] > self.bal}
        return [figure for figure, is_missed in missed.items() if is_missed]


@dataclass(frozen=True)
class Case:
    """A call of an operator that is measured.

    Attributes:
        name: Shapes and situation; with operator and dtype it identifies the row.
        dtype: Short word of the dtypes, for the table.
        inputs: Makes the inputs; called right before the run, so that only one case at a time is in memory.
        attrs: Attributes by name.
        target: What the figures should reach; None: the row is only reported.
        quick: The row is part of the check that every test run makes; a second or two at most.
    """

    name: str
    dtype: str
    inputs: Callable[[], Mapping[str, Array]]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    quick: bool = False


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Normally distributed numbers; large arrays repeat the first million.

    Args:
        shape: Shape of the array.
        dtype: `fp16`, `bf16`, `fp32`, or a dtype word of a spec.
        seed: Of the random numbers.
    """
    size = int(np.prod(shape))
    numbers = np.random.default_rng(seed).standard_normal(min(size, 1_000_003), np.float32)
    return np.resize(numbers.astype(np.dtype(SHORT_DTYPES.get(dtype, dtype))), shape)
