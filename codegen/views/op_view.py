"""Prepare an operator for the templates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import lower_camel, snake_case, upper_camel
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.escape import Code, cpp_string
from opforge.codegen.expr.cpp import cpp_expression, int64_literal
from opforge.codegen.expr.tree import Expr
from opforge.codegen.expr.value_text import alternatives
from opforge.codegen.spec.field_types import STRUCTURE_BYTES, TILING_DATA_BYTES
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import FunctionSpec, PlanConstant, TilingField
from opforge.codegen.spec.section_parts import TorchTarget
from opforge.codegen.spec.shared_plans import SharedPlan
from opforge.codegen.spec.validate import tiling_bytes, tiling_layout

from .case_view import CaseView, ConstraintView
from .facts import ONNX_OPSETS, Param, aclnn_signature, declared_columns, dtype_columns, origin_keys
from .tensor_view import CPP_NAMES, AttrView, TensorView


class TilingFieldView:
    """One member of the tiling data struct."""

    def __init__(self, field: TilingField, offset: int) -> None:
        self.member = lower_camel(field.name)
        self.c_type = DTYPES[field.type].kernel
        self.count = field.count
        self.description = field.description
        self.offset = offset


@dataclass(frozen=True)
class TilingStructureView:
    """A structure of the kernel sources: its header, its name, the usual and the largest size of tiling data."""

    header: str
    name: Code
    usual_bytes: int
    most_bytes: int


class TilingKeyView:
    """One tiling key."""

    def __init__(self, spec: OpSpec, index: int) -> None:
        name, number, template = (
            spec.tiling.keys[index].name,
            spec.tiling.keys[index].key,
            spec.tiling.keys[index].template,
        )
        self.number = number
        self.enumerator = f"{spec.source_name}_{snake_case(name)}".upper()
        self.arguments = [_template_argument(spec, item) for item in template]


def _template_argument(spec: OpSpec, item: bool | int | str) -> Code | str:
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, int):
        return int64_literal(item) if abs(item) >= 2**31 else Code(item)
    if item in DTYPES:
        return DTYPES[item].kernel
    return f"DTYPE_{spec.tensor(item).ir_name.upper()}"


class PlanConstantView:
    """An integer that the plan reads."""

    def __init__(self, constant: PlanConstant) -> None:
        self.name = f"k{upper_camel(constant.name)}"
        self.value = int64_literal(constant.value)
        self.description = constant.description


@dataclass(frozen=True)
class KeyChoice:
    """A tiling key and the C++ condition under which it applies."""

    condition: Code
    enumerator: str


@dataclass(frozen=True)
class AssignmentView:
    """A size or field whose value is an expression of the spec."""

    member: str
    value: Code
    refusal: str


class ProductConfig:
    """A product with kernels; `columns` has its dtype columns if they differ from those of the operator."""

    def __init__(self, spec: OpSpec, product: str) -> None:
        self.name = product
        own = dtype_columns(spec, product)
        self.columns = {
            name: [DTYPES[dtype].ge for dtype in words]
            for name, words in own.items()
            if words and own != declared_columns(spec)
        }


class ListRegistration:
    """A call that adds the tensors of a list to a node; `index` is its position in the attribute list_sizes."""

    def __init__(self, tensor: TensorView, index: int, *, is_last: bool) -> None:
        self.direction = tensor.direction
        self.ir_name = tensor.ir_name
        self.index = index
        self.is_last = is_last


class SharedPlanView:
    """The call of a shared plan."""

    def __init__(self, op: OpView, shared_plan: SharedPlan) -> None:
        self.function = f"Plan{upper_camel(shared_plan.name)}"
        self.work_type = f"{upper_camel(shared_plan.name)}Work"
        sizes = op.spec.program.work.sizes
        self.sizes = [op.assignment(name, value, op.spec.tiling.work[name]) for name, value in sizes.items()]


class OpView:
    """One operator; its name in templates is `op`."""

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.op_type = spec.op_type
        self.name = spec.name
        self.source_type = spec.source_type
        self.source_name = spec.source_name
        self.summary = spec.summary
        self.formula = spec.formula
        self.description = spec.description
        self.inputs = [TensorView(spec, tensor, i, is_output=False) for i, tensor in enumerate(spec.inputs)]
        self.outputs = [TensorView(spec, tensor, i, is_output=True) for i, tensor in enumerate(spec.outputs)]
        self.tensors = [*self.inputs, *self.outputs]
        self.tensors_with_formats = [
            view for view, tensor in zip(self.tensors, spec.tensors, strict=True) if not tensor.takes_any_format
        ]
        self.cast_inputs = [tensor for tensor in self.inputs if tensor.is_castable]
        self.host_lists = [tensor for tensor in self.inputs if tensor.host_values]
        self.value_dependent = [tensor for tensor in self.inputs if tensor.is_value_dependent]
        self.configs = spec.configured_products[len(spec.built_products) :]
        self.product_configs = [ProductConfig(spec, product) for product in spec.built_products]
        self.has_coupled_cores = any(PRODUCTS[product].is_coupled for product in spec.built_products)
        self.unbuilt_products = [
            PRODUCTS[product].enumerator for product in spec.products if product not in spec.built_products
        ]
        self.required_inputs = [tensor for tensor in self.inputs if not tensor.optional]
        implied = spec.torch.implied
        self.attrs = [AttrView(attr, index, implied.get(attr.name)) for index, attr in enumerate(spec.attrs)]
        self.has_free_outputs = any(tensor.is_free for tensor in self.outputs)
        self.combined = [tensor for tensor in self.tensors if tensor.name in spec.combinations]
        self.combinations = [
            [DTYPES[row[tensor.name]].plan for tensor in self.combined] for row in spec.supported_combinations
        ]
        self.list_attrs = [attr for attr in self.attrs if attr.is_list]
        self.symbols = spec.program.symbols
        self.stars = spec.program.stars
        self.cpp_names = CPP_NAMES
        self.cases = [CaseView(self, case) for case in spec.program.cases]
        self.constraints = [ConstraintView(self, constraint) for constraint in spec.program.constraints]
        self.attribute_constraints = [constraint for constraint in self.constraints if constraint.is_of_attributes]
        self.parameters: list[TensorView | AttrView] = [*self.inputs, *self.attrs, *self.outputs]
        self.onnx_opsets = f"{ONNX_OPSETS[0]} to {ONNX_OPSETS[-1]}"
        self.conditions = alternatives([case.when_text for case in spec.program.cases])
        self.torch_targets = [TorchTargetView(self, target) for target in spec.torch.targets]
        self.functions = [FunctionView(self, function) for function in spec.aclnn]
        self.onnx_keys = [cpp_string(key) for key in origin_keys(spec)]
        self.task_type = spec.tiling.task_type
        # Cores that wait at a barrier must all run at the same time; batch mode guarantees that.
        self.needs_barrier = Code(str(spec.tiling.task_type.startswith("MIX_")).lower())
        offsets = [offset for _, offset, _ in tiling_layout(spec)]
        self.tiling_fields = [TilingFieldView(f, o) for f, o in zip(spec.tiling.fields, offsets, strict=True)]
        self.tiling_bytes = tiling_bytes(spec)
        self.tiling_keys: list[TilingKeyView] = [TilingKeyView(spec, index) for index in range(len(spec.tiling.keys))]
        self.plan_header = Path(spec.own_plan).name if spec.own_plan else f"common/{spec.tiling.plan}.h"
        self.tiling_values = [
            self.assignment(field.name, spec.program.work.values[field.name], field.value)
            for field in spec.tiling.data
            if field.name in spec.program.work.values
        ]
        self.key_choices = [
            KeyChoice(cpp_expression(condition, self.cpp_names), key.enumerator)
            for condition, key in zip(spec.program.work.keys, self.tiling_keys, strict=False)
        ]
        self.own_plan = spec.own_plan or ""
        self.plan_constants = [PlanConstantView(constant) for constant in spec.tiling.constants]
        self.shared_plan = SharedPlanView(self, spec.tiling.shared_plan) if spec.tiling.shared_plan else None

    @property
    def lists(self) -> list[TensorView]:
        """The inputs and outputs that are lists of tensors."""
        return [tensor for tensor in self.tensors if tensor.is_list]

    @property
    def output_lists(self) -> list[TensorView]:
        """The outputs that are lists of tensors."""
        return [tensor for tensor in self.outputs if tensor.is_list]

    @property
    def onnx_attributes(self) -> list[str]:
        """The attributes of nodes in ONNX models."""
        return [attr.name for attr in self.attrs] + ["list_sizes"] * bool(self.lists)

    @property
    def input_lists(self) -> list[TensorView]:
        """The inputs that are lists of tensors."""
        return [tensor for tensor in self.inputs if tensor.is_list]

    @property
    def list_registrations(self) -> list[ListRegistration]:
        """The calls that add the tensors of lists to a node: each adds them at the start or at the end."""
        calls: list[ListRegistration] = []
        for tensors in (self.inputs, self.outputs):
            singles = [tensor.index for tensor in tensors if not tensor.is_list] or [-1]
            lists = [tensor for tensor in tensors if tensor.is_list]
            first = [ListRegistration(t, self.lists.index(t), is_last=False) for t in lists if t.index < singles[0]]
            last = [ListRegistration(t, self.lists.index(t), is_last=True) for t in lists if t.index > singles[-1]]
            calls += [*reversed(first), *last]
        return calls

    @property
    def needs_list_sizes(self) -> bool:
        """Return whether nodes need the numbers of tensors in the lists."""
        return max(len(self.input_lists), len(self.output_lists)) > 1

    @property
    def has_middle_list(self) -> bool:
        """Return whether a list of tensors is between single tensors."""
        return len(self.list_registrations) < len(self.lists)

    @property
    def shaped_lists(self) -> list[TensorView]:
        """The output lists, and the input lists whose shapes are compared with the spec."""
        return [t for t in self.lists if t.is_output or any(t in case.compared for case in self.cases)]

    @property
    def counted_lists(self) -> list[TensorView]:
        """The output lists whose number of tensors is an expression."""
        return [tensor for tensor in self.output_lists if tensor.count is not None]

    @property
    def single_tensors(self) -> list[TensorView]:
        """The inputs and outputs that are no lists."""
        return [tensor for tensor in self.tensors if not tensor.is_list]

    @property
    def scalars(self) -> list[TensorView]:
        """The inputs that aclnn functions receive as scalars."""
        return [tensor for tensor in self.inputs if tensor.scalar]

    @property
    def has_instances(self) -> bool:
        """Return whether an output may be no tensor or several tensors of a node."""
        return bool(self.lists) or any(tensor.optional for tensor in self.outputs)

    @property
    def tiling_structure(self) -> TilingStructureView | None:
        """The structure of the kernel sources that is the tiling data."""
        structure = self.spec.tiling.structure
        if structure is None:
            return None
        return TilingStructureView(structure.header, Code(structure.name), TILING_DATA_BYTES, STRUCTURE_BYTES)

    def assignment(self, name: str, value: Expr, text: int | str | None) -> AssignmentView:
        """Return the view of a size or field that an expression fills."""
        refusal = f"{self.op_type}: {name}: got no value that fits, expected {text}"
        return AssignmentView(lower_camel(name), cpp_expression(value, self.cpp_names), refusal)

    def guard(self, folder: str, what: str) -> str:
        """Return the include guard of a header."""
        return f"OPFORGE_GEN_{folder}_{self.name.upper()}_{what}_H"

    def source_guard(self, folder: str, what: str) -> str:
        """Return the include guard of a header that plan or kernel include."""
        return f"OPFORGE_GEN_{folder}_{self.source_name.upper()}_{what}_H"


@dataclass(frozen=True)
class TorchParameter:
    """A parameter of a function of PyTorch."""

    name: str
    may_be_left_out: bool


@dataclass(frozen=True)
class TorchInput:
    """An input of the operator, and its argument; a list of integers for a host list."""

    name: str
    argument: str
    is_list: bool


@dataclass(frozen=True)
class TorchAttr:
    """An attribute of the operator and its value in Python."""

    name: str
    kind: str
    value: Code


class TorchTargetView:
    """One function of PyTorch for the operator, in the form of its converter for torchair."""

    def __init__(self, op: OpView, target: TorchTarget) -> None:
        self.namespace, self.operator, _ = target.target.split(".")
        self.name = Code(target.target)
        self.function = f"convert_{target.target.replace('.', '_')}"
        arguments = {parameter: argument for argument, parameter in target.args.items()}
        optional = {tensor.name for tensor in op.inputs if tensor.optional}
        # A parameter with a default, and all after it, may be omitted.
        first = next((i for i, of in enumerate(target.args.values()) if of in optional), len(target.args))
        self.parameters = [TorchParameter(argument, i >= first) for i, argument in enumerate(target.args)]
        self.inputs = [TorchInput(t.ir_name, arguments.get(t.name, ""), t.host_values) for t in op.inputs]
        values = {
            name: repr(list(value) if isinstance(value, tuple) else value) for name, value in target.attrs.items()
        } | arguments
        self.attrs = [
            TorchAttr(attr.ir_name, op.spec.attr(attr.name).kind.torchair, Code(values[attr.name]))
            for attr in op.attrs
            if attr.name in values
        ]


class FunctionView:
    """One aclnn function."""

    def __init__(self, op: OpView, function: FunctionSpec) -> None:
        self.name = function.function
        self.const_stream = function.const_stream
        self.stem = f"aclnn_{snake_case(function.function.removeprefix('aclnn'))}"
        self.guard = f"OPFORGE_GEN_OP_API_{self.stem.upper()}_H"
        self.params = [ParamView(op, param) for param in aclnn_signature(op.spec, function.function)]
        by_name = {param.of: param for param in self.params}
        shared = {output: source.name for output, source in op.spec.in_place.items()}
        arguments = [ArgumentView(tensor, by_name.get(shared.get(tensor.name, tensor.name))) for tensor in op.tensors]
        self.given = [argument for argument in arguments if argument.is_given]
        self.inputs = [argument for argument in arguments if not argument.tensor.is_output]
        self.outputs = [argument for argument in arguments if argument.tensor.is_output]
        self.overwritten = [argument for argument in self.given if argument.tensor.is_overwritten]
        self.given_attrs = [(attr, by_name[attr.name]) for attr in op.attrs if attr.name in by_name]
        self.has_casts = any(argument.tensor.is_castable for argument in self.given)
        self.dfx_in = [param.name for param in self.params if param.kind != "output"]
        self.dfx_out = [param.name for param in self.params if param.kind in {"output", "in_place"}]


class ParamView:
    """One parameter of an aclnn function."""

    def __init__(self, op: OpView, param: Param) -> None:
        of = next(parameter for parameter in op.parameters if parameter.name == param.of)
        self.name = param.name
        self.of = param.of
        self.kind = param.kind
        self.c_type = Code(param.c_type)
        self.is_pointer = param.c_type.endswith("*")
        self.is_scalar = param.is_scalar
        self.direction = Code({"output": "out", "in_place": "in,out"}.get(param.kind, "in"))
        self.text = of.description or of.name
        if isinstance(of, TensorView) and of.optional:
            self.text += " May be null."


class ArgumentView:
    """A tensor of the operator and its parameter, if the function has one."""

    def __init__(self, tensor: TensorView, param: ParamView | None) -> None:
        self.tensor = tensor
        self.is_given = param is not None
        self.param = param.name if param else "nullptr"
