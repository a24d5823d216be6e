"""What a run would take on the device: our operators by the twin's estimate, each other node by a simpler one.

The other nodes have no kernel here. Each counts as if it ran alone and at its best: the launch, then its inputs and
outputs once at the bandwidth of global memory or, if that takes longer, its products at the peak of all cube cores.
What depends on constants alone, and nodes that only look at the same data in another shape, take nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from opforge.frontend.arrays import Array
from opforge.frontend.execute import MOST_EVENTS, Execution, TwinCall
from opforge.frontend.graph import GraphView, key_text, normal_domain
from opforge.frontend.keys import source_keys
from opforge.frontend.operators import project_specs
from opforge.frontend.parser_safe import constant_only_nodes
from opforge.twin.build import npu_model

_VIEWS = ("Constant", "Flatten", "Identity", "Reshape", "SequenceConstruct", "Shape", "Size", "Squeeze", "Unsqueeze")
_FREE = {("", op_type) for op_type in _VIEWS}
_PEAK_WORDS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
_MICRO = 1e6


@dataclass(frozen=True)
class NodeTime:
    """A node in the step; all times are estimates.

    Attributes:
        name: Name of the node.
        key: `domain::Type`, or the op type of a call on the twin.
        start_us: When it starts, if one node runs after the other.
        estimate_us: How long it takes.
        calls: Its calls on the twin; empty for a node that is not ours.
    """

    name: str
    key: str
    start_us: float
    estimate_us: float
    calls: tuple[TwinCall, ...] = ()

    def total(self, figure: str) -> int:
        """The sum of a figure of `opforge.twin.Report` over its calls."""
        return sum(getattr(call.report, figure) for call in self.calls)


@dataclass
class StepTime:
    """The nodes of a run, one after the other.

    Attributes:
        timeline: Calls of ours and other nodes in their order.
        free: How many nodes take nothing.
        total_us: The estimate of the whole step.
    """

    timeline: list[NodeTime] = field(default_factory=list)
    free: int = 0
    total_us: float = 0.0

    @property
    def ours(self) -> list[NodeTime]:
        """Our nodes, the calls of one that runs several times together, in the order of their first ones."""
        groups: dict[tuple[str, str], list[NodeTime]] = {}
        for entry in self.timeline:
            if entry.calls:
                groups.setdefault((entry.name, entry.key), []).append(entry)
        return [
            NodeTime(
                name,
                key,
                entries[0].start_us,
                sum(entry.estimate_us for entry in entries),
                tuple(call for entry in entries for call in entry.calls),
            )
            for (name, key), entries in groups.items()
        ]

    @property
    def others(self) -> list[NodeTime]:
        """The other nodes that take time."""
        return [entry for entry in self.timeline if not entry.calls]

    def share(self, us: float) -> float:
        """A time over that of the step."""
        return us / self.total_us if self.total_us else 0.0

    def report(self) -> dict[str, Any]:
        """All figures as JSON data."""
        return {
            "step": {
                "estimate_us": self.total_us,
                "ours_us": sum(entry.estimate_us for entry in self.ours),
                "others_us": sum(entry.estimate_us for entry in self.others),
                "others": len(self.others),
                "free": self.free,
            },
            "nodes": [_node_report(entry, self.share(entry.estimate_us)) for entry in self.ours],
        }

    def trace(self) -> dict[str, Any]:
        """The step for chrome://tracing and Perfetto: all nodes, and the pipes of the cores while ours run."""
        events: list[dict[str, Any]] = []
        for tid, name in enumerate(("operators of the project", "other nodes, each at its best")):
            events += [_name("process_name", -1, tid, "step"), _name("thread_name", -1, tid, name)]
        named: set[tuple[object, ...]] = set()
        for entry in self.timeline:
            figures = {"type": entry.key}
            span = {"name": entry.name or entry.key, "ts": entry.start_us, "dur": entry.estimate_us, "args": figures}
            events.append({"ph": "X", "pid": -1, "tid": 0 if entry.calls else 1, **span})
            for call in entry.calls:
                events += _shifted(call, entry, named)
        note = f"estimates of the twin's time model; at most {MOST_EVENTS} spans of cores"
        return {"displayTimeUnit": "ns", "otherData": {"note": note}, "traceEvents": events}


