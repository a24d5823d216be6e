"""Holds a call of ours against the rules of its operator, as far as the model says what goes in."""

from __future__ import annotations

import numpy as np

from opforge.codegen.evaluate import Environment, evaluate
from opforge.codegen.model import OpSpec
from opforge.codegen.semantics import Call, check, infer
from opforge.frontend.constants import MalformedConstant, NotConstant
from opforge.frontend.emit import Placement
from opforge.frontend.graph import Scope
from opforge.frontend.names import shown
from opforge.frontend.rules import Context, OperatorCall, Refusal
from opforge.frontend.value_rules import ROW_RANGES


def place(context: Context, scope: Scope, nodes: tuple[int, ...], call: OperatorCall) -> Placement | Refusal:
    """Check a call; what is not known breaks nothing, it is checked again when the operator runs."""
    spec = call.spec
    names = dict(zip((tensor.name for tensor in spec.inputs), call.inputs, strict=True))
    names |= dict(zip((tensor.name for tensor in spec.outputs), call.outputs, strict=True))
    for parameter, value in names.items():
        if problem := context.types.problem(scope, value):
            return Refusal(f"{spec.op_type}: {parameter}: {problem}")
    types = {parameter: context.types.of(scope, value) for parameter, value in names.items() if value}
    shapes = {parameter: type_.shape for parameter, type_ in types.items()}
    dtypes = {parameter: type_.dtype for parameter, type_ in types.items()}
    # An output that nobody reads has no type in the model, but the call has it.
    shapes |= {tensor.name: None for tensor in spec.outputs if tensor.name not in shapes}
    if violation := check(spec, Call(shapes, dtypes, call.attrs), with_casts=False):
        return Refusal(violation.message)
    inputs = [tensor.name for tensor in spec.inputs if tensor.name in shapes]
    known = Call({name: shapes[name] for name in inputs}, {name: dtypes[name] for name in inputs}, call.attrs)
    if problem := _value_problem(context, scope, call, known):
        return Refusal(problem)
    return Placement(
        scope=scope,
        nodes=nodes,
        call=call,
        case=case_of(spec, known),
        input_dtypes={name: word for name in inputs if (word := dtypes[name]) is not None},
        output_types=infer(spec, known),
    )


def case_of(spec: OpSpec, call: Call) -> str:
    """The case of the spec into which a legal call falls."""
    environment = Environment(attributes=call.attrs, shapes=call.shapes, dtypes=call.dtypes)
    return next(case.name for case in spec.program.cases if evaluate(case.when, environment) is True)


def _value_problem(context: Context, scope: Scope, call: OperatorCall, known: Call) -> str:
    rule = ROW_RANGES.get(call.spec.op_type)
    if rule is None or rule[0] not in known.shapes:
        return ""
    parameter, ranges = rule
    position = [tensor.name for tensor in call.spec.inputs].index(parameter)
    try:
        values = context.constants.value(scope, call.inputs[position])
    except MalformedConstant as reason:
        return f"{call.spec.op_type}: {parameter}: {shown(call.inputs[position])} {reason}"
    except NotConstant:
        return ""
    shape = known.shapes[ranges.rows_of]
    problem = ranges.problem(np.ravel(values).tolist(), shape[0] if shape else None, call.attrs)
    return f"{call.spec.op_type}: {parameter}: {problem}" if problem else ""
