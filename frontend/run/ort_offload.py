"""Run large nodes on onnxruntime if it is installed, because onnx's evaluator is slow for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper
from onnx.reference.op_run import OpRun

from opforge.frontend.ir.scope import normal_domain

# Total elements of all inputs; onnx's evaluator is fast with fewer.
LARGE = 1 << 16
_IR_VERSION = 8
_SILENT = 4


class LargeNodes:
    """Runs nodes of onnx's evaluator on onnxruntime.

    Attributes:
        ran: Number of runs of nodes on onnxruntime.
    """

    def __init__(self) -> None:
        self.ran = 0
        self._is_installed = find_spec("onnxruntime") is not None

    def take_over(self, nodes: Sequence[OpRun]) -> None:
        """Run standard nodes on onnxruntime if their inputs are large."""
        for node in nodes:
            node.run = self._runner(node, node.run)  # type: ignore[method-assign]

    def _runner(self, node: OpRun, run: Callable[..., Any]) -> Callable[..., Any]:
        proto = node.onnx_node
        is_plain = not normal_domain(proto.domain) and not any(
            attribute.ref_attr_name or attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
            for attribute in proto.attribute
        )

        def taken(*values: Any, **options: Any) -> Any:
            results = self._results(node, values) if is_plain and self._is_installed else None
            return run(*values, **options) if results is None else results

        return taken

    def _results(self, node: OpRun, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run a node on onnxruntime; return None for small inputs and unsupported nodes."""
        given = [value for value in values if value is not None]
        if not all(isinstance(value, np.ndarray) for value in given) or sum(value.size for value in given) < LARGE:
            return None
        proto = node.onnx_node
        feeds = {name: value for name, value in zip(proto.input, values, strict=False) if name}
        try:
            made = iter(_session(_alone(proto, feeds, node.run_params["opsets"])).run(None, feeds))
        except Exception:  # noqa: BLE001  # errors of any class; onnx's evaluator reports them
            return None
        self.ran += 1
        return tuple(next(made) if name else None for name in proto.output)


def _alone(node: NodeProto, feeds: dict[str, Any], opsets: dict[str, int]) -> ModelProto:
    """Return a model of one node, for inputs of any shape."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
    graph = helper.make_graph(
        [node], "node", [helper.make_tensor_value_info(*kind, None) for kind in kinds.items()], []
    )
    for name in filter(None, node.output):
        graph.output.add(name=name)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items() if not normal_domain(domain)]
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)


def _session(model: ModelProto) -> Any:
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
