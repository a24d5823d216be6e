"""Make valid values for the inputs of an operator, as its spec describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opforge.codegen.expr.evaluate import EvaluationError, evaluate
from opforge.codegen.spec.semantics import Call, environment_of
from opforge.twin.runtime.acl import Array

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec


def valid_values(
    spec: OpSpec, name: str, array: Array, call: Call, generator: np.random.Generator, *, is_even: bool = False
) -> Array:
    """Return an array like `array` with values that are valid for an input.

    Args:
        spec: The operator.
        name: The input.
        array: Its shape and dtype; the result if the spec does not limit the values or the limits are unknown.
        call: Shapes and attributes of the call, as far as they are known.
        generator: The source of random values.
        is_even: Whether ranges of rows have equally many rows.
    """
    values = spec.program.values.get(name)
    if values is None:
        return array
    try:
        environment = environment_of(spec, call)
        is_lengths = evaluate(values.lengths, environment) is True
        bounds = [evaluate(bound, environment) for bound in values.bounds or ()]
    except EvaluationError:
        return array
    if values.ends_of:
        shape = call.shapes.get(values.ends_of)
        ends = _ends(shape[0] if shape and shape[0] is not None else array.size, array.size, generator, is_even=is_even)
        return (np.diff(ends, prepend=0) if is_lengths else ends).astype(array.dtype).reshape(array.shape)
    match bounds:
        case [int(low), int(high)]:
            return generator.integers(low, max(high, low + 1), array.shape).astype(array.dtype)
        case [int() | float() as low, int() | float() as high]:
            return generator.uniform(low, max(high, low), array.shape).astype(array.dtype)
    return array


def _ends(rows: int, count: int, generator: np.random.Generator, *, is_even: bool) -> Array:
    if is_even:
        return np.arange(1, count + 1) * rows // max(count, 1)
    ends = np.sort(generator.integers(0, rows + 1, count))
    ends[-1:] = rows
    return ends
