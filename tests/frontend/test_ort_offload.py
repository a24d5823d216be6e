"""Test large nodes of other operators on onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from ml_dtypes import bfloat16

from opforge.codegen.errors import UserError
from opforge.frontend.run import ort_offload
from opforge.frontend.run.execute import execute, run_model
from opforge.frontend.run.ort_offload import LARGE, LargeNodes

NODE = "npu.NPUGroupedBiasAddGrad"


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> g {text}')


def ran(model, arrays):
    large = LargeNodes()
    return run_model(model, arrays, large=large).outputs, large.ran


def test_offloaded_nodes_equal_the_onnx_evaluator(rng):
    model = parse(
        """(float[2, 8, 64, 64] x, float[4, 8, 3, 3] w) => (float[2, 4, 64, 64] y, float[2, 4, 32, 32] p, float[4] s)
        <int64[3] axes = {0, 2, 3}> {
            y = Conv <pads = [1, 1, 1, 1]> (x, w) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (y)
            s = ReduceSum <keepdims = 0> (p, axes)
        }"""
    )
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes(model).items()}
    expected = execute(model, arrays)
    outputs, count = ran(model, arrays)
    # The sum reads 2 x 4 x 32 x 32 numbers, which is fast enough in onnx; the pool has only 32768.
    assert count == 1
    for name, array in expected.items():
        assert outputs[name].dtype == array.dtype
        np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-3)


def shapes(model):
    return {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}


def test_an_absent_output_stays_absent(rng):
    model = parse(
        """(float[2, 256, 256] x, float[256] a) => (float[2, 256, 256] y, float[2, 256, 1] d)
        {y, "", d = LayerNormalization (x, a)}"""
    )
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes(model).items()}
    outputs, count = ran(model, arrays)
    assert count == 1
    spread = np.sqrt(arrays["x"].var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(outputs["d"], 1 / spread, rtol=1e-4)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE])
def test_small_nodes_stay(size):
    _, count = ran(parse(f"(float[{size}] x) => (float[{size}] y) {{y = Neg (x)}}"), {"x": np.ones(size, np.float32)})
    assert count == (size == LARGE)


def test_custom_nodes_run_on_the_twin(calls):
    model = parse(f"(float[600, 300] x, int64[1] i) => (float[1, 300] y) {{h = Neg (x) [n] y = {NODE} (h, i)}}")
    outputs, count = ran(model, {"x": np.ones((600, 300), np.float32), "i": np.array([600])})
    assert (len(calls), count) == (1, 1)
    np.testing.assert_array_equal(outputs["y"], np.ones((1, 300)))


def test_nodes_unsupported_by_onnxruntime_run_in_onnx():
    """onnxruntime rejects bfloat16 arrays without a message."""
    model = parse(f"(bfloat16[{LARGE}] x) => (bfloat16[{LARGE}] y) {{y = Neg (x)}}")
    outputs, count = ran(model, {"x": np.ones(LARGE, bfloat16)})
    assert count == 0
    np.testing.assert_array_equal(outputs["y"], -np.ones(LARGE, bfloat16))


def test_error_in_both_evaluators_is_one_line():
    model = parse(f"(float[{LARGE}] x, float[3] b) => (y) {{y = Add (x, b)}}")
    with pytest.raises(UserError, match=r"node 'y' \(Add\): (Value|Type)Error: ") as caught:
        ran(model, {"x": np.ones(LARGE, np.float32), "b": np.ones(3, np.float32)})
    assert "\n" not in str(caught.value)


def test_without_onnxruntime_onnx_runs_all(monkeypatch):
    monkeypatch.setattr(ort_offload, "find_spec", lambda _name: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", None)
    model = parse(f"(float[{LARGE}] x) => (float[{LARGE}] y) {{y = Neg (x)}}")
    outputs, count = ran(model, {"x": np.ones(LARGE, np.float32)})
    assert count == 0
    np.testing.assert_array_equal(outputs["y"], -np.ones(LARGE))
