"""Rewrites a model onto our operators: tries every rule at the nodes it names, in one pass, and reports each answer."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, compress
from pathlib import Path
from typing import Any

from onnx import ModelProto

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text, shown
from opforge.codegen.spec.model import OpSpec
from opforge.frontend.emit.atc_compat import is_constant, is_read_by_atc, make_safe
from opforge.frontend.emit.emitter import Emitter, Placement
from opforge.frontend.emit.fold import Folding, fold
from opforge.frontend.emit.inline import without_functions
from opforge.frontend.emit.opset import ATC_OPSETS, current_opset, opset_problem, write_opset
from opforge.frontend.emit.sparse import without_sparse
from opforge.frontend.importers.torch_forms import torch_forms
from opforge.frontend.io.load import SourceModel, check_versions, load_model
from opforge.frontend.io.progress import progress
from opforge.frontend.ir.graph import (
    INITIALIZER,
    INPUT,
    GraphView,
    Scope,
    key_text,
    node_count,
    node_name,
    normal_domain,
)
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN, onnx_key, source_keys, suggestion, version_problem
from opforge.frontend.ir.operators import project_specs
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.rules.aten import MapTorch
from opforge.frontend.rules.batch_norm_chain import FuseBatchNormChain
from opforge.frontend.rules.by_name import MapByName
from opforge.frontend.rules.check_call import place
from opforge.frontend.rules.gather_grad import MapGatherGrad
from opforge.frontend.rules.reduce_sum import FuseEqualGroups
from opforge.frontend.rules.rule import Context, Refusal, Rule
from opforge.frontend.rules.scatter_add import FuseScatterAdd
from opforge.frontend.rules.sorted_groups import FuseSortedGroups
from opforge.frontend.rules.split_groups import FuseSplitGroups
from opforge.frontend.targets.atc_types import is_registered
from opforge.frontend.training.data_movement import MOVES
from opforge.frontend.training.functions import FUNCTIONS
from opforge.frontend.training.gradients import LowerBatchNormalizationGrad, LowerConvGrad
from opforge.frontend.training.lowering import Lowered, LoweredModel, lower
from opforge.frontend.training.optimizers import UPDATES
from opforge.frontend.training.pooling import WINDOWS

# Rules of their own; the ones that go by name follow from the specs.
_RULES: tuple[Rule, ...] = (
    MapGatherGrad(),
    FuseEqualGroups(),
    FuseSplitGroups(),
    FuseSortedGroups(),
    FuseScatterAdd(),
    FuseBatchNormChain(),
    LowerBatchNormalizationGrad(),
    LowerConvGrad(),
)
# Nodes between two signs of progress.
_STEP = 256
# Nodes that become standard nodes.
FORMULAS = {**FUNCTIONS, **MOVES, **WINDOWS, **UPDATES}


class _Entry:
    """An entry of a report; it can also be read like its JSON object."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)


@dataclass(frozen=True)
class Mapped(_Entry):
    """A node of ours in the result.

    Attributes:
        node: Its name.
        op: Its op type in the spec.
        rule: What recognised it: a key such as `npu::NPUScaledAdd`, or the name of a rule.
        outputs: Names of its outputs.
        attrs: Its attributes.
        inputs: Names of its inputs in the order of the spec; None for an absent optional one.
    """

    node: str
    op: str
    rule: str
    outputs: list[str]
    attrs: dict[str, Any]
    inputs: list[str | None]


@dataclass(frozen=True)
class Left(_Entry):
    """A node that a rule looked at and left, or that is called as if it were ours.

    Attributes:
        node: Its name, or that of its first output.
        candidate: The operator it could have become; "" if it is called like none.
        reason: Which condition does not hold, with the values seen.
    """

    node: str
    candidate: str
    reason: str


