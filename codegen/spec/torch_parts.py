"""Define the keys of the section `torch` of a spec, as data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from opforge.codegen.expr.attr_kinds import AttrValue

from .field_types import AttrDefault, Int64, Line, Name, SpecModel


class TorchTarget(SpecModel):
    """A function of PyTorch that is this operator.

    Attributes:
        target: Namespace, name and overload, as in `aten.gelu_backward.default`.
        args: Its arguments in the order of its schema, and the parameter of the operator that each of them is.
        attrs: Attributes that it has no argument for.
    """

    target: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){2}$", max_length=80)]
    args: dict[Name, str]
    attrs: dict[str, AttrDefault] = {}


class TorchVariant(TorchTarget):
    """A function of PyTorch that is this operator with other arguments; graphs and models with it are mapped.

    Attributes:
        fixed: The one supported value of each argument that is no parameter, whose name in `args` is empty.
        ones: Inputs that it has no argument for and that are [1.0].
    """

    fixed: dict[Name, bool | Int64 | float | Line] = {}
    ones: tuple[Name, ...] = ()


class TorchInput(SpecModel):
    """A tensor of the forward operator.

    Attributes:
        like: The parameter of the operator that has its shape, and whether it is optional.
        gradient: The tensor that is its gradient: an output, an input, or a derived one. Empty: it has none.
    """

    name: Name
    like: str
    gradient: str = ""


class TorchForward(SpecModel):
    """The operation whose gradient the operator computes.

    Attributes:
        name: Its name in PyTorch.
        inputs: Its tensors in order.
        attrs: Attributes of the operator that it has too.
        result: The input of the operator that is the gradient of its result.
        shape: The shape of its result; default: that of `result`.
        derived: Tensors that its Python file computes for the operator, or as gradients.
    """

    name: Name
    inputs: Annotated[tuple[TorchInput, ...], Field(min_length=1)]
    attrs: tuple[str, ...] = ()
    result: str
    shape: tuple[Int64 | Line, ...] = ()
    derived: tuple[Name, ...] = ()


class TorchSpec(SpecModel):
    """The functions of PyTorch that are the operator.

    Attributes:
        names: Names of inputs in PyTorch that differ from those of the operator.
    """

    targets: tuple[TorchTarget, ...] = ()
    variants: tuple[TorchVariant, ...] = ()
    names: dict[str, Name] = {}
    forward: TorchForward | None = None

    @property
    def implied(self) -> dict[str, AttrValue]:
        """Attributes that the functions do not have, with their values; a node of a graph may omit them too."""
        return {name: value for target in self.targets for name, value in target.attrs.items()}
