"""Measure the errors of points that a fit does not use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import fit_structures
from .evaluate import DESCRIBED, Row, evaluate
from .generic import structures
from .runner import variables
from .series import Point

_FOLDS = 5
Table = Mapping[str, Mapping[str, Any]]
# Series and the points to fit: the variables of launches that use the fitted constants.
Refit = Callable[[str, Sequence[Point]], Mapping[str, str]]


def parts(points: Sequence[Point], count: int) -> list[list[Point]]:
    """Split each series by random into so many parts."""
    draw = random.Random(0)  # noqa: S311  # the same parts in every run
    found: list[list[Point]] = [[] for _ in range(count)]
    for name in sorted({point["series"] for point in points}):
        own = sorted((point for point in points if point["series"] == name), key=lambda point: str(point["id"]))
        first = draw.randrange(count)
        for index, point in enumerate(draw.sample(own, len(own))):
            found[(first + index) % count].append(point)
    return found


def _without(points: Sequence[Point], others: Sequence[Point]) -> list[Point]:
    left = {id(point) for point in others}
    return [point for point in points if id(point) not in left]


def _generic(points: Sequence[Point], table: Table, wanted: Sequence[Point]) -> Iterator[Row]:
    """Yield rows of wanted points: for each fifth of a generic series, its structure is fitted on the other four."""
    names = {point["id"] for point in wanted}
    for part in parts(points, _FOLDS):
        structures().update(fit_structures.fit(_without(points, part), table))
        yield from evaluate([point for point in part if point["id"] in names])[0]


def rows(points: Sequence[Point], table: Table, shown: Mapping[str, bool], refit: Refit) -> list[Row]:
    """Return a row for each point, with the estimate of a fit that does not use it.

    Args:
        points: The points.
        table: Structures without their fitted parts.
        shown: The series that the constants are fitted on, and whether a constant has no other series.
        refit: Fits the constants of a series again on other points.
    """
    found: list[Row] = []
    for name in dict.fromkeys(point["series"] for point in points):
        own = [point for point in points if point["series"] == name]
        structures().update(table)
        structure = {name: table[name]} if name in table and "skip" not in table[name] else {}
        # A constant that no other series shows is fitted on one half of the series for the other half.
        for part in parts(own, 2) if shown.get(name) else [own]:
            with variables(refit(name, _without(points, part)) if name in shown else {}):
                if name in DESCRIBED:
                    found += evaluate(part)[0]
                elif structure:
                    found += _generic(own, structure, part)
    return found
