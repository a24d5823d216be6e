"""Test every form of an operator in ONNX: mapped by default, with an option, or never; mapped forms compute the same.

The forms of graphs of torch.fx are in test_fx.py, those of exporters themselves in test_exporters.py.
"""

import numpy as np
import onnx
import pytest
from form_models import form_model

from opforge.frontend import convert
from opforge.frontend.run.verify import verify

DOMAINS = ("com.microsoft", "org.pytorch.aten", "npu", "opforge", "old")
EMBEDDING, CONV, NORM = "EmbeddingDenseBackward", "ConvTbcBackward", "BatchNormElemtBackward"
GROUPS, NSA = "GroupedBiasAddGrad", "NsaCompressGrad"
TABLE = "(float[4, 5] g, int64[4] i) => (float[7, 5] y)"
ROWS = "u = Unsqueeze (i, last)"
MASK = """ge = GreaterOrEqual (i, n0) lt = Less (i, n7) a = And (ge, lt) e = Equal (i, n2) ne = Not (e) m = And (a, ne)
    u = Unsqueeze (m, last) k = Not (u) v = Where (k, zero, {0}) c = Clip (i, low, high) j = Unsqueeze (c, last)
    t = ConstantOfShape (rows) y = ScatterND <reduction = "add"> (t, j, v)"""
TBC = "(float[6, 2, 4] g, float[6, 2, 3] x, float[3, 3, 4] w, float[4] b) => (float[6, 2, 3] dx, dw, db)"
# onnxruntime's gradient of what the exporter writes for conv_tbc.
TURNED = """gc = Transpose <perm = [1, 2, 0]> (g) xc = Transpose <perm = {x}> (x) wc = Transpose <perm = [2, 1, 0]> (w)
    dxc, dwc, db = com.microsoft.ConvGrad <kernel_shape = [3], pads = {pads}, strides = [1], dilations = [1],
    group = 1> (gc, xc, wc) dx = Transpose <perm = [2, 0, 1]> (dxc) dw = Transpose <perm = [2, 1, 0]> (dwc)"""
STATISTICS = "float[3] m, float[3] s, float[3] w, float[3] a, float[3] b, int32[2, 1] n"
BATCH = f"(float[2, 3, 4] g, float[2, 3, 4] x, {STATISTICS}) => (float[2, 3, 4] y)"
GRAD = (
    "(float[2, 3, 4] g, float[2, 3, 4] x, float[3] w, float[3] m, float[3] s)"
    " => (float[2, 3, 4] y, float[3] dw, float[3] db)"
)
WRITTEN = """nf = Cast <to = 1> (n) t = ReduceSum <keepdims = 0> (nf) ma = Div (a, t) mb = Div (b, t)
    mc = Reshape (m, d) sc = Reshape (s, d) wc = Reshape (w, d) ac = Reshape (ma, d) bc = Reshape (mb, d)
    x0 = Sub (x, mc) s2 = {0} k = Mul (bc, s2) p = Mul (x0, k) g0 = Sub (g, ac) r = Sub (g0, p)
    f = Mul (sc, wc) y = Mul (r, f)"""
SUM = "(float[2, 4, 3] g) => (float[2, 3] y)"
BIAS = "(float[6, 3] g) => (float[3, 3] y)"
PARTS = "p0, p1, p2 = {0} (g, sizes) {1} y = Concat <axis = 0> (s0, s1, s2)"
PART = "s{0} = ReduceSum <keepdims = 1> (p{0}, axis0)"
WINDOWS = "(float16[8, 2, 16] g, float16[300, 2, 16] x, float16[64, 2] w) => (float16[300, 2, 16] dx, dw)"
VALUES = {
    "last": [-1],
    "axis0": [0],
    "axis1": [1],
    "axis2": [2],
    "both": [0, 1],
    "first": [0],
    "rows": [7, 5],
    "wide": [4, 5],
    "d": [1, 3, 1],
    "sizes": [2, 1, 3],
    "flat": [1, -1, 3],
    "picked": [4, 3, 5],
    "ends": [100, 160, 300],
    "ids": [0, 0, 1, 2, 2, 2],
    "seven": 7,
    "two": 2,
    "one": 1,
    "true": True,
    "false": False,
    "zero": np.float32(0),
    "power": np.float32(2),
    "b64": 64,
    "s16": 16,
    "n0": 0,
    "n7": 7,
    "n2": 2,
    "low": -7,
    "high": 6,
    "zeros": np.zeros((7, 5), np.float32),
    "deep": np.zeros((3, 7, 5), np.float32),
    "row": np.ones(5, np.float32),
    "thirds": np.zeros((3, 3), np.float32),
}


