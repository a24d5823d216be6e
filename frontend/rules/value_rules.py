"""Check values of constant inputs, which CANN cannot check on the host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from opforge.frontend.ir.reason import Reason


def row_range_problem(values: Sequence[int], rows: int | None, rows_of: str, *, are_lengths: bool) -> Reason | None:
    """Return the problem of a constant that divides rows into ranges: "got .., expected .."; None if there is none.

    Args:
        values: The ends of the ranges, or their lengths.
        rows: The number of rows; None if it is unknown.
        rows_of: The input with the rows.
        are_lengths: Whether the values are lengths.
    """
    negative = next((value for value in values if value < 0), None)
    if negative is not None:
        return Reason(f"got {negative}, expected values of at least 0")
    if not are_lengths:
        falling = next(((a, b) for a, b in pairwise(values) if b < a), None)
        if falling:
            return Reason(f"got {falling[1]} after {falling[0]}, expected ascending ends")
    total = sum(values) if are_lengths else values[-1] if values else 0
    if values and rows is not None and total != rows:
        kind = "lengths with the sum" if are_lengths else "a last end of"
        return Reason(f"got {total}, expected {kind} {rows}, the rows of {rows_of}")
    return None
