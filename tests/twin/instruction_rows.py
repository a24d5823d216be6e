"""A table row for an instruction: its body, the expected result and a planted mistake; and the checks of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from test_kernel_numbers import CPP, FRAME, KERNEL

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Row:
    """An instruction that computes c from a, b and c.

    Attributes:
        name: Of the case.
        body: The statements of the kernel with x (a), y (b), z (c) and the scratch t.
        dtypes: Of a, b and c.
        counts: Elements of a, b and c.
        expected: c, from a, b and c before.
        mistake: The body with an error, and the kind of its finding.
        rtol: Relative tolerance.
        pipe: The pipe of the instruction.
    """

    name: str
    body: str
    dtypes: tuple[np.dtype[Any], ...]
    counts: tuple[int, ...]
    expected: Callable[[Array, Array, Array], Array]
    mistake: tuple[str, str]
    rtol: float = 0.0
    pipe: str = "V"


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
    """Compare the result with the formula, and require that the pipe was busy."""
    a, b, c = (
        values(dtype, count, seed) for seed, (dtype, count) in enumerate(zip(row.dtypes, row.counts, strict=True))
    )
    expected = row.expected(a, b, c.copy()).astype(row.dtypes[2])
    report = kernels.run(row.name, a, b, c)
    if row.rtol:
        np.testing.assert_allclose(c, expected, rtol=row.rtol)
    else:
        np.testing.assert_array_equal(c.view(f"u{c.itemsize}"), expected.view(f"u{c.itemsize}"))
    assert report["pipes"][row.pipe]["critical_us"] > 0


def check_mistake(kernels: Any, record_planted: Callable[[str, Any], None], row: Row) -> None:
    """Require the finding of the planted mistake."""
    a, b, c = (values(dtype, count, 1) for dtype, count in zip(row.dtypes, row.counts, strict=True))
    findings = kernels.launch(f"{row.name}_mistake", a, b, c)["findings"]
    assert row.mistake[1] in [finding["kind"] for finding in findings], findings
    record_planted(row.name, findings[0])
