"""Test the gradient of batch normalization in standard operators, with `--patterns`, and near misses."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from opforge.frontend import convert
from opforge.frontend.run.verify import verify

VECTORS = ", ".join(f"float[5] {name}" for name in "mswab")
HEAD = f"(float[3, 5, 2, 2] g, float[3, 5, 2, 2] x, {VECTORS}, float n) => (float[3, 5, 2, 2] y)"
VALUES = {
    "dims": np.array([1, -1, 1, 1]),
    "behind": np.array([1, 2]),
    "two": np.float32(2),
    "whole": np.int64(2),
    "one": np.float32(1),
    "half": np.float32(0.5),
    "n12": np.float32(12),
    "inverse": np.float32(1 / 12),
    "eps": np.float32(1e-5),
}
# Vectors over the channels in the shape of the data.
COLUMNS = " ".join(f"{name}c = Reshape ({name}, dims)" for name in "mswab")
CENTRED = "d = Sub (x, mc)"
PLAIN = f"""{COLUMNS} {CENTRED} ss = Mul (sc, sc) ma = Div (ac, n) mb = Div (bc, n) k = Mul (ss, mb)
    p = Mul (d, k) l = Sub (g, ma) r = Sub (l, p) f = Mul (sc, wc) y = Mul (r, f)"""
FORMS = {
    "as the formula": PLAIN,
    "factors one by one": PLAIN.replace("f = Mul (sc, wc) y = Mul (r, f)", "q = Mul (wc, r) y = Mul (q, sc)"),
    "proj first": PLAIN.replace("l = Sub (g, ma) r = Sub (l, p)", "l = Sub (g, p) r = Sub (l, ma)"),
    "negated": PLAIN.replace("l = Sub (g, ma) r = Sub (l, p)", "e = Add (p, ma) h = Neg (e) r = Add (h, g)"),
    "power": PLAIN.replace("ss = Mul (sc, sc)", "ss = Pow (sc, two)"),
    "power of an integer": PLAIN.replace("ss = Mul (sc, sc)", "ss = Pow (sc, whole)"),
    "factors of p in another order": PLAIN.replace(
        "k = Mul (ss, mb) p = Mul (d, k)", "k = Mul (d, mb) p = Mul (ss, k)"
    ),
    "a number for the count": PLAIN.replace("(ac, n)", "(ac, n12)").replace("(bc, n)", "(bc, n12)"),
    "its inverse": PLAIN.replace("Div (ac, n)", "Mul (inverse, ac)").replace("Div (bc, n)", "Mul (bc, inverse)"),
    "means": PLAIN.replace("ma = Div (ac, n)", "ma = Identity (ac)").replace("mb = Div (bc, n)", "mb = Identity (bc)"),
    "no weight": PLAIN.replace("f = Mul (sc, wc) y = Mul (r, f)", "y = Mul (r, sc)"),
    "multiplied out": f"""{COLUMNS} f = Mul (sc, wc) ma = Div (ac, n) mb = Div (bc, n) t = Mul (sc, sc) u = Mul (t, mb)
        k = Mul (u, f) gf = Mul (g, f) xk = Mul (x, k) mk = Mul (mc, k) af = Mul (ma, f) c = Sub (mk, af)
        z = Sub (gf, xk) y = Add (z, c)""",
    "unsqueezed": PLAIN.replace("mc = Reshape (m, dims)", "mc = Unsqueeze (m, behind)"),
    "expanded": PLAIN.replace("ma = Div (ac, n)", "mv = Div (ac, n) e = Shape (x) ma = Expand (mv, e)"),
    "of the normalised value": f"""{COLUMNS} {CENTRED} h = Mul (d, sc) v = Mul (h, bc) q = Add (v, ac) o = Div (q, n)
        r = Sub (g, o) f = Mul (sc, wc) y = Mul (r, f)""",
    "times the count": f"""{COLUMNS} {CENTRED} h = Mul (d, sc) v = Mul (h, bc) gn = Mul (g, n12) i = Sub (gn, ac)
        r = Sub (i, v) f = Mul (sc, wc) e = Mul (r, f) y = Mul (e, inverse)""",
    "divided by the deviation": f"""{COLUMNS} {CENTRED} e = Add (sc, eps) ss = Sqrt (e) ma = Div (ac, n)
        mb = Div (bc, n) j = Mul (d, mb) p = Div (j, e) l = Sub (g, ma) r = Sub (l, p) f = Mul (r, wc)
        y = Div (f, ss)""",
    "of the weighted gradient": f"""{COLUMNS} {CENTRED} i = Mul (g, wc) ss = Mul (sc, sc) ma = Div (ac, n)
        mb = Div (bc, n) k = Mul (ss, mb) p = Mul (d, k) l = Sub (i, ma) r = Sub (l, p) y = Mul (r, sc)""",
}


def parse(body, head=HEAD, opset=18, **changes):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {head} {{{body}}}')
    read = {name for node in model.graph.node for name in node.input}
    values = {name: np.asarray(value) for name, value in (VALUES | changes).items() if name in read}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def feed(rng):
    feed = {name: rng.normal(size=(3, 5, 2, 2)).astype(np.float32) for name in "gx"}
    feed |= {name: rng.uniform(0.5, 2, 5).astype(np.float32) for name in "mswab"}
    return feed | {"n": np.array(12, np.float32)}


def the_result(model, feed):
    conversion = convert(model, patterns=True)
    (entry,) = conversion.mapped
    assert (entry.op, entry.rule) == ("BatchNormElemtBackward", "FuseBatchNormChain"), conversion.left
    expected = ReferenceEvaluator(model).run(None, feed)
    onnx.checker.check_model(conversion.model, full_check=True)
    session = onnxruntime.InferenceSession(conversion.model.SerializeToString()).run(None, feed)
    for results in (ReferenceEvaluator(conversion.model).run(None, feed), session):
        for got, expected_array in zip(results, expected, strict=True):
            assert got.dtype == expected_array.dtype
            np.testing.assert_allclose(got, expected_array, rtol=1e-4, atol=1e-5)
    assert all(comparison.same for comparison in verify(model, conversion))
    return conversion


@pytest.mark.parametrize("form", FORMS)
def test_every_spelling(form, feed):
    conversion = the_result(parse(FORMS[form]), feed)
    data = [conversion.mapped[0].inputs[place] for place in (0, 1)]
    assert data == ["i" if form == "of the weighted gradient" else "g", "x"]


def test_two_dims_need_no_reshape(feed):
    head = HEAD.replace("[3, 5, 2, 2]", "[3, 5]")
    body = PLAIN.replace(COLUMNS, " ".join(f"{name}c = Identity ({name})" for name in "mswab"))
    feed |= {name: feed[name][..., 0, 0] for name in "gx"}
    assert [n.op_type for n in the_result(parse(body, head), feed).model.graph.node] == ["BatchNormElemtBackward"]


def test_float16_data_widened_before_and_narrowed_after(feed):
    head = HEAD.replace("float[3", "float16[3")
    body = f"gw = Cast <to = 1> (g) xw = Cast <to = 1> (x) {PLAIN}".replace("(g, ma)", "(gw, ma)")
    body = body.replace("(x, mc)", "(xw, mc)").replace("y = Mul (r, f)", "wide = Mul (r, f) y = Cast <to = 10> (wide)")
    feed |= {name: feed[name].astype(np.float16) for name in "gx"}
    model = parse(body, head)
    conversion = convert(model, patterns=True)
    assert [node.op_type for node in conversion.model.graph.node] == ["BatchNormElemtBackward"]
    assert conversion.mapped[0].inputs[:2] == ["g", "x"]
    assert all(comparison.same for comparison in verify(model, conversion))


def test_values_with_other_consumers_are_kept(feed):
    model = parse(PLAIN, HEAD.replace(" y)", " y, float[3, 5, 2, 2] d)"))
    conversion = the_result(model, feed)
    assert [node.op_type for node in conversion.model.graph.node] == ["Reshape", "Sub", "BatchNormElemtBackward"]


def test_pattern_is_not_applied_by_default():
    conversion = convert(parse(PLAIN))
    assert (conversion.mapped, conversion.left, conversion.changed) == ([], [], False)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (PLAIN.replace("Mul (sc, sc)", "Mul (mc, mc)"), "no value is a factor"),
        (PLAIN.replace("Mul (sc, sc)", "Mul (sc, ac)"), "product of 'a', 'b', 's'"),
        (PLAIN.replace("l = Sub (g, ma)", "l = Add (g, ma)"), "-1 times"),
        (PLAIN.replace("d = Sub (x, mc)", "d = Add (x, mc)"), "mean"),
        (PLAIN.replace("Div (bc, n)", "Div (bc, n12)"), "factor"),
        (PLAIN.replace("Mul (d, k)", "Mul (x, k)"), None),
        (PLAIN.replace("y = Mul (r, f)", "y = Identity (r)"), "no value is a factor"),
        (PLAIN.replace("p = Mul (d, k)", "o = Mul (d, d) p = Mul (o, k)"), None),
    ],
)
def test_other_formulas_are_not_mapped(body, words):
    conversion = convert(parse(body), patterns=True)
    assert not conversion.changed
    reasons = [entry.reason for entry in conversion.left]
    assert any(words in reason for reason in reasons) if words else not reasons, reasons


@pytest.mark.parametrize(
    ("head", "changes", "words"),
    [
        (HEAD.replace("[3, 5, 2, 2]", "[N, 5, 2, 2]"), {}, "known shape"),
        (HEAD.replace("[3, 5, 2, 2]", "[5, 3, 2, 2]"), {"dims": [-1, 1, 1, 1]}, "axis 1"),
        (HEAD.replace("float", "double").replace("double n", "double n"), {}, "[C2]"),
    ],
)
def test_other_layouts_are_not_mapped(head, changes, words):
    conversion = convert(parse(PLAIN, head, **changes), patterns=True)
    assert not conversion.changed
    assert any(words in entry.reason for entry in conversion.left), conversion.left
