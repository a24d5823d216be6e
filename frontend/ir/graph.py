"""Index the protobuf messages of a model: definitions and readers of values, and enclosing graphs.

It contains only names and node numbers, no node objects: the index of 100,000 nodes costs less than parsing them.
Building it checks the assumptions of later steps: each name has one maker, every read name exists, and there are no
cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown

from .scope import INITIALIZER, INPUT, Scope, node_label, normal_domain

# protobuf supports 100 nested messages, three per graph; a model built in memory can have more.
_MAX_DEPTH = 31
# Since this version, initializers need not be inputs; those that are can be fed.
FREE_INITIALIZERS_IR = 4
_PLACE = 200
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


@dataclass(frozen=True)
class Use:
    """One input position of a node that reads a value; a value read inside a subgraph is used in that subgraph."""

    scope: Scope
    node: int


class GraphView:
    """Indexes all scopes of a model once.

    Attributes:
        model: The model; the view is not updated if the model changes.
        where: Name of the model in messages.
        scopes: Main graph first, each subgraph after its parent graph, then the local functions.
    """

    def __init__(self, model: ModelProto, where: object = "model") -> None:
        self.model = model
        self.scopes: list[Scope] = []
        self.where = where
        opsets = {normal_domain(entry.domain): entry.version for entry in model.opset_import}
        main = Scope(model.graph, None, opsets, "graph", 0, lists_initializers=model.ir_version < FREE_INITIALIZERS_IR)
        opset_imports = [*model.opset_import, *(entry for f in model.functions for entry in f.opset_import)]
        self._require_text(main, *(entry.domain for entry in opset_imports))
        self._require_defined(main, self._index(main, 0))
        for function in model.functions:
            self._require_text(main, function.domain, function.name)
            imports = {normal_domain(entry.domain): entry.version for entry in function.opset_import}
            scope = Scope(
                function, None, imports, f"function {shown(f'{function.domain}::{function.name}')}", len(self.scopes)
            )
            self._require_defined(scope, self._index(scope, 0))

    @property
    def main(self) -> Scope:
        """Return the main graph."""
        return self.scopes[0]

    @cached_property
    def functions(self) -> frozenset[tuple[str, str]]:
        """Return (domain, name) of the local functions."""
        return frozenset((normal_domain(f.domain), f.name) for f in self.model.functions)

    @cached_property
    def _uses(self) -> list[dict[str, list[tuple[Scope, int]]]]:
        """Return the readers of values, by scope number and name."""
        uses: list[dict[str, list[tuple[Scope, int]]]] = [{} for _ in self.scopes]
        for scope in self.scopes:
            makers, own = scope.makers, uses[scope.number]
            for number, node in enumerate(scope.body.node):
                for name in node.input:
                    if name in makers:
                        readers = own
                    elif scope.parent is not None and (found := scope.parent.find(name)):
                        readers = uses[found[0].number]
                    else:
                        continue
                    if name in readers:
                        readers[name].append((scope, number))
                    else:
                        readers[name] = [(scope, number)]
        return uses

    def uses(self, scope: Scope, name: str) -> list[Use]:
        """Return all reads of a value of `scope`, one entry per input position, including subgraphs."""
        return [Use(*reader) for reader in self._uses[scope.number].get(name, ())]

    def count_uses(self, scope: Scope, name: str) -> int:
        """Return the number of reads in `uses`."""
        if len(self.scopes) == 1:
            return scope.reads[name]
        return len(self._uses[scope.number].get(name, ()))

    def is_read(self, scope: Scope, name: str) -> bool:
        """Return whether a node reads a value of `scope`, or the value is a graph output."""
        return bool(name) and (self.count_uses(scope, name) > 0 or self.leaves(scope, name))

    def over(self, model: ModelProto) -> GraphView:
        """Return the same index for a model with the same nodes, such as a copy."""
        view = copy(self)
        # Values derived from the scopes are computed again.
        view.__dict__ = {"model": model, "scopes": [], "where": self.where}
        for scope, body in zip(self.scopes, self.bodies(model), strict=True):
            parent = None if scope.parent is None else view.scopes[scope.parent.number]
            # Values derived from a scope are also valid for the other one.
            other = copy(scope)
            other.body, other.parent = body, parent
            view.scopes.append(other)
        return view

    def after_change(self) -> GraphView:
        """Return an index that uses the graphs of the changed model; its node numbers may be outdated."""
        has_subgraphs = any(scope.captures for scope in self.scopes)
        return GraphView(self.model, self.where) if has_subgraphs else self

    def bodies(self, model: ModelProto) -> list[GraphProto | FunctionProto]:
        """Return the graphs and functions of a model with the same nodes, by scope number."""
        found: list[GraphProto | FunctionProto] = []
        waiting: list[GraphProto | FunctionProto] = [*reversed(model.functions), model.graph]
        while waiting:
            body, scope = waiting.pop(), self.scopes[len(found)]
            found.append(body)
            inside = [graph for n in scope.captures for _, graph in _subgraphs(body.node[n], scope, n)]
            waiting += reversed(inside)
        return found

    @cached_property
    def _leaving(self) -> set[tuple[int, str]]:
        found = ((scope.find(name), name) for scope in self.scopes for name in scope.output_names)
        return {(id(maker[0]), name) for maker, name in found if maker}

    def leaves(self, scope: Scope, name: str) -> bool:
        """Return whether a value of `scope` is an output of it, or of an inner graph that returns the value."""
        return (id(scope), name) in self._leaving

    def only_reader(self, scope: Scope, name: str) -> int | None:
        """Return the only reader of a value of `scope`, in the same graph; None if the value has other uses."""
        uses = self.uses(scope, name)
        is_alone = len(uses) == 1 and uses[0].scope is scope and not self.leaves(scope, name)
        return uses[0].node if is_alone else None

    def require_import(self, scope: Scope, number: int) -> None:
        """Reject a node whose domain is not imported by the model or the enclosing function."""
        domain = normal_domain(scope.node(number).domain)
        if domain not in scope.opsets:
            raise self._fail(
                f"{scope.label(number)}: the operator set {shown(domain or 'ai.onnx')} is not imported, expected an"
                " opset_import of it; the file may be cut off, export or copy it again"
            )

    def _fail(self, text: str) -> UserError:
        return UserError(f"{self.where}: {text}")

    def _index(self, scope: Scope, depth: int) -> dict[str, int]:  # noqa: C901, PLR0912 - calls in its loop are slow
        """Fill a scope and its inner scopes; return the names that it reads from outside, each with a reading node."""
        if depth > _MAX_DEPTH:
            raise self._fail(f"graphs are nested more than {_MAX_DEPTH} deep; expected a model that onnx.load reads")
        self.scopes.append(scope)
        self._enter_inputs(scope)
        makers = scope.makers
        early: dict[str, int] = {}
        keys, named, read = scope.keys, scope.names.append, scope.inputs.append
        # This loop dominates the cost of a conversion; it has calls only for rare cases, and slices are faster to
        # iterate.
        for number, node in enumerate(scope.body.node):
            key = node.domain, node.op_type
            if key in keys:
                keys[key].append(number)
            else:
                self._require_text(scope, *key)
                keys[key] = [number]
            name = node.name
            if type(name) is not str:
                self._require_text(scope, name)
            named(name)
            inputs = node.input[:]
            read(inputs)
            for name in inputs:
                if name not in makers:
                    early.setdefault(name, number)
            for attribute in node.attribute[:]:
                if attribute.type in _GRAPHS:
                    self._index_inside(scope, number, depth, early)
                    break
            for name in node.output[:]:
                if name:
                    if type(name) is not str:
                        self._require_text(scope, name)
                    if name in makers:
                        raise self._duplicate(scope, name, number)
                    makers[name] = number
                else:
                    scope.has_gaps = True
        scope.has_gaps |= early.pop("", None) is not None or "" in makers
        if any(name in makers for name in early):
            self._require_order(scope)
        missing = {name: number for name, number in early.items() if name not in makers}
        for name in scope.output_names:
            if name and name not in makers:
                missing.setdefault(name, -1)
        return missing

    def _index_inside(self, scope: Scope, number: int, depth: int, early: dict[str, int]) -> None:
        """Index the subgraphs of a node."""
        node = scope.node(number)
        for place, graph in _subgraphs(node, scope, number):
            inner = Scope(graph, scope, scope.opsets, place, len(self.scopes), node.op_type)
            captured = self._index(inner, depth + 1)
            scope.captures.setdefault(number, set()).update(captured)
            for name in captured:
                if name not in scope.makers:
                    early.setdefault(name, number)

    def _enter_inputs(self, scope: Scope) -> None:
        body, makers = scope.body, scope.makers
        names = body.input if isinstance(body, FunctionProto) else [value.name for value in body.input]
        for name in names:
            self._require_text(scope, name)
            if name in makers:
                raise self._fail(f"{scope.place}: two inputs have the name {shown(name)}; expected unique names")
            makers[name] = INPUT
        if isinstance(body, FunctionProto):
            return
        self._require_text(scope, body.name)
        given = [t.name for t in body.initializer] + [t.values.name for t in body.sparse_initializer]
        self._require_text(scope, *given)
        fixed = dict.fromkeys(given, INITIALIZER)
        if len(fixed) < len(given):
            twice = next(name for name, count in Counter(given).items() if count > 1)
            raise self._fail(f"{scope.place}: two initializers have the name {shown(twice)}; expected unique names")
        makers |= fixed

    def _require_text(self, scope: Scope, *names: str) -> None:
        # protobuf returns bytes if a string is not UTF-8.
        for name in names:
            if not isinstance(name, str):
                raise self._fail(f"{scope.place}: the name {shown(name)} is not UTF-8 text; export the model again")

    def _duplicate(self, scope: Scope, name: str, number: int) -> UserError:
        maker = scope.makers[name]
        first = {INPUT: "a graph input", INITIALIZER: "an initializer"}.get(maker) or node_label(
            scope.node(maker), maker, scope.place
        ).removeprefix(f"{scope.place}: ")
        return self._fail(
            f"{scope.label(number)} writes {shown(name)}, which {first} also writes; expected unique names"
        )

    def _require_defined(self, scope: Scope, missing: Mapping[str, int]) -> None:
        for name, number in missing.items():
            reader = scope.label(number) if number >= 0 else f"{scope.place}: an output"
            raise self._fail(
                f"{reader} reads {shown(name)}, which no input, initializer or node defines; correct the name"
            )

    def _require_order(self, scope: Scope) -> None:
        """Reject a cycle; nodes that are only unsorted are accepted."""
        makers = {
            number: {
                maker
                for name in (*node.input, *scope.captures.get(number, ()))
                if (maker := scope.makers.get(name, INPUT)) >= 0
            }
            for number, node in enumerate(scope.body.node)
        }
        try:
            TopologicalSorter(makers).prepare()
        except CycleError as error:
            first = scope.label(min(error.args[1]))
            raise self._fail(f"{first} is in a cycle: its inputs depend on its outputs") from error


def node_count(view: GraphView) -> int:
    """Return the number of nodes of a model, including subgraphs, without local functions."""
    return sum(len(scope.body.node) for scope in view.scopes if scope.function is None)


def _subgraphs(node: NodeProto, scope: Scope, number: int) -> Iterator[tuple[str, GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield _place(node, number, scope, attribute), attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                yield _place(node, number, scope, attribute), graph


def _place(node: NodeProto, number: int, scope: Scope, attribute: AttributeProto) -> str:
    """Describe the location of a subgraph; of many levels only the outermost and the innermost."""
    text = f"{node_label(node, number, scope.place)}.{attribute.name}"
    return text if len(text) <= 2 * _PLACE else f"{text[:_PLACE]}...{text[-_PLACE:]}"
