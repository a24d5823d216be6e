"""Test the ONNX form of each operator: function bodies against the formula, schemas against known shapes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from opforge.frontend.emit.functions import function_body
from opforge.frontend.ir.schemas import registered
from opforge.frontend.ir.tensor_type import ELEMENT_TYPES
from opforge.frontend.operators import project_specs

SPECS = {spec.op_type: spec for spec in project_specs()}


def evaluated(op_type, case, inputs, attrs):
    spec = SPECS[op_type]
    dtypes = {name: array.dtype.name for name, array in inputs.items()}
    body = function_body(spec, case, len(spec.inputs), 18, dtypes)
    feeds = {tensor.name: inputs.get(tensor.name) for tensor in spec.inputs}
    return ReferenceEvaluator(body).run(None, feeds, attributes=attrs)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("inner", [(), (4,), (2, 3, 2)])
@pytest.mark.parametrize("case", ["weighted", "plain"])
def test_batch_norm(rng, inner, case):
    dy, x = normal(rng, 3, 5, *inner), normal(rng, 3, 5, *inner)
    names = ("mean", "invstd", "weight", "sum_dy", "sum_dy_xmu")
    channel = {name: normal(rng, 5) for name in names if case == "weighted" or name != "weight"}
    inputs = {"grad_out": dy, "input": x, **channel, "counter": np.array([[7], [9]], np.int32)}
    c = {name: vector.astype(np.float64).reshape(5, *[1] * len(inner)) for name, vector in channel.items()}
    expected = (dy - c["sum_dy"] / 16) - (x - c["mean"]) * (c["invstd"] ** 2 * (c["sum_dy_xmu"] / 16))
    expected = expected * c["invstd"] * c.get("weight", 1.0)
    (got,) = evaluated("BatchNormElemtBackward", case, inputs, {})
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("padding", [-1, 3, 99])
def test_embedding(rng, scaled, padding):
    grad, indices = normal(rng, 4, 5, 6), rng.integers(-2, 9, (2, 10))
    expected, counts = np.zeros((7, 6)), np.zeros(7)
    for row, index in zip(grad.reshape(20, 6), indices.ravel(), strict=True):
        if 0 <= index < 7 and index != padding:
            expected[index] += row
            counts[index] += 1
    if scaled:
        expected /= np.maximum(counts, 1)[:, None]
    attrs = {"num_weights": 7, "padding_idx": padding, "scale_grad_by_freq": int(scaled)}
    (got,) = evaluated("EmbeddingDenseBackward", "rows", {"grad": grad, "indices": indices}, attrs)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("time", "pad", "taps"), [(6, 1, 3), (4, 4, 9), (5, 0, 1)])
def test_conv_tbc(rng, time, pad, taps):
    out_time = time + 2 * pad + 1 - taps
    dy, x, weight = normal(rng, out_time, 2, 4), normal(rng, time, 2, 3), normal(rng, taps, 3, 4)
    wide_dx, dw = np.zeros((time + 2 * pad, 2, 3)), np.zeros((taps, 3, 4))
    wide_x = np.pad(x, ((pad, pad), (0, 0), (0, 0)))
    for tap in range(taps):
        wide_dx[tap : tap + out_time] += dy @ weight[tap].T
        dw[tap] = np.einsum("tbi,tbo->io", wide_x[tap : tap + out_time], dy)
    inputs = {"self": dy, "input": x, "weight": weight, "bias": normal(rng, 4)}
    got = evaluated("ConvTbcBackward", "tbc", inputs, {"pad": pad, "cube_math_type": 0})
    for result, expected in zip(got, (wide_dx[pad : pad + time], dw, dy.sum((0, 1))), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "act_seq_len", "lengths"),
    [
        ("equal", None, [165]),
        ("equal", None, [160, 160]),
        ("equal", None, [101] * 3),
        ("ends", [0, 100, 100, 160, 300], [0, 100, 0, 60, 140]),
        ("lengths", [100, 0, 60, 140], [100, 0, 60, 140]),
    ],
)
def test_nsa(rng, case, act_seq_len, lengths):
    block, stride, rows = 64, 16, sum(lengths)
    begins = [
        sum(lengths[:sequence]) + window * stride
        for sequence, length in enumerate(lengths)
        for window in range((length - block) // stride + 1 if length >= block else 0)
    ]
    x, g, weight = (normal(rng, *shape).astype(np.float16) for shape in ((rows, 2, 3), (len(begins), 2, 3), (block, 2)))
    dx, dw = np.zeros(x.shape), np.zeros(weight.shape)
    for window, begin in zip(g.astype(np.float64), begins, strict=True):
        dx[begin : begin + block] += weight.astype(np.float64)[:, :, None] * window
        dw += (x[begin : begin + block].astype(np.float64) * window).sum(-1)
    inputs = {"output_grad": g, "input": x, "weight": weight}
    inputs |= {} if act_seq_len is None else {"act_seq_len": np.array(act_seq_len)}
    attrs = {"compress_block_size": block, "compress_stride": stride, "act_seq_len_type": int(case == "lengths")}
    got = evaluated("NsaCompressGrad", case, inputs, {**attrs, "layout": "TND"})
    np.testing.assert_allclose(got[0], dx, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got[1], dw, rtol=1e-3, atol=1e-3)


NODES = [
    (
        "BatchNormElemtBackward",
        [("N", 4, 5), ("N", 4, 5), (4,), (4,), None, (4,), (4,), (2, 1)],
        {},
        [["N", 4, 5]],
    ),
    ("EmbeddingDenseBackward", [("M", 3, 8), ("I",)], {"num_weights": 9}, [[9, 8]]),
    (
        "ConvTbcBackward",
        [(7, 2, 5), (6, 2, 4), (2, 4, 5), (5,)],
        {"pad": 1, "cube_math_type": 0},
        [[6, 2, 4], [2, 4, 5], [5]],
    ),
    (
        "NsaCompressGrad",
        [(3, 2, 8), (64, 2, 8), (32, 2)],
        {"compress_block_size": 32, "compress_stride": 16, "act_seq_len_type": 0},
        [[64, 2, 8], [32, 2]],
    ),
]


@pytest.mark.parametrize(("op_type", "shapes", "attrs", "expected"), NODES)
def test_schemas_infer_shapes(op_type, shapes, attrs, expected):
    spec = SPECS[op_type]
    inputs = []
    for tensor, shape in zip(spec.inputs, shapes, strict=False):
        word = tensor.dtypes[0]
        if shape is not None:
            inputs.append(helper.make_tensor_value_info(tensor.name, ELEMENT_TYPES[word], shape))
    given = [tensor.name if shape is not None else "" for tensor, shape in zip(spec.inputs, shapes, strict=False)]
    outputs = [output.name for output in spec.outputs]
    node = helper.make_node(op_type, given, outputs, domain="opforge", **attrs)
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", inputs, infos)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)]
    with registered(SPECS.values()):
        model = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets), check_type=True, strict_mode=True
        )
    for info, dims in zip(model.graph.output, expected, strict=True):
        got = [dim.dim_value or None for dim in info.type.tensor_type.shape.dim]
        assert got == [dim if isinstance(dim, int) else None for dim in dims]
