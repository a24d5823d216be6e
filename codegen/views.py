"""What templates print: a spec seen from C++, CANN, ONNX and Markdown. Every decision is here, none in a template."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from opforge.codegen.cpp import CppNames, cpp_expression, int64_literal
from opforge.codegen.dtypes import DTYPES
from opforge.codegen.escape import Code, cpp_string
from opforge.codegen.layout import fit
from opforge.codegen.model import STATUSES, AttrSpec, FunctionSpec, OpSpec, TensorSpec, TilingField
from opforge.codegen.names import lower_camel, snake_case, upper_camel
from opforge.codegen.program import Case, Constraint, Dim
from opforge.codegen.semantics import alternatives, value_text
from opforge.codegen.validate import tiling_bytes, tiling_layout

ONNX_OPSETS = range(8, 23)
CPP_SCALARS = {"int32": "int32_t", "uint32": "uint32_t", "float32": "float", "int64": "int64_t", "uint64": "uint64_t"}


@dataclass(frozen=True)
class Param:
    """One parameter of an aclnn function's first phase, workspaceSize and executor left out."""

    name: str
    c_type: str
    of: str
    kind: Literal["input", "output", "attr", "host_list"]


def aclnn_signature(spec: OpSpec, function: str) -> tuple[Param, ...]:
    """The parameters of an aclnn function in order.

    Raises:
        KeyError: The operator has no such function.
    """
    declared = {candidate.function: candidate for candidate in spec.aclnn}[function]
    inputs = {tensor.name for tensor in spec.inputs}
    attrs = {attr.name: attr for attr in spec.attrs}
    usual = {"int": "int64_t", "float": "double", "bool": "bool", "string": "char *"}
    params = []
    for name, of in declared.params.items():
        kind: Literal["input", "output", "attr"]
        if of in attrs:
            kind, c_type = "attr", usual[attrs[of].type]
        elif of in inputs:
            kind, c_type = "input", "const aclTensor *"
        else:
            kind, c_type = "output", "aclTensor *"
        params.append(Param(name, declared.types.get(name, c_type), of, kind))
    return tuple(params)


def dtype_columns(spec: OpSpec) -> dict[str, tuple[str, ...]]:
    """Per tensor one dtype word for each supported combination, as OpDef's DataType lists want them."""
    free = [tensor for tensor in spec.tensors if tensor.dtype is None]
    rows = [
        dict(zip([tensor.name for tensor in free], row, strict=True))
        for row in itertools.product(*(t.dtypes for t in free))
    ]
    return {tensor.name: tuple(row[tensor.dtype or tensor.name] for row in rows) for tensor in spec.tensors}


def kernel_columns(spec: OpSpec) -> list[dict[str, str]]:
    """The dtype combinations of required inputs and outputs, by IR name: one kernel is compiled for each."""
    columns = dtype_columns(spec)
    required = [tensor for tensor in spec.tensors if not tensor.optional]
    rows = zip(*(columns[tensor.name] for tensor in required), strict=True)
    return [dict(zip([t.ir_name for t in required], row, strict=True)) for row in dict.fromkeys(rows)]


def onnx_keys(spec: OpSpec) -> list[str]:
    """The origin keys `domain::opset::type` that the ONNX plugin serves."""
    keys = [f"opforge::1::{spec.op_type}", f"npu::1::NPU{spec.op_type}"]
    return keys + [f"ai.onnx::{opset}::NPU{spec.op_type}" for opset in ONNX_OPSETS]


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
        if self._tensor.dtype is not None:
            return Code(f"CheckSameDtype({rule}, call.{self.camel}, call.{lower_camel(self._tensor.dtype)})")
        accepted = ", ".join(f"DataType::{DTYPES[dtype].plan}" for dtype in self.dtypes)
        return Code(f"CheckDtype({rule}, call.{self.camel}, {{{accepted}}})")

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

    @property
    def dtype_text(self) -> str:
        """Its dtypes for the documentation."""
        if self._tensor.dtype is not None:
            return f"that of {self._tensor.dtype}"
        return alternatives([DTYPES[dtype].ge.removeprefix("DT_") for dtype in self.dtypes])


class AttrView:
    """An attribute."""

    def __init__(self, attr: AttrSpec, index: int) -> None:
        self._attr = attr
        self.index = index
        self.name = attr.name
        self.ir_name = attr.ir_name
        self.camel = lower_camel(attr.name)
        self.upper_camel = upper_camel(attr.name)
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
        """The default for the documentation."""
        return "required" if self._attr.default is None else value_text(self._attr.default)


@dataclass(frozen=True)
class BindingView:
    """Where a symbol gets its value."""

    symbol: str
    camel: str
    axis: int


