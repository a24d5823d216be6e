"""Test `opforge convert --verify`."""

import dataclasses
import json
import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from typer.testing import CliRunner
from web_page import WebPage

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.io.load import load_model
from opforge.frontend.run.execute import Execution, execute, run_model
from opforge.frontend.run.sample_inputs import sample_inputs
from opforge.frontend.run.verify import verify, verify_within
from opforge.frontend.training.gradient_reference import REFERENCE


def parse(text):
    imports = '"" : 18, "npu" : 1, "com.microsoft" : 1'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")


GATHER = """(float[7, 5] W, int64[N] i, float[N, 5] h) => (float[7, 5] y)
    {s = Shape (W) g = Neg (h) y = com.microsoft.GatherGrad (s, i, g)}"""


def opforge(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_generated_inputs_satisfy_the_operators():
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
    options = ("--verify", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    result = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *options)
    assert result.exit_code == 0, result.output
    (entry,) = json.loads((tmp_path / "r.json").read_text())["verified"]
    assert (entry["output"], entry["same"]) == ("y", True)
    assert entry["error"] <= 1e-4
    page = (tmp_path / "r.html").read_text()
    assert "EmbeddingDenseBackward" in page
    assert "<script" not in page


@pytest.mark.parametrize("out", ["o.onnx", "o.air"])
@pytest.mark.parametrize("wrong", [1.0, np.nan])
def test_a_difference_is_exit_code_1_and_only_reports_are_written(out, wrong, tmp_path, monkeypatch):
    def definition(shape, _indices, dy):
        return (np.full(shape, wrong, dy.dtype),)

    monkeypatch.setitem(REFERENCE, ("com.microsoft", "GatherGrad"), definition)
    onnx.save(parse(GATHER.replace("=> (", "=> (float[7, 5] a, ").replace("{", "{a = Neg (W) ")), tmp_path / "m.onnx")
    (tmp_path / out).write_text("earlier")
    command = ("convert", tmp_path / "m.onnx", "-o", tmp_path / out, "--verify")
    for options in ((), ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")):
        result = opforge(*command, *options)
        assert result.exit_code == 1
        assert "DIFFERS" in result.output
        assert "outputs that differ: 1 of 2; no model was written" in result.output
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {"m.onnx", out, *(path.name for path in options[1::2])}
    assert (tmp_path / out).read_text() == "earlier"
    assert f"report: {tmp_path}/r.html" in result.output
    first, second = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)["verified"]
    assert (first["output"], first["same"]) == ("y", False)
    assert (first["error"] is None) == np.isnan(wrong)
    assert (second["output"], second["same"]) == ("a", True)
    text = (tmp_path / "r.html").read_text()
    page = WebPage(text)
    assert page.open == []
    assert "Outputs that differ: 1 of 2. No model was written. y" in " ".join(page.text.split())
    assert "none written" in page.text
    assert "equal within the tolerance: 1" in page.text
    (marked,) = re.findall(r'<div class="bad">(.*?)</div>', text, re.DOTALL)
    assert [name for name in "ay" if f'<td class="">{name}</td>' in marked] == ["y"]
    assert '<svg class="picture"' in text


def compared(monkeypatch, before, after):
    """Compare an output with the value `before` and the value `after` the conversion."""
    from opforge.frontend.run import verify as module

    word = {"float32": "float", "float64": "double"}.get(before.dtype.name, before.dtype.name)
    model = parse(f"({word}{list(before.shape)} x) => ({word}{list(before.shape)} y) {{y = Identity (x)}}")
    monkeypatch.setattr(module, "sample_inputs", lambda *_: {"x": before})
    results = {"before": run_model, "after": lambda *_, **__: Execution({"y": after}, [])}
    monkeypatch.setattr(module, "run_model", lambda *given, what, **more: results[what](*given, **more))
    (comparison,) = verify(model, convert(model))
    return comparison


@pytest.mark.parametrize(
    ("change", "same"), [(0.0, True), (np.nan, False), (np.inf, False), (1e-7, True), (1e-2, False)]
)
def test_only_numbers_within_tolerance_are_the_same(change, same, monkeypatch):
    values = np.array([1.0, 2.0, np.inf, np.nan], np.float32)
    comparison = compared(monkeypatch, values, values + np.array([0, change, 0, 0], np.float32))
    assert comparison.same == same
    assert comparison.note == "2 of 4 elements are equal and not finite"


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float32, np.float64])
def test_tolerance_depends_on_the_type_and_the_typical_value(dtype, monkeypatch, rng):
    before = rng.choice([-40.0, 30.0], 100).astype(dtype)
    before[0] = 0.5
    eps = float(ml_dtypes.finfo(dtype).eps)
    for roundings, same in ((2, True), (300, False)):
        # The rounding of a sum with cancellation is that of its terms.
        after = before.copy()
        after[0] += dtype(30 * roundings * eps)
        assert compared(monkeypatch, before, after).same is same
    # One large value, as in masks, does not increase the tolerance of other values.
    before[1], after = -1e4, before.copy()
    after[1] = before[1]
    after[0] = dtype(0.5 + 30 * 300 * eps)
    assert compared(monkeypatch, before, after).same is False


