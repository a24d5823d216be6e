"""Test `.air` files: field numbers, ports, attributes, constants, and models that cannot be written."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.ge.messages import message
from opforge.frontend.ge.write import air_model


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> g {text}')


def read(data):
    model = message("ModelDef")
    model.ParseFromString(data)
    (graph,) = model.graph
    return graph, {op.name: op for op in graph.op}


def attributes(op):
    return {entry.key: entry.value for entry in op.attr}


def ports(op, side):
    found = attributes(op)
    assert found[f"_{side}_name_key"].list.val_type == 1
    assert found[f"_{side}_name_value"].list.val_type == 2
    return dict(
        zip(found[f"_{side}_name_value"].list.i, (p.decode() for p in found[f"_{side}_name_key"].list.s), strict=True)
    )


def test_the_bytes_have_the_numbers_of_the_interface():
    # Tag = number * 8 + wire type; 2 is a length-prefixed field, 0 a varint.
    op = message("OpDef", name="n", type="T", input=["a:0"], input_desc=[message("TensorDescriptor", dtype=27)])
    assert op.SerializeToString() == b"\x0a\x01n\x12\x01T\x2a\x03a:0" + bytes(
        [33 << 3 & 0x7F | 2 | 0x80, 33 >> 4, 2, 0x10, 27]
    )
    entry = message("Attr", key="k", value=message("AttrDef", i=3))
    assert message("OpDef", attr=[entry]).SerializeToString() == b"\x52\x07\x0a\x01k\x12\x02\x18\x03"


def test_a_converted_model():
    model = parse(
        "(float16[6, 3] x, int64[2] i) => (float[2, 3] y) {[r] r = Relu (x) [n] t = npu.NPUGroupedBiasAddGrad (r, i)"
        " [c] y = Cast <to = 1> (t)}"
    )
    graph, ops = read(air_model(convert(model).model))
    assert [op.type for op in graph.op] == ["Data", "Data", "Relu", "GroupedBiasAddGrad", "Cast", "NetOutput"]
    assert list(graph.input) == ["x:0", "i:0"]
    assert list(graph.output) == ["c:0"]
    assert list(ops["n"].input) == ["r:0", "i:0"]
    assert ports(ops["n"], "input") == {0: "grad_y", 1: "group_idx"}
    assert attributes(ops["n"])["group_idx_type"].WhichOneof("value") == "i"
    assert attributes(ops["c"])["dst_type"].i == 0
    assert [(d.dtype, d.layout, list(d.shape.dim)) for d in ops["n"].output_desc] == [(2, "ND", [2, 3])]
    assert [attributes(ops[name])["index"].i for name in ("x", "i")] == [0, 1]
    assert list(ops["NetOutput"].input) == ["c:0"]


def test_names_are_unique_and_links_follow_them():
    """GE replaces the first node of a name by the second one without a message."""
    model = parse("(float[2] a) => (float[2] y) {[a] t = Relu (a) [b] u = Neg (t) [b] v = Abs (u) y = Exp (v)}")
    graph, ops = read(air_model(model))
    assert len(ops) == len(graph.op)
    chain = [op.name for op in graph.op]
    assert [list(op.input) for op in graph.op[1:]] == [[f"{name}:0"] for name in chain[:-1]]


def test_unknown_dims_and_ranks():
    model = parse(
        "(float[N, 3] x, float z, float s) => (float[N, 3] y, float w, float v)"
        " {y = Relu (x) w = Relu (z) v = Relu (s)}"
    )
    for value in (model.graph.input[1], model.graph.output[1]):
        value.type.tensor_type.ClearField("shape")
    _, ops = read(air_model(model))
    assert [list(ops[name].output_desc[0].shape.dim) for name in "xzs"] == [[-1, 3], [-2], []]


def test_an_absent_input_in_the_middle_keeps_its_port():
    vectors = "float[5] m, float[5] s, float[5] a, float[5] b"
    model = parse(
        f"(float[3, 5] g, float[3, 5] x, {vectors}, int32[1] c) => (float[3, 5] y)"
        ' {[n] y = npu.NPUBatchNormElemtBackward (g, x, m, s, "", a, b, c)}'
    )
    _, ops = read(air_model(convert(model).model))
    assert list(ops["n"].input)[3:6] == ["s:0", "", "a:0"]
    unfed = ops["n"].input_desc[4]
    assert (unfed.dtype, unfed.layout, len(ops["n"].input_desc)) == (0, "", 8)
    assert ports(ops["n"], "input")[5] == "sum_dy"


def test_a_bool_attribute_and_a_constant():
    model = parse(
        "(float[4, 5] g) => (float[7, 5] y)"
        " {[n] y = npu.NPUEmbeddingDenseGrad <num_weights = 7, scale_grad_by_freq = 1> (g, i)}"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4), "i"))
    _, ops = read(air_model(convert(model).model))
    assert attributes(ops["n"])["scale_grad_by_freq"].WhichOneof("value") == "b"
    tensor = attributes(ops["i"])["value"].t
    assert (ops["i"].type, tensor.data, tensor.desc.dtype) == ("Const", np.arange(4).tobytes(), 8)


# Node, version, type in GE, ports, and the inputs that become constants or attributes.
SPELLED = [
    ("y = Transpose <perm = [1, 0, 2]> (x)", 18, "Transpose", ["x", "perm"], {"y_perm": [1, 0, 2]}),
    ("y = Transpose (x)", 18, "Transpose", ["x", "perm"], {"y_perm": [2, 1, 0]}),
    ("y = Unsqueeze <axes = [-1]> (x)", 11, "Unsqueeze", ["x"], {"axes": [3]}),
    ("y = Squeeze <axes = [-2]> (x)", 11, "Squeeze", ["x"], {"axis": [1]}),
    ("y = ReduceSum <axes = [-1], keepdims = 0> (x)", 11, "ReduceSum", ["x", "axes"], {"y_axes": [2]}),
    ("y = ReduceMean <axes = [0, 2]> (x)", 17, "ReduceMean", ["x", "axes"], {"y_axes": [0, 2]}),
    ("y = Concat <axis = 1> (x, x)", 18, "ConcatV2", ["x0", "x1", "concat_dim"], {"y_concat_dim": [1]}),
    ("y = Gather <axis = 1> (x, i)", 18, "GatherV2", ["x", "indices", "axis"], {"y_axis": [1]}),
    ("y = Max (x, x)", 18, "Maximum", ["x1", "x2"], {}),
    ("y = Sqrt (x)", 18, "Sqrt", ["x"], {}),
]


@pytest.mark.parametrize(("node", "opset", "om_type", "names", "lists"), SPELLED)
def test_standard_operators(node, opset, om_type, names, lists):
    text = f"g (float[4, 1, 3] x, int64[2] i) => (float[N] y) {{[n] {node}}}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    _, ops = read(air_model(model))
    assert ops["n"].type == om_type
    assert list(ports(ops["n"], "input").values()) == names
    for name, numbers in lists.items():
        if name in ops:
            assert np.frombuffer(attributes(ops[name])["value"].t.data, np.int64).tolist() == numbers
            assert f"{name}:0" in ops["n"].input
        else:
            found = attributes(ops["n"])[name].list
            assert (list(found.i), found.val_type) == (numbers, 2)


def test_a_kept_axis_is_a_bool():
    for keepdims in (0, 1):
        model = parse(f"(float[4, 3] x, int64[1] i) => (y) {{[n] y = ReduceSum <keepdims = {keepdims}> (x)}}")
        model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
        _, ops = read(air_model(model))
        assert attributes(ops["n"])["keep_dims"].b == bool(keepdims)
        assert np.frombuffer(attributes(ops["y_axes"])["value"].t.data, np.int64).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(float[2, 3] x, int64[1] a) => (float[2] y) {[n] y = ReduceSum (x, a)}", "is not in the table"),
        ("(float[2, 2, 2] x) => (float[2, 2, 2] y) {[n] y = MatMul (x, x)}", "is not in the table"),
        ("(float[2] x) => (float[2] y) {[n] y = Softmax (x)}", "'n' \\(Softmax\\) is not in the table"),
        ("(float[2] x) => (y) {t = npu.Foo (x) y = Relu (t)}", "is not in the table"),
        ("(x) => (y) {y = Relu (x)}", "unknown type"),
        # GE drops an empty list, and then squeezes all dims.
        (
            "(float[2, 1] x) => (float[2, 1] y) {i = Constant <value = int64[0] {}> () y = Squeeze (x, i)}",
            "is not in the table",
        ),
    ],
)
def test_models_that_air_cannot_represent(text, words):
    with pytest.raises(UserError, match=words):
        air_model(parse(text))


def test_the_command_writes_it_by_the_suffix(tmp_path):
    onnx.save(parse("(float[2, 4, 3] x) => (float[2, 3] y) {y = npu.NPUGroupedBiasAddGrad (x)}"), tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.air")])
    assert result.exit_code == 0, result.output
    graph, _ = read((tmp_path / "o.air").read_bytes())
    assert [op.type for op in graph.op] == ["Data", "GroupedBiasAddGrad", "NetOutput"]
    onnx.save(parse("(float[2] x) => (float[2] y) {[n] y = Softmax (x)}"), tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "p.air")])
    assert str(result.exception).startswith(f"{tmp_path / 'm.onnx'}: cannot be written as .air: graph: node 'n'")
    assert not (tmp_path / "p.air").exists()
