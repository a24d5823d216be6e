"""The model of the main job: two bias gradients, one as our node, one in standard operators, and a node that stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

# Its operators after conversion.
OPERATORS = ("GroupedBiasAddGrad",)
ENDS = np.array([400, 600, 1000], np.int64)


def build() -> onnx.ModelProto:
    """dense_grad [1000, 30] summed over three groups, expert_grad [8, 64, 48] over its second axis; a Relu stays."""
    nodes = [
        helper.make_node("Relu", ["dense_grad"], ["positive"], name="relu"),
        helper.make_node(
            "NPUGroupedBiasAddGrad", ["positive", "ends"], ["dense_bias"], domain="npu", name="dense_bias_grad"
        ),
        helper.make_node("ReduceSum", ["expert_grad", "second_axis"], ["kept"], keepdims=1, name="expert_sum"),
        helper.make_node("Squeeze", ["kept", "second_axis"], ["expert_bias"], name="expert_squeeze"),
    ]
    graph = helper.make_graph(
        nodes,
        "bias_gradients",
        [
            helper.make_tensor_value_info("dense_grad", TensorProto.FLOAT, [1000, 30]),
            helper.make_tensor_value_info("expert_grad", TensorProto.FLOAT16, [8, 64, 48]),
        ],
        [
            helper.make_tensor_value_info("dense_bias", TensorProto.FLOAT, [3, 30]),
            helper.make_tensor_value_info("expert_bias", TensorProto.FLOAT16, [8, 48]),
        ],
        [numpy_helper.from_array(ENDS, "ends"), numpy_helper.from_array(np.array([1], np.int64), "second_axis")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("npu", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="opforge examples")


def inputs() -> dict[str, npt.NDArray[np.generic]]:
    """Arrays for the model's inputs, the same on every machine."""
    generator = np.random.default_rng(20)
    return {
        "dense_grad": generator.normal(size=(1000, 30)).astype(np.float32),
        # Small integers, so that the sums are exact in float16 too and must be equal.
        "expert_grad": generator.integers(-8, 9, size=(8, 64, 48)).astype(np.float16),
    }


if __name__ == "__main__":
    onnx.save(build(), "model.onnx")
    np.savez("in.npz", **inputs())
