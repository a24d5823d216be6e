"""Check the ONNX body of a case: statements of the ONNX text form in standard operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opforge.codegen.data.names import nearest
from opforge.codegen.printing import first_line

from .model import OpSpec

if TYPE_CHECKING:
    import onnx

# The version of the standard operators in bodies.
OPSET = 18


def _hint(got: str, known: Iterable[str]) -> str:
    near = nearest(got, sorted(known))
    return f"did you mean {near!r}?" if near else "check its spelling"


def body_problems(spec: OpSpec, case: str) -> Iterator[str]:
    """Return the errors in the body of one case: syntax, operators, attributes, arities and names."""
    import onnx.defs
    import onnx.parser
    from google.protobuf.message import DecodeError

    attrs = f"<{', '.join(attr.name for attr in spec.attrs)}>" if spec.attrs else ""
    inputs, outputs = ([tensor.name for tensor in tensors] for tensors in (spec.inputs, spec.outputs))
    head = f'<opset_import: ["" : {OPSET}], domain: "d"> F {attrs} ({", ".join(inputs)}) => ({", ".join(outputs)})'
    try:
        function = onnx.parser.parse_function(f"{head} {{ {spec.onnx.bodies[case]} }}")
    except onnx.parser.ParseError as error:
        detail = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        # The first line is a position in the text with the inserted head; the context below it is useful.
        yield f"got text that is not an ONNX function body: {' '.join(detail.partition(']')[2].split())[:300]}"
        return
    except (DecodeError, IndexError, RuntimeError, ValueError) as error:
        # Errors of the C++ parser: numbers that are too large, too many levels.
        reason = first_line(error)
        yield f"got text that the ONNX parser cannot read ({reason}), expected smaller numbers and fewer levels"
        return
    known = {*inputs, ""}
    for node in function.node:
        place = f"'{', '.join(node.output)} = {node.op_type} (..)'"
        problems = [*_operator_problems(spec, node)]
        problems += [
            f"reads {name!r}, which no earlier statement defines; {_hint(name, known)}"
            for name in node.input
            if name not in known
        ]
        problems += [f"defines {name!r} again" for name in node.output if name in known]
        yield from (f"{place}: {problem}" for problem in problems)
        known |= set(node.output)
    yield from (f"does not define {name!r}, an output of the operator" for name in outputs if name not in known)


def _operator_problems(spec: OpSpec, node: onnx.NodeProto) -> Iterator[str]:
    """Return the errors in the operator of a statement, its attributes and its number of inputs."""
    import onnx.defs

    if node.domain or not onnx.defs.has(node.op_type, OPSET):
        # A list of all of them takes longer than all other checks.
        operators = {s.name for s in onnx.defs.get_all_schemas() if not s.domain and s.since_version <= OPSET}
        yield f"unknown ONNX operator {node.op_type!r}; {_hint(node.op_type, operators)}"
        return
    schema = onnx.defs.get_schema(node.op_type, OPSET)
    if not schema.min_input <= len(node.input) <= schema.max_input:
        yield f"got {len(node.input)} inputs, expected {schema.min_input} to {schema.max_input}"
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            yield f"unknown attribute {attribute.name!r}; {_hint(attribute.name, schema.attributes)}"
        if attribute.ref_attr_name and attribute.ref_attr_name not in [attr.name for attr in spec.attrs]:
            yield f"refers to the attribute {attribute.ref_attr_name!r}, which the operator does not have"
