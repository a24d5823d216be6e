"""Write the dtypes of a draft: the keys `dtype` and `dtypes` of tensors, and `combinations` if needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from opforge.codegen.data.dtypes import DECLARED_DTYPES, DTYPES

from .draft import COMBINED_KINDS, OPTIONAL, OperatorDraft, TensorDraft

_MOST_COMBINATIONS = 512
Row = tuple[str, ...]


class DtypeKeys:
    """The dtypes of one draft.

    Attributes:
        keys: The key `dtype` or `dtypes` of each tensor.
        combinations: The lines of the key `combinations`; empty if each combination of `dtypes` is supported.
    """

    def __init__(self, draft: OperatorDraft, names: Sequence[str], note: Callable[[int, str], None]) -> None:
        self._draft = draft
        self._names = names
        self._note = note
        self.combinations: list[str] = []
        rows = self._declared_rows()
        known = [row for row in rows if all(dtype in DTYPES for dtype in row)]
        columns = list(zip(*known, strict=True)) if known else self._sets(is_noted=not rows)
        leaders = self._leaders(list(zip(*rows, strict=True)) if rows else columns, columns)
        free = [tuple(dict.fromkeys(column)) for column in columns]
        width = math.prod(len(own) for own, leader in zip(free, leaders, strict=True) if leader is None)
        if rows and not known:
            free = [("float32",)] * len(free)
        if rows and (not known or width != len(rows) or self._has_free_output(free, leaders)):
            self._list(rows, leaders)
        elif width > _MOST_COMBINATIONS or (not rows and self._has_free_output(free, leaders)):
            first = draft.tensors[0]
            self._note(first.line, f"dtype combinations: the draft has one of {width}")
            leaders, free = [None] * len(free), [own[:1] for own in free]
        self.keys = [
            f"dtype: {names[leader]}" if leader is not None else f"dtypes: [{', '.join(own)}]"
            for own, leader in zip(free, leaders, strict=True)
        ]

    def _declared_rows(self) -> list[Row]:
        """Return the dtypes of all tensors for each combination that specs can declare."""
        tensors = self._draft.tensors
        width = max((len(tensor.dtypes) for tensor in tensors), default=0)
        is_combined = self._draft.kind in COMBINED_KINDS
        if not width or not is_combined or any(len(tensor.dtypes) not in (1, width) for tensor in tensors):
            self._note_missing(width if is_combined else 0, tensors)
            return []
        rows = list(dict.fromkeys(zip(*(t.dtypes * (width // len(t.dtypes)) for t in tensors), strict=True)))
        if unknown := sorted({dtype for row in rows for dtype in row if dtype not in DECLARED_DTYPES}):
            self._note(tensors[0].line, f"dtype combinations: specs have no {', '.join(unknown)}")
        rows = [row for row in rows if all(dtype in DECLARED_DTYPES for dtype in row)]
        if rows and not any(all(dtype in DTYPES for dtype in row) for row in rows):
            self._note(tensors[0].line, "dtype combinations: kernels have none of them; the draft has float32")
        if len(rows) > _MOST_COMBINATIONS:
            self._note(tensors[0].line, f"dtype combinations: got {len(rows)}, the draft has {_MOST_COMBINATIONS}")
        return rows[:_MOST_COMBINATIONS]

    def _note_missing(self, width: int, tensors: Sequence[TensorDraft]) -> None:
        for tensor in tensors:
            if not tensor.dtypes:
                text = f"tensor {tensor.name}: the source does not state its dtypes; the draft has float32"
                self._note(tensor.line, text)
            elif width and len(tensor.dtypes) not in (1, width):
                self._note(
                    tensor.line, f"tensor {tensor.name}: {len(tensor.dtypes)} dtypes, other tensors have {width}"
                )

    def _sets(self, *, is_noted: bool) -> list[Row]:
        """Return the dtypes of each tensor, if the source has no combinations; note dtypes that kernels do not have."""
        for tensor in self._draft.tensors if is_noted else ():
            if others := [dtype for dtype in tensor.dtypes if dtype not in DTYPES]:
                self._note(tensor.line, f"tensor {tensor.name}: kernels have no {', '.join(others)}")
        return [tuple(dict.fromkeys(d for d in t.dtypes if d in DTYPES)) or ("float32",) for t in self._draft.tensors]

    def _leaders(self, columns: Sequence[Row], known: Sequence[Row]) -> list[int | None]:
        """Return the required input that each tensor follows, by its position."""
        leaders: list[int | None] = []
        for index, column in enumerate(columns):
            candidates = (
                other
                for other in range(min(index, len(self._draft.inputs)))
                if leaders[other] is None and self._draft.inputs[other].option != OPTIONAL and columns[other] == column
            )
            leaders.append(next(candidates, None) if len(set(known[index])) > 1 or len(set(column)) > 1 else None)
        return leaders

    def _has_free_output(self, free: Sequence[Row], leaders: Sequence[int | None]) -> bool:
        outputs = range(len(self._draft.inputs), len(free))
        return any(leaders[index] is None and len(free[index]) > 1 for index in outputs)

    def _list(self, rows: Sequence[Row], leaders: Sequence[int | None]) -> None:
        columns = zip(*rows, strict=True)
        self.combinations = ["# The source supports these combinations only.", "combinations:"]
        self.combinations += [
            f"  {name}: [{', '.join(column)}]"
            for name, column, leader in zip(self._names, columns, leaders, strict=True)
            if leader is None
        ]
