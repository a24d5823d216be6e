"""Test embedding gradients as scatters, with `--patterns`: the form of PyTorch's exporter, and near misses."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from opforge.frontend import convert
from opforge.frontend.run.execute import execute

# Hand-written version of the exported aten.embedding_dense_backward.
PLAIN = """ge = GreaterOrEqual (i, n0) lt = Less (i, n7) a = And (ge, lt) e = Equal (i, n2) ne = Not (e) m = And (a, ne)
    u = Unsqueeze (m, last) z = ConstantOfShape (dims) c = Clip (i, low, high) k = Not (u) v = Where (k, zero, {grad})
    j = Unsqueeze (c, last) y = ScatterND <reduction = "add"> (z, j, v)"""
COUNTS = """cz = ConstantOfShape <value = int64[1] {{0}}> (d7) ca = Clip (i, low, high) cj = Unsqueeze (ca, last)
    cge = GreaterOrEqual (i, n0) clt = Less (i, n7) cm = And (cge, clt) ck = Not (cm) cv = Where (ck, n0, ones)
    cs = ScatterND <reduction = "add"> (cz, cj, cv) cc = Clip (i, n0, high) cp = Unsqueeze (cc, last)
    cg = GatherND <batch_dims = 0> (cs, cp) cw = Where (ck, n1, cg) cu = Unsqueeze (cw, last) cf = Cast <to = 1> (cu)
    d = Div (g, cf) """
VALUES = {
    "n0": 0,
    "n1": 1,
    "n2": 2,
    "n7": 7,
    "low": -7,
    "high": 6,
    "last": [-1],
    "dims": [7, 5],
    "d7": [7],
    "ones": np.ones((4, 3), np.int64),
    "zero": np.float32(0),
}
HEAD = "g (float[4, 3, 5] g, int64[4, 3] i) => (float[7, 5] y)"


def parse(body, head=HEAD, opset=18, **changes):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {head} {{{body}}}')
    read = {name for node in model.graph.node for name in node.input}
    values = {name: np.array(value) for name, value in (VALUES | changes).items() if name in read}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    onnx.checker.check_model(model)
    return model


def the_result(model, feed):
    conversion = convert(model, patterns=True)
    (entry,) = conversion.mapped
    assert entry.rule == "FuseScatterAdd"
    (expected,) = execute(model, feed, operators="function").values()
    (got,) = onnxruntime.InferenceSession(conversion.model.SerializeToString()).run(None, feed)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    return conversion


@pytest.fixture
def feed(rng):
    return {"g": rng.normal(size=(4, 3, 5)).astype(np.float32), "i": rng.integers(0, 7, (4, 3))}


def scaled(text):
    # The second scatter uses the indices of the first one.
    return COUNTS.format() + text.replace("c = Clip (i, low, high)", "").replace("j = Unsqueeze (c, last)", "").replace(
        "(z, j, v)", "(z, cj, v)"
    )


def test_the_decomposition_of_pytorch(feed):
    conversion = the_result(parse(PLAIN.format(grad="g")), feed)
    assert conversion.mapped[0].attrs == {"num_weights": 7, "padding_idx": 2, "scale_grad_by_freq": False}
    assert [node.op_type for node in conversion.model.graph.node] == ["EmbeddingDenseBackward"]
    assert not conversion.model.graph.initializer


def test_with_scaling_by_frequency(feed):
    conversion = the_result(parse(scaled(PLAIN.format(grad="d"))), feed)
    assert conversion.mapped[0].attrs["scale_grad_by_freq"] is True
    assert [node.op_type for node in conversion.model.graph.node] == ["EmbeddingDenseBackward"]


def test_indices_out_of_the_table_are_masked(feed):
    feed["i"][0, 0], feed["i"][1, 2] = -3, 9
    the_result(parse(PLAIN.format(grad="g")), feed)


@pytest.mark.parametrize("ones", [2, 1 - np.eye(4, 3, dtype=np.int64)])
def test_other_division_is_kept_before_the_operator(ones, feed):
    counts = np.full((4, 3), ones) if isinstance(ones, int) else ones
    feed["i"] = np.repeat(np.arange(4)[:, None], 3, 1)
    conversion = the_result(parse(scaled(PLAIN.format(grad="d")), ones=counts), feed)
    assert conversion.mapped[0].attrs["scale_grad_by_freq"] is False
    assert "Div" in [node.op_type for node in conversion.model.graph.node]


def test_mask_with_other_consumers_is_kept(feed):
    head = HEAD.replace("y)", "y, bool[4, 3] r)")
    model = parse(PLAIN.format(grad="g") + " r = Not (m)", head)
    conversion = convert(model, patterns=True)
    kinds = [node.op_type for node in conversion.model.graph.node]
    kinds = sorted(node.op_type for node in conversion.model.graph.node)
    assert kinds == ["And", "And", "EmbeddingDenseBackward", "Equal", "GreaterOrEqual", "Less", "Not", "Not"]
    onnx.checker.check_model(conversion.model)


def test_a_bare_scatter(feed):
    text = 'z = ConstantOfShape (dims) j = Unsqueeze (i, last) y = ScatterND <reduction = "add"> (z, j, g)'
    assert the_result(parse(text), feed).mapped[0].attrs["padding_idx"] == -1
    assert "--patterns" in convert(parse(text)).left[0].reason


@pytest.mark.parametrize("axes", [[1], [-1]])
def test_scatter_elements(axes, rng):
    text = 'w = Unsqueeze (i, axes) j = Expand (w, size) y = ScatterElements <reduction = "add"> (table, j, g)'
    head = "g (float[6, 5] g, int64[6] i) => (float[7, 5] y)"
    model = parse(text, head, axes=axes, size=[6, 5], table=np.zeros((7, 5), np.float32))
    the_result(model, {"g": rng.normal(size=(6, 5)).astype(np.float32), "i": rng.integers(0, 7, 6)})


BARE = 'z = ConstantOfShape (dims) j = Unsqueeze (i, last) y = ScatterND <reduction = "add"> (z, j, g)'


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (BARE.replace('"add"', '"mul"'), {}, "'mul'"),
        (BARE.replace('<reduction = "add"> ', ""), {}, "'none', expected add"),
        (BARE.replace("(z, j", "(t, j"), {"t": np.ones((7, 5), np.float32)}, "not known to be zero"),
        (BARE.replace("Shape (dims)", "Shape <value = float[1] {1}> (dims)"), {}, "not zero"),
        (PLAIN.format(grad="g"), {"n7": 6}, "from 6 on, expected 7"),
        (PLAIN.format(grad="g"), {"n0": 1}, "GreaterOrEqual 1"),
        (PLAIN.format(grad="g"), {"zero": np.float32(1)}, "expected 0"),
        (
            PLAIN.format(grad="g").replace("Equal (i, n2)", "Equal (o, n2)"),
            {"o": np.ones((4, 3), np.int64)},
            "masks by 'o' and",
        ),
        (
            PLAIN.format(grad="g").replace("e = Equal (i, n2) ne = Not (e)", "ne = Equal (i, n2)"),
            {},
            "has a mask 'ne', expected",
        ),
        (PLAIN.format(grad="g").replace("v = Where (k, zero, g)", "v = Neg (g)"), {}, "from None on"),
        (PLAIN.format(grad="g"), {"high": 3}, "clips indices to -7 to 3, expected all rows from 0 to 6"),
        (PLAIN.format(grad="g"), {"low": 1}, "clips indices to 1 to 6"),
        (PLAIN.format(grad="g").replace("k = Not (u)", "k = Identity (u)"), {}, "has a mask 'k', expected"),
    ],
)
def test_near_misses_are_not_mapped(text, changes, words):
    model = parse(text, **changes)
    conversion = convert(model, patterns=True)
    assert not conversion.changed
    reasons = [left.reason for left in conversion.left]
    assert any(words in reason for reason in reasons), reasons


SQUARE = "g (float[5, 5] g, int64[5] i) => (float[7, 5] y)"


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("u = Unsqueeze (m, first) k = Not (u)", "float32 [5, 5], by 'k', which is bool [1, 5]"),
        ("k = Not (m)", "float32 [5, 5], by 'k', which is bool [5]; expected one condition for each row"),
    ],
)
def test_a_mask_of_columns_is_not_mapped(mask, words):
    text = PLAIN.format(grad="g").replace("u = Unsqueeze (m, last)", "").replace("k = Not (u)", mask)
    conversion = convert(parse(text, SQUARE, first=[0]), patterns=True)
    assert not conversion.changed
    assert words in conversion.left[0].reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cu = Unsqueeze (cw, last)", "cu = Unsqueeze (cw, first)"),
        ("cf = Cast <to = 1> (cu)", "cb = Cast <to = 9> (cu) cf = Cast <to = 1> (cb)"),
        ("cge = GreaterOrEqual (i, n0)", "ce = Equal (i, n1) cge = Not (ce)"),
        ("cc = Clip (i, n0, high)", "cc = Clip (i, n0, n1)"),
    ],
)
def test_other_scales_are_not_scale_grad_by_freq(old, new, rng):
    text = scaled(PLAIN.format(grad="d"))
    assert old in text
    model = parse(text.replace(old, new), SQUARE, ones=np.ones(5, np.int64), first=[0])
    feed = {"g": rng.normal(size=(5, 5)).astype(np.float32), "i": np.array([1, 4, 4, 1, 1])}
    assert the_result(model, feed).mapped[0].attrs["scale_grad_by_freq"] is False


@pytest.mark.parametrize(
    "mask",
    [
        "e = Equal (i, n2) u = Unsqueeze (e, last) v = Where (u, zero, g)",
        "e = Equal (i, n2) u = Unsqueeze (e, last) k = Not (u) v = Where (k, g, zero)",
        (
            "e = Equal (i, n2) l = Less (i, n0) b = GreaterOrEqual (i, n7) o = Or (e, l) m = Or (o, b)"
            " u = Unsqueeze (m, last) v = Where (u, zero, g)"
        ),
    ],
)
def test_masks_become_padding_idx(mask, feed):
    text = f'{mask} z = ConstantOfShape (dims) j = Unsqueeze (i, last) y = ScatterND <reduction = "add"> (z, j, v)'
    conversion = the_result(parse(text), feed)
    assert conversion.mapped[0].attrs["padding_idx"] == 2
    assert [node.op_type for node in conversion.model.graph.node] == ["EmbeddingDenseBackward"]


def test_a_mask_without_axes_is_not_mapped():
    text = (
        'e = Equal (i, n2) v = Where (e, zero, g) j = Unsqueeze (i, last) y = ScatterND <reduction = "add"> (z, j, v)'
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g (float g, int64 i, float[7, 5] z) => (y) {{{text}}}'
    )
    values = {name: np.array(VALUES[name]) for name in ("n2", "zero", "last")} | {"t": np.zeros((7, 5), np.float32)}
    model.graph.node[-1].input[0] = "t"
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    conversion = convert(model, patterns=True)
    assert "expected one condition for each row" in conversion.left[0].reason


@pytest.mark.parametrize("columns", [3, 5])
def test_partial_scatter_of_elements_is_not_mapped(columns):
    text = 'y = ScatterElements <reduction = "add"> (table, j, g)'
    ids = np.repeat([[0], [1], [1], [2]], columns, 1)
    model = parse(text, "g (float[6, 5] g) => (float[7, 5] y)", j=ids, table=np.zeros((7, 5), np.float32))
    assert not convert(model, patterns=True).changed


@pytest.mark.parametrize(
    ("head", "changes", "words"),
    [
        ("g (int64[4, 3, 5] g, int64[4, 3] i) => (int64[7, 5] y)", {"t": np.zeros((7, 5), np.int64)}, "int64"),
        ("g (float[4, 3] g, int64[4, 3] i) => (float[7] y)", {"t": np.zeros(7, np.float32)}, "1 dims"),
        ("g (float[2, 5] g) => (float[7, 5] y)", {"t": np.zeros((7, 5), np.float32), "i": [-1, 3]}, "from -1 to 3"),
    ],
)
def test_other_tables_are_not_mapped(head, changes, words):
    conversion = convert(
        parse(BARE.replace("z = ConstantOfShape (dims)", "").replace("(z, j", "(t, j"), head, **changes), patterns=True
    )
    assert not conversion.changed
    assert words in conversion.left[0].reason
