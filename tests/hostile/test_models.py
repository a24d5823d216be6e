"""Hostile models and paths for the commands that take a model: one clear line, exit code 2, and no file changed."""

import os
import socket

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from opforge.codegen.cli import app
from opforge.codegen.errors import UserError

COMMANDS = ("convert", "check", "run", "atc")
OURS = "y = npu.NPUGroupedBiasAddGrad (x, i)"
PLAIN = "g (float[2] x) => (float[2] y) {y = Relu (x)}"


def parse(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "npu" : 1]> {text}')


def arguments(command, model, *options):
    """A command line; a conversion needs a place for the result."""
    out = ["-o", str(model.with_name("out.onnx"))] if command == "convert" else []
    return [command, str(model), *out, *map(str, options)]


def refused(*command):
    """The one line with which the command line refuses something."""
    result = CliRunner().invoke(app, [str(argument) for argument in command])
    assert isinstance(result.exception, UserError), (result.exception, result.output)
    assert result.exception.exit_code == 2
    text = str(result.exception)
    assert text.isprintable(), text
    assert len(text) < 2000
    return text


def contents(folder):
    """Every entry below a folder, with its bytes when it is a regular file."""
    found = sorted(folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() and not path.is_symlink() else None for path in found}


# Files that are refused when they are read.


def node(op_type, inputs, outputs, **attributes):
    return helper.make_node(op_type, inputs, outputs, **attributes)


def model_of(*nodes, initializers=(), **changes):
    model = parse(PLAIN)
    if nodes:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    model.graph.initializer.extend(initializers)
    for name, value in changes.items():
        setattr(model, name, value)
    return model.SerializeToString()


def varint(number):
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def nested_messages(depth):
    """A message in a message, as attributes that hold graphs."""
    data = b""
    for _ in range(depth):
        for number in (6, 5, 1):
            data = varint(number << 3 | 2) + varint(len(data)) + data
    return model_of() + varint(7 << 3 | 2) + varint(len(data)) + data


def nested_subgraphs(depth):
    model = parse(PLAIN)
    graph = model.graph
    for _ in range(depth):
        inner = graph.node.add(op_type="If", output=["z"])
        inner.input.append("x")
        graph = inner.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    return model.SerializeToString()


