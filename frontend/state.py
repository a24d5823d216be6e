"""Define the state that the passes of a conversion receive and return."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto, NodeProto

from .conversion import Lowered, Unmapped
from .io.load import SourceModel
from .ir.graph import GraphView

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

    from .rules.context import Context
    from .rules.rule import Placement, Replacement


@dataclass(frozen=True)
class Options:
    """The options of a conversion.

    Attributes:
        patterns: Whether to rewrite groups of standard nodes.
        lower_training: Whether to rewrite training nodes of onnxruntime.
        opset: Version of ai.onnx for the result; None selects it automatically.
        domain: Domain of custom nodes.
        specs: The operators; None for those of the project.
    """

    patterns: bool
    lower_training: bool
    opset: int | None
    domain: str
    specs: Sequence[OpSpec] | None

    @property
    def groups(self) -> frozenset[str]:
        """Return the groups of rules that apply, see `Rule.group`."""
        chosen = {"patterns": self.patterns, "lower_training": self.lower_training}
        return frozenset(name for name, is_chosen in chosen.items() if is_chosen)


@dataclass(frozen=True)
class Request:
    """Input of load.

    Attributes:
        model: A model, which no pass changes, or the path of a model.
        options: The options.
    """

    model: ModelProto | SourceModel | str | os.PathLike[str]
    options: Options


@dataclass(frozen=True)
class Loaded:
    """Result of load and prefilter.

    Attributes:
        options: The options.
        view: Index of the given model.
        folder: Folder of the model, for external data; None if it is not known.
        is_plain: Result of prefilter: whether no rule applies.
    """

    options: Options
    view: GraphView
    folder: Path | None
    is_plain: bool = False


@dataclass(frozen=True)
class Matched:
    """Results of match.

    Attributes:
        placements: Matches that become custom operators.
        lowering: Matches that become standard nodes in this round.
        left: Nodes without a match.
    """

    placements: tuple[Placement, ...] = ()
    lowering: tuple[Replacement, ...] = ()
    left: tuple[Unmapped, ...] = ()


@dataclass(frozen=True)
class Folded:
    """Results of fold.

    Attributes:
        replacements: Nodes that become constants.
        vanishing: Labels of all other nodes that depend only on constants, by scope number and node number.
    """

    replacements: tuple[Replacement, ...] = ()
    vanishing: Mapping[tuple[int, int], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rewritten:
    """Results of rewrite.

    Attributes:
        lowered: Nodes that became standard nodes, of all rounds.
        made: Names of these standard nodes.
        names: Names of custom nodes, in the order of the placements.
        gone: (scope number, node number) of nodes of the context that the result does not have.
    """

    lowered: tuple[Lowered, ...] = ()
    made: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    gone: Collection[tuple[int, int]] = ()


@dataclass(frozen=True)
class State:
    """Input and result of all passes between prefilter and save.

    Attributes:
        options: The options.
        source: Index of the given model, which passes do not change.
        view: Index of the current model; after the last rewrite, its node numbers may be those of the context.
        context: The model in which the rules are tried, which later passes do not change.
        is_new: Whether the result certainly differs from the source.
        matched: Results of match.
        folded: Results of fold.
        rewritten: Results of rewrite.
        ours: Result of atc-compat: all nodes of the domain `opforge`, including those of the source.
        without_body: Result of emit: names of custom nodes without a function body.
        warnings: Parts of the model that ATC does not read or drops; several passes add some.
    """

    options: Options
    source: GraphView
    view: GraphView
    context: Context
    is_new: bool = False
    matched: Matched = field(default_factory=Matched)
    folded: Folded = field(default_factory=Folded)
    rewritten: Rewritten = field(default_factory=Rewritten)
    ours: tuple[NodeProto, ...] = ()
    without_body: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
