"""Cases of GroupedBiasAddGrad: equal, skewed and random groups, wide and narrow rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from case import Array, Case, Target, values
from floor import Floor

WIDE = Target(bytes=1.03, eff=0.85, bal=1.1)
NARROW = Target(bytes=1.03, eff=0.85, bal=1.1, of_small=True)
# The ends of the groups are known only on the device. Cores share large groups: list, rows and partial sums are loaded
# in turn. Cores can sum whole groups if the groups are small.
FLOOR, SMALL_FLOOR = Floor(loads=3, stores=2, barriers=1), Floor(loads=2)
SHARED_GROUPS = 1000  # With at most so many groups, some cores share a group.
DTYPES = ("fp16", "bf16", "fp32")


def equal(rows: int, groups: int) -> Array:
    """Return the ends of groups of equal size."""
    return np.arange(1, groups + 1) * rows // groups


def skewed(rows: int, groups: int) -> Array:
    """Return the ends of groups; the last group has 99 % of the rows."""
    return np.r_[equal(rows // 100, groups - 1), rows]


def random(rows: int, groups: int) -> Array:
    """Return random ends; some groups are empty."""
    return np.r_[np.sort(np.random.default_rng(0).integers(0, rows + 1, groups - 1)), rows]


GROUPINGS: dict[str, tuple[Callable[[int, int], Array], int]] = {
    "8 equal groups": (equal, 8),
    "2048 equal groups": (equal, 2048),
    "one of 8 groups has 99 %": (skewed, 8),
    "200 random groups": (random, 200),
    "2048 random groups": (random, 2048),
}


def _indexed(shape: tuple[int, int], grouping: str, dtype: str, target: Target, *, quick: bool = False) -> Case:
    make_ends, groups = GROUPINGS[grouping]
    return Case(
        name=f"{list(shape)}, {grouping}",
        dtype=dtype,
        inputs=lambda: {"grad_y": values(shape, dtype), "group_idx": make_ends(shape[0], groups)},
        target=target,
        floor=SMALL_FLOOR if groups > SHARED_GROUPS else FLOOR,
        quick=quick,
    )


def _cases() -> Iterator[Case]:
    for dtype in DTYPES:
        for grouping in GROUPINGS:
            yield _indexed((65536, 1024), grouping, dtype, WIDE)
        yield Case(
            "[64, 1024, 1024]", dtype, lambda dtype=dtype: {"grad_y": values((64, 1024, 1024), dtype)}, target=WIDE
        )
        for grouping in GROUPINGS:
            yield _indexed((262144, 30), grouping, dtype, NARROW, quick=dtype == "fp16")
        for grouping in ("8 equal groups", "one of 8 groups has 99 %"):
            yield _indexed((16384, 8191), grouping, dtype, WIDE)
    yield _indexed((4096, 1024), "one of 8 groups has 99 %", "fp32", WIDE, quick=True)
    yield _indexed((1000, 100), "8 equal groups", "fp32", WIDE, quick=True)


CASES = tuple(_cases())