def external(location, dims=(2,), kind=TensorProto.FLOAT, **entries):
    """A model whose constant lies in a file; w.bin has 8 bytes."""
    tensor = TensorProto(name="w", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return model_of(node("Add", ["x", "w"], ["y"]), initializers=[tensor])


def branch(name, source):
    return helper.make_graph([node("Relu", [source], [name])], "b", [], [helper.make_tensor_value_info(name, 1, None)])


REFUSED_MODELS = {
    "empty": (lambda: b"", "is empty"),
    "text": (lambda: b"no model at all", "do not parse"),
    "truncated": (lambda: model_of()[:-5], "m.onnx"),
    "truncated in a length": (lambda: model_of() + b"\x3a\xff\xff\xff\xff\x07", "do not parse"),
    "a length of 2 GiB": (lambda: b"\x3a\xff\xff\xff\xff\x07" + bytes(100), "do not parse"),
    "messages nested 5,000 deep": (lambda: nested_messages(5000), "do not parse"),
    "subgraphs nested 200 deep": (lambda: nested_subgraphs(200), "nested"),
    "no graph": (lambda: onnx.ModelProto(ir_version=8).SerializeToString(), "no graph"),
    "no version": (lambda: model_of(ir_version=0), "ir_version"),
    "opset -1": (lambda: parse(PLAIN, 18).SerializeToString().replace(b"\x10\x12", b"\x10\x00"), "imports version"),
    "a cycle": (lambda: model_of(node("Relu", ["y"], ["y"])), "cycle"),
    "a cycle of two": (lambda: model_of(node("Relu", ["b"], ["y"]), node("Relu", ["y"], ["b"])), "cycle"),
    "a cycle through a branch": (
        lambda: model_of(node("If", ["x"], ["y"], then_branch=branch("t", "y"), else_branch=branch("e", "y"))),
        "cycle",
    ),
    "a value made twice": (lambda: model_of(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])), "one maker"),
    "an input made by a node": (lambda: model_of(node("Relu", ["x"], ["x"])), "'x'"),
    "two initializers of one name": (
        lambda: model_of(initializers=[numpy_helper.from_array(np.zeros(2, np.float32), "w")] * 2),
        "two initializers",
    ),
    "a value of nobody": (lambda: model_of(node("Relu", ["nobody"], ["y"])), "'nobody'"),
    "a name that controls the terminal": (lambda: model_of(node("Relu", ["\x1b[2J\n"], ["y"])), r"'\x1b[2J\n'"),
    "a name of 100,000 letters": (lambda: model_of(node("Relu", ["n" * 100_000], ["y"])), "nnn..."),
    "a name that is no UTF-8": (
        lambda: model_of(node("Relu", ["xqq"], ["y"])).replace(b"xqq", b"x\xff\xfe"),
        "not UTF-8",
    ),
    "data in another folder": (lambda: external("../w.bin"), "outside the model's folder"),
    "data in another folder, hidden": (lambda: external("sub/../../w.bin"), "outside the model's folder"),
    "data at an absolute place": (lambda: external("/etc/passwd"), "outside the model's folder"),
    "data behind a link": (lambda: external("link"), "is a link"),
    "data behind a linked folder": (lambda: external("linked/w.bin"), "w.bin"),
    "data that is a pipe": (lambda: external("pipe"), "no regular file"),
    "data that is a folder": (lambda: external("sub"), "no regular file"),
    "data that is a socket": (lambda: external("socket"), "no regular file"),
    "data with a second name": (lambda: external("hard"), "no regular file"),
    "data that is missing": (lambda: external("none.bin"), "put the file beside the model"),
    "data without a name": (lambda: external(""), "no location"),
    "data with a null byte": (lambda: external("w.bin\0"), "outside the model's folder"),
    "data with a name of 300 letters": (lambda: external("n" * 300), "put the file beside the model"),
    "data with a path of 5,000 letters": (lambda: external("d/" * 2500), "put the file beside the model"),
    "data with a name that controls the terminal": (lambda: external("\x1b[2J"), r"'\x1b[2J'"),
    "data at 2 GiB": (lambda: external("w.bin", offset=str(1 << 31)), "cut off"),
    "data at 2^63": (lambda: external("w.bin", offset=str(1 << 63)), "cut off"),
    "data at -8": (lambda: external("w.bin", offset="-8"), "expected a number of bytes"),
    "data of 2 GiB": (lambda: external("w.bin", length=str(1 << 31)), "cut off"),
    "data for 2^40 numbers": (lambda: external("w.bin", dims=[1 << 40]), "needs 4398046511104 bytes"),
    "data for 2^120 numbers": (lambda: external("w.bin", dims=[1 << 60, 1 << 60]), "dims"),
    "data for texts": (lambda: external("w.bin", kind=TensorProto.STRING), "data type 8"),
    "data of an unknown type": (lambda: external("w.bin", kind=99), "data type 99"),
}


@pytest.fixture
def folder(tmp_path):
    """A folder for a model, with files that external data must not lead to."""
    inner = tmp_path / "models"
    (inner / "sub").mkdir(parents=True)
    for path in (tmp_path / "w.bin", inner / "w.bin", inner / "sub" / "w.bin"):
        path.write_bytes(np.ones(2, np.float32).tobytes())
    (inner / "link").symlink_to(tmp_path / "w.bin")
    (inner / "linked").symlink_to(inner / "sub")
    (inner / "first").write_bytes(bytes(8))
    os.link(inner / "first", inner / "hard")
    os.mkfifo(inner / "pipe")
    with socket.socket(socket.AF_UNIX) as end:
        before = os.getcwd()
        os.chdir(inner)
        try:
            end.bind("socket")
        finally:
            os.chdir(before)
    return inner


@pytest.mark.parametrize("kind", REFUSED_MODELS)
def test_a_hostile_file_is_one_line(folder, kind):
    make, words = REFUSED_MODELS[kind]
    path = folder / "m.onnx"
    path.write_bytes(make())
    before = contents(folder.parent)
    for command in COMMANDS:
        text = refused(*arguments(command, path))
        assert words in text, (command, text)
        assert "m.onnx" in text or command == "run", (command, text)
    assert contents(folder.parent) == before


# Models that are read, and which the commands may take or refuse, but in one line.


def with_attribute(op_type, **attributes):
    return model_of(node(op_type, ["x"], ["y"], **attributes))


def sparse(dims, places, values=(1.0,)):
    tensor = onnx.SparseTensorProto(dims=dims)
    tensor.values.CopyFrom(numpy_helper.from_array(np.array(values, np.float32), "w"))
    tensor.indices.CopyFrom(numpy_helper.from_array(np.array(places, np.int64), "p"))
    model = onnx.ModelProto.FromString(model_of(node("Add", ["x", "w"], ["y"])))
    model.graph.sparse_initializer.append(tensor)
    return model.SerializeToString()


