"""Define the cases of the operator benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from floor import Floor

from opforge.codegen.data.dtypes import SHORT_DTYPES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Target:
    """The target values of a row: at most `bytes`, at least `eff` (also of the floor), at most `bal`.

    `of_small` tells whether they also apply to a small problem.
    """

    bytes: float
    eff: float
    bal: float
    of_small: bool = False

    def misses(self, row: Mapping[str, Any]) -> list[str]:
        """Return the columns of the row that miss the target."""
        missed = {"bytes": row["bytes"] > self.bytes, "bal": row["bal"] > self.bal}
        missed |= {ratio: row[ratio] < self.eff for ratio in ("eff", "of_floor")}
        return [figure for figure, is_missed in missed.items() if is_missed]


@dataclass(frozen=True)
class Case:
    """One measured operator call.

    Attributes:
        name: Shapes and situation; together with operator and dtype, it identifies the row.
        dtype: Short name of the dtypes, for the table.
        inputs: Creates the inputs directly before the run, so that only one case at a time is in memory.
        attrs: Attributes by name.
        target: Target values; None: no targets.
        floor: The parts of the problem that cost time in every kernel.
        quick: Whether every test run checks the row; it takes two seconds at most.
    """

    name: str
    dtype: str
    inputs: Callable[[], Mapping[str, Array]]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    floor: Floor = field(default_factory=Floor)
    quick: bool = False


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Return normally distributed numbers; large arrays repeat the first million.

    Args:
        shape: Shape of the array.
        dtype: `fp16`, `bf16`, `fp32`, or a dtype of a spec.
        seed: Seed of the random numbers.
    """
    size = int(np.prod(shape))
    numbers = np.random.default_rng(seed).standard_normal(min(size, 1_000_003), np.float32)
    return np.resize(numbers.astype(np.dtype(SHORT_DTYPES.get(dtype, dtype))), shape)
