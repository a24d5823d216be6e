"""Test whole training steps of onnxruntime-training, see data/make_training_steps.py."""

import numpy as np
import onnx
import onnxruntime
import pytest
from make_training_steps import HERE, STEPS, feed, sample, stored
from onnx import helper

from opforge.frontend import convert
from opforge.frontend.io.load import load_model
from opforge.frontend.parsers.atc_types import is_registered
from opforge.frontend.run.execute import execute
from opforge.frontend.run.sample_inputs import sample_inputs
from opforge.frontend.run.verify import verify
from opforge.frontend.targets.check import check_model
from opforge.frontend.training.training_step import training_step


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_whole_step(name, is_reset):
    """Loss, sums of gradients, moments and weights equal those of onnxruntime-training, and ATC supports every node."""
    step = whole(name)
    conversion = convert(step, lower_training=True)
    model = conversion.model
    onnx.checker.check_model(model, full_check=True)
    assert not conversion.left
    versions = {entry.domain: entry.version for entry in model.opset_import}
    foreign = {node.op_type for node in model.graph.node if node.domain != "opforge"}
    assert not [key for key in foreign if not is_registered("", key, versions[""])]
    arrays = feed(step, is_reset=is_reset)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = {value.name: arrays[value.name] for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    results = dict(zip(names, session.run(None, given), strict=True))
    expected = stored(name, is_reset=is_reset)
    assert len(expected) == len(names)
    for key, numbers in expected.items():
        got = sample(results[names[0] if key == "loss" else f"{key}_updated"])
        np.testing.assert_allclose(got, numbers, rtol=1e-4, atol=1e-5 * max(np.abs(numbers).max(), 1), err_msg=key)


@pytest.mark.parametrize("name", STEPS)
def test_training_graph_without_other_nodes(name):
    """Values written over its buffers become outputs of the same type; the first one replaces the flag, if there is
    one."""
    training = onnx.load(HERE / f"{name}_training.onnx")
    conversion = convert(training, lower_training=True)
    types = {value.name: value.type for value in training.graph.input}
    flags = [value.name for value in training.graph.output][1:]
    buffers = [flag.removesuffix("out") + "buffer" for flag in flags]
    buffers += [name for name in types if name.endswith((".running_mean", ".running_var"))]
    (loss, *outputs) = conversion.model.graph.output
    assert loss == training.graph.output[0]
    assert [value.name for value in outputs] == [f"{name}_updated" for name in buffers]
    assert [value.type for value in outputs] == [types[name] for name in buffers]


@pytest.mark.parametrize("name", STEPS)
def test_the_numbers_can_be_verified(name):
    """Compares with the definitions of onnxruntime's nodes, on arrays whose results are all finite."""
    step = whole(name)
    conversion = convert(step, lower_training=True)
    comparisons = [entry for entry in verify(step, conversion) if not entry.op]
    assert {entry.output for entry in comparisons} == {value.name for value in conversion.model.graph.output}
    assert not [entry for entry in comparisons if not entry.same]
    kept = {value.name for value in conversion.model.graph.input}
    arrays = {key: array for key, array in sample_inputs(step, conversion).items() if key in kept}
    results = execute(conversion.model, arrays, operators="function")
    assert all(np.isfinite(array).all() for array in results.values())
    assert len(stored(name, is_reset=False)) == len(comparisons)


def whole(name):
    return training_step(*(onnx.load(HERE / f"{name}_{kind}.onnx") for kind in ("training", "optimizer")), name)


@pytest.mark.parametrize(
    "changes",
    [
        {"adam_mode": 0},
        {"correct_bias": 0},
        {"weight_decay": 0.3},
        {"weight_decay": 0.0},
        {"alpha": 0.5},
        {"epsilon": 0.1},
    ],
)
def test_every_setting_of_the_optimizer_is_compared(changes):
    """The step with other settings converts to the same numbers, which differ from those of the original settings."""
    step, changed = whole("conv"), whole("conv")
    original = {"adam_mode": 1, "alpha": 0.9, "beta": 0.999, "correct_bias": 1, "epsilon": 1e-6, "weight_decay": 0.2}
    for model, settings in ((step, original), (changed, original | changes)):
        node = model.graph.node[-1]
        assert node.op_type == "AdamWOptimizer"
        del node.attribute[:]
        node.attribute.extend(helper.make_attribute(key, value) for key, value in settings.items())
    assert all(entry.same for entry in verify(changed, convert(changed, lower_training=True)))
    assert not all(entry.same for entry in verify(changed, convert(step, lower_training=True)))


def test_plain_descent_is_compared():
    text = """(float[1] rate, float[3] a, float[3] b, float[2] c, float[2] d) => (bool[1] done)
        {w = SequenceConstruct (a, c) g = SequenceConstruct (b, d)
        done = com.microsoft.SGDOptimizerV2 (rate, w, g)}"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 15, "com.microsoft" : 1]> g {text}')
    conversion = convert(model, lower_training=True)
    comparisons = [entry for entry in verify(model, conversion) if not entry.op]
    assert {(entry.output, entry.same) for entry in comparisons} == {("a_updated", True), ("c_updated", True)}
    swapped = onnx.ModelProto.FromString(model.SerializeToString())
    swapped.graph.node[1].input[0] = "a"
    differing = {entry.output for entry in verify(swapped, conversion) if not entry.same}
    assert differing == {"a_updated"}


@pytest.mark.parametrize("name", STEPS)
def test_result_is_accepted_by_the_atc_check(name, tmp_path):
    step = whole(name)
    path = tmp_path / "step.onnx"
    onnx.save(convert(step, lower_training=True).model, path)
    findings = check_model(load_model(path), {})
    assert not [finding for finding in findings if finding.level == "error"]
