"""Writes training nodes of onnxruntime in standard operators: each is a formula, see the modules `lower_*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import Parameter, signature
from typing import Any

import numpy as np
from google.protobuf.message import Message
from numpy.typing import ArrayLike, NDArray
from onnx import AttributeProto, ModelProto, NodeProto, ValueInfoProto, helper

from opforge.codegen.printing import first_line, shown
from opforge.frontend.emit.dead import ReadCounts
from opforge.frontend.emit.opset import ATC_OPSETS, current_opset, opset_problem, write_opset
from opforge.frontend.ir.constants import NotConstant, int_attribute
from opforge.frontend.ir.graph import GraphView, Scope, key_text, node_name, normal_domain
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.value_types import DTYPE_WORDS, ELEMENT_TYPES, ValueType
from opforge.frontend.rules.rule import Context
from opforge.frontend.targets.atc_types import is_registered

MICROSOFT = "com.microsoft"
REPAIR = "fix the dims of the inputs first"
# The widest first.
FLOATS = ("float64", "float32", "bfloat16", "float16")
Key = tuple[str, str]
_ATTRIBUTE_TYPES = {
    int: AttributeProto.INT,
    type(None): AttributeProto.INT,
    float: AttributeProto.FLOAT,
    str: AttributeProto.STRING,
    list: AttributeProto.INTS,
}


class NotLowered(Exception):  # noqa: N818  # an answer, not a failure
    """Why a node stays: the condition that does not hold, with the values seen."""


def whole(dims: Iterable[int | None]) -> list[int] | None:
    """The sizes, if all are known."""
    sizes = list(dims)
    known = [dim for dim in sizes if dim is not None]
    return known if len(known) == len(sizes) else None


@dataclass(frozen=True)
class Value:
    """A value in a formula; arithmetic makes nodes, a number has the element type of the node that is lowered.

    Attributes:
        site: The node that is lowered.
        name: Its name.
        origin: What it is a cast of; "" for any other value.
    """

    site: Site
    name: str
    origin: str = ""

    def __add__(self, other: Value | float) -> Value:
        return self.site.op("Add", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self.site.op("Sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self.site.op("Sub", other, self)

    def __mul__(self, other: Value | float) -> Value:
        return self.site.op("Mul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Value | float) -> Value:
        return self.site.op("Div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.site.op("Div", other, self)

    @property
    def type(self) -> ValueType:
        """What is known of its type."""
        return self.site.context.types.of(self.site.scope, self.origin or self.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, as the model says or proves them."""
        sizes = whole(self.dims)
        if sizes is None:
            raise NotLowered(f"needs a known shape; {shown(self.name)} is {self.type}; {REPAIR}")
        return tuple(sizes)

    @property
    def dims(self) -> list[int | None]:
        """Its sizes as far as they are known."""
        if self.type.shape is None:
            raise NotLowered(f"needs a known rank; {shown(self.name)} is {self.type}")
        return list(self.type.shape)

    @property
    def rank(self) -> int:
        """Number of its axes."""
        return len(self.dims)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What the model calls its sizes; "" for one without a name."""
        return self.site.context.types.symbols(self.site.scope, self.origin or self.name) or ("",) * self.rank

    def dim(self, axis: int) -> int:
        """One of its sizes."""
        dim = self.dims[axis]
        if dim is None:
            raise NotLowered(f"needs a known dim {axis}; {shown(self.name)} is {self.type}; {REPAIR}")
        return dim

    def sum(self, axes: Iterable[int], *, keepdims: bool = False) -> Value:
        """Sum over axes; itself where there are none."""
        return self._reduced("ReduceSum", axes, keepdims=keepdims)

    def mean(self, axes: Iterable[int], *, keepdims: bool = True) -> Value:
        """Mean over axes; itself where there are none."""
        return self._reduced("ReduceMean", axes, keepdims=keepdims)

    def _reduced(self, op_type: str, axes: Iterable[int], *, keepdims: bool) -> Value:
        numbers = list(axes)
        return self.site.op(op_type, self, self.site.ints(numbers), keepdims=int(keepdims)) if numbers else self

    def reshape(self, *dims: int | None) -> Value:
        """The same elements in another shape; one dim may be -1 or unknown."""
        sizes = [-1 if dim is None else dim for dim in dims]
        if sizes.count(-1) > 1 or {-1, 0} <= set(sizes):
            raise NotLowered(f"needs a known shape; {shown(self.name)} is {self.type}; {REPAIR}")
        # Without the flag a 0 stands for the dim that was there.
        more = {"allowzero": 1} if 0 in sizes else {}
        return self.site.op("Reshape", self, self.site.ints(sizes), **more)

    def unsqueeze(self, axis: int) -> Value:
        """The same elements with one axis more."""
        return self.site.op("Unsqueeze", self, self.site.ints([axis]))

    def transpose(self, *perm: int) -> Value:
        """Its axes in another order."""
        return self if list(perm) == sorted(perm) else self.site.op("Transpose", self, perm=list(perm))


class Site:
    """One node that is being lowered.

    Attributes:
        context: The model.
        scope: Graph of the node.
        node: The node.
        nodes: Its replacement so far.
        overwritten: Values that take the place of inputs over which the node writes, by name of the input.
    """

    def __init__(self, context: Context, scope: Scope, node: NodeProto) -> None:
        self.context = context
        self.scope = scope
        self.node = node
        self.nodes: list[NodeProto] = []
        self.overwritten: dict[str, Value] = {}

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute of the type of its default, texts decoded; a default of None stands for an absent integer."""
        given = next((entry for entry in self.node.attribute if entry.name == name), None)
        if given is None:
            return default
        wanted = _ATTRIBUTE_TYPES[type(default)]
        if given.type != wanted:
            got, expected = (AttributeProto.AttributeType.Name(kind) for kind in (given.type, wanted))
            raise NotLowered(f"has an attribute {name} of type {got}, expected {expected}")
        value = helper.get_attribute_value(given)
        return value.decode() if isinstance(value, bytes) else value

    @property
    def inputs(self) -> list[Value | None]:
        """Inputs, in the widest of their float types; None for an absent one."""
        return [self.widened(name) if name else None for name in self.node.input]

    @cached_property
    def floats(self) -> list[str]:
        """Float types of the inputs and the one that is asked for, the widest first."""
        values = [Value(self, name) for name in self.node.input if name]
        words = {value.type.dtype for value in values if not self._is_number(value)}
        words.add(DTYPE_WORDS.get(self.attribute("output_type", 0)))
        if {"float16", "bfloat16"} <= words:
            words.add("float32")
        return [word for word in FLOATS if word in words]

    @property
    def dtype(self) -> str:
        """Element type of the formula: the widest float type of the inputs, else that of a number or of an output."""
        if self.floats:
            return self.floats[0]
        names = (*self.node.input, *self.node.output)
        for name in filter(None, names):
            word = self.context.types.of(self.scope, name).dtype
            if word in FLOATS:
                return word
        raise NotLowered(f"needs a known float type; {shown(names[0])} has none")

    def widened(self, name: str) -> Value:
        """A value of the model, in the element type of the formula if it is a float of another one."""
        value = Value(self, name)
        if value.type.dtype not in FLOATS or self._is_number(value) or value.type.dtype == self.dtype:
            return value
        return replace(self.op("Cast", value, to=ELEMENT_TYPES[self.dtype]), origin=name)

    def narrowed(self, value: Value, name: str) -> Value:
        """A result in the float type of the output that it becomes, where that may be another one."""
        if len(self.floats) < 2:
            return value
        word = Value(self, name).type.dtype
        if word is None:
            raise NotLowered(f"has several float types, and nothing says which of them {shown(name)} has")
        is_cast = word in FLOATS and word != self.dtype
        return self.op("Cast", value, to=ELEMENT_TYPES[word]) if is_cast else value

    def op(self, op_type: str, *inputs: Value | float | None, **attributes: Any) -> Value:
        """The result of a standard node."""
        return self.ops(op_type, 1, *inputs, **attributes)[0]

    def ops(self, op_type: str, count: int, *inputs: Value | float | None, **attributes: Any) -> list[Value]:
        """The results of a standard node of several outputs."""
        names = [self._name(value) for value in inputs]
        results = [Value(self, self._fresh(op_type)) for _ in range(count)]
        self.nodes.append(helper.make_node(op_type, names, [value.name for value in results], **attributes))
        return results

    def ints(self, numbers: Iterable[int]) -> Value:
        """A list of int64."""
        return self.array(np.array(list(numbers), np.int64))

    def array(self, array: NDArray[Any]) -> Value:
        """A constant."""
        value = Value(self, self._fresh("constant"))
        self.nodes.append(constant(value.name, array))
        return value

    def number(self, number: float) -> Value:
        """A number of the element type of the node."""
        return self.numbers(number)

    def numbers(self, numbers: ArrayLike) -> Value:
        """Numbers of the element type of the node."""
        word = self.dtype
        if word != "bfloat16":
            return self.array(np.asarray(numbers, word))
        return self.op("Cast", self.array(np.asarray(numbers, np.float32)), to=ELEMENT_TYPES[word])

    def zeros(self, dims: Sequence[int | None], shape: Value | None, live: Value) -> Value:
        """Zeros of the element type of the node; made from integers that are no constant, where they are many.

        Args:
            dims: Their sizes as far as they are known.
            shape: A value that lists the sizes; needed where one is unknown.
            live: The integers.
        """
        sizes = whole(dims)
        if sizes is None:
            return self.op("Expand", 0.0, shape)
        if self.is_known(live):
            return self.numbers(np.zeros(sizes))
        least = self.op("ReduceMin", live, keepdims=0)
        return self.op("Expand", self.op("Cast", least - least, to=ELEMENT_TYPES[self.dtype]), self.ints(sizes))

    def is_known(self, value: Value) -> bool:
        """Whether a value is the same in every run."""
        try:
            self.known(value)
        except NotLowered:
            return False
        return True

    def known(self, value: Value) -> NDArray[Any]:
        """What a value is in every run."""
        try:
            return self.context.constants.value(self.scope, value.name)
        except NotConstant as reason:
            raise NotLowered(f"needs a constant; {shown(value.name)} {reason}") from reason

    def sizes(self, value: Value) -> list[int | None]:
        """The sizes that a value lists, as far as they are known."""
        maker = self.maker(value)
        if maker is not None and _key(maker) == ("", "Shape"):
            first, end = int_attribute(maker, "start") or 0, int_attribute(maker, "end")
            return Value(self, maker.input[0]).dims[first:end]
        return [int(size) for size in self.known(value)]

    def members(self, value: Value) -> list[Value]:
        """The tensors of a sequence."""
        maker = self.maker(value)
        if maker is None or _key(maker) != ("", "SequenceConstruct"):
            raise NotLowered(f"needs a sequence that SequenceConstruct makes; {shown(value.name)} is none")
        return [self.widened(name) for name in maker.input]

    def require_only_reader(self, value: Value) -> None:
        """Refuse to write over a value that another node reads: before or after, nobody knows."""
        if len(self.context.view.uses(self.scope, value.name)) > 1:
            raise NotLowered(f"writes over {shown(value.name)}, which other nodes read too")

    def maker(self, value: Value) -> NodeProto | None:
        """The node of this graph that makes a value."""
        found = self.scope.makers.get(value.name, -1)
        return self.scope.node(found) if found >= 0 else None

    def _is_number(self, value: Value) -> bool:
        """Whether a value is one number that never changes, which may be of any type."""
        return value.type.shape in ((), (1,)) and self.is_known(value)

    def _fresh(self, word: str) -> str:
        base = next(filter(None, self.node.output), self.node.op_type)
        return self.context.value_names.fresh(f"{base}/{word}")

    def _name(self, value: Value | float | None) -> str:
        if value is None:
            return ""
        return value.name if isinstance(value, Value) else self.number(value).name


