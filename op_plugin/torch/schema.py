"""Derive the PyTorch schemas of operators and of their forward operators from specs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import AttrSpec, TensorSpec
from opforge.codegen.spec.section_parts import TorchForward

NAMESPACE = "opforge"


@dataclass(frozen=True)
class Argument:
    """One argument of an operator in PyTorch.

    Attributes:
        name: Its name in PyTorch.
        parameter: The parameter of the spec with its shape; of an attribute, the attribute.
        type: Its type in the schema.
        is_optional: Whether it may be None.
        has_default: Whether a call may omit it.
        default: The value of an omitted argument.
        gradient: The tensor that is its gradient; "" if it has none.
    """

    name: str
    parameter: str
    type: str
    is_optional: bool = False
    has_default: bool = False
    default: Any = None
    gradient: str = ""

    @property
    def is_tensor(self) -> bool:
        """Return whether it is a tensor; lists on the host are not."""
        return self.type.startswith("Tensor")

    @property
    def is_attribute(self) -> bool:
        """Return whether it is an attribute."""
        return not self.is_tensor and not self.type.startswith("SymInt[]")

    @property
    def text(self) -> str:
        """The argument in the text of a schema."""
        if not self.has_default:
            return f"{self.type} {self.name}"
        default = f'"{self.default}"' if isinstance(self.default, str) else self.default
        default = list(default) if isinstance(default, tuple) else default
        return f"{self.type} {self.name}={default}"


def operator_arguments(spec: OpSpec) -> tuple[Argument, ...]:
    """Return the arguments of an operator: inputs in the order of the spec, then attributes."""
    inputs = [_tensor(spec.torch.names.get(t.name, t.name), t.name, t) for t in spec.inputs]
    return _with_defaults([*inputs, *(_attribute(spec, attr) for attr in spec.attrs)])


def forward_of(spec: OpSpec) -> TorchForward:
    """Return the forward operator of a spec that has one."""
    if spec.torch.forward is None:
        raise ValueError(f"{spec.op_type} has no forward operator")
    return spec.torch.forward


def forward_arguments(spec: OpSpec) -> tuple[Argument, ...]:
    """Return the arguments of the forward operator."""
    forward = forward_of(spec)
    inputs = [
        replace(_tensor(given.name, given.like, spec.tensor(given.like)), gradient=given.gradient)
        for given in forward.inputs
    ]
    return _with_defaults([*inputs, *(_attribute(spec, spec.attr(name)) for name in forward.attrs)])


def schema_text(name: str, arguments: Iterable[Argument], results: int) -> str:
    """Return the schema of an operator."""
    returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    return f"{name}({', '.join(argument.text for argument in arguments)}) -> {returned}"


def bind(arguments: Sequence[Argument], given: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments by name; PyTorch omits trailing arguments that are equal to their defaults."""
    values = {argument.name: argument.default for argument in arguments}
    return values | dict(zip(values, given, strict=False)) | named


def _tensor(name: str, parameter: str, tensor: TensorSpec) -> Argument:
    kind = "SymInt[]" if tensor.host_values else "Tensor"
    return Argument(name, parameter, f"{kind}{'?' if tensor.optional else ''}", is_optional=tensor.optional)


def _attribute(spec: OpSpec, attr: AttrSpec) -> Argument:
    default = attr.default if attr.default is not None else spec.torch.implied.get(attr.name)
    kind = "SymInt" if _is_size(spec, attr.name) else attr.kind.torch
    return Argument(attr.name, attr.name, kind, has_default=default is not None, default=default)


def _is_size(spec: OpSpec, name: str) -> bool:
    """Return whether an attribute is a dimension of outputs only, so that it may be a symbolic size."""
    inputs = {tensor.name for tensor in spec.inputs}
    having = {tensor for case in spec.cases for tensor, dims in case.shapes.items() if name in dims}
    return bool(having) and not having & inputs


def _with_defaults(arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    """Give defaults to trailing arguments that have one; all arguments after a default need one."""
    found: list[Argument] = []
    is_trailing = True
    for argument in reversed(arguments):
        is_trailing = is_trailing and (argument.is_optional or argument.has_default)
        found.append(replace(argument, has_default=is_trailing))
    return tuple(reversed(found))
