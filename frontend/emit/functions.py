"""Write ONNX function bodies of custom operators, in standard operators of the opset of the model.

A spec writes one body per case in the operators of opset 15 and later. All functions of a model must use the model's
opset (required by onnx.checker and onnxruntime), so for older models the body is written in older spellings. A node
without an older spelling, such as a scatter that adds before opset 16, has no body.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx.defs
import onnx.parser
from onnx import FunctionProto, NodeProto, helper, numpy_helper

from opforge.codegen.spec.model import OpSpec
from opforge.frontend.ir.onnx_nodes import AXES_INPUT_OPSET
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES

from .nodes import read_nodes

# From this version on, bodies need no older spelling.
_BODY_OPSET = 15
# From this version on, Cast and ReduceSum support bfloat16.
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
        dtypes: Known element types of the inputs by name; only opsets before 15 need them.
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
    # Some constants became attributes.
    return read_nodes(nodes, function.output)


def _exists(node: NodeProto, opset: int) -> bool:
    if not onnx.defs.has(node.op_type, max_inclusive_version=opset, domain=""):
        return False
    known = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset, domain="")
    return len(node.input) <= known.max_input and all(
        attribute.name in known.attributes for attribute in node.attribute
    )
