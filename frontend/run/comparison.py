"""Compare two arrays within a tolerance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from opforge.codegen.printing import shown
from opforge.codegen.spec.section_parts import Tolerance

Array = NDArray[Any]
# Number of allowed roundings of a result, by bytes of the type: of the result, and of the typical value, because a sum
# with cancellation is rounded like its terms. Sums in small types are computed in wider ones.
_ROUNDINGS = {1: 2, 2: 8, 4: 128, 8: 128}
# The minimum typical value: generated numbers are about 1, and much smaller results can be rounding errors.
_LEAST_USUAL = 1 / 16

# Ways to compute a custom node.
KERNEL, BODY, REFERENCE = "kernel", "ONNX body", "NumPy reference"
_NODE_FIELDS = ("node", "op", "compared")


@dataclass(frozen=True)
class Comparison:
    """Two arrays that should be equal: an output of both models, or two results of one custom node.

    Attributes:
        output: Name of the output of the model or operator.
        error: Largest absolute difference; infinite if types or shapes differ or only one is a number.
        allowed: The tolerance of the element with the largest ratio of error to tolerance.
        same: Whether every element is within tolerance; None if there was nothing to compare.
        note: Further information about the comparison; "" for none.
        node: Name of the custom node.
        op: Its op type in the spec; "" for an output of both models.
        compared: The results of the node that were compared.
    """

    output: str
    error: float = 0.0
    allowed: float = 0.0
    same: bool | None = None
    note: str = ""
    node: str = ""
    op: str = ""
    compared: str = ""

    @property
    def result_text(self) -> str:
        """Return the result as text for a table."""
        word = {True: "within tolerance", False: "DIFFERS", None: "not compared"}[self.same]
        return f"{word}: {self.note}" if self.note else word

    @property
    def message(self) -> str:
        """Return the comparison of a custom node in one line, with a fix if the results differ."""
        text = f"node {shown(self.node)} ({self.op}): " if self.node else f"{self.op}: "
        if not self.output:
            text += f"{self.compared} {self.note}"
        elif self.same is False:
            note = f" ({self.note})" if self.note else ""
            text += f"output {shown(self.output)}: {self.compared}: got "
            if self.error == inf and self.note:
                text += f"{self.note}, expected the same"
            else:
                text += f"the error {self.error:.3g}{note}, expected at most {self.allowed:.3g}"
        else:
            text += f"output {shown(self.output)}: {self.compared}: {self.result_text}"
        if self.same is not False:
            return text
        repairs = {KERNEL: "the kernel", BODY: "onnx.bodies in the spec"}
        return f"{text}; correct {' or '.join(repairs[way] for way in self.compared.split(' with ') if way in repairs)}"

    @property
    def excess(self) -> tuple[bool, float]:
        """Return a sort key: the error divided by the tolerance; the largest is the worst."""
        return self.same is False, self.error / self.allowed if self.allowed else self.error

    def report(self) -> dict[str, Any]:
        """Return the comparison as JSON data, with null for infinite numbers, which JSON does not have."""
        facts = {**asdict(self), "error": self.error if isfinite(self.error) else None}
        return facts if self.op else {key: fact for key, fact in facts.items() if key not in _NODE_FIELDS}


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype has floating-point numbers."""
    # The kind of ml_dtypes types is "V".
    return dtype.kind in "fV"


def compare(
    name: str,
    before: Array,
    after: Array,
    narrowest: np.dtype[Any] | None = None,
    tolerance: Tolerance | None = None,
    names: tuple[str, str] = ("before", "after"),
) -> Comparison:
    """Compare two arrays.

    Args:
        name: Name of the output.
        before: The expected array.
        after: The other array.
        narrowest: The narrowest floating-point type in the computation of the output, whose roundings are allowed.
        tolerance: Additional tolerance.
        names: Names of the arrays in a note.
    """
    if before.dtype != after.dtype or before.shape != after.shape:
        kinds = [f"{array.dtype} {list(array.shape)}" for array in (before, after)]
        return Comparison(name, inf, same=False, note=f"{kinds[0]} {names[0]}, {kinds[1]} {names[1]}")
    if before.dtype.kind in "SUO":
        return Comparison(name, same=bool(np.array_equal(before, after)))
    if before.size == 0:
        return Comparison(name, same=True, note="no elements")
    first, second = before.astype(np.float64), after.astype(np.float64)
    skipped = ~np.isfinite(first) & ((first == second) | (np.isnan(first) & np.isnan(second)))
    count = int(skipped.sum())
    note = f"{count} of {first.size} elements are equal and not finite" if count else ""
    if count == first.size:
        return Comparison(name, note="no finite elements")
    first, second = first[~skipped], second[~skipped]
    with np.errstate(invalid="ignore"):
        error = np.nan_to_num(np.abs(first - second), nan=np.inf, posinf=np.inf)
    if before.dtype.kind in "iu":  # float64 has 53 bits
        error = np.maximum(error, before[~skipped] != after[~skipped])
    allowed = np.zeros(first.shape)
    size = np.where(np.isfinite(first), np.abs(first), 0)
    if narrowest is not None and is_float(before.dtype):
        usual = max(_LEAST_USUAL, np.median(size[size > 0]) if size.any() else 0)
        eps = float(ml_dtypes.finfo(narrowest).eps)  # type: ignore[no-untyped-call]
        allowed = _ROUNDINGS[narrowest.itemsize] * eps * (size + usual)
        if size.max() <= allowed.max():
            note = "; ".join(filter(None, (note, "no value exceeds the tolerance")))
    if tolerance is not None:
        allowed = np.maximum(allowed, tolerance.atol + tolerance.rtol * size)
    with np.errstate(divide="ignore"):
        worst = int(np.argmax(np.divide(error, allowed, out=np.zeros_like(error), where=error > 0)))
    is_same = bool(np.all(error <= allowed))
    return Comparison(name, float(error.max()), float(allowed[worst]), is_same, note)


def rounded(array: Array, dtype: str | None) -> Array:
    """Return an array in the dtype of an output, if it is known; beyond its range, numbers become infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array if dtype is None else array.astype(dtype, copy=False)


def widened(expected: Array, got: Array, dtype: str | None) -> tuple[Array, Array]:
    """Return an exact result and a computed one in the same type, if the latter has the dtype of the output."""
    if dtype is None or got.dtype.name != dtype or not is_float(got.dtype):
        return rounded(expected, dtype), got
    wide, narrow = expected.astype(np.float64), rounded(expected, dtype).astype(np.float64)
    return np.where(np.isinf(narrow), narrow, wide), got.astype(np.float64)
