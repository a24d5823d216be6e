"""Match sums over equal groups that exporters write as `ReduceSum`."""

from __future__ import annotations

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.onnx_nodes import with_axes
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import Scope
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.pattern import Operators, require_type
from opforge.frontend.rules.rule import ExtraNodes, Match, Rule

op = Operators()
_SQUEEZE = op.Squeeze("total", axes=[1])


class FuseEqualGroups(Rule):
    """`ReduceSum` over axis 1 of a [G, C, H] value -> `GroupedBiasAddGrad`.

    `Unsqueeze` adds a kept axis again, unless one `Squeeze` drops it anyway. On request only: a sum over the middle
    axis is common in models that add no grouped bias.
    """

    name = "FuseEqualGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    pattern = op.ReduceSum("grad_y", axes=[1])

    def check(self, context: Context, scope: Scope, number: int) -> Match:
        """Match rank 3, more than one group, float data and only axis 1."""
        node = scope.node(number)
        source = next(iter(node.input), "")
        type_ = require_type(context, scope, source, self.operator, rank=3)
        if int_attribute(node, "noop_with_empty_axes") and not context.constants.axes(scope, node):
            raise Unmatched("ReduceSum has noop_with_empty_axes and no axes: it sums nothing")
        self.pattern.match(context, scope, number)
        if (type_.shape or ())[0] == 1:
            raise Unmatched(f"{shown(source)} is {type_}: one group is a sum over all rows, not a grouped bias")
        (total,) = node.output
        if int_attribute(node, "keepdims") == 0:
            return Match((number,), {"grad_y": source, "grad_bias": total})
        reader = context.view.only_reader(scope, total)
        if reader is not None and _SQUEEZE.find(context, scope, reader):
            return Match((number, reader), {"grad_y": source, "grad_bias": scope.node(reader).output[0]})
        opset = scope.opsets.get("")
        if opset is None:
            raise Unmatched("the model does not import ai.onnx, which the restored axis needs")
        sums = context.value_names.fresh(f"{total}_groups")
        put_back = with_axes("Unsqueeze", sums, [1], total, opset, context.value_names)
        return Match((number,), {"grad_y": source, "grad_bias": sums}, extra_nodes=ExtraNodes(after=tuple(put_back)))
