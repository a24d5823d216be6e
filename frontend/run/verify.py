"""Run a model before and after its conversion on the same inputs, and compare the outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from math import isfinite, prod, sqrt
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text, shown
from opforge.codegen.spec.semantics import Call
from opforge.frontend.conversion import Conversion
from opforge.frontend.emit.opset import current_opset, write_opset
from opforge.frontend.io.arrays import InputType, input_types
from opforge.frontend.io.limits import LimitError, in_child, limits_for
from opforge.frontend.io.load import SourceModel
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.operators import project_specs
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.rules.discovery import facts
from opforge.twin.samples import valid_values

from .execute import run_model

Array = NDArray[Any]
_SEED = 20
# Of an array that is made up: 2 GiB of random numbers.
_MOST_ELEMENTS = 1 << 28
# Size of a dim that the model leaves open.
_OPEN_DIM = 4
_MATRIX = 2
# Nodes that pass values on as they are, or as another type or shape.
_PASSING = {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
# Nodes between an input and what has to be positive, and how many of them are looked at.
_BETWEEN = _PASSING | {"Add", "Mul"}
_MOST_BETWEEN = 3
# What the products of weights are taken with, as second operand.
_PRODUCTS = {"Conv", "ConvTranspose", "FusedMatMul", "Gemm", "MatMul"}
# How many roundings, by bytes of the type, a result may be off: of itself and of the usual value beside it, because a
# sum that cancels keeps the roundings of what it adds. Sums of two bytes are made in wider types.
_ROUNDINGS = {1: 2, 2: 8, 4: 128, 8: 128}
# The least usual value: made-up numbers are about 1, and what is small beside them can be what rounding left.
_LEAST_USUAL = 1 / 16


@dataclass(frozen=True)
class Comparison:
    """One output before and after.

    Attributes:
        output: Its name.
        error: Largest absolute difference; infinite when types or shapes differ or only one has a number.
        allowed: What the tolerance allows at the place of the largest excess.
        same: Whether every element is within tolerance; None when there was nothing to compare.
        note: What else is to be known of the comparison; "" if nothing.
    """

    output: str
    error: float
    allowed: float
    same: bool | None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Return the result as text of a table."""
        word = {True: "within tolerance", False: "DIFFERS", None: "not compared"}[self.same]
        return f"{word}: {self.note}" if self.note else word

    def report(self) -> dict[str, Any]:
        """Return the same as JSON data, which has no infinite numbers: null stands for them."""
        return {**asdict(self), "error": self.error if isfinite(self.error) else None}


def verify(source: ModelProto, conversion: Conversion, folder: Path | None = None) -> list[Comparison]:
    """Compare a model and its conversion on seeded arrays that the operators take; both run without kernels.

    The outputs that differ come first, then those that were not compared.

    Args:
        source: The model before.
        conversion: What became of it.
        folder: Folder of both, when they have external data.

    Raises:
        UserError: One of them cannot be executed.
    """
    arrays = sample_inputs(source, conversion)
    complete = _with_updates(source, conversion)
    execution = run_model(complete, arrays, operators="function", folder=folder, keep_values=True, what="before")
    before, narrowest = execution.outputs, _narrowest(complete, execution.values)
    # Do not keep the values of both models in memory.
    del execution
    kept = {value.name for value in conversion.model.graph.input}
    given = {name: array for name, array in arrays.items() if name in kept}
    after = run_model(conversion.model, given, operators="function", folder=folder, what="after").outputs
    if before.keys() != after.keys():
        names = ", ".join(map(shown, sorted(before.keys() ^ after.keys())[:3]))
        raise UserError(f"model: cannot be compared: only one of the models has the outputs {names}")
    compared = (_compare(name, before[name], after[name], narrowest.get(name)) for name in before)
    return sorted(compared, key=lambda entry: (entry.same is not False, entry.same is not None))


def _narrowest(model: ModelProto, values: Mapping[str, Any]) -> dict[str, np.dtype[Any]]:
    """Return the floating-point type of fewest bytes that each value of the main graph is, or is computed from."""
    found: dict[str, np.dtype[Any]] = {}
    for name, value in values.items():
        parts = value if isinstance(value, list) else [value]
        types = [part.dtype for part in parts if isinstance(part, np.ndarray) and _is_float(part.dtype)]
        if types:
            found[name] = types[0]
    for node in model.graph.node:
        before = [found[name] for name in node.input if name in found]
        for name in node.output:
            if name in found:
                found[name] = min((found[name], *before), key=lambda dtype: dtype.itemsize)
    return found


def _is_float(dtype: np.dtype[Any]) -> bool:
    # ml_dtypes calls the kind of its types "V".
    return dtype.kind in "fV"


def verify_within(source: SourceModel, conversion: Conversion) -> list[Comparison]:
    """As `verify`, in a process with the limits of the model's files.

    Raises:
        UserError: As `verify`, or a limit was reached.
    """

    def work() -> bytes:
        return json.dumps([astuple(entry) for entry in verify(source.model, conversion, source.path.parent)]).encode()

    try:
        answer = in_child(work, limits_for(source.size, is_run=True))
    except (LimitError, UserError) as reason:
        text = str(reason).removeprefix("model: cannot be executed: ")
        raise UserError(
            f"{path_text(source.path)}: cannot be executed for the comparison: {text}{_guess(source)}"
        ) from reason
    return [Comparison(*entry) for entry in json.loads(answer)]


