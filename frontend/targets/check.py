"""Report errors that ATC reports late, unclearly or not at all: one finding per fault, with cause and fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

import onnx.defs
from onnx import NodeProto

from opforge.codegen.printing import path_text
from opforge.frontend.emit.atc_compat import (
    SPELLINGS,
    constant_only_nodes,
    drops_constant_nodes,
    is_constant,
    is_read_by_atc,
)
from opforge.frontend.emit.fold import fold
from opforge.frontend.emit.opset import ATC_OPSETS
from opforge.frontend.emit.sparse import sparse_constants, without_sparse
from opforge.frontend.io.load import SourceModel
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, suggestion
from opforge.frontend.ir.scope import INITIALIZER, Scope, normal_domain
from opforge.frontend.ir.tensor_type import DTYPE_WORDS
from opforge.frontend.operators import project_specs
from opforge.frontend.parsers.atc_limits import limit_problems
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.discovery import rules
from opforge.frontend.rules.search import Search

from .finding import CONVERT, OPFORGE, Finding, label
from .own_nodes import NO_PARSER, operator_findings, own_keys, package_findings, plain_types

# Element types of ONNX that are missing in the parser's table.
_UNKNOWN_TYPES = {word for word in DTYPE_WORDS.values() if word.endswith("fnuz") or word in {"uint4", "float4e2m1"}}
_UNKNOWN_TYPES |= {"int2", "uint2", "float8e8m0"}


def check_model(source: SourceModel, environment: Mapping[str, str]) -> list[Finding]:
    """Return all findings of a model file.

    Args:
        source: The model.
        environment: Environment variables; packages in them are checked too.

    Raises:
        UserError: The graph is malformed: a duplicate name, a cycle, or an undefined value.
    """
    view = GraphView(source.model, path_text(source.path))
    dense, stays = without_sparse(view, source.path.parent)
    searched = view if dense is source.model else GraphView(dense, path_text(source.path))
    context = Context(searched, {spec.op_type: spec for spec in project_specs()}, source.path.parent)
    ours = own_keys(context)
    search = Search(context, (), OPFORGE_DOMAIN)
    search.run()
    findings = [*_ends(view)]
    if source.ge is None:  # ATC reads a graph of GE without a parser
        findings += _parser_findings(view, context, search, ours, stays)
    own = operator_findings(search, ours)
    findings += own if source.ge is None else [_of_ge(finding) for finding in own]
    return [*findings, *package_findings(view, ours, environment)]


def _of_ge(finding: Finding) -> Finding:
    """Return a finding without the code of a parser; operators of GE in ATC could be custom operators."""
    is_known = finding.code == NO_PARSER
    return replace(finding, code=OPFORGE, level="warning" if is_known else finding.level)


def _parser_findings(
    view: GraphView, context: Context, search: Search, ours: Mapping[tuple[str, str], str], stays: Collection[str]
) -> Iterator[Finding]:
    """Check the parts that ATC's ONNX parser reads."""
    # A conversion changes a model only if a rule matches.
    is_rewritten = bool(search.placements)
    reasons = {(scope.number, number): reason.text for scope, number, _, reason in search.refusals}
    yield from _imports(view, plain_types(context), is_rewritten=is_rewritten)
    yield from _names(view)
    yield from _joined_names(view)
    yield from _sparse(view, set(stays) if is_rewritten else None)
    for scope in view.scopes:
        if is_read_by_atc(scope):
            for number, node in enumerate(scope.body.node):
                if (scope.number, number) not in search.claimed:
                    reason = reasons.get((scope.number, number), "")
                    yield from _node(context, scope, number, node, ours, reason, is_rewritten=is_rewritten)
    yield from _vanishing(view, fold(context, search.claimed).values if is_rewritten else ())


