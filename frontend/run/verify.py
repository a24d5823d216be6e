"""Run a model before and after its conversion on the same inputs, and compare the outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from opforge.codegen.errors import MissingToolError, UserError
from opforge.codegen.printing import path_text, shown
from opforge.codegen.process_limits import LimitError
from opforge.frontend.conversion import Conversion
from opforge.frontend.emit.opset import Respelled, current_opset, respelled
from opforge.frontend.io.arrays import input_types
from opforge.frontend.io.load import SourceModel
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.limits import in_child, limits_for
from opforge.frontend.rules.discovery import facts
from opforge.twin.runtime.operator_run import prepare

from .comparison import Comparison, compare, is_float
from .custom_nodes import TwinMode
from .execute import run_model
from .sample_inputs import OPEN_DIM, sample_inputs


def verify(
    source: ModelProto, conversion: Conversion, folder: Path | None = None, *, run_kernels: bool = True
) -> list[Comparison]:
    """Compare a model and its conversion on seeded arrays that are valid for the operators.

    The source runs without kernels and, if NumPy definitions exist, without ONNX bodies. Each custom node of the
    result is computed by its kernel on the CPU twin, by its ONNX body and by the NumPy reference of the project; these
    results are compared too. A comparison of a node has `op`. Differences are first, then uncompared outputs.

    Args:
        source: The model before.
        conversion: Its conversion.
        folder: Folder of both, if they have external data.
        run_kernels: Whether custom nodes of the result run on the twin; otherwise, their ONNX bodies run.

    Raises:
        UserError: One of them cannot be executed.
    """
    arrays = sample_inputs(source, conversion)
    complete = _with_updates(source, conversion)
    execution = run_model(complete, arrays, operators="reference", folder=folder, keep_values=True, what="before")
    before, narrowest = execution.outputs, _narrowest(complete, execution.values)
    found = execution.comparisons
    # The values of both models are not kept in memory at the same time.
    del execution
    kept = {value.name for value in conversion.model.graph.input}
    given = {name: array for name, array in arrays.items() if name in kept}
    execution = run_model(
        conversion.model,
        given,
        operators="twin" if run_kernels else "function",
        folder=folder,
        mode=TwinMode("fast"),
        compared="model",
        what="after",
    )
    after = execution.outputs
    if before.keys() != after.keys():
        names = ", ".join(map(shown, sorted(before.keys() ^ after.keys())[:3]))
        raise UserError(
            f"model: cannot be compared: only one of the models has the outputs {names}, expected the same outputs;"
            " convert without --verify, and report the model"
        )
    found += execution.comparisons
    found += [compare(name, before[name], after[name], narrowest.get(name)) for name in before]
    return sorted(found, key=lambda entry: (entry.same is not False, entry.same is not None))


def _narrowest(model: ModelProto, values: Mapping[str, Any]) -> dict[str, np.dtype[Any]]:
    """Return, for each value of the main graph, the narrowest floating-point type in its computation."""
    found: dict[str, np.dtype[Any]] = {}
    for name, value in values.items():
        parts = value if isinstance(value, list) else [value]
        types = [part.dtype for part in parts if isinstance(part, np.ndarray) and is_float(part.dtype)]
        if types:
            found[name] = types[0]
    for node in model.graph.node:
        before = [found[name] for name in node.input if name in found]
        for name in node.output:
            if name in found:
                found[name] = min((found[name], *before), key=lambda dtype: dtype.itemsize)
    return found


def verify_within(source: SourceModel, conversion: Conversion, *, run_kernels: bool = True) -> list[Comparison]:
    """As `verify`, in a process with the limits of the model's files.

    Raises:
        UserError: As `verify`, or a limit was reached.
        MissingToolError: There is no compiler for the kernels.
    """

    def work() -> bytes:
        found = verify(source.model, conversion, source.path.parent, run_kernels=run_kernels)
        return json.dumps([astuple(entry) for entry in found]).encode()

    if run_kernels and (names := sorted({entry.op for entry in conversion.mapped})):
        # Compiled here and not in the child, because compilers have separate limits.
        try:
            prepare(names)
        except MissingToolError as problem:
            raise MissingToolError(f"{problem}; without a compiler, add --bodies to --verify") from problem
    try:
        answer = in_child(work, limits_for(source.size, is_run=True))
    except (LimitError, UserError) as reason:
        raise UserError(f"{path_text(source.path)}: cannot compare the models: {reason}{_guess(source)}") from reason
    return [Comparison(*entry) for entry in json.loads(answer)]


def _guess(source: SourceModel) -> str:
    """Return a note on unknown dims that were set to a default; "" if there are none."""
    dims = [dim for kind in input_types(source.model).values() for dim in kind.dims or () if not isinstance(dim, int)]
    names = ", ".join(shown(dim) if dim else "one without a name" for dim in list(dict.fromkeys(dims))[:3])
    return f"; the unknown dims ({names}) were set to {OPEN_DIM}; declare their sizes" if dims else ""


def _in_opset(source: ModelProto, target: int | None) -> ModelProto:
    """Return a copy in the opset of the conversion: the evaluator supports standard nodes only in their versions."""
    model, view = ModelProto(), GraphView(source)
    model.CopyFrom(source)
    names = FreshNames(name for scope in view.scopes for name in scope.makers)
    found = None if target is None else respelled(view, ValueTypes(view), target, names)
    if isinstance(found, Respelled):
        found.write(model)
    return model


def _with_updates(source: ModelProto, conversion: Conversion) -> ModelProto:
    """Return the source with overwritten inputs as outputs, named as after the conversion."""
    if not conversion.lowered:
        return source
    model = _in_opset(source, current_opset(conversion.model))
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
    """Give a batch norm its running mean and variance as outputs; return the nodes that name them."""
    added = []
    # Its first output is not a flag, and the running mean and variance have separate names.
    node.output.extend([""] * (3 - len(node.output)))
    for place, name in zip((1, 2), node.input[3:5], strict=True):
        updated = f"{name}_updated"
        if updated in wanted:
            node.output[place] = node.output[place] or f"{name}_next"
            added.append(helper.make_node("Identity", [node.output[place]], [updated]))
            graph.output.add(name=updated).type.CopyFrom(wanted[updated])
    return added


def _member(sequence: str, number: int, name: str) -> list[NodeProto]:
    """Return nodes that read one tensor from a sequence."""
    place = f"{name}_place"
    return [constant(place, np.array(number)), helper.make_node("SequenceAt", [sequence, place], [name])]