def _node_report(entry: NodeTime, share: float) -> dict[str, Any]:
    figures = ("gm_bytes_read", "gm_bytes_written", "first_touch_bytes", "minimal_bytes")
    return {
        "node": entry.name,
        "op": entry.key,
        "calls": len(entry.calls),
        "estimate_us": entry.estimate_us,
        "share": share,
        **{figure: entry.total(figure) for figure in figures},
        "blocks": max(call.report.blocks for call in entry.calls),
    }


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _shifted(call: TwinCall, entry: NodeTime, named: set[tuple[object, ...]]) -> Iterator[dict[str, Any]]:
    """The spans of a call where it lies in the step; the trace of a call begins behind its launch."""
    begin = entry.start_us + entry.estimate_us - _last_us(call)
    for event in call.events:
        if event["ph"] == "X":
            yield {**event, "ts": begin + event["ts"]}
        elif (track := (event["name"], event["pid"], event["tid"])) not in named:
            named.add(track)
            yield dict(event)


def _last_us(call: TwinCall) -> float:
    """How long the traced launch of a call runs."""
    return float(max((event["ts"] + event["dur"] for event in call.events if event["ph"] == "X"), default=0.0))


def step_time(model: ModelProto, execution: Execution, soc: str) -> StepTime:
    """The time of a run that kept its values."""
    view = GraphView(model)
    constant = {number for scope, number in constant_only_nodes(view) if scope is view.main}
    ours = {(key.domain, key.op_type) for spec in project_specs() for key in source_keys(spec)}
    waiting = deque(execution.calls)
    names = Counter(call.node for call in waiting)
    step = StepTime()

    def add(name: str, key: str, us: float, *calls: TwinCall) -> None:
        step.timeline.append(NodeTime(name, key, step.total_us, us, calls))
        step.total_us += us

    def add_calls(last: str | None) -> None:
        """Add calls up to one of this node, all for None; those before it lie inside nodes that ran before."""
        while waiting:
            call = waiting.popleft()
            names[call.node] -= 1
            add(call.node, call.op, call.report.estimate_us, call)
            if call.node == last:
                return

    for number, node in enumerate(view.main.body.node):
        key = normal_domain(node.domain), node.op_type
        if key in ours and names[node.name]:
            add_calls(node.name)
        elif number in constant or key in _FREE:
            step.free += 1
        else:
            add(node.name, key_text(node), _best_us(node, execution.values, soc))
    add_calls(None)
    return step


def _best_us(node: NodeProto, values: Mapping[str, Any], soc: str) -> float:
    """The launch, and what a node must move or multiply."""
    constants = npu_model()["constants"]
    arrays = {name: values[name] for name in {*node.input, *node.output} if isinstance(values.get(name), np.ndarray)}
    moved = sum(array.nbytes for array in arrays.values()) / constants["gm_bandwidth_bytes_per_s"]["value"]
    figures = npu_model()["soc"][soc]
    given = [arrays.get(name) for name in (*node.input, *node.output[:1])]
    peak = _PEAK_WORDS.get(given[-1].dtype.name) if given and given[-1] is not None else None
    products = 0.0
    if peak is not None and not node.domain:
        per_cycle = constants["cube_macs_per_cycle"]["value"][peak] * figures["aic"]
        products = _products(node.op_type, given) / (per_cycle * figures["mhz"] * 1e6)
    return float(_MICRO * (constants["launch_seconds"]["value"] + max(moved, products)))


def _products(op_type: str, arrays: list[Array | None]) -> int:
    """Multiplications of a product of matrices or a convolution; 0 for other nodes."""
    if len(arrays) < 3 or arrays[0] is None or arrays[1] is None:
        return 0
    first, second, result = arrays[0], arrays[1], arrays[-1]
    if result is None or not second.size:
        return 0
    match op_type:
        case "MatMul":
            return int(result.size * first.shape[-1])
        case "Gemm":
            return int(result.size * (first.size // max(result.shape[0], 1)))
        case "Conv":
            return int(result.size * (second.size // second.shape[0]))
        case "ConvTranspose":
            return int(first.size * (second.size // second.shape[0]))
    return 0
