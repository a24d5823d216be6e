"""Find the rewritten parts of a conversion: nodes of both models that define the same values.

A value keeps its name unless its maker was removed, so a rewritten part ends where both models have a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opforge.frontend.conversion import Conversion, Lowered, Mapped
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.scope import Scope, node_name, normal_domain

# Maximum nodes of one side; a larger picture is not readable.
_MOST_NODES = 40


@dataclass(frozen=True)
class Side:
    """Nodes of one model.

    Attributes:
        view: Index of the model.
        scope: Graph of the nodes.
        nodes: Their numbers, ascending; constants are not among them.
        is_cut: Whether there are further nodes.
    """

    view: GraphView
    scope: Scope
    nodes: tuple[int, ...]
    is_cut: bool = False


@dataclass(frozen=True)
class RewrittenPlace:
    """One rewritten part.

    Attributes:
        entries: Its entries in the report; several, if one rewrite continues another.
        before: Nodes of the source.
        after: Nodes of the result.
    """

    entries: tuple[Mapped | Lowered, ...]
    before: Side
    after: Side


def rewritten_places(source: GraphView, conversion: Conversion, most: int) -> list[RewrittenPlace]:
    """Return the parts of the first `most` entries of a conversion, custom nodes first."""
    result = GraphView(conversion.model)
    mapped, lowered = conversion.mapped[:most], conversion.lowered[: max(most - len(conversion.mapped), 0)]
    new = _by_name(result, {entry.node for entry in mapped})
    places: dict[object, tuple[list[Mapped | Lowered], Side, Side]] = {}
    starts: list[tuple[Mapped | Lowered, Scope, Scope, set[int], set[int]]] = []
    for entry in mapped:
        if entry.node in new:
            scope, number = new[entry.node]
            starts.append((entry, _counterpart(source, scope), scope, set(), {number}))
    old, made = _unnamed_too(source.main), _by_prefix(result.main)
    for step in lowered:
        # Entries of one label are in the order of the nodes.
        numbers = old[step.node][:1]
        del old[step.node][:1]
        starts.append((step, source.main, result.main, set(numbers), set(made.get(step.node, ()))))
    for start, first, second, gone, come in starts:
        before, after = _grown(Side(source, first, ()), Side(result, second, ()), gone, come)
        key = (first.number, before.nodes) if before.nodes else (-1 - second.number, after.nodes)
        places.setdefault(key, ([], before, after))[0].append(start)
    return [RewrittenPlace(tuple(entries), before, after) for entries, before, after in places.values()]


def is_constant(scope: Scope, number: int) -> bool:
    """Return whether a node is a `Constant`, which pictures draw as a value."""
    node = scope.node(number)
    return node.op_type == "Constant" and not normal_domain(node.domain)


def _by_name(view: GraphView, names: set[str]) -> dict[str, tuple[Scope, int]]:
    return {
        node.name: (scope, number)
        for scope in view.scopes
        if scope.function is None
        for number, node in enumerate(scope.body.node)
        if node.name in names
    }


def _unnamed_too(scope: Scope) -> dict[str, list[int]]:
    """Return node numbers by the label in a report."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(scope.body.node):
        found[node_name(node, node.op_type)].append(number)
    return found


def _by_prefix(scope: Scope) -> Mapping[str, list[int]]:
    """Return node numbers by the prefix before the last "/", which is the name of the lowered node."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(scope.body.node):
        found[node.name.rpartition("/")[0]].append(number)
    return found


def _counterpart(view: GraphView, scope: Scope) -> Scope:
    """Return the graph of a model for `scope`."""
    return next((known for known in view.scopes if known.place == scope.place), view.main)


def _grown(before: Side, after: Side, gone: Iterable[int], come: Iterable[int]) -> tuple[Side, Side]:
    """Return both sides, extended from their nodes until each defines the values of the other."""
    seeds = _results(before, gone) | _results(after, come) | _reached(after, before.scope, _results(after, come))
    while True:
        sides = _made_of(before, after, seeds, gone), _made_of(after, before, seeds, come)
        grown = seeds.union(*(_results(side, side.nodes) for side in sides))
        if grown == seeds or any(side.is_cut for side in sides):
            return sides
        seeds = grown


def _results(side: Side, numbers: Iterable[int]) -> set[str]:
    return {name for number in numbers for name in side.scope.node(number).output if name}


def _reached(side: Side, other: Scope, names: set[str]) -> set[str]:
    """Return the first values after `names` that the other model also has."""
    found: set[str] = set()
    seen, waiting = set(names), list(names)
    while waiting and len(seen) < _MOST_NODES:
        name = waiting.pop()
        if name in other.makers:
            found.add(name)
            continue
        readers = {use.node for use in side.view.uses(side.scope, name) if use.scope is side.scope}
        new = _results(side, readers) - seen
        seen |= new
        waiting += sorted(new)
    return found


def _made_of(side: Side, other: Side, seeds: set[str], start: Iterable[int]) -> Side:
    """Return the nodes that compute the seeds from values of both models."""
    scope = side.scope
    nodes: dict[int, None] = {}  # nodes that the results need first are first
    waiting = [*start, *(scope.makers.get(name, -1) for name in sorted(seeds))]
    while waiting and len(nodes) <= _MOST_NODES:
        number = waiting.pop(0)
        if number < 0 or number in nodes or is_constant(scope, number):
            continue
        nodes[number] = None
        read = (*scope.node(number).input, *sorted(scope.captures.get(number, ())))
        waiting += [scope.makers.get(name, -1) for name in read if name in seeds or other.scope.find(name) is None]
    kept = sorted(list(nodes)[:_MOST_NODES])
    return Side(side.view, scope, tuple(kept), len(nodes) > _MOST_NODES)