@dataclass(frozen=True)
class Conversion:
    """A converted model.

    Attributes:
        model: The result; the given model itself when nothing was rewritten. External data stays where it is.
        mapped: Nodes of ours.
        left: Nodes that were left, and why.
        nodes_before: Nodes of the source, those of subgraphs included, those of local functions not.
        nodes_after: Nodes of the result.
        changed: Whether the model differs from the source at all.
        without_body: Nodes of ours that carry no function body: the model's opset cannot express what they compute.
        warnings: What ATC will not reach or drop, and why.
        lowered: Nodes that became standard nodes.
    """

    model: ModelProto
    mapped: list[Mapped]
    left: list[Left]
    nodes_before: int
    nodes_after: int
    changed: bool
    without_body: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "mapped": [asdict(entry) for entry in self.mapped],
            "lowered": [asdict(entry) for entry in self.lowered],
            "left": [asdict(entry) for entry in self.left],
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "without_body": list(self.without_body),
            "warnings": list(self.warnings),
        }


def convert(
    model: ModelProto | SourceModel | str | os.PathLike[str],
    *,
    patterns: bool = False,
    lower_training: bool = False,
    opset: int | None = None,
    domain: str = OPFORGE_DOMAIN,
    specs: Sequence[OpSpec] | None = None,
) -> Conversion:
    """Rewrite the nodes of a model onto our operators.

    Args:
        model: A model, which is not changed, or the path of one.
        patterns: Also rewrite groups of standard nodes that compute the same as one of our operators.
        lower_training: Also rewrite training nodes of onnxruntime, onto our operators and standard ones; what such a
            node writes over an input becomes an output of the graph, in the place of the flag that says so.
        opset: Version of ai.onnx for the result; None: 18, the newest that ATC knows, when something is rewritten and
            every node can be written in it; a warning names the node that cannot.
        domain: Domain of our nodes in the result: "opforge", with function bodies, "npu" or "ai.onnx".
        specs: The operators; default: those of the project.

    Raises:
        UserError: The model, the domain or the opset is unusable.
    """
    specs = project_specs() if specs is None else specs
    for spec in specs:
        onnx_key(spec, domain)
    if isinstance(model, ModelProto):
        source, where, folder = model, "model", None
        check_versions(source, where)
        source_view = GraphView(source, where)
    else:
        loaded = model if isinstance(model, SourceModel) else load_model(Path(model))
        source, where, folder = loaded.model, path_text(loaded.path), loaded.path.parent
        source_view = loaded.view
    operators = {spec.op_type: spec for spec in specs}
    groups = frozenset([*(["patterns"] if patterns else []), *(["lower_training"] if lower_training else [])])

    def search_in(searched: ModelProto, known: ValueTypes | None = None) -> Search:
        view = source_view if searched is source else GraphView(searched, where)
        search = Search(Context(view, operators, folder, known and known.over(view)), groups, domain)
        search.run()
        return search

    def our_nodes(context: Context) -> set[tuple[int, int]]:
        search = Search(context, groups, domain)
        search.run()
        return search.claimed

    lowering = LoweredModel(source)
    if lower_training:
        lowering = lower(source, FORMULAS, lambda view: Context(view, operators, folder), our_nodes)
    if lowering.lowered and opset not in (None, ATC_OPSETS.stop - 1):
        raise UserError(
            f"--opset: got {opset}, expected {ATC_OPSETS.stop - 1}, in which --lower-training writes; leave it out"
        )
    search = search_in(lowering.model)
    base, sparse = without_sparse(search.context.view, folder)
    if base is not lowering.model:
        search = search_in(base)
    nodes = node_count(source_view)
    left = [Left(name, "standard operators", reason) for name, reason in lowering.left]
    warnings: list[str] = []
    # The body of a function has no types, which patterns and some conditions need.
    is_open = bool(groups) or any(scope.function for scope, _, _ in search.refusals)
    if (search.placements or is_open) and (inlined := without_functions(base)):
        found = search_in(inlined)
        if found.placements:
            base, search = inlined, found
        del found
    if lower_training:
        left += _without_formula(search, {name for name, _ in lowering.left})
    target = _target_opset(search.context, opset, where, warnings, is_rewritten=bool(search.placements))
    if not search.placements and target is None and not lowering.lowered:
        return Conversion(source, [], [*_of_source(search, lowering), *left], nodes, nodes, changed=False)
    copy = ModelProto()
    copy.CopyFrom(base)
    if target is not None:
        known = search.context.types
        write_opset(copy, known, target)
        # What is found in a large model takes as much memory as the model; the same of the copy comes in its place.
        del search
        search = search_in(copy, known)
    view = search.context.view.over(copy)
    placements = [replace(placement, scope=view.scopes[placement.scope.number]) for placement in search.placements]
    emitter = Emitter(view, domain, search.context.value_names)
    replaced = {(p.scope.number, number) for p in placements for number in (*p.nodes, *p.absorbed)}
    folding = fold(search.context, replaced)
    constant_outputs = _constant_outputs(view, folding)
    vanishing = {(scope.number, number): scope.label(number) for scope, number in folding.rest}
    for (scope, number), tensors in folding.values.items():
        emitter.fold(view.scopes[scope], number, tensors)
    is_new = any(p.scope.node(p.nodes[-1]).domain != onnx_key(p.call.spec, domain).domain for p in placements)
    names = emitter.emit(placements)
    make_safe(view, search.context.value_names)
    mapped = [
        Mapped(
            name,
            placement.call.spec.op_type,
            rule,
            _outputs(placement),
            dict(placement.call.attrs),
            [value or None for value in placement.call.inputs],
        )
        for name, placement, rule in zip(names, placements, search.rules, strict=True)
    ]
    # Comparing large models is dear, and only needed where each node was ours before.
    changed = is_new or copy != source
    warnings += [f"sparse constant {shown(name)} stays, and ATC drops it: {reason}" for name, reason in sparse.items()]
    warnings += [
        f"{label} depends on constants alone, ATC drops it and what it makes"
        for place_, label in vanishing.items()
        if place_ not in emitter.gone
    ]
    warnings += [f"output {shown(name)} is a constant, ATC drops it" for name in constant_outputs]
    warnings += [
        f"input {shown(name)} has no shape, ATC takes it for a scalar; give it one" for name in _shapeless(view)
    ]
    warnings += [
        f"{shown(name)} lies in {hidden}"
        for name, placement in zip(names, placements, strict=True)
        if (hidden := _hidden(placement.scope))
    ]
    return Conversion(
        copy if changed else source,
        mapped,
        [*_of_source(search, lowering), *left],
        nodes,
        node_count(view),
        changed,
        emitter.without_body,
        warnings,
        lowering.lowered,
    )


