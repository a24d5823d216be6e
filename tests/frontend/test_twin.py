"""Test models on the twin: equal numbers before and after conversion, and those of the formula."""

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.operators import project_specs
from opforge.frontend.run.execute import execute, run_model

DTYPES = {"float": np.float32, "float16": np.float16, "bfloat16": bfloat16}


def tolerance(dtype):
    (spec,) = (spec for spec in project_specs() if spec.op_type == "GroupedBiasAddGrad")
    return spec.tests.tolerance[np.dtype(dtype).name].model_dump()


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {text}')


@pytest.mark.parametrize("word", DTYPES)
def test_the_numbers_are_those_of_the_formula_before_and_after(word, rng):
    source = parse(
        f"""g ({word}[T, 20] x, int32[G] i, {word}[3, 17, 20] z) => ({word}[G, 20] y, {word}[3, 20] w)
        <int64[1] a = {{1}}> {{y = npu.NPUGroupedBiasAddGrad (x, i) t = ReduceSum (z, a) w = Squeeze (t, a)}}"""
    )
    dtype = DTYPES[word]
    x, z = (rng.normal(size=shape).astype(dtype) for shape in ((50, 20), (3, 17, 20)))
    ends = np.array([7, 7, 31, 50], np.int32)
    feed = {"x": x, "i": ends, "z": z}
    converted = convert(source, patterns=True)
    assert len(converted.mapped) == 2
    result = run_model(converted.model, feed)
    assert len(result.reports) == 2
    assert all(report.gm_bytes_read > 0 for _, report in result.reports)
    wide = x.astype(np.float32)
    formula = {
        "y": np.stack([wide[start:end].sum(0) for start, end in zip([0, *ends[:-1]], ends, strict=True)]),
        "w": z.astype(np.float32).sum(1),
    }
    before = execute(source, feed)
    for name, expected in formula.items():
        assert result.outputs[name].dtype == dtype
        np.testing.assert_allclose(result.outputs[name].astype(np.float32), expected, **tolerance(dtype))
    # onnx's evaluator adds float16 in float16: of the source, only the results of the twin are as precise.
    for name in ["y", "w"] if dtype is np.float32 else ["y"]:
        np.testing.assert_allclose(before[name].astype(np.float32), formula[name], **tolerance(dtype))


def test_a_call_that_the_operator_refuses_names_node_and_status(rng):
    model = parse("g (float[T, 3] x) => (y) {[n] y = npu.NPUGroupedBiasAddGrad (x)}")
    with pytest.raises(UserError, match=r"'n' \(npu::NPUGroupedBiasAddGrad\).*161002"):
        execute(model, {"x": rng.normal(size=(6, 3)).astype(np.float32)})


def windows_of_equal_sequences(count, rows, wide, weight):
    """Return both gradients of windows of 32 rows, one every 16 rows."""
    begins = [begin for start in range(0, 320, 320 // count) for begin in range(start, start + 320 // count - 31, 16)]
    dx, dw = np.zeros(rows.shape), np.zeros(weight.shape)
    for begin, gradient in zip(begins, wide, strict=True):
        dx[begin : begin + 32] += weight[:, :, None] * gradient
        dw += (rows[begin : begin + 32] * gradient).sum(-1)
    return dx, dw


@pytest.mark.parametrize(("count", "windows"), [(1, 19), (2, 18)])
def test_equal_sequences_need_no_list(count, windows, rng):
    call = "npu.NPUNsaCompressGrad <compressBlockSize = 32, compressStride = 16, actSeqLenType = 0> (g, x, w)"
    types = f"(float16[{windows}, 2, 16] g, float16[320, 2, 16] x, float16[32, 2] w)"
    source = parse(f"g {types} => (float16[320, 2, 16] dx, float16[32, 2] dw) {{[n] dx, dw = {call}}}")
    shapes = {"g": (windows, 2, 16), "x": (320, 2, 16), "w": (32, 2)}
    feed = {name: rng.normal(size=shape).astype(np.float16) for name, shape in shapes.items()}
    wide = [feed[name].astype(np.float64) for name in ("x", "g", "w")]
    result = run_model(source, feed)
    assert len(result.reports) == 1
    expected = windows_of_equal_sequences(count, *wide)
    for name, right in zip(("dx", "dw"), expected, strict=True):
        np.testing.assert_allclose(result.outputs[name].astype(np.float64), right, rtol=1e-3, atol=1e-3)
    # The function of standard operators finds the same sequences.
    for name, right in zip(("dx", "dw"), expected, strict=True):
        got = execute(source, feed, operators="function")[name]
        np.testing.assert_allclose(got.astype(np.float64), right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("rows", "windows", "counts"), [(320, 17, []), (144, 6, [2, 3])])
def test_no_or_several_numbers_of_equal_sequences(rows, windows, counts, rng):
    call = "npu.NPUNsaCompressGrad <compressBlockSize = 32, compressStride = 16, actSeqLenType = 0> (g, x, w)"
    model = parse(f"g (float16[O, 2, 8] g, float16[T, 2, 8] x, float16[32, 2] w) => (dx, dw) {{[n] dx, dw = {call}}}")
    feed = {name: rng.normal(size=(size, 2, 8)).astype(np.float16) for name, size in (("g", windows), ("x", rows))}
    with pytest.raises(UserError) as caught:
        execute(model, feed | {"w": np.ones((32, 2), np.float16)})
    assert "161002" in str(caught.value)
    assert f"the fitting numbers are {counts}" in str(caught.value)
