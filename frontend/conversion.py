"""Define the result of a conversion and the entries of its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, TypeVar

from onnx import ModelProto

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class _Entry:
    """An entry of a report; it can also be read like its JSON object."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)


@dataclass(frozen=True)
class Mapped(_Entry):
    """A custom node in the result.

    Attributes:
        node: Its name.
        op: Its op type in the spec.
        rule: Name of the rule: a key such as `npu::NPUScaledAdd`, or the name of a pattern.
        outputs: Names of its outputs.
        attrs: Its attributes.
        inputs: Names of its inputs in the order of the spec; None for an absent optional input.
    """

    node: str
    op: str
    rule: str
    outputs: list[str]
    attrs: dict[str, Any]
    inputs: list[str | None]


@dataclass(frozen=True)
class Lowered(_Entry):
    """A node that became standard nodes.

    Attributes:
        node: Its name, or that of its first output.
        key: `domain::Type`.
        into: Types of the standard nodes, in order, without constants.
    """

    node: str
    key: str
    into: list[str]


@dataclass(frozen=True)
class Unmapped(_Entry):
    """A candidate node without a match, or a node whose name resembles a custom operator.

    Attributes:
        node: Its name, or that of its first output.
        candidate: The operator; "" if the name resembles none.
        reason: The condition that failed, with the values found.
        nodes: Other nodes in the reason.
    """

    node: str
    candidate: str
    reason: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PassTime(_Entry):
    """The time of one pass of the pipeline.

    Attributes:
        name: The pass.
        seconds: Wall-clock time of all rounds.
    """

    name: str
    seconds: float


class PassTimes:
    """Runs and measures the passes of a pipeline."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._running: dict[str, float] = {}

    def run(self, name: str, step: Callable[[_In], _Out], state: _In) -> _Out:
        """Run a pass, and add its time to that of earlier rounds."""
        self._seconds.setdefault(name, 0.0)
        self._running[name] = perf_counter()
        result = step(state)
        self._seconds[name] += perf_counter() - self._running.pop(name)
        return result

    def add(self, entries: Iterable[PassTime]) -> None:
        """Add times measured by other code."""
        for entry in entries:
            self._seconds[entry.name] = self._seconds.get(entry.name, 0.0) + entry.seconds

    def entries(self) -> list[PassTime]:
        """Return the passes so far, including a running one, in the order of their first runs."""
        now = perf_counter()
        return [PassTime(name, s + now - self._running.get(name, now)) for name, s in self._seconds.items()]


@dataclass(frozen=True)
class Conversion:
    """A converted model.

    Attributes:
        model: The result, or the given model if nothing was rewritten. External data is not moved.
        mapped: Custom nodes of the result.
        left: Candidate nodes that were not mapped, with reasons.
        nodes_before: Number of nodes of the source, with subgraphs and without local functions.
        nodes_after: Number of nodes of the result.
        changed: Whether the result differs from the source.
        without_body: Custom nodes without a function body, because the opset of the model cannot express it.
        warnings: Parts of the model that ATC does not read or drops, with reasons.
        lowered: Nodes that became standard nodes.
        passes: The passes that ran, in order, with their times.
    """

    model: ModelProto
    mapped: list[Mapped]
    left: list[Unmapped]
    nodes_before: int
    nodes_after: int
    changed: bool
    without_body: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)
    passes: list[PassTime] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to report but the summary."""
        return not (self.mapped or self.lowered or self.left or self.without_body or self.warnings)

    def summary(self) -> str:
        """Return the numbers of mapped, lowered and unmapped nodes, and of nodes before and after."""
        lowered = f" {len(self.lowered)} lowered," if self.lowered else ""
        kind = "" if self.changed else "; the model is unchanged"
        return (
            f"{len(self.mapped)} mapped,{lowered} {len(self.left)} not mapped;"
            f" nodes: {self.nodes_before} before, {self.nodes_after} after{kind}"
        )

    def report(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "mapped": [asdict(entry) for entry in self.mapped],
            "lowered": [asdict(entry) for entry in self.lowered],
            "left": [asdict(entry) for entry in self.left],
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "without_body": list(self.without_body),
            "warnings": list(self.warnings),
            "passes": [asdict(entry) for entry in self.passes],
        }
