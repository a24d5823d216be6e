"""Try the rules at the nodes of a model and collect the replacements, without changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import chain

from opforge.codegen.printing import shown
from opforge.codegen.progress import progress
from opforge.frontend.conversion import Unmapped
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.op_names import NPU_DOMAIN, OPFORGE_DOMAIN, onnx_key, suggestion, version_problem
from opforge.frontend.ir.reason import Reason, Unmatched, Unrelated
from opforge.frontend.ir.scope import Scope, key_text, node_name, normal_domain
from opforge.frontend.parsers.atc_types import is_registered

from .check_call import checked
from .context import Context, Specs
from .discovery import rules
from .rule import ExtraNodes, Placement, Replacement, Rule

# Nodes between two updates of the progress bar.
_STEP = 256
# The result of a rule without a custom operator, in reports.
_STANDARD = "standard operators"
_LOWERING = "lower_training"


class Search:
    """Tries the rules at every node of a model.

    Args:
        context: The model.
        groups: Options under which rules apply, see `Rule.group`.
        domain: Domain of custom nodes.

    Attributes:
        context: The model.
        placements: Calls of custom operators.
        lowered: Replacements by standard nodes only.
        refusals: Scope, node number, operator and reason of nodes without a match.
        claimed: (scope number, node number) of nodes that are replaced.
    """

    def __init__(self, context: Context, groups: Collection[str], domain: str) -> None:
        self.context = context
        self._groups = groups
        self._domain = domain
        self._rules: Mapping[tuple[str, str], list[Rule]] = defaultdict(list)
        # Training nodes have a separate domain; those that onnxruntime puts into ai.onnx are rewritten on request.
        domains = {normal_domain(domain) for scope in context.view.scopes for domain, _ in scope.keys}
        is_training = _LOWERING in groups or not domains <= {"", OPFORGE_DOMAIN, NPU_DOMAIN}
        for rule in rules(context.specs, training=is_training):
            if not rule.group or rule.group in groups or rule.is_hinted:
                for key in rule.keys:
                    self._rules[key].append(rule)
        self.claimed: set[tuple[int, int]] = set()
        self.placements: list[Placement] = []
        self.lowered: list[Replacement] = []
        self.refusals: list[tuple[Scope, int, str, Reason]] = []

    def run(self) -> None:
        """Try every rule at every node that has one of its keys."""
        bodies = {(OPFORGE_DOMAIN, op_type) for op_type in self.context.specs}
        for scope in self.context.view.scopes:
            # The body of a custom operator must not be rewritten to the operator.
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
                        text = f"no operator has the name {key_text(scope.node(number))}; {hint}"
                        self._refuse("", scope, number, Reason(text))
        if _LOWERING in self._groups:
            self._refuse_unknown()
        # A larger pattern may have replaced a node at which another rule failed.
        taken = self.claimed | {(p.scope.number, number) for p in self.placements for number in p.absorbed}
        self.refusals = [refusal for refusal in self.refusals if (refusal[0].number, refusal[1]) not in taken]

    def left(self) -> list[Unmapped]:
        """Return the nodes without a match for a report; those that could become standard nodes are last."""
        entries = [
            Unmapped(
                node_name(scope.node(number), f"#{number}"),
                candidate,
                reason.text,
                tuple(node_name(scope.node(other), f"#{other}") for other in reason.nodes),
            )
            for scope, number, candidate, reason in self.refusals
        ]
        return sorted(entries, key=lambda entry: entry.candidate == _STANDARD)

    def _misspelt(self, scope: Scope, key: tuple[str, str]) -> str:
        """Return the intended type of a node whose unknown name is similar to a custom operator; "" for others."""
        if key in self._rules or key in self.context.view.functions:
            return ""
        hint = suggestion(*key, self.context.specs.values())
        return hint if hint and not is_registered(*key, scope.opsets.get(key[0], 0)) else ""

    def _refuse_unknown(self) -> None:
        """Report the nodes without a parser in ATC at which no rule was tried."""
        seen = self.claimed | {(scope.number, number) for scope, number, _, _ in self.refusals}
        for scope in self.context.view.scopes:
            for spelled, numbers in scope.keys.items() if scope.function is None else ():
                key = normal_domain(spelled[0]), spelled[1]
                if key in self.context.view.functions or is_registered(*key, scope.opsets.get(key[0], 0)):
                    continue
                for number in numbers:
                    if (scope.number, number) not in seen:
                        text = f"no formula exists for {key_text(scope.node(number))}"
                        self._refuse(_STANDARD, scope, number, Reason(text))

    def _try(self, rule: Rule, scope: Scope, number: int) -> None:
        is_asked = not rule.group or rule.group in self._groups
        if not rule.operator and (scope.number, number) in self.claimed:
            return
        answer = self._answer(rule, scope, number)
        if answer is None:
            return
        if not is_asked:
            # Without the option, only nodes that it would change are listed.
            if not isinstance(answer, Reason):
                option = rule.group.replace("_", "-")
                text = f"matches only with --{option}"
                self._refuse(rule.operator, scope, number, Reason(text))
            return
        if isinstance(answer, Reason):
            self._refuse(rule.operator or _STANDARD, scope, number, answer)
            return
        self.claimed.update((scope.number, claimed) for claimed in answer.nodes)
        if isinstance(answer, Placement):
            self.placements.append(answer)
        else:
            self.lowered.append(answer)

    def _answer(self, rule: Rule, scope: Scope, number: int) -> Replacement | Reason | None:
        node = scope.node(number)
        key = normal_domain(node.domain), node.op_type
        if key[0] != OPFORGE_DOMAIN and key in self.context.view.functions:
            text = "the model defines a local function of this name"
            return Reason(text) if rule.operator else None
        if parameters := [attribute.name for attribute in node.attribute if attribute.ref_attr_name]:
            return Reason(
                f"attribute {shown(parameters[0])} is a parameter of the enclosing function, expected a value"
            )
        try:
            found = rule.pattern.match(self.context, scope, number)
        except Unmatched as unmatched:
            return None if rule.is_common else unmatched.reason
        try:
            match = rule.check(found)
            nodes = match.nodes or (number,)
            if any((scope.number, claimed) in self.claimed for claimed in nodes):
                return Reason("another match uses one of its nodes")
            for claimed in nodes:
                self.context.view.require_import(scope, claimed)
            new = rule.rewrite(found, match)
        except Unrelated:
            return None
        except Unmatched as unmatched:
            return unmatched.reason
        if isinstance(new, ExtraNodes):
            return Replacement(rule.name, scope, nodes, match.absorbed, new)
        if problem := version_problem(onnx_key(new.spec, self._domain), scope.opsets):
            return Reason(f"{problem}; choose another --domain")
        return checked(self.context, Replacement(rule.name, scope, nodes, match.absorbed, new.extra_nodes), new)

    def _refuse(self, operator: str, scope: Scope, number: int, reason: Reason) -> None:
        self.refusals.append((scope, number, operator, reason))


def candidates(view: GraphView, specs: Specs, groups: Collection[str]) -> list[tuple[Scope, int]]:
    """Return the first node of each type in each graph or function at which an enabled rule would be tried."""
    found = rules(specs, training=_LOWERING in groups)
    chosen = [rule for rule in found if not rule.group or rule.group in groups]
    keys = {key for rule in chosen for key in rule.keys}
    return [
        (scope, numbers[0])
        for scope in view.scopes
        for (domain, op_type), numbers in scope.keys.items()
        if (normal_domain(domain), op_type) in keys - view.functions
    ]
