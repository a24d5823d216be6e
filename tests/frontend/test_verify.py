"""`opforge convert --verify`."""

import json

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from opforge.codegen.cli import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert, source_operators
from opforge.frontend.execute import execute
from opforge.frontend.load import load_model
from opforge.frontend.verify import sample_inputs, verify, verify_within


def parse(text):
    imports = '"" : 18, "npu" : 1, "com.microsoft" : 1'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")


GATHER = """(float[7, 5] W, int64[N] i, float[N, 5] h) => (float[7, 5] y)
    {s = Shape (W) g = Neg (h) y = com.microsoft.GatherGrad (s, i, g)}"""


def opforge(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_inputs_are_what_the_operators_take():
    model = parse(
        "(float[9, 3] x, int32[2, 2] j, int64[4] e, float[2, 2, 5] g) => (float[4, 3] y, float[50, 5] z) {"
        "y = npu.NPUGroupedBiasAddGrad (x, e) i = Cast <to = 7> (j)"
        " z = npu.NPUEmbeddingDenseGrad <num_weights = 50> (g, i)}"
    )
    conversion = convert(model)
    arrays = sample_inputs(model, conversion)
    assert arrays["j"].dtype == np.int32
    assert arrays["j"].max() > 1
    assert arrays["e"][-1] == 9
    assert (np.diff(arrays["e"]) >= 0).all()
    assert all(comparison.same for comparison in verify(model, conversion))


def test_the_errors_are_printed_and_written(tmp_path):
    onnx.save(parse(GATHER), tmp_path / "m.onnx")
    options = ("--verify", "--json", tmp_path / "r.json", "--report", tmp_path / "r.html")
    result = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *options)
    assert result.exit_code == 0, result.output
    (entry,) = json.loads((tmp_path / "r.json").read_text())["verified"]
    assert (entry["output"], entry["same"]) == ("y", True)
    assert entry["error"] <= 1e-4
    page = (tmp_path / "r.html").read_text()
    assert "EmbeddingDenseBackward" in page
    assert "<script" not in page


def test_a_difference_is_exit_code_1_and_nothing_is_written(tmp_path, monkeypatch):
    wrong = {("com.microsoft", "GatherGrad"): lambda shape, _indices, dy: (np.ones(shape, dy.dtype),)}
    monkeypatch.setattr(source_operators, "_OTHERS", wrong)
    onnx.save(parse(GATHER), tmp_path / "m.onnx")
    result = opforge(
        "convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--verify", "--json", tmp_path / "r.json"
    )
    assert result.exit_code == 1
    assert "DIFFERS" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx"]


@pytest.mark.parametrize(
    ("change", "same"), [(0.0, True), (np.nan, False), (np.inf, False), (1e-7, True), (1e-2, False)]
)
def test_only_numbers_within_tolerance_are_the_same(change, same, monkeypatch):
    from opforge.frontend import verify as module

    values = np.array([1.0, 2.0, np.inf, np.nan], np.float32)
    model = parse("(float[4] x) => (float[4] y) {y = Relu (x)}")
    conversion = convert(model)
    results = iter([values, values + np.array([0, change, 0, 0], np.float32)])
    monkeypatch.setattr(module, "execute", lambda *_, **__: {"y": next(results)})
    (comparison,) = verify(model, conversion)
    assert comparison.same == same


@pytest.mark.parametrize(
    ("dims", "problem"),
    [([1 << 40, 1 << 30], f"got {1 << 70} elements, expected at most"), ([1] * 70, "no array can have its shape")],
)
def test_an_input_of_which_there_is_no_array_is_one_line(tmp_path, dims, problem):
    model = parse(GATHER)
    model.graph.input.append(onnx.helper.make_tensor_value_info("big", 1, dims))
    onnx.save(model, tmp_path / "m.onnx")
    result = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--verify")
    assert isinstance(result.exception, UserError)
    assert f"input 'big': {problem}" in str(result.exception)


def test_a_loop_without_end_is_one_line(tmp_path):
    loop = """(int64 m, bool c, float[2] x) => (float[2] y) {y = Loop (m, c, x) <body = b (int64 i, bool k, float[2] v)
        => (bool k2, float[2] w) {k2 = Identity (k) w = Identity (v)}>}"""
    with pytest.raises(UserError, match="Loop of 4611686018427387904 turns"):
        execute(parse(loop), {"m": np.array(1 << 62), "c": np.array(True), "x": np.ones(2, np.float32)})


def test_a_model_that_cannot_be_run_is_named(tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 18, "d" : 1]> g (float[2] x) => (y) {y = d.Foo (x)}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    source = load_model(tmp_path / "m.onnx")
    with pytest.raises(UserError, match=f"{tmp_path / 'm.onnx'}: cannot be executed to compare: .*Foo"):
        verify_within(source, convert(source))