class CaseView:
    """One case of shapes."""

    def __init__(self, op: OpView, case: Case) -> None:
        self._case = case
        self.name = case.name
        self.enumerator = f"k{upper_camel(case.name)}"
        self.when_text = case.when_text
        self.when = cpp_expression(case.when, op.cpp_names)
        self.bindings = [BindingView(b.symbol, lower_camel(b.tensor), b.axis) for b in case.bindings]
        self.ranks = {tensor: len(dims) for tensor, dims in case.shapes.items()}
        self.dimensions = {tensor: _dimensions(dims, op.cpp_names) for tensor, dims in case.shapes.items()}
        self.shape_texts = {tensor: case.shape_text(tensor) for tensor in case.shapes}
        bound = {(binding.tensor, binding.axis) for binding in case.bindings}
        # Tensors without a shape of their own to compare with: all dimensions are bound there, or none is listed.
        self.unconstrained = {
            tensor.name
            for tensor in op.tensors
            if all((tensor.name, axis) in bound for axis in range(self.ranks.get(tensor.name, 0)))
        }

    def shape_of(self, tensor: TensorView) -> str:
        """The shape of a tensor for the documentation."""
        return self.shape_texts.get(tensor.name, "null")

    def rank_check(self, tensor: TensorView, rule: str) -> Code:
        """The C++ call that checks the rank of a tensor, or its absence where the case does not list it."""
        argument = f"call.{tensor.camel}"
        if tensor.name not in self.ranks:
            return Code(f"CheckAbsent({rule}, {argument})")
        return Code(f"CheckRank({rule}, {argument}, {self.ranks[tensor.name]}, {self._shape_literal(tensor)})")

    def shape_check(self, tensor: TensorView, rule: str) -> Code:
        """The C++ call that compares a listed tensor's dimensions."""
        arguments = f"{rule}, call.{tensor.camel}, {self._shape_literal(tensor)}"
        if tensor.is_output:
            return Code(f"CheckOutputShape({arguments}, {tensor.upper_camel}Shape(call, symbols))")
        return Code(f"CheckInputShape({arguments}, {self.dimensions[tensor.name]})")

    def _shape_literal(self, tensor: TensorView) -> Code:
        return cpp_string(self.shape_texts[tensor.name])


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _dimensions(dims: Sequence[Dim], names: CppNames) -> Code:
    """The C++ initializer of a std::vector<Dimension>."""
    parts = (f"{{{cpp_string(dim.text)}, {cpp_expression(dim.expression, names)}}}" for dim in dims)
    return Code(f"{{{', '.join(parts)}}}")


class ConstraintView:
    """One constraint as C++ steps: a condition, or verdicts for all cases or for each."""

    def __init__(self, op: OpView, constraint: Constraint) -> None:
        self._op = op
        self._rule = constraint.rule
        self.label = constraint.label
        self.variable = f"rule{constraint.label}"
        self.status = constraint.status
        self.status_name = STATUSES[constraint.status]
        self.subject = constraint.subject
        self.expected = constraint.expected
        self.text = constraint.check_text
        self.condition = None if constraint.rule else cpp_expression(constraint.check, op.cpp_names)
        if self.condition and constraint.case is not None:
            other = f"Logic(symbols.shapeCase != {op.op_type}Case::k{upper_camel(constraint.case)})"
            self.condition = Code(f"{other} || ({self.condition})")
        self.binds = constraint.rule == "ranks"
        camel = lower_camel(constraint.subject) if constraint.subject else ""
        of_attr = constraint.subject in {attr.name for attr in op.attrs}
        self.got = Code(f"ValueText(call.{camel})" if of_attr else f"ShapeText(call.{camel})")

    @property
    def sentence(self) -> str:
        """The constraint for the documentation."""
        required = _listed([tensor.name for tensor in (*self._op.required_inputs, *self._op.outputs)])
        sentences = {
            "required": f"{required} must not be null",
            "dtypes": "dtypes as in the table of parameters",
            "ranks": "numbers of dimensions as in the table of shapes",
            "shapes": "dimensions as in the table of shapes; equal letters are equal numbers",
        }
        return sentences[self._rule] if self._rule else f"{self.subject}: {self.expected} ({self.text})"

    @property
    def verdicts(self) -> list[Code]:
        """C++ expressions of type Verdict that hold for every case."""
        rule = self.variable
        if self._rule == "required":
            checks = [f"CheckPresent({rule}, call.{t.camel})" for t in self._op.required_inputs]
            checks += [f"hasOutputs ? CheckPresent({rule}, call.{t.camel}) : Verdict()" for t in self._op.outputs]
            return [Code(check) for check in checks]
        if self._rule == "dtypes":
            return [tensor.dtype_check(rule) for tensor in self._op.tensors]
        return []

    @property
    def case_verdicts(self) -> list[tuple[CaseView, list[Code]]]:
        """C++ expressions of type Verdict per case."""
        if self._rule == "ranks":
            return [(c, [c.rank_check(t, self.variable) for t in self._op.tensors]) for c in self._op.cases]
        if self._rule == "shapes":
            return [
                (c, [c.shape_check(t, self.variable) for t in self._op.tensors if t.name not in c.unconstrained])
                for c in self._op.cases
            ]
        return []


