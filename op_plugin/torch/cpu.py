"""Compute operators for CPU tensors: on the CPU twin, or by the ONNX bodies of the specs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from onnx import FunctionProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.codegen.project import Project
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import Call, check, infer
from opforge.frontend.emit.functions import function_body
from opforge.frontend.rules.check_call import case_of
from opforge.frontend.run.evaluator import evaluator
from opforge.twin.runtime.results import AclnnError

from .schema import Argument, bind

MODE = "OPFORGE_TORCH_CPU"
_MODES = ("twin", "strict", "reference")
_FLOAT, _DOUBLE = 1, 11
_OPSET = 18
Array = NDArray[Any]


def cpu_kernel(spec: OpSpec, arguments: Sequence[Argument], project: Project) -> Callable[..., Any]:
    """Return the kernel of an operator for CPU tensors."""

    def kernel(*given: Any, **named: Any) -> Any:
        values = bind(arguments, given, named)
        attrs = {a.parameter: values[a.name] for a in arguments if a.is_attribute}
        inputs = {
            a.parameter: to_numpy(values[a.name], a.name) if a.is_tensor else np.array(values[a.name], np.int64)
            for a in arguments
            if not a.is_attribute and values[a.name] is not None
        }
        mode = cpu_mode()
        # The aclnn functions have no float64; gradcheck needs it.
        is_double = any(array.dtype == np.float64 for array in inputs.values())
        results: Mapping[str, Array]
        if is_double or mode == "reference":
            results = reference(spec, inputs, attrs, is_double=is_double)
        else:
            results = _on_twin(spec, inputs, attrs, project, is_strict=mode == "strict")
        made = [to_torch(results[output.name]) for output in spec.outputs]
        return made[0] if len(made) == 1 else tuple(made)

    return kernel


def cpu_mode() -> str:
    """Return how operators are computed: "twin", "strict" or "reference".

    Raises:
        UserError: The variable has another value.
    """
    mode = os.environ.get(MODE) or "twin"
    if mode not in _MODES:
        raise UserError(f"{MODE}: got {shown(mode)}, expected {', '.join(_MODES[:-1])} or {_MODES[-1]}; correct it")
    # The twin and a real CANN have libraries of the same names, which one process cannot load twice.
    return "reference" if "torch_npu" in sys.modules else mode


def to_numpy(tensor: torch.Tensor, name: str = "tensor") -> Array:
    """Return a tensor as an array of the same memory and strides.

    Args:
        tensor: The tensor.
        name: Its name in messages.

    Raises:
        RuntimeError: NumPy does not have the dtype.
    """
    plain: Any = tensor.detach().resolve_conj().resolve_neg()
    is_bfloat16 = plain.dtype == torch.bfloat16
    try:
        array: Array = plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if is_bfloat16 else plain.numpy()
    except TypeError as error:
        raise RuntimeError(f"{name}: got {plain.dtype}, expected a dtype of NumPy or bfloat16; cast it") from error
    return array


def to_torch(array: Array) -> torch.Tensor:
    """Return an array as a tensor of the same memory."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _on_twin(
    spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, Any], project: Project, *, is_strict: bool
) -> Mapping[str, Array]:
    from opforge.twin import run

    # One order of the blocks: equal calls give equal bits.
    options: dict[str, Any] = {} if is_strict else {"strict": False, "seed": 1}
    return run(spec.op_type, inputs, attrs, project=project, **options)


def reference(
    spec: OpSpec, inputs: dict[str, Array], attrs: dict[str, Any], *, is_double: bool = False
) -> dict[str, Array]:
    """Compute an operator by the ONNX body of its spec.

    Args:
        spec: The operator.
        inputs: Arrays by name.
        attrs: Attributes by name.
        is_double: Whether the body computes in float64 instead of float32.

    Raises:
        AclnnError: The call violates a constraint.
        UserError: The spec has no body for the call.
    """
    dtypes = {name: array.dtype.name for name, array in inputs.items()}
    accepted = {name: _narrowed(spec, name, dtype) if is_double else dtype for name, dtype in dtypes.items()}
    call = Call({name: array.shape for name, array in inputs.items()}, accepted, attrs, _lists(spec, inputs))
    if violation := check(spec, call, with_outputs=False):
        function = spec.aclnn[0].function if spec.aclnn else spec.op_type
        raise AclnnError(function, violation.status, violation.message)
    case = case_of(spec, call)
    if case not in spec.onnx.bodies:
        raise UserError(
            f"{spec.op_type}: has no ONNX body for the case {case}, expected one to compute the operator without the"
            f" twin; write onnx.bodies.{case} in the spec"
        )
    # Evaluators of onnx have no bfloat16 arithmetic in all operators; bodies compute in float32 anyway.
    feeds = {tensor.name: inputs.get(tensor.name) for tensor in spec.inputs}
    results = _body(spec, case, is_double).run(None, feeds, attributes=attrs)
    types = infer(spec, Call(call.shapes, dtypes, attrs), with_checks=False)
    return {
        output.name: np.asarray(array).astype(types[output.name].dtype or array.dtype)
        for output, array in zip(spec.outputs, results, strict=True)
    }


def _narrowed(spec: OpSpec, name: str, dtype: str) -> str:
    """Return the dtype of the constraints for one of gradcheck."""
    if dtype != "float64":
        return dtype
    leader = spec.tensor(spec.tensor(name).dtype or name)
    return "float32" if "float32" in leader.dtypes else leader.dtypes[0]


def _lists(spec: OpSpec, inputs: Mapping[str, Array]) -> dict[str, list[int]]:
    return {t.name: [int(value) for value in inputs[t.name]] for t in spec.host_lists if t.name in inputs}


# By identity of the spec, case and whether it is float64; specs exist as long as the registered operators.
_bodies: dict[tuple[int, str, bool], ReferenceEvaluator] = {}


def _body(spec: OpSpec, case: str, is_double: bool) -> ReferenceEvaluator:
    key = id(spec), case, is_double
    if key not in _bodies:
        function = function_body(spec, case, len(spec.inputs), _OPSET, {})
        if function is None:
            raise UserError(
                f"{spec.op_type}: the function body of the case {case} is not possible in opset {_OPSET};"
                f" write onnx.bodies.{case} for it"
            )
        if is_double:
            _widen(function)
        _bodies[key] = evaluator(())(function)
    return _bodies[key]


def _widen(function: FunctionProto) -> None:
    """Replace float32 by float64 in a body."""
    for node in function.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == _FLOAT:
                attribute.i = _DOUBLE
            elif attribute.HasField("t") and attribute.t.data_type == _FLOAT:
                wide = numpy_helper.to_array(attribute.t).astype(np.float64)
                attribute.t.CopyFrom(numpy_helper.from_array(wide, attribute.t.name))
