"""Define the keys of the sections `torch`, `tests` and `document` of a spec, as data."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.expr.program import MOST_TENSORS

from .field_types import (
    AnyValue,
    AttrDefault,
    Dtype,
    FormatName,
    Int64,
    Line,
    Name,
    Product,
    SpecModel,
    Status,
    Support,
    Text,
    form,
)


class TorchTarget(SpecModel):
    """A function of PyTorch that computes this operator.

    Attributes:
        target: Namespace, name and overload, as in `aten.gelu_backward.default`.
        args: Its arguments in the order of its schema, each with the parameter of the operator.
        attrs: Attributes without an argument.
    """

    target: Annotated[
        str,
        form(
            r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){2}$",
            "namespace, name and overload, as in 'aten.gelu_backward.default'",
            80,
        ),
    ]
    args: dict[Name, str]
    attrs: dict[str, AttrDefault] = {}


class TorchVariant(TorchTarget):
    """A function of PyTorch that computes this operator with other arguments. `convert` and `from_fx` map it.

    Attributes:
        fixed: The only supported value of each argument without a parameter in `args`.
        ones: Inputs without an argument, with the value [1.0].
    """

    fixed: dict[Name, bool | Int64 | float | Line] = {}
    ones: tuple[Name, ...] = ()


class TorchInput(SpecModel):
    """A tensor of the forward operator.

    Attributes:
        like: The parameter of the operator that has the same shape. Both are optional, or both are required.
        gradient: The tensor with its gradient: an output, an input, or a derived tensor. Empty: no gradient.
    """

    name: Name
    like: str
    gradient: str = ""


class TorchForward(SpecModel):
    """The operation whose gradient the operator computes.

    Attributes:
        name: Its name in PyTorch.
        inputs: Its tensors in order.
        attrs: Attributes of the operator that the operation also has.
        result: The input of the operator that is the gradient of the result.
        shape: The shape of the result; default: the shape of the input in `result`.
        derived: Tensors that the Python file of the operation computes: inputs of the operator, or gradients.
    """

    name: Name
    inputs: Annotated[tuple[TorchInput, ...], Field(min_length=1)]
    attrs: tuple[str, ...] = ()
    result: str
    shape: tuple[Int64 | Line, ...] = ()
    derived: tuple[Name, ...] = ()


class TorchSpec(SpecModel):
    """The functions of PyTorch that compute the operator.

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


# The elements of a tensor, or one number for all of them.
Elements: TypeAlias = Int64 | float | tuple[Int64 | float, ...]


class Tolerance(SpecModel):
    """An element is correct if |got - expected| <= atol + rtol * |expected|."""

    rtol: Annotated[float, Field(ge=0)]
    atol: Annotated[float, Field(ge=0)]


_Size = Annotated[int, Field(ge=0, lt=1 << 63)]


class TestShape(SpecModel):
    """One test: values for the symbols of a case, attributes, and values of the lists on the host.

    Attributes:
        symbols: The size of each symbol; for a symbol with a star, its dimensions. A symbol of a list of tensors has
            one value for each tensor.
        counts: The number of tensors in each input list whose shapes have no symbols of their own.
    """

    __test__ = False

    case: str
    symbols: dict[str, _Size | tuple[_Size | tuple[_Size, ...], ...]]
    counts: dict[str, Annotated[int, Field(ge=1, le=MOST_TENSORS)]] = {}
    attrs: dict[str, AnyValue] = {}
    values: dict[str, tuple[Int64, ...]] = {}
    note: Text = ""


class TestsSpec(SpecModel):
    """The tolerances and the calls of the tests."""

    __test__ = False

    tolerance: dict[Dtype, Tolerance] = {}
    shapes: tuple[TestShape, ...] = ()


class CallSpec(SpecModel):
    """A call: the first test of its case, with the following changes.

    Attributes:
        case: The case; default: that of the first test.
        values: The elements of tensors, or one number for all of them. A list on the host has its values.
        shapes: Shapes that differ from those of the case.
        dtypes: Dtypes of tensors; default: the first dtype of the input.
        absent: Arguments that are null pointers.
        function: The function; default: the first one with a parameter for every attribute.
        product: The product; default: that of the default SoC.
        status: The status of the call.
        gives: The elements of outputs, as for `values`; the call runs only if they are given.
    """

    case: str | None = None
    symbols: dict[str, Annotated[int, Field(ge=0)] | tuple[Annotated[int, Field(ge=0)], ...]] = {}
    attrs: dict[str, AnyValue] = {}
    values: dict[str, Elements] = {}
    shapes: dict[str, tuple[Annotated[int, Field(ge=0)], ...]] = {}
    dtypes: dict[str, Dtype] = {}
    formats: dict[str, FormatName] = {}
    absent: tuple[str, ...] = ()
    function: str | None = None
    product: Product | None = None
    status: Status = 0
    gives: dict[str, Elements] = {}


class StatementSpec(SpecModel):
    """A statement of the CANN document, and whether the operator satisfies it.

    Attributes:
        subject: The parameter or the topic of the statement.
        says: The statement.
        support: Whether the operator implements it, accepts more, accepts less or differs; the key is `as`.
        reason: The reason for the difference.
        at: Valid calls that show the statement.
        past: Calls that contradict the statement and must fail.
    """

    subject: Line
    says: Line
    support: Support = Field(alias="as")
    reason: Text = ""
    at: tuple[CallSpec, ...] = ()
    past: tuple[CallSpec, ...] = ()
