"""Compare types that are inferred from earlier nodes with those of onnx."""

import numpy as np
import onnx
import pytest

from opforge.frontend import convert
from opforge.frontend.ir import value_types
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.shape_cache import _RULES
from opforge.frontend.ir.value_types import ValueTypes
from opforge.frontend.operators import project_specs

DIMS = {
    "reshape": [-1, 6],
    "fixed": [4, 6],
    "copied": [0, -1],
    "wide": [5, 4, 6],
    "ones": [1, 1],
    "negative": [-1, 0, 2],
}
NODES = [
    *(f"y = {op_type} (x)" for op_type, rule in _RULES.items() if rule is _RULES["Relu"]),
    *(f"y = {op_type} ({names})" for op_type in ("Add", "Sub", "Mul", "Div") for names in ("x, x", "x, v", "v, x")),
    *("y = Add (x, h)", "y = Add (x, w)", "y = Add (x, c)", "y = Mul (c, c)", "y = Add (u, x)", "y = Add (x, b)"),
    *("y = MatMul (x, w)", "y = MatMul (u, w)", "y = MatMul (w, x)", "y = MatMul (x, v)", "y = MatMul (x, h)"),
    *("y = MatMul (b, w)", "y = MatMul (b, b)"),
    *("y = Cast <to = 10> (x)", "y = Cast <to = 99> (x)", "y = Cast <to = 7> (u)"),
    *(f"y = Reshape ({name}, {dims})" for name in ("x", "u", "w") for dims in DIMS),
    *(f"y = Expand ({name}, {dims})" for name in ("x", "u", "v") for dims in DIMS),
    *("y = Transpose (x)", "y = Transpose <perm = [2, 0, 1]> (b)", "y = Transpose <perm = [0, 0]> (x)"),
    *("y = Gather (x, i)", "y = Gather <axis = -1> (b, i)", "y = Gather <axis = 3> (b, i)", "y = Gather (c, k)"),
    *("y = Shape (b)", "y = Shape (u)", "y = Shape <start = 1> (b)"),
    *("y = npu.NPUGroupedBiasAddGrad (b, i)", "y = npu.NPUGroupedBiasAddGrad (b)", "y = npu.Relu (x)"),
    *("t = Relu (x) s = MatMul (t, w) y = Sigmoid (s)", "y = Neg (t) t = Exp (x)", "t = Flatten (x) y = Neg (t)"),
]


def model(nodes):
    text = """<ir_version: 8, opset_import: ["" : 20, "npu" : 1]>
    g (float[N, 6] x, float[N, M] u, float[6, 3] w, float[6] v, float16[6] h, float[2, 1, 6] b, float[1, M] c,
    int64[2] i, int64 k) => (y) {"""
    parsed = onnx.parser.parse_model(f"{text}{nodes}}}")
    tensors = [onnx.numpy_helper.from_array(np.array(dims, np.int64), name) for name, dims in DIMS.items()]
    parsed.graph.initializer.extend(tensors)
    return parsed


def types(nodes, monkeypatch, *, without):
    def fail(*_):
        raise value_types._InferenceError("is not wanted")

    with monkeypatch.context() as patch:
        if without == "onnx":
            patch.setattr(value_types, "_infer_shapes", fail)
        else:
            patch.setattr(value_types.ValueTypes, "_shape_cache", lambda *_: Unknown())
        view = GraphView(model(nodes))
        return ValueTypes(view, project_specs()).of(view.main, "y")


class Unknown:
    def of(self, _name):
        return value_types.ValueType()


@pytest.mark.parametrize("nodes", NODES)
def test_types_agree_with_onnx_or_are_unknown(nodes, monkeypatch):
    near = types(nodes, monkeypatch, without="onnx")
    assert near in (value_types.ValueType(), types(nodes, monkeypatch, without="near"))


@pytest.mark.parametrize("shape", ["fixed", "s"])
def test_a_table_gathers_its_type_from_its_gradient(shape):
    """onnx does not have the node, so the type of the next node depends on the cached types."""
    grad = "com.microsoft.GatherGrad"
    nodes = f"s = Shape (e) g = {grad} ({shape}, i, r) t = Gather (g, i) y = {grad} ({shape}, i, t)"
    parsed = model(nodes)
    parsed.opset_import.add(domain="com.microsoft", version=1)
    parsed.graph.input.add(name="e").type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [4, 6]))
    parsed.graph.input.add(name="r").type.CopyFrom(onnx.helper.make_tensor_type_proto(10, [2, 6]))
    view = GraphView(parsed)
    known = ValueTypes(view, project_specs())
    dims = (4, 6) if shape == "fixed" else (None, None)
    assert known.of(view.main, "y") == value_types.ValueType("float16", dims)
    assert len(convert(parsed).mapped) == 2


def test_most_are_found(monkeypatch):
    unknown = [nodes for nodes in NODES if not types(nodes, monkeypatch, without="onnx").complete]
    assert 0 < len(unknown) < len(NODES) // 3, unknown
