"""Define rules for gradient nodes of onnxruntime that become a custom operator and standard nodes."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import NodeProto, helper

from opforge.codegen.printing import shown
from opforge.frontend.ir.onnx_nodes import constant, with_axes
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.scope import Scope
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES, ValueType
from opforge.frontend.rules.context import Context
from opforge.frontend.rules.node_builder import REPAIR
from opforge.frontend.rules.pattern import Operators
from opforge.frontend.rules.rule import ExtraNodes, Match, Rule

op, microsoft = Operators(), Operators("com.microsoft")
_TO_BCT, _TO_TBC, _KERNEL = [1, 2, 0], [2, 0, 1], [2, 1, 0]


class LowerBatchNormalizationGrad(Rule):
    """`BatchNormalizationGrad` -> the two sums in standard operators, the rest as `BatchNormElemtBackward`.

    sum_dy = dBias and sum_dy_xmu = dScale / inv_std, because dScale is the sum of dy * (x - mean) * inv_std.
    """

    name = "LowerBatchNormalizationGrad"
    operator = "BatchNormElemtBackward"
    group = "lower_training"
    pattern = microsoft.BatchNormalizationGrad("dy", "x", "scale", "mean", "invstd", _any_output=True)

    def check(self, context: Context, scope: Scope, number: int) -> Match:
        """Match a float32 gradient with known rank and channels."""
        node = scope.node(number)
        found = self.pattern.match(context, scope, number)
        if not node.output[0]:
            raise Unmatched("has no output dX")
        dy, x, scale, mean, invstd = (found.names[name] for name in ("dy", "x", "scale", "mean", "invstd"))
        known = context.types.of(scope, x)
        if known.shape is None or len(known.shape) < 2 or not known.shape[1]:
            raise Unmatched(f"needs an input of known rank and channels; {shown(x)} is {known}; {REPAIR}")
        if known.dtype != "float32":
            raise Unmatched(f"needs float32; {shown(x)} is {known}")
        opset = scope.opsets.get("")
        if opset is None:
            raise Unmatched("the model does not import ai.onnx, which the sums need")
        fresh = context.value_names.fresh
        dims_known = [dim for dim in known.shape if dim is not None]
        count = fresh("count")
        count_of = prod(dims_known) // known.shape[1]
        if count_of >= 1 << 31:
            raise Unmatched(f"counts {count_of} elements of a channel, expected a number that fits int32")
        counted = [constant(count, np.array([count_of], np.int32))]
        if len(dims_known) < len(known.shape):
            size, channels, quotient = (fresh(word) for word in ("size", "channels", "quotient"))
            counted = [
                helper.make_node("Size", [x], [size]),
                constant(channels, np.array(known.shape[1:2], np.int64)),
                helper.make_node("Div", [size, channels], [quotient]),
                helper.make_node("Cast", [quotient], [count], to=ELEMENT_TYPES["int32"]),
            ]
        _, d_scale, d_bias = [*node.output, "", ""][:3]
        axes = [0, *range(2, len(known.shape))]
        sum_dy, dot = d_bias or fresh("sum_dy"), fresh("sum_dy_xmu")
        dims, centred, product, column = (fresh(word) for word in ("channel", "centred", "product", "mean_column"))
        before = [
            *counted,
            constant(dims, np.array([-1, *[1] * (len(known.shape) - 2)], np.int64)),
            helper.make_node("Reshape", [mean, dims], [column]),
            helper.make_node("Sub", [x, column], [centred]),
            helper.make_node("Mul", [dy, centred], [product]),
            *with_axes("ReduceSum", dy, axes, sum_dy, opset, context.value_names, keepdims=0),
            *with_axes("ReduceSum", product, axes, dot, opset, context.value_names, keepdims=0),
        ]
        after = [helper.make_node("Mul", [dot, invstd], [d_scale])] if d_scale else []
        vector = ValueType("float32", (known.shape[1],))
        return Match(
            (number,),
            {
                "grad_out": dy,
                "input": x,
                "mean": mean,
                "invstd": invstd,
                "weight": scale,
                "sum_dy": sum_dy,
                "sum_dy_xmu": dot,
                "counter": count,
                "grad_input": node.output[0],
            },
            extra_nodes=ExtraNodes(
                tuple(before),
                tuple(after),
                {sum_dy: vector, dot: vector, count: ValueType("int32", (1,)), dy: known},
            ),
        )


class LowerConvGrad(Rule):
    """`ConvGrad` between the transposes of `torch.conv_tbc` -> `ConvTbcBackward`."""

    name = "LowerConvGrad"
    operator = "ConvTbcBackward"
    group = "lower_training"
    # The standard forbids pads with auto_pad, but onnxruntime's gradient reads them.
    pattern = microsoft.ConvGrad(
        op.Transpose("dy", perm=_TO_BCT),
        op.Transpose("x", perm=_TO_BCT),
        op.Transpose("w", perm=_KERNEL),
        group=(0, 1),
        strides=([], [1]),
        dilations=([], [1]),
        auto_pad=("none", "NOTSET"),
        _any_output=True,
    )

    def check(self, context: Context, scope: Scope, number: int) -> Match:
        """Match one axis, equal pads, stride 1, dilation 1, one group, and all transposes."""
        node = scope.node(number)
        if len(node.output) > 3:
            raise Unmatched(f"has {len(node.output)} outputs, expected dX, dW, dB")
        pad = _equal_pad(node)
        found = self.pattern.match(context, scope, number)
        sources = [found.names[name] for name in ("dy", "x", "w")]
        results = {}
        nodes = []
        for name, perm, parameter in zip(node.output, (_TO_TBC, _KERNEL), ("grad_input", "grad_weight"), strict=False):
            if not name:
                continue
            reader = context.view.only_reader(scope, name)
            if reader is None or op.Transpose("", perm=perm).find(context, scope, reader) is None:
                raise Unmatched(f"{shown(name)} does not go to one Transpose with perm {perm} alone")
            nodes.append(reader)
            results[parameter] = scope.node(reader).output[0]
        if len(node.output) > 2 and node.output[2]:
            results["grad_bias"] = node.output[2]
        types = [context.types.of(scope, name) for name in sources]
        shape = types[2].shape
        dtype = next((known.dtype for known in types if known.dtype), None)
        if dtype is None or shape is None or len(shape) != 3 or shape[2] is None:
            raise Unmatched(f"needs the type of the kernel; {shown(sources[2])} is {types[2]}")
        bias = context.value_names.fresh("bias")
        zeros, spelled = f"{bias}_float", [constant(bias, np.zeros(shape[2], np.float32))]
        if dtype != "float32":
            spelled = [
                constant(zeros, np.zeros(shape[2], np.float32)),
                helper.make_node("Cast", [zeros], [bias], to=ELEMENT_TYPES[dtype]),
            ]
        values = dict(zip(("self", "input", "weight"), sources, strict=True)) | {"bias": bias} | results
        return Match(
            (*nodes, number),
            values,
            {"pad": pad, "cube_math_type": 0},
            tuple(dict.fromkeys(found.nodes[1:])),
            ExtraNodes(before=tuple(spelled), types={bias: ValueType(dtype, (shape[2],))}),
        )


def _equal_pad(node: NodeProto) -> int:
    """Return the pad at both ends of a convolution along one axis."""
    lists = {attribute.name: list(attribute.ints) for attribute in node.attribute if attribute.ints}
    kernel = lists.get("kernel_shape")
    if kernel is None or len(kernel) != 1:
        raise Unmatched(f"kernel_shape is {kernel}, expected one axis")
    pads = lists.get("pads", [0, 0])
    if len(pads) != 2 or pads[0] != pads[1]:
        raise Unmatched(f"has pads {pads}, expected equal pads")
    return pads[0]
