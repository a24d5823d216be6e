"""Read and write the attributes and the tensors of custom nodes with the types of the spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import AttributeProto, NodeProto, helper

from opforge.codegen.data.names import lower_camel
from opforge.codegen.expr.attr_kinds import ATTR_KINDS, AttrValue
from opforge.codegen.expr.tree import element_name
from opforge.codegen.expr.value_text import value_text
from opforge.codegen.printing import shown
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import AttrSpec, TensorSpec

from .reason import Unmatched

ATTRIBUTE_TYPES: dict[str, AttributeProto.AttributeType] = {
    kind.name: getattr(AttributeProto, kind.onnx) for kind in ATTR_KINDS.values()
}


def default_attributes(spec: OpSpec) -> dict[str, AttrValue]:
    """Return the attributes with a default."""
    return {attr.name: attr.default for attr in spec.attrs if attr.default is not None}


def attribute_value(attribute: AttributeProto) -> AttrValue:
    """Return the Python value of an attribute of a kind that custom operators have."""
    value = helper.get_attribute_value(attribute)
    value = tuple(value) if isinstance(value, list) else value
    return value.decode() if isinstance(value, bytes) else value


def read_attributes(node: NodeProto, spec: OpSpec) -> dict[str, AttrValue]:
    """Return the attributes of a custom node by name, with defaults; accept camelCase and IR names.

    An attribute without default that is missing in PyTorch's function gets its implied value.

    Raises:
        Unmatched: One is unknown, missing, given twice, or of another kind.
    """
    known = {
        spelling: attr for attr in spec.attrs for spelling in (attr.name, lower_camel(attr.name), attr.ir or attr.name)
    }
    values: dict[str, AttrValue] = {}
    for attribute in node.attribute:
        attr = known.get(attribute.name)
        if attr is None and attribute.name == LIST_SIZES and spec.program.lists:
            continue
        if attr is None:
            names = ", ".join(attr.name for attr in spec.attrs) or "none"
            raise Unmatched(f"unknown attribute {shown(attribute.name)}; {spec.op_type} has {names}")
        if attr.name in values:
            raise Unmatched(f"attribute {attr.name} is given twice")
        values[attr.name] = _typed(attribute, attr)
    values = default_attributes(spec) | spec.torch.implied | values
    if missing := [attr.name for attr in spec.attrs if attr.name not in values]:
        raise Unmatched(f"required attribute {', '.join(missing)} is missing")
    return values


def _typed(attribute: AttributeProto, attr: AttrSpec) -> AttrValue:
    if attribute.ref_attr_name:
        raise Unmatched(f"attribute {attr.name} is a parameter of the enclosing function, expected a value")
    expected = ATTRIBUTE_TYPES[attr.type]
    if attribute.type != expected:
        got = AttributeProto.AttributeType.Name(attribute.type)
        raise Unmatched(f"attribute {attr.name} has kind {got}, expected {_kind(expected)}")
    try:
        value = attribute_value(attribute)
    except UnicodeDecodeError as error:
        raise Unmatched(f"attribute {attr.name} is not UTF-8 text") from error
    if attr.type == "bool":
        if value not in (0, 1):
            raise Unmatched(f"attribute {attr.name} is {value}, expected 0 or 1")
        return bool(value)
    if attr.type == "list_bool" and isinstance(value, tuple):
        if set(value) - {0, 1}:
            raise Unmatched(f"attribute {attr.name} is {value_text(value)}, expected a list of 0 and 1")
        return tuple(map(bool, value))
    return value


def _kind(kind: AttributeProto.AttributeType) -> str:
    return AttributeProto.AttributeType.Name(kind)


def make_attribute(attr: AttrSpec, value: AttrValue) -> AttributeProto:
    """Return one attribute for a custom node."""
    stored = list(map(int, value)) if attr.type == "list_bool" and isinstance(value, tuple) else value
    return helper.make_attribute(attr.name, stored, attr_type=ATTRIBUTE_TYPES[attr.type])


def int_attribute(node: NodeProto, name: str) -> int | None:
    """Return an integer attribute of a node; None if it is absent or not an integer."""
    for attribute in node.attribute:
        if attribute.name == name and attribute.type == AttributeProto.INT and not attribute.ref_attr_name:
            return attribute.i
    return None


def text_attribute(node: NodeProto, name: str) -> str:
    """Return a text attribute of a node; "" if it is absent or not a text."""
    for attribute in node.attribute:
        if attribute.name == name and attribute.type == AttributeProto.STRING:
            return attribute.s.decode(errors="replace")
    return ""


# The attribute with the numbers of tensors in the input lists, then in the output lists. A node needs it if the
# operator has several input lists or several output lists.
LIST_SIZES = "list_sizes"


def named_inputs(spec: OpSpec, node: NodeProto) -> dict[str, str]:
    """Return the inputs of a node by parameter; the tensors of a list are `x[0]`, `x[1]` and so on.

    Raises:
        Unmatched: The number of inputs is wrong.
    """
    sizes = _sizes(spec, node)
    lists = [tensor.name for tensor in spec.inputs if tensor.dynamic]
    return _named("inputs", spec.inputs, node.input, None if sizes is None else sizes[: len(lists)])


def named_outputs(spec: OpSpec, node: NodeProto) -> dict[str, str]:
    """Return the outputs of a node by parameter, as `named_inputs`."""
    sizes = _sizes(spec, node)
    lists = [tensor.name for tensor in spec.inputs if tensor.dynamic]
    return _named("outputs", spec.outputs, node.output, None if sizes is None else sizes[len(lists) :])


def names_in(tensors: Iterable[TensorSpec], counts: Mapping[str, int]) -> list[str]:
    """Return the name of each tensor; for a list, the names of its tensors."""
    return [
        name
        for tensor in tensors
        for name in (
            [element_name(tensor.name, index) for index in range(counts.get(tensor.name, 0))]
            if tensor.dynamic
            else [tensor.name]
        )
    ]


def counts_in(spec: OpSpec, names: Iterable[str]) -> dict[str, int]:
    """Return the number of tensors in each list among named tensors."""
    known = list(names)
    return {list_: sum(name.startswith(f"{list_}[") for name in known) for list_ in spec.program.lists}


def list_sizes(spec: OpSpec, counts: Mapping[str, int]) -> list[int]:
    """Return the value of the attribute `list_sizes` of a node; empty if the node does not need it."""
    groups = [[counts[t.name] for t in group if t.dynamic] for group in (spec.inputs, spec.outputs)]
    return groups[0] + groups[1] if max(map(len, groups)) > 1 else []


def _sizes(spec: OpSpec, node: NodeProto) -> list[int] | None:
    if not spec.program.lists:
        return None
    for attribute in node.attribute:
        if attribute.name == LIST_SIZES:
            sizes = list(attribute.ints)
            if attribute.type != AttributeProto.INTS or len(sizes) != len(spec.program.lists) or min(sizes) < 0:
                names = ", ".join(spec.program.lists)
                raise Unmatched(f"attribute {LIST_SIZES} is {sizes}, expected the numbers of tensors in {names}")
            return sizes
    return None


def _named(
    kind: str, tensors: Sequence[TensorSpec], values: Sequence[str], sizes: Sequence[int] | None
) -> dict[str, str]:
    names = ", ".join(tensor.name for tensor in tensors)
    lists = [tensor.name for tensor in tensors if tensor.dynamic]
    single = len(tensors) - len(lists)
    if not lists:
        given = [*values]
        while len(given) > len(tensors) and not given[-1]:
            given.pop()
        if len(given) > len(tensors):
            raise Unmatched(f"has {len(given)} {kind}, expected at most {len(tensors)}: {names}")
        return dict(zip((tensor.name for tensor in tensors), given, strict=False))
    if sizes is None and len(lists) == 1:
        sizes = [len(values) - single]
    if sizes is None:
        raise Unmatched(f"has no attribute {LIST_SIZES}, expected the numbers of tensors in {', '.join(lists)}")
    if len(values) != single + sum(sizes) or min(sizes) < 0:
        expected = f"{single + sum(sizes)}" if min(sizes) >= 0 else f"at least {single}"
        raise Unmatched(f"has {len(values)} {kind}, expected {expected}: {names}")
    return dict(zip(names_in(tensors, dict(zip(lists, sizes, strict=True))), values, strict=True))
