"""Define drafts: the properties of an operator in a source, each with its line."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from opforge.codegen.data.dtypes import CANN_DTYPES, DECLARED_DTYPES
from opforge.codegen.data.names import attribute_problem, lower_camel, parameter_problem, snake_case
from opforge.codegen.expr.attr_kinds import ATTR_KINDS, is_float32

from .tiling.structures import Field

REQUIRED, OPTIONAL, DYNAMIC = "required", "optional", "dynamic"
# The kinds of sources with combinations of dtypes; others have a set for each tensor.
NODE = "ONNX node"
COMBINED_KINDS = ("OpDef", "msOpGen JSON", NODE, "spec")
# Words of CANN sources and documents -> words of specs, in lower case.
DTYPE_WORDS = {
    **{dtype.ge.removeprefix("DT_").lower(): dtype.name for dtype in CANN_DTYPES},
    **{dtype.name: dtype.name for dtype in CANN_DTYPES},
    **{ge.removeprefix("DT_").lower(): name for name, ge in DECLARED_DTYPES.items()},
    **{dtype.ops_info: dtype.name for dtype in CANN_DTYPES if dtype.ops_info},
    **{short: dtype.name for dtype in CANN_DTYPES for short in dtype.short},
}
# The enumerators of ge::DataType as integers.
DTYPE_NUMBERS = {dtype.ge: dtype.number for dtype in CANN_DTYPES}
# Types of attributes in REG_OP and OpDef -> types of specs.
ATTR_TYPES = {kind.ge: kind.name for kind in ATTR_KINDS.values()}
# The letters of a name in a spec.
MOST_NAME = 48
# The limits of default values in codegen/spec/field_types.py.
_MOST_ITEMS, _MOST_DEFAULT = 64, 1000
# A number; ("dim", input, index); ("attr", index).
Dim = int | tuple[str, int] | tuple[str, int, int]
# The input whose shape an output has, or the dimensions.
Shape = int | tuple[Dim, ...]


@dataclass(frozen=True)
class Note:
    """A statement of the source that did not become a part of the spec."""

    line: int
    text: str


@dataclass(frozen=True)
class TensorDraft:
    """An input or output.

    Attributes:
        name: Its name in the graph IR.
        option: `required`, `optional` or `dynamic`.
        dtypes: Its dtype in each supported combination; empty if the source does not state them.
        formats: Its storage format in each combination.
        value_depend: Whether the host needs the values (`required`), or uses them if they are constants (`optional`).
        scalar: `one` or `list`: aclnn functions pass it as aclScalar or aclScalarList; else empty.
        is_overwritten: Whether an operator without outputs overwrites it.
        ranks: The minimum and the maximum number of dimensions, if the source states them.
        line: Its line.
        description: A text for the page.
        c_name: Its name in the aclnn function, if the source states it.
    """

    name: str
    option: str = REQUIRED
    dtypes: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    value_depend: str = ""
    scalar: str = ""
    is_overwritten: bool = False
    ranks: tuple[int, int] | None = None
    line: int = 0
    description: str = ""
    c_name: str = ""


@dataclass(frozen=True)
class AttrDraft:
    """An attribute.

    Attributes:
        name: Its name in the graph IR.
        type: A type of specs.
        default: Its default value; None if it is required.
        line: Its line.
        description: A text for the page.
        c_name: Its name in the aclnn function, if the source states it.
        c_type: Its C type there.
    """

    name: str
    type: str
    default: bool | float | str | tuple[bool | float | str, ...] | None = None
    line: int = 0
    description: str = ""
    c_name: str = ""
    c_type: str = ""

    @property
    def default_problem(self) -> str:
        """Return why a spec cannot have the default value; empty: it can."""
        items = self.default if isinstance(self.default, tuple) else (self.default,)
        if len(items) > _MOST_ITEMS:
            return f"a list of {len(items)} items"
        texts = [item for item in items if isinstance(item, str)]
        if any(not text.isprintable() for text in texts):
            return "a text with control characters"
        if self.type.endswith("float") and not all(is_float32(item) for item in items if isinstance(item, int | float)):
            return "a number that has no value in 32 bits"
        return "a long text" if any(len(text) > _MOST_DEFAULT for text in texts) else ""


@dataclass(frozen=True)
class FieldDraft:
    """A field of the tiling data; with `count` an array."""

    name: str
    type: str
    count: int | None = None
    line: int = 0


@dataclass(frozen=True)
class RuleDraft:
    """A sentence of a document that became a constraint."""

    check: str
    subject: str
    expected: str
    line: int
    text: str


@dataclass(frozen=True)
class OperatorDraft:
    """An operator as a source describes it.

    Attributes:
        op_type: Its type.
        place: The file with the line.
        kind: The kind of the source, for messages.
        products: SoC directories.
        function: Its aclnn function, with the parameters in order, if the source states it.
        summary: Its effect in one line, if the source states it.
        fields: The tiling data.
        structures: The fields of the structures of tiling data by name, in the order of their definition.
        structure: The one that the operator has.
        shapes: The shapes of outputs, by position: that of an input, or dimensions.
        tiling: Further lines of the section `tiling`, from an imported kernel.
        rules: Sentences that became constraints.
        stated: Return codes that built-in rules of specs have, with the rule.
        notes: Statements that did not become a part of the draft.
        functions: The parameters of all aclnn functions of a spec, by function.
        is_partial: Whether statements of the source were not read, so that it may have more tensors.
        aliases: Additional names of nodes in ONNX models.
    """

    op_type: str
    place: str
    kind: str
    inputs: tuple[TensorDraft, ...] = ()
    outputs: tuple[TensorDraft, ...] = ()
    attrs: tuple[AttrDraft, ...] = ()
    products: tuple[str, ...] = ()
    function: str = ""
    order: tuple[str, ...] = ()
    summary: str = ""
    fields: tuple[FieldDraft, ...] = ()
    structures: tuple[tuple[str, tuple[Field, ...]], ...] = ()
    structure: str = ""
    shapes: tuple[tuple[int, Shape], ...] = ()
    tiling: tuple[str, ...] = ()
    rules: tuple[RuleDraft, ...] = ()
    stated: tuple[tuple[str, Note], ...] = ()
    notes: tuple[Note, ...] = ()
    is_partial: bool = False
    functions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[TensorDraft, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    def has_position(self, tensors: tuple[TensorDraft, ...], number: int) -> bool:
        """Return whether a position in shape inference is that of a required tensor: lists before it move it."""
        is_certain = not self.is_partial and all(tensor.option != DYNAMIC for tensor in tensors[:number])
        return is_certain and number < len(tensors) and tensors[number].option == REQUIRED

    def without_repeats(self) -> OperatorDraft:
        """Return the draft without parameters that have the name of another one; outputs may have names of inputs."""
        inputs = {tensor.name: tensor for tensor in reversed(self.inputs)}
        outputs = {tensor.name: tensor for tensor in reversed(self.outputs)}
        attrs = {attr.name: attr for attr in reversed(self.attrs) if attr.name not in {**inputs, **outputs}}
        kept: list[TensorDraft | AttrDraft] = [*inputs.values(), *outputs.values(), *attrs.values()]
        every: list[TensorDraft | AttrDraft] = [*self.tensors, *self.attrs]
        others = [one for one in every if not any(one is parameter for parameter in kept)]
        if not others:
            return self
        text = "another parameter has this name, so the draft does not have it"
        return replace(
            self,
            inputs=tuple(reversed(inputs.values())),
            outputs=tuple(reversed(outputs.values())),
            attrs=tuple(reversed(attrs.values())),
            notes=(*self.notes, *(Note(one.line, f"parameter {one.name}: {text}") for one in others)),
        )

    @property
    def in_place(self) -> dict[str, TensorDraft]:
        """The inputs that the operator overwrites, by their name, which is also that of an output."""
        outputs = {output.name for output in self.outputs}
        return {tensor.name: tensor for tensor in self.inputs if tensor.name in outputs}

    @property
    def overwritten(self) -> set[str]:
        """The names of the inputs that the operator overwrites, with or without an output."""
        return {*self.in_place, *(tensor.name for tensor in self.inputs if tensor.is_overwritten)}

    @property
    def results(self) -> tuple[TensorDraft, ...]:
        """The outputs, or the overwritten inputs of an operator without outputs."""
        return self.outputs or tuple(tensor for tensor in self.inputs if tensor.is_overwritten)

    @property
    def declared_reason(self) -> str:
        """Return why a spec can only declare the operator; empty: it can describe the operator completely."""
        if self.is_partial and not (self.inputs and self.outputs):
            return f"no {'outputs' if self.inputs else 'inputs'} were read from the source"
        strings = [attr.name for attr in self.attrs if attr.type == "list_string"] if self.kind == "REG_OP" else []
        if strings:
            return f"{strings[0]} is a list of strings, which OpDef and aclnn functions do not have"
        sources = self.in_place
        return next(filter(None, (_difference(o, sources[o.name]) for o in self.outputs if o.name in sources)), "")

    @property
    def is_declared(self) -> bool:
        """Return whether a spec can only declare the operator."""
        return bool(self.declared_reason)


def _difference(output: TensorDraft, source: TensorDraft) -> str:
    """Return why a spec cannot state that an output is in the memory of an input; empty: it can."""
    if source.option == OPTIONAL or output.option != source.option:
        return f"{output.name} is an input ({source.option}) and an output ({output.option})"
    if source.value_depend:
        return f"{output.name} is an output, and its values are on the host"
    return "" if output.dtypes == source.dtypes else f"{output.name} has other dtypes as an output than as an input"


def number_of(value: float, kind: str) -> float | int | None:
    """Return a number as a value of the type `int` (64 bits) or `float` (finite); None if it is not one."""
    try:
        number = int(value) if kind == "int" else float(value)
    except (OverflowError, ValueError):
        return None
    if kind == "int":
        return number if -(2**63) <= number < 2**63 else None
    return number if math.isfinite(number) else None


def dtype_word(text: str) -> str | None:
    """Return the dtype of specs for a word of a source, or None."""
    return DTYPE_WORDS.get(text.strip().lower().removeprefix("ge::").removeprefix("dt_"))


def spec_names(draft: OperatorDraft) -> dict[str, str]:
    """Return the spec names by graph IR names: snake case, not used by generated code, and different in C++ too."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    parameters: list[TensorDraft | AttrDraft] = [*draft.inputs, *draft.attrs, *draft.outputs]
    for parameter in parameters:
        refusal = attribute_problem if isinstance(parameter, AttrDraft) else parameter_problem
        name = "_".join(re.findall("[a-z0-9]+", snake_case(parameter.name)))[:MOST_NAME].strip("_") or "value"
        if name[0].isdigit():
            name = f"value_{name}"
        names[key_of(draft, parameter)] = found = free_name(name, "_value", "_", refusal, taken)
        taken.add(lower_camel(found))
    return names


def free_name(name: str, suffix: str, joint: str, refusal: Callable[[str], str | None], taken: Collection[str]) -> str:
    """Return `name`, or `name` with `suffix` or a number if generated code uses the name or it is `taken`."""
    # YAML reads the word null as no value.
    taken = {*taken, "null"}
    names = itertools.chain((name, f"{name}{suffix}"), (f"{name}{joint}{number}" for number in itertools.count(2)))
    return next(other for other in names if not refusal(other) and lower_camel(other) not in taken)


def key_of(draft: OperatorDraft, parameter: TensorDraft | AttrDraft) -> str:
    """Return the key of a parameter in the names: an output may have the name of an input."""
    is_output = isinstance(parameter, TensorDraft) and any(parameter is output for output in draft.outputs)
    return f"{'output ' if is_output else ''}{parameter.name}"
