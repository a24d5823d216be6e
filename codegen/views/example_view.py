"""The example calls on an operator's page: the test of its spec that gives the most inputs, in C++, Python and ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opforge.codegen.expr.expr_text import documented_dtype
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import TensorSpec, TestShape
from opforge.codegen.spec.semantics import shapes_of_test

from .escape import Code, cpp_string

if TYPE_CHECKING:
    from .op_view import FunctionView, OpView, ParamView

Value = bool | int | float | str


@dataclass(frozen=True)
class Given:
    """A tensor of the call: its dimensions, its dtype, and its values if it is a list on the host."""

    dims: tuple[int, ...]
    dtype: str
    values: tuple[int, ...] | None

    @property
    def python(self) -> Code:
        """The Python expression of it."""
        return Code(list(self.values) if self.values is not None else f"np.ones({self.dims}, np.{self.dtype})")

    @property
    def acl_dtype(self) -> str:
        """The enumerator of aclDataType."""
        return f"ACL_{documented_dtype(self.dtype)}"


@dataclass(frozen=True)
class ParameterView:
    """A parameter of the C++ function that has a tensor or a list."""

    name: str
    given: Given


@dataclass(frozen=True)
class ArgumentText:
    """An argument of the C++ call; a negative number for a parameter without sign is wrapped."""

    text: Code
    is_wrapped: bool = False


class ExampleView:
    """One problem, as calls in three languages."""

    def __init__(self, op: OpView, test: TestShape) -> None:
        spec = op.spec
        self._attrs: dict[str, Value] = {a.name: a.default for a in spec.attrs if a.default is not None} | test.attrs
        shapes = shapes_of_test(spec.program, test, {attr.name: attr for attr in spec.attrs})
        self._tensors = {
            tensor.name: Given(shapes[tensor.name], _dtype_of(spec, tensor), test.values.get(tensor.name))
            for tensor in spec.tensors
            if tensor.name in shapes and (tensor.name in test.values or not tensor.host_values)
        }
        self.inputs = [(t.name, self._tensors[t.name].python) for t in spec.inputs if t.name in self._tensors]
        self.outputs = [output.name for output in spec.outputs]
        self.attrs = [(name, Code(repr(value))) for name, value in sorted(test.attrs.items())]
        names = [tensor.name if tensor.name in self._tensors else "" for tensor in spec.inputs]
        while names and not names[-1]:
            names.pop()
        self.onnx_inputs = names
        self._function(op.functions[0], {attr.name for attr in op.attrs if attr.is_required} | set(test.attrs))

    def _function(self, function: FunctionView, set_attrs: set[str]) -> None:
        """What the call of an aclnn function is made of; a text that it does not set is null, its default."""
        self.header = Code(f"aclnnop/{function.stem}.h")
        self.function = function.name
        given = [
            (param.kind, ParameterView(param.name, self._tensors[param.of]))
            for param in function.params
            if param.of in self._tensors
        ]
        self.tensors = [parameter for kind, parameter in given if kind != "host_list"]
        self.lists = [parameter for kind, parameter in given if kind == "host_list"]
        self.texts = [
            (param.name, cpp_string(str(self._attrs[param.of])))
            for param in function.params
            if param.c_type == "char *" and param.of in set_attrs
        ]
        self.arguments = [self._argument(param) for param in function.params]

    def _argument(self, param: ParamView) -> ArgumentText:
        if param.of in self._tensors or param.name in dict(self.texts):
            return ArgumentText(Code(param.name))
        if param.kind != "attr" or param.c_type == "char *":
            return ArgumentText(Code("nullptr"))
        text = str(self._attrs[param.of]).lower()
        return ArgumentText(Code(text), text.startswith("-") and param.c_type == "uint64_t")


def example_of(op: OpView) -> ExampleView | None:
    """The example of an operator; None if its spec has no test or no function."""
    tests = [test for test in op.spec.tests.shapes if test.note != "one element"]
    if not (tests and op.functions):
        return None
    return max((ExampleView(op, test) for test in tests), key=lambda example: len(example.inputs))


def _dtype_of(spec: OpSpec, tensor: TensorSpec) -> str:
    """The first dtype of a tensor that NumPy has too."""
    own = spec.tensor(tensor.dtype) if tensor.dtype else tensor
    return next((dtype for dtype in own.dtypes if dtype != "bfloat16"), "float32")
