"""Create the example calls on an operator's page, from the test with the most inputs, in C++, Python and ONNX."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.escape import Code, cpp_string
from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.expr.evaluate import Environment, EvaluationError, evaluate
from opforge.codegen.expr.expr_text import documented_dtype
from opforge.codegen.expr.tree import element_name
from opforge.codegen.spec.call import parameter_of, shapes_of_test
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import TensorSpec
from opforge.codegen.spec.section_parts import TestShape
from opforge.codegen.spec.semantics import Call, environment_of

if TYPE_CHECKING:
    from .op_view import FunctionView, OpView, ParamView


@dataclass(frozen=True)
class Given:
    """A tensor of the call.

    Attributes:
        dims: Its dimensions.
        dtype: Its dtype.
        values: Its elements, if they are a list; None: they ascend from `first` and repeat after `period`.
        first: The first element.
        period: The number of different elements.
    """

    dims: tuple[int, ...]
    dtype: str
    values: tuple[int, ...] | None
    first: int = 1
    period: int = 7

    @property
    def acl_dtype(self) -> str:
        """The enumerator of aclDataType."""
        return f"ACL_{documented_dtype(self.dtype)}"

    @property
    def c_type(self) -> Code:
        """The C++ type of an element."""
        kernel = DTYPES[self.dtype].kernel
        return Code({"half": "aclFloat16", "bool": "uint8_t"}.get(kernel, kernel))

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.dims)


@dataclass(frozen=True)
class ParameterView:
    """A variable of the C++ program for a tensor or a list on the host; `label` is its name in the output."""

    name: str
    given: Given
    label: str


@dataclass(frozen=True)
class TensorListView:
    """A list of tensors in the C++ program."""

    name: str
    members: list[ParameterView]


@dataclass(frozen=True)
class InputView:
    """An input in the Python program: the tensors of a list, or one tensor."""

    name: str
    givens: list[Given]
    is_list: bool


@dataclass(frozen=True)
class ArrayView:
    """A list attribute of the call: its aclnn structure and its items in C++."""

    name: str
    array: Code
    items: list[Code]

    @property
    def make(self) -> Code:
        """The function that makes the structure."""
        return Code(f"aclCreate{self.array.removeprefix('acl')}")

    @property
    def destroy(self) -> Code:
        """The function that frees it."""
        return Code(f"aclDestroy{self.array.removeprefix('acl')}")

    @property
    def item(self) -> Code:
        """The type of an item."""
        return Code({"aclIntArray": "int64_t", "aclFloatArray": "float", "aclBoolArray": "bool"}[self.array])

    @property
    def second(self) -> Code:
        """The second argument of `make`."""
        return Code(len(self.items))


@dataclass(frozen=True)
class ScalarView(ArrayView):
    """A scalar object of the call for an attribute, created from an array of one item."""

    kind: str = "float"

    @property
    def item(self) -> Code:
        """The type of the item."""
        return Code({"int": "int64_t", "float": "float", "bool": "bool"}[self.kind])

    @property
    def second(self) -> Code:
        """The aclDataType."""
        return Code({"int": "ACL_INT64", "float": "ACL_FLOAT", "bool": "ACL_BOOL"}[self.kind])


@dataclass(frozen=True)
class ArgumentText:
    """An argument of the C++ call; a negative number for a parameter without sign is wrapped."""

    text: Code
    is_wrapped: bool = False


class ExampleView:
    """One problem, as calls in three languages."""

    def __init__(self, op: OpView, test: TestShape) -> None:
        spec = op.spec
        self.all_attrs: dict[str, AttrValue] = {
            a.name: a.default for a in spec.attrs if a.default is not None
        } | test.attrs
        shapes = shapes_of_test(spec.program, test, {attr.name: attr for attr in spec.attrs})
        counts = Counter(parameter_of(name) for name in shapes)
        environment = environment_of(spec, Call(shapes, attrs=self.all_attrs))
        self.given = {
            name: _given(spec, name, shapes, test.values.get(name), environment)
            for tensor in spec.tensors
            if tensor.name in counts and (tensor.name in test.values or not tensor.host_values)
            for name in _names(tensor, counts)
        }
        self.has_halves = any(given.dtype == "float16" for given in self.given.values())
        self.inputs = [
            InputView(tensor.name, [self.given[name] for name in names], tensor.dynamic)
            for tensor in spec.inputs
            if (names := [name for name in _names(tensor, counts) if name in self.given])
        ]
        self.outputs = [(result.name, result.dynamic) for result in spec.results]
        self.attrs = [(name, Code(repr(value))) for name, value in sorted(test.attrs.items())]
        names = [name if name in self.given else "" for tensor in spec.inputs for name in _names(tensor, counts)]
        while names and not names[-1]:
            names.pop()
        self.onnx_inputs = [_variable(name) for name in names]
        self.onnx_outputs = [_variable(name) for output in spec.outputs for name in _names(output, counts)]
        self.list_sizes = [counts[name] for name in spec.program.lists] if op.needs_list_sizes else []
        self._function(spec, op.functions[0], {attr.name for attr in op.attrs if attr.is_required} | set(test.attrs))

    def _function(self, spec: OpSpec, function: FunctionView, set_attrs: set[str]) -> None:
        """Set the values for the call of an aclnn function; a text that is not set is null, the default."""
        self.header = Code(f"aclnnop/{function.stem}.h")
        self.function = function.name
        given: list[tuple[str, ParameterView]] = []
        self.tensor_lists: list[TensorListView] = []
        for param in function.params:
            if param.of in self.given and param.kind != "scalar":
                given.append((param.kind, ParameterView(param.name, self.given[param.of], param.name)))
            elif param.of in spec.program.lists:
                tensors = [of for name, of in self.given.items() if parameter_of(name) == param.of]
                members = [
                    ParameterView(f"{param.name}Tensor{i}", of, element_name(param.name, i))
                    for i, of in enumerate(tensors)
                ]
                given += [(param.kind, member) for member in members]
                self.tensor_lists += [TensorListView(param.name, members)] if members else []
        self.tensors = [parameter for kind, parameter in given if kind != "host_list"]
        self.lists = [parameter for kind, parameter in given if kind == "host_list"]
        self.results = [parameter for kind, parameter in given if kind in {"output", "in_place"}]
        self.texts = [
            (param.name, cpp_string(str(self.all_attrs[param.of])))
            for param in function.params
            if param.c_type == "char *" and param.of in set_attrs
        ]
        kinds = {attr.name: attr.kind for attr in spec.list_attrs}
        self.arrays: list[ArrayView] = [
            ArrayView(param.name, Code(kinds[param.of].array), _items(self.all_attrs[param.of]))
            for param in function.params
            if param.of in kinds and param.of in set_attrs
        ]
        self.arrays += [
            ScalarView(param.name, Code("aclScalar"), _items(self.all_attrs[param.of]), spec.attr(param.of).type)
            for param in function.params
            if param.is_scalar and param.of in set_attrs
        ]
        scalars = {tensor.name: tensor.scalar for tensor in spec.inputs if tensor.scalar}
        made = [
            ScalarView(param.name, Code("aclScalar"), _numbers(self.given[param.of]), _kind(self.given[param.of]))
            for param in function.params
            if param.of in scalars and param.of in self.given
        ]
        of = {param.name: param.of for param in function.params}
        self.arrays += [scalar for scalar in made if scalars[of[scalar.name]] == "one"]
        self.scalar_lists = [scalar for scalar in made if scalars[of[scalar.name]] == "list"]
        made_lists = [part.name for part in self.tensor_lists] + [part.name for part in self.scalar_lists]
        self.objects = {*dict(self.texts), *(array.name for array in self.arrays), *made_lists}
        self.arguments = [self._argument(param) for param in function.params]

    def _argument(self, param: ParamView) -> ArgumentText:
        if param.name in self.objects:
            return ArgumentText(Code(param.name))
        if param.of in self.given:
            return ArgumentText(Code(param.name if param.kind == "host_list" else f"{param.name}.view"))
        if param.kind != "attr" or param.is_pointer:
            return ArgumentText(Code("nullptr"))
        text = str(self.all_attrs[param.of]).lower()
        return ArgumentText(Code(text), text.startswith("-") and param.c_type == "uint64_t")


def example_of(op: OpView) -> ExampleView | None:
    """Return the example of an operator; None if its spec has no test or no function."""
    tests = [test for test in op.spec.tests.shapes if test.note != "one element"]
    if not (tests and op.functions):
        return None
    return max((ExampleView(op, test) for test in tests), key=lambda example: len(example.inputs))


def _names(tensor: TensorSpec, counts: Mapping[str, int]) -> list[str]:
    """Return the name of a tensor; of a list, those of its tensors."""
    return [element_name(tensor.name, i) for i in range(counts[tensor.name])] if tensor.dynamic else [tensor.name]


def _variable(name: str) -> str:
    """Return the name of a tensor as an identifier: `x_0` for `x[0]`."""
    return name.replace("[", "_").removesuffix("]")


def _kind(given: Given) -> str:
    """Return the kind of a scalar."""
    return "bool" if given.dtype == "bool" else "float" if "float" in given.dtype else "int"


def _numbers(given: Given) -> list[Code]:
    """Return the elements of a scalar input in C++."""
    numbers = [given.first + i % given.period for i in range(given.count)] if given.values is None else given.values
    return _items(tuple(bool(number) if given.dtype == "bool" else number for number in numbers))


def _items(value: AttrValue) -> list[Code]:
    """Return the items of a list in C++; a single value is one item."""
    items = value if isinstance(value, tuple) else (value,)
    return [Code(str(item).lower() if isinstance(item, bool) else repr(item)) for item in items]


def _dtype_of(spec: OpSpec, tensor: TensorSpec) -> str:
    """Return the dtype of a tensor: float32 if it is supported, else the first one that NumPy supports."""
    own = (spec.tensor(tensor.dtype) if tensor.dtype else tensor).dtypes
    return "float32" if "float32" in own else next((dtype for dtype in own if dtype != "bfloat16"), "float32")


def _given(
    spec: OpSpec,
    name: str,
    shapes: Mapping[str, tuple[int, ...]],
    values: tuple[int, ...] | None,
    environment: Environment,
) -> Given:
    """Return a tensor with valid elements; those of an output are zeros."""
    tensor = spec.tensor(parameter_of(name))
    dims, dtype = shapes[name], _dtype_of(spec, tensor)
    if tensor in spec.outputs:
        return Given(dims, dtype, None, 0, 1)
    valid = spec.program.values.get(tensor.name)
    if values is not None or valid is None:
        return Given(dims, dtype, values)
    if valid.ends_of:
        rows, count = shapes[valid.ends_of][0], math.prod(dims)
        ends = [rows * (index + 1) // count for index in range(count)]
        is_lengths = evaluate(valid.lengths, environment) is True
        return Given(
            dims, dtype, tuple(end - start for start, end in pairwise([0, *ends])) if is_lengths else tuple(ends)
        )
    with suppress(EvaluationError):
        match [evaluate(bound, environment) for bound in valid.bounds or ()]:
            case [int(low), int(high)] if high > low:
                return Given(dims, dtype, None, low, high - low)
    return Given(dims, dtype, None)
