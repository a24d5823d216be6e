"""Create the standard ONNX nodes around custom nodes, in the opset of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from .names import FreshNames

# Axes moved from attribute to input.
AXES_INPUT_OPSET = 13


def constant(name: str, value: NDArray[np.generic]) -> NodeProto:
    """Return a `Constant` with a tensor: ATC reads its other spellings as empty, and functions have no initializers."""
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name))


def with_axes(
    op_type: str, source: str, axes: Sequence[int], target: str, opset: int, names: FreshNames, **attributes: Any
) -> list[NodeProto]:
    """Return `Squeeze`, `Unsqueeze` or `ReduceSum` over axes; `names` creates the name of an axes input."""
    if opset < AXES_INPUT_OPSET:
        return [helper.make_node(op_type, [source], [target], axes=list(axes), **attributes)]
    name = names.fresh(f"{target}_axes")
    return [
        constant(name, np.array(axes, np.int64)),
        helper.make_node(op_type, [source, name], [target], **attributes),
    ]
