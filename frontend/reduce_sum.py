"""Sums over equal groups that exporters write as `ReduceSum`."""

from __future__ import annotations

from onnx import NodeProto

from opforge.frontend.constants import NotConstant, int_attribute
from opforge.frontend.graph import Scope, normal_domain
from opforge.frontend.names import shown
from opforge.frontend.rules import Context, Match, Refusal, Rule


class FuseEqualGroups(Rule):
    """`ReduceSum` over axis 1 of a [G, C, H] value, with the `Squeeze` that drops the axis, -> `GroupedBiasAddGrad`.

    On request only: a sum over the middle axis is common where no bias is meant.
    """

    name = "FuseEqualGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    pattern = (("", "ReduceSum"),)

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal:
        """Match rank 3, float data, axis 1 alone, and a squeezed result that nobody reads unsqueezed."""
        node = scope.node(number)
        if not node.input or len(node.output) != 1:
            return Refusal(f"ReduceSum has {len(node.input)} inputs and {len(node.output)} outputs")
        source, total = node.input[0], node.output[0]
        type_ = context.types.of(scope, source)
        if type_.shape is None or type_.dtype is None:
            return Refusal(f"needs a float value of rank 3; {shown(source)} is {type_}{_because(context)}")
        if len(type_.shape) != 3:
            return Refusal(f"needs a value of rank 3; {shown(source)} is {type_}")
        (grad_y, *_) = context.specs[self.operator].inputs
        if type_.dtype not in grad_y.dtypes:
            return Refusal(f"needs {', '.join(grad_y.dtypes)}; {shown(source)} is {type_}")
        if refusal := _needs_axis_1(context, scope, node):
            return refusal
        if int_attribute(node, "keepdims") == 0:
            return Match((number,), {"grad_y": source, "grad_bias": total})
        return self._with_squeeze(context, scope, number)

    def _with_squeeze(self, context: Context, scope: Scope, number: int) -> Match | Refusal:
        node = scope.node(number)
        total = node.output[0]
        if context.view.leaves(scope, total):
            return Refusal(f"keeps axis 1 and {shown(total)} is an output of the graph")
        uses = context.view.uses(scope, total)
        if len(uses) == 1 and uses[0].scope is not scope:
            return Refusal(f"keeps axis 1 and {shown(total)} is read in a subgraph, expected one Squeeze here")
        if len(uses) != 1:
            return Refusal(f"keeps axis 1 and {shown(total)} is read {len(uses)} times, expected one Squeeze here")
        squeeze = scope.node(uses[0].node)
        if (normal_domain(squeeze.domain), squeeze.op_type) != ("", "Squeeze") or len(squeeze.output) != 1:
            return Refusal(f"keeps axis 1 and {shown(total)} goes to {squeeze.op_type}, expected Squeeze")
        if refusal := _needs_axis_1(context, scope, squeeze):
            return refusal
        return Match((number, uses[0].node), {"grad_y": node.input[0], "grad_bias": squeeze.output[0]})


def _needs_axis_1(context: Context, scope: Scope, node: NodeProto) -> Refusal | None:
    """Refuse a node on a value of rank 3 unless its axes are exactly [1]."""
    try:
        axes = context.constants.numbers(scope, node, "axes", 1)
    except NotConstant as reason:
        return Refusal(f"the axes of {node.op_type} must be constant; {shown(node.input[1])} {reason}")
    if axes in ([1], [-2]):
        return None
    if axes:
        return Refusal(f"{node.op_type} has axes {axes}, expected axis 1 alone")
    if node.op_type == "ReduceSum" and int_attribute(node, "noop_with_empty_axes"):
        return Refusal("ReduceSum has noop_with_empty_axes and no axes: it sums nothing")
    return Refusal(f"{node.op_type} has no axes, which means all of them; expected axis 1 alone")


def _because(context: Context) -> str:
    error = context.types.inference_error
    return f" (shape inference stopped: {error})" if error else ""
