"""Match declared patterns of nodes with the nodes that compute a value.

A pattern describes one value. `op.Div("x", op.Cast("y", to=1))` is the result of a node: its inputs are patterns, its
keywords are attributes; see `Operators`. A string captures the name of a value; the same string is the same value
everywhere, and "" is any value. A number is a constant. `a | b` is one of two patterns.

    op = Operators()
    MEAN = op.Div(op.ReduceSum("data", axes=[0]), Constant("count"))
    found = MEAN.match(context, scope, name)
    found.names["data"], found.constants["count"], found.nodes

The matcher uses the protobuf messages without copies.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute, text_attribute
from opforge.frontend.ir.reason import Reason, Unmatched
from opforge.frontend.ir.scope import Scope, key_text, normal_domain
from opforge.frontend.ir.tensor_type import ValueType

from .context import Context

Like: TypeAlias = "Pattern | str | float"
# Maximum nodes that are skipped before one value.
_MAX_STEPS = 8
_NO_NODE = NodeProto()


@dataclass
class Found:
    """The result of a match.

    Attributes:
        context: The model.
        scope: Graph of the value.
        names: Names of captured values.
        constants: Captured constants.
        nodes: Numbers of the matched nodes, each before the nodes that compute its inputs; the first one is the root.
        parts: The matches of the inputs of `Each`.
    """

    context: Context
    scope: Scope
    names: dict[str, str] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    parts: list[Found] = field(default_factory=list)
    _makers: dict[str, tuple[tuple[str, str], NodeProto, int]] = field(default_factory=dict)

    @property
    def node(self) -> NodeProto:
        """Return the root."""
        return self.scope.node(self.nodes[0])

    def maker(self, name: str) -> NodeProto:
        """Return the node of this graph that defines a value; an empty one if there is none."""
        return self._made(name)[1]

    def kind(self, name: str) -> tuple[str, str]:
        """Return the domain and type of the node that defines a value; the type is "" if there is none."""
        return self._made(name)[0]

    def number(self, name: str) -> int:
        """Return the number of the node of this graph that defines a value; a negative one if there is none."""
        return self._made(name)[2]

    def start(self, number: int) -> str:
        """Return the first output of the node at which a match starts; a node may have none."""
        node = self.scope.node(number)
        name = next(filter(None, node.output), "")
        self._makers[name] = (normal_domain(node.domain), node.op_type), node, number
        return name

    def _made(self, name: str) -> tuple[tuple[str, str], NodeProto, int]:
        # Access to a message costs more than all comparisons of one node.
        if name not in self._makers:
            number = self.scope.makers.get(name, -1)
            node = self.scope.node(number) if number >= 0 else _NO_NODE
            self._makers[name] = (normal_domain(node.domain), node.op_type), node, number
        return self._makers[name]

    def type(self, capture: str) -> ValueType:
        """Return the type of a captured value."""
        return self.context.types.of(self.scope, self.names[capture])


class Pattern(ABC):
    """A description of a value."""

    @property
    def kind(self) -> tuple[str, str] | None:
        """Return the domain and type of its node; None if any type matches."""
        return None

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Return all matching domains and types of its node; none if any type matches."""
        return (self.kind,) if self.kind else ()

    @abstractmethod
    def read(self, found: Found, name: str) -> None:
        """Match a value and record captures.

        Raises:
            Unmatched: It does not match; the reason is the failed condition, with the observed values.
        """

    def match(self, context: Context, scope: Scope, value: str | int, **names: str) -> Found:
        """Match a value, or the first output of a node; `names` are captured values.

        Raises:
            Unmatched: It does not match.
        """
        found = Found(context, scope, dict(names))
        self.read(found, value if isinstance(value, str) else found.start(value))
        return found

    def find(self, context: Context, scope: Scope, value: str | int, **names: str) -> Found | None:
        """Return the match; None if the value does not match."""
        try:
            return self.match(context, scope, value, **names)
        except Unmatched:
            return None

    def named(self, name: str) -> Pattern:
        """Return the same pattern with a captured value."""
        return _Capture(name, self)

    def __or__(self, other: Like) -> Pattern:
        return _Either(self, _pattern(other))


@dataclass(frozen=True)
class _Capture(Pattern):
    """A captured value; every occurrence must be the same value."""

    name: str
    inner: Pattern | None = None

    @property
    def kind(self) -> tuple[str, str] | None:
        return self.inner.kind if self.inner else None

    def read(self, found: Found, name: str) -> None:
        known = found.names.get(self.name)
        if known not in (None, name):
            raise Unmatched(f"{self.name} is {shown(known)} and {shown(name)}, expected one value")
        if self.inner is not None and known is None:
            self.inner.read(found, name)
        if self.name:
            found.names[self.name] = name


