"""Rules on the values of inputs: CANN cannot check them on the host, a model that holds them as constants can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from opforge.frontend.ir.attributes import AttrValue


@dataclass(frozen=True)
class RowRanges:
    """An input that cuts rows into ranges: their ends, or their lengths when an attribute says so.

    Attributes:
        rows_of: The input whose first dim is cut.
        lengths_when: Attribute and value that turn ends into lengths.
    """

    rows_of: str
    lengths_when: tuple[str, int]

    def problem(self, values: Sequence[int], rows: int | None, attrs: Mapping[str, AttrValue]) -> str:
        """What is wrong with constant values: "got .., expected .."; "" if nothing."""
        name, wanted = self.lengths_when
        are_lengths = attrs.get(name) == wanted
        negative = next((value for value in values if value < 0), None)
        if negative is not None:
            return f"got {negative}, expected values of at least 0"
        if not are_lengths:
            falling = next(((a, b) for a, b in pairwise(values) if b < a), None)
            if falling:
                return f"got {falling[1]} after {falling[0]}, expected ascending ends"
        total = sum(values) if are_lengths else values[-1] if values else 0
        if values and rows is not None and total != rows:
            kind = "lengths with the sum" if are_lengths else "a last end of"
            return f"got {total}, expected {kind} {rows}, the rows of {self.rows_of}"
        return ""


# Input with such a rule, by operator.
ROW_RANGES: Mapping[str, tuple[str, RowRanges]] = {
    "GroupedBiasAddGrad": ("group_idx", RowRanges("grad_y", ("group_idx_type", 1))),
}