def _target_opset(
    context: Context, opset: int | None, where: str, warnings: list[str], *, is_rewritten: bool
) -> int | None:
    """The version that the result is to be written in; None when it stays as it is.

    Raises:
        UserError: A version was asked for in which the model cannot be written.
    """
    view = context.view
    current = current_opset(view.model)
    if opset is not None:
        if opset not in ATC_OPSETS:
            raise UserError(
                f"--opset: got {opset}, expected {ATC_OPSETS.start} to {ATC_OPSETS.stop - 1}, which ATC knows"
            )
        if problem := opset_problem(view, context.types, opset):
            raise UserError(f"{where}: cannot be written in opset {opset}: {problem}; export it with that opset")
        return opset if current not in (None, opset) else None
    newest = ATC_OPSETS.stop - 1
    if not is_rewritten or current in (None, newest):
        return None
    if problem := opset_problem(view, context.types, newest) or _loss(view, newest):
        warnings.append(f"the model stays in opset {current} and is not written in {newest}: {problem}")
        return None
    return newest


def _loss(view: GraphView, target: int) -> str:
    """What ATC knows in the opset of a model and not in another one; "" if nothing."""
    for scope in view.scopes:
        version = scope.opsets.get("", target)
        for node in scope.body.node if is_read_by_atc(scope) else ():
            if normal_domain(node.domain) or not is_registered("", node.op_type, version):
                continue
            if not is_registered("", node.op_type, target):
                name = shown(node_name(node))
                return f"ATC has a parser for node {name} ({node.op_type}) in that opset only"
    return ""