class TilingFieldView:
    """One member of the tiling data struct."""

    def __init__(self, field: TilingField, offset: int) -> None:
        self.member = lower_camel(field.name)
        self.c_type = CPP_SCALARS[field.type]
        self.extent = Code(f"[{field.count}]" if field.count else "")
        self.initial = Code(" = {}" if field.count else " = 0")
        self.description = field.description
        self.offset = offset


class TilingKeyView:
    """One tiling key."""

    def __init__(self, spec: OpSpec, index: int) -> None:
        name, number, template = (
            spec.tiling.keys[index].name,
            spec.tiling.keys[index].key,
            spec.tiling.keys[index].template,
        )
        self.chain = Code("} else " if index else "")
        self.number = number
        self.enumerator = f"{spec.name}_{snake_case(name)}".upper()
        self.arguments = Code(", ".join(_template_argument(spec, item) for item in template))


def _template_argument(spec: OpSpec, item: bool | int | str) -> str:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, int):
        return str(int64_literal(item)) if abs(item) >= 2**31 else str(item)
    if item in DTYPES:
        return DTYPES[item].kernel
    return f"DTYPE_{spec.tensor(item).ir_name.upper()}"


class OpView:
    """One operator; templates know it as `op`."""

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.op_type = spec.op_type
        self.name = spec.name
        self.summary = spec.summary
        self.formula = spec.formula
        self.description = spec.description
        self.products = spec.products
        self.inputs = [TensorView(spec, tensor, i, is_output=False) for i, tensor in enumerate(spec.inputs)]
        self.outputs = [TensorView(spec, tensor, i, is_output=True) for i, tensor in enumerate(spec.outputs)]
        self.tensors = [*self.inputs, *self.outputs]
        self.required_inputs = [tensor for tensor in self.inputs if not tensor.optional]
        self.attrs = [AttrView(attr, index) for index, attr in enumerate(spec.attrs)]
        self.symbols = spec.program.symbols
        self.cpp_names = CppNames(
            symbol=lambda name: f"symbols.{name}",
            attribute=lambda name: f"call.{lower_camel(name)}",
            argument=lambda name: f"call.{lower_camel(name)}",
        )
        self.cases = [CaseView(self, case) for case in spec.program.cases]
        self.constraints = [ConstraintView(self, constraint) for constraint in spec.program.constraints]
        self.parameters: list[TensorView | AttrView] = [*self.inputs, *self.attrs, *self.outputs]
        self.onnx_opsets = f"{ONNX_OPSETS[0]} to {ONNX_OPSETS[-1]}"
        self.conditions = alternatives([case.when_text for case in spec.program.cases])
        self.functions = [FunctionView(self, function) for function in spec.aclnn]
        self.onnx_keys = [cpp_string(key) for key in onnx_keys(spec)]
        self.task_type = spec.tiling.task_type
        # Cores that meet at a barrier must all run at once; batch mode guarantees that.
        self.cores_meet = Code(str(spec.tiling.task_type.startswith("MIX_")).lower())
        offsets = [offset for _, offset, _ in tiling_layout(spec)]
        self.tiling_fields = [TilingFieldView(f, o) for f, o in zip(spec.tiling.data, offsets, strict=True)]
        self.tiling_bytes = tiling_bytes(spec)
        self.tiling_keys = [TilingKeyView(spec, index) for index in range(len(spec.tiling.keys))]
        columns = len(next(iter(dtype_columns(spec).values())))
        self.ge_format_list = Code(", ".join(["ge::FORMAT_ND"] * columns))

    def guard(self, folder: str, what: str) -> str:
        """The include guard of a header."""
        return f"OPFORGE_GEN_{folder}_{self.name.upper()}_{what}_H"

    @property
    def kernel_parameters(self) -> Code:
        """The parameters of the kernel function: inputs, outputs, workspace, tiling."""
        names = [tensor.name for tensor in self.tensors]
        return Code(", ".join(f"GM_ADDR {name}" for name in [*names, "workspace", "tiling"]))

    @property
    def kernel_values(self) -> Code:
        """What the kernel function hands to Init: inputs, then outputs."""
        return Code(", ".join(tensor.name for tensor in self.tensors))

    @property
    def l0_parameters(self) -> Code:
        """The parameters of the level-0 function: inputs, attributes, outputs, executor."""
        parameters = [f"const aclTensor* {tensor.camel}" for tensor in self.inputs]
        parameters += [f"{attr.c_type} {attr.camel}" for attr in self.attrs]
        parameters += [f"const aclTensor*& {tensor.camel}" for tensor in self.outputs]
        return Code(", ".join([*parameters, "aclOpExecutor* executor"]))

    @property
    def l0_values(self) -> Code:
        """What the level-0 function is called with, for its log."""
        names = [tensor.camel for tensor in self.inputs] + [attr.camel for attr in self.attrs]
        return Code(", ".join(names))

    @property
    def l0_arguments(self) -> Code:
        """The arguments of INFER_SHAPE and of the launch."""
        groups = [f"OP_INPUT({', '.join(tensor.camel for tensor in self.inputs)})"]
        groups += [f"OP_OUTPUT({', '.join(f'{tensor.camel}Dense' for tensor in self.outputs)})"]
        if self.attrs:
            groups += [f"OP_ATTR({', '.join(attr.camel for attr in self.attrs)})"]
        return Code(", ".join(groups))

    @property
    def onnx_attributes(self) -> Code:
        """The attributes that an ONNX node may have."""
        return Code(", ".join(cpp_string(attr.name) for attr in self.attrs))