Result = Value | None | Sequence[Value | None]
Lowering = Callable[..., Result]


@dataclass(frozen=True)
class Lowered:
    """A node that became standard nodes.

    Attributes:
        node: Its name, or that of its first output.
        key: `domain::Type`.
        into: Types of the standard nodes, in order, constants left out.
    """

    node: str
    key: str
    into: list[str]

    def __getitem__(self, key: str) -> Any:
        """Entries can also be read like their JSON object."""
        return getattr(self, key)


@dataclass
class LoweredModel:
    """What became of a model.

    Attributes:
        model: The result; the given model itself when nothing was lowered.
        lowered: Nodes that became standard nodes.
        left: (name, reason) of nodes that a formula is known for and that stay.
        made: Names of the standard nodes.
    """

    model: ModelProto
    lowered: list[Lowered] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    made: set[str] = field(default_factory=set)


def lower(
    model: ModelProto,
    formulas: Mapping[Key, Lowering],
    make_context: Callable[[GraphView], Context],
    claimed: Callable[[Context], set[tuple[int, int]]],
) -> LoweredModel:
    """Replace every node of the main graph that has a formula, in opset 18.

    Args:
        model: The model, which is not changed.
        formulas: By domain and type of the node.
        make_context: Makes the context of a view.
        claimed: (scope number, node number) of nodes that become operators of ours and stay.
    """
    opset = current_opset(model)
    # Some standard nodes have a formula because ATC knows them in older opsets only.
    if not any(_key(node) in formulas and not is_registered(*_key(node), opset or 0) for node in model.graph.node):
        return LoweredModel(model)
    view = GraphView(model)
    copy = ModelProto()
    copy.CopyFrom(model)
    target = ATC_OPSETS.stop - 1
    context = make_context(view)
    if opset is None:
        copy.opset_import.append(helper.make_opsetid("", target))
    elif problem := opset_problem(view, context.types, target):
        names = [_label(node) for node in model.graph.node if _key(node) in formulas]
        return LoweredModel(model, [], [(name, f"the model has no opset {target}: {problem}") for name in names])
    else:
        write_opset(copy, context.types, target)
    result = LoweredModel(copy)
    while True:
        # A formula may need a shape that only the lowered nodes before it let onnx infer.
        done = _round(copy, formulas, make_context(GraphView(copy)), claimed)
        result.lowered += done.lowered
        result.made |= done.made
        result.left = done.left
        if not done.lowered or not done.left:
            break
    if not result.lowered:
        return LoweredModel(model, [], result.left)
    _drop_unread(copy, view)
    return result