def test_result_is_compared_with_the_tolerance_of_its_narrow_inputs():
    text = "(float16[9] x) => (float[9] y) {{{} }}"
    source = parse(text.format("h = Mul (x, x) y = Cast <to = 1> (h)"))
    wide = parse(text.format("h = Cast <to = 1> (x) y = Mul (h, h)"))
    (entry,) = verify(source, dataclasses.replace(convert(source), model=wide))
    assert entry.same
    assert 1e-5 < entry.error < entry.allowed


def test_outputs_without_finite_elements_are_not_compared(tmp_path):
    model = parse(GATHER.replace("=> (", "=> (float[7, 5] a, ").replace("{", "{a = Add (W, k) "))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(np.inf), "k"))
    onnx.save(model, tmp_path / "m.onnx")
    options = ("--verify", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    result = opforge("convert", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *options)
    assert result.exit_code == 0, result.output
    assert "not compared: no finite elements" in " ".join(result.output.split())
    assert "outputs not compared (no finite elements): 1 of 2" in result.output
    first, second = json.loads((tmp_path / "r.json").read_text())["verified"]
    assert (first["output"], first["same"], first["note"]) == ("a", None, "no finite elements")
    assert (second["output"], second["same"], second["note"]) == ("y", True, "")
    assert "not compared: no finite elements" in (tmp_path / "r.html").read_text()


def test_generated_weights_preserve_the_scale_of_activations():
    model = parse(
        """(float[8, 400] x, float[10, 400] w, float[400, 90] v, float[2, 8, 9, 9] i, float[4, 8, 5, 5] k)
        => (float[8, 10] y, float[8, 90] z, float[2, 4, 5, 5] c)
        {t = Transpose (w) y = MatMul (x, t) z = Gemm (x, v) c = Conv (i, k)}"""
    )
    conversion = convert(model)
    arrays = sample_inputs(model, conversion)
    assert arrays["x"].std() == pytest.approx(1, rel=0.1)
    for array in execute(model, arrays).values():
        assert 0.7 < array.std() < 1.4


@pytest.mark.parametrize(
    ("dims", "problem"),
    [([1 << 40, 1 << 30], f"got {1 << 70} elements, expected at most"), ([1] * 70, "got the shape [1, 1, 1,")],
)
def test_missing_input_array_is_one_line(tmp_path, dims, problem):
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
    with pytest.raises(UserError, match=f"{tmp_path / 'm.onnx'}: cannot compare the models: .*Foo"):
        verify_within(source, convert(source))


def test_random_nodes_give_equal_values_before_and_after():
    model = parse(
        """(float[90] x, float r, bool t) => (float[90] y, float[90] z)
        {n = Neg (x) y = Dropout (n, r, t) z = RandomNormalLike (x)}"""
    )
    assert all(entry.same for entry in verify(model, convert(model)))
    arrays = {"x": np.ones(90, np.float32), "r": np.float32(0.5), "t": np.array(True)}
    first, second = execute(model, arrays), execute(model, arrays)
    assert 20 < (first["y"] == 0).sum() < 70
    assert first["z"].std() > 0.5
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