def _of_source(search: Search, lowering: LoweredModel) -> list[Left]:
    """What was left of the source: nodes that only this conversion made are none of its reader's."""
    return [entry for entry in search.left if entry.node not in lowering.made]


def _without_formula(search: Search, told: Collection[str]) -> list[Left]:
    """Nodes that ATC has no parser for and that nothing looked at; `told` names those that a formula left."""
    seen = search.claimed | {(scope.number, number) for scope, number, _ in search.refusals}
    left = []
    for scope in search.context.view.scopes:
        for spelled, numbers in scope.keys.items() if scope.function is None else ():
            key = normal_domain(spelled[0]), spelled[1]
            if key in search.context.view.functions or is_registered(*key, scope.opsets.get(key[0], 0)):
                continue
            for number in numbers:
                node = scope.node(number)
                name = node_name(node, f"#{number}")
                if (scope.number, number) not in seen and name not in told:
                    reason = f"no formula is known for {key_text(node)}"
                    if key in FORMULAS:
                        reason = f"lies in {scope.place}, expected the graph of the model"
                    left.append(Left(name, "standard operators", reason))
    return left


def _constant_outputs(view: GraphView, folding: Folding) -> list[str]:
    """Outputs of the model that are constants."""
    makers = ((value.name, view.main.makers.get(value.name, INPUT)) for value in view.model.graph.output)
    return [
        name
        for name, maker in makers
        if maker == INITIALIZER or (0, maker) in folding.values or (maker >= 0 and is_constant(view.main.node(maker)))
    ]


def _shapeless(view: GraphView) -> list[str]:
    """Tensors that are inputs of the model and have no shape, as far as they have to be fed."""
    fed = (value for value in view.model.graph.input if view.main.makers.get(value.name) == INPUT)
    types = ((value.name, value.type) for value in fed)
    return [name for name, t in types if t.HasField("tensor_type") and not t.tensor_type.HasField("shape")]


def _hidden(scope: Scope | None) -> str:
    """What around a graph keeps ATC from reading it; "" if nothing."""
    while scope is not None:
        if scope.parent is None and scope.function is not None:
            return f"the local {scope.place}, which ATC does not expand; inline it first"
        if scope.owner not in ("", "If"):
            return f"a subgraph of {shown(scope.owner)}, and ATC reads those of 'If' only"
        scope = scope.parent
    return ""


def _outputs(placement: Placement) -> list[str]:
    return [name for name in placement.call.outputs if name]


