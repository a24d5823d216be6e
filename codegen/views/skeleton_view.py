"""Prepare a kernel skeleton: template parameters and element types."""

from __future__ import annotations

from dataclasses import dataclass

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.escape import Code
from opforge.codegen.spec.checker import kernel_dtypes
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import TensorSpec

from .op_view import OpView
from .tensor_view import TensorView


@dataclass(frozen=True)
class GlobalTensorView:
    """A tensor in global memory: its parameter of `Init` and its element type."""

    name: str
    type: Code


class SkeletonView:
    """The class template of a kernel; each position in `template` of the tiling keys is a parameter."""

    def __init__(self, op: OpView) -> None:
        spec = op.spec
        self._types: dict[str, str] = {}
        self._choices: dict[frozenset[str], str] = {}
        self.parameters = [self._parameter(spec, position) for position in range(_length(spec))]
        self.tensors = [
            GlobalTensorView(view.camel, Code(self._type(spec, tensor, view)))
            for view, tensor in zip(op.tensors, spec.tensors, strict=True)
        ]

    def _parameter(self, spec: OpSpec, position: int) -> tuple[Code, Code]:
        """Return the kind and the name of a template parameter."""
        items = [key.template[position] for key in spec.tiling.keys if position < len(key.template)]
        if all(isinstance(item, bool) for item in items):
            return Code("bool"), Code(f"kFlag{position}")
        if all(isinstance(item, int) for item in items):
            return Code("int64_t"), Code(f"kNumber{position}")
        name = f"T{position}" if self._types else "T"
        words = frozenset(item for item in items if isinstance(item, str))
        self._choices[words] = name
        self._types |= dict.fromkeys(words or {""}, name)
        return Code("typename"), Code(name)

    def _type(self, spec: OpSpec, tensor: TensorSpec, view: TensorView) -> str:
        """Return the parameter that selects the dtype; else the only dtype or the macro of the build."""
        for name in (tensor.name, tensor.dtype):
            if name in self._types:
                return self._types[name]
        dtypes = kernel_dtypes(spec, spec.tensor(tensor.dtype) if tensor.dtype else tensor)
        if frozenset(dtypes) in self._choices:
            return self._choices[frozenset(dtypes)]
        if len(dtypes) == 1:
            return str(DTYPES[dtypes[0]].kernel)
        # No macro has the dtype of an optional input.
        return "uint8_t" if tensor.optional else f"DTYPE_{view.ir_name.upper()}"


def _length(spec: OpSpec) -> int:
    return max((len(key.template) for key in spec.tiling.keys), default=0)