class FunctionView:
    """One aclnn function."""

    def __init__(self, op: OpView, function: FunctionSpec) -> None:
        self.name = function.function
        self.stem = f"aclnn_{snake_case(function.function.removeprefix('aclnn'))}"
        self.guard = f"OPFORGE_GEN_OP_API_{self.stem.upper()}_H"
        self.params = [ParamView(op, param) for param in aclnn_signature(op.spec, function.function)]
        by_name = {param.of: param for param in self.params}
        arguments = [ArgumentView(tensor, by_name.get(tensor.name)) for tensor in op.tensors]
        self.given = [argument for argument in arguments if argument.is_given]
        self.inputs = [argument for argument in arguments if not argument.tensor.is_output]
        self.outputs = [argument for argument in arguments if argument.tensor.is_output]
        self.given_attrs = [(attr, _cast(attr, by_name[attr.name])) for attr in op.attrs if attr.name in by_name]
        values = dict(self.given_attrs)
        inputs = [f"{a.tensor.camel}Dense" if a.is_given else "nullptr" for a in self.inputs]
        outputs = [f"{a.tensor.camel}Dense" for a in self.outputs]
        attrs = [values.get(attr, attr.literal) for attr in op.attrs]
        self.l0_values = Code(", ".join([*inputs, *attrs, *outputs, "uniqueExecutor.get()"]))

    @property
    def declarations(self) -> Code:
        """The parameters of the first phase, as the documents declare them."""
        own = [param.declaration for param in self.params]
        return Code(", ".join([*own, "uint64_t *workspaceSize", "aclOpExecutor **executor"]))

    @property
    def documented(self) -> list[Code]:
        """The lines of the first phase's declaration, for the documentation."""
        head = f"aclnnStatus {self.name}GetWorkspaceSize("
        return [Code(line) for line in fit(f"{head}\n    {self.declarations});").split("\n")]

    def name_of(self, parameter: TensorView | AttrView) -> str:
        """What the function calls a parameter, for the documentation."""
        names = {param.of: param.name for param in self.params}
        default = parameter.default_text if isinstance(parameter, AttrView) else "null"
        return names.get(parameter.name, f"- ({default})")

    @property
    def dfx_in(self) -> Code:
        """The arguments of DFX_IN."""
        return Code(", ".join(param.name for param in self.params if param.kind != "output"))

    @property
    def dfx_out(self) -> Code:
        """The arguments of DFX_OUT."""
        return Code(", ".join(param.name for param in self.params if param.kind == "output"))


class ParamView:
    """One parameter of an aclnn function."""

    def __init__(self, op: OpView, param: Param) -> None:
        of = next(parameter for parameter in op.parameters if parameter.name == param.of)
        self.name = param.name
        self.of = param.of
        self.kind = param.kind
        self.c_type = Code(param.c_type)
        self.declaration = Code(
            f"{param.c_type}{param.name}" if "*" in param.c_type else f"{param.c_type} {param.name}"
        )
        self.direction = "out" if param.kind == "output" else "in"
        self.text = of.description or of.name
        if isinstance(of, TensorView) and of.optional:
            self.text += " May be null."


def _cast(attr: AttrView, param: ParamView) -> Code:
    """The value of an attribute's parameter in the type that checks and the level-0 function take."""
    return Code(param.name if param.c_type == attr.c_type else f"static_cast<{attr.c_type}>({param.name})")


class ArgumentView:
    """A tensor of the operator and the parameter that carries it, if the function has one."""

    def __init__(self, tensor: TensorView, param: ParamView | None) -> None:
        self.tensor = tensor
        self.is_given = param is not None
        self.param = param.name if param else "nullptr"
