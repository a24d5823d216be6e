"""Adapt a rewritten model to ATC's parser, and warn of the parts that ATC drops or does not read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import chain

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.names import FreshNames
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.scope import INITIALIZER, INPUT, Scope, normal_domain
from opforge.frontend.parsers.atc_limits import output_counts
from opforge.frontend.state import State

from .nodes import insert_nodes
from .opset import current_opset

_SQUARES = "ReduceSumSquare"
# Attributes of Constant other than `value`, with the element type that they imply.
SPELLINGS = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


def is_constant(node: NodeProto) -> bool:
    """Return whether a node is the standard `Constant`."""
    return node.op_type == "Constant" and normal_domain(node.domain) == ""


def is_read_by_atc(scope: Scope | None) -> bool:
    """Return whether ATC reads a graph: the main one, and those of `If` in it."""
    while scope is not None and scope.parent is not None:
        if scope.owner != "If":
            return False
        scope = scope.parent
    return scope is not None and scope.function is None


def drops_constant_nodes(view: GraphView) -> bool:
    """Return whether ATC drops nodes that depend only on constants: it starts from constants if there is no input."""
    return any(view.main.makers.get(value.name) != INITIALIZER for value in view.model.graph.input)


def constant_only_nodes(view: GraphView) -> Iterator[tuple[Scope, int]]:
    """Yield nodes that depend on no input of the model, except `Constant`: ATC drops them and their outputs."""
    constant: dict[int, set[str]] = {}
    for scope in view.scopes:
        if not is_read_by_atc(scope):
            continue
        own = {name for name, maker in scope.makers.items() if maker == INITIALIZER}
        constant[scope.number] = own
        has_outside = scope.parent is not None
        for number, names in enumerate(scope.inputs):
            if number in scope.captures:
                continue
            for name in names:
                if name and name not in own and not (has_outside and _is_outside(scope, name, constant)):
                    break
            else:
                node = scope.node(number)
                own.update(node.output)
                if not is_constant(node):
                    yield scope, number


def _is_outside(scope: Scope, name: str, constant: Mapping[int, set[str]]) -> bool:
    """Return whether a name is one of the constants of the enclosing graphs."""
    found = scope.parent.find(name) if scope.parent and name not in scope.makers else None
    return found is not None and name in constant[found[0].number]


def adapt(state: State) -> State:
    """Adapt the model to the parser of ATC."""
    ours = make_safe(state.view, state.context.value_names)
    return replace(state, ours=tuple(ours), warnings=(*state.warnings, *_warnings(state)))


def _warnings(state: State) -> Iterator[str]:
    vanishing = state.folded.vanishing.items() if drops_constant_nodes(state.view) else ()
    for label in (label for place, label in vanishing if place not in state.rewritten.gone):
        yield f"{label} depends only on constants; ATC drops it with its outputs"
    for name in _shapeless(state.view):
        yield f"input {shown(name)} has no shape; ATC assumes a scalar; declare its shape"
    for name, placement in zip(state.rewritten.names, state.matched.placements, strict=True):
        if unread := _unread(placement.scope):
            yield f"{shown(name)} is in {unread}"


def _shapeless(view: GraphView) -> list[str]:
    """Return the inputs of the model without a shape that must be fed."""
    fed = (value for value in view.model.graph.input if view.main.makers.get(value.name) == INPUT)
    types = ((value.name, value.type) for value in fed)
    return [name for name, t in types if t.HasField("tensor_type") and not t.tensor_type.HasField("shape")]


def _unread(scope: Scope | None) -> str:
    """Return the function or subgraph that prevents ATC from reading a graph; "" if ATC reads it."""
    while scope is not None:
        if scope.parent is None and scope.function is not None:
            return f"the local {scope.place}, which ATC does not expand; inline it first"
        if scope.owner not in ("", "If"):
            return f"a subgraph of {shown(scope.owner)}; ATC reads only subgraphs of 'If'"
        scope = scope.parent
    return ""


def make_safe(view: GraphView, value_names: FreshNames) -> list[NodeProto]:
    """Adapt nodes to ATC: unique names, named outputs, no trailing empty inputs, constants with `value`, used imports.

    Args:
        view: The model; its scopes may already have other nodes than the view.
        value_names: Creates names for unnamed outputs.

    Returns:
        The nodes of the domain `opforge`.
    """
    inputs = {name for scope in view.scopes for name in scope.input_names}
    names = FreshNames(chain(inputs, (node.name for scope in view.scopes for node in scope.body.node)))
    used = set(inputs)
    # There are few nodes with a domain.
    others: list[NodeProto] = []
    counts, read = output_counts(current_opset(view.model) or 0), cache(partial(_read_names, view))
    for scope in view.scopes:
        # Only runtimes read nodes of local functions, and they create names for them.
        if scope.function is not None:
            others += [node for node in scope.body.node if node.domain]
            continue
        has_gaps = scope.has_gaps
        products: dict[int, NodeProto] = {}
        for number, node in enumerate(scope.body.node):
            name, op_type = node.name, node.op_type
            if not name or name in used:
                node.name = name = names.fresh(name or op_type)
            used.add(name)
            if has_gaps:
                _close_gaps(node, value_names)
            if node.domain:
                others.append(node)
            elif op_type == _SQUARES:
                products |= _product(number, node, names, value_names)
            elif op_type in counts:
                _cut_outputs(node, counts[op_type], read)
            if op_type == "Constant" and is_constant(node):
                _spell_as_tensor(node)
        insert_nodes(scope, products)
    _drop_imports(view.model, {normal_domain(node.domain) for node in others})
    return [node for node in others if node.domain == OPFORGE_DOMAIN]


def _cut_outputs(node: NodeProto, most: int, read: Callable[[], Collection[str]]) -> None:
    """Remove the last outputs that the parser rejects and nothing reads."""
    while len(node.output) > most and node.output[-1] not in read():
        del node.output[-1]


def _read_names(view: GraphView) -> set[str]:
    """Return the names that nodes and outputs read; the index of the view may be outdated."""
    bodies = [scope.body for scope in view.scopes]
    read = {name for body in bodies for node in body.node for name in node.input}
    return read | {value if isinstance(value, str) else value.name for body in bodies for value in body.output}


def _product(number: int, node: NodeProto, names: FreshNames, value_names: FreshNames) -> Mapping[int, NodeProto]:
    """Replace `ReduceSumSquare` with axes by `ReduceSum` of the returned `Mul`: ATC has its axes only as attribute."""
    if len(node.input) != 2 or int_attribute(node, "noop_with_empty_axes"):
        return {}
    square = value_names.fresh(f"{node.output[0]}_square")
    product = helper.make_node("Mul", [node.input[0], node.input[0]], [square], names.fresh(f"{node.name}_square"))
    node.op_type, node.input[0] = "ReduceSum", square
    return {number: product}


def _drop_imports(model: ModelProto, used: set[str]) -> None:
    """Remove unused and repeated operator set imports: some versions of ATC reject more than one."""
    last = {normal_domain(entry.domain): entry for entry in model.opset_import}
    kept = [(entry.domain, entry.version) for domain, entry in last.items() if domain in {"", *used}]
    if len(kept) < len(model.opset_import):
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*entry) for entry in kept)


def _close_gaps(node: NodeProto, names: FreshNames) -> None:
    if "" in node.output:
        _name_outputs(node, names)
    given = node.input
    while given and not given[-1] and node.domain != OPFORGE_DOMAIN:
        del given[-1]


def _name_outputs(node: NodeProto, names: FreshNames) -> None:
    while node.output and not node.output[-1]:
        del node.output[-1]
    node.output[:] = [name or names.fresh(f"{node.name}_unused") for name in node.output]


def _spell_as_tensor(node: NodeProto) -> None:
    if len(node.attribute) != 1:
        return
    (attribute,) = node.attribute
    dtype = SPELLINGS.get(attribute.name)
    kind = attribute.name.removeprefix("value_").upper()
    if dtype is None or attribute.ref_attr_name or attribute.type != AttributeProto.AttributeType.Value(kind):
        return
    values = np.array(helper.get_attribute_value(attribute), dtype)
    attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))
