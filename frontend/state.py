"""Define the state that the passes of a conversion receive and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto, NodeProto

from opforge.codegen.spec.model import OpSpec

from .conversion import Lowered, Unmapped
from .ir.graph import GraphView
from .rules.context import Context
from .rules.rule import Placement, Replacement


@dataclass(frozen=True)
class Options:
    """The options of a conversion.

    Attributes:
        patterns: Whether to rewrite groups of standard nodes.
        lower_training: Whether to rewrite training nodes of onnxruntime.
        opset: Version of ai.onnx for the result; None leaves the choice to the conversion.
        domain: Domain of custom nodes.
        specs: The operators by op type.
    """

    patterns: bool
    lower_training: bool
    opset: int | None
    domain: str
    specs: Mapping[str, OpSpec]

    @property
    def groups(self) -> frozenset[str]:
        """Return the groups of rules that apply, see `Rule.group`."""
        chosen = {"patterns": self.patterns, "lower_training": self.lower_training}
        return frozenset(name for name, is_chosen in chosen.items() if is_chosen)


@dataclass(frozen=True)
class State:
    """A model on its way through the passes.

    Attributes:
        options: The options.
        source: The given model, which no pass changes.
        where: Its name in messages.
        folder: Its folder, for external data; None when it is not known.
        nodes_before: Nodes of the source.
        model: The current model; `source` itself as long as nothing was changed.
        view: Index of the current model; after a rewrite, its node numbers are those of `context.view`.
        context: The model in which the rules are tried, which no later pass changes.
        placements: Matches that become custom operators.
        lowering: Matches that become standard nodes in this round.
        left: Nodes without a match.
        lowered: Nodes that became standard nodes.
        made: Names of these standard nodes.
        folded: Nodes that become constants.
        vanishing: Nodes that depend on constants alone and that were not folded: scope number, node number, label.
        names: Names of custom nodes, in the order of `placements`.
        ours: All nodes of the domain `opforge` in the rewritten model, those that were there before included.
        is_new: Whether the result certainly differs from the source.
        without_body: Custom nodes that carry no function body.
        warnings: What ATC will not reach or drop.
    """

    options: Options
    source: ModelProto
    where: str
    folder: Path | None
    nodes_before: int
    model: ModelProto
    view: GraphView
    context: Context
    placements: tuple[Placement, ...] = ()
    lowering: tuple[Replacement, ...] = ()
    left: tuple[Unmapped, ...] = ()
    lowered: tuple[Lowered, ...] = ()
    made: frozenset[str] = frozenset()
    folded: tuple[Replacement, ...] = ()
    vanishing: tuple[tuple[int, int, str], ...] = ()
    names: tuple[str, ...] = ()
    ours: tuple[NodeProto, ...] = ()
    is_new: bool = False
    without_body: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
