"""Match sums over groups of rows: a scatter with ascending indices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opforge.frontend.ir.reason import Unmatched, Unrelated
from opforge.frontend.rules.embedding.scatter_add import read_scatter
from opforge.frontend.rules.names.aten import ATEN_DOMAIN
from opforge.frontend.rules.pattern import Constant, Found, Operators
from opforge.frontend.rules.rule import Match, Rule

op, aten = Operators(), Operators(ATEN_DOMAIN)
_EXPANDED = op.Expand("rows", "")
# The group of a row is the number of groups that end at or before it: all groups, minus those that end after it.
_ENDS = op.CumSum("lengths", 0, reverse=0, exclusive=0).named("ends")
_ROWS = op.Range(0, op.Squeeze(op.Gather(_ENDS, -1), ...), 1)
_BEHIND = op.ReduceSum(op.Cast(op.Less(_ROWS, op.Unsqueeze(_ENDS, axes=[1]))), axes=[0])
_GROUP = op.Unsqueeze(op.Reshape(op.Sub(Constant("count"), _BEHIND), ""), ...)
_WRITTEN_OUT = op.Reshape(op.GatherND(Constant("groups"), _GROUP, batch_dims=0), "")
# Forms with repeated values have them as a second input.
_REPEATED = aten.repeat_interleave("lengths") | aten.ATen("lengths", operator="repeat_interleave") | _WRITTEN_OUT


class FuseSortedGroups(Rule):
    """A scatter that adds rows onto zeros, with ascending ids -> `GroupedBiasAddGrad`.

    The ids ascend if they are ascending constants, or the result of `repeat_interleave` of the group sizes, by name or
    in the nodes of PyTorch's exporter.
    """

    name = "FuseSortedGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    priority = -1
    pattern = op.ScatterND(...) | op.ScatterElements(...)

    def check(self, found: Found) -> Match:
        """Match rows of a matrix, one id for each; the rule for unsorted ids handles other cases."""
        context, scope = found.context, found.scope
        try:
            scatter = read_scatter(found)
        except Unmatched as reason:
            raise Unrelated from reason
        grad, seen = scatter.grad, scatter.seen
        known = context.types.of(scope, grad)
        expanded = _EXPANDED.find(context, scope, grad)
        if expanded and None not in (known.shape or (None,)) and expanded.type("rows") == known:
            grad, seen = expanded.names["rows"], (*seen, *expanded.nodes)
        if known.shape is None or len(known.shape) != 2 or scatter.padding != -1 or scatter.is_scaled:
            raise Unrelated
        values: dict[str, str | NDArray[np.int64]] = {"grad_y": grad, "grad_bias": found.node.output[0]}
        if scatter.values is not None:
            ends = _ends(scatter.values, scatter.rows)
            if ends is None or known.shape[0] not in (None, scatter.values.size):
                raise Unrelated
            values["group_idx"] = ends
        else:
            repeated = _REPEATED.find(context, scope, scatter.indices)
            if repeated is None or not _are_groups(repeated) or repeated.type("lengths").shape != (scatter.rows,):
                raise Unrelated
            values["group_idx"], seen = repeated.names["lengths"], (*seen, *repeated.nodes)
        return Match(values, {"group_idx_type": int(scatter.values is None)}, absorbed=seen)


def _ends(ids: NDArray[np.generic], rows: int) -> NDArray[np.int64] | None:
    """Return the end of each group, for ids that ascend; None for others."""
    numbers = ids.astype(np.int64)
    if ids.ndim != 1 or np.any((numbers < 0) | (numbers >= rows)) or np.any(np.diff(numbers) < 0):
        return None
    return np.searchsorted(ids, np.arange(rows), side="right").astype(np.int64)


def _are_groups(found: Found) -> bool:
    """Return whether the repeated values, if the graph has them, are the numbers of the groups."""
    groups, count = found.constants.get("groups", np.zeros((0, 1))), found.constants.get("count", np.zeros(1))
    return np.array_equal(groups, np.arange(groups.size)[:, None]) and count.reshape(-1).tolist() == [groups.size]
