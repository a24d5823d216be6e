"""Find the nodes and initializers that lose their last reader during the replacement of nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.scope import INITIALIZER, Scope


@dataclass
class Dead:
    """Nodes that may be removed, by scope number.

    Attributes:
        nodes: Node numbers.
        initializers: Names.
    """

    nodes: dict[int, set[int]] = field(default_factory=dict)
    initializers: dict[int, set[str]] = field(default_factory=dict)


class ReadCounts:
    """Counts the reads of values during the replacement of nodes; starts with those of the view."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._counts: dict[tuple[int, str], int] = {}
        self._dropped: list[tuple[Scope, str]] = []

    def change(self, scope: Scope, names: Iterable[str], by: int) -> None:
        """Count reads of names as seen from `scope`; `by` is 1 for new reads and -1 for removed ones."""
        for name in names:
            found = scope.find(name) if name else None
            if found is None:
                continue
            owner = found[0]
            key = owner.number, name
            self._counts[key] = self._counts.get(key, self._view.count_uses(owner, name)) + by
            if by < 0:
                self._dropped.append((owner, name))

    def is_read(self, scope: Scope, names: Iterable[str]) -> bool:
        """Return whether one of these values, or a new value, may have a reader."""
        return any(
            name not in scope.makers
            or self._counts.get((scope.number, name), self._view.count_uses(scope, name)) > 0
            or self._view.leaves(scope, name)
            for name in names
        )

    def dead(self, replaced: Collection[tuple[int, int]]) -> Dead:
        """Return initializers and single-output nodes that lost their last reader, and those that only these read.

        Args:
            replaced: (scope number, node number) of replaced nodes, whose reads are already counted.
        """
        dead = Dead()
        while self._dropped:
            scope, name = self._dropped.pop()
            if self._counts[scope.number, name] > 0 or self._view.leaves(scope, name) or name in scope.input_names:
                continue
            maker = scope.makers[name]
            if maker == INITIALIZER:
                dead.initializers.setdefault(scope.number, set()).add(name)
                continue
            gone = dead.nodes.setdefault(scope.number, set())
            is_done = maker < 0 or maker in gone or (scope.number, maker) in replaced
            # Values that a subgraph reads from an enclosing graph are not counted here.
            if not is_done and maker not in scope.captures and len(scope.node(maker).output) == 1:
                gone.add(maker)
                self.change(scope, scope.node(maker).input, -1)
        return dead