def _round(
    model: ModelProto,
    formulas: Mapping[Key, Lowering],
    context: Context,
    claimed: Callable[[Context], set[tuple[int, int]]],
) -> LoweredModel:
    scope = context.view.main
    result = LoweredModel(model)
    taken = claimed(context)
    nodes: list[NodeProto] = []
    overwritten: dict[str, list[ValueInfoProto]] = {}
    for number, node in enumerate(scope.body.node):
        formula = formulas.get(_key(node))
        if formula is None or (0, number) in taken or _key(node) in context.view.functions:
            nodes.append(node)
            continue
        site = Site(context, scope, node)
        try:
            new = _replacement(site, formula)
        except NotLowered as reason:
            result.left.append((_label(node), str(reason)))
            nodes.append(node)
            continue
        for position, made in enumerate(new):
            made.name = f"{_label(node)}/{made.op_type}_{position}"
            result.made.add(made.name)
        nodes += new
        if site.overwritten:
            # Where a formula makes the first output, that is no flag, and what was written over inputs comes last.
            flag = "" if any(node.output[0] in made.output for made in new) else node.output[0]
            updated = [_updated(context, scope, *item) for item in site.overwritten.items()]
            overwritten[flag] = overwritten.get(flag, []) + updated
        result.lowered.append(
            Lowered(_label(node), key_text(node), [made.op_type for made in new if made.op_type != "Constant"])
        )
    if result.lowered:
        _write(model, nodes, overwritten)
    return result


