"""Test `--optimizer`: the graph of an optimizer after a training graph."""

import numpy as np
import onnx
import onnxruntime
import pytest
from make_training_steps import HERE

from opforge.codegen.errors import UserError
from opforge.frontend.commands import ConvertOptions, convert_command
from opforge.frontend.training.training_step import training_step

TRAINING = """(float[3] w, float[3] x, float[3] "w.buffer", bool[1] reset) => (float[3] y, bool[1] "w.out") {
    y = Mul (w, x) w_grad = Neg (x) "w.out" = com.microsoft.InPlaceAccumulatorV2 ("w.buffer", w_grad, reset)}"""
DESCENT = """(float[1] rate, seq(float[M]) params, seq(float[M]) gradients) => (bool[1] done)
    {done = com.microsoft.SGDOptimizerV2 (rate, params, gradients)}"""
ADAM = """(float[1] rate, int64[1] count, seq(float[M]) params, seq(float[M]) g, seq(float[M]) m, seq(float[M]) v)
    => (bool[1] done) {done = com.microsoft.AdamWOptimizer <alpha = 0.8, beta = 0.9> (rate, count, params, g, m, v)}"""


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]> g {text}')


@pytest.mark.parametrize("name", ["bert", "conv"])
def test_a_step_is_converted_from_the_files_as_they_were_written(name, tmp_path, capsys):
    files = [HERE / f"{name}_{kind}.onnx" for kind in ("training", "optimizer")]
    options = ConvertOptions(lower_training=True, optimizer=files[1])
    assert convert_command(files[0], tmp_path / "step.onnx", options) == 0
    assert " 0 not mapped" in capsys.readouterr().out
    model = onnx.load(tmp_path / "step.onnx")
    assert {node.domain for node in model.graph.node} <= {"", "opforge"}
    outputs = {value.name for value in model.graph.output}
    gradients = [n.input[1] for n in onnx.load(files[0]).graph.node if n.op_type == "InPlaceAccumulatorV2"]
    expected = {name.removesuffix("_grad") + suffix for name in gradients for suffix in ("", ".first", ".second")}
    assert {f"{name}_updated" for name in expected} < outputs


def convert_files(folder, training, optimizer):
    """Convert and verify the training graph and the joined step."""
    for name, text in (("t", training), ("o", optimizer)):
        onnx.save(parse(text), folder / f"{name}.onnx")
    for name, joined in (("sum", None), ("step", folder / "o.onnx")):
        options = ConvertOptions(lower_training=True, optimizer=joined, verify=True)
        assert convert_command(folder / "t.onnx", folder / f"{name}.onnx", options) == 0
    return onnx.load(folder / "sum.onnx"), onnx.load(folder / "step.onnx")


def run(model, state):
    """Return the values that a run writes over its inputs, by name."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in session.get_outputs()]
    results = session.run(names, {value.name: state[value.name] for value in session.get_inputs()})
    return {n.removesuffix("_updated"): r for n, r in zip(names, results, strict=True) if n.endswith("_updated")}


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("named", ["", ', "w.buffer_updated"', ", total"])
def test_plain_descent(named, is_reset, tmp_path):
    training = TRAINING.replace('"w.out" = ', f'"w.out"{named} = ')
    _, step = convert_files(tmp_path, training, DESCENT)
    arrays = {"w": [1, 2, 3], "x": [4, 5, 6], "w.buffer": [7, 8, 9], "rate": [0.5]}
    state = {name: np.array(values, np.float32) for name, values in arrays.items()} | {"reset": np.array([is_reset])}
    outputs = [value.name for value in step.graph.output]
    total = "total" if named.endswith("total") else "w.buffer_updated"
    assert outputs == ["y", total, "w_updated"]
    results = dict(zip(outputs, onnx.reference.ReferenceEvaluator(step).run(None, state), strict=True))
    summed = -state["x"] + (0 if is_reset else state["w.buffer"])
    np.testing.assert_array_equal(results[total], summed)
    np.testing.assert_array_equal(results["w_updated"], state["w"] - 0.5 * summed)


def test_a_step_on_gradients_summed_over_several_runs(rng, tmp_path):
    """Two runs: the first starts new sums; the second adds to them and updates by the total."""
    adding, step = convert_files(tmp_path, TRAINING, ADAM)
    inputs = [value.name for value in step.graph.input]
    state = {name: rng.normal(size=3).astype(np.float32) for name in inputs if name.startswith("w")}
    state["w.second"] = np.abs(state["w.second"])
    state["rate"] = np.array([0.5], np.float32)
    weight, first, second = (state[name].astype(np.float64) for name in ("w", "w.first", "w.second"))
    for count in (1, 2):
        samples = rng.normal(size=(3, 3)).astype(np.float32)
        for number, (model, x) in enumerate(zip((adding, adding, step), samples, strict=True)):
            given = {"x": x, "reset": np.array([number == 0]), "count": np.array([count])}
            state |= run(model, state | given)
        gradient = -samples.sum(0, dtype=np.float64)
        first, second = 0.8 * first + 0.2 * gradient, 0.9 * second + 0.1 * gradient**2
        root = np.sqrt(second / (1 - 0.9**count)) + 1e-8
        weight = weight * (1 - 0.5 * 0.01) - 0.5 * first / (1 - 0.8**count) / root
        for name, expected in (("w.buffer", gradient), ("w.first", first), ("w.second", second), ("w", weight)):
            np.testing.assert_allclose(state[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("training", "optimizer", "words"),
    [
        (DESCENT, DESCENT, "sums no gradients of its inputs"),
        (TRAINING.replace("w_grad", "change"), DESCENT, "sums no gradients of its inputs"),
        (TRAINING, TRAINING, "got 3 nodes, expected the optimizer_model.onnx"),
        (TRAINING.replace("y", "rate"), DESCENT, "a value called 'rate' too"),
        (TRAINING.replace("y", "params"), DESCENT, "a value called 'params' too"),
        (TRAINING.replace("y", '"w.buffer_updated"'), DESCENT, "a value called 'w.buffer_updated' too"),
    ],
)
def test_other_graphs_are_refused(training, optimizer, words):
    with pytest.raises(UserError, match=words):
        training_step(parse(training), parse(optimizer), "t.onnx")


def test_an_optimizer_alone_is_refused(tmp_path):
    options = ConvertOptions(optimizer=tmp_path / "o.onnx")
    with pytest.raises(UserError, match="--optimizer: got no --lower-training"):
        convert_command(tmp_path / "t.onnx", tmp_path / "out.onnx", options)
