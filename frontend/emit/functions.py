"""Write ONNX function bodies of custom operators, in standard operators of the opset of the model.

A spec writes one body per case in the operators of opset 15 and later. All functions of a model must use the model's
opset (onnx.checker and onnxruntime insist), so for older models the body is written in older spellings; what has
none, such as a scatter that adds before opset 16, leaves the node without a body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx.defs
import onnx.parser
from onnx import FunctionProto, NodeProto, TypeProto, helper, numpy_helper

from opforge.codegen.spec.model import OpSpec
from opforge.frontend.ir.onnx_nodes import AXES_INPUT_OPSET
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES

# From here on nothing in a body has an older spelling.
_BODY_OPSET = 15
# Cast and ReduceSum know bfloat16.
_BFLOAT16_OPSET = 13


def body_needs_dtypes(opset: int) -> bool:
    """Return whether a body for this opset has element types written into it."""
    return opset < _BODY_OPSET


def function_body(spec: OpSpec, case: str, arity: int, opset: int, dtypes: Mapping[str, str]) -> FunctionProto | None:
    """Return the body of one case for a model of this opset; None when there is none, or the opset cannot express it.

    Args:
        spec: The operator.
        case: Name of the case.
        arity: How many inputs the node has.
        opset: Version of ai.onnx that the model imports.
        dtypes: Element types of the inputs by name, where known; only opsets before 15 need them.
    """
    if case not in spec.onnx.bodies:
        return None
    inputs = ", ".join(tensor.name for tensor in spec.inputs[:arity])
    outputs = ", ".join(tensor.name for tensor in spec.outputs)
    attrs = f"<{', '.join(attr.name for attr in spec.attrs)}>" if spec.attrs else ""
    function = onnx.parser.parse_function(
        f'<opset_import: ["" : {opset}], domain: "{OPFORGE_DOMAIN}"> {spec.op_type} {attrs} ({inputs}) => ({outputs})'
        f" {{ {spec.onnx.bodies[case]} }}"
    )
    nodes = list(function.node) if opset >= _BODY_OPSET else _older_spelling(function, opset, dtypes)
    if nodes is None or not all(_exists(node, opset) for node in nodes):
        return None
    del function.node[:]
    function.node.extend(nodes)
    return function


def body_by_rank(spec: OpSpec, bodies: Mapping[str, FunctionProto]) -> FunctionProto | None:
    """Return one body for several cases, selected by the rank of an input; None if the rank does not select one.

    Args:
        spec: The operator.
        bodies: Bodies by case, all with the same inputs.
    """
    cases = [spec.program.case(name) for name in bodies]
    for tensor in spec.inputs:
        ranks = {len(case.shapes[tensor.name]): bodies[case.name] for case in cases if tensor.name in case.shapes}
        if not tensor.optional and len(ranks) == len(cases):
            function = FunctionProto()
            function.CopyFrom(next(iter(bodies.values())))
            del function.node[:]
            function.node.extend(_by_rank(tensor.name, sorted(ranks.items()), ""))
            return function
    return None


def _by_rank(tensor: str, bodies: Sequence[tuple[int, FunctionProto]], prefix: str) -> list[NodeProto]:
    """Return nodes that compute the body of the matching rank; all of their names begin with `prefix`."""
    (rank, body), *others = bodies
    if not others:
        return _prefixed(body, prefix)
    # No name of a spec begins with an underscore.
    dims, found, wanted, same = (f"{prefix}_{name}" for name in ("dims", "rank", "wanted", "same"))
    then_prefix, else_prefix = f"{prefix}_rank{rank}_", f"{prefix}_other_"
    wanted_value = helper.make_tensor("value", ELEMENT_TYPES["int64"], [], [rank])
    choice = helper.make_node("If", [same], [prefix + name for name in body.output])
    branches = (
        ("then_branch", _prefixed(body, then_prefix), then_prefix),
        ("else_branch", _by_rank(tensor, others, else_prefix), else_prefix),
    )
    for name, nodes, made in branches:
        graph = helper.make_graph(
            nodes, "body", [], [helper.make_value_info(made + output, TypeProto()) for output in body.output]
        )
        choice.attribute.append(helper.make_attribute(name, graph))
    return [
        helper.make_node("Shape", [tensor], [dims]),
        helper.make_node("Size", [dims], [found]),
        helper.make_node("Constant", [], [wanted], value=wanted_value),
        helper.make_node("Equal", [found, wanted], [same]),
        choice,
    ]


def _prefixed(body: FunctionProto, prefix: str) -> list[NodeProto]:
    made = {name for node in body.node for name in node.output}
    nodes = []
    for node in body.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [prefix + name if name in made else name for name in node.input]
        copy.output[:] = [prefix + name for name in node.output]
        nodes.append(copy)
    return nodes


def _older_spelling(function: FunctionProto, opset: int, dtypes: Mapping[str, str]) -> list[NodeProto] | None:
    if opset < _BFLOAT16_OPSET and "bfloat16" in dtypes.values():
        return None
    constants = {node.output[0]: node for node in function.node if node.op_type == "Constant"}
    nodes: list[NodeProto] = []
    for node in function.node:
        if node.op_type == "CastLike":
            if node.input[1] not in dtypes:
                return None
            nodes.append(helper.make_node("Cast", node.input[:1], node.output, to=ELEMENT_TYPES[dtypes[node.input[1]]]))
        elif (
            node.op_type in {"ReduceSum", "Squeeze", "Unsqueeze"} and len(node.input) == 2 and opset < AXES_INPUT_OPSET
        ):
            if node.input[1] not in constants:
                return None
            axes = numpy_helper.to_array(constants[node.input[1]].attribute[0].t)
            older = helper.make_node(node.op_type, node.input[:1], node.output, axes=axes.tolist())
            older.attribute.extend(node.attribute)
            nodes.append(older)
        else:
            nodes.append(node)
    return list(_used(nodes, set(function.output)))


def _exists(node: NodeProto, opset: int) -> bool:
    if not onnx.defs.has(node.op_type, max_inclusive_version=opset, domain=""):
        return False
    known = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset, domain="")
    return len(node.input) <= known.max_input and all(
        attribute.name in known.attributes for attribute in node.attribute
    )


def _used(nodes: list[NodeProto], outputs: set[str]) -> Iterator[NodeProto]:
    """Without the constants that became attributes; order kept."""
    read = outputs | {name for node in nodes for name in node.input}
    return (node for node in nodes if any(name in read for name in node.output))