@dataclass(frozen=True)
class Constant(Pattern):
    """A constant whose value is captured.

    Attributes:
        name: Its capture; "" for none.
        expected: The required number, for any rank; None for any constant.
    """

    name: str = ""
    expected: float | None = None

    def read(self, found: Found, name: str) -> None:
        """Compare the value."""
        try:
            value = found.context.constants.value(found.scope, name)
        except Unmatched as reason:
            raise Unmatched(f"needs a constant; {shown(name)} {reason}") from reason
        if self.expected is not None and value.reshape(-1).tolist() != [self.expected]:
            raise Unmatched(f"{shown(name)} is {_numbers(value)}, expected {self.expected:g}")
        known = found.constants.setdefault(self.name, value) if self.name else value
        if not np.array_equal(known, value):
            raise Unmatched(f"{self.name} is {_numbers(known)} and {_numbers(value)}, expected one value")


@dataclass(frozen=True)
class _Node(Pattern):
    """The result of a node; `Operators` explains the attributes."""

    domain: str
    op_type: str
    inputs: tuple[Pattern, ...]
    attributes: Mapping[str, Any]
    least: int
    most: int
    is_alone: bool = False
    any_output: bool = False

    @property
    def kind(self) -> tuple[str, str]:
        return self.domain, self.op_type

    def read(self, found: Found, name: str) -> None:
        try:
            self._read(found, name)
        except Unmatched as unmatched:
            if (maker := found.number(name)) >= 0 and not unmatched.reason.nodes:
                unmatched.reason = Reason(unmatched.reason.text, (maker,))
            raise

    def _read(self, found: Found, name: str) -> None:
        node = found.maker(name)
        if found.kind(name) != self.kind or not (self.any_output or node.output[:] == [name]):
            raise Unmatched(f"{_text(found, name)}, expected {self}")
        if self.is_alone and found.context.view.only_reader(found.scope, name) is None:
            raise Unmatched(f"{shown(name)} has other readers")
        given = node.input[:]
        while given and not given[-1]:
            given.pop()
        each = [pattern for pattern in self.inputs[-1:] if isinstance(pattern, Each)]
        if not self.least <= len(given) <= self.most or not all(given if each else given[: self.least]):
            raise Unmatched(f"{self} has {len(given)} inputs, expected {self.least}, none of them absent")
        found.nodes.append(found.number(name))
        for key, expected in self.attributes.items():
            self._compare(found, node, key, expected)
        pairs = list(zip([*self.inputs, *each * len(given)], given, strict=False))
        # Constants are the fastest test for a mismatch.
        for is_constant in (True, False):
            for pattern, value in pairs:
                if value and isinstance(pattern, Constant) == is_constant:
                    pattern.read(found, value)

    def _compare(self, found: Found, node: NodeProto, key: str, expected: Any) -> None:
        got: Any
        match expected:
            case list() if key == "axes":
                got = found.context.constants.axes(found.scope, node, expected)
            case list() | (list(), *_):
                got = next((list(attribute.ints) for attribute in node.attribute if attribute.name == key), [])
            case str() | (str(), *_):
                got = text_attribute(node, key) or "none"
            case None:
                got = "present" if any(attribute.name == key for attribute in node.attribute) else None
            case _:
                got = int_attribute(node, key) or 0
        if got not in (expected if isinstance(expected, tuple) else (expected,)):
            observed = f"no {key}" if got is None else f"{key} {shown(got)}"
            raise Unmatched(f"{self} has {observed}, expected {expected}")

    def __str__(self) -> str:
        return f"{self.domain}::{self.op_type}" if self.domain else self.op_type


class Operators:
    """Creates patterns of the nodes of one domain: `op.Slice("data", "starts", ...)`.

    Inputs are patterns, `...` at the end for any further ones, `Each` for further ones of one pattern. Keywords are
    attributes: several allowed values are a tuple, an absent one is 0, "none", [] or None. `axes` are an attribute or
    an input, from either end. Options:
        _least: Minimum number of inputs; default: those with a pattern.
        _commutes: Whether the two inputs may be in either order.
        _is_alone: Whether the value has one reader, in the same graph.
        _any_output: Whether the value may be one of several outputs.
    """

    def __init__(self, domain: str = "") -> None:
        self._domain = domain

    def __getattr__(self, op_type: str) -> Callable[..., Pattern]:
        def build(*inputs: Like | EllipsisType, _commutes: bool = False, **rest: Any) -> Pattern:
            given = tuple(_pattern(each) for each in inputs if not isinstance(each, EllipsisType))
            is_open = ... in inputs or any(isinstance(each, Each) for each in given)
            options = {key.removeprefix("_"): rest.pop(key) for key in list(rest) if key.startswith("_")}
            options = {"least": len(given), "most": sys.maxsize if is_open else len(given) + ("axes" in rest)} | options
            node = _Node(self._domain, op_type, given, rest, **options)
            return node | replace(node, inputs=given[::-1]) if _commutes else node

        return build


