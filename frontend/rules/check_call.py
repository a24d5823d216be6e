"""Check a call of a custom operator against its spec, if the model declares the types of its inputs."""

from __future__ import annotations

import numpy as np

from opforge.codegen.expr.evaluate import Environment, evaluate
from opforge.codegen.printing import shown
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import Call, Violation, check, environment_of, infer
from opforge.frontend.ir.reason import Malformed, Reason, Unmatched
from opforge.frontend.ir.scope import Scope

from .context import Context, Judgement
from .rule import OperatorCall, Placement, Replacement
from .value_rules import row_range_problem


def checked(context: Context, entry: Replacement, call: OperatorCall) -> Placement | Reason:
    """Check a call; unknown facts violate no constraint and are checked again at run time."""
    spec, scope = call.spec, entry.scope
    names = dict(zip(call.input_names, call.inputs, strict=True))
    names |= dict(zip(call.output_names, call.outputs, strict=True))
    for parameter, value in names.items():
        if problem := context.types.problem(scope, value):
            return Reason(f"{spec.op_type}: {parameter}: {problem}")
    types = {
        parameter: call.extra_nodes.types.get(value) or context.types.of(scope, value)
        for parameter, value in names.items()
        if value
    }
    shapes = {parameter: type_.shape for parameter, type_ in types.items()}
    dtypes = {parameter: type_.dtype for parameter, type_ in types.items()}
    # An output without readers has no type in the model, but the call needs it.
    shapes |= {name: None for name in call.output_names if name not in shapes}
    lists: dict[str, list[int]] = {}
    for tensor in spec.host_lists:
        if tensor.name not in shapes:
            continue
        try:
            lists[tensor.name] = [int(value) for value in context.constants.value(scope, names[tensor.name]).flat]
        except Unmatched as reason:
            value = f"{shown(names[tensor.name])} {reason}"
            return Reason(
                f"{spec.op_type}: {tensor.name}: CANN reads this list on the host, so it must be constant; {value}"
            )
    inputs = [name for name in call.input_names if name in shapes]
    known = Call({name: shapes[name] for name in inputs}, {name: dtypes[name] for name in inputs}, call.attrs, lists)
    judged = _judged(context, spec, Call(shapes, dtypes, call.attrs, lists), known)
    if isinstance(judged, Violation):
        return Reason(judged.message)
    if problem := _value_problem(context, scope, call, known):
        return problem
    case, output_types = judged
    return Placement(
        **vars(entry),
        call=call,
        case=case,
        input_dtypes={name: word for name in inputs if (word := dtypes[name]) is not None},
        output_types=output_types,
    )


def _judged(context: Context, spec: OpSpec, call: Call, inputs: Call) -> Judgement:
    """Return the violation of a call, or its case and output types; cached, because layers often have equal calls."""
    lists = tuple((name, tuple(values)) for name, values in call.values.items())
    key = (spec.op_type, *(tuple(part.items()) for part in (call.shapes, call.dtypes, call.attrs)), lists)
    if key not in context.judged:
        violation = check(spec, call, with_casts=False)
        context.judged[key] = violation or (case_of(spec, inputs), infer(spec, inputs))
    return context.judged[key]


def case_of(spec: OpSpec, call: Call) -> str:
    """Return the case of the spec for a valid call."""
    counts = {name: call.tensors_in(name) for name in spec.program.lists}
    environment = Environment(attributes=call.attrs, shapes=call.shapes, dtypes=call.dtypes, counts=counts)
    return next(case.name for case in spec.program.cases if evaluate(case.when, environment) is True)


def _value_problem(context: Context, scope: Scope, call: OperatorCall, known: Call) -> Reason | None:
    """Return why the constant values of an input do not satisfy its spec."""
    inputs = dict(zip(call.input_names, call.inputs, strict=True))
    for tensor in call.spec.inputs:
        name, of = inputs.get(tensor.name, ""), tensor.values.ends_of
        if of is None or tensor.name not in known.shapes or tensor.host_values:
            continue
        try:
            values = context.constants.value(scope, name)
        except Malformed as reason:
            return Reason(f"{call.spec.op_type}: {tensor.name}: {shown(name)} {reason}")
        except Unmatched:
            continue
        lengths = evaluate(call.spec.program.values[tensor.name].lengths, environment_of(call.spec, known))
        shape = known.shapes.get(of)
        rows = shape[0] if shape else None
        if problem := row_range_problem(np.ravel(values).tolist(), rows, of, are_lengths=lengths is True):
            return Reason(f"{call.spec.op_type}: {tensor.name}: {problem}")
    return None
