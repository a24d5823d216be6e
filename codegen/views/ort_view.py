"""Prepare operators for the library of custom operators for onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

from opforge.codegen.escape import Code
from opforge.codegen.spec.model import OpSpec

from .facts import source_keys
from .op_view import OpView
from .tensor_view import AttrView


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
        self.arguments = [self._argument(param.of, param.kind, param.c_type) for param in self.function.params]

    def _argument(self, name: str, kind: str, c_type: str) -> Code:
        """Return the C++ expression of an argument of the function."""
        for attr in self.attrs:
            if attr.name == name and attr.array:
                return Code(f"Array<{attr.array}>(attributes.{attr.camel}).get()")
            if attr.name == name:
                is_text = attr.type == "string"
                value = f"attributes.{attr.camel}{'.c_str()' if is_text else ''}"
                return Code(f"{'const' if is_text else 'static'}_cast<{c_type}>({value})")
        index = next(t.index for t in (*self.inputs, *self.outputs) if t.name == name)
        values = "outputs" if kind == "output" else "inputs"
        return Code(f"{values}[{index}].{'List' if kind == 'host_list' else 'Tensor'}()")


def ort_operators(specs: Sequence[OpSpec]) -> list[OrtOperator]:
    """Return the operators that have an aclnn function."""
    return [OrtOperator(spec) for spec in specs if spec.aclnn]