def _guess(source: SourceModel) -> str:
    """Return a note on unknown dims that were set to a default; "" if there are none."""
    dims = [dim for kind in input_types(source.model).values() for dim in kind.dims or () if not isinstance(dim, int)]
    names = ", ".join(shown(dim) if dim else "one without a name" for dim in list(dict.fromkeys(dims))[:3])
    return f"; the unknown dims ({names}) were set to {_OPEN_DIM}; declare their sizes" if dims else ""


def _with_updates(source: ModelProto, conversion: Conversion) -> ModelProto:
    """Return the source, with what it writes over its inputs as outputs, named as after the conversion."""
    if not conversion.lowered:
        return source
    model = ModelProto()
    model.CopyFrom(source)
    target = current_opset(conversion.model)
    if target is not None:
        # onnxruntime writes standard nodes of newer opsets, which the evaluator knows in these only.
        write_opset(model, ValueTypes(GraphView(source)), target)
    graph = model.graph
    kinds = {value.name: value.type for value in graph.input}
    makers = {name: node for node in graph.node for name in node.output}
    given = {value.name for value in graph.output}
    flags: set[str] = set()
    overwritten: dict[str, tuple[int, ...]] = facts("OVERWRITTEN")
    added: list[NodeProto] = []
    after = {value.name: value.type for value in conversion.model.graph.output}
    for node in graph.node:
        if node.op_type == "BatchNormInternal":
            running = {name: after[name] for name in after if name not in given}
            added += _running_statistics(graph, node, running)
        if node.op_type not in overwritten or not given.intersection(node.output[:1]):
            continue
        flags.add(node.output[0])
        for place, position in enumerate(overwritten[node.op_type], 1):
            name = node.input[position]
            node.output.extend([""] * (place + 1 - len(node.output)))
            updated = node.output[place] = node.output[place] or f"{name}_updated"
            maker = makers.get(name)
            if maker is None or maker.op_type != "SequenceConstruct":
                if updated not in given:
                    graph.output.add(name=updated).type.CopyFrom(kinds.get(name, TypeProto()))
                continue
            for number, member in enumerate(maker.input):
                added += _member(updated, number, f"{member}_updated")
                graph.output.add(name=f"{member}_updated").type.CopyFrom(kinds.get(member, TypeProto()))
    graph.node.extend(added)
    kept = [value for value in graph.output if value.name not in flags]
    outputs = [ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    del graph.output[:]
    graph.output.extend(outputs)
    return model


def _running_statistics(graph: GraphProto, node: NodeProto, wanted: Mapping[str, TypeProto]) -> list[NodeProto]:
    """Give a batch norm its running mean and variance as outputs; returns the nodes that name them."""
    added = []
    # Its first output is no flag, and the running mean and variance have names of their own.
    node.output.extend([""] * (3 - len(node.output)))
    for place, name in zip((1, 2), node.input[3:5], strict=True):
        updated = f"{name}_updated"
        if updated in wanted:
            node.output[place] = node.output[place] or f"{name}_next"
            added.append(helper.make_node("Identity", [node.output[place]], [updated]))
            graph.output.add(name=updated).type.CopyFrom(wanted[updated])
    return added


def _member(sequence: str, number: int, name: str) -> list[NodeProto]:
    """Return nodes that take one tensor out of a sequence."""
    place = f"{name}_place"
    return [constant(place, np.array(number)), helper.make_node("SequenceAt", [sequence, place], [name])]


def _compare(name: str, before: Array, after: Array, narrowest: np.dtype[Any] | None) -> Comparison:
    """Compare an output that is computed in a floating-point type, its own or a narrower one, or in none."""
    if before.dtype != after.dtype or before.shape != after.shape:
        kinds = [f"{array.dtype} {list(array.shape)}" for array in (before, after)]
        return Comparison(name, float("inf"), 0.0, same=False, note=f"{kinds[0]} before, {kinds[1]} after")
    if before.dtype.kind in "SUO":
        return Comparison(name, 0.0, 0.0, same=bool(np.array_equal(before, after)))
    if before.size == 0:
        return Comparison(name, 0.0, 0.0, same=True, note="no elements")
    first, second = before.astype(np.float64), after.astype(np.float64)
    skipped = ~np.isfinite(first) & ((first == second) | (np.isnan(first) & np.isnan(second)))
    count = int(skipped.sum())
    note = f"{count} of {first.size} elements are equal and not finite" if count else ""
    if count == first.size:
        return Comparison(name, 0.0, 0.0, same=None, note="no finite elements")
    first, second = first[~skipped], second[~skipped]
    with np.errstate(invalid="ignore"):
        error = np.nan_to_num(np.abs(first - second), nan=np.inf, posinf=np.inf)
    allowed = np.zeros(first.shape)
    if narrowest is not None and _is_float(before.dtype):
        size = np.where(np.isfinite(first), np.abs(first), 0)
        usual = max(_LEAST_USUAL, np.median(size[size > 0]) if size.any() else 0)
        eps = float(ml_dtypes.finfo(narrowest).eps)  # type: ignore[no-untyped-call]
        allowed = _ROUNDINGS[narrowest.itemsize] * eps * (size + usual)
        if size.max() <= allowed.max():
            note = "; ".join(filter(None, (note, "no value exceeds the tolerance")))
    worst = int(np.argmax(error - allowed))
    is_same = bool(np.all(error <= allowed))
    return Comparison(name, float(error.max()), float(allowed[worst]), is_same, note)


def sample_inputs(model: ModelProto, conversion: Conversion) -> dict[str, Array]:
    """Return seeded arrays for the inputs of a model, valid for its operators: indices, ascending ends, and so on."""
    generator = np.random.default_rng(_SEED)
    sizes: dict[str, int] = {}
    arrays = {
        name: _plain(name, kind, tuple(_size(dim, sizes) for dim in kind.dims or ()), generator)
        for name, kind in input_types(model).items()
        if not kind.optional
    }
    for name in _positive(conversion.model) & arrays.keys():
        # A root of a negative number or a step 0 would make what is no number, before and after: that proves nothing.
        array = arrays[name]
        arrays[name] = np.maximum(array, 1) if array.dtype.kind in "iu" else (abs(array) + 0.1).astype(array.dtype)
    for name in _weights(model) & arrays.keys():
        if _is_float((array := arrays[name]).dtype) and array.ndim > 1:
            # As initializers do: a product keeps the size of what it multiplies, and a softmax behind some of them is
            # not 0 nearly everywhere.
            fan_in = max(array.shape[-2:]) if array.ndim == _MATRIX else prod(array.shape[1:])
            arrays[name] = (array / sqrt(max(fan_in, 1))).astype(array.dtype)
    specs = {spec.op_type: spec for spec in project_specs()}
    view = GraphView(conversion.model)
    types = ValueTypes(view, list(specs.values()))
    scopes = {node.name: scope for scope in view.scopes for node in scope.body.node if node.name}
    for entry in conversion.mapped:
        if entry.node not in scopes:
            continue
        spec, scope = specs[entry.op], scopes[entry.node]
        given = {t.name: name for t, name in zip(spec.inputs, entry.inputs, strict=True) if name}
        origins = {parameter: _origin(scope, name) for parameter, name in given.items()}
        made = {parameter: arrays[name].shape for parameter, name in origins.items() if name in arrays}
        shapes = {parameter: types.of(scope, name).shape for parameter, name in given.items()} | made
        call = Call(shapes, attrs=entry.attrs)
        for parameter, name in origins.items():
            if name in arrays:
                arrays[name] = valid_values(spec, parameter, arrays[name], call, generator)
    return arrays


def _size(dim: int | str | None, sizes: dict[str, int]) -> int:
    return dim if isinstance(dim, int) else sizes.setdefault(dim, _OPEN_DIM) if dim else _OPEN_DIM


def _plain(name: str, kind: InputType, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    dtype = kind.dtype if kind.dtype is not None else np.dtype(np.float32)
    if (count := prod(shape)) > _MOST_ELEMENTS:
        raise UserError(
            f"input {shown(name)}: got {count} elements, expected at most {_MOST_ELEMENTS} in a generated input"
        )
    try:
        # 0 and 1 are valid indices, counts and sizes nearly everywhere.
        numbers = generator.integers(0, 2, shape) if dtype.kind in "biu" else generator.standard_normal(shape)
    except ValueError as error:
        raise UserError(
            f"input {shown(name)}: got the shape {shown(list(shape[:9]))}, expected one that NumPy supports"
        ) from error
    return numbers.astype(dtype)


def _positive(model: ModelProto) -> set[str]:
    """Exponents, which count steps, and values that a square root is taken of; or of a sum or product of either."""
    makers = {name: node for node in model.graph.node for name in node.output}
    names = {name for node in model.graph.node if node.op_type == "Sqrt" for name in node.input}
    names |= {node.input[1] for node in model.graph.node if node.op_type == "Pow" and len(node.input) > 1}
    found = set(names)
    for _ in range(_MOST_BETWEEN):
        nodes = [makers[name] for name in names if name in makers]
        names = {name for node in nodes if node.op_type in _BETWEEN for name in node.input} - found
        found |= names
    return found


def _weights(model: ModelProto) -> set[str]:
    """Return inputs that products of matrices and convolutions have as second operand, turned or not."""
    main = GraphView(model).main
    return {
        _origin(main, node.input[1])
        for node in model.graph.node
        if node.op_type in _PRODUCTS and len(node.input) > 1 and node.input[1]
    }


def _origin(scope: Scope, name: str) -> str:
    """Return the input that a value comes from unchanged."""
    found = scope.find(name)
    while found is not None and found[1] >= 0:
        node = found[0].node(found[1])
        if node.op_type not in _PASSING or not node.input:
            break
        name = node.input[0]
        found = found[0].find(name)
    return name
