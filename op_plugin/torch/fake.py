"""Make fake kernels, which compute only shapes and dtypes, from the shape rules of specs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opforge.codegen.spec.model import OpSpec

from .schema import Argument, bind, forward_of
from .symbolic import SymbolicCall, UnknownValueError


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype in specs."""
    return str(dtype).removeprefix("torch.")


def symbolic_call(spec: OpSpec, arguments: Sequence[Argument], values: dict[str, Any]) -> SymbolicCall:
    """Return the names of expressions for a call.

    Raises:
        RuntimeError: The tensors are on several devices.
    """
    devices: dict[torch.device, str] = {}
    shapes: dict[str, Sequence[Any]] = {}
    dtypes: dict[str, str] = {}
    lists: dict[str, Sequence[Any]] = {}
    attributes: dict[str, Any] = {}
    for argument in arguments:
        value = values[argument.name]
        if argument.is_attribute:
            attributes[argument.parameter] = value
        elif value is None:
            continue
        elif argument.is_tensor:
            devices.setdefault(value.device, argument.name)
            shapes.setdefault(argument.parameter, tuple(value.shape))
            dtypes.setdefault(argument.parameter, dtype_name(value.dtype))
        else:
            shapes[argument.parameter] = (len(value),)
            lists[argument.parameter] = value
    if len(devices) > 1:
        (wanted, _), (got, name), *_ = devices.items()
        raise RuntimeError(
            f"{spec.op_type}: {name}: got a tensor on {got}, expected {wanted}, the device of the first tensor; move it"
            " with .to()"
        )
    return SymbolicCall(spec, shapes, dtypes, attributes, lists)


def operator_fake(spec: OpSpec, arguments: Sequence[Argument]) -> Callable[..., Any]:
    """Return the fake kernel of an operator."""
    leaders = [next((a.name for a in arguments if a.parameter == output.dtype), "") for output in spec.outputs]

    def fake(*given: Any, **named: Any) -> Any:
        values = bind(arguments, given, named)
        call = symbolic_call(spec, arguments, values)
        case = call.case()
        call.require(case)
        first = next(values[argument.name] for argument in arguments if argument.is_tensor)
        results = []
        for output, leader in zip(spec.outputs, leaders, strict=True):
            dtype = values[leader].dtype if leader else getattr(torch, output.dtypes[0])
            results.append(first.new_empty(call.shape(case.shapes[output.name]), dtype=dtype))
        return results[0] if len(results) == 1 else tuple(results)

    return fake


def forward_fake(spec: OpSpec, arguments: Sequence[Argument]) -> Callable[..., Any]:
    """Return the fake kernel of the forward operator."""
    forward = forward_of(spec)

    def fake(*given: Any, **named: Any) -> Any:
        values = bind(arguments, given, named)
        call = symbolic_call(spec, arguments, values)
        case = call.case()
        call.require(case)
        dims = spec.program.forward or case.shapes[forward.result]
        try:
            shape = call.shape(dims)
        except UnknownValueError as error:
            raise RuntimeError(f"{forward.name}: got no value of {error}, expected it from the arguments") from error
        first = next(values[argument.name] for argument in arguments if argument.is_tensor)
        return first.new_empty(shape)

    return fake
