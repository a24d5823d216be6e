"""Estimate the time of a step: custom operators by the CPU twin, other nodes by a roofline model.

The other nodes have no kernel here. Each is estimated as running alone without losses: the launch, then its inputs and
outputs once at the bandwidth of global memory or, if that takes longer, its products at the peak of all cube cores,
which multiply whole blocks. Nodes that depend only on constants, and nodes that only change the shape, take no time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.products import soc_properties
from opforge.frontend.emit.atc_compat import constant_only_nodes
from opforge.frontend.io.arrays import Array
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import source_keys
from opforge.frontend.ir.scope import key_text, normal_domain
from opforge.frontend.operators import project_specs
from opforge.twin.compiler.npu_model import constant_of, error_range, npu_model, range_text

from .custom_nodes import MOST_EVENTS, TwinCall
from .execute import Execution

_VIEWS = ("Constant", "Flatten", "Identity", "Reshape", "SequenceConstruct", "Shape", "Size", "Squeeze", "Unsqueeze")
_FREE = {("", op_type) for op_type in _VIEWS}
# Nodes that read only those elements of their first input that they return.
_TAKING = ("Gather", "GatherElements", "GatherND", "Slice")
# Rows and columns that a cube core multiplies at once.
_BLOCK = 16
_MICRO = 1e6
# Process of the step in a trace, above all cores: Perfetto treats negative numbers as 0, which is a core.
_STEP = 1000


@dataclass(frozen=True)
class NodeTime:
    """A node in the step; all times are estimates.

    Attributes:
        name: Name of the node.
        key: `domain::Type`, or the op type of a call on the twin.
        start_us: Start time, if nodes run one after another.
        estimate_us: Estimated duration.
        calls: Its calls on the twin; empty for another node.
        least_bytes: Minimum traffic of another node.
    """

    name: str
    key: str
    start_us: float
    estimate_us: float
    calls: tuple[TwinCall, ...] = ()
    least_bytes: int = 0

    @property
    def moved_bytes(self) -> int:
        """Return bytes read and written in global memory."""
        return self.least_bytes + self.total("gm_bytes_read") + self.total("gm_bytes_written")

    def total(self, figure: str) -> int:
        """Return the sum of a figure of `opforge.twin.Report` over its calls."""
        return sum(getattr(call.report, figure) for call in self.calls)


@dataclass
class TypeTime:
    """The nodes of a type in the step.

    Attributes:
        type: The type.
        is_roofline: Whether the roofline estimates its nodes, and not the time model.
        nodes: Number of nodes; a node that runs several times counts several times.
        estimate_us: Estimated duration.
        moved_bytes: Traffic with global memory.
    """

    type: str
    is_roofline: bool
    nodes: int = 0
    estimate_us: float = 0.0
    moved_bytes: int = 0


@dataclass
class StepTime:
    """The nodes of a run, one after another.

    Attributes:
        soc: The chip.
        timeline: Calls of custom operators and other nodes in order.
        free: Number of nodes without time.
        total_us: The estimate of the whole step.
    """

    soc: str
    timeline: list[NodeTime] = field(default_factory=list)
    free: int = 0
    total_us: float = 0.0

    @property
    def ours(self) -> list[NodeTime]:
        """Return the custom nodes; calls of one node are combined; in the order of their first calls."""
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
        """Return the other nodes with a time."""
        return [entry for entry in self.timeline if not entry.calls]

    @property
    def launches_us(self) -> float:
        """Return the launch overhead of the other nodes."""
        return len(self.others) * _MICRO * constant_of("launch_seconds", self.soc)

    @property
    def types(self) -> list[TypeTime]:
        """Return all types of nodes with a time, the longest first."""
        types: dict[tuple[str, bool], TypeTime] = {}
        for entry in self.timeline:
            is_roofline = not entry.calls
            known = types.setdefault((entry.key, is_roofline), TypeTime(entry.key, is_roofline))
            known.nodes += 1
            known.estimate_us += entry.estimate_us
            known.moved_bytes += entry.moved_bytes
        return sorted(types.values(), key=lambda entry: -entry.estimate_us)

    @property
    def outside_range(self) -> list[str]:
        """Return the reasons for which the step is outside of the calibrated range of the time model."""
        return [*self.kernels_outside_range, *self.without_range]

    @property
    def kernels_outside_range(self) -> list[str]:
        """Return these reasons for the custom operators."""
        calls = [call for entry in self.ours for call in entry.calls]
        return list(dict.fromkeys(reason for call in calls for reason in call.report.outside_range))

    @property
    def without_range(self) -> list[str]:
        """Return one text about the other nodes; none if there are no other nodes."""
        count = len(self.others)
        nodes = "1 other node has" if count == 1 else f"{count} other nodes have"
        return [f"{nodes} a roofline estimate, which has no error range"] if count else []

    @property
    def error_range(self) -> tuple[float, float] | None:
        """Return the range of the error of the step; None if it contains roofline estimates."""
        return None if self.others else error_range()

    def share(self, us: float) -> float:
        """Return a time divided by that of the step."""
        return us / self.total_us if self.total_us else 0.0

    def report(self) -> dict[str, Any]:
        """Return all figures as JSON data."""
        return {
            "step": {
                "estimate_us": self.total_us,
                "error_range": self.error_range,
                "outside_range": self.outside_range,
                "ours_us": sum(entry.estimate_us for entry in self.ours),
                "ours_error_range": list(error_range()),
                "others_us": sum(entry.estimate_us for entry in self.others),
                "others": len(self.others),
                "others_launches_us": self.launches_us,
                "free": self.free,
            },
            "nodes": [_node_report(entry, self.share(entry.estimate_us)) for entry in self.ours],
            "types": [{**asdict(entry), "share": self.share(entry.estimate_us)} for entry in self.types],
        }

    def trace(self) -> dict[str, Any]:
        """Return the step for chrome://tracing and Perfetto: all nodes, and the pipes during custom operators."""
        events: list[dict[str, Any]] = []
        for tid, name in enumerate(("custom operators (twin)", "other nodes (roofline estimates)")):
            events += [_name("process_name", _STEP, tid, "step"), _name("thread_name", _STEP, tid, name)]
        named: set[tuple[object, ...]] = set()
        for entry in self.timeline:
            figures = {"type": entry.key, "moved_bytes": entry.moved_bytes}
            span = {"name": entry.name or entry.key, "ts": entry.start_us, "dur": entry.estimate_us, "args": figures}
            events.append({"ph": "X", "pid": _STEP, "tid": 0 if entry.calls else 1, **span})
            for call in entry.calls:
                events += _shifted(call, entry, named)
        note = f"custom operators: estimates of the twin's time model, {range_text()}; other nodes: roofline estimates"
        note += f" without a range of the error; at most {MOST_EVENTS} spans of cores"
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
    """Yield the spans of a call at their time in the step; the trace of a call begins after its launch."""
    begin = entry.start_us + entry.estimate_us - _last_us(call)
    for event in call.events:
        if event["ph"] == "X":
            yield {**event, "ts": begin + event["ts"]}
        elif (track := (event["name"], event["pid"], event["tid"])) not in named:
            named.add(track)
            yield dict(event)