@cache
def any_node(*kinds: tuple[str, str]) -> Pattern:
    """Return a pattern of nodes with one of these domains and types, with any inputs."""
    return _Either(*(_Node(*kind, (), {}, 0, sys.maxsize, any_output=True) for kind in kinds))


class _Either(Pattern):
    """One of several patterns: those of the type of the node, else those of any type."""

    def __init__(self, *patterns: Pattern) -> None:
        self.patterns: list[Pattern] = []
        for each in patterns:
            self.patterns += each.patterns if isinstance(each, _Either) else [each]
        self._of = {each.kind: [other for other in self.patterns if other.kind == each.kind] for each in self.patterns}

    @cached_property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        kinds = tuple(kind for kind in self._of if kind)
        return kinds if len(kinds) == len(self._of) else ()

    def read(self, found: Found, name: str) -> None:
        fitting = self._of.get(found.kind(name)) or self._of.get(None, [])
        if len(fitting) == 1:
            return fitting[0].read(found, name)
        names, constants, nodes, parts = dict(found.names), dict(found.constants), len(found.nodes), len(found.parts)
        reasons: list[tuple[int, Exception]] = []
        for each in fitting:
            try:
                return each.read(found, name)
            except Unmatched as reason:
                reasons.append((len(found.nodes), reason))
                found.names, found.constants = dict(names), dict(constants)
                del found.nodes[nodes:], found.parts[parts:]
        if not reasons:
            raise Unmatched(f"{_text(found, name)}, expected {' or '.join(dict.fromkeys(map(str, self.patterns)))}")
        raise max(reasons, key=lambda entry: entry[0])[1]


class Through(Pattern):
    """A value before nodes that each return their first input unchanged, in any order and number."""

    def __init__(self, inner: Like, *steps: Pattern) -> None:
        self._inner = _pattern(inner)
        self._steps = {step.kind: step for step in steps}

    def read(self, found: Found, name: str) -> None:
        """Match the nodes, then the value."""
        for _ in range(_MAX_STEPS):
            step = self._steps.get(found.kind(name))
            if step is None:
                break
            step.read(found, name)
            name = found.maker(name).input[0]
        self._inner.read(found, name)


class Each(Pattern):
    """All further inputs of a node; each one has a separate match in `Found.parts`."""

    def __init__(self, inner: Pattern) -> None:
        self._inner = inner

    def read(self, found: Found, name: str) -> None:
        """Match one input."""
        found.parts.append(self._inner.match(found.context, found.scope, name))


def require_type(context: Context, scope: Scope, name: str, operator: str, rank: int | None = None) -> ValueType:
    """Require the element types of the first input of an operator, and a rank.

    Raises:
        Unmatched: The type differs, or is not known.
    """
    dtypes, known = context.specs[operator].inputs[0].dtypes, context.types.of(scope, name)
    if known.dtype not in dtypes or (rank is not None and len(known.shape or ()) != rank):
        text = ", ".join(dtypes) + (f" of rank {rank}" if rank is not None else "")
        error = context.types.inference_error if not known.complete else ""
        raise Unmatched(f"needs {text}; {shown(name)} is {known}{error and f' (shape inference stopped: {error})'}")
    return known


def require_rows(indices: NDArray[Any], rows: int) -> None:
    """Require constant indices to be rows of a table: in standard nodes, a negative one counts from the end.

    Raises:
        Unmatched: An index is out of range.
    """
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        raise Unmatched(f"has indices from {indices.min()} to {indices.max()}, expected 0 to {rows - 1}")


def _pattern(like: Like) -> Pattern:
    if isinstance(like, Pattern):
        return like
    return _Capture(like) if isinstance(like, str) else Constant(expected=like)


def _numbers(value: NDArray[Any]) -> str:
    return shown(value.reshape(-1)[:8].tolist() if value.ndim else value.item())


def _text(found: Found, name: str) -> str:
    node = found.maker(name)
    return (
        f"{shown(name)} is {f'computed by {key_text(node)}' if node.op_type else 'computed by no node of this graph'}"
    )
