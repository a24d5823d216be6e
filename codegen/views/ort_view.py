"""Prepare operators for the library of custom operators for onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

from opforge.codegen.escape import Code
from opforge.codegen.spec.model import OpSpec

from .facts import source_keys
from .op_view import OpView
from .tensor_view import AttrView, TensorView


class OrtAttr:
    """An attribute of an operator."""

    def __init__(self, attr: AttrView) -> None:
        self.name = attr.name
        self.camel = attr.camel
        self.type = attr.type
        self.ort_type = Code("std::string") if attr.type == "string" else attr.c_type
        is_bool = attr.type == "bool"
        self.ort_default = Code("false" if attr.onnx_default == "0" else "true") if is_bool else attr.onnx_default
        self.array = attr.array
        self.ort_required = Code(str(attr.is_required_in_onnx).lower())


class OrtOperator:
    """An operator and the aclnn function that computes it."""

    def __init__(self, spec: OpSpec) -> None:
        op = OpView(spec)
        self.op_type, self.name = op.op_type, op.name
        self.inputs, self.outputs, self.host_lists = op.inputs, op.outputs, op.host_lists
        self.attrs = [OrtAttr(attr) for attr in op.attrs]
        self.keys = source_keys(spec)
        leaders = {output.leader.index for output in op.outputs if output.leader}
        self.leaders = [tensor for tensor in op.inputs if tensor.index in leaders]
        self.function = max(op.functions, key=lambda function: len(function.given_attrs))
        parts: list[TensorView | OrtAttr] = [*self.inputs, *self.outputs, *self.attrs]
        of = {part.name: part for part in parts}
        self.arguments = [(param, of[param.of]) for param in self.function.params]


def ort_operators(specs: Sequence[OpSpec]) -> list[OrtOperator]:
    """Return the operators that have an aclnn function."""
    return [OrtOperator(spec) for spec in specs if spec.aclnn]
