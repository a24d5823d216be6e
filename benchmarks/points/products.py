"""Evaluate matrix products without a public tiling: tiles with the least work for the busiest core."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opforge.codegen.data.products import SOCS

from .described import Gemm
from .runner import NotRunError, constant
from .series import Point, attrs_of, soc_of, tensors_of

Size = tuple[int, int, int]
_MOST_GROUPS = 4096
_L2_PORT = 80  # bytes per cycle of a core, all cores together


class Products:
    """The products of a point.

    Attributes:
        sizes: m, n and k of each product; n and k are equal.
        a_bytes: Bytes of an element of the first factor.
        b_bytes: Bytes of an element of the second factor.
        is_row_major: The rows of the second factor are along n.
    """

    def __init__(self, point: Point) -> None:
        tensors = tensors_of(point)
        if len(tensors) < 2 or min(len(tensors[0][0]), len(tensors[1][0])) < 2:
            raise NotRunError("a product needs two matrices")
        (a, self.a_bytes), (b, self.b_bytes) = tensors[:2]
        k = a[-1]
        attrs = attrs_of(point)
        is_transposed = attrs.get("transpose_weight", b[-2] != k)
        if k not in b[-2:]:
            raise NotRunError(f"the matrices {list(a)} and {list(b)} have no common dimension")
        if b[-1] != k or b[-2] != k:
            is_transposed = b[-1] == k
        self.is_row_major = not is_transposed
        n = b[-2] if is_transposed else b[-1]
        if len(a) == 2 and len(b) == 3:
            ends = attrs.get("group_list") or [a[0] * (index + 1) // b[0] for index in range(b[0])]
            rows = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
            self.sizes = [(count, n, k) for count in rows if count > 0]
        elif len(b) == 2:
            self.sizes = [(math.prod(a[:-1]), n, k)]
        else:
            self.sizes = [(a[-2], n, k)] * math.prod(a[:-2])
        if not self.sizes or len(self.sizes) > _MOST_GROUPS or min(map(min, self.sizes)) < 1:
            raise NotRunError("a product has no elements, or there are too many products")

    def times(self, point: Point, *, is_fractal: bool) -> tuple[float, float]:
        """Return launch overhead, and the time of the products: their tiles are on all cores at once."""
        soc = soc_of(point)
        n, k = self.sizes[0][1:]
        depth = max(16, round(k * (self.a_bytes + self.b_bytes) / 4)) if self.a_bytes != 4 else 2 * k
        base = best_base([m for m, _, _ in self.sizes], n, depth, soc, is_row_major=self.is_row_major)
        is_one = len(self.sizes) == 1
        rows = self.sizes[0][0] if is_one else sum(-(-m // base[0]) for m, _, _ in self.sizes) * base[0]
        gemm = Gemm(rows, n, depth, soc, base=(*base, 64), is_fractal=is_fractal, is_row_major=self.is_row_major)
        launch, core, gm_us, l2_us = gemm.times(point)
        factors = sum(m for m, _, _ in self.sizes) * k * self.a_bytes + len(self.sizes) * k * n * self.b_bytes
        return launch, max(core, gm_us, l2_us, factors / constant("gm_bandwidth_bytes_per_s", soc) * 1e6)


def best_base(rows: list[int], n: int, k: int, soc: str, *, is_row_major: bool = False) -> tuple[int, int]:
    """Return rows and columns of a product of the cube unit with the least work for the busiest core."""
    first, again = (constant(f"dma_fragment_{name}_cycles", soc) for name in ("first_touch", "read_crowded"))
    port = constant("port_first_touch_bytes_per_cycle_per_core", soc)

    def load(base: tuple[int, int]) -> float:
        down = sum(-(-m // base[0]) for m in rows)
        tiles = down * -(-n // base[1])
        # A row of base[1] elements is read in requests of 512, 256, 128, 64 and 32 bytes.
        requests = (base[1] * 2 % 512).bit_count() * k if is_row_major else 0
        # The cores of a column share its first reads from global memory; the other reads are from L2.
        once = len(rows) / min(down, len(rows) * SOCS[soc].aic)
        copied = base[0] * 2 * k / _L2_PORT + base[1] * 2 * k * (once / port + (1 - once) / _L2_PORT)
        copied += requests * (once * first + (1 - once) * again)
        return -(-tiles // SOCS[soc].aic) * max(base[0] * base[1] * k / 4096, copied)

    highest, widest = (min(256, -(-size // 16) * 16) for size in (max(rows), n))
    bases = [
        (down, across)
        for down in {16, 32, 48, 64, 96, 128, 160, 192, 256, highest}
        for across in {16, 32, 48, 64, 96, 128, 160, 176, 192, 224, 256, widest}
        if down * across * 4 <= 131072 and down <= highest and across <= widest
    ]
    return min(bases, key=lambda base: (load(base), -base[0] * base[1], base))


def product_times(point: Point, structure: Mapping[str, Any]) -> tuple[float, float]:
    """Return launch overhead, and the time of the matrix products of a point, one after the other."""
    is_fractal = bool(structure.get("is_fractal"))
    chain = structure.get("chain")
    if not chain:
        return Products(point).times(point, is_fractal=is_fractal)
    tensors = [shape for shape, _ in tensors_of(point)]
    rows = math.prod(tensors[0][:-1])
    launch, total = 0.0, 0.0
    for index in chain:
        weight = tensors[index]
        # A weight of several heads: one product for each.
        left = [rows, weight[-2]] if len(weight) == 2 else [weight[0], rows, weight[-2]]
        part = {**point, "shapes": [left, list(weight)], "dtypes": [str(point["dtypes"][0])] * 2}
        launch, us = Products(part).times(point, is_fractal=is_fractal)
        total += us
    return launch, total


def products(point: Point, structure: Mapping[str, Any]) -> float:
    """Return the estimate of a kernel of matrix products."""
    launch, us = product_times(point, structure)
    return launch + structure.get("fixed_us", 0.0) + structure.get("factor", 1.0) * us
