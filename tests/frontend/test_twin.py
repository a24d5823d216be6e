"""A model on the twin: the same numbers before and after conversion, and those of the formula."""

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.ir.operators import project_specs
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
    # onnx's evaluator sums halves in halves: of the source, only what the twin ran is as precise.
    for name in ["y", "w"] if dtype is np.float32 else ["y"]:
        np.testing.assert_allclose(before[name].astype(np.float32), formula[name], **tolerance(dtype))


def test_a_call_that_the_operator_refuses_names_node_and_status(rng):
    model = parse("g (float[T, 3] x) => (y) {[n] y = npu.NPUGroupedBiasAddGrad (x)}")
    with pytest.raises(UserError, match=r"'n' \(npu::NPUGroupedBiasAddGrad\).*161002"):
        execute(model, {"x": rng.normal(size=(6, 3)).astype(np.float32)})
