"""Finds the constants that nobody reads any more once some nodes are replaced."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from opforge.frontend.ir.constants import FOLDABLE
from opforge.frontend.ir.graph import INITIALIZER, GraphView, Scope, normal_domain


@dataclass
class DeadConstants:
    """What may go, by scope number.

    Attributes:
        nodes: Node numbers.
        initializers: Names.
    """

    nodes: dict[int, set[int]] = field(default_factory=dict)
    initializers: dict[int, set[str]] = field(default_factory=dict)


class ReadCounts:
    """How often values are read while nodes are being replaced; starts with what the view says."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._counts: dict[tuple[int, str], int] = {}
        self._dropped: list[tuple[Scope, str]] = []

    def change(self, scope: Scope, names: Iterable[str], by: int) -> None:
        """Count reads of names as seen from `scope`; `by` is 1 for new reads and -1 for gone ones."""
        for name in names:
            found = scope.find(name) if name else None
            if found is None:
                continue
            owner = found[0]
            key = owner.number, name
            self._counts[key] = self._counts.get(key, self._view.count_uses(owner, name)) + by
            if by < 0:
                self._dropped.append((owner, name))

    def dead(
        self, absorbed: Collection[tuple[int, int]] = (), replaced: Collection[tuple[int, int]] = ()
    ) -> DeadConstants:
        """Initializers and constant-making nodes that lost their last reader, and those that only these read.

        Args:
            absorbed: (scope number, node number) of other nodes that may go too.
            replaced: Nodes whose reads do not count any more.
        """
        dead = DeadConstants()
        while self._dropped:
            scope, name = self._dropped.pop()
            if self._counts[scope.number, name] > 0 or self._view.leaves(scope, name) or name in scope.input_names:
                continue
            maker = scope.makers[name]
            if maker == INITIALIZER:
                dead.initializers.setdefault(scope.number, set()).add(name)
            elif (
                maker >= 0
                and (scope.number, maker) not in replaced
                and maker not in dead.nodes.setdefault(scope.number, set())
            ):
                node = scope.node(maker)
                is_foldable = normal_domain(node.domain) == "" and node.op_type in FOLDABLE
                if len(node.output) == 1 and (is_foldable or (scope.number, maker) in absorbed):
                    dead.nodes[scope.number].add(maker)
                    self.change(scope, node.input, -1)
        return dead
