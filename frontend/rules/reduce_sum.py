"""Sums over equal groups that exporters write as `ReduceSum`."""

from __future__ import annotations

from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.constants import NotConstant, int_attribute
from opforge.frontend.ir.graph import Scope, normal_domain
from opforge.frontend.ir.onnx_nodes import with_axes

from .rule import Around, Context, Match, Refusal, Rule


class FuseEqualGroups(Rule):
    """`ReduceSum` over axis 1 of a [G, C, H] value -> `GroupedBiasAddGrad`.

    A kept axis is put back by `Unsqueeze`, unless one `Squeeze` drops it anyway. On request only: a sum over the middle
    axis is common where no bias is meant.
    """

    name = "FuseEqualGroups"
    operator = "GroupedBiasAddGrad"
    group = "patterns"
    pattern = (("", "ReduceSum"),)

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal:
        """Match rank 3, more than one group, float data and axis 1 alone."""
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
        if type_.shape[0] == 1:
            return Refusal(f"{shown(source)} is {type_}: one group is a sum over all rows, which is no grouped bias")
        if int_attribute(node, "keepdims") == 0:
            return Match((number,), {"grad_y": source, "grad_bias": total})
        squeeze = _squeeze(context, scope, total)
        if squeeze is not None:
            return Match((number, squeeze), {"grad_y": source, "grad_bias": scope.node(squeeze).output[0]})
        opset = scope.opsets.get("")
        if opset is None:
            return Refusal("the model does not import ai.onnx, which putting the axis back needs")
        sums = context.value_names.fresh(f"{total}_groups")
        put_back = with_axes("Unsqueeze", sums, [1], total, opset, context.value_names)
        return Match((number,), {"grad_y": source, "grad_bias": sums}, around=Around(after=tuple(put_back)))


def _squeeze(context: Context, scope: Scope, total: str) -> int | None:
    """The node that drops axis 1 of a sum, when nobody else reads the sum."""
    number = context.view.only_reader(scope, total)
    if number is None:
        return None
    node = scope.node(number)
    is_squeeze = (normal_domain(node.domain), node.op_type, len(node.output)) == ("", "Squeeze", 1)
    return number if is_squeeze and _needs_axis_1(context, scope, node) is None else None


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
