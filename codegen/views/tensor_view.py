"""Prepare inputs, outputs and attributes for the templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opforge.codegen.data.dtypes import DECLARED_DTYPES, DTYPES
from opforge.codegen.data.names import lower_camel, upper_camel
from opforge.codegen.escape import Code, cpp_string
from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.expr.cpp import CppNames, cpp_expression, int64_literal
from opforge.codegen.expr.value_text import value_text
from opforge.codegen.spec.checker import accepted_dtypes, kernel_dtypes
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import AttrSpec, TensorSpec

from .facts import declared_columns

# The names of an expression in generated host code.
CPP_NAMES = CppNames(
    symbol=lambda name: f"symbols.{name}",
    attribute=lambda name: f"call.{lower_camel(name)}",
    argument=lambda name: f"call.{lower_camel(name)}",
)


def _plan_dtypes(dtypes: Sequence[str]) -> list[str]:
    return [DTYPES[dtype].plan for dtype in dtypes]


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
        self.host_values = tensor.host_values
        self.scalar = {"one": "Scalar", "list": "ScalarList"}.get(tensor.scalar or "", "")
        self.is_list = tensor.dynamic
        self.is_optional = Code(str(tensor.optional).lower())
        self.handle = "aclTensorList" if tensor.dynamic else "aclTensor"
        self.count_text = str(tensor.count)
        count = spec.program.counts.get(tensor.name)
        self.count = None if count is None else cpp_expression(count, CPP_NAMES)
        source = spec.in_place.get(tensor.name) if is_output else None
        # The input that shares its memory.
        self.in_place = Leader(spec, source) if source else None
        self.is_overwritten = tensor.overwritten
        self.is_value_dependent = tensor.host_values or bool(tensor.value_depend)
        self.value_option = Code(
            str(tensor.value_depend).upper() if isinstance(tensor.value_depend, str) else self.option
        )
        # Enumerators of opforge::DataType; empty: the dtype is that of `leader`.
        self.kernel_dtypes = _plan_dtypes(kernel_dtypes(spec, tensor))
        self.accepted_dtypes = _plan_dtypes(accepted_dtypes(spec, tensor))
        self.format_enumerators = [f"k{name.title().replace('_', '')}" for name in tensor.formats]
        self.casts = [tuple(_plan_dtypes(pair)) for pair in tensor.casts.items()]

    @property
    def presence(self) -> str:
        """`Optional` or `Required`, as in the getters of the contexts."""
        return "Optional" if self.optional else "Required"

    @property
    def reader(self) -> str:
        """The function that reads it from the arguments of an aclnn function."""
        if self.host_values:
            return "ReadList"
        return f"Read{self.scalar}Input" if self.scalar else "ReadTensors" if self.is_list else "ReadTensor"

    @property
    def dense(self) -> Code:
        """The function that returns the tensor of the kernel for an argument of an aclnn function."""
        if self.host_values:
            return Code("opforge::TensorOf")
        return Code("opforge::DenseTensors" if self.is_list else "l0op::Contiguous")

    @property
    def option(self) -> str:
        """The enumerator of ops::Option."""
        return "DYNAMIC" if self._tensor.dynamic else self.presence.upper()

    @property
    def reg_op(self) -> str:
        """The REG_OP clause that declares it."""
        word = "OUTPUT" if self.is_output else "INPUT"
        if self._tensor.dynamic:
            return f"DYNAMIC_{word}"
        return f"OPTIONAL_{word}" if self.optional and not self.is_output else word

    @property
    def ge_dtypes(self) -> list[str]:
        """Enumerators of ge::DataType that it accepts."""
        own = dict.fromkeys(declared_columns(self._spec)[self.name]) if self._spec.combinations else self.dtypes
        return [DECLARED_DTYPES[dtype] for dtype in own]

    @property
    def is_free(self) -> bool:
        """Return whether it is an output whose dtype depends on the dtype combination."""
        return self.is_output and self._tensor.dtype is None and len(self.dtypes) > 1

    @property
    def ge_columns(self) -> list[str]:
        """One enumerator of ge::DataType per supported combination."""
        return [DECLARED_DTYPES[dtype] for dtype in declared_columns(self._spec)[self.name]]

    @property
    def direction(self) -> str:
        """The method of OpDef that declares it."""
        return "Output" if self.is_output else "Input"

    @property
    def presence_text(self) -> str:
        """`required`, `optional` or `dynamic`."""
        return self.option.lower()

    @property
    def leader(self) -> Leader | None:
        """The tensor whose dtype it has."""
        return None if self._tensor.dtype is None else Leader(self._spec, self._spec.tensor(self._tensor.dtype))

    @property
    def is_castable(self) -> bool:
        """Return whether aclnn functions accept dtypes that kernels do not."""
        return bool(self._tensor.casts) or self._tensor.mix is not None or self.decides

    @property
    def decides(self) -> bool:
        """Return whether its dtype, with those of other tensors, selects the dtype in which a kernel computes."""
        return any(tensor.dtype == self.name and tensor.mix == "promote" for tensor in self._spec.tensors)

    @property
    def is_alone(self) -> bool:
        """Return whether no other tensor affects the dtype in which kernels receive it."""
        return self._tensor.dtype is None and not self.decides

    @property
    def promoted(self) -> list[str]:
        """Return the arguments whose dtypes together determine the dtype in kernels."""
        return [lower_camel(tensor.name) for tensor in self._spec.promoted(self._tensor.dtype or self.name)]


class Leader:
    """The input whose dtype or memory another tensor has."""

    def __init__(self, spec: OpSpec, tensor: TensorSpec) -> None:
        self.index = spec.inputs.index(tensor)
        self.camel = lower_camel(tensor.name)
        self.is_list = tensor.dynamic


class AttrView:
    """An attribute.

    Args:
        attr: The spec of the attribute.
        index: Its position.
        implied: The value that PyTorch's function has instead of the attribute; None if there is no such function.
    """

    def __init__(self, attr: AttrSpec, index: int, implied: AttrValue | None = None) -> None:
        self._attr = attr
        self._onnx_default = attr.default if implied is None else implied
        self.index = index
        self.name = attr.name
        self.ir_name = attr.ir_name
        self.camel = lower_camel(attr.name)
        self.type = attr.type
        self.is_list = attr.kind.is_list
        self.array = Code(attr.kind.array)
        self.description = attr.description
        self.is_required = attr.default is None

    @property
    def c_type(self) -> Code:
        """Its type in plans and checks."""
        return Code(self._attr.kind.cpp)

    @property
    def l0_type(self) -> Code:
        """Return its type in the launch function that aclnn functions share."""
        return Code(f"const {self.array}*") if self.is_list else self.c_type

    @property
    def ge_type(self) -> str:
        """Its type in REG_OP, and its setter in OpDef."""
        return self._attr.kind.ge

    @property
    def getter(self) -> Code:
        """Its getter in gert::RuntimeAttrs."""
        return Code(self._attr.kind.getter)

    @property
    def option(self) -> str:
        """The enumerator of ops::Option."""
        return "REQUIRED" if self.is_required else "OPTIONAL"

    @property
    def reg_op(self) -> str:
        """The REG_OP clause that declares it."""
        return "REQUIRED_ATTR" if self.is_required else "ATTR"

    @property
    def onnx_type(self) -> Code:
        """The C++ type in which the ONNX plugin reads it."""
        return Code(
            {"string": "std::string", "bool": "int64_t", "list_bool": "std::vector<int64_t>"}.get(
                self.type, self.c_type
            )
        )

    @property
    def onnx_default(self) -> Code:
        """Return the initial value in the ONNX plugin."""
        return self._literal(self._onnx_default, bool_word=lambda value: str(int(value)))

    @property
    def is_required_in_onnx(self) -> bool:
        """Return whether the ONNX plugin rejects a node without it."""
        return self._onnx_default is None

    @property
    def onnx_getter(self) -> str:
        """Its getter in opforge::OnnxNode."""
        return self._attr.kind.plugin

    @property
    def literal(self) -> Code:
        """The default as a C++ literal; zero for a required attribute."""
        return self._literal(self._attr.default)

    def _literal(
        self, default: AttrValue | None, bool_word: Callable[[bool], str] = lambda value: str(value).lower()
    ) -> Code:
        kind = self._attr.kind
        if isinstance(default, tuple):
            return Code(f"{{{', '.join(_scalar(kind.item, item, bool_word) for item in default)}}}")
        return Code("{}") if kind.is_list else _scalar(self.type, default, bool_word)

    @property
    def default_text(self) -> str:
        """The default for comments."""
        return "required" if self._attr.default is None else value_text(self._attr.default)


def _scalar(kind: str, value: AttrValue | None, bool_word: Callable[[bool], str]) -> Code:
    """Return a value of a scalar type as a C++ literal; zero for none."""
    if kind == "string":
        return cpp_string(str(value or ""))
    if kind == "bool":
        return Code(bool_word(bool(value)))
    number = value if isinstance(value, int | float) else 0
    if kind == "float":
        return Code(f"{float(number)!r}F")
    return Code(str(int(number))) if -(2**31) < number < 2**31 else int64_literal(int(number))
