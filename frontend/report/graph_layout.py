"""Compute a layered layout of a small graph, readers below their sources, as boxes and curves in pixels.

The steps are those of Sugiyama: layers by longest path, dummies where an edge passes a layer, an order by the mean of
the neighbors, then positions near them. Libraries have a copyleft license (grandalf, igraph), give all boxes the same
width (fast-sugiyama), or need a program (graphviz); a page without network cannot load mermaid (3 MB).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

_GAP, _LAYER_GAP, _MARGIN = 22.0, 34.0, 6.0
_DUMMY_WIDTH = 8.0
_SWEEPS = 8

Edge = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Positions of boxes and curves.

    Attributes:
        corners: Upper left corner of each box.
        curves: By edge: the data of an SVG path from box to box.
        width: Total width.
        height: Total height.
    """

    corners: list[tuple[float, float]]
    curves: dict[Edge, str]
    width: float
    height: float


def layers_of(count: int, edges: Sequence[Edge], late: Sequence[int]) -> list[int]:
    """Return the layer of each box: below all of its sources; boxes of `late` are above their first reader."""
    makers, readers = _neighbours(edges)
    layer = [0] * count
    for box in TopologicalSorter(makers).static_order():
        layer[box] = max((layer[maker] + 1 for maker in makers.get(box, ())), default=0)
    for box in late:
        if readers[box]:
            layer[box] = min(layer[reader] for reader in readers[box]) - 1
    return layer


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], late: Sequence[int] = ()) -> Layout:
    """Compute the positions of boxes.

    Args:
        sizes: Width and height of each box.
        edges: (maker, reader), without cycles, each once.
        late: Boxes directly above their first reader.
    """
    layer = layers_of(len(sizes), edges, late)
    widths = [width for width, _ in sizes]
    chains: dict[Edge, list[int]] = {}
    for maker, reader in edges:
        inner = range(layer[maker] + 1, layer[reader])
        chains[maker, reader] = [maker, *range(len(layer), len(layer) + len(inner)), reader]
        layer += inner
        widths += [_DUMMY_WIDTH] * len(inner)
    steps = [pair for chain in chains.values() for pair in pairwise(chain)]
    makers, readers = _neighbours(steps)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box, row in enumerate(layer):
        rows[row].append(box)
    _order(rows, makers, readers)
    centers = _centers(rows, widths, makers, readers)
    tops, top = [], _MARGIN
    heights = [max((sizes[box][1] for box in row if box < len(sizes)), default=0.0) for row in rows]
    for height in heights:
        tops.append(top)
        top += height + _LAYER_GAP
    shift = _MARGIN - min((centers[box] - widths[box] / 2 for box in range(len(widths))), default=0.0)
    xs = [center + shift for center in centers]
    corners = [
        (round(xs[box] - width / 2, 1), round(tops[layer[box]] + (heights[layer[box]] - height) / 2, 1))
        for box, (width, height) in enumerate(sizes)
    ]
    curves = {}
    for edge, chain in chains.items():
        maker, reader = edge
        points = [(xs[maker], corners[maker][1] + sizes[maker][1])]
        for dummy in chain[1:-1]:
            row = layer[dummy]
            points += [(xs[dummy], tops[row]), (xs[dummy], tops[row] + heights[row])]
        points.append((xs[reader], corners[reader][1]))
        curves[edge] = _curve(points)
    right = max((xs[box] + widths[box] / 2 for box in range(len(widths))), default=0.0)
    return Layout(corners, curves, round(right + _MARGIN, 1), round(top - _LAYER_GAP + _MARGIN, 1))


def _neighbours(edges: Sequence[Edge]) -> tuple[Mapping[int, list[int]], Mapping[int, list[int]]]:
    makers, readers = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for maker, reader in edges:
        makers[reader].append(maker)
        readers[maker].append(reader)
    return makers, readers


def _order(rows: Sequence[list[int]], makers: Mapping[int, list[int]], readers: Mapping[int, list[int]]) -> None:
    """Sort each layer by the mean position of the neighbors above, then below, and again."""
    place = {box: float(index) for row in rows for index, box in enumerate(row)}
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        beside = makers if is_down else readers
        for row in rows if is_down else rows[::-1]:
            known = {box: [place[other] for other in beside[box]] for box in row}
            row.sort(key=lambda box: sum(known[box]) / len(known[box]) if known[box] else place[box])
            place.update((box, float(index)) for index, box in enumerate(row))


def _centers(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    makers: Mapping[int, list[int]],
    readers: Mapping[int, list[int]],
) -> list[float]:
    centers = [0.0] * len(widths)
    for row in rows:
        _spread(row, widths, centers, dict.fromkeys(row, 0.0))
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = {}
            for box in row:
                beside = [*makers[box], *readers[box]]
                wanted[box] = sum(centers[other] for other in beside) / len(beside) if beside else centers[box]
            _spread(row, widths, centers, wanted)
    return centers


def _spread(row: Sequence[int], widths: Sequence[float], centers: list[float], wanted: Mapping[int, float]) -> None:
    """Move the boxes of a layer as near to their best positions as adjacent boxes allow."""
    # Boxes that would overlap form a block at the average of the best positions of its members.
    blocks: list[tuple[list[int], list[float], float]] = []  # boxes, their offsets, position of the first
    for box in row:
        blocks.append(([box], [0.0], wanted[box]))
        while len(blocks) > 1:
            (left, left_offsets, at), (right, right_offsets, next_at) = blocks[-2:]
            distance = left_offsets[-1] + (widths[left[-1]] + widths[right[0]]) / 2 + _GAP
            if at + distance <= next_at:
                break
            boxes, offsets = left + right, left_offsets + [distance + offset for offset in right_offsets]
            start = sum(wanted[member] - offset for member, offset in zip(boxes, offsets, strict=True)) / len(boxes)
            blocks[-2:] = [(boxes, offsets, start)]
    for boxes, offsets, at in blocks:
        for member, offset in zip(boxes, offsets, strict=True):
            centers[member] = at + offset


def _curve(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in rest:
        middle = (y + next_y) / 2
        straight = abs(next_x - x) < 1
        parts.append(
            f"L{next_x:.1f} {next_y:.1f}"
            if straight
            else f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}"
        )
        x, y = next_x, next_y
    return "".join(parts)
