"""Run a model: custom operators on the CPU twin or as ONNX bodies, others on onnx's evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from onnx import ModelProto, NodeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.progress import progress
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.products import DEFAULT_SOC
from opforge.codegen.spec.semantics import Call, check
from opforge.frontend.emit.functions import function_body
from opforge.frontend.emit.sparse import without_sparse
from opforge.frontend.io.arrays import Array, check_inputs, input_types
from opforge.frontend.io.external import is_external, tensors_of, with_data
from opforge.frontend.ir.attributes import AttrValue, read_attributes
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, OnnxKey, source_keys
from opforge.frontend.ir.operators import project_specs
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.value_types import MAX_EXPANDED_NODES, expanded_nodes
from opforge.frontend.rules.check_call import case_of

from .evaluator import MODEL_ERRORS, evaluator, failure_text, follow, node_label
from .ort_offload import LargeNodes
from .reference_ops import reference_operators, torch_operators

if TYPE_CHECKING:
    from opforge.twin import Result

Operators = Literal["twin", "function"]
# Spans of cores that a trace of a whole model holds at most; browsers take a few hundred thousand.
MOST_EVENTS = 300_000
_BODY_OPSET = 18


@dataclass(frozen=True)
class TwinMode:
    """How the twin runs.

    Attributes:
        is_strict: Whether it keeps the state that finds uninitialized reads and races; without it, it is faster.
        is_traced: Whether the calls keep their traces.
    """

    is_strict: bool = True
    is_traced: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments of `opforge.twin.run` for it."""
        # One order of the blocks is as fast as another, and the same run gives the same numbers.
        return {} if self.is_strict else {"strict": False, "seed": 1}


STRICT = TwinMode()


@dataclass(frozen=True)
class TwinCall:
    """One call of a custom operator on the twin.

    Attributes:
        node: Name of the node.
        op: Its op type in the spec.
        report: What it moved, and its estimated time (`opforge.twin.Report`).
        events: The trace of its last launch; empty when none was asked for.
    """

    node: str
    op: str
    report: Any
    events: Sequence[Mapping[str, Any]] = ()


@dataclass
class Execution:
    """The result of a run.

    Attributes:
        outputs: Arrays by output name.
        calls: The calls on the twin, in their order; empty without the twin.
        values: Every value of the main graph by name, when they were asked for.
    """

    outputs: dict[str, Array]
    calls: list[TwinCall] = field(default_factory=list)
    values: Mapping[str, Any] = field(default_factory=dict)

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
        operators: "twin" runs custom nodes through aclnn on the twin, "function" as standard operators, no kernel.
        folder: Folder of the model, when it has external data.

    Returns:
        Arrays by output name.

    Raises:
        UserError: Model and inputs do not fit, or a node refuses them.
        opforge.twin.FindingsError: A kernel made a mistake.
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
    large: LargeNodes | None = None,
    what: str = "running",
) -> Execution:
    """As `execute`, with what the twin reported.

    Args:
        model: The model; not changed.
        inputs: Arrays by input name.
        soc: SoC that the twin emulates.
        operators: "twin" or "function".
        folder: Folder of the model, when it has external data.
        where: Stands before messages about the inputs.
        mode: How the twin runs.
        keep_values: Whether to keep every value of the main graph.
        large: Runs large nodes of other operators elsewhere; None leaves all of them to onnx's evaluator.
        what: What a progress bar says.
    """
    if operators not in ("twin", "function"):
        raise UserError(f"operators: got {operators!r}, expected twin or function")
    view = GraphView(model, "model")
    if expanded_nodes(model) > MAX_EXPANDED_NODES:
        raise UserError(
            f"model: cannot be executed: the calls of its local functions stand for more than {MAX_EXPANDED_NODES}"
            " nodes, or never end; export it without functions"
        )
    arrays = check_inputs(inputs, input_types(model), where)
    runner = _Runner(operators, soc, mode)
    specs = {spec.op_type: spec for spec in project_specs()}
    implementations = [
        runner.implementation(spec, key)
        for spec in specs.values()
        for key in source_keys(spec)
        # A function that the model itself defines under such a name decides what its nodes compute.
        if key.domain == OPFORGE_DOMAIN or (key.domain, key.op_type) not in view.functions
    ]
    others = (*reference_operators(view), *torch_operators(specs, runner.run_body))
    foreign = [known for known in others if (known.op_domain, known.__name__) not in view.functions]
    dense, stays = without_sparse(view, folder)
    for name, reason in stays.items():
        raise UserError(f"model: cannot be executed: the sparse constant {shown(name)} {reason}")
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
        # The evaluator rewords some exceptions; errors of custom operators are reported unchanged.
        if runner.failure is not None:
            raise runner.failure from None
        raise UserError(f"model: cannot be executed: {failure_text(error)}") from error
    return Execution(outputs, runner.calls, values if keep_values else {})


