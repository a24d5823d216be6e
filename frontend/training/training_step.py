"""Join the two graphs of onnxruntime-training: the gradients and the step of the optimizer.

The optimizer has its tensors as sequences that the runtime fills; only the training graph identifies them.
"""

from __future__ import annotations

from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown
from opforge.frontend.ir.scope import normal_domain

from .formula import MICROSOFT

_GRADIENT = "_grad"
# Number of inputs of an optimizer before its sequences, and the suffixes of the moments, which follow the parameters
# and the sums of gradients in these.
_SEQUENCES: dict[str, tuple[int, tuple[str, ...]]] = {
    "AdamWOptimizer": (2, (".first", ".second")),
    "SGDOptimizerV2": (1, ()),
}


def training_step(training: ModelProto, optimizer: ModelProto, where: str) -> ModelProto:
    """Return a training graph followed by the node of an optimizer, on sequences of all its parameters.

    Moments are inputs called `<parameter>.first` and `<parameter>.second`. The gradients are the sums in the buffers
    after this run, as in onnxruntime-training. `where` is the prefix of messages.

    Raises:
        UserError: One of them is not such a graph, or a name exists in both.
    """
    step = ModelProto()
    step.CopyFrom(training)
    totals = [node for node in step.graph.node if _is(node, "InPlaceAccumulatorV2")]
    gradients = [_gradient(node) for node in totals]
    nodes = [node for node in optimizer.graph.node if any(_is(node, op_type) for op_type in _SEQUENCES)]
    inputs = {value.name: value for value in training.graph.input}
    parameters = [name.removesuffix(_GRADIENT) for name in gradients]
    if not parameters or not all(name in inputs for name in parameters):
        raise UserError(
            f"{where}: sums no gradients of its inputs (InPlaceAccumulatorV2 of <input>{_GRADIENT}), expected the"
            " training_model.onnx of onnxruntime-training"
        )
    if len(nodes) != 1 or len(optimizer.graph.node) != 1:
        types = ", ".join(_SEQUENCES)
        raise UserError(
            f"--optimizer: got {len(optimizer.graph.node)} nodes, expected the optimizer_model.onnx of"
            f" onnxruntime-training, which has one of {types}"
        )
    (node,) = nodes
    first, moments = _SEQUENCES[node.op_type]
    groups = [parameters, [_sum(total) for total in totals]]
    groups += [[name + suffix for name in parameters] for suffix in moments]
    given, sequences = node.input[:first], node.input[first : first + len(groups)]
    named = {value.name: value for value in optimizer.graph.input}
    new = [_like(inputs[name], name + suffix) for suffix in moments for name in parameters]
    new += [named[name] for name in given if name in named]
    made = [name for other in step.graph.node for name in other.output if name]
    _require_free(set(inputs), [*made, *(value.name for value in new), *sequences, *node.output])
    step.graph.input.extend(new)
    for name, members in zip(sequences, groups, strict=True):
        step.graph.node.append(helper.make_node("SequenceConstruct", members, [name]))
    step.graph.node.append(node)
    step.graph.output.extend(optimizer.graph.output)
    imported = {normal_domain(entry.domain) for entry in training.opset_import}
    step.opset_import.extend(e for e in optimizer.opset_import if normal_domain(e.domain) not in imported)
    return step


def _is(node: NodeProto, op_type: str) -> bool:
    return node.domain == MICROSOFT and node.op_type == op_type


def _gradient(node: NodeProto) -> str:
    """Return the name of the gradient that a sum adds."""
    return node.input[1] if len(node.input) > 1 else ""


def _sum(node: NodeProto) -> str:
    """Return the output of a sum of gradients; name it, because onnxruntime-training writes no name."""
    if not any(node.output[1:]):
        node.output[1:] = [f"{node.input[0]}_updated"]
    return node.output[1]


def _like(value: ValueInfoProto, name: str) -> ValueInfoProto:
    return ValueInfoProto(name=name, type=value.type)


def _require_free(taken: set[str], names: list[str]) -> None:
    for name in names:
        if name in taken:
            raise UserError(f"--optimizer: the training graph has a value called {shown(name)} too; export both again")
        taken.add(name)
