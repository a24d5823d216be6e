"""Create valid values for the inputs of an operator according to its spec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.expr.evaluate import EvaluationError, evaluate
from opforge.codegen.spec.call import parameter_of, shapes_of_test, with_lists
from opforge.codegen.spec.semantics import Call, environment_of
from opforge.codegen.views.facts import dtype_columns
from opforge.twin.runtime.acl import Array

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec
    from opforge.codegen.spec.section_parts import TestShape

_COPIES = 4  # of the inputs, in numpy and on the twin


@dataclass(frozen=True)
class SpecCall:
    """A test of a spec with one combination of dtypes.

    Attributes:
        spec: The operator.
        test: The test.
        dtypes: Dtypes of the inputs.
    """

    spec: OpSpec
    test: TestShape
    dtypes: Mapping[str, str]

    def __str__(self) -> str:
        words = self.spec.op_type, self.test.case, self.test.note.replace(" ", "_"), *self.dtypes.values()
        return "-".join(filter(None, words))

    @property
    def op_type(self) -> str:
        """Return the operator type."""
        return self.spec.op_type

    @property
    def attrs(self) -> dict[str, Any]:
        """Return the attributes of the call."""
        return dict(self.test.attrs)

    def inputs(self) -> dict[str, Array | list[Array]]:
        """Return valid inputs, the same in each run."""
        return with_lists(test_inputs(self.spec, self.test, self.dtypes, np.random.default_rng(0)))


def calls_of(spec: OpSpec) -> list[SpecCall]:
    """Return the tests of a spec in all supported combinations of dtypes."""
    columns, calls = dtype_columns(spec), []
    for test in spec.tests.shapes:
        shapes = spec.program.case(test.case).shapes
        names = [tensor.name for tensor in spec.inputs if tensor.name in shapes]
        rows = zip(*(columns[name] for name in names), strict=True) if names else [()]
        calls += [SpecCall(spec, test, dict(zip(names, row, strict=True))) for row in dict.fromkeys(rows)]
    return calls


def test_inputs(
    spec: OpSpec, test: TestShape, dtypes: Mapping[str, str], generator: np.random.Generator
) -> dict[str, Array]:
    """Return valid inputs for a test of a spec; the tensors of a list are `x[0]`, `x[1]` and so on.

    Args:
        spec: The operator.
        test: The shapes, attributes and lists.
        dtypes: Dtypes of the inputs.
        generator: The source of random values.
    """
    shapes = shapes_of_test(spec.program, test, {attr.name: attr for attr in spec.attrs})
    inputs = {t.name for t in spec.inputs if t.name in test.values or not t.host_values}
    given = [name for name in shapes if parameter_of(name) in inputs]
    call = Call({name: shapes[name] for name in given}, attrs=test.attrs)
    first = shapes[given[0]] if given else ()
    kinds = {name: np.dtype(dtypes[parameter_of(name)]) for name in given}
    size = sum(prod(shapes[name]) * kind.itemsize for name, kind in kinds.items())
    require_memory(f"{spec.op_type}: tests.shapes ({test.note or test.case})", size)
    arrays = {}
    for name in given:
        if name in test.values:
            arrays[name] = np.array(test.values[name], kinds[name]).reshape(shapes[name])
        else:
            plain = plain_values(shapes[name], kinds[name], first, generator)
            arrays[name] = valid_values(spec, parameter_of(name), plain, call, generator)
    return arrays


def require_memory(place: str, size: int) -> None:
    """Check that this machine has enough memory for inputs.

    Args:
        place: The location in the message.
        size: Bytes of all inputs.

    Raises:
        UserError: There is not enough memory.
    """
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _COPIES
    if size > most:
        raise UserError(
            f"{place}: got inputs of {size:,} bytes, expected at most {most:,} on this machine; use smaller sizes"
        )


def plain_values(
    shape: tuple[int, ...], kind: np.dtype[Any], first: tuple[int, ...], generator: np.random.Generator
) -> Array:
    """Return ascending integers up to the first size of the first input, or random numbers."""
    if not np.issubdtype(kind, np.integer):
        return generator.standard_normal(shape, np.float32).astype(kind)
    count = prod(shape)
    values = np.arange(1, count + 1) * (first[0] if first else 1) // max(count, 1)
    return values.astype(kind).reshape(shape)


def valid_values(
    spec: OpSpec, name: str, array: Array, call: Call, generator: np.random.Generator, *, is_even: bool = False
) -> Array:
    """Return an array like `array` with values that are valid for an input.

    Args:
        spec: The operator.
        name: The input.
        array: Its shape and dtype; the result if the spec does not limit the values or the limits are unknown.
        call: Known shapes and attributes of the call.
        generator: The source of random values.
        is_even: Whether all ranges of rows have the same size.
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
