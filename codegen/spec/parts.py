"""Define the keys of a spec, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from opforge.codegen.data.dtypes import ANY_FORMAT, PUBLIC_FORMATS
from opforge.codegen.data.products import DEFAULT_ARCH
from opforge.codegen.expr.attr_kinds import ATTR_KINDS, SCALAR_TYPE, AttrKind

from .field_types import (
    LIST_TYPE,
    SCALAR_LIST_TYPE,
    TENSOR_LIST_TYPES,
    TENSOR_TYPES,
    TILING_DATA_BYTES,
    ArchitectureNumber,
    AttrDefault,
    AttrName,
    AttrType,
    Chinese,
    CName,
    CType,
    DeclaredDtype,
    Device,
    Directory,
    Dtype,
    FormatName,
    Int64,
    IrName,
    Label,
    Line,
    Mix,
    Name,
    OpType,
    PlanName,
    Product,
    RuleName,
    ScalarType,
    SpecModel,
    Status,
    TaskType,
    TensorIrName,
    Text,
    form,
)
from .section_parts import StatementSpec, TestsSpec, TorchSpec
from .shared_plans import SHARED_PLANS, SharedPlan


class ParameterSpec(SpecModel):
    """Common fields of all parameters of an operator.

    Attributes:
        ir: Its name in the graph IR; empty: `name`.
        chinese: Its term in the documents of CANN; used only on the operator page.
    """

    name: str
    ir: IrName = ""
    chinese: Chinese = ""
    description: Text = ""

    @property
    def ir_name(self) -> str:
        """The name in the graph IR."""
        return self.ir or self.name


class ValuesSpec(SpecModel):
    """Valid values of an input: an interval, or ranges of rows. Generated inputs have such values.

    Attributes:
        low: The least value; a number or an expression.
        high: The limit; it is excluded.
        ends_of: The input whose rows are divided into ranges; the values are the ascending ends of the ranges.
        lengths_when: The condition under which the values are the lengths of the ranges.
    """

    low: Int64 | float | Line | None = None
    high: Int64 | float | Line | None = None
    ends_of: Name | None = None
    lengths_when: Line | None = None


class TensorSpec(ParameterSpec):
    """An input or output.

    Attributes:
        optional: Whether it may be absent in a call.
        dynamic: Whether it is a list of tensors with one dtype. An optional list may be empty.
        count: The number of tensors in an output list; empty: the number in the input lists with the same symbols.
        scalar: Whether aclnn functions pass an input as aclScalar (`one`) or aclScalarList (`list`).
        dtypes: The dtypes of the kernel. With `dtype`, those of the tensor in `dtype`.
        dtype: The tensor whose dtype this one has, or None.
        casts: Additional dtypes of aclnn functions, with the dtype (one of `dtypes`) of the cast.
        mix: Whether aclnn functions accept a dtype that differs from the tensor in `dtype`. `promote`: if the
            dtypes differ, all inputs are cast to float32, and outputs from float32. `cast`: only this tensor is cast.
        formats: Storage formats that the rule `formats` accepts; `any` disables the check.
        values: Its valid values (inputs only).
        value_depend: Whether (or with which option) the graph engine gives the values to tiling, not to expressions.
        host_values: Whether aclnn functions accept an input as a list on the host; expressions can use its values.
        may_be_unread: Whether the kernel may leave an input unread; the CPU twin then prints no warning.
        overwritten: Whether an operator without outputs overwrites the input.
    """

    name: Name
    ir: TensorIrName = ""
    optional: bool = False
    dynamic: bool = False
    count: Int64 | Line | None = None
    scalar: Literal["one", "list"] | None = None
    dtypes: Annotated[tuple[Dtype, ...], Field(min_length=1)] = ()
    dtype: str | None = None
    casts: dict[Dtype, Dtype] = {}
    mix: Mix | None = None
    formats: Annotated[tuple[FormatName, ...], Field(min_length=1)] = PUBLIC_FORMATS
    values: ValuesSpec = ValuesSpec()
    value_depend: bool | Literal["optional", "required"] = False
    host_values: bool = False
    may_be_unread: bool = False
    overwritten: bool = False

    @property
    def c_types(self) -> tuple[str, ...]:
        """Its C types in aclnn functions: first as an output, then as an input; one type if it is always an input."""
        if self.host_values:
            return (LIST_TYPE,)
        if self.scalar:
            return (SCALAR_TYPE if self.scalar == "one" else SCALAR_LIST_TYPE,)
        return TENSOR_LIST_TYPES if self.dynamic else TENSOR_TYPES

    @property
    def takes_any_format(self) -> bool:
        """Return whether the rule `formats` does not apply to the tensor."""
        return self.host_values or self.scalar is not None or ANY_FORMAT in self.formats


class AttrSpec(ParameterSpec):
    """An attribute; without a default it is required."""

    name: AttrName
    type: AttrType
    default: AttrDefault | None = None

    @property
    def kind(self) -> AttrKind:
        """The row of its type in `ATTR_KINDS`."""
        return ATTR_KINDS[self.type]


class CaseSpec(SpecModel):
    """Shapes under a condition; dims are integers or expressions over symbols."""

    name: Name
    when: Line = "true"
    shapes: dict[str, tuple[Int64 | Line, ...]]


class ConstraintSpec(SpecModel):
    """A labelled rule: either a built-in one (`rule`) or a condition (`check`) about `subject`.

    Attributes:
        case: The only case in which the rule applies.
        products: The only products to which the rule applies; it is skipped if the product is not known.
    """

    label: Label
    status: Status
    rule: RuleName | None = None
    check: Line | None = None
    case: str | None = None
    products: tuple[Product, ...] = ()
    subject: str | None = None
    expected: Line | None = None


class FunctionSpec(SpecModel):
    """An aclnn function and its parameters in order.

    Attributes:
        function: Its name.
        params: C name -> input, attribute or output. Attributes that are not listed have their default.
        types: C types that differ from the default.
        const_stream: Whether the function that starts the kernel declares the stream as const.
    """

    function: Annotated[
        str, form(r"^aclnn[A-Z][A-Za-z0-9]*$", "'aclnn' and a name in CamelCase, as in 'aclnnScaledSum'", 100)
    ]
    params: dict[CName, str]
    types: dict[str, CType] = {}
    const_stream: bool = False


class OnnxSpec(SpecModel):
    """The operator in ONNX models.

    Attributes:
        bodies: The computation of a node in standard operators, by case.
        aliases: Additional names of nodes, in version 1 of their domains.
    """

    bodies: dict[str, Text] = {}
    aliases: tuple[
        Annotated[str, form(r"^[a-z][\w.]*::[A-Z]\w*$", "a domain and a type, as in 'com.example::ScaledSum'", 160)],
        ...,
    ] = ()


class TilingField(SpecModel):
    """One field of the tiling data; with `count`, an array. `value` replaces the value of the plan."""

    name: Name
    type: ScalarType
    count: Annotated[int, Field(ge=1, le=TILING_DATA_BYTES)] | None = None
    value: Int64 | Line | None = None
    description: Text = ""


class TilingKey(SpecModel):
    """A tiling key and its arguments of the kernel class template. The first key whose `when` is true applies."""

    name: Annotated[str, form(r"^[A-Z][A-Za-z0-9]*$", "a name in CamelCase, as in 'FewRows'", 64)]
    key: Annotated[int, Field(ge=0, le=2**63 - 1)]
    when: Line | None = None
    template: tuple[bool | Int64 | str, ...] = ()


class PlanConstant(SpecModel):
    """An integer of a private plan, and the values that `opforge tune` tries."""

    name: Name
    value: Int64
    choices: Annotated[tuple[Int64, ...], Field(min_length=1, max_length=64)]
    description: Text = ""


class TilingStructure(SpecModel):
    """A structure of the kernel sources that is the tiling data.

    Attributes:
        header: The header that defines it, below op_kernel/; the host code includes it too.
        name: Its name, with its namespaces.
    """

    header: Annotated[
        str,
        form(r"^[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*\.h$", "a path of a header without '..', as in 'folder/tiling.h'", 200),
    ]
    name: Annotated[
        str, form(r"^[A-Za-z_]\w*(::[A-Za-z_]\w*)*$", "a C++ name, as in 'optiling::ScaledSumTilingData'", 200)
    ]


class TilingSpec(SpecModel):
    """The split of the work, and the tiling data of the kernel.

    Attributes:
        plan: A header of op_host/, or a shared plan (`shared_plans.SHARED_PLANS`); empty: `<op>_tiling.h`.
        work: The sizes that a shared plan needs, as expressions.
        architectures: The architectures (`__NPU_ARCH__`) that plan and kernel support.
        data: The fields of the tiling data; those of a shared plan precede them.
        structure: The tiling data of a private plan, if a header of the kernel defines it; `data` is then empty.
        constants: The integers of a private plan that `opforge tune` changes.
        own_entry: Whether the kernel header has the entry function, which reads the tiling data and selects a key.
    """

    task_type: TaskType = "AIV_ONLY"
    plan: PlanName = ""
    work: dict[str, Int64 | Line] = {}
    architectures: Annotated[tuple[ArchitectureNumber, ...], Field(min_length=1)] = (DEFAULT_ARCH,)
    data: tuple[TilingField, ...] = ()
    structure: TilingStructure | None = None
    keys: tuple[TilingKey, ...] = ()
    constants: tuple[PlanConstant, ...] = ()
    own_entry: bool = False

    @property
    def shared_plan(self) -> SharedPlan | None:
        """The shared plan, or None."""
        return SHARED_PLANS.get(self.plan)

    @property
    def fields(self) -> tuple[TilingField, ...]:
        """All fields of the tiling data in order."""
        filled = self.shared_plan.fields if self.shared_plan else ()
        return (*(TilingField(name=f.name, type=f.type, description=f.meaning) for f in filled), *self.data)


class SpecData(SpecModel):
    """One operator as in its spec, without derived properties.

    Attributes:
        formula: Equations in the language of opforge.codegen.expr.formula.
        forward_formula: Equations of the forward operator in this language; their left sides are single letters.
        determinism: The conditions under which equal calls give equal bits.
        notes: Further facts for its page.
        document: The statements of the CANN document.
        document_devices: The product series that the CANN document lists; empty if there is no document.
        definitions: Names of expressions, for constraints and tiling.
        configs: SoC directories that the OpDef also configures; opforge builds no kernels for them.
        combinations: The dtypes of the tensors with `dtypes` in each supported combination; empty: all combinations.
        declared_only: Whether only OpDef and REG_OP are generated, without shape inference, tiling and kernel.
        builtin: The op type and functions that also exist in CANN; a package replaces them.
    """

    op_type: OpType
    summary: Line
    formula: Line
    forward_formula: Line | None = None
    description: Text = ""
    determinism: Text = ""
    notes: tuple[Line, ...] = ()
    declared_only: bool = False
    document: tuple[StatementSpec, ...] = ()
    products: Annotated[tuple[Product, ...], Field(min_length=1)]
    document_devices: tuple[Device, ...] = ()
    builtin: tuple[Line, ...] = ()
    configs: tuple[Directory, ...] = ()
    combinations: dict[Name, Annotated[tuple[DeclaredDtype, ...], Field(min_length=1)]] = {}
    inputs: tuple[TensorSpec, ...]
    attrs: tuple[AttrSpec, ...] = ()
    outputs: tuple[TensorSpec, ...]
    cases: Annotated[tuple[CaseSpec, ...], Field(min_length=1)]
    definitions: dict[Name, Line] = {}
    constraints: Annotated[tuple[ConstraintSpec, ...], Field(min_length=1)]
    aclnn: tuple[FunctionSpec, ...] = ()
    onnx: OnnxSpec = OnnxSpec()
    torch: TorchSpec = TorchSpec()
    tiling: TilingSpec = TilingSpec()
    tests: TestsSpec = TestsSpec()

    @property
    def host_lists(self) -> tuple[TensorSpec, ...]:
        """The inputs with values on the host."""
        return tuple(tensor for tensor in self.inputs if tensor.host_values)

    @property
    def tensor_lists(self) -> tuple[TensorSpec, ...]:
        """The inputs and outputs that are lists of tensors."""
        return tuple(tensor for tensor in self.tensors if tensor.dynamic)

    @property
    def extended_tensors(self) -> str:
        """Name the parts that are not single required tensors: lists, scalars, overwritten inputs; empty: none."""
        found = {
            "lists of tensors": [tensor.name for tensor in self.tensor_lists],
            "scalars": [tensor.name for tensor in self.inputs if tensor.scalar],
            "optional outputs": [output.name for output in self.outputs if output.optional and not output.dynamic],
            "overwritten inputs": [tensor.name for tensor in self.overwritten],
        }
        texts = [f"{what} ({', '.join(names)})" for what, names in found.items() if names]
        return ", ".join([*texts, *(f"no {what}" for what in ("inputs", "outputs") if not getattr(self, what))])

    @property
    def has_op_def(self) -> bool:
        """Return whether OpDef can declare the operator."""
        return all(attr.kind.c_types for attr in self.attrs)

    @property
    def list_attrs(self) -> tuple[AttrSpec, ...]:
        """The attributes that are lists."""
        return tuple(attr for attr in self.attrs if attr.kind.is_list)

    @property
    def parameters(self) -> tuple[TensorSpec | AttrSpec, ...]:
        """Inputs, then attributes, then outputs."""
        return self.inputs + self.attrs + self.outputs

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    @property
    def in_place(self) -> dict[str, TensorSpec]:
        """The outputs in the memory of an input, with the input: both have one name in the graph IR."""
        inputs = {tensor.ir_name: tensor for tensor in self.inputs}
        return {output.name: inputs[output.ir_name] for output in self.outputs if output.ir_name in inputs}

    @property
    def overwritten(self) -> tuple[TensorSpec, ...]:
        """The inputs that an operator without outputs overwrites."""
        return tuple(tensor for tensor in self.inputs if tensor.overwritten)

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """The outputs, then the overwritten inputs."""
        return self.outputs + self.overwritten

    def tensor(self, name: str) -> TensorSpec:
        """Return the input or output called `name`; KeyError if there is none."""
        return {tensor.name: tensor for tensor in self.tensors}[name]

    def attr(self, name: str) -> AttrSpec:
        """Return the attribute called `name`; KeyError if there is none."""
        return {attr.name: attr for attr in self.attrs}[name]
