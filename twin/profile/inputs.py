"""Read the shapes and attributes of `opforge profile`, and make arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from opforge.codegen.data.dtypes import SHORT_DTYPES
from opforge.codegen.data.names import suggest
from opforge.codegen.errors import UserError
from opforge.codegen.expr.tree import element_name
from opforge.codegen.printing import first_line, shown
from opforge.codegen.spec.call import parameter_of
from opforge.codegen.spec.semantics import Call
from opforge.twin.runtime.acl import Array
from opforge.twin.runtime.aclnn_call import require_attribute_types
from opforge.twin.samples import plain_values, require_memory, valid_values

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

# Python limits the length of numbers in text.
_SHAPE = re.compile(r"\s*(\w+)=(\d{1,100}(?:x\d{1,100})*)\s*", re.ASCII)
_MOST_DIMS = 8


def parse_shapes(
    texts: Sequence[str], option: str = "--shape", lists: Container[str] = ()
) -> dict[str, tuple[int, ...]]:
    """`["x=4x8,i=3"]` as `{"x": (4, 8), "i": (3,)}`; each name of `lists` may be repeated: `x[0]`, `x[1]` and so on.

    Raises:
        UserError: A part is not of the form name=4x8, or a name is repeated.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    counts: dict[str, int] = {}
    for part in (part for text in texts for part in text.split(",")):
        found = _SHAPE.fullmatch(part)
        if found is None or found[2].count("x") >= _MOST_DIMS:
            raise UserError(
                f"{option}: got {shown(part)}, expected name=4x8 (at most {_MOST_DIMS} sizes, each at least"
                " 0), or several with commas"
            )
        name, dims = found[1], tuple(map(int, found[2].split("x")))
        index = counts[name] = counts.get(name, -1) + 1
        if index and name not in lists:
            raise UserError(f"{option}: got {name} twice, expected it once; omit one of them")
        shapes[element_name(name, index) if name in lists else name] = dims
    return shapes


def parse_attrs(texts: Sequence[str]) -> dict[str, Any]:
    """`["k=1", "mode=sum"]` as `{"k": 1, "mode": "sum"}`; values are Python literals, else text.

    Raises:
        UserError: A part is not of the form name=value.
    """
    attrs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UserError(f"--attr: got {shown(text)}, expected name=value")
        try:
            attrs[name] = ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            attrs[name] = value
    return attrs


def attrs_of(spec: OpSpec, texts: Sequence[str]) -> dict[str, Any]:
    """Return the attributes in the texts `name=value`.

    Raises:
        UserError: A text has another form, or a value does not have the type of the spec.
    """
    attrs = parse_attrs(texts)
    require_attribute_types(spec, attrs)
    return attrs


def make_inputs(
    spec: OpSpec,
    shapes: Mapping[str, tuple[int, ...]],
    attrs: Mapping[str, Any],
    dtype: str | None,
    given: Mapping[str, Array] = MappingProxyType({}),
    option: str = "--shape",
) -> dict[str, Array]:
    """Return arrays for an operator; messages about shapes name `option`.

    `dtype` is used for every input that supports it; another input has the first dtype of its spec. Arrays of `given`
    are cast to it. Other arrays have valid values according to the spec; without such a rule, floats are normally
    distributed, and integers ascend evenly up to the first dimension of the first input.

    Raises:
        UserError: A name or dtype is unknown, or a required input has neither a shape nor an array.
    """
    known = [tensor.name for tensor in spec.inputs]
    for source, entries in (("--shape", shapes), ("--inputs", given)):
        if unknown := sorted({parameter_of(name) for name in entries} - set(known)):
            raise UserError(f"{source}: got {shown(unknown[0])}; {suggest(unknown[0], known)}")
    if twice := sorted(set(shapes) & set(given)):
        raise UserError(f"--shape: got {', '.join(twice)}, which --inputs also contains; omit one of them")
    shapes = {**shapes, **{name: array.shape for name, array in given.items()}}
    named = {parameter_of(name) for name in shapes}
    if missing := [tensor.name for tensor in spec.inputs if not tensor.optional and tensor.name not in named]:
        names = ", ".join(missing)
        raise UserError(
            f"--shape: got no shape of {names}, expected one for each required input of {spec.op_type};"
            f" add --shape {missing[0]}=4x8,... with the sizes, or --case"
        )
    wanted = SHORT_DTYPES.get(dtype or "", dtype)
    words = sorted({word for tensor in spec.inputs for word in tensor.dtypes})
    if wanted is not None and wanted not in words:
        raise UserError(
            f"--dtype: got {shown(dtype)}, expected a dtype of the inputs of {spec.op_type}: {', '.join(words)}"
        )
    made = {
        name: spec.tensor(parameter_of(name))
        for name in sorted(shapes, key=lambda name: known.index(parameter_of(name)))
    }
    kinds = {name: np.dtype(wanted if wanted in of.dtypes else of.dtypes[0]) for name, of in made.items()}
    size = sum(prod(shapes[name]) * kind.itemsize for name, kind in kinds.items() if name not in given)
    require_memory(option, size)
    random = np.random.default_rng(0)
    first = next((shapes[name] for name in made), ())
    arrays: dict[str, Array] = {}
    for name, kind in kinds.items():
        if name in given:
            arrays[name] = _cast(name, given[name], kind)
            continue
        try:
            arrays[name] = plain_values(shapes[name], kind, first, random)
        except ValueError as error:
            # numpy computes the bytes of an empty array without its dimension 0.
            raise UserError(f"{option}: {name}: {first_line(error)}; give it smaller sizes") from error
    call = Call({name: array.shape for name, array in arrays.items()}, attrs=attrs)
    return {
        name: array if name in given else valid_values(spec, parameter_of(name), array, call, random, is_even=True)
        for name, array in arrays.items()
    }


def _cast(name: str, array: Array, kind: np.dtype[Any]) -> Array:
    """Return a given array with another dtype."""
    if array.dtype.kind not in "biuf":
        raise UserError(f"--inputs: {name}: got {array.dtype}, expected numbers; convert it with .astype")
    with np.errstate(all="ignore"):
        return array.astype(kind)
