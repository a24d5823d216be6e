"""Test training graphs of onnxruntime; they need onnxruntime-training, which cannot be installed together with
onnxruntime.

In a separate environment: pip install onnxruntime-training torch, and this project.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from make_training_steps import HERE, STEPS, numbers_of, sample, stored
from onnx import TensorProto, helper, numpy_helper
from training_nodes import FAILING, NODES, node_feed, node_model

from opforge.frontend import convert
from opforge.frontend.training.training_step import training_step

artifacts = pytest.importorskip(
    "onnxruntime.training.artifacts", reason="onnxruntime-training is not installed, or PyTorch, which it imports"
)
pytestmark = pytest.mark.filterwarnings("ignore")

# Forward graph, shapes of the parameters, and the operators of the result.
GRAPHS = {
    "gather": (
        "(int64[4, 6] x) => (float[4, 6, 8] y) {y = Gather <axis = 0> (p, x)}",
        {"p": (20, 8)},
        ["EmbeddingDenseBackward"],
    ),
    "equal groups": (
        "(float[3, 4, 5] x) => (float[3, 4, 5] y) {y = Add (x, p)}",
        {"p": (3, 1, 5)},
        ["GroupedBiasAddGrad"],
    ),
    "groups of constant size": (
        """(float[6, 5] x) => (float[6, 5] y) {
            s = Constant <value = int64[3] {1, 1, 1}> () a, b, c = Split <axis = 0> (p, s)
            k = Constant <value = int64[2] {2, 5}> () m = Constant <value = int64[2] {3, 5}> ()
            d = Expand (a, k) e = Expand (c, m) f = Concat <axis = 0> (d, b, e) y = Add (x, f)}""",
        {"p": (3, 5)},
        ["GroupedBiasAddGrad"],
    ),
    "groups that PyTorch unrolls": (
        """(float[5, 4] x) => (float[5, 4] y) {
            s = Constant <value = int64[2] {1, 1}> () a, b = Split <axis = 0> (p, s)
            o = Constant <value = int64[1] {1}> () c = Unsqueeze (a, o) d = Unsqueeze (b, o)
            k = Constant <value = int64[3] {1, 2, 4}> () m = Constant <value = int64[3] {1, 3, 4}> ()
            e = Expand (c, k) f = Expand (d, m)
            q = Constant <value = int64[2] {2, 4}> () r = Constant <value = int64[2] {3, 4}> ()
            g = Reshape (e, q) h = Reshape (f, r) i = Concat <axis = 0> (g, h) y = Add (x, i)}""",
        {"p": (2, 4)},
        ["GroupedBiasAddGrad"],
    ),
    "conv_tbc": (
        """(float[6, 2, 3] x) => (float[6, 2, 4] y) {
            a = Add (x, i) t = Transpose <perm = [1, 2, 0]> (a) u = Transpose <perm = [2, 1, 0]> (w)
            c = Conv <pads = [1, 1], kernel_shape = [3]> (t, u, b) y = Transpose <perm = [2, 0, 1]> (c)}""",
        {"i": (6, 2, 3), "w": (3, 3, 4), "b": (4,)},
        ["ConvTbcBackward"],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients(name, tmp_path):
    text, shapes, expected = GRAPHS[name]
    generator = np.random.default_rng(7)
    values = {key: generator.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    forward = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    forward.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in values.items())
    artifacts.generate_artifacts(
        onnx.shape_inference.infer_shapes(forward),
        requires_grad=list(shapes),
        loss=artifacts.LossType.MSELoss,
        artifact_directory=str(tmp_path),
    )
    model = onnx.load(tmp_path / "training_model.onnx")
    gradients = [f"{key}_grad" for key in shapes]
    model.graph.output.extend(helper.make_tensor_value_info(key, TensorProto.FLOAT, None) for key in gradients)
    conversion = convert(model, patterns=True, lower_training=True)
    assert [entry.op for entry in conversion.mapped] == expected, conversion.left
    feed = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        kind = value.type.tensor_type.elem_type
        numbers = generator.normal(size=shape).astype(np.float32)
        feed[value.name] = (
            numbers if kind == TensorProto.FLOAT else np.ones(shape, helper.tensor_dtype_to_np_dtype(kind))
        )
    before, after = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(gradients, feed) for m in (model, conversion.model)
    )
    for got, expected_value in zip(after, before, strict=True):
        np.testing.assert_allclose(got, expected_value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in NODES if name not in FAILING])
def test_a_lowered_node(name):
    model = node_model(NODES[name])
    feed = node_feed(model, np.random.default_rng(3))
    lowered = convert(model, lower_training=True)
    assert lowered.lowered
    before, after = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, feed) for m in (model, lowered.model)
    )
    for got, expected_value in zip(after, before, strict=True):
        np.testing.assert_allclose(got, expected_value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_the_stored_numbers_of_a_step(name, is_reset):
    step = training_step(*(onnx.load(HERE / f"{name}_{kind}.onnx") for kind in ("training", "optimizer")), name)
    expected_value = stored(name, is_reset=is_reset)
    for key, got in numbers_of(step, is_reset=is_reset).items():
        np.testing.assert_allclose(sample(got), expected_value[key], rtol=1e-5, atol=1e-6, err_msg=key)


def test_steps_on_gradients_summed_over_several_runs(tmp_path):
    """The converted graphs, run one after another, and onnxruntime's loop: two steps of three runs each."""
    api = pytest.importorskip("onnxruntime.training.api", reason="this onnxruntime-training has no training API")
    generator = np.random.default_rng(5)
    text = "(float[4, 3] x) => (float[4, 2] y) {h = MatMul (x, w) y = Add (h, b)}"
    forward = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15]> g {text}')
    state = {name: generator.normal(size=shape).astype(np.float32) for name, shape in (("w", (3, 2)), ("b", (2,)))}
    forward.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in state.items())
    artifacts.generate_artifacts(
        forward,
        requires_grad=list(state),
        loss=artifacts.LossType.MSELoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(tmp_path),
    )
    training, optimizer = (onnx.load(tmp_path / f"{kind}_model.onnx") for kind in ("training", "optimizer"))
    # The onnx version of the writer can be newer than that of the reader.
    optimizer.ir_version = training.ir_version
    onnx.save(optimizer, tmp_path / "optimizer_model.onnx")
    adding, step = (
        onnxruntime.InferenceSession(convert(model, lower_training=True).model.SerializeToString())
        for model in (training, training_step(training, optimizer, "t.onnx"))
    )
    stored = api.CheckpointState.load_checkpoint(str(tmp_path / "checkpoint"))
    module = api.Module(str(tmp_path / "training_model.onnx"), stored)
    descent = api.Optimizer(str(tmp_path / "optimizer_model.onnx"), module)
    module.train()
    for value in step.get_inputs():
        if value.name.endswith((".buffer", ".first", ".second")):
            state[value.name] = np.zeros(value.shape, np.float32)
    descent.set_learning_rate(0.1)
    for count in (1, 2):
        for number, session in enumerate((adding, adding, step)):
            x, target = (generator.normal(size=(4, width)).astype(np.float32) for width in (3, 2))
            # The first sums start at zero, the second ones start again.
            is_reset = count == 2 and number == 0
            scalars = {"lazy_reset_grad": is_reset, "learning_rate": np.float32(0.1), "step": count}
            given = {"x": x, "target": target, **{name: np.array([scalar]) for name, scalar in scalars.items()}}
            feed = {value.name: (state | given)[value.name] for value in session.get_inputs()}
            names = [value.name.removesuffix("_updated") for value in session.get_outputs()]
            state |= dict(zip(names, session.run(None, feed), strict=True))
            np.testing.assert_allclose(state[names[0]], module(x, target), rtol=1e-5)
        descent.step()
        module.lazy_reset_grad()
        for name, parameter in stored.parameters:
            np.testing.assert_allclose(state[name], parameter.data, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(state[f"{name}_grad.accumulation.buffer"], parameter.grad, rtol=1e-5, atol=1e-6)
