"""Run a model: custom operators on the CPU twin or as ONNX bodies, others on onnx's evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import onnx
from onnx import ModelProto

from opforge.codegen.data.products import DEFAULT_SOC
from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.progress import progress
from opforge.frontend.emit.sparse import without_sparse
from opforge.frontend.io.arrays import Array, check_inputs, input_types
from opforge.frontend.ir.external import is_external, tensors_of, with_data
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, source_keys, suggestion
from opforge.frontend.ir.scope import normal_domain
from opforge.frontend.ir.value_types import MAX_EXPANDED_NODES, expanded_nodes
from opforge.frontend.operators import project_specs

from .comparison import Comparison
from .custom_nodes import CustomNodes, Operators, Tolerances, TwinCall, TwinMode
from .evaluator import MODEL_ERRORS, evaluator, failure_text, follow
from .ort_offload import LargeNodes
from .reference_ops import reference_operators, torch_operators

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

STRICT = TwinMode()


@dataclass
class Execution:
    """The result of a run.

    Attributes:
        outputs: Arrays by output name.
        calls: The calls on the twin, in order; empty without the twin.
        values: Every value of the main graph by name, if requested.
        comparisons: The comparisons for `compared`, node by node.
    """

    outputs: dict[str, Array]
    calls: list[TwinCall] = field(default_factory=list)
    values: Mapping[str, Any] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def reports(self) -> list[tuple[str, Any]]:
        """Return the report of each call on the twin, with the name of its node."""
        return [(call.node, call.report) for call in self.calls]


def execute(
    model: ModelProto,
    inputs: Mapping[str, Array],
    *,
    soc: str = DEFAULT_SOC,
    operators: Operators = "twin",
    folder: Path | None = None,
) -> dict[str, Array]:
    """Run a model on arrays.

    Args:
        model: The model; not changed.
        inputs: Arrays by input name.
        soc: SoC that the twin emulates.
        operators: "twin" runs custom nodes through aclnn on the twin, "function" their ONNX bodies, "reference" the
            NumPy references of the project (without one, the body).
        folder: Folder of the model, if it has external data.

    Returns:
        Arrays by output name.

    Raises:
        UserError: Model and inputs do not match, or a node rejects them.
        opforge.twin.FindingsError: A kernel has findings.
    """
    return run_model(model, inputs, soc=soc, operators=operators, folder=folder).outputs


def run_model(
    model: ModelProto,
    inputs: Mapping[str, Array],
    *,
    soc: str = DEFAULT_SOC,
    operators: Operators = "twin",
    folder: Path | None = None,
    where: object = "inputs",
    mode: TwinMode = STRICT,
    keep_values: bool = False,
    compared: Tolerances | None = None,
    large: LargeNodes | None = None,
    what: str = "running",
) -> Execution:
    """As `execute`, with the reports of the twin.

    Args:
        model: The model; not changed.
        inputs: Arrays by input name.
        soc: SoC that the twin emulates.
        operators: "twin", "function" or "reference".
        folder: Folder of the model, if it has external data.
        where: Prefix of messages about the inputs.
        mode: Options of the twin.
        keep_values: Whether to keep every value of the main graph.
        compared: How to compare kernel, ONNX body and NumPy reference of each custom node: within the tolerance of the
            "spec", or of the "model", which also allows roundings. None for no comparison.
        large: Runs large nodes of other operators; None runs all of them on onnx's evaluator.
        what: Text of the progress bar.
    """
    if operators not in get_args(Operators):
        raise UserError(f"operators: got {operators!r}, expected one of {', '.join(get_args(Operators))}")
    view = GraphView(model, "model")
    if expanded_nodes(model) > MAX_EXPANDED_NODES:
        raise UserError(
            f"model: cannot be executed: the expanded local functions have more than {MAX_EXPANDED_NODES} nodes, or"
            " call each other without end; export the model without functions"
        )
    arrays = check_inputs(inputs, input_types(model), where)
    runner = CustomNodes(operators, soc, mode, compared=compared)
    specs = {spec.op_type: spec for spec in project_specs()}
    implementations = [
        runner.implementation(spec, key)
        for spec in specs.values()
        for key in source_keys(spec)
        # A function of the model with such a name determines the results of its nodes.
        if key.domain == OPFORGE_DOMAIN or (key.domain, key.op_type) not in view.functions
    ]
    others = (*reference_operators(view), *torch_operators(specs, runner.source))
    foreign = [known for known in others if (known.op_domain, known.__name__) not in view.functions]
    dense, stays = without_sparse(view, folder)
    for name, reason in stays.items():
        raise UserError(f"model: cannot be executed: the sparse constant {shown(name)} {reason}")
    _check_nodes(view, {(known.op_domain, known.__name__) for known in (*implementations, *foreign)}, specs)
    complete = _with_data(dense, folder)
    try:
        prepared = evaluator([*implementations, *foreign])(complete)
        with progress(what, len(model.graph.node)) as advance:
            if large is not None:
                large.take_over(prepared.rt_nodes_)
            follow(prepared.rt_nodes_, advance)
            values: Any = prepared.run(None, arrays, intermediate=True)
        outputs = {value.name: np.asarray(values[value.name]) for value in model.graph.output}
    except MODEL_ERRORS as error:
        # The evaluator replaces the text of some errors; errors of custom operators are reported unchanged.
        if runner.failure is not None:
            raise runner.failure from None
        raise UserError(f"model: cannot be executed: {failure_text(error)}") from error
    return Execution(outputs, runner.calls, values if keep_values else {}, runner.comparisons)


def _check_nodes(view: GraphView, known: set[tuple[str, str]], specs: Mapping[str, OpSpec]) -> None:
    """Reject a node whose type neither onnx nor a spec has, and whose function is not in the model."""
    for scope in view.scopes:
        for key, numbers in scope.keys.items():
            domain, op_type = normal_domain(key[0]), key[1]
            if (domain, op_type) in known or (domain, op_type) in view.functions or onnx.defs.has(op_type, domain):
                continue
            fix = suggestion(domain, op_type, specs.values()) or (
                "expected an operator of onnx or of a spec; correct the node, or change to the operator's project"
            )
            raise UserError(f"{scope.label(numbers[0])}: unknown operator; {fix}")


def _with_data(model: ModelProto, folder: Path | None) -> ModelProto:
    """Return the model, or a copy that contains its external data."""
    if not any(is_external(tensor) for tensor in tensors_of(model)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in tensors_of(copy):
        if is_external(tensor):
            tensor.CopyFrom(with_data(tensor, folder))
    return copy
