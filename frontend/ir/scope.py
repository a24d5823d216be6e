"""Define one graph of a model: its nodes, the makers of its values, and its parent graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from onnx import FunctionProto, GraphProto, NodeProto, TensorProto

from opforge.codegen.printing import shown

# Makers that are not nodes.
INPUT = -1
INITIALIZER = -2


def normal_domain(domain: str) -> str:
    """Return a domain in the form for lookups: "ai.onnx" becomes ""."""
    return "" if domain == "ai.onnx" else domain


@dataclass(eq=False)
class Scope:
    """A graph, a subgraph of a node, or the body of a local function.

    Attributes:
        body: The message itself.
        parent: The enclosing graph; None for the main graph and for functions, which cannot read outer values.
        opsets: Version by domain, "" for ai.onnx.
        number: Position in the view's list of scopes.
        place: Text for messages: "graph", "graph > If 'c'.then_branch", "function d::F".
        makers: Node number by value name, or INPUT or INITIALIZER.
        owner: op type of the node whose subgraph this is; "" for the main graph and for functions.
        captures: By number of a node with subgraphs: names that they read from outside.
        lists_initializers: Whether the inputs must also list the initializers, as before IR 4.
        keys: Node numbers by (domain, op type) in the spelling of the nodes.
        has_gaps: Whether a node has an empty name among its inputs or outputs.
        names: Name of each node in the original model.
        inputs: Inputs of each node in the original model.
    """

    body: GraphProto | FunctionProto
    parent: Scope | None
    opsets: Mapping[str, int]
    place: str
    number: int
    owner: str = ""
    makers: dict[str, int] = field(default_factory=dict)
    captures: dict[int, set[str]] = field(default_factory=dict)
    lists_initializers: bool = False
    keys: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    has_gaps: bool = False
    names: list[str] = field(default_factory=list)
    inputs: list[list[str]] = field(default_factory=list)

    def node(self, number: int) -> NodeProto:
        """Return the node with this number in the original order."""
        return self.body.node[number]

    def find(self, name: str) -> tuple[Scope, int] | None:
        """Return the scope that defines a value, this one or an outer one, and its maker there."""
        scope: Scope | None = self
        while scope is not None:
            maker = scope.makers.get(name)
            if maker is not None:
                return scope, maker
            scope = scope.parent
        return None

    @cached_property
    def reads(self) -> Mapping[str, int]:
        """Return how often the nodes of this scope read a name."""
        return Counter(chain.from_iterable(self.inputs))

    @cached_property
    def initializers(self) -> dict[str, int]:
        """Return the position of each initializer by name."""
        if isinstance(self.body, FunctionProto):
            return {}
        return {tensor.name: number for number, tensor in enumerate(self.body.initializer)}

    def initializer(self, name: str) -> TensorProto | None:
        """Return the initializer of that name in this scope; None if the caller may feed another value."""
        if isinstance(self.body, FunctionProto) or name not in self.initializers or name in self.defaulted_inputs:
            return None
        return self.body.initializer[self.initializers[name]]

    @cached_property
    def input_names(self) -> frozenset[str]:
        """Return the names of the inputs of the graph or function."""
        if isinstance(self.body, FunctionProto):
            return frozenset(self.body.input)
        return frozenset(value.name for value in self.body.input)

    @property
    def defaulted_inputs(self) -> frozenset[str]:
        """Return inputs whose initializer is a default; before IR 4, all initializers were fixed and also inputs."""
        return frozenset() if self.lists_initializers else self.input_names

    @cached_property
    def output_names(self) -> frozenset[str]:
        """Return the names of the outputs of the graph or function."""
        if isinstance(self.body, FunctionProto):
            return frozenset(self.body.output)
        return frozenset(value.name for value in self.body.output)

    @property
    def function(self) -> tuple[str, str] | None:
        """Return (domain, name) of the local function that contains this scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return (normal_domain(scope.body.domain), scope.body.name) if isinstance(scope.body, FunctionProto) else None

    def label(self, number: int) -> str:
        """Return a node in the form for messages."""
        return node_label(self.node(number), number, self.place)


def node_label(node: NodeProto, number: int, place: str) -> str:
    """Return a node in the form for messages, with the graph before it."""
    name = shown(node.name) if node.name else f"#{number}"
    return f"{place}: node {name} ({key_text(node)})"


def node_name(node: NodeProto, otherwise: str = "") -> str:
    """Return the name of a node, or that of its first output."""
    return node.name or next(filter(None, node.output), otherwise)


def key_text(node: NodeProto) -> str:
    """Return `domain::Type` of a node, only the type for ai.onnx."""
    domain = normal_domain(node.domain)
    text = f"{domain}::{node.op_type}" if domain else node.op_type
    return text if text.isprintable() and len(text) <= 120 else shown(text)
