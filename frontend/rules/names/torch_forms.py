"""Map functions of PyTorch and their arguments to calls of custom operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from opforge.codegen.expr.attr_kinds import ATTR_KINDS, AttrValue
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.section_parts import TorchTarget
from opforge.frontend.ir.reason import Unmatched

# An argument: an array, a value name, or a graph node.
Argument = TypeVar("Argument")


@dataclass(frozen=True)
class TorchForm:
    """One schema of a function of PyTorch.

    Attributes:
        namespace: "aten", "npu".
        name: Name of the function, without overload.
        operator: op type of the custom operator.
        args: Parameter of the custom operator by argument of the schema, in order; "" for an argument only checked.
        attrs: Attributes of the custom operator without an argument in the schema.
        demands: Required values of arguments, because the custom operator supports no others.
        ones: Parameters of the custom operator without an argument in the schema, whose value is [1.0].
    """

    namespace: str
    name: str
    operator: str
    args: Mapping[str, str]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    demands: Mapping[str, AttrValue] = field(default_factory=dict)
    ones: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, spec: OpSpec, target: TorchTarget, demands: Mapping[str, AttrValue] | None = None, ones: Sequence[str] = ()
    ) -> TorchForm:
        """Return the schema of a spec."""
        namespace, name, _overload = target.target.split(".")
        return cls(namespace, name, spec.op_type, target.args, target.attrs, demands or {}, tuple(ones))

    @property
    def label(self) -> str:
        """Return namespace and name, joined as in PyTorch's schemas."""
        return f"{self.namespace}::{self.name}"

    def bind(
        self, spec: OpSpec, args: Sequence[Argument], kwargs: Mapping[str, Argument] = MappingProxyType({})
    ) -> BoundCall[Argument] | None:
        """Return a call with these arguments; None if they do not fit the schema.

        Args:
            spec: The custom operator.
            args: Positional arguments.
            kwargs: Arguments by name.
        """
        names = list(self.args)
        given = dict(zip(names, args, strict=False)) | dict(kwargs)
        is_repeated = len(given) < len(args) + len(kwargs)
        if is_repeated or len(args) > len(names) or not set(given) <= set(names):
            return None
        optional = {tensor.name for tensor in spec.inputs if tensor.optional}
        # All arguments up to the last required one.
        least = max(n for n, parameter in enumerate(self.args.values(), start=1) if parameter not in optional)
        if not all(name in given for name in names[:least]):
            return None
        return BoundCall(self, spec, {name: given.get(name) for name in names})


@dataclass(frozen=True)
class BoundCall(Generic[Argument]):
    """A call of a function of PyTorch.

    Attributes:
        form: Its schema.
        spec: The custom operator.
        args: Its arguments in the order of the schema; None for an absent one.
    """

    form: TorchForm
    spec: OpSpec
    args: Mapping[str, Argument | None]

    def parameters(
        self, number: Callable[[str, Argument | None], object]
    ) -> tuple[dict[str, Argument], dict[str, AttrValue]]:
        """Return the given inputs and attributes of the custom operator by name.

        Args:
            number: Returns the value of a scalar argument, from its name and the argument.

        Raises:
            Unmatched: A scalar has another type or value than the operator supports.
        """
        types = {attr.name: attr.type for attr in self.spec.attrs}
        inputs: dict[str, Argument] = {}
        attrs = dict(self.form.attrs)
        for name, parameter in self.form.args.items():
            argument = self.args[name]
            if name in self.form.demands or parameter in types:
                value = _scalar(name, number(name, argument), types.get(parameter, "bool"))
                if value != (demanded := self.form.demands.get(name, value)):
                    raise Unmatched(f"{name} is {value}, expected {demanded}")
                attrs |= {parameter: value} if parameter else {}
            elif argument is not None and parameter:
                inputs[parameter] = argument
        return inputs, attrs


def torch_forms(specs: Iterable[OpSpec]) -> dict[tuple[str, str], list[TorchForm]]:
    """Return forms by namespace and name; forms of one name differ in their arguments."""
    found: dict[tuple[str, str], list[TorchForm]] = {}
    for spec in specs:
        forms = [TorchForm.of(spec, target) for target in spec.torch.targets]
        forms += [TorchForm.of(spec, target, target.fixed, target.ones) for target in spec.torch.variants]
        for form in forms:
            found.setdefault((form.namespace, form.name), []).append(form)
    return found


def bound_call(
    forms: Iterable[TorchForm],
    spec: OpSpec,
    args: Sequence[Argument],
    kwargs: Mapping[str, Argument] = MappingProxyType({}),
) -> BoundCall[Argument] | None:
    """Return a call by the first matching form; None if no form matches."""
    calls = (form.bind(spec, args, kwargs) for form in forms)
    return next((call for call in calls if call is not None), None)


def _scalar(name: str, value: object, attr_type: str) -> AttrValue:
    """Return a Python scalar as an attribute of a custom operator.

    Raises:
        Unmatched: It is of another kind; "got .., expected ..".
    """
    if attr_type == "bool" and isinstance(value, int) and value in (0, 1):
        return bool(value)
    if attr_type == "int" and isinstance(value, int) and not isinstance(value, bool):
        return value
    if attr_type == "string" and isinstance(value, str):
        return value
    if attr_type == "float" and isinstance(value, float):
        return value
    if isinstance(value, list | tuple) and ATTR_KINDS[attr_type].is_list and ATTR_KINDS[attr_type].accepts(value):
        return tuple(value)
    raise Unmatched(f"{name}: got {value!r}, expected {attr_type}")
