"""Whole training steps of onnxruntime-training, see data/make_training_steps.py."""

import numpy as np
import onnx
import onnxruntime
import pytest
from make_training_steps import HERE, STEPS, feed, joined, sample

from opforge.frontend import convert
from opforge.frontend.atc_types import is_registered
from opforge.frontend.check import check_model
from opforge.frontend.load import load_model
from opforge.frontend.verify import verify


@pytest.mark.parametrize("name", STEPS)
def test_a_whole_step(name):
    """Loss, gradients, moments and weights are those of onnxruntime-training, and ATC knows every node."""
    step = joined(*(onnx.load(HERE / f"{name}_{kind}.onnx") for kind in ("training", "optimizer")))
    conversion = convert(step, lower_training=True)
    model = conversion.model
    onnx.checker.check_model(model, full_check=True)
    assert not conversion.left
    versions = {entry.domain: entry.version for entry in model.opset_import}
    foreign = {node.op_type for node in model.graph.node if node.domain != "opforge"}
    assert not [key for key in foreign if not is_registered("", key, versions[""])]
    arrays = feed(step)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = {value.name: arrays[value.name] for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    results = dict(zip(names, session.run(None, given), strict=True))
    wanted = np.load(HERE / f"{name}_step.npz")
    assert len(wanted.files) == len(names)
    for key in wanted.files:
        buffer = f"{key}.accumulation.buffer"
        result = results[names[0] if key == "loss" else f"{buffer if buffer in arrays else key}_updated"]
        got = result - arrays[buffer] if buffer in arrays else result
        scale = np.abs(wanted[key]).max()
        np.testing.assert_allclose(sample(got), wanted[key], rtol=1e-4, atol=1e-5 * max(scale, 1), err_msg=key)


@pytest.mark.parametrize("name", STEPS)
def test_the_training_graph_alone(name):
    """What it writes over its buffers becomes an output of the same type, in the place of the flag."""
    training = onnx.load(HERE / f"{name}_training.onnx")
    conversion = convert(training, lower_training=True)
    types = {value.name: value.type for value in training.graph.input}
    flags = [value.name for value in training.graph.output][1:]
    buffers = [flag.removesuffix("out") + "buffer" for flag in flags]
    (loss, *outputs) = conversion.model.graph.output
    assert loss == training.graph.output[0]
    assert [value.name for value in outputs] == [f"{name}_updated" for name in buffers]
    assert [value.type for value in outputs] == [types[name] for name in buffers]


@pytest.mark.parametrize("name", STEPS)
def test_the_numbers_can_be_verified(name):
    """Against the definitions of onnxruntime's nodes, sums of gradients included."""
    training = onnx.load(HERE / f"{name}_training.onnx")
    comparisons = verify(training, convert(training, lower_training=True))
    assert len(comparisons) == len(training.graph.output)
    assert not [entry for entry in comparisons if not entry.same]


@pytest.mark.parametrize("name", STEPS)
def test_atc_would_take_it(name, tmp_path):
    step = joined(*(onnx.load(HERE / f"{name}_{kind}.onnx") for kind in ("training", "optimizer")))
    path = tmp_path / "step.onnx"
    onnx.save(convert(step, lower_training=True).model, path)
    findings = check_model(load_model(path), {})
    assert not [finding for finding in findings if finding.level == "error"]
