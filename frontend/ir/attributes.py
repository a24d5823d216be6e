"""Read and write attributes of custom operators with the types of the spec."""

from __future__ import annotations

from onnx import AttributeProto, NodeProto, helper

from opforge.codegen.data.names import lower_camel
from opforge.codegen.expr.attr_kinds import ATTR_KINDS, AttrValue
from opforge.codegen.expr.value_text import value_text
from opforge.codegen.printing import shown
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import AttrSpec

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
