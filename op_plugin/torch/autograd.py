"""Connect operators with their forward operators, so that autograd calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opforge.codegen.spec.model import OpSpec

from .fake import symbolic_call
from .forward import HandWritten
from .schema import NAMESPACE, Argument, bind, forward_of, operator_arguments


def refuse_second_derivative(name: str) -> Callable[..., Any]:
    """Return a backward formula that raises an error."""

    def backward(ctx: Any, *grads: Any) -> Any:
        del ctx, grads
        raise RuntimeError(
            f"{NAMESPACE}::{name}: got a second derivative, expected first derivatives only; this operator is itself a"
            " gradient and has no backward formula"
        )

    return backward


class Formula:
    """The backward formula of a forward operator: one call of its gradient operator.

    Args:
        spec: The gradient operator.
        arguments: The arguments of the forward operator.
        written: Its hand-written functions.
    """

    def __init__(self, spec: OpSpec, arguments: Sequence[Argument], written: HandWritten) -> None:
        self._spec = spec
        self._forward = forward_of(spec)
        self._arguments = arguments
        self._written = written
        self._tensors = [argument for argument in arguments if argument.is_tensor]

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep the tensors, lists, attributes and sizes that the gradient operator needs."""
        del output
        values = bind(self._arguments, inputs, {})
        kept = [argument for argument in self._tensors if self._is_needed(argument)]
        ctx.given = tuple(argument.name for argument in kept if values[argument.name] is not None)
        ctx.save_for_backward(*(values[name] for name in ctx.given))
        ctx.plain = {a.parameter: values[a.name] for a in self._arguments if not a.is_tensor}
        call = symbolic_call(self._spec, self._arguments, values)
        call.case()
        ctx.sizes = {attr.name: call.attributes[attr.name] for attr in self._spec.attrs if attr.name in call.attributes}

    def _is_needed(self, argument: Argument) -> bool:
        inputs = {tensor.name for tensor in self._spec.inputs}
        return argument.parameter in inputs and argument.parameter != self._forward.result

    def backward(self, ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        """Return a gradient for each argument."""
        saved = dict(zip(ctx.given, ctx.saved_tensors, strict=True))
        values: dict[str, Any] = {self._forward.result: grad}
        for argument in self._tensors:
            if argument.name in saved:
                values.setdefault(argument.parameter, saved[argument.name])
        derived = self._written.derive(grad, saved) if self._forward.derived else {}
        values |= derived
        # PyTorch omits trailing arguments that are equal to their defaults; the rest has no gradient.
        asked = list(zip(self._arguments, ctx.needs_input_grad, strict=False))
        gradients = [argument.gradient if asks else "" for argument, asks in asked]
        outputs = [output.name for output in self._spec.outputs]
        if {*gradients} & {*outputs}:
            values |= dict(zip(outputs, self._call(values, ctx.plain | ctx.sizes), strict=True))
        return tuple(values.get(name) if name else None for name in gradients)

    def _call(self, values: Mapping[str, Any], plain: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        arguments = operator_arguments(self._spec)
        given = [
            values.get(a.parameter) if a.is_tensor else plain.get(a.parameter, a.default if a.has_default else None)
            for a in arguments
        ]
        results = getattr(getattr(torch.ops, NAMESPACE), self._spec.name).default(*given)
        return (results,) if isinstance(results, torch.Tensor) else results
