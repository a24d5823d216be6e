"""Define rules for gradient nodes of onnxruntime that become a custom operator and standard nodes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper

from opforge.codegen.printing import shown
from opforge.frontend.ir.onnx_nodes import constant, with_axes
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES, ValueType
from opforge.frontend.rules.node_builder import REPAIR
from opforge.frontend.rules.pattern import Found, Operators
from opforge.frontend.rules.rule import ExtraNodes, Match, OperatorCall, Rule

op, microsoft = Operators(), Operators("com.microsoft")
_TO_BCT, _TO_TBC, _KERNEL = [1, 2, 0], [2, 0, 1], [2, 1, 0]
# The standard forbids pads with auto_pad, but onnxruntime's gradient reads them.
_CONV_GRAD = microsoft.ConvGrad(
    op.Transpose("self", perm=_TO_BCT),
    op.Transpose("input", perm=_TO_BCT),
    op.Transpose("weight", perm=_KERNEL),
    group=(0, 1),
    strides=([], [1]),
    dilations=([], [1]),
    auto_pad=("none", "NOTSET"),
    _any_output=True,
)


class LowerBatchNormalizationGrad(Rule):
    """`BatchNormalizationGrad` -> the two sums in standard operators, the rest as `BatchNormElemtBackward`.

    sum_dy = dBias and sum_dy_xmu = dScale / inv_std, because dScale is the sum of dy * (x - mean) * inv_std.
    """

    name = "LowerBatchNormalizationGrad"
    operator = "BatchNormElemtBackward"
    group = "lower_training"
    pattern = microsoft.BatchNormalizationGrad("grad_out", "input", "weight", "mean", "invstd", _any_output=True)

    def check(self, found: Found) -> Match:
        """Match a float32 gradient with known rank and channels."""
        x, known = found.names["input"], found.type("input")
        if not found.node.output[0]:
            raise Unmatched("has no output dX")
        if known.shape is None or len(known.shape) < 2 or not known.shape[1]:
            raise Unmatched(f"needs an input of known rank and channels; {shown(x)} is {known}; {REPAIR}")
        if known.dtype != "float32":
            raise Unmatched(f"needs float32; {shown(x)} is {known}")
        if "" not in found.scope.opsets:
            raise Unmatched("the model does not import ai.onnx, which the sums need")
        count = prod(dim for dim in known.shape if dim is not None) // known.shape[1]
        if count >= 1 << 31:
            raise Unmatched(f"counts {count} elements of a channel, expected a number that fits int32")
        counter = {"counter": np.array([count], np.int32)} if None not in known.shape else {}
        values = found.names | counter | {"grad_input": found.node.output[0]}
        return Match(values, types={found.names["grad_out"]: known}, facts=known.shape)

    def rewrite(self, found: Found, match: Match) -> OperatorCall:
        """Compute the sums and the other outputs; count the elements at run time if the shape is unknown."""
        dy, x, mean, invstd = (found.names[name] for name in ("grad_out", "input", "mean", "invstd"))
        names, opset, shape = found.context.value_names, found.scope.opsets[""], match.facts
        new: dict[str, str] = {}
        before = []
        if None in shape:
            size, channels, quotient, new["counter"] = map(names.fresh, ("size", "channels", "quotient", "counter"))
            before = [
                helper.make_node("Size", [x], [size]),
                constant(channels, np.array(shape[1:2], np.int64)),
                helper.make_node("Div", [size, channels], [quotient]),
                helper.make_node("Cast", [quotient], [new["counter"]], to=ELEMENT_TYPES["int32"]),
            ]
        _, d_scale, d_bias = [*found.node.output, "", ""][:3]
        axes = [0, *range(2, len(shape))]
        new["sum_dy"], new["sum_dy_xmu"] = d_bias or names.fresh("sum_dy"), names.fresh("sum_dy_xmu")
        dims, centred, product, column = map(names.fresh, ("channel", "centred", "product", "mean_column"))
        before += [
            constant(dims, np.array([-1, *[1] * (len(shape) - 2)], np.int64)),
            helper.make_node("Reshape", [mean, dims], [column]),
            helper.make_node("Sub", [x, column], [centred]),
            helper.make_node("Mul", [dy, centred], [product]),
            *with_axes("ReduceSum", dy, axes, new["sum_dy"], opset, names, keepdims=0),
            *with_axes("ReduceSum", product, axes, new["sum_dy_xmu"], opset, names, keepdims=0),
        ]
        after = [helper.make_node("Mul", [new["sum_dy_xmu"], invstd], [d_scale])] if d_scale else []
        types = {name: ValueType("float32", shape[1:2]) for name in new.values()}
        if "counter" in new:
            types[new["counter"]] = ValueType("int32", (1,))
        return self.call(found, match, ExtraNodes(tuple(before), tuple(after), types), **new)


class LowerConvGrad(Rule):
    """`ConvGrad` between the transposes of `torch.conv_tbc` -> `ConvTbcBackward`."""

    name = "LowerConvGrad"
    operator = "ConvTbcBackward"
    group = "lower_training"
    pattern = microsoft.ConvGrad(..., _any_output=True)

    def check(self, found: Found) -> Match:
        """Match one axis, equal pads, stride 1, dilation 1, one group, and all transposes."""
        context, scope, node = found.context, found.scope, found.node
        if len(node.output) > 3:
            raise Unmatched(f"has {len(node.output)} outputs, expected dX, dW, dB")
        pad = _equal_pad(node)
        turned = _CONV_GRAD.match(context, scope, found.nodes[0])
        values: dict[str, str | NDArray[Any]] = {**turned.names}
        nodes = []
        for name, perm, parameter in zip(node.output, (_TO_TBC, _KERNEL), ("grad_input", "grad_weight"), strict=False):
            if not name:
                continue
            reader = context.view.only_reader(scope, name)
            if reader is None or op.Transpose("", perm=perm).find(context, scope, reader) is None:
                raise Unmatched(f"{shown(name)} does not go to one Transpose with perm {perm} alone")
            nodes.append(reader)
            values[parameter] = scope.node(reader).output[0]
        if len(node.output) > 2 and node.output[2]:
            values["grad_bias"] = node.output[2]
        types = [turned.type(name) for name in ("self", "input", "weight")]
        shape = types[2].shape
        dtype = next((known.dtype for known in types if known.dtype), None)
        if dtype is None or shape is None or len(shape) != 3 or shape[2] is None:
            raise Unmatched(f"needs the type of the kernel; {shown(turned.names['weight'])} is {types[2]}")
        values["bias"] = np.zeros(shape[2], helper.tensor_dtype_to_np_dtype(ELEMENT_TYPES[dtype]))
        absorbed = tuple(dict.fromkeys(turned.nodes[1:]))
        return Match(values, {"pad": pad, "cube_math_type": 0}, (*nodes, found.nodes[0]), absorbed)


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