def parse(text, opset=18):
    return form_model(text, VALUES, DOMAINS, opset)


def aten(name, arguments, results="y"):
    """Return both spellings of a function of aten."""
    return [
        f"{results} = org.pytorch.aten.{name} ({arguments})",
        f'{results} = org.pytorch.aten.ATen <operator = "{name}", overload_name = ""> ({arguments})',
        f'{results} = org.pytorch.aten.ATen <operator = "{name}"> ({arguments})',
    ]


def ours(name, arguments, results="y", attributes=""):
    """Return the custom node in all its domains."""
    return [
        f"{results} = {key} <{attributes}> ({arguments})".replace("<> ", "")
        for key in (f"npu.NPU{name}", f"opforge.{name}", f"NPU{name}")
    ]


AT_ONCE = [
    *((EMBEDDING, TABLE, body) for body in aten("embedding_dense_backward", "g, i, seven, two, true")),
    *((EMBEDDING, TABLE, body) for body in aten("embedding_backward", "g, i, seven, two, false, false")),
    # onnxruntime reads the rows from the parameter, as a vector of one element.
    (
        EMBEDDING,
        TABLE.replace("(float", "(float[7, 5] W, float", 1),
        (
            "s = Shape (W) n = Gather (s, first)"
            ' y = org.pytorch.aten.ATen <operator = "embedding_backward"> (g, i, n, two, false, false)'
        ),
    ),
    (EMBEDDING, TABLE, "y = com.microsoft.GatherGrad <axis = 0> (rows, i, g)"),
    (EMBEDDING, TABLE, "y = com.microsoft.GatherGrad <axis = -2> (rows, i, g)"),
    (
        EMBEDDING,
        TABLE.replace("(float", "(float[7, 5] W, float", 1),
        "s = Shape (W) y = com.microsoft.GatherGrad (s, i, g)",
    ),
    *((EMBEDDING, TABLE, body) for body in ours(EMBEDDING, "g, i", attributes="num_weights = 7, padding_idx = 2")),
    (EMBEDDING, TABLE, "y = npu.NPUEmbeddingDenseGrad <num_weights = 7, scale_grad_by_freq = 1> (g, i)"),
    *((CONV, TBC, body) for body in aten("conv_tbc_backward", "g, x, w, b, one", "dx, dw, db")),
    *((CONV, TBC, body) for body in ours(CONV, "g, x, w, b", "dx, dw, db", "pad = 1")),
    *((NORM, BATCH, body) for body in aten("batch_norm_backward_elemt", "g, x, m, s, w, a, b, n")),
    *((NORM, BATCH, body) for body in aten("batch_norm_backward_elemt", 'g, x, m, s, "", a, b, n')),
    *((NORM, BATCH, body) for body in aten("batch_norm_backward_elemt", "g, x, m, s, w, a, b")),
    *((NORM, BATCH, body) for body in aten("batch_norm_backward_elemt", 'g, x, m, s, "", a, b')),
    *((NORM, BATCH, body) for body in ours(NORM, "g, x, m, s, w, a, b, n")),
    *((GROUPS, SUM, body) for body in ours(GROUPS, "g")),
    (GROUPS, SUM, 'y = npu.NPUGroupedBiasAddGrad <group_idx_type = 0> (g, "")'),
    *((GROUPS, BIAS.replace(" g", " g, int64[3] i"), body) for body in ours(GROUPS, "g, i")),
    *((GROUPS, BIAS, body) for body in ours(GROUPS, "g, sizes", attributes="group_idx_type = 1")),
    # A bias selected by unsorted ids: the gradient is that of an embedding.
    (EMBEDDING, "(float[6, 5] g, int64[6] i) => (float[7, 5] y)", "y = com.microsoft.GatherGrad (rows, i, g)"),
    (NSA, WINDOWS, "dx, dw = npu.npu_nsa_compress_grad (g, x, w, b64, s16, ends)"),
    *(
        (NSA, WINDOWS, body)
        for body in ours(NSA, "g, x, w, ends", "dx, dw", "compress_block_size = 64, compress_stride = 16")
    ),
    (
        NSA,
        WINDOWS,
        (
            "dx, dw = npu.NPUNsaCompressGrad"
            ' <compressBlockSize = 64, compressStride = 16, actSeqLenType = 0, layout = "TND"> (g, x, w, ends)'
        ),
    ),
]
WHEN_ASKED = [
    (EMBEDDING, TABLE, MASK.format("g"), "patterns"),
    (EMBEDDING, TABLE, f'{ROWS} y = ScatterND <reduction = "add"> (zeros, u, g)', "patterns"),
    (EMBEDDING, TABLE, f't = ConstantOfShape (rows) {ROWS} y = ScatterND <reduction = "add"> (t, u, g)', "patterns"),
    (
        EMBEDDING,
        TABLE,
        f'{ROWS} e = Expand (u, wide) y = ScatterElements <axis = 0, reduction = "add"> (zeros, e, g)',
        "patterns",
    ),
    (CONV, TBC.replace(", float[4] b", ""), TURNED.format(x="[1, 2, 0]", pads="[1, 1]"), "lower_training"),
    (
        NORM,
        GRAD,
        "y, dw, db = com.microsoft.BatchNormalizationGrad <epsilon = 1.0e-5> (g, x, w, m, s)",
        "lower_training",
    ),
    (NORM, BATCH, WRITTEN.format("Mul (sc, sc)"), "patterns"),
    (NORM, BATCH, WRITTEN.format("Pow (sc, power)"), "patterns"),
    (GROUPS, SUM, "t = ReduceSum <keepdims = 1> (g, axis1) y = Squeeze (t, axis1)", "patterns"),
    (GROUPS, SUM, "y = ReduceSum <keepdims = 0> (g, axis1)", "patterns"),
    (GROUPS, SUM.replace("[2, 3] y", "[2, 1, 3] y"), "y = ReduceSum <keepdims = 1> (g, axis1)", "patterns"),
    (GROUPS, BIAS, PARTS.format("Split <axis = 0>", " ".join(map(PART.format, range(3)))), "patterns"),
    (
        GROUPS,
        f"{BIAS} <float[2, 3] p0, float[1, 3] p1, float[3, 3] p2>",
        PARTS.format(
            "com.microsoft.SplitTraining <axis = 0>",
            " ".join(
                f"r{n} = Reshape (p{n}, flat) t{n} = ReduceSum (r{n}, axis1) s{n} = Squeeze (t{n}, axis1)"
                for n in range(3)
            ),
        ),
        "patterns",
    ),
    (GROUPS, BIAS, 'u = Unsqueeze (ids, last) y = ScatterND <reduction = "add"> (thirds, u, g)', "patterns"),
]
NEVER = [
    (TABLE, f"{ROWS} z = ScatterND (zeros, u, g) y = Add (z, row)"),
    (TABLE, f"{ROWS} e = Expand (u, wide) z = ScatterElements <axis = 0> (zeros, e, g) y = Add (z, row)"),
    *((TABLE, f'{ROWS} y = ScatterND <reduction = "{word}"> (zeros, u, g)') for word in ("mul", "max", "min")),
    ("(float[4, 5] g, int64[4, 2] i) => (y)", 'y = ScatterND <reduction = "add"> (deep, i, g)'),
    (
        "(float[7, 5] g, int64[7, 5] i) => (float[7, 5] y)",
        'y = ScatterElements <axis = 1, reduction = "add"> (zeros, i, g)',
    ),
    (TABLE, "y = com.microsoft.GatherElementsGrad (rows, i, g)"),
    (TABLE, "y = com.microsoft.GatherNDGrad (rows, i, g)"),
    (
        "(float[7, 5] g, int64[4] i) => (y)",
        'y = org.pytorch.aten.ATen <operator = "embedding"> (g, i, two, false, false)',
    ),
    *((TABLE, body) for body in aten("embedding_backward", "g, i, seven, two, false, true")),
    # The selection of the first token: axis 1 of rank 3.
    ("(float[4, 5] g) => (y)", "y = com.microsoft.GatherGrad <axis = 1> (picked, n0, g)"),
    (TABLE, "y = com.microsoft.GatherGrad <axis = 1> (rows, i, g)"),
    (TBC.replace(", float[4] b", ""), TURNED.format(x="[1, 0, 2]", pads="[1, 1]")),
    (
        "(float[2, 4, 6, 6] g, float[2, 3, 6, 6] x, float[4, 3, 3, 3] w) => (a, b, c)",
        "a, b, c = com.microsoft.ConvGrad <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (g, x, w)",
    ),
    (BATCH, "y, o, v = BatchNormalization <training_mode = 1> (x, m, s, w, a)"),
    (BATCH, "y = org.pytorch.aten.native_batch_norm_backward (g, x, m)"),
    (BATCH, "y = com.microsoft.LayerNormalizationGrad (g, x, m)"),
    *((SUM, f"y = ReduceSum <keepdims = 0> (g, {axes})") for axes in ("axis0", "axis2", "both")),
    ("(float[4, 3] g) => (y)", "y = ReduceSum <keepdims = 0> (g, axis1)"),
    ("(float[2, 4, 3, 5] g) => (y)", "y = ReduceSum <keepdims = 0> (g, axis1)"),
    (SUM, "y = ReduceMean <keepdims = 0> (g, axis1)"),
    (SUM, "y = ReduceSumSquare <keepdims = 0> (g, axis1)"),
    (SUM, "y = ReduceSum <noop_with_empty_axes = 1> (g)"),
    (SUM.replace("g)", "g, int64[1] i)", 1), "y = ReduceSum <keepdims = 0> (g, i)"),
    *((SUM.replace("float", word), "y = ReduceSum <keepdims = 0> (g, axis1)") for word in ("int32", "double")),
    # Compressed attention in standard operators: windows, weights, a sum.
    (
        "(float16[300, 2, 16] x, float16[64, 2, 1] w, int64[8, 64] i) => (y)",
        "v = Gather <axis = 0> (x, i) z = Mul (v, w) y = ReduceSum <keepdims = 0> (z, axis1)",
    ),
]


def found(conversion):
    assert not conversion.left, conversion.left
    return [entry.op for entry in conversion.mapped]


def holds(model, conversion):
    assert all(entry.same for entry in verify(model, conversion))
    onnx.checker.check_model(conversion.model)


@pytest.mark.parametrize(("op", "head", "body"), AT_ONCE)
def test_forms_mapped_by_default(op, head, body):
    model = parse(f"{head} {{{body}}}")
    conversion = convert(model)
    assert found(conversion) == [op]
    holds(model, conversion)


@pytest.mark.parametrize(("op", "head", "body", "option"), WHEN_ASKED)
def test_forms_mapped_with_an_option(op, head, body, option):
    model = parse(f"{head} {{{body}}}")
    assert not convert(model).changed
    conversion = convert(model, **{option: True})
    assert [entry.op for entry in conversion.mapped] == [op], conversion.left
    holds(model, conversion)


@pytest.mark.parametrize(("head", "body"), NEVER)
def test_forms_that_are_never_mapped(head, body):
    conversion = convert(parse(f"{head} {{{body}}}"), patterns=True, lower_training=True)
    assert conversion.mapped == []
