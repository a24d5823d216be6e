"""Evaluate attention kernels without a public tiling: blocks of keys for tiles of queries, balanced over the cores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opforge.codegen.data.products import SOCS
from opforge.twin.build import npu_model

from .runner import NotRunError, constant, launch_us
from .series import Point, attrs_of, soc_of, tensors_of

_TILE, _BLOCK = 128, 512  # rows of queries, and keys of a step
_VECTOR_BYTES = 256
_PASSES = 10  # vector instructions over each score: scale, mask, maximum, Exp, sum, and casts
_MOST_TILES = 4096


class Attention:
    """Sizes of an attention kernel.

    Attributes:
        heads: Heads of keys of the whole batch.
        rows: Queries that share these keys.
        keys: Keys of a head.
        causal: Queries of a head if a query uses only the keys before it; otherwise 0.
        depth: Elements of a query.
        width: Elements of a value.
    """

    def __init__(self, point: Point, structure: Mapping[str, Any]) -> None:
        shapes = point["shapes"]
        attrs = attrs_of(point)
        self.bytes, self.causal = 2.0, 0
        if isinstance(shapes, Mapping):
            if not {"s0", "s1", "head"} <= set(shapes):
                raise NotRunError("the point states no queries and keys")
            self.heads, self.rows, self.keys = 1, int(shapes["s0"]), int(shapes["s1"])
            self.depth = self.width = int(shapes["head"])
        else:
            tensors = tensors_of(point)
            if len(tensors) < 3 or any(len(shape) != 4 for shape, _ in tensors):
                raise NotRunError("attention needs queries, keys and values of four dimensions")
            is_heads_first = attrs.get("inputLayout") == "BNSD"
            of = (0, 2, 1, 3) if is_heads_first else (0, 1, 2, 3)
            named = [tuple(shape[index] for index in of) for shape, _ in tensors]
            self.bytes = tensors[0][1]
            has_rope = structure.get("rope", 0)
            query, key = named[0], named[2 if has_rope else 1]
            value = named[-1] if has_rope else named[2]
            self.heads = key[0] * key[2]
            self.rows = query[1] * max(1, query[2] // key[2])
            self.depth = query[3] + (named[1][3] if has_rope else 0)
            self.width = value[3]
            self.keys = key[1]
            if structure.get("selected"):  # the last tensor lists the keys of each query
                self.heads, self.rows = query[0] * query[1], query[2]
                self.keys, self.width = min(key[1], named[-1][3]), key[3]
            elif attrs.get("is_causal"):
                self.causal = query[1]
        if min(self.heads, self.rows, self.depth, self.width, self.keys) < 1:
            raise NotRunError("a tensor has no elements")

    def steps(self, tiles: int) -> float:
        """Return the keys of all tiles of a head, in multiples of a step."""
        if not self.causal:
            return tiles * self.keys
        before = max(0, self.keys - self.causal)
        ends = [before + math.ceil(self.causal * (index + 1) / tiles) for index in range(tiles)]
        return float(sum(min(self.keys, -(-end // _BLOCK) * _BLOCK) for end in ends))

    def times(self, point: Point) -> tuple[float, float, float]:
        """Return launch overhead, and the times of the cores and of the copies of keys and values."""
        soc = soc_of(point)
        chip = SOCS[soc]
        cores = point["tiling"].get("block_dim") or chip.aic
        tile = min(_TILE, -(-self.rows // 16) * 16)
        tiles = min(_MOST_TILES, -(-self.rows // tile))
        scale = -(-self.rows // tile) / tiles
        width = self.depth + self.width
        keys = self.heads * self.steps(tiles) * scale
        steps = math.ceil(self.heads * tiles * scale * math.ceil(self.keys / _BLOCK))
        share = -(-steps // cores) / steps
        cube = tile * width / npu_model()["constants"]["cube_macs_per_cycle"]["value"]["fp16"]
        vector = _PASSES * tile * 4 / _VECTOR_BYTES / max(1, chip.aiv // chip.aic)
        core_us = keys * share * max(cube, vector) / chip.mhz
        # Each row of keys and values is read in requests of 512, 256, 128, 64 and 32 bytes.
        first, again = (
            width * self.bytes / constant(f"port_{name}_bytes_per_cycle_per_core", soc)
            + sum((round(size * self.bytes) % 512).bit_count() for size in (self.depth, self.width))
            * constant(f"dma_fragment_{fragment}_cycles", soc)
            for name, fragment in (("first_touch", "first_touch"), ("l2_read", "read_crowded"))
        )
        once = self.heads * self.keys
        copied_us = (once * first + max(0.0, keys - once) * again) * share / chip.mhz
        elements = (self.rows + self.keys) * width * self.heads
        gm_us = elements * self.bytes / constant("gm_bandwidth_bytes_per_s", soc) * 1e6
        return launch_us(soc), core_us, max(copied_us, gm_us)


def attention(point: Point, structure: Mapping[str, Any]) -> float:
    """Return the estimate of an attention kernel."""
    launch, core, copied = Attention(point, structure).times(point)
    return launch + structure.get("fixed_us", 0.0) + max(structure.get("factor", 1.0) * core, copied)
