"""Write the list of nodes of a graph, and remove nodes without readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from onnx import NodeProto

from opforge.frontend.ir.scope import Scope


def write_nodes(scope: Scope, numbers: Collection[int], new: Mapping[int, Sequence[NodeProto]]) -> None:
    """Remove nodes and the declarations of their outputs; put new nodes at the positions of old ones."""
    if not numbers and not new:
        return
    kept: list[NodeProto] = []
    for number, node in enumerate(scope.body.node):
        if number in new:
            kept += new[number]
        elif number not in numbers:
            kept.append(node)
    made = {name for node in kept for name in node.output}
    gone = {name for number in numbers for name in scope.node(number).output} - made
    del scope.body.node[:]
    scope.body.node.extend(kept)
    declared = [value for value in scope.body.value_info if value.name not in gone]
    if len(declared) < len(scope.body.value_info):
        del scope.body.value_info[:]
        scope.body.value_info.extend(declared)


def insert_nodes(scope: Scope, new: Mapping[int, NodeProto]) -> None:
    """Insert new nodes before the nodes with these numbers, without copies of others, which callers reference."""
    if not new:
        return
    nodes = scope.body.node
    places = chain([(number, 1) for number in range(len(nodes))], [(number, 0) for number in new])
    nodes.extend(new.values())
    # `sort` reads the keys in the order of the list. Single inserts need quadratic time.
    nodes.sort(key=lambda _: next(places))


def read_nodes(nodes: Sequence[NodeProto], names: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that compute these values, directly or through other given nodes, in order.

    The nodes are not in a graph yet: `dead` counts the readers of those in a graph.
    """
    needed, kept = set(names), []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    return kept[::-1]
