"""Gradient nodes of onnxruntime, with `--lower-training`."""

import numpy as np
import onnx
import pytest

from opforge.frontend import convert
from opforge.frontend.execute import execute


def parse(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g {text}')


def same(model, feed):
    """Convert; the result has nothing foreign and computes what the source does."""
    conversion = convert(model, lower_training=True)
    assert {node.domain for node in conversion.model.graph.node} == {"", "opforge"}
    onnx.checker.check_model(conversion.model, full_check=True)
    expected = execute(model, feed, operators="function")
    got = onnx.reference.ReferenceEvaluator(conversion.model).run(None, feed)
    for name, array in zip(expected, got, strict=True):
        assert array.dtype == expected[name].dtype
        np.testing.assert_allclose(array, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
    return conversion


def reason(model, words):
    conversion = convert(model, lower_training=True)
    assert not conversion.changed
    (left,) = conversion.left
    assert words in left.reason


BATCH_NORM = "(float[3, 5, 2] g, float[3, 5, 2] x, float[5] w, float[5] m, float[5] s) => ({})"


@pytest.fixture
def batch_norm_feed(rng):
    feed = {name: rng.normal(size=(3, 5, 2)).astype(np.float32) for name in "gx"}
    return feed | {name: rng.uniform(0.5, 2, 5).astype(np.float32) for name in "wms"}


@pytest.mark.parametrize("opset", [12, 15, 18])
@pytest.mark.parametrize(
    ("declared", "outputs"),
    [
        ("float[3, 5, 2] dx, float[5] ds, float[5] db", "dx, ds, db"),
        ("float[3, 5, 2] dx, float[5] db", 'dx, "", db'),
        ("float[3, 5, 2] dx", "dx"),
    ],
)
def test_batch_norm(declared, outputs, opset, batch_norm_feed):
    text = f"{BATCH_NORM.format(declared)} {{{outputs} = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}}"
    (entry,) = same(parse(text, opset), batch_norm_feed).mapped
    assert (entry.op, entry.rule) == ("BatchNormElemtBackward", "LowerBatchNormalizationGrad")


def test_unasked_it_is_only_mentioned():
    model = parse(BATCH_NORM.format("dx") + " {dx = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}")
    (left,) = convert(model).left
    assert "--lower-training" in left.reason


@pytest.mark.parametrize(("change", "words"), [("float16[", "float32"), ("float[N, ", "known shape")])
def test_batch_norm_is_left(change, words):
    text = BATCH_NORM.format("dx") + " {dx = com.microsoft.BatchNormalizationGrad (g, x, w, m, s)}"
    text = text.replace("float[", change) if change == "float16[" else text.replace("float[3, ", change)
    reason(parse(text), words)


CONV = """(float[6, 2, 4] g, float[6, 2, 3] x, float[3, 3, 4] w)
    => (float[6, 2, 3] dx, float[3, 3, 4] dw, float[4] db) {{
    gc = Transpose <perm = [1, 2, 0]> (g) xc = Transpose <perm = {x}> (x) wc = Transpose <perm = [2, 1, 0]> (w)
    dxc, dwc, db = com.microsoft.ConvGrad
        <kernel_shape = [3], pads = {pads}, strides = {strides}, group = 1> (gc, xc, wc)
    dx = Transpose <perm = [2, 0, 1]> ({dx}) dw = Transpose <perm = [2, 1, 0]> (dwc)}}"""
FORM = {"x": "[1, 2, 0]", "pads": "[1, 1]", "strides": "[1]", "dx": "dxc"}


def test_conv(rng):
    shapes = {"g": (6, 2, 4), "x": (6, 2, 3), "w": (3, 3, 4)}
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    conversion = same(parse(CONV.format(**FORM)), feed)
    assert [node.op_type for node in conversion.model.graph.node] == ["Constant", "ConvTbcBackward"]
    assert conversion.mapped[0].attrs["pad"] == 1


def test_a_transpose_that_others_read_stays(rng):
    model = parse(
        CONV.format(**FORM).replace("db) {", "db, float[2, 4, 6] r) {").replace("(dwc)}", "(dwc) r = Relu (gc)}")
    )
    shapes = {"g": (6, 2, 4), "x": (6, 2, 3), "w": (3, 3, 4)}
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    conversion = convert(model, lower_training=True)
    assert sorted(n.op_type for n in conversion.model.graph.node) == [
        "Constant",
        "ConvTbcBackward",
        "Relu",
        "Transpose",
    ]
    expected = execute(model, feed, operators="function")
    np.testing.assert_allclose(
        execute(conversion.model, feed, operators="function")["dw"], expected["dw"], rtol=1e-4, atol=1e-5
    )


def test_a_first_layer_needs_no_gradient_of_its_input():
    text = CONV.format(**FORM).replace("dxc, dwc", '"", dwc').replace("dx = Transpose <perm = [2, 0, 1]> (dxc)", "")
    conversion = convert(parse(text.replace("float[6, 2, 3] dx, ", "")), lower_training=True)
    assert conversion.mapped[0].outputs == ["dw", "db"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": "[1, 0, 2]"}, "perm [1, 2, 0]"),
        ({"pads": "[1, 2]"}, "pads [1, 2]"),
        ({"strides": "[2]"}, "strides [2]"),
        ({"dx": "xc"}, "'dxc' does not go to one Transpose"),
    ],
)
def test_conv_is_left(change, words):
    reason(parse(CONV.format(**(FORM | change))), words)
