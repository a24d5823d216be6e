"""Inputs, outputs and attributes as templates print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opforge.codegen.expr.cpp import int64_literal
from opforge.codegen.spec.dtypes import DTYPES
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.names import lower_camel, upper_camel
from opforge.codegen.spec.parts import AttrSpec, TensorSpec
from opforge.codegen.spec.semantics import accepted_dtypes, kernel_dtypes, value_text

from .escape import Code, cpp_string
from .facts import dtype_columns


def _plan_dtypes(dtypes: Sequence[str]) -> str:
    return ", ".join(f"DataType::{DTYPES[dtype].plan}" for dtype in dtypes)


def _cast_pairs(casts: Mapping[str, str]) -> str:
    name = "DataType::"
    return ", ".join(f"{{{name}{DTYPES[a].plan}, {name}{DTYPES[b].plan}}}" for a, b in casts.items())


class TensorView:
    """An input or output."""

    def __init__(self, spec: OpSpec, tensor: TensorSpec, index: int, *, is_output: bool) -> None:
        self._spec = spec
        self._tensor = tensor
        self.index = index
        self.is_output = is_output
        self.name = tensor.name
        self.optional = tensor.optional
        self.ir_name = tensor.ir_name
        self.camel = lower_camel(tensor.name)
        self.upper_camel = upper_camel(tensor.name)
        self.description = tensor.description
        self.dtypes = tensor.dtypes
        self.formats = tensor.formats
        self.takes_any_format = tensor.takes_any_format
        self.host_values = tensor.host_values

    @property
    def presence(self) -> str:
        """`Optional` or `Required`, as in the getters of the contexts."""
        return "Optional" if self.optional else "Required"

    @property
    def option(self) -> str:
        """The enumerator of ops::Option."""
        return self.presence.upper()

    @property
    def reg_op(self) -> str:
        """The REG_OP clause that declares it."""
        return "OUTPUT" if self.is_output else "OPTIONAL_INPUT" if self.optional else "INPUT"

    @property
    def ge_dtypes(self) -> list[str]:
        """Enumerators of ge::DataType that it accepts."""
        return [DTYPES[dtype].ge for dtype in self.dtypes]

    @property
    def ge_columns(self) -> list[str]:
        """One enumerator of ge::DataType per supported combination."""
        return [DTYPES[dtype].ge for dtype in dtype_columns(self._spec)[self.name]]

    @property
    def direction(self) -> str:
        """The method of OpDef that declares it."""
        return "Output" if self.is_output else "Input"

    @property
    def presence_text(self) -> str:
        """`required` or `optional`."""
        return self.presence.lower()

    @property
    def tensor_type(self) -> Code:
        """Its dtypes in REG_OP."""
        return Code(f"TensorType({{{', '.join(self.ge_dtypes)}}})")

    @property
    def ge_column_list(self) -> Code:
        """The initializer list of OpDef's DataType."""
        return Code(", ".join(f"ge::{dtype}" for dtype in self.ge_columns))

    def dtype_check(self, rule: str) -> Code:
        """The C++ call that checks its dtype."""
        kernel, accepted = kernel_dtypes(self._spec, self._tensor), accepted_dtypes(self._spec, self._tensor)
        check = self._dtype_check(rule, kernel)
        if accepted != kernel:
            check = f"call.mayCast ? {self._dtype_check(rule, accepted)} : {check}"
        return Code(check)

    def _dtype_check(self, rule: str, dtypes: Sequence[str]) -> str:
        if not dtypes:
            return f"CheckSameDtype({rule}, call.{self.camel}, call.{lower_camel(self._tensor.dtype or '')})"
        return f"CheckDtype({rule}, call.{self.camel}, {{{_plan_dtypes(dtypes)}}})"

    def format_check(self, rule: str) -> Code:
        """The C++ call that checks its storage format."""
        formats = ", ".join(f"Format::k{name.title().replace('_', '')}" for name in self.formats)
        return Code(f"CheckFormat({rule}, call.{self.camel}, {{{formats}}})")

    @property
    def value_depend(self) -> Code:
        """The clause of OpDef that makes its values known to tiling."""
        return Code(f"\n            .ValueDepend({self.option})" if self.host_values else "")

    @property
    def is_castable(self) -> bool:
        """Whether aclnn functions take it in dtypes that kernels do not."""
        return bool(self._tensor.casts) or self._tensor.mix is not None or self.decides

    @property
    def decides(self) -> bool:
        """Whether its dtype decides, with those of others, in which one a kernel computes."""
        return any(tensor.dtype == self.name and tensor.mix == "promote" for tensor in self._spec.tensors)

    @property
    def cast_dtype(self) -> Code:
        """The C++ expression of the dtype to which an aclnn function casts it."""
        if self._tensor.dtype is None and not self.decides:
            return Code(f"CastOf(call.{self.camel}.dtype, {{{_cast_pairs(self._tensor.casts)}}})")
        leader = self._tensor.dtype or self.name
        if len(self._spec.promoted(leader)) == 1:
            return Code(f"call.{lower_camel(leader)}.dtype")
        arguments = ", ".join(f"&call.{lower_camel(tensor.name)}" for tensor in self._spec.promoted(leader))
        return Code(f"Promoted({{{arguments}}})")

    @property
    def inferred_dtype(self) -> Code:
        """The C++ expression for the dtype of an output at inference."""
        inputs = [tensor.name for tensor in self._spec.inputs]
        if self._tensor.dtype is not None:
            return Code(f"context->GetRequiredInputDataType({inputs.index(self._tensor.dtype)})")
        return Code(f"ge::{DTYPES[self.dtypes[0]].ge}")

    @property
    def l0_dtype(self) -> Code:
        """The C++ expression for the dtype of an output in the level-0 call."""
        if self._tensor.dtype is not None:
            return Code(f"{lower_camel(self._tensor.dtype)}->GetDataType()")
        return Code(f"op::DataType::{DTYPES[self.dtypes[0]].ge}")


