"""Compute custom nodes of a model by kernel, ONNX body or NumPy reference, and compare these results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from opforge.codegen.errors import UserError
from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.printing import first_line
from opforge.codegen.spec.call import named_members, with_lists
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import Call, check, infer
from opforge.frontend.emit.functions import function_body
from opforge.frontend.io.arrays import Array
from opforge.frontend.ir.attributes import named_inputs, named_outputs, read_attributes
from opforge.frontend.ir.op_names import OnnxKey
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.rules.check_call import case_of

from .comparison import BODY, KERNEL, REFERENCE, Comparison, compare, is_float, rounded, widened
from .evaluator import MODEL_ERRORS, evaluator, failure_text, node_label
from .numpy_reference import numpy_reference

if TYPE_CHECKING:
    from opforge.twin import Result

Operators = Literal["twin", "function", "reference"]
# Whether only the tolerances of specs are allowed, or also roundings, because sums of a model are longer than in tests.
Tolerances = Literal["spec", "model"]
Results = Sequence[Array]
# Maximum spans of cores in a trace of a whole model; browsers support a few hundred thousand.
MOST_EVENTS = 300_000
_BODY_OPSET = 18
# Statuses of an aclnn function: it rejects the arguments; there is no kernel for the call.
_REFUSED = (161001, 161002)
_NO_KERNEL = 561003
_MOST_LETTERS = 2000  # of a finding


@dataclass(frozen=True)
class TwinMode:
    """Options of the twin.

    Attributes:
        level: Its checks: strict, device or fast.
        is_traced: Whether the calls keep their traces.
    """

    level: str = "strict"
    is_traced: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments of `opforge.twin.run` for these options."""
        # The order of the blocks does not affect speed, and a fixed seed gives the same numbers.
        return {"level": self.level} | ({"seed": 1} if self.level == "fast" else {})


@dataclass(frozen=True)
class TwinCall:
    """One call of a custom operator on the twin.

    Attributes:
        node: Name of the node.
        op: Its op type in the spec.
        report: Its traffic and estimated time (`opforge.twin.Report`).
        events: The trace of its last launch; empty without tracing.
    """

    node: str
    op: str
    report: Any
    events: Sequence[Mapping[str, Any]] = ()


