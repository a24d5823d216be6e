"""Sums over groups of constant size that are written as a split, one sum for each part, and a concatenation."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.constants import NotConstant, int_attribute
from opforge.frontend.ir.graph import Scope, normal_domain
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.value_types import ValueType

from .rule import Around, Context, Match, NoMatchError, Refusal, Rule

_RESHAPING = {("", "Reshape"), ("", "Squeeze"), ("", "Unsqueeze")}
_SPLITS = {("", "Split"), ("com.microsoft", "SplitTraining")}
_PARTS = {*_SPLITS, ("", "Slice")}
# Nodes between a part and its place in the result.
_MAX_CHAIN = 8


class FuseSplitGroups(Rule):
    """`Split` of rows, a `ReduceSum` over the rows of each part, and their `Concat` -> `GroupedBiasAddGrad`.

    The parts may also be slices, and may be reshaped before and after they are summed.
    """

    name = "FuseSplitGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    pattern = (("", "Concat"),)

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal | None:
        """Match parts that are all rows of one matrix in order, each summed to one row and read by nobody else."""
        node = scope.node(number)
        sums = [_sums(scope, name) for name in node.input]
        if len(sums) < 2 or None in sums or not any(sums):
            return None
        reader = _Reader(context, scope)
        try:
            return reader.match(number)
        except NoMatchError as reason:
            return Refusal(str(reason))


def _maker(scope: Scope, name: str) -> int | None:
    number = scope.makers.get(name, -1)
    return number if number >= 0 else None


def _kind(node: NodeProto) -> tuple[str, str]:
    return normal_domain(node.domain), node.op_type


def _sums(scope: Scope, name: str) -> int | None:
    """How many `ReduceSum` lie between a value and the part of a matrix that it is made of; None for other values."""
    sums = 0
    for _ in range(_MAX_CHAIN):
        number = _maker(scope, name)
        if number is None or not scope.node(number).input:
            return None
        kind = _kind(scope.node(number))
        if kind in _PARTS:
            return sums
        if kind != ("", "ReduceSum") and kind not in _RESHAPING:
            return None
        sums += kind == ("", "ReduceSum")
        name = scope.node(number).input[0]
    return None


@dataclass
class _Reader:
    """Reads the nodes in front of one `Concat`.

    Attributes:
        context: The model.
        scope: Its graph.
        nodes: Numbers of the nodes that were understood.
    """

    context: Context
    scope: Scope
    nodes: list[int] = field(default_factory=list)

    def match(self, number: int) -> Match:
        node = self.scope.node(number)
        width = self._shape(node.output[0])[-1:]
        if int_attribute(node, "axis") not in (0, -2) or len(self._shape(node.output[0])) != 2:
            raise NoMatchError(
                f"joins sums along axis {int_attribute(node, 'axis')} to {list(self._shape(node.output[0]))},"
                " expected one row for each group"
            )
        parts = [self._part(name, width) for name in node.input]
        source, ends = self._rows(parts)
        known = self.context.types.of(self.scope, source)
        if known.shape is None or len(known.shape) != 2 or known.shape[0] != ends[-1]:
            raise NoMatchError(f"needs all rows of a matrix; {shown(source)} is {known}, the parts end at {ends[-1]}")
        name = self.context.value_names.fresh("group_ends")
        return Match(
            (*dict.fromkeys(self.nodes), number),
            {"grad_y": source, "group_idx": name, "grad_bias": node.output[0]},
            {"group_idx_type": 0},
            around=Around((constant(name, np.array(ends, np.int64)),), (), {name: ValueType("int64", (len(ends),))}),
        )

    def _shape(self, name: str) -> tuple[int | None, ...]:
        shape = self.context.types.of(self.scope, name).shape
        if shape is None:
            raise NoMatchError(f"the shape of {shown(name)} is not known")
        return shape

    def _follow(self, name: str, number: int) -> None:
        """Take the node that makes a value, unless somebody else reads the value."""
        if self.context.view.only_reader(self.scope, name) is None:
            raise NoMatchError(f"{shown(name)} is read elsewhere too")
        self.nodes.append(number)

    def _part(self, name: str, width: tuple[int | None, ...]) -> str:
        """The rows whose sum a value is."""
        if self._shape(name) != (1, *width):
            raise NoMatchError(f"{shown(name)} is {list(self._shape(name))}, expected one row {[1, *width]}")
        is_summed = False
        while (number := _maker(self.scope, name)) is not None:
            node = self.scope.node(number)
            if _kind(node) == ("", "ReduceSum") and not is_summed:
                self._require_rows(node, width)
                is_summed = True
            elif _kind(node) not in _RESHAPING:
                break
            elif node.op_type == "Reshape" and None in width:
                raise NoMatchError(
                    f"{shown(name)} is reshaped and has {list(self._shape(name))}; its width must be known"
                )
            self._follow(name, number)
            name = node.input[0]
        # A part of one row is its own sum.
        if not is_summed and self._shape(name) != (1, *width):
            raise NoMatchError(f"{shown(name)} is {list(self._shape(name))} and is not summed")
        return name

    def _require_rows(self, node: NodeProto, width: tuple[int | None, ...]) -> None:
        source = node.input[0]
        shape = self._shape(source)
        try:
            axes = self.context.constants.numbers(self.scope, node, "axes", 1)
        except NotConstant as reason:
            raise NoMatchError(f"the axes of a sum must be constant; {shown(node.input[1])} {reason}") from reason
        if not shape:
            raise NoMatchError(f"sums {shown(source)}, which has no axes")
        summed = {axis % len(shape) for axis in axes or ()}
        others = {axis for axis, dim in enumerate(shape[:-1]) if dim != 1}
        if shape[-1:] != width or len(shape) - 1 in summed or not others <= summed:
            raise NoMatchError(f"sums axes {axes} of {shown(source)} {list(shape)}, expected all but the last")

    def _rows(self, parts: list[str]) -> tuple[str, list[int]]:
        """The matrix that the parts are all rows of, and where each part ends."""
        numbers = [self.scope.makers[part] for part in parts]
        nodes = [self.scope.node(number) for number in numbers]
        for part, number in zip(parts, numbers, strict=True):
            self._follow(part, number)
        if len(set(numbers)) == 1 and _kind(nodes[0]) in _SPLITS:
            return self._split(nodes[0], parts)
        if all(_kind(node) == ("", "Slice") for node in nodes):
            return self._slices(nodes)
        raise NoMatchError("sums the parts of several values, expected those of one Split, or slices")

    def _split(self, node: NodeProto, parts: list[str]) -> tuple[str, list[int]]:
        if list(node.output) != parts:
            raise NoMatchError("does not join the sums of all parts in their order")
        if (int_attribute(node, "axis") or 0) not in (0, -2):
            raise NoMatchError(f"splits axis {int_attribute(node, 'axis')}, expected the rows, axis 0")
        try:
            sizes = self.context.constants.numbers(self.scope, node, "split", 1)
        except NotConstant:
            # onnxruntime computes the sizes; they are in the types of the parts.
            sizes = None
        rows: list[int | None] = [*sizes] if sizes else [self._shape(part)[0] for part in parts]
        known = [size for size in rows if size is not None]
        if len(known) < len(parts):
            raise NoMatchError(f"the sizes of the parts of {shown(node.input[0])} are not known")
        return node.input[0], list(accumulate(known))

    def _slices(self, nodes: list[NodeProto]) -> tuple[str, list[int]]:
        source = nodes[0].input[0]
        rows = self._shape(source)[0]
        end = 0
        ends = []
        for node in nodes:
            start, stop = self._limits(node, rows)
            if node.input[0] != source or start != end or stop < start:
                raise NoMatchError(
                    f"takes rows {start} to {stop} of {shown(node.input[0])}, expected them from {end} on"
                )
            end = stop
            ends.append(stop)
        return source, ends

    def _limits(self, node: NodeProto, rows: int | None) -> tuple[int, int]:
        try:
            starts, stops, axes, steps = (
                self.context.constants.numbers(self.scope, node, name, position)
                for position, name in enumerate(("starts", "ends", "axes", "steps"), start=1)
            )
        except NotConstant as reason:
            raise NoMatchError(f"the limits of a slice must be constant; one {reason}") from reason
        is_rows = axes in (None, [0], [-2]) and steps in (None, [1]) and len(starts or ()) == len(stops or ()) == 1
        if not is_rows or rows is None or not starts or not stops:
            raise NoMatchError(f"slices axes {axes} from {starts} to {stops} by {steps}, expected rows alone, by 1")
        start, stop, _ = slice(starts[0], stops[0]).indices(rows)
        return start, stop