class AttrView:
    """An attribute."""

    def __init__(self, attr: AttrSpec, index: int) -> None:
        self._attr = attr
        self.index = index
        self.name = attr.name
        self.ir_name = attr.ir_name
        self.camel = lower_camel(attr.name)
        self.type = attr.type
        self.description = attr.description
        self.is_required = attr.default is None

    @property
    def c_type(self) -> Code:
        """Its type in plans and checks."""
        return Code({"int": "int64_t", "float": "float", "bool": "bool", "string": "const char*"}[self.type])

    @property
    def ge_type(self) -> str:
        """Its type in REG_OP, and its setter in OpDef."""
        return self.type.capitalize()

    @property
    def getter(self) -> str:
        """Its getter in gert::RuntimeAttrs."""
        return "GetStr" if self.type == "string" else f"Get{self.ge_type}"

    @property
    def option(self) -> str:
        """The enumerator of ops::Option."""
        return "REQUIRED" if self.is_required else "OPTIONAL"

    @property
    def def_value(self) -> Code:
        """The argument of its setter in OpDef."""
        return Code("" if self.is_required else self.literal)

    @property
    def reg_op(self) -> str:
        """The REG_OP clause that declares it."""
        return "REQUIRED_ATTR" if self.is_required else "ATTR"

    @property
    def reg_op_value(self) -> Code:
        """Its type and default in REG_OP."""
        return Code(self.ge_type if self.is_required else f"{self.ge_type}, {self.literal}")

    @property
    def read(self) -> Code:
        """The C++ expression of its value behind the pointer that its getter gives."""
        return Code(self.camel if self.type == "string" else f"*{self.camel}")

    def given(self, param: str, c_type: str) -> Code:
        """The C++ expression of its value in an aclnn function, in the type that checks take."""
        if self.type == "string" and not self.is_required:
            return Code(f"{param} != nullptr ? {param} : {self.literal}")
        return Code(param if c_type == self.c_type else f"static_cast<{self.c_type}>({param})")

    @property
    def onnx_type(self) -> Code:
        """The C++ type in which the ONNX plugin reads it."""
        return Code("std::string" if self.type == "string" else "int64_t" if self.type == "bool" else self.c_type)

    @property
    def onnx_default(self) -> Code:
        """The value that the ONNX plugin starts from."""
        return Code(str(int(self.literal == "true"))) if self.type == "bool" else self.literal

    @property
    def onnx_getter(self) -> str:
        """Its getter in opforge::OnnxNode."""
        return {"int": "GetInt", "bool": "GetInt", "float": "GetFloat", "string": "GetString"}[self.type]

    @property
    def onnx_value(self) -> Code:
        """The C++ expression that gives the read value to ge::Operator."""
        return Code({"string": f"{self.camel}.c_str()", "bool": f"{self.camel} != 0"}.get(self.type, self.camel))

    @property
    def literal(self) -> Code:
        """The default as a C++ literal; zero for a required attribute."""
        default = self._attr.default
        if self.type == "string":
            return cpp_string(str(default or ""))
        if self.type == "bool":
            return Code(str(bool(default)).lower())
        if self.type == "float":
            return Code(f"{float(default or 0)!r}F")
        value = int(default or 0)
        return Code(str(value)) if -(2**31) < value < 2**31 else int64_literal(value)

    @property
    def default_text(self) -> str:
        """The default for comments."""
        return "required" if self._attr.default is None else value_text(self._attr.default)
