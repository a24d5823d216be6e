"""Evaluate a call of an operator, as the generated C++ (`<op>_check.h`): the first violated constraint, the outputs."""

from __future__ import annotations

from opforge.codegen.expr.evaluate import Environment

from .call import Call, ShapeInferenceError, TensorType, Violation
from .checker import Checker, accepted_dtypes, first_name, kernel_dtypes, output_dtype
from .model import OpSpec

__all__ = ["Call", "ShapeInferenceError", "TensorType", "Violation", "check", "environment_of", "infer"]


def check(spec: OpSpec, call: Call, *, with_outputs: bool = True, with_casts: bool = True) -> Violation | None:
    """Return the first constraint of the spec that the call violates, or None.

    Args:
        spec: The operator.
        call: The arguments. Unknown values violate no constraint.
        with_outputs: Whether the outputs are arguments, as in an aclnn call, or unknown.
        with_casts: Whether tensors are cast to the dtypes of kernels, as an aclnn function does; a node of the graph
            engine must have them already.
    """
    checker = Checker(spec, call, with_outputs=with_outputs, dtypes_of=accepted_dtypes if with_casts else kernel_dtypes)
    return checker.violation()


def infer(spec: OpSpec, call: Call, *, with_checks: bool = True) -> dict[str, TensorType]:
    """Return the type of each output, from inputs and attributes; dtypes are propagated, not checked.

    The tensors of an output list have the keys `y[0]`, `y[1]` and so on.

    Args:
        spec: The operator.
        call: The arguments; outputs are ignored.
        with_checks: Whether every constraint must hold, or only those that shapes need.

    Raises:
        ShapeInferenceError: The call violates a constraint on known values.
    """
    checker = Checker(spec, call, with_outputs=False, dtypes_of=None)
    violation = checker.violation(with_checks=with_checks)
    if violation is not None:
        raise ShapeInferenceError(violation)
    dtypes = {tensor.name: call.dtypes.get(first_name(tensor)) for tensor in spec.inputs}
    return {
        name: TensorType(shape, output_dtype(spec, output, dtypes))
        for output in spec.outputs
        for name, shape in checker.output_shapes(output).items()
    }


def environment_of(spec: OpSpec, call: Call) -> Environment:
    """Return the values of names in expressions that are known from the inputs and attributes of a call."""
    checker = Checker(spec, call, with_outputs=False, dtypes_of=None)
    checker.violation(with_checks=False)
    return checker.environment
