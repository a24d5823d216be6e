"""A table row for API functions: a body, the expected result and time, and a planted mistake; the checks of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from test_kernel_numbers import CPP, FRAME, KERNEL

Array = np.ndarray[Any, Any]
# Functions of which messages and traces have the name of the function that does the work.
WORKERS = {
    "BlockReduceMaxIntrinsicsImpl": "BlockReduceMax",
    "BlockReduceSumIntrinsicsImpl": "BlockReduceSum",
    "DataCopyPadGm2UBImpl": "DataCopyPad",
    "DataCopyUB2GMImpl": "DataCopy",
    "TransDataTo5HDImpl": "TransDataTo5HD",
}


@dataclass(frozen=True)
class Row:
    """Functions that compute c from a, b and c.

    Attributes:
        name: Of the case.
        body: The statements of the kernel with x (a), y (b), z (c) and the scratch t.
        dtypes: Of a, b and c.
        counts: Elements of a, b and c.
        expected: c, from a, b and c before.
        mistake: The body with an error, the kind of its finding, and a part of the message if it does not name the
            first of the functions.
        times: The cycles of each function that the row tests, of all its calls in the kernel.
        rtol: Relative tolerance.
    """

    name: str
    body: str
    dtypes: tuple[np.dtype[Any], ...]
    counts: tuple[int, ...]
    expected: Callable[[Array, Array, Array], Array]
    mistake: tuple[str, str] | tuple[str, str, str]
    times: Mapping[str, float]
    rtol: float = 0.0

    @property
    def function(self) -> str:
        """Return the function of the planted mistake."""
        return next(iter(self.times))


def source_of(rows: Iterable[Row]) -> str:
    """Return the kernels of the rows, and a copy of each with its mistake."""
    parts = [FRAME]
    for row in rows:
        names = [CPP[dtype] for dtype in row.dtypes]
        for suffix, body in (("", row.body), ("_mistake", row.mistake[0])):
            fields = dict(zip(("ta", "tb", "tc", "na", "nb", "nc"), (*names, *row.counts), strict=True))
            text = KERNEL.format(name=row.name + suffix, body=body, load="In", **fields)
            parts.append(text.replace("static_cast<T>", f"static_cast<{names[0]}>"))
    return "".join(parts)


def values(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    """Return random values."""
    random = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -100, 100, count).astype(dtype)
    return (random.standard_normal(count) * 4).astype(np.float32).astype(dtype)


def check_numbers(kernels: Any, row: Row) -> None:
    """Compare the result with the formula, and the cycles of each function with those of the row."""
    a, b, c = (
        values(dtype, count, seed) for seed, (dtype, count) in enumerate(zip(row.dtypes, row.counts, strict=True))
    )
    expected = row.expected(a, b, c.copy()).astype(row.dtypes[2])
    cycles = kernels.cycles(row.name, a, b, c)
    if row.rtol:
        np.testing.assert_allclose(c, expected, rtol=row.rtol)
    else:
        np.testing.assert_array_equal(c.view(f"u{c.itemsize}"), expected.view(f"u{c.itemsize}"))
    charged = {function: cycles.get(WORKERS.get(function, function), 0.0) for function in row.times}
    assert charged == pytest.approx(dict(row.times))


def check_mistake(kernels: Any, record_planted: Callable[[str, Any], None], row: Row) -> None:
    """Require the finding of the planted mistake."""
    a, b, c = (values(dtype, count, 1) for dtype, count in zip(row.dtypes, row.counts, strict=True))
    findings = kernels.launch(f"{row.name}_mistake", a, b, c)["findings"]
    found = [finding for finding in findings if finding["kind"] == row.mistake[1]]
    assert found, findings
    (text,) = row.mistake[2:] or (f": {WORKERS.get(row.function, row.function)}: ",)
    assert text in found[0]["message"], found
    record_planted(row.name, found[0])
