"""Test the corrections of onnx's reference evaluator."""

import numpy as np
import onnx
import onnxruntime
import pytest

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.io.load import SourceModel
from opforge.frontend.run.execute import execute
from opforge.frontend.run.verify import verify_within

POOL = "(float[2, 3, {0}, {0}] x) => (float[a, b, c, d] y, int64[a, b, c, d] i) {{y, i = MaxPool <{1}> (x)}}"


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {text}')


@pytest.mark.parametrize(
    "text",
    [
        POOL.format(7, "kernel_shape = [2, 2]"),
        POOL.format(7, "kernel_shape = [3, 3], pads = [1, 1, 1, 1]"),
        POOL.format(6, "kernel_shape = [3, 3], pads = [1, 1, 1, 1], ceil_mode = 1"),
        POOL.format(7, "kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1"),
        POOL.format(9, "kernel_shape = [2, 3], strides = [2, 1], dilations = [2, 1]"),
        """(float[2, 6, 5] x, float[6, 4, 3] w, float[8] b) => (float[a, b, c] y)
        {y = ConvTranspose <group = 2, strides = [2], pads = [1, 0], output_padding = [1]> (x, w, b)}""",
        "(float[2, 4, 7, 7] x, float[8, 2, 3, 3] w) => (float[a, b, c, d] y) {y = Conv <group = 2> (x, w)}",
    ],
)
def test_windows_are_those_of_onnxruntime(text, rng):
    model = parse(text)
    arrays = {
        value.name: rng.normal(size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = execute(model, arrays)
    for value, expected in zip(model.graph.output, session.run(None, arrays), strict=True):
        np.testing.assert_allclose(given[value.name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y = Neg (x) [sum] z = Add (x, k)", r"node 'sum' \(Add\): ValueError: .*broadcast"),
        ("y = Neg (x) z = Reshape (x, s)", r"node 'z' \(Reshape\): ValueError: "),
        (
            """t = Greater (r, r) z = If (t) <then_branch = a () => (p) {p = Neg (x)},
            else_branch = b () => (p) {[inner] p = Add (x, k)}>""",
            r"node 'inner' \(Add\): ValueError",
        ),
    ],
)
def test_errors_name_the_node(text, message):
    model = parse(f"(float[2] x, float[3] k, float r) => (z) <int64[1] s = {{5}}> {{{text}}}")
    arrays = {"x": np.ones(2, np.float32), "k": np.ones(3, np.float32), "r": np.float32(1)}
    with pytest.raises(UserError, match=message) as caught:
        execute(model, arrays)
    assert "\n" not in str(caught.value)


def test_sizes_that_were_made_up_are_said(tmp_path):
    model = parse("(float[N] x, float[3] k) => (z) {z = Add (x, k)}")
    source = SourceModel(tmp_path / "m.onnx", b"", model)
    with pytest.raises(UserError, match=r"node 'z' \(Add\).*the unknown dims \('N'\) were set to 4"):
        verify_within(source, convert(model))