def _imports(view: GraphView, ours: Collection[str], *, is_rewritten: bool) -> Iterator[Finding]:
    """Check the operator sets; `ours` are types of ai.onnx that the plugins of the project register for its version."""
    domains = [normal_domain(entry.domain) for entry in view.model.opset_import]
    for domain in sorted(domain for domain, count in Counter(domains).items() if count > 1):
        cause = f"imports {domain or 'ai.onnx'} twice, expected once; ATC uses the last version"
        yield Finding("model", "silent", cause, CONVERT if is_rewritten else "remove one of the two")
    version = view.main.opsets.get("")
    plain = [
        node
        for scope in view.scopes
        if is_read_by_atc(scope)
        for node in scope.body.node
        if not normal_domain(node.domain)
    ]
    is_known = all(
        is_constant(node) or node.op_type in ours or is_registered("", node.op_type, version or 0) for node in plain
    )
    if version is not None and version not in ATC_OPSETS and not is_known:
        span = f"{ATC_OPSETS.start} to {ATC_OPSETS.stop - 1}"
        yield Finding(
            "model",
            "E13010",
            f"imports ai.onnx {version}, expected {span}",
            "export the model with opset 18",
        )
    if len(set(domains)) > 1 and plain:
        names = ", ".join(sorted(domain or "ai.onnx" for domain in set(domains)))
        yield Finding(
            "model",
            "E16005",
            f"imports {len(set(domains))} domains ({names}), expected 1 by older versions of ATC",
            "convert the model with --domain ai.onnx",
            "warning",
        )


def _ends(view: GraphView) -> Iterator[Finding]:
    """Check inputs and outputs."""
    graph, main = view.model.graph, view.main
    given = [value for value in graph.input if main.makers.get(value.name) != INITIALIZER]
    if not graph.input:
        yield Finding("model", "E16001", "has no input", "export a model with an input")
    if not graph.output:
        yield Finding("model", "E16001", "has no output", "export a model with an output")
    for value in given:
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value") or "value without a type"
            cause = f"the input is a {kind}, expected a tensor"
            yield Finding(value.name, "E19999", cause, "export the model with tensors only")
            continue
        if not tensor.HasField("shape"):
            yield Finding(value.name, "silent", "the input has no shape; ATC assumes a scalar", "declare its shape")
        elif any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in tensor.shape.dim):
            yield Finding(
                value.name,
                "E10001",
                "the input has unknown dimensions",
                "give the sizes with --input-shape of opforge atc",
                "warning",
            )
        yield from _type(value.name, tensor.elem_type)
    for initializer in graph.initializer:
        yield from _type(initializer.name, initializer.data_type)


def _sparse(view: GraphView, stays: Collection[str] | None) -> Iterator[Finding]:
    """Check sparse constants. A conversion that rewrites a node also makes them dense, except those in `stays`."""
    for scope, name in sparse_constants(view):
        if is_read_by_atc(scope):
            fix = "make it dense" if stays is None or name in stays else CONVERT
            yield Finding(name or "''", "silent", "is a sparse constant; ATC drops its values", fix)


def _type(name: str, number: int) -> Iterator[Finding]:
    word = DTYPE_WORDS.get(number)
    if word is None or word in _UNKNOWN_TYPES:
        got = word or f"element type {number}"
        yield Finding(
            name, "E19999", f"has {got}; ATC has no such type", "use float16, bfloat16, float32 or an integer type"
        )


def _names(view: GraphView) -> Iterator[Finding]:
    for scope in view.scopes:
        if not is_read_by_atc(scope):
            continue
        # ATC parses a subgraph with separate names.
        inputs, seen = set(scope.input_names), set[str]()
        for number, node in enumerate(scope.body.node):
            if node.name and (node.name in seen or node.name in inputs):
                other = "an input" if node.name in inputs else "another node"
                yield Finding(label(node, number), "E13009", f"{other} has the same name", "rename the node")
            seen.add(node.name)


