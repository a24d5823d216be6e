"""Derive facts from a spec: signatures of its functions, dtype combinations, keys of its ONNX nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.expr.attr_kinds import SCALAR_TYPE

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

OPFORGE_DOMAIN = "opforge"
NPU_DOMAIN = "npu"
# Types of custom nodes in other domains.
NPU_PREFIX = "NPU"
ONNX_OPSETS = range(8, 23)


@dataclass(frozen=True)
class OnnxKey:
    """One spelling of an operator.

    Attributes:
        domain: "" for ai.onnx.
        op_type: Type of the node.
        versions: Opset versions of the domain with the spelling.
    """

    domain: str
    op_type: str
    versions: range

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.op_type}"


# `host_list` and `scalar`: an input that the function receives as a list of integers or as scalar objects; `in_place`:
# an input that the function overwrites.
ParamKind: TypeAlias = Literal["input", "output", "attr", "host_list", "scalar", "in_place"]


@dataclass(frozen=True)
class Param:
    """One parameter of a GetWorkspaceSize function, except workspaceSize and executor."""

    name: str
    c_type: str
    of: str
    kind: ParamKind

    @property
    def is_scalar(self) -> bool:
        """Return whether it is an attribute as a scalar object."""
        return self.kind == "attr" and self.c_type == SCALAR_TYPE


def aclnn_signature(spec: OpSpec, function: str) -> tuple[Param, ...]:
    """Return the parameters of an aclnn function in order.

    Raises:
        KeyError: The operator does not have the function.
    """
    declared = {candidate.function: candidate for candidate in spec.aclnn}[function]
    inputs = {tensor.name for tensor in spec.inputs}
    overwritten = {tensor.name for tensor in (*spec.in_place.values(), *spec.overwritten)}
    attrs = {attr.name: attr for attr in spec.attrs}
    params = []
    for name, of in declared.params.items():
        kind: ParamKind = "output"
        if of in attrs:
            kind, c_type = "attr", attrs[of].kind.c_types[0]
        else:
            tensor = spec.tensor(of)
            if of in inputs:
                kind = "host_list" if tensor.host_values else "scalar" if tensor.scalar else "input"
            kind = "in_place" if of in overwritten else kind
            c_type = tensor.c_types[-1 if kind in {"input", "host_list", "scalar"} else 0]
        params.append(Param(name, declared.types.get(name, c_type), of, kind))
    return tuple(params)


def dtype_columns(spec: OpSpec, product: str = "") -> dict[str, tuple[str, ...]]:
    """Return, per tensor, one dtype word for each supported combination, in the form of OpDef's DataType lists.

    Args:
        spec: The operator.
        product: A SoC directory, whose cores may not support all dtypes.
    """
    free = [tensor for tensor in spec.tensors if tensor.dtype is None]
    rows: Iterable[dict[str, str]] = spec.supported_combinations
    if not spec.combinations:
        every = itertools.product(*(t.dtypes for t in free))
        rows = (dict(zip([tensor.name for tensor in free], row, strict=True)) for row in every)
    rows = [row for row in rows if not product or all(map(PRODUCTS[product].supports, row.values()))]
    return {tensor.name: tuple(row[tensor.dtype or tensor.name] for row in rows) for tensor in spec.tensors}


def declared_columns(spec: OpSpec) -> dict[str, tuple[str, ...]]:
    """Return, per tensor, one dtype word for each combination of OpDef; kernels of some are not built here."""
    if not spec.combinations:
        return dtype_columns(spec)
    rows = spec.declared_combinations
    return {tensor.name: tuple(row[tensor.dtype or tensor.name] for row in rows) for tensor in spec.tensors}


def kernel_columns(spec: OpSpec, product: str = "") -> list[tuple[tuple[str, str], ...]]:
    """The dtype combinations of required tensors and of lists, as (IR name, dtype): one kernel is compiled for each."""
    columns = dtype_columns(spec, product)
    required = [tensor for tensor in spec.tensors if not tensor.optional or tensor.dynamic]
    rows: Iterable[tuple[str, ...]] = zip(*(columns[tensor.name] for tensor in required), strict=True)
    rows = rows if required else [()]
    return [tuple(zip([t.ir_name for t in required], row, strict=True)) for row in dict.fromkeys(rows)]


def case_type(spec: OpSpec, case: str) -> str:
    """Return the type of nodes of one case, for models that need several bodies: a function of ONNX has one body."""
    return f"{spec.op_type}_{case}"


def onnx_keys(spec: OpSpec) -> tuple[OnnxKey, ...]:
    """Return the spellings of an operator in ONNX models: one for each domain, and one for each body."""
    if not spec.outputs:
        return ()  # ONNX has no operators that change their inputs
    npu_type = f"{NPU_PREFIX}{spec.op_type}"
    once = range(1, 2)
    return (
        OnnxKey(OPFORGE_DOMAIN, spec.op_type, once),
        *(OnnxKey(OPFORGE_DOMAIN, case_type(spec, case), once) for case in spec.onnx.bodies),
        OnnxKey(NPU_DOMAIN, npu_type, once),
        OnnxKey("", npu_type, ONNX_OPSETS),
    )


def source_keys(spec: OpSpec) -> tuple[OnnxKey, ...]:
    """Return the spellings of an operator in input models: those of opforge, and names of other tools."""
    others = (alias.split("::") for alias in spec.onnx.aliases)
    return (*onnx_keys(spec), *(OnnxKey(domain, name, range(1, 2)) for domain, name in others))


def origin_keys(spec: OpSpec) -> list[str]:
    """Return the keys `domain::opset::type` of the ONNX plugin."""
    return [
        f"{key.domain or 'ai.onnx'}::{version}::{key.op_type}" for key in onnx_keys(spec) for version in key.versions
    ]