def constant(shape, op_type, *more):
    """A node of constants alone beside one of ours."""
    inputs = ["n", *(f"c{number}" for number in range(len(more)))]
    model = parse(f"g (float[6, 3] x, int64[2] i) => (float[2, 3] y, z) {{{OURS}}}")
    model.graph.node.append(node(op_type, inputs, ["z"]))
    for name, value in zip(inputs, (shape, *more), strict=True):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    return model.SerializeToString()


def texts():
    model = parse("g (float[2] x) => (float[2] y, string[2] t) {y = Relu (x) t = Identity (w)}")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [2], [b"a\x1b[2J", b"b"]))
    return model.SerializeToString()


def sequence():
    model = parse("g (float[2] x) => (float[2] y) {y = Relu (x) s = SequenceConstruct (x, y)}")
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    model.graph.output.append(helper.make_value_info("s", kind))
    return model.SerializeToString()


def empty_optional():
    model = parse("g (float[2] x) => (float[2] y) {y = Relu (x)}")
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, None))
    model.graph.node.append(node("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, None)))
    model.graph.output.append(helper.make_value_info("o", kind))
    return model.SerializeToString()


ODD_MODELS = {
    "an attribute that is no number": lambda: with_attribute("LeakyRelu", alpha=float("nan")),
    "an infinite attribute": lambda: with_attribute("Elu", alpha=float("inf")),
    "an attribute of another kind": lambda: with_attribute("LeakyRelu", alpha="1"),
    "a perm of 100,000 axes": lambda: with_attribute("Transpose", perm=[0] * 100_000),
    "a split of 2^62 parts": lambda: with_attribute("Split", num_outputs=1 << 62),
    "an attribute twice": lambda: model_of(node("Elu", ["x"], ["y"], alpha=1.0)).replace(b"", b""),
    "a node of nothing": lambda: model_of(node("", ["x"], ["y"])),
    "an unknown operator": lambda: model_of(node("Nothing", ["x"], ["y"])),
    "sparse with dims of 2^60": lambda: sparse([1 << 30, 1 << 30], [0]),
    "sparse with dims of 2^124": lambda: sparse([1 << 62, 1 << 62], [0]),
    "sparse with negative dims": lambda: sparse([-2], [0]),
    "sparse with a place outside": lambda: sparse([2], [1 << 40]),
    "sparse with more places than values": lambda: sparse([2], [0, 1, 1, 1]),
    "an output of texts": texts,
    "an output that is a sequence": sequence,
    "an output that is an empty optional": empty_optional,
    "a ConstantOfShape of 2^62": lambda: constant([1 << 62], "ConstantOfShape"),
    "a ConstantOfShape of negative size": lambda: constant([-4], "ConstantOfShape"),
    "a Range of 2^62": lambda: constant(0, "Range", 1 << 62, 1),
    "a Range without a step": lambda: constant(0, "Range", 9, 0),
    "an Expand to 2^62": lambda: constant([1.0], "Expand", [1 << 31, 1 << 31]),
    "a Tile of 2^62": lambda: constant([1.0], "Tile", [1 << 62]),
    "a Pad of 2^62": lambda: constant([1.0], "Pad", [1 << 61, 1 << 61]),
    "a OneHot of 2^62": lambda: constant([1], "OneHot", [1 << 62], [0, 1]),
    "a Reshape to 100 axes": lambda: constant([1.0], "Reshape", [1] * 100),
    "a Resize to 2^62": lambda: constant(
        np.ones((1, 1, 2, 2), np.float32), "Resize", np.float32([]), [1.0, 1, 1e15, 1e15]
    ),
}


@pytest.mark.parametrize("kind", ODD_MODELS)
def test_an_odd_model_ends_in_an_answer_or_one_line(folder, kind):
    path = folder / "m.onnx"
    path.write_bytes(ODD_MODELS[kind]())
    inputs = folder / "in.npz"
    kinds = {"x": np.ones((6, 3) if "float[6" in kind else (2,), np.float32)}
    np.savez(inputs, **kinds)
    commands = [arguments(command, path) for command in COMMANDS]
    commands += [arguments("convert", path, "--verify"), arguments("run", path, "--outputs", folder / "out.npz")]
    for command in commands:
        result = CliRunner().invoke(app, command)
        if isinstance(result.exception, UserError):
            assert str(result.exception).isprintable(), command
        else:
            assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
            assert result.exit_code in (0, 1), command
        assert "\x1b[2J" not in result.output, command
