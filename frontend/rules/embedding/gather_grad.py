"""Map onnxruntime's gradient of `Gather` to the gradient of an embedding."""

from __future__ import annotations

from opforge.codegen.printing import shown
from opforge.frontend.ir.attributes import int_attribute
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.tensor_type import ValueType
from opforge.frontend.rules.pattern import Found, Operators, require_rows
from opforge.frontend.rules.rule import Match, Rule

_SHAPE = Operators().Shape("table")


class MapGatherGrad(Rule):
    """`com.microsoft::GatherGrad(shape, indices, dY)` over axis 0 of a matrix -> `EmbeddingDenseBackward`."""

    name = "com.microsoft::GatherGrad"
    operator = "EmbeddingDenseBackward"
    pattern = Operators("com.microsoft").GatherGrad("shape", "indices", "grad")

    def check(self, found: Found) -> Match:
        """Match a constant shape of two dims, axis 0, a float type, and no constant index that wraps around."""
        context, scope, node = found.context, found.scope, found.node
        grad, indices = found.names["grad"], found.names["indices"]
        shape = context.constants.required(scope, found.names["shape"], "the shape of the table")
        if shape.shape != (2,) or shape.dtype.kind != "i":
            raise Unmatched(
                f"the table has {shape.size} dims {shape.reshape(-1)[:8].tolist()}, expected 2: rows, columns"
            )
        if (axis := int_attribute(node, "axis") or 0) not in (0, -2):
            raise Unmatched(f"axis is {axis}, expected 0")
        rows = int(shape[0])
        if (values := context.constants.find(scope, indices)) is not None:
            require_rows(values, rows)
        # The gradient and the table have one type, which is also that of the parameter whose shape is read.
        owner, _ = scope.find(found.names["shape"]) or (scope, -1)
        table = _SHAPE.find(context, owner, found.names["shape"])
        names = [grad, node.output[0], *(table.names.values() if table else ())]
        types = [context.types.of(scope, name) for name in names]
        dtype = next((known.dtype for known in types if known.dtype), None)
        if dtype is None:
            raise Unmatched(f"the element type must be known; {shown(grad)} is {types[0]}")
        return Match(
            {"grad": grad, "indices": indices, "grad_weight": node.output[0]},
            {"num_weights": rows, "padding_idx": -1, "scale_grad_by_freq": False},
            types={grad: ValueType(dtype, types[0].shape)},
        )