def _last_us(call: TwinCall) -> float:
    """Return the estimated time of the traced launch of a call."""
    return float(max((event["ts"] + event["dur"] for event in call.events if event["ph"] == "X"), default=0.0))


def step_time(model: ModelProto, execution: Execution, soc: str) -> StepTime:
    """Return the time of a run that kept its values."""
    view = GraphView(model)
    constant = {number for scope, number in constant_only_nodes(view) if scope is view.main}
    ours = {(key.domain, key.op_type) for spec in project_specs() for key in source_keys(spec)}
    waiting = deque(execution.calls)
    names = Counter(call.node for call in waiting)
    step = StepTime(soc)

    def add(name: str, key: str, us: float, calls: tuple[TwinCall, ...] = (), moved: int = 0) -> None:
        step.timeline.append(NodeTime(name, key, step.total_us, us, calls, moved))
        step.total_us += us

    def add_calls(last: str | None) -> None:
        """Add calls up to one of this node, all for None; earlier calls belong to nodes that already ran."""
        while waiting:
            call = waiting.popleft()
            names[call.node] -= 1
            add(call.node, call.op, call.report.estimate_us, (call,))
            if call.node == last:
                return

    for number, node in enumerate(view.main.body.node):
        key = normal_domain(node.domain), node.op_type
        if key in ours and names[node.name]:
            add_calls(node.name)
        elif number in constant or key in _FREE:
            step.free += 1
        else:
            us, moved = _best(node, execution.values, soc)
            add(node.name, key_text(node), us, moved=moved)
    add_calls(None)
    return step


