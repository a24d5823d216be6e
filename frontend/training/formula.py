"""Define a training formula: a rule that writes one node as standard ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, signature
from typing import TypeVar

from onnx import NodeProto, ValueInfoProto, helper

from opforge.codegen.printing import first_line, shown
from opforge.frontend.emit.nodes import read_nodes
from opforge.frontend.emit.opset import NEWEST
from opforge.frontend.ir.reason import Unmatched, Unrelated
from opforge.frontend.ir.scope import node_name, normal_domain
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.rules.context import Specs
from opforge.frontend.rules.node_builder import NodeBuilder, Value
from opforge.frontend.rules.pattern import Found, any_node
from opforge.frontend.rules.rule import ExtraNodes, Match, Rule

MICROSOFT = "com.microsoft"
Result = Value | None | Sequence[Value | None]
_Function = TypeVar("_Function", bound=Callable[..., Result])
_formulas: list[Formula] = []


def formula(*op_types: str, domain: str = MICROSOFT) -> Callable[[_Function], _Function]:
    """Return a rule for a function that computes the outputs of a node from a builder and the inputs of the node."""

    def register(function: _Function) -> _Function:
        _formulas.append(Formula(function, *((domain, op_type) for op_type in op_types)))
        return function

    return register


class Formula(Rule):
    """A node -> standard nodes of opset 18.

    Args:
        function: Computes the outputs.
        keys: Domains and types of the nodes.
    """

    group = "lower_training"
    is_hinted = False
    # A rule with a custom operator is tried first.
    priority = 1

    def __init__(self, function: Callable[..., Result], *keys: tuple[str, str]) -> None:
        self.name = keys[0][1]
        self.pattern = any_node(*keys)
        self._function = function

    @classmethod
    def instances(cls, specs: Specs) -> Iterable[Rule]:
        """Return all formulas; they need no custom operator."""
        del specs
        return _formulas

    def check(self, found: Found) -> Match:
        """Match a node of the main graph that has no parser in ATC, but the inputs of the formula."""
        context, scope, node = found.context, found.scope, found.node
        domain = normal_domain(node.domain)
        if scope.function is not None or is_registered(domain, node.op_type, scope.opsets.get(domain, 0)):
            raise Unrelated
        if scope is not context.view.main:
            raise Unmatched(f"is in {scope.place}, expected the graph of the model")
        if problem := context.opset_problem:
            raise Unmatched(f"the model cannot be converted to opset {NEWEST}: {problem}")
        form = signature(self._function)
        try:
            given = form.bind(None, *node.input).arguments
        except TypeError as error:
            raise Unmatched(f"has {len(node.input)} inputs, which the formula does not support") from error
        for name, value in given.items():
            if form.parameters[name].default is Parameter.empty and "" in (value if type(value) is tuple else (value,)):
                raise Unmatched(f"has no input {name}")
        return Match()

    def rewrite(self, found: Found, match: Match) -> ExtraNodes:
        """Compute the formula."""
        del match
        node = found.node
        builder = NodeBuilder(found.context, found.scope, node)
        nodes = self._nodes(builder)
        for position, made in enumerate(nodes):
            made.name = f"{node_name(node, node.op_type)}/{made.op_type}_{position}"
        # If the formula computes the first output, it is not a flag, and the new contents become further outputs.
        is_flag = bool(builder.overwritten) and not any(node.output[0] in made.output for made in nodes)
        updates = tuple(_updated(found, *item) for item in builder.overwritten.items())
        return ExtraNodes(before=tuple(nodes), flag=node.output[0] if is_flag else "", updates=updates)

    def _nodes(self, builder: NodeBuilder) -> list[NodeProto]:
        """Return the nodes that compute the outputs of a node, without those without readers."""
        inputs = builder.inputs
        try:
            answer = self._function(builder, *inputs)
        except (ArithmeticError, LookupError, ValueError) as error:
            # A formula requires a valid node: ranks, lists as long as the rank, strides other than 0.
            raise Unmatched(f"is malformed: {first_line(error)}") from error
        results = [answer] if isinstance(answer, Value) or answer is None else list(answer)
        renamed = _output_names(builder, results)
        for node in builder.nodes:
            for names in (node.input, node.output):
                for position, name in enumerate(names):
                    names[position] = renamed.get(name, name)
        builder.overwritten = {
            name: Value(builder, renamed.get(value.name, value.name)) for name, value in builder.overwritten.items()
        }
        return read_nodes(
            builder.nodes, (*builder.node.output, *(value.name for value in builder.overwritten.values()))
        )


def _output_names(builder: NodeBuilder, results: Sequence[Value | None]) -> dict[str, str]:
    """Return the new names of values: those of the outputs of the node; add the required casts and copies."""
    view, scope = builder.context.view, builder.scope
    made = {name for node in builder.nodes for name in node.output}
    if made.intersection(builder.overwritten):
        raise Unmatched(f"overwrites a value narrower than {builder.dtype}, in which it is computed")
    written = {value.name for value in builder.overwritten.values()}
    renamed: dict[str, str] = {}
    for position, name in enumerate(builder.node.output):
        is_read = view.is_read(scope, name)
        value = results[position] if position < len(results) else None
        if value is None:
            is_flag = position == 0 and builder.overwritten and not view.count_uses(scope, name)
            if is_read and not is_flag:
                raise Unmatched(f"has an output {shown(name)} that the formula does not compute")
        elif is_read or (name and value.name in written):
            typed = builder.narrowed(value, name)
            made |= {typed.name} - {value.name}
            if typed.name not in made or typed.name in renamed:
                builder.nodes.append(helper.make_node("Identity", [typed.name], [name]))
            else:
                renamed[typed.name] = name
    for name, value in builder.overwritten.items():
        if value.name in made:
            renamed.setdefault(value.name, builder.context.value_names.fresh(f"{name}_updated"))
    return renamed


def _updated(found: Found, name: str, value: Value) -> ValueInfoProto:
    """Return the declaration of the new contents of an input."""
    known = found.context.types.of(found.scope, name)
    kind = ELEMENT_TYPES[known.dtype] if known.dtype else 0
    return helper.make_tensor_value_info(value.name, kind, known.shape)
