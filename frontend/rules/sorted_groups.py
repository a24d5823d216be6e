"""Sums over groups of rows that are written as a scatter whose indices ascend."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from opforge.frontend.ir.constants import NotConstant, int_attribute
from opforge.frontend.ir.graph import Scope, normal_domain
from opforge.frontend.ir.onnx_nodes import constant
from opforge.frontend.ir.value_types import ValueType

from .aten import is_function
from .rule import Around, Context, Match, NoMatchError, Refusal, Rule
from .scatter_add import Scatter, read_scatter


class FuseSortedGroups(Rule):
    """A scatter that adds rows onto zeros, with ids that ascend, -> `GroupedBiasAddGrad`.

    The ids ascend when they are constants that do, or when they are made by `repeat_interleave` of the sizes of the
    groups, by name or in the nodes that PyTorch's exporter writes for it.
    """

    name = "FuseSortedGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    priority = -1
    pattern = (("", "ScatterND"), ("", "ScatterElements"))

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal | None:
        """Match rows of a matrix, one id for each; everything else is left to the rule for any order."""
        try:
            found = read_scatter(context, scope, number)
        except NoMatchError:
            return None
        grad, grad_node = _unexpanded(context, scope, found.grad)
        shape = context.types.of(scope, grad).shape
        if shape is None or len(shape) != 2 or found.padding != -1 or found.is_scaled:
            return None
        if found.values is not None and shape[0] not in (None, found.values.size):
            return None
        groups = _groups(context, scope, found)
        if groups is None:
            return None
        name, kind, seen, around = groups
        values = {"grad_y": grad, "group_idx": name, "grad_bias": scope.node(number).output[0]}
        return Match((number,), values, {"group_idx_type": kind}, (*found.seen, *grad_node, *seen), around)


def _unexpanded(context: Context, scope: Scope, name: str) -> tuple[str, tuple[int, ...]]:
    """A value in front of an `Expand` to its own shape, and the number of that node."""
    number = scope.makers.get(name, -1)
    node = scope.node(number) if number >= 0 else NodeProto()
    if normal_domain(node.domain) == "" and node.op_type == "Expand":
        before, after = context.types.of(scope, node.input[0]), context.types.of(scope, name)
        if before.shape is not None and None not in before.shape and before == after:
            return node.input[0], (number,)
    return name, ()


def _groups(context: Context, scope: Scope, found: Scatter) -> tuple[str, int, tuple[int, ...], Around] | None:
    """Ends (0) or lengths (1) of the groups, the nodes that make the ids of them, and nodes that make the ends."""
    ids = found.values
    if ids is not None:
        numbers = ids.astype(np.int64)
        is_row = (numbers >= 0) & (numbers < found.rows)
        if ids.ndim != 1 or not is_row.all() or np.any(np.diff(numbers) < 0):
            return None
        name = context.value_names.fresh("group_ends")
        ends = np.searchsorted(ids, np.arange(found.rows), side="right").astype(np.int64)
        return name, 0, (), Around((constant(name, ends),), (), {name: ValueType("int64", ends.shape)})
    reader = _Repeat(context, scope)
    try:
        lengths = reader.lengths(found.indices)
    except (NoMatchError, IndexError):
        # A node with fewer inputs than it needs is none of the form.
        return None
    if context.types.of(scope, lengths).shape != (found.rows,):
        return None
    return lengths, 1, tuple(reader.seen), Around()


class _Repeat:
    """Recognises ids that are each group's number, as often as the group has rows.

    Attributes:
        seen: Numbers of the nodes that were understood.
    """

    def __init__(self, context: Context, scope: Scope) -> None:
        self._context = context
        self._scope = scope
        self.seen: list[int] = []

    def lengths(self, ids: str) -> str:
        """The sizes of the groups.

        Raises:
            NoMatchError: The ids are made in another way.
        """
        number = self._scope.makers.get(ids, -1)
        if number >= 0 and is_function(node := self._scope.node(number), "repeat_interleave"):
            # The forms with something to repeat have it first, and how often second.
            if any(node.input[1:]):
                raise NoMatchError("repeats values that need not be the numbers of the groups")
            self.seen.append(number)
            return node.input[0]
        # The number of a row's group is how many groups end at or before it: all groups, less those that end behind it.
        picked = self._step(self._step(ids, "Reshape").input[0], "GatherND")
        groups = self._constant(picked.input[0])
        behind = self._step(self._step(self._step(picked.input[1], "Unsqueeze").input[0], "Reshape").input[0], "Sub")
        total = self._step(behind.input[1], "ReduceSum")
        less = self._step(self._step(total.input[0], "Cast").input[0], "Less")
        rows = self._step(less.input[0], "Range")
        column = self._step(less.input[1], "Unsqueeze")
        ends = self._step(column.input[0], "CumSum")
        last = self._step(self._step(rows.input[1], "Squeeze").input[0], "Gather")
        facts = (
            np.array_equal(groups, np.arange(groups.size)[:, None]),
            not int_attribute(picked, "batch_dims"),
            self._constant(behind.input[0]).tolist() == [groups.size],
            self._constant(total.input[1]).tolist() == [0],
            self._constant(rows.input[0]) == 0,
            self._constant(rows.input[2]) == 1,
            self._constant(column.input[1]).tolist() in ([-1], [1]),
            self._constant(ends.input[1]).reshape(-1).tolist() == [0],
            not int_attribute(ends, "reverse") and not int_attribute(ends, "exclusive"),
            last.input[0] == column.input[0] and self._constant(last.input[1]).reshape(-1).tolist() == [-1],
        )
        if not all(facts):
            raise NoMatchError("looks like repeat_interleave, but is another computation")
        return ends.input[0]

    def _step(self, name: str, op_type: str) -> NodeProto:
        number = self._scope.makers.get(name, -1)
        node = self._scope.node(number) if number >= 0 else NodeProto()
        if normal_domain(node.domain) != "" or node.op_type != op_type:
            raise NoMatchError(f"expected {op_type}")
        self.seen.append(number)
        return node

    def _constant(self, name: str) -> NDArray[np.generic]:
        try:
            return self._context.constants.value(self._scope, name)
        except NotConstant as reason:
            raise NoMatchError(str(reason)) from reason
