"""Match sums over equal groups that exporters write as `ReduceSum`."""

from __future__ import annotations

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.onnx_nodes import with_axes
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.rules.pattern import Found, Operators, require_type
from opforge.frontend.rules.rule import ExtraNodes, Match, OperatorCall, Rule

op = Operators()
_SUM, _SQUEEZE = op.ReduceSum("", axes=[1]), op.Squeeze("", axes=[1])


class FuseEqualGroups(Rule):
    """`ReduceSum` over axis 1 of a [G, C, H] value -> `GroupedBiasAddGrad`.

    `Unsqueeze` adds a kept axis again, unless one `Squeeze` drops it anyway. On request only: a sum over the middle
    axis is common in models that add no grouped bias.
    """

    name = "FuseEqualGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    pattern = op.ReduceSum("grad_y", ...)

    def check(self, found: Found) -> Match:
        """Match rank 3, more than one group, float data and only axis 1."""
        context, scope, node, source = found.context, found.scope, found.node, found.names["grad_y"]
        type_ = require_type(context, scope, source, self.operator, rank=3)
        if int_attribute(node, "noop_with_empty_axes") and not context.constants.axes(scope, node):
            raise Unmatched("ReduceSum has noop_with_empty_axes and no axes: it sums nothing")
        _SUM.match(context, scope, found.nodes[0])
        if (type_.shape or ())[0] == 1:
            raise Unmatched(f"{shown(source)} is {type_}: one group is a sum over all rows, not a grouped bias")
        (total,) = node.output
        values = {"grad_y": source, "grad_bias": total}
        if int_attribute(node, "keepdims") == 0:
            return Match(values)
        reader = context.view.only_reader(scope, total)
        if reader is not None and _SQUEEZE.find(context, scope, reader):
            values["grad_bias"] = scope.node(reader).output[0]
            return Match(values, nodes=(found.nodes[0], reader))
        if "" not in scope.opsets:
            raise Unmatched("the model does not import ai.onnx, which the restored axis needs")
        return Match(values, facts=total)

    def rewrite(self, found: Found, match: Match) -> OperatorCall:
        """Restore the axis if the sum keeps it."""
        if not (total := match.facts):
            return self.call(found, match)
        names = found.context.value_names
        sums = names.fresh(f"{total}_groups")
        restored = with_axes("Unsqueeze", sums, [1], total, found.scope.opsets[""], names)
        return self.call(found, match, ExtraNodes(after=tuple(restored)), grad_bias=sums)