class CustomNodes:
    """Creates classes for onnx's reference evaluator that run custom operators.

    Args:
        operators: "twin" runs kernels, "function" ONNX bodies, "reference" NumPy references or, without one, bodies.
        soc: SoC that the twin emulates.
        mode: Options of the twin.
        compared: Tolerance for comparing all ways to compute a node; None for no comparison.

    Attributes:
        calls: The calls on the twin.
        failure: The error of a call.
    """

    def __init__(self, operators: Operators, soc: str, mode: TwinMode, *, compared: Tolerances | None = None) -> None:
        self._operators = operators
        self._soc = soc
        self._mode = mode
        self._tolerances = compared
        self._events = 0
        self._bodies: dict[tuple[str, str], ReferenceEvaluator] = {}
        self._compared: dict[tuple[str, ...], Comparison] = {}
        self.calls: list[TwinCall] = []
        self.failure: Exception | None = None

    @property
    def comparisons(self) -> list[Comparison]:
        """Return the comparisons of custom nodes; for a node that ran several times, the worst."""
        return list(self._compared.values())

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
        try:
            names = list(named_inputs(spec, node))
            named_outputs(spec, node)
        except Unmatched as problem:
            raise UserError(f"{node_label(node)}: {problem}; correct the node") from problem
        inputs = {name: value for name, value in zip(names, values, strict=False) if value is not None}
        if self._operators != "twin" or self._tolerances:
            violation = check(spec, _call_of(inputs, attrs), with_outputs=False)
            if violation:
                raise UserError(f"{node_label(node)}: {violation.message}; correct the model or its inputs")
        if self._tolerances:
            results = self._all_results(node, spec, inputs, attrs)
        elif self._operators == "twin":
            results = self._kernel(node, spec, inputs, attrs)
        elif self._operators == "function":
            results = self._body(node, spec, inputs, attrs)
        else:
            results = self.source(node, spec, inputs, attrs)
        return tuple(results)[: len(node.output)]

    def source(self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]) -> Results:
        """Return the NumPy reference of an operator for a node of a source model; without one, the ONNX body."""
        expected = numpy_reference(spec, inputs, attrs)
        if expected is not None:
            types = infer(spec, _call_of(inputs, attrs), with_checks=False)
            return [rounded(array, types[name].dtype) for name, array in expected.items()]
        missing = f"no tests/reference/{spec.name}.py in the project"
        case = case_of(spec, _call_of(inputs, attrs))
        if case not in spec.onnx.bodies:
            raise UserError(
                f"{node_label(node)}: {spec.op_type} has no ONNX function body for the case {case} and {missing},"
                " expected one of them to compute the node without its kernel; write it"
            )
        self._note(Comparison("", note=f"computed by the {BODY}: there is {missing}"), node, spec, "source")
        return self._body(node, spec, inputs, attrs)

    def _all_results(
        self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]
    ) -> Results:
        """Compute a node in all ways, compare the results, and return the first of them."""
        found: dict[str, Results] = {}
        if self._operators == "twin":
            self._try(KERNEL, found, node, spec, lambda: self._kernel(node, spec, inputs, attrs))
        else:
            self._note(Comparison("", note="not run on request"), node, spec, KERNEL)
        if case_of(spec, _call_of(inputs, attrs)) in spec.onnx.bodies:
            self._try(BODY, found, node, spec, lambda: self._body(node, spec, inputs, attrs))
        reference = numpy_reference(spec, inputs, attrs)
        types = infer(spec, _call_of(inputs, attrs), with_checks=False)
        dtypes = [type_.dtype for type_ in types.values()]
        floats = [array.dtype for array in inputs.values() if is_float(array.dtype)]
        if reference is not None:
            found[REFERENCE] = list(reference.values())
        if not found:
            reasons = "".join(f"; {entry.message}" for entry in self.comparisons if entry.node == node.name)
            raise UserError(
                f"{node_label(node)}: got no result of {spec.op_type}, expected one of its kernel, its {BODY} or"
                f" tests/reference/{spec.name}.py{reasons}"
            )
        *others, last = found
        if not others:
            files = {BODY: "onnx.bodies", REFERENCE: f"tests/reference/{spec.name}.py"}
            repair = " or ".join(file for way, file in files.items() if way != last)
            note = f"not compared: there is no other result; write {repair}"
            self._note(Comparison("", note=note), node, spec, last)
        for name in others:
            for output, dtype, right, got in zip(types, dtypes, found[last], found[name], strict=False):
                expected, other = widened(right, got, dtype) if last == REFERENCE else (right, got)
                kinds = [*floats, *([got.dtype] if is_float(got.dtype) else [])] if self._tolerances == "model" else []
                narrowest = min(kinds, key=lambda kind: kind.itemsize, default=None)
                tolerance = spec.tests.tolerance.get(got.dtype.name)
                labels = (f"in the {last}", f"in the {name}")
                entry = compare(output, expected, other, narrowest, tolerance, labels)
                self._note(entry, node, spec, f"{name} with {last}")
        first = next(iter(found))
        return [rounded(array, dtype) for array, dtype in zip(found[first], dtypes, strict=False)]

    def _try(
        self, name: str, found: dict[str, Results], node: NodeProto, spec: OpSpec, compute: Callable[[], Results]
    ) -> None:
        """Add a result, or a note why it is missing."""
        from opforge.twin import AclnnError, FindingsError

        try:
            found[name] = compute()
        except Unmatched as unmatched:
            self._note(Comparison("", note=f"not run: {unmatched.reason}"), node, spec, name)
        except (AclnnError, FindingsError) as error:
            self._note(Comparison("", inf, same=False, note=first_line(error, _MOST_LETTERS)), node, spec, name)
        except MODEL_ERRORS as error:
            self._note(Comparison("", inf, same=False, note=f"fails: {failure_text(error)}"), node, spec, name)

    def _note(self, comparison: Comparison, node: NodeProto, spec: OpSpec, compared: str) -> None:
        entry = replace(comparison, node=node.name, op=spec.op_type, compared=compared)
        key = (entry.node, entry.op, entry.output, entry.compared)
        self._compared[key] = max(self._compared.get(key, entry), entry, key=lambda known: known.excess)

    def _kernel(self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]) -> Results:
        if self._mode.is_traced and self._events < MOST_EVENTS:
            result, events = _run_traced(lambda: self._run_twin(node, spec, inputs, attrs))
            self._events += len(events)
        else:
            result, events = self._run_twin(node, spec, inputs, attrs), []
        self.calls.append(TwinCall(node.name, spec.op_type, result.report, events))
        # The evaluator needs an array for each output of the node; an absent one has no reader.
        outputs = {tensor.name: result.get(tensor.name, np.zeros(0)) for tensor in spec.outputs}
        return [array for name, of in outputs.items() for array in named_members(spec, name, of).values()]

    def _run_twin(self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]) -> Result:
        from opforge import twin

        try:
            given = named_outputs(spec, node)
            absent = {t.name: None for t in spec.outputs if t.optional and not t.dynamic and not given.get(t.name)}
            options = self._mode.options | ({"outputs": absent} if absent else {})
            return twin.run(spec.op_type, with_lists(inputs), attrs, soc=self._soc, **options)
        except twin.AclnnError as error:
            if self._tolerances and error.status == _NO_KERNEL:
                raise Unmatched(str(error)) from error
            if self._tolerances and error.status not in _REFUSED:
                raise
            raise UserError(f"{node_label(node)}: {error}") from error
        except UserError as error:
            if self._tolerances and error.exit_code == UserError.exit_code:
                raise Unmatched(str(error)) from error
            raise

    def _body(self, node: NodeProto, spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, AttrValue]) -> Results:
        """Return the results of the ONNX function body of an operator; nodes of a case share the body."""
        key = spec.op_type, case_of(spec, _call_of(inputs, attrs))
        if key not in self._bodies:
            function = function_body(spec, key[1], len(spec.inputs), _BODY_OPSET, {})
            if function is None:
                raise UserError(
                    f"{node_label(node)}: {spec.op_type} has no ONNX function body for the case {key[1]}, expected one"
                    f" to run the node without its kernel; write onnx.bodies.{key[1]} in the spec"
                )
            self._bodies[key] = evaluator(())(function)
        feeds = {tensor.name: inputs.get(tensor.name) for tensor in spec.inputs}
        return list(self._bodies[key].run(None, feeds, attributes=attrs))


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
