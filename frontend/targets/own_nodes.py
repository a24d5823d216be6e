"""Check custom nodes as the parts of a package would: the ONNX plugin, then shape inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.codegen.spec.checker import first_name
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.semantics import Call, ShapeInferenceError, check, infer
from opforge.frontend.emit.atc_compat import is_read_by_atc
from opforge.frontend.ir.attributes import LIST_SIZES, named_inputs, read_attributes
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, onnx_keys, version_problem
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import Scope, normal_domain
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.search import Search
from opforge.package.doctor.cann_environment import CUSTOM_PATH, OPP_PATH, CannEnvironment, is_visible

from .finding import CONVERT, OPFORGE, Finding, label

# Codes: no parser found; the parser or the IO mapping rejects; shape inference rejects.
NO_PARSER, PARSER, SHAPES = "E13010", "E19999", "EZ9999"


def own_keys(context: Context) -> dict[tuple[str, str], str]:
    """Return the operators by (domain, op type), for all names that the plugins of the project register."""
    found = {}
    for spec in context.specs.values():
        for key in onnx_keys(spec):
            if (key.domain, key.op_type) not in context.view.functions or key.domain == OPFORGE_DOMAIN:
                found[key.domain, key.op_type] = spec.op_type
    return found


def plain_types(context: Context) -> set[str]:
    """Return the types of ai.onnx that the plugins of the project register for the version that the model imports."""
    version = context.view.main.opsets.get("")
    keys = (key for spec in context.specs.values() for key in onnx_keys(spec))
    return {key.op_type for key in keys if not key.domain and version in key.versions}


def operator_findings(search: Search, ours: Mapping[tuple[str, str], str]) -> Iterator[Finding]:
    """Check custom operators against their constraints, and report nodes that a conversion would map."""
    for scope, number, _, reason in search.refusals:
        node = scope.node(number)
        key = normal_domain(node.domain), node.op_type
        if key in ours and is_read_by_atc(scope):
            code = _refusing_part(search.context, scope, node, search.context.specs[ours[key]])
            yield Finding(label(node, number), code, reason.text, "correct the node")
    for placement in search.placements:
        scope, number = placement.scope, placement.nodes[-1]
        node = scope.node(number)
        key = normal_domain(node.domain), node.op_type
        if not is_read_by_atc(scope):
            fix = "move it out of the subgraph" if scope.function is None else "inline the function"
            yield Finding(label(node, number), NO_PARSER, f"is in {scope.place}; ATC does not read it", fix)
        elif key not in ours:
            yield Finding(label(node, number), NO_PARSER, f"can become {placement.call.spec.op_type}", CONVERT)
        elif other := [a.name for a in node.attribute if a.name not in _attribute_names(placement.call.spec)]:
            cause = f"has an attribute {shown(other[0])}, which the plugin knows under another name"
            yield Finding(label(node, number), PARSER, cause, CONVERT)


def _attribute_names(spec: OpSpec) -> set[str]:
    return {attr.name for attr in spec.attrs} | ({LIST_SIZES} if spec.program.lists else set())


def _refusing_part(context: Context, scope: Scope, node: NodeProto, spec: OpSpec) -> str:
    """Return the code with which ATC rejects a custom node, or `OPFORGE` if ATC's parser accepts it."""
    own = normal_domain(node.domain), node.op_type
    if any(version_problem(key, scope.opsets) for key in onnx_keys(spec) if (key.domain, key.op_type) == own):
        return NO_PARSER
    extra = [] if spec.program.lists else node.output[len(spec.outputs) :]
    if any(context.view.is_read(scope, name) for name in extra):
        return PARSER
    if any(attribute.name not in _attribute_names(spec) for attribute in node.attribute):
        return PARSER
    try:
        given = {name: value for name, value in named_inputs(spec, node).items() if value}
        attrs = read_attributes(node, spec)
    except Unmatched:
        return PARSER
    missing = [tensor.name for tensor in spec.inputs if not tensor.optional and first_name(tensor) not in given]
    # With unknown shapes and dtypes, only constraints of attributes can be violated, which the plugin checks.
    if missing or check(spec, Call(dict.fromkeys(given), attrs=attrs), with_outputs=False) is not None:
        return PARSER
    shapes = {name: context.types.of(scope, value).shape for name, value in given.items()}
    lists = {tensor.name: _known_list(context, scope, given.get(tensor.name, "")) for tensor in spec.host_lists}
    known = {name: values for name, values in lists.items() if values is not None}
    try:
        infer(spec, Call(shapes, attrs=attrs, values=known))
    except ShapeInferenceError:
        return SHAPES
    return OPFORGE


def _known_list(context: Context, scope: Scope, name: str) -> list[int] | None:
    """Return the values of a constant list of integers; None for any other value."""
    try:
        values = context.constants.value(scope, name) if name else np.zeros(0)
    except Unmatched:
        return None
    return [int(value) for value in np.ravel(values)] if values.dtype.kind in "iu" else None


def package_findings(
    view: GraphView, ours: Mapping[tuple[str, str], str], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Check that an installed package has each operator, if an environment variable names a package."""
    if not environment.get(CUSTOM_PATH) and not environment.get(OPP_PATH):
        return
    vendors = CannEnvironment(environment).vendors
    used = {
        ours[key]: label(node, number)
        for scope in view.scopes
        if is_read_by_atc(scope)
        for number, node in enumerate(scope.body.node)
        if (key := (normal_domain(node.domain), node.op_type)) in ours
    }
    for op_type, name in used.items():
        holding = [vendor for vendor in vendors if op_type in vendor.operators]
        if not any(is_visible(vendor.libraries["ONNX plugin"]) for vendor in holding):
            cause = f"no package of {CUSTOM_PATH} or {OPP_PATH} has a plugin for {op_type}"
            yield Finding(name, NO_PARSER, cause, "install the package, then source its set_env.bash")
        elif not any(is_visible(vendor.libraries["shape inference"]) for vendor in holding):
            cause = f"no package of {CUSTOM_PATH} or {OPP_PATH} registers the IR of {op_type}"
            yield Finding(name, "E10501", cause, "install the package again; its op_proto folder is missing")