class Search:
    """Tries the rules at every node of a model; changes nothing.

    Args:
        context: The model.
        groups: Options under which rules apply, see `Rule.group`.
        domain: Domain of our nodes.

    Attributes:
        placements: Calls of ours.
        rules: Names of the rules that found them.
        left: Nodes that were left.
        refusals: The same by scope and node number.
        claimed: (scope number, node number) of nodes that are replaced.
    """

    def __init__(self, context: Context, groups: Collection[str], domain: str) -> None:
        self.context = context
        self._groups = groups
        self._domain = domain
        self._rules: Mapping[tuple[str, str], list[Rule]] = defaultdict(list)
        by_name = [MapByName(spec, key) for spec in context.specs.values() for key in source_keys(spec)]
        torch = [MapTorch(forms) for forms in torch_forms(context.specs.values()).values()]
        for rule in (*by_name, *torch, *(rule for rule in _RULES if rule.operator in context.specs)):
            if not rule.group or rule.group in groups or rule.is_hinted:
                for key in rule.pattern:
                    self._rules[key].append(rule)
        self.claimed: set[tuple[int, int]] = set()
        self.placements: list[Placement] = []
        self.rules: list[str] = []
        self.left: list[Left] = []
        self.refusals: list[tuple[Scope, int, str]] = []

    def run(self) -> None:
        """Try every rule at every node that has one of its keys."""
        bodies = {(OPFORGE_DOMAIN, op_type) for op_type in self.context.specs}
        for scope in self.context.view.scopes:
            # The body of an operator of ours says what it computes; it is not to be rewritten onto itself.
            if scope.function in bodies:
                continue
            keys = [(normal_domain(domain), op_type) for domain, op_type in scope.keys]
            known = [numbers for key, numbers in zip(keys, scope.keys.values(), strict=True) if key in self._rules]
            numbers = sorted(chain.from_iterable(known))
            with progress("looking for operators", len(numbers)) as advance:
                for done, number in enumerate(numbers):
                    if done % _STEP == 0:
                        advance(done)
                    node = scope.node(number)
                    for rule in self._rules[normal_domain(node.domain), node.op_type]:
                        self._try(rule, scope, number)
            for key, numbers in zip(keys, scope.keys.values(), strict=True):
                if hint := self._misspelt(scope, key):
                    for number in numbers:
                        self._leave("", scope, number, f"no operator is called {key_text(scope.node(number))}; {hint}")
        # What one rule left, a larger pattern may have taken.
        taken = self.claimed | {(p.scope.number, number) for p in self.placements for number in p.absorbed}
        stays = [(scope.number, number) not in taken for scope, number, _ in self.refusals]
        self.refusals = list(compress(self.refusals, stays))
        self.left = list(compress(self.left, stays))

    def _misspelt(self, scope: Scope, key: tuple[str, str]) -> str:
        """What was meant by the type of nodes that look like ours and that nobody knows; "" for all others."""
        if key in self._rules or key in self.context.view.functions:
            return ""
        hint = suggestion(*key, self.context.specs.values())
        return hint if hint and not is_registered(*key, scope.opsets.get(key[0], 0)) else ""

    def _try(self, rule: Rule, scope: Scope, number: int) -> None:
        is_asked = not rule.group or rule.group in self._groups
        answer = self._answer(rule, scope, number)
        if answer is None:
            return
        if not is_asked:
            # Unasked, only what the option would change is worth a line.
            if isinstance(answer, Placement):
                option = rule.group.replace("_", "-")
                self._leave(rule.operator, scope, number, f"a pattern, rewritten with --{option} only")
            return
        if isinstance(answer, Refusal):
            self._leave(rule.operator, scope, number, answer.reason)
            return
        self.claimed.update((scope.number, claimed) for claimed in answer.nodes)
        self.placements.append(answer)
        self.rules.append(rule.name)

    def _answer(self, rule: Rule, scope: Scope, number: int) -> Placement | Refusal | None:
        node = scope.node(number)
        key = normal_domain(node.domain), node.op_type
        if key[0] != OPFORGE_DOMAIN and key in self.context.view.functions:
            return Refusal("the model defines a local function of this name, which decides what the node computes")
        if parameters := [attribute.name for attribute in node.attribute if attribute.ref_attr_name]:
            return Refusal(
                f"attribute {shown(parameters[0])} is a parameter of the function around it, expected a value"
            )
        match = rule.check(self.context, scope, number)
        if match is None or isinstance(match, Refusal):
            return match
        if any((scope.number, claimed) in self.claimed for claimed in match.nodes):
            return Refusal("another rewrite takes one of its nodes")
        for claimed in match.nodes:
            self.context.view.require_import(scope, claimed)
        call = rule.rewrite(self.context, match)
        if problem := version_problem(onnx_key(call.spec, self._domain), scope.opsets):
            return Refusal(f"{problem}; choose another --domain")
        return place(self.context, scope, match, call)

    def _leave(self, candidate: str, scope: Scope, number: int, reason: str) -> None:
        self.refusals.append((scope, number, reason))
        node = scope.node(number)
        name = node_name(node, f"#{number}")
        self.left.append(Left(name, candidate, reason))
