"""Test GE graphs as inputs: `.air` files and text dumps, invalid files, and the fields that are kept in the output."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import numpy_helper
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.ge.messages import message
from opforge.frontend.ge.write import air_model
from opforge.frontend.run.execute import execute
from opforge.frontend.sources import load_source

# A graph dumped by torchair: names of ports in the descriptors, unsorted nodes, unknown fields.
DUMP = (Path(__file__).resolve().parent.parent / "fuzz" / "seeds" / "ge_text" / "dump.pbtxt").read_text()


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "opforge" : 1]> g {text}')


def opforge(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def written(tmp_path, text, name="m.pbtxt"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


# Each standard operator that can be written, with inputs for it.
STANDARD = [
    "y = Relu (x)",
    "y = Sub (x, w)",
    "y = Max (x, w)",
    "a = Greater (x, w) b = Not (a) y = Where (b, x, w)",
    "y = Cast <to = 7> (x)",
    "y = Concat <axis = -1> (x, w)",
    "y = Gather <axis = 1> (x, i)",
    "a = Transpose <perm = [1, 0]> (w) y = MatMul (x, a)",
    "y = ReduceSum <keepdims = 0> (x, axes)",
    "y = ReduceMean <keepdims = 1> (x, axes)",
    "a = Unsqueeze (x, axes) b = Squeeze (a, axes) y = Reshape (b, shape)",
    "y = Shape (x)",
    "a = Abs (x) y = Expand (a, size)",
]


@pytest.mark.parametrize("nodes", STANDARD)
def test_standard_operators_are_read_back(nodes, tmp_path):
    model = parse(f"(float[3, 4] x, float[3, 4] w) => (y) {{{nodes}}}")
    arrays = {"i": np.array([3, 0]), "axes": np.array([1]), "shape": np.array([2, 6]), "size": np.array([2, 3, 4])}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in arrays.items())
    inferred = onnx.shape_inference.infer_shapes(model)
    model.graph.output[0].CopyFrom(inferred.graph.output[0])
    feeds = {name: np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32) for name in "xw"}
    (tmp_path / "m.air").write_bytes(air_model(model))
    read = load_source(tmp_path / "m.air").model
    onnx.checker.check_model(read, full_check=True)
    assert {node.domain for node in read.graph.node} == {""}
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    (got,) = onnx.reference.ReferenceEvaluator(read).run(None, feeds)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_custom_operator_is_read_back_and_runs(tmp_path):
    vectors = "float[5] m, float[5] s, float[5] a, float[5] b"
    model = parse(
        f"(float[3, 5] g, float[3, 5] x, {vectors}, int32[1] c) => (float[3, 5] y)"
        ' {[n] y = opforge.BatchNormElemtBackward (g, x, m, s, "", a, b, c)}'
    )
    (tmp_path / "m.air").write_bytes(air_model(convert(model).model))
    read = load_source(tmp_path / "m.air").model
    (node,) = read.graph.node
    assert (node.domain, node.op_type, node.input[4]) == ("opforge", "BatchNormElemtBackward", "")
    draw = np.random.default_rng(2)
    feeds = {name: draw.normal(size=(3, 5) if name in "gx" else 5).astype(np.float32) for name in "gxmsab"}
    feeds["s"] = np.abs(feeds["s"]) + 1
    feeds["c"] = np.array([3], np.int32)
    got = next(iter(execute(read, feeds, operators="function").values()))
    centered = feeds["x"] - feeds["m"]
    expected = (feeds["g"] - feeds["a"] / 3 - centered * feeds["s"] ** 2 * feeds["b"] / 3) * feeds["s"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_dump_is_converted_and_keeps_other_operators(tmp_path):
    """The GE operator with the name of an alias is replaced; the other one is kept."""
    path = written(tmp_path, DUMP)
    result = opforge("convert", path, "-o", tmp_path / "o.air", "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    assert [entry["op"] for entry in json.loads((tmp_path / "r.json").read_text())["mapped"]] == [
        "EmbeddingDenseBackward"
    ]
    model = message("ModelDef")
    model.ParseFromString((tmp_path / "o.air").read_bytes())
    ops = {op.type: op for op in model.graph[0].op}
    assert [op.type for op in model.graph[0].op if op.type == "Data"] == ["Data", "Data"]
    assert list(ops["EmbeddingDenseBackward"].input) == ["Soft:0", "arg1_1:0"]
    source = text_format.Parse(DUMP, message("ModelDef"), allow_unknown_field=True)
    (kept,) = (op for op in source.graph[0].op if op.type == "SoftmaxV2")
    assert ops["SoftmaxV2"] == kept


def test_unknown_fields_of_an_air_file_are_kept(tmp_path):
    source = text_format.Parse(DUMP, message("ModelDef"), allow_unknown_field=True)
    soft = next(op for op in source.graph[0].op if op.type == "SoftmaxV2")
    soft.MergeFromString(bytes([21 << 3 & 0x7F | 0x80, 1, 6]))  # id = 6, a field that is unknown to the reader
    expected = soft.SerializeToString(deterministic=True)
    (tmp_path / "m.air").write_bytes(source.SerializeToString())
    result = opforge("convert", tmp_path / "m.air", "-o", tmp_path / "o.air")
    assert result.exit_code == 0, result.output
    model = message("ModelDef")
    model.ParseFromString((tmp_path / "o.air").read_bytes())
    kept = next(op for op in model.graph[0].op if op.type == "SoftmaxV2")
    assert kept.SerializeToString(deterministic=True) == expected
    assert b"\xa8\x01\x06" in expected


def test_check_accepts_operators_of_ge_in_graphs_of_ge_only(tmp_path):
    """ATC compiles them without a parser; ONNX nodes of these types have no parser."""
    path = written(tmp_path, DUMP)
    result = opforge("check", path)
    warning = "warning: opforge check: can become EmbeddingDenseBackward; run opforge convert"
    expected = f"Grad (ge::EmbeddingDenseGrad): {warning}\n{path}: 0 errors, 1 warning\n"
    assert (result.exit_code, result.output) == (0, expected)
    assert opforge("convert", path, "-o", tmp_path / "o.onnx").exit_code == 0
    result = opforge("check", tmp_path / "o.onnx")
    assert result.exit_code == 1
    assert "no parser for ge::1::SoftmaxV2" in result.output


def test_check_finds_an_invalid_call(tmp_path):
    text = DUMP.replace('type: "EmbeddingDenseGrad"', 'type: "EmbeddingDenseBackward"')
    assert opforge("check", written(tmp_path, text)).exit_code == 0
    result = opforge(
        "check", written(tmp_path, text.replace('key: "num_weights" value { i: 5 }', 'key: "nothing" value { i: 5 }'))
    )
    assert result.exit_code == 1
    assert "num_weights" in result.output


def test_atc_gets_a_graph_of_ge(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    result = opforge("atc", written(tmp_path, DUMP), "-o", tmp_path / "z")
    assert result.exit_code == 0, result.output
    assert f"--model={tmp_path / 'z_converted.air'} --framework=1" in result.output
    assert (tmp_path / "z_converted.air").exists()


@pytest.mark.parametrize("name", ["o.pt2", "o.pbtxt", "o.txt"])
def test_a_graph_is_not_written_as_an_exported_program_or_text(tmp_path, name):
    result = opforge("convert", written(tmp_path, DUMP), "-o", tmp_path / name)
    assert "expected .onnx or .air" in str(result.exception)
    assert not (tmp_path / name).exists()


def test_inputs_and_constants_keep_their_storage_format(tmp_path):
    model = parse("(float[2, 3] x, float[3] z) => (float[2, 3] y) {t = Add (x, z) y = Add (t, c)}")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "c"))
    data = message("ModelDef")
    data.ParseFromString(air_model(model))
    formats = {"x": "NCHW", "c": "NHWC"}
    for op in data.graph[0].op:
        if op.name in formats:
            op.output_desc[0].layout = formats[op.name]
    (tmp_path / "m.air").write_bytes(data.SerializeToString())
    assert opforge("convert", tmp_path / "m.air", "-o", tmp_path / "o.air").exit_code == 0
    data.ParseFromString((tmp_path / "o.air").read_bytes())
    found = {op.name: op.output_desc[0].layout for op in data.graph[0].op if op.type in ("Data", "Const")}
    assert found == {**formats, "z": "ND"}


def test_outputs_that_are_inputs_or_given_twice(tmp_path):
    model = parse("(float[2] x) => (float[2] y, float[2] z, float[2] v) {y = Relu (x) z = Identity (y) v = Neg (x)}")
    data = message("ModelDef")
    data.ParseFromString(air_model(model))
    end = next(op for op in data.graph[0].op if op.type == "NetOutput")
    end.input[:] = ["Relu:0", "Relu:0", "x:0"]
    (tmp_path / "m.air").write_bytes(data.SerializeToString())
    read = load_source(tmp_path / "m.air").model
    onnx.checker.check_model(read, full_check=True)
    x = np.array([-1, 2], np.float32)
    got = onnx.reference.ReferenceEvaluator(read).run(None, {"x": x})
    for array, expected in zip(got, ([0, 2], [0, 2], [-1, 2]), strict=True):
        np.testing.assert_array_equal(array, expected)


# Replaced text, its replacement, and words of the message.
WRONG = [
    ('input: "arg0_1:0"', 'input: "arg9:0"', "'Soft' ('SoftmaxV2'): reads 'arg9:0'; expected a node of the graph"),
    ('input: "arg0_1:0"', 'input: "arg0_1:1"', "reads 'arg0_1:1'; expected one of 1 outputs"),
    ('input: "arg0_1:0"', 'input: "arg0_1:0" input: "arg1_1:-1"', "has a control dependency on 'arg1_1'"),
    ('input: "arg0_1:0"', 'input: "Grad:0"', "reads its own result; expected a graph without cycles"),
    ('name: "Soft" type', 'name: "Grad" type', "has a name of another node"),
    ('"arg1_1" type: "Data"', '"arg1_1" type: "Const"', "has no tensor as the attribute value"),
    ('type: "SoftmaxV2"', 'type: "If" subgraph_name: "then"', "has subgraphs; expected a graph without subgraphs"),
    ("dtype: DT_INT64 layout", "dtype: DT_STRING layout", "output 0 has no type that ONNX has; expected one of"),
    ('type: "EmbeddingDenseGrad"', 'type: "EmbeddingDenseBackward" input: "Soft:0"', "has 3 inputs"),
    (
        'type: "EmbeddingDenseGrad"',
        'type: "EmbeddingDenseBackward" attr { key: "num_weights" value { f: 5 } }',
        "attribute num_weights has the kind f; expected int",
    ),
    ("graph {", "grap {", "got 0 graphs, expected 1"),
    ("dtype: DT_FLOAT", "dtype: DT_FLOT", "no value named DT_FLOT"),
    ("version: 1 custom", 'version: "x" custom', "Couldn't parse"),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_wrong_graphs(old, new, words, tmp_path):
    assert old in DUMP
    path = written(tmp_path, DUMP.replace(old, new))
    for command in (["convert", path, "-o", tmp_path / "o.onnx"], ["check", path], ["run", path]):
        result = opforge(*command)
        assert isinstance(result.exception, UserError), result.output
        assert words in str(result.exception)
        assert str(result.exception).startswith(str(path))
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"graph { " * 5000, b"\xff\xfe\x00", b"op {" + b"a{" * 3000])
@pytest.mark.parametrize("name", ["m.air", "m.pbtxt", "m.txt"])
def test_files_without_a_graph(content, name, tmp_path):
    (tmp_path / name).write_bytes(content)
    result = opforge("check", tmp_path / name)
    assert isinstance(result.exception, UserError), result.output
    assert "expected" in str(result.exception)


def test_a_constant_without_its_bytes(tmp_path):
    model = parse("(float[2] x) => (float[2] y) {y = Add (x, w)}")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    data = message("ModelDef")
    data.ParseFromString(air_model(model))
    (entry,) = (e for op in data.graph[0].op if op.type == "Const" for e in op.attr if e.key == "value")
    entry.value.t.data = b""
    (tmp_path / "m.air").write_bytes(data.SerializeToString())
    with pytest.raises(UserError, match="has a constant with 0 bytes; expected 8; dump the graph with its weights"):
        load_source(tmp_path / "m.air")