def _joined_names(view: GraphView) -> Iterator[Finding]:
    nodes = [(s, n, node) for s in view.scopes if is_read_by_atc(s) for n, node in enumerate(s.body.node)]
    if not any("" in node.input for _, _, node in nodes):
        return
    for _, number, node in nodes:
        if "" in node.output:
            cause = "an output has no name; ATC connects it to absent inputs"
            yield Finding(label(node, number), "silent", cause, "name all unused outputs")


def _node(
    context: Context,
    scope: Scope,
    number: int,
    node: NodeProto,
    ours: Mapping[tuple[str, str], str],
    left: str,
    *,
    is_rewritten: bool,
) -> Iterator[Finding]:
    """Check one node; `left` is the reason why no rule matches, or "" if no rule was tried."""
    view, key = context.view, (normal_domain(node.domain), node.op_type)
    name = label(node, number)
    version = scope.opsets.get(key[0])
    if version is None:
        fix = "add the domain to opset_import"
        yield Finding(name, "E19999", f"the domain {key[0] or 'ai.onnx'} is not in opset_import", fix)
        return
    if is_constant(node):
        yield from _constant(name, node, is_rewritten=is_rewritten)
        return
    if key in ours:
        return
    if key in view.functions:
        yield Finding(name, "E13010", "calls a local function; ATC does not expand functions", "inline the function")
        return
    if not is_registered(*key, version):
        spelled = f"{key[0] or 'ai.onnx'}::{version}::{key[1]}"
        hint = suggestion(*key, context.specs.values())
        cause = f"ATC has no parser for {spelled}" + (f", and no rule matches: {left}" if left and not hint else "")
        is_formula = scope.parent is None and any(not r.operator and key in r.keys for r in rules(context.specs))
        if is_formula:
            fix = "run opforge convert --lower-training"
        elif any(is_registered(*key, known) for known in ATC_OPSETS):
            fix = "export the model with an opset for which ATC has a parser"
        else:
            fix = "replace it by standard operators"
        yield Finding(name, "E13010", cause, hint or fix)
        return
    if onnx.defs.has(node.op_type, max_inclusive_version=version, domain=key[0]):
        yield from _inputs(name, node, onnx.defs.get_schema(key[1], max_inclusive_version=version, domain=key[0]))
    if not key[0]:
        yield from _limits(view, scope, name, node, version)


def _constant(name: str, node: NodeProto, *, is_rewritten: bool) -> Iterator[Finding]:
    used = [attribute.name for attribute in node.attribute]
    if used not in (["value"], ["sparse_value"]):
        cause = f"a Constant with {', '.join(used) or 'no value'}; ATC makes it an empty tensor"
        is_repaired = is_rewritten and set(used) <= set(SPELLINGS)
        yield Finding(name, "silent", cause, CONVERT if is_repaired else "use the attribute value")
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield from _type(name, attribute.t.data_type)


def _inputs(name: str, node: NodeProto, schema: onnx.defs.OpSchema) -> Iterator[Finding]:
    if len(node.input) > schema.max_input:
        cause = f"has {len(node.input)} inputs, expected at most {schema.max_input}"
        yield Finding(name, "E19999", cause, "remove the extra inputs")
    for position in range(schema.min_input):
        if position >= len(node.input) or not node.input[position]:
            yield Finding(name, "E19999", f"required input {position} is absent", "connect the input")


def _limits(view: GraphView, scope: Scope, name: str, node: NodeProto, version: int) -> Iterator[Finding]:
    """Compare a node with the parser of its type."""
    for problem in limit_problems(node, version, partial(view.is_read, scope)):
        yield Finding(name, "E19999", f"{problem} by ATC's parser of {node.op_type}", "write the node in another form")


def _vanishing(view: GraphView, folded: Collection[tuple[int, int]]) -> Iterator[Finding]:
    for scope, number in constant_only_nodes(view) if drops_constant_nodes(view) else ():
        cause = "depends only on constants; ATC drops it with its outputs"
        fix = CONVERT if (scope.number, number) in folded else "fold it, for example with onnxsim"
        yield Finding(label(scope.node(number), number), "silent", cause, fix)
