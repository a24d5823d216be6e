"""Define the specification of one operator with its derived properties. Every generated file is a view of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import snake_case
from opforge.codegen.data.products import BUILT_PRODUCTS, PRODUCTS
from opforge.codegen.expr.formula import Names
from opforge.codegen.expr.program import Program

from .compile import compile_spec
from .parts import CaseSpec, ConstraintSpec, SpecData, TensorSpec
from .yaml_nodes import Path


class OpSpec(SpecData):
    """One operator."""

    _source_type: str = PrivateAttr("")

    @property
    def name(self) -> str:
        """Return the op type in snake case: stem of files, name of the kernel function."""
        return snake_case(self.op_type)

    @property
    def source_type(self) -> str:
        """Return the op type of plan and kernel: that of the spec, also for a renamed operator."""
        return self._source_type or self.op_type

    @property
    def source_name(self) -> str:
        """The stem of the files of plan and kernel."""
        return snake_case(self.source_type)

    def with_suffix(self, suffix: str) -> OpSpec:
        """Return the operator with another type and other function names, usable together with the original."""
        aclnn = tuple(f.model_copy(update={"function": f.function + suffix}) for f in self.aclnn)
        renamed = self.model_copy(update={"op_type": self.op_type + suffix, "aclnn": aclnn})
        renamed._source_type = self.source_type  # noqa: SLF001  # of the same class
        return renamed

    def with_constants(self, values: Mapping[str, int]) -> OpSpec:
        """Return the operator with other values of constants of its plan."""
        constants = tuple(
            one.model_copy(update={"value": values.get(one.name, one.value)}) for one in self.tiling.constants
        )
        return self.model_copy(update={"tiling": self.tiling.model_copy(update={"constants": constants})})

    @cached_property
    def compilation(self) -> tuple[Program, list[tuple[Path, str]]]:
        """The program, and the problems of its expressions; copies of the spec share it."""
        return compile_spec(self)

    @property
    def program(self) -> Program:
        """Cases and constraints with their expressions parsed."""
        return self.compilation[0]

    @property
    def declared_combinations(self) -> tuple[dict[str, str], ...]:
        """The listed dtype combinations."""
        rows = zip(*self.combinations.values(), strict=False)
        return tuple(dict(zip(self.combinations, row, strict=True)) for row in rows)

    @property
    def supported_combinations(self) -> tuple[dict[str, str], ...]:
        """The listed dtype combinations whose dtypes opforge has."""
        return tuple(row for row in self.declared_combinations if all(dtype in DTYPES for dtype in row.values()))

    @property
    def own_plan(self) -> str | None:
        """Return the plan below the project folder; None with a shared one."""
        return None if self.tiling.shared_plan else f"op_host/{self.tiling.plan or f'{self.source_name}_tiling.h'}"

    @property
    def kernel(self) -> str:
        """The kernel below the project folder."""
        return f"op_kernel/{self.source_name}.h"

    @property
    def own_files(self) -> tuple[str, ...]:
        """Return the hand-written sources below the project folder."""
        structure = self.tiling.structure
        header = f"op_kernel/{structure.header}" if structure else None
        return tuple(filter(None, (self.own_plan, self.kernel, header)))

    @property
    def built_products(self) -> tuple[str, ...]:
        """Return the products with kernels, in the order of the spec; none if the operator is declared only."""
        if self.declared_only:
            return ()
        archs = self.tiling.architectures
        return tuple(name for name in self.products if name in BUILT_PRODUCTS and PRODUCTS[name].arch in archs)

    @property
    def configured_products(self) -> tuple[str, ...]:
        """The SoC directories that OpDef configures."""
        return (*(self.products if self.declared_only else self.built_products), *self.configs)

    @property
    def undocumented_devices(self) -> tuple[str, ...]:
        """The devices with kernels that the CANN document does not list."""
        devices = [device for product in self.built_products for device in PRODUCTS[product].devices]
        return tuple(device for device in devices if self.document_devices and device not in self.document_devices)

    @property
    def formula_names(self) -> Names:
        """The names that the formula may use."""
        dims = [dim for case in self.cases for shape in case.shapes.values() for dim in shape if isinstance(dim, str)]
        symbols = {dim.removeprefix("*") for dim in dims if dim.removeprefix("*").isalnum()}
        parameters = {tensor.name for tensor in self.inputs} | {attr.name for attr in self.attrs}
        return Names({tensor.name for tensor in self.results}, parameters | symbols)

    @property
    def forward_names(self) -> Names:
        """Return the names in the forward formula; its results are single letters."""
        return Names(frozenset(ascii_letters), self.formula_names.all)

    def promoted(self, leader: str) -> tuple[TensorSpec, ...]:
        """Return the input called `leader` and the tensors that determine the dtype of the computation with it."""
        following = (t for t in self.tensors if t.dtype == leader and t.mix == "promote")
        return (self.tensor(leader), *following)


class DeclaredSpec(OpSpec):
    """An operator with `declared_only`; its spec has tensors and attributes, but no rules."""

    formula: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    cases: tuple[CaseSpec, ...] = ()
    constraints: tuple[ConstraintSpec, ...] = ()


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of specs, for editors."""
    schema = OpSpec.model_json_schema()
    own = [name for name in schema["required"] if DeclaredSpec.model_fields[name].is_required()]
    flag = {"properties": {"declared_only": {"const": True}}, "required": ["declared_only"]}
    return schema | {"required": own, "if": flag, "else": {"required": schema["required"]}}


class MissingSectionError(Exception):
    """A check read a missing section of a partial spec."""


class PartialSpec(OpSpec):
    """The sections of a spec with the right form, for checks that read only these."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in OpSpec.model_fields:
                raise MissingSectionError(name)
            return super().__getattr__(name)