def _key(node: NodeProto) -> Key:
    return normal_domain(node.domain), node.op_type


def _label(node: NodeProto) -> str:
    return node_name(node, node.op_type)


def _replacement(site: Site, formula: Lowering) -> list[NodeProto]:
    """The nodes that make the outputs of a node, without those that nobody reads."""
    arguments = _arguments(site, formula)
    try:
        answer = formula(*arguments)
    except (ArithmeticError, LookupError, ValueError) as error:
        # A formula takes a well-formed node for granted: ranks, lists as long as the rank, strides that are not 0.
        raise NotLowered(f"is malformed: {first_line(error)}") from error
    results = [answer] if isinstance(answer, Value) or answer is None else list(answer)
    made = {name for node in site.nodes for name in node.output}
    if made.intersection(site.overwritten):
        raise NotLowered(f"writes over a value that is narrower than {site.dtype}, in which it would count")
    written = {value.name for value in site.overwritten.values()}
    renamed: dict[str, str] = {}
    for position, name in enumerate(site.node.output):
        is_read = bool(name) and (
            site.context.view.uses(site.scope, name) or site.context.view.leaves(site.scope, name)
        )
        value = results[position] if position < len(results) else None
        if value is None:
            if is_read and not (position == 0 and site.overwritten and not site.context.view.uses(site.scope, name)):
                raise NotLowered(f"has an output {shown(name)} that its formula does not make")
        elif is_read or (name and value.name in written):
            typed = site.narrowed(value, name)
            made |= {typed.name} - {value.name}
            value = typed
            if value.name not in made or value.name in renamed:
                site.nodes.append(helper.make_node("Identity", [value.name], [name]))
            else:
                renamed[value.name] = name
    for name, value in site.overwritten.items():
        if value.name in made:
            renamed.setdefault(value.name, site.context.value_names.fresh(f"{name}_updated"))
    for node in site.nodes:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                names[position] = renamed.get(name, name)
    needed = {*site.node.output, *(renamed.get(value.name, value.name) for value in site.overwritten.values())}
    kept = []
    for node in reversed(site.nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    site.overwritten = {k: Value(site, renamed.get(v.name, v.name)) for k, v in site.overwritten.items()}
    return kept[::-1]


def _arguments(site: Site, formula: Lowering) -> Sequence[Any]:
    """What a formula is called with; a parameter without a default must have a value."""
    form = signature(formula)
    try:
        bound = form.bind(site, *site.inputs)
    except TypeError as error:
        raise NotLowered(f"has {len(site.node.input)} inputs, which is not its form") from error
    for name, given in bound.arguments.items():
        values = given if isinstance(given, tuple) else (given,)
        if form.parameters[name].default is Parameter.empty and any(value is None for value in values):
            raise NotLowered(f"lacks its input {name}")
    return bound.args


def _updated(context: Context, scope: Scope, name: str, value: Value) -> ValueInfoProto:
    """The declaration of what is written over an input."""
    known = context.types.of(scope, name)
    kind = ELEMENT_TYPES[known.dtype] if known.dtype else 0
    return helper.make_tensor_value_info(value.name, kind, known.shape)


def _write(model: ModelProto, nodes: Sequence[NodeProto], overwritten: Mapping[str, Sequence[ValueInfoProto]]) -> None:
    """Put nodes into the main graph; a flag that says "written" gives way to what was written."""
    graph = model.graph
    outputs: list[ValueInfoProto] = []
    given = {value.name for value in graph.output}
    for value in graph.output:
        new = overwritten.get(value.name)
        outputs += [value] if new is None else [entry for entry in new if entry.name not in given]
    outputs += overwritten.get("", ())
    leaving = {value.name for value in outputs}
    made = {name for node in nodes for name in node.output}
    declared = [value for value in graph.value_info if value.name in made and value.name not in leaving]
    _replace(graph.node, nodes)
    _replace(graph.output, outputs)
    _replace(graph.value_info, declared)


def _drop_unread(model: ModelProto, source: GraphView) -> None:
    """Drop initializers and nodes of one output that nobody reads and that were read in the source."""
    view, graph = GraphView(model), model.graph
    scope, reads = view.main, ReadCounts(view)
    lost = [name for name in scope.makers if source.count_uses(source.main, name) and not view.count_uses(scope, name)]
    reads.change(scope, lost, -1)
    dead = reads.dead(absorbed={(0, number) for number in range(len(graph.node))})
    numbers, names = dead.nodes.get(0, set()), dead.initializers.get(0, set())
    gone = {name for number in numbers for name in graph.node[number].output}
    if numbers:
        _replace(graph.node, [node for number, node in enumerate(graph.node) if number not in numbers])
        _replace(graph.value_info, [value for value in graph.value_info if value.name not in gone])
    # Back to front, as positions behind a gone one move; copies of large ones would be dear.
    for number in reversed(range(len(graph.initializer))):
        if graph.initializer[number].name in names:
            del graph.initializer[number]


def _replace(target: Any, entries: Sequence[Message]) -> None:
    """Fill a repeated field anew; what is deleted from it must not be in the new list itself."""
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    del target[:]
    target.extend(copies)
