"""Compute nodes that depend only on constants, because ATC drops them: small ones here, others with onnx.

onnx's evaluator runs in a separate process, with limits of time, memory and bytes, because a model is untrusted. It
supports many more types than `ir/constants.py`, which is faster, is used by every rule, and is tried first here.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from opforge.codegen.process_limits import LimitError, Limits
from opforge.frontend.ir.external import with_data
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import Scope, normal_domain
from opforge.frontend.ir.tensor_data import BITS, data_problem, element_count
from opforge.frontend.limits import in_child
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.rule import ExtraNodes, Replacement
from opforge.frontend.state import Folded, State

from .atc_compat import constant_only_nodes, is_constant

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

Place = tuple[int, int]
# The rule name in replacements.
FOLD = "fold"
# Maximum bytes that one node may read, and that all of them may create.
_MAX_BYTES = 64 << 20
_LIMITS = Limits(30, 512 << 20)
_SECONDS = 15
# Since then, the types below have the semantics of onnx's evaluator; it does not have all older forms. It also ignores
# some attributes (recurrent nodes, Resize, LRN), so it is used only for these types.
_OPSET = 13
_TRUSTED = {
    *("Abs", "Acos", "Acosh", "And", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Clip", "Cos", "Cosh", "CumSum"),
    *("DepthToSpace", "Elu", "Equal", "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "GatherElements"),
    *("GatherND", "Gemm", "Greater", "GreaterOrEqual", "HardSigmoid", "IsInf", "IsNaN", "LeakyRelu", "Less"),
    *("LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "Mean", "Min", "Mod", "Neg", "NonZero", "Not", "OneHot"),
    *("Or", "Pad", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare", "Relu", "Round", "ScatterElements", "ScatterND", "Selu", "Sigmoid", "Sign"),
    *("Sin", "Sinh", "Size", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Sum", "Tan", "Tanh"),
    *("Tile", "TopK", "Transpose", "Trilu", "Where", "Xor"),
}


@dataclass(frozen=True)
class Folding:
    """The nodes that depend only on constants.

    Attributes:
        values: Their known outputs, by node and output name.
        rest: All other nodes.
    """

    values: dict[Place, dict[str, TensorProto]]
    rest: list[tuple[Scope, int]]


def fold_constants(state: State) -> State:
    """Replace the nodes that depend only on constants, except those that a rule matches."""
    view = state.context.view
    taken = {(p.scope.number, number) for p in state.matched.placements for number in (*p.nodes, *p.absorbed)}
    folding = fold(state.context, taken)
    folded = []
    for (scope, number), tensors in folding.values.items():
        nodes = [helper.make_node("Constant", [], [name], value=tensor) for name, tensor in tensors.items()]
        folded.append(Replacement(FOLD, view.scopes[scope], (number,), (), ExtraNodes(before=tuple(nodes))))
    vanishing = {(scope.number, number): scope.label(number) for scope, number in folding.rest}
    return replace(state, folded=Folded(tuple(folded), vanishing))


def fold(context: Context, skipped: Collection[Place]) -> Folding:
    """Compute the nodes of a model that depend only on constants, except `skipped` ones, which a rewrite replaces."""
    found: dict[Place, dict[str, TensorProto]] = {}
    nodes = list(constant_only_nodes(context.view))
    rest: list[tuple[Scope, int]] = []
    for scope, number in nodes:
        if (scope.number, number) in skipped:
            continue
        node = scope.node(number)
        try:
            value = context.constants.value(scope, node.output[0] if len(node.output) == 1 else "")
        except Unmatched:
            is_trusted = scope.opsets.get("", 0) >= _OPSET and node.op_type in _TRUSTED
            if normal_domain(node.domain) == "" and is_trusted:
                rest.append((scope, number))
            continue
        found[scope.number, number] = {node.output[0]: numpy_helper.from_array(value, node.output[0])}
    if rest:
        found |= _evaluated(context, rest)
    return Folding(found, [(scope, number) for scope, number in nodes if (scope.number, number) not in found])


def _evaluated(context: Context, nodes: Iterable[tuple[Scope, int]]) -> dict[Place, dict[str, TensorProto]]:
    """Compute nodes with onnx, in order; return only those that it supports within the limits."""
    # Loaded once in the parent, because imports of a child process are lost with it.
    from onnx.reference import ReferenceEvaluator

    try:
        answer = in_child(lambda: _Evaluator(context, ReferenceEvaluator).run(nodes).SerializeToString(), _LIMITS)
    except LimitError:
        return {}
    found: dict[Place, dict[str, TensorProto]] = {}
    for tensor in GraphProto.FromString(answer).initializer:
        scope, number, name = tensor.name.split(":", 2)
        tensor.name = name
        found.setdefault((int(scope), int(number)), {})[name] = tensor
    return found


class _Evaluator:
    """Runs nodes one by one."""

    def __init__(self, context: Context, evaluator: type[ReferenceEvaluator]) -> None:
        self._context = context
        self._evaluator = evaluator
        self._values: dict[tuple[int, str], NDArray[np.generic]] = {}

    def run(self, nodes: Iterable[tuple[Scope, int]]) -> GraphProto:
        """Return the results as tensors called `scope:node:name`."""
        made, budget = GraphProto(), _MAX_BYTES
        for scope, number in nodes:
            try:
                results = self._results(scope, number)
                # Checked before the tensors are created, which would be a second copy of large data.
                budget -= sum(array.nbytes for array in results.values())
                if budget < 0 or time.process_time() > _SECONDS:
                    break
                tensors = [numpy_helper.from_array(a, f"{scope.number}:{number}:{n}") for n, a in results.items()]
            except Exception:  # noqa: BLE001, S112  # any error of the evaluator: onnx cannot compute the node
                continue
            self._values |= {(scope.number, name): array for name, array in results.items()}
            made.initializer.extend(tensors)
        return made

    def _results(self, scope: Scope, number: int) -> Mapping[str, NDArray[np.generic]]:
        node = NodeProto()
        node.CopyFrom(scope.node(number))
        node.domain = ""
        inputs = {name: self._value(scope, name) for name in node.input if name}
        names = [name for name in node.output if name]
        graph = helper.make_graph(
            [node],
            "node",
            [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in inputs],
            [helper.make_value_info(name, helper.make_tensor_type_proto(0, None)) for name in names],
        )
        opsets = [helper.make_opsetid("", scope.opsets[""])]
        results = self._evaluator(helper.make_model(graph, opset_imports=opsets)).run(None, inputs)
        if not all(isinstance(result, (np.ndarray, np.generic)) for result in results):
            raise Unmatched("is a sequence")
        return dict(zip(names, map(np.asarray, results), strict=True))

    def _value(self, scope: Scope, name: str) -> NDArray[np.generic]:
        found = scope.find(name)
        if found is None:
            raise Unmatched("is absent")
        owner, maker = found
        if (owner.number, name) in self._values:
            return self._values[owner.number, name]
        node = owner.node(maker) if maker >= 0 else None
        values = [a.t for a in node.attribute if a.name == "value"] if node is not None and is_constant(node) else []
        tensor = values[0] if values else owner.initializer(name)
        if tensor is None:
            return self._context.constants.value(owner, name)
        count, bits = element_count(tensor), BITS.get(tensor.data_type)
        if count is None or bits is None or count * bits > 8 * _MAX_BYTES or data_problem(tensor):
            raise Unmatched("is too large")
        return numpy_helper.to_array(with_data(tensor, self._context.folder))
