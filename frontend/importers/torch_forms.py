"""Map functions of PyTorch and their arguments to calls of custom operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import TorchTarget
from opforge.frontend.ir.attributes import AttrValue
from opforge.frontend.ir.reason import Unmatched


@dataclass(frozen=True)
class TorchForm:
    """One schema of a function of PyTorch.

    Attributes:
        namespace: "aten", "npu".
        name: Name of the function, without overload.
        operator: op type of our operator.
        args: Parameter of the custom operator by argument of the schema, in order; "" for an argument only checked.
        attrs: Attributes of the custom operator that the schema has no argument for.
        demands: Values that arguments must have, because the custom operator supports no others.
        ones: Parameters of the custom operator that the schema has no argument for and that are [1.0] then.
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
        """Return the schema that a spec describes."""
        namespace, name, _overload = target.target.split(".")
        return cls(namespace, name, spec.op_type, target.args, target.attrs, demands or {}, tuple(ones))

    @property
    def label(self) -> str:
        """Return namespace and name, joined as in PyTorch's schemas."""
        return f"{self.namespace}::{self.name}"

    def least_args(self, spec: OpSpec) -> int:
        """How many arguments a call has at least: all up to the last one that may not be left out."""
        optional = {tensor.name for tensor in spec.inputs if tensor.optional}
        return max(n for n, parameter in enumerate(self.args.values(), start=1) if parameter not in optional)


def torch_forms(specs: Iterable[OpSpec]) -> dict[tuple[str, str], list[TorchForm]]:
    """Return forms by namespace and name; those of one name differ in their arguments."""
    found: dict[tuple[str, str], list[TorchForm]] = {}
    for spec in specs:
        forms = [TorchForm.of(spec, target) for target in spec.torch.targets]
        forms += [TorchForm.of(spec, target, target.fixed, target.ones) for target in spec.torch.variants]
        for form in forms:
            found.setdefault((form.namespace, form.name), []).append(form)
    return found


def chosen_form(forms: Sequence[TorchForm], spec: OpSpec, count: int) -> TorchForm | None:
    """Return the form that a call with that many positional arguments has."""
    return next((form for form in forms if form.least_args(spec) <= count <= len(form.args)), None)


def scalar(value: object, attr_type: str) -> AttrValue:
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
    raise Unmatched(f"got {value!r}, expected {attr_type}")