def _best(node: NodeProto, values: Mapping[str, Any], soc: str) -> tuple[float, int]:
    """Return the roofline estimate of a node in us, and the bytes that it must move."""
    figures = soc_properties(soc)
    arrays = {name: values[name] for name in {*node.input, *node.output} if isinstance(values.get(name), np.ndarray)}
    sizes = {name: array.nbytes for name, array in arrays.items()}
    if node.op_type in _TAKING and not node.domain and node.input[0] in sizes:
        taken = sum(sizes.get(name, 0) for name in node.output)
        sizes[node.input[0]] = min(sizes[node.input[0]], taken)
    moved = sum(sizes.values())
    seconds = moved / constant_of("gm_bandwidth_bytes_per_s", soc)
    given = [arrays.get(name) for name in (*node.input[:2], *node.output[:1])]
    if node.op_type in _PRODUCTS and not node.domain and all(array is not None and array.size for array in given):
        first, second, result = (array for array in given if array is not None)
        peak = npu_model()["constants"]["cube_macs_per_cycle"]["value"].get(_short_name(result.dtype.name))
        if peak is not None:
            count, rows, inner, columns = _PRODUCTS[node.op_type](node, first, second, result)
            depth = peak // _BLOCK**2
            blocks = count * ceil(rows / _BLOCK) * ceil(inner / depth) * ceil(columns / _BLOCK)
            seconds = max(seconds, blocks / (figures.aic * figures.mhz * 1e6))
    return _MICRO * (constant_of("launch_seconds", soc) + float(seconds)), moved


def _short_name(word: str) -> str:
    """Return the short name of a dtype in the time model; "" if it has none."""
    return next(iter(DTYPES[word].short if word in DTYPES else ()), "")


def _matmul(_: NodeProto, first: Array, second: Array, result: Array) -> tuple[int, int, int, int]:
    """If all batches share the second matrix, return one product of all rows."""
    columns = second.shape[-1] if second.ndim > 1 else 1
    rows = result.size // columns if second.ndim < 3 else first.shape[-2] if first.ndim > 1 else 1
    return result.size // (rows * columns), rows, first.shape[-1], columns


def _gemm(_: NodeProto, first: Array, __: Array, result: Array) -> tuple[int, int, int, int]:
    rows, columns = result.shape
    return 1, rows, first.size // rows, columns


def _conv(node: NodeProto, _: Array, kernel: Array, result: Array) -> tuple[int, int, int, int]:
    channels, groups = kernel.shape[0], _groups(node)
    return groups, result.size // channels, kernel.size // channels, channels // groups


def _transposed_conv(node: NodeProto, image: Array, kernel: Array, _: Array) -> tuple[int, int, int, int]:
    channels, groups = kernel.shape[0], _groups(node)
    return groups, image.size // channels, channels // groups, kernel.size // channels


def _groups(node: NodeProto) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)


# By type of node: the minimum number of matrix products, and their rows, inner dim and columns.
_PRODUCTS = {"MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "ConvTranspose": _transposed_conv}