def _with_data(model: ModelProto, folder: Path | None) -> ModelProto:
    """Return the model itself, or a copy that holds its external data."""
    if not any(is_external(tensor) for tensor in tensors_of(model)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in tensors_of(copy):
        if is_external(tensor):
            tensor.CopyFrom(with_data(tensor, folder))
    return copy


class _Runner:
    """Makes classes for the reference evaluator that run custom operators.

    Attributes:
        calls: The calls on the twin.
        failure: What a call raised.
    """

    def __init__(self, operators: Operators, soc: str, mode: TwinMode) -> None:
        self._operators = operators
        self._soc = soc
        self._mode = mode
        self._events = 0
        self._bodies: dict[tuple[str, str], ReferenceEvaluator] = {}
        self.calls: list[TwinCall] = []
        self.failure: Exception | None = None

    def implementation(self, spec: OpSpec, key: OnnxKey) -> type[OpRun]:
        """Return the class for one spelling of an operator."""

        def run(self_: OpRun, *values: Array | None, **linked: Any) -> tuple[Array, ...]:
            try:
                return self._call(self_.onnx_node, spec, values, linked)
            except Exception as error:
                self.failure = error
                raise

        return type(key.op_type, (OpRun,), {"op_domain": key.domain, "op_schema": None, "_run": run})

    def _call(
        self, node: NodeProto, spec: OpSpec, values: Sequence[Array | None], linked: Mapping[str, Any]
    ) -> tuple[Array, ...]:
        attrs = _attributes(node, spec, linked)
        names = [tensor.name for tensor in spec.inputs]
        if len(values) > len(names):
            raise UserError(f"{node_label(node)}: has {len(values)} inputs, expected at most {len(names)}")
        inputs = {name: value for name, value in zip(names, values, strict=False) if value is not None}
        if self._operators == "function":
            violation = check(spec, _call_of(inputs, attrs), with_outputs=False)
            if violation:
                raise UserError(f"{node_label(node)}: {violation.message}")
            return self.run_body(node, spec, inputs, attrs)
        if self._mode.is_traced and self._events < MOST_EVENTS:
            result, events = _run_traced(lambda: self._run_twin(node, spec, inputs, attrs))
            self._events += len(events)
        else:
            result, events = self._run_twin(node, spec, inputs, attrs), []
        self.calls.append(TwinCall(node.name, spec.op_type, result.report, events))
        return tuple(result[tensor.name] for tensor in spec.outputs[: len(node.output)])

    def run_body(
        self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]
    ) -> tuple[Array, ...]:
        """Return what the ONNX function body of an operator computes."""
        feeds = {tensor.name: inputs.get(tensor.name) for tensor in spec.inputs}
        body = self._body(node, spec, case_of(spec, _call_of(inputs, attrs)))
        return tuple(body.run(None, feeds, attributes=attrs))

    def _body(self, node: NodeProto, spec: OpSpec, case: str) -> ReferenceEvaluator:
        """Return the body of a case, ready to run; nodes of a case share it."""
        key = spec.op_type, case
        if key not in self._bodies:
            function = function_body(spec, case, len(spec.inputs), _BODY_OPSET, {})
            if function is None:
                raise UserError(f"{node_label(node)}: the operator has no ONNX function body")
            self._bodies[key] = ReferenceEvaluator(function)
        return self._bodies[key]

    def _run_twin(self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]) -> Result:
        from opforge import twin

        try:
            return twin.run(spec.op_type, inputs, attrs, soc=self._soc, **self._mode.options)
        except twin.AclnnError as error:
            raise UserError(f"{node_label(node)}: {error}") from error


def _run_traced(run: Callable[[], Result]) -> tuple[Result, list[Any]]:
    """Run a call on the twin; return its result and the trace of its last launch."""
    from opforge.twin.profile import run_traced, trace_events

    result, trace = run_traced(run)
    return result, trace_events(trace)


def _call_of(inputs: Mapping[str, Array], attrs: Mapping[str, AttrValue]) -> Call:
    shapes = {name: array.shape for name, array in inputs.items()}
    return Call(shapes=shapes, dtypes={name: array.dtype.name for name, array in inputs.items()}, attrs=attrs)


def _attributes(node: NodeProto, spec: OpSpec, linked: Mapping[str, Any]) -> dict[str, AttrValue]:
    """Return attributes of a node; inside a local function, some come from the call of the function."""
    plain = NodeProto()
    for attribute in node.attribute:
        passed = helper.make_attribute(attribute.name, linked[attribute.name]) if attribute.ref_attr_name else attribute
        plain.attribute.append(passed)
    try:
        return read_attributes(plain, spec)
    except Unmatched as problem:
        raise UserError(f"{node_label(node)}: {problem}") from problem
