"""onnxruntime's gradient of `Gather`, which is the gradient of an embedding when rows of a table are gathered."""

from __future__ import annotations

from onnx import NodeProto

from opforge.codegen.printing import shown
from opforge.frontend.ir.constants import NotConstant, int_attribute
from opforge.frontend.ir.graph import Scope, normal_domain
from opforge.frontend.ir.value_types import ValueType

from .rule import Around, Context, Match, Refusal, Rule


class MapGatherGrad(Rule):
    """`com.microsoft::GatherGrad(shape, indices, dY)` over axis 0 of a matrix -> `EmbeddingDenseBackward`."""

    name = "com.microsoft::GatherGrad"
    operator = "EmbeddingDenseBackward"
    pattern = (("com.microsoft", "GatherGrad"),)

    def check(self, context: Context, scope: Scope, number: int) -> Match | Refusal:
        """Match a constant shape of two dims, axis 0, a float type, and no constant index that wraps around."""
        node = scope.node(number)
        if len(node.input) != 3 or len(node.output) != 1 or not all((*node.input, *node.output)):
            return Refusal(f"has {len(node.input)} inputs, expected shape, indices and dY, and one output")
        shape_name, indices, grad = node.input
        try:
            shape = context.constants.value(scope, shape_name)
        except NotConstant as reason:
            return Refusal(f"the shape of the table must be constant; {shown(shape_name)} {reason}")
        if shape.shape != (2,) or shape.dtype.kind != "i":
            return Refusal(
                f"the table has {shape.size} dims {shape.reshape(-1)[:8].tolist()}, expected 2: rows, columns"
            )
        axis = int_attribute(node, "axis") or 0
        if axis not in (0, -2):
            return Refusal(f"axis is {axis}, expected 0")
        rows = int(shape[0])
        if problem := _index_problem(context, scope, indices, rows):
            return Refusal(problem)
        dtype = _dtype(context, scope, node)
        if dtype is None:
            return Refusal(f"the element type must be known; {shown(grad)} is {context.types.of(scope, grad)}")
        known = context.types.of(scope, grad)
        return Match(
            (number,),
            {"grad": grad, "indices": indices, "grad_weight": node.output[0]},
            {"num_weights": rows, "padding_idx": -1, "scale_grad_by_freq": False},
            around=Around(types={grad: ValueType(dtype, known.shape)}),
        )


def _index_problem(context: Context, scope: Scope, name: str, rows: int) -> str:
    """Why constant indices mean something else for our operator, which skips what is no row."""
    try:
        indices = context.constants.value(scope, name)
    except NotConstant:
        return ""
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        return f"the indices {shown(name)} go from {indices.min()} to {indices.max()}, expected 0 to {rows - 1}"
    return ""


def _dtype(context: Context, scope: Scope, node: NodeProto) -> str | None:
    """The type of gradient and table: of either of them, or of the parameter whose shape is asked for."""
    shape, _, grad = node.input
    names = [grad, *node.output]
    found = scope.find(shape)
    if found and found[1] >= 0:
        maker = found[0].node(found[1])
        if (normal_domain(maker.domain), maker.op_type) == ("", "Shape"):
            names += maker.input
    return next(filter(None, (context.types.of(scope, name).dtype for name in names)), None)
