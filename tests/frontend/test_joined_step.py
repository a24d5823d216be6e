"""`--optimizer`: the graph of an optimizer behind a training graph."""

import numpy as np
import onnx
import pytest
from make_training_steps import HERE

from opforge.codegen.errors import UserError
from opforge.frontend.commands import ConvertOptions, convert_command
from opforge.frontend.training_step import training_step

TRAINING = """(float[3] w, float[3] x, float[3] "w.buffer", bool[1] reset) => (float[3] y, bool[1] "w.out") {
    y = Mul (w, x) w_grad = Neg (x) "w.out" = com.microsoft.InPlaceAccumulatorV2 ("w.buffer", w_grad, reset)}"""
DESCENT = """(float[1] rate, seq(float[M]) params, seq(float[M]) gradients) => (bool[1] done)
    {done = com.microsoft.SGDOptimizerV2 (rate, params, gradients)}"""


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]> g {text}')


@pytest.mark.parametrize("name", ["bert", "conv"])
def test_a_step_is_converted_from_the_files_as_they_were_written(name, tmp_path, capsys):
    files = [HERE / f"{name}_{kind}.onnx" for kind in ("training", "optimizer")]
    options = ConvertOptions(lower_training=True, optimizer=files[1])
    assert convert_command(files[0], tmp_path / "step.onnx", options) == 0
    assert " 0 left" in capsys.readouterr().out
    model = onnx.load(tmp_path / "step.onnx")
    assert {node.domain for node in model.graph.node} <= {"", "opforge"}
    outputs = {value.name for value in model.graph.output}
    gradients = [n.input[1] for n in onnx.load(files[0]).graph.node if n.op_type == "InPlaceAccumulatorV2"]
    wanted = {name.removesuffix("_grad") + suffix for name in gradients for suffix in ("", ".first", ".second")}
    assert {f"{name}_updated" for name in wanted} < outputs


def test_plain_descent(tmp_path):
    for name, text in (("t", TRAINING), ("o", DESCENT)):
        onnx.save(parse(text), tmp_path / f"{name}.onnx")
    options = ConvertOptions(lower_training=True, optimizer=tmp_path / "o.onnx", verify=True)
    assert convert_command(tmp_path / "t.onnx", tmp_path / "step.onnx", options) == 0
    arrays = {"w": [1, 2, 3], "x": [4, 5, 6], "w.buffer": [7, 8, 9], "rate": [0.5]}
    feed = {name: np.array(values, np.float32) for name, values in arrays.items()} | {"reset": np.array([False])}
    session = onnx.reference.ReferenceEvaluator(onnx.load(tmp_path / "step.onnx"))
    results = dict(zip(session.output_names, session.run(None, feed), strict=True))
    np.testing.assert_array_equal(results["w_updated"], [3, 4.5, 6])
    np.testing.assert_array_equal(results["w.buffer_updated"], [3, 3, 3])


@pytest.mark.parametrize(
    ("training", "optimizer", "words"),
    [
        (DESCENT, DESCENT, "sums no gradients of its inputs"),
        (TRAINING.replace("w_grad", "change"), DESCENT, "sums no gradients of its inputs"),
        (TRAINING, TRAINING, "got 3 nodes, expected the optimizer_model.onnx"),
        (TRAINING.replace("y", "rate"), DESCENT, "a value called 'rate' too"),
        (TRAINING.replace("y", "params"), DESCENT, "a value called 'params' too"),
    ],
)
def test_other_graphs_are_refused(training, optimizer, words):
    with pytest.raises(UserError, match=words):
        training_step(parse(training), parse(optimizer), "t.onnx")
