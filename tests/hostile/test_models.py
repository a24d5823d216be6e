"""Test hostile models and paths for commands that read a model: one clear line, exit code 2, and no file changed."""

import os
import socket
import subprocess
import sys

import numpy as np
import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend.io import save
from opforge.frontend.ir.constants import Constants
from opforge.frontend.ir.graph import GraphView
from opforge.frontend.ir.reason import Unmatched
from opforge.frontend.ir.value_types import ValueTypes

COMMANDS = ("convert", "check", "run", "atc")
OURS = "y = npu.NPUGroupedBiasAddGrad (x, i)"
PLAIN = "g (float[2] x) => (float[2] y) {y = Relu (x)}"


def parse(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "npu" : 1]> {text}')


def arguments(command, model, *options):
    """Return a command line; a conversion needs an output path."""
    out = ["-o", str(model.with_name("out.onnx"))] if command == "convert" else []
    return [command, str(model), *out, *map(str, options)]


def refused(*command):
    """Return the single line with which the command line rejects the input."""
    result = CliRunner().invoke(app, [str(argument) for argument in command])
    assert isinstance(result.exception, UserError), (result.exception, result.output)
    assert result.exception.exit_code == 2
    text = str(result.exception)
    assert text.isprintable(), text
    assert len(text) < 2000
    return text


def contents(folder):
    """Return every entry below a folder, with the bytes of regular files."""
    found = sorted(folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() and not path.is_symlink() else None for path in found}


# Files that are rejected when they are read.


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
    """Return nested messages, as attributes that contain graphs."""
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
    """Return a model whose constant is in a file; w.bin has 8 bytes."""
    tensor = TensorProto(name="w", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return model_of(node("Add", ["x", "w"], ["y"]), initializers=[tensor])


def branch(name, source):
    return helper.make_graph([node("Relu", [source], [name])], "b", [], [helper.make_tensor_value_info(name, 1, None)])


REFUSED_MODELS = {
    "empty": (lambda: b"", "an empty file"),
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
    "a value made twice": (lambda: model_of(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])), "unique names"),
    "an input made by a node": (lambda: model_of(node("Relu", ["x"], ["x"])), "'x'"),
    "two initializers of one name": (
        lambda: model_of(initializers=[numpy_helper.from_array(np.zeros(2, np.float32), "w")] * 2),
        "two initializers",
    ),
    "an undefined value": (lambda: model_of(node("Relu", ["absent"], ["y"])), "'absent'"),
    "a name that controls the terminal": (lambda: model_of(node("Relu", ["\x1b[2J\n"], ["y"])), r"'\x1b[2J\n'"),
    "a name of 100,000 letters": (lambda: model_of(node("Relu", ["n" * 100_000], ["y"])), "nnn..."),
    "a name that is no UTF-8": (
        lambda: model_of(node("Relu", ["xqq"], ["y"])).replace(b"xqq", b"x\xff\xfe"),
        r"b'x\xff\xfe'",
    ),
    "data in another folder": (lambda: external("../w.bin"), "outside the model's folder"),
    "data in another folder, hidden": (lambda: external("sub/../../w.bin"), "outside the model's folder"),
    "data at an absolute place": (lambda: external("/etc/passwd"), "outside the model's folder"),
    "data behind a link": (lambda: external("link"), "is a link"),
    "data behind a linked folder": (lambda: external("linked/w.bin"), "w.bin"),
    "data that is a pipe": (lambda: external("pipe"), "not a regular file"),
    "data that is a folder": (lambda: external("sub"), "not a regular file"),
    "data that is a socket": (lambda: external("socket"), "not a regular file"),
    "data with a second name": (lambda: external("hard"), "not a regular file"),
    "data that is missing": (lambda: external("none.bin"), "expected a file beside the model"),
    "data without a name": (lambda: external(""), "no location"),
    "data with a null byte": (lambda: external("w.bin\0"), "outside the model's folder"),
    "data with a name of 300 letters": (lambda: external("n" * 300), "expected a file beside the model"),
    "data with a path of 5,000 letters": (lambda: external("d/" * 2500), "expected a file beside the model"),
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
def folder(tmp_path, monkeypatch):
    """Create a folder for a model, with files that external data must not refer to."""
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
        # A path that is short enough for any socket.
        monkeypatch.chdir(inner)
        end.bind("socket")
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


# Models that can be read; commands accept them or reject them in one line.


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
    """Return a node with only constant inputs, next to a custom node."""
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


def constant_without_type():
    model = parse(
        f"g (float[6, 3] x, int64[2] i) => (float[2, 3] y, int64 z) {{{OURS} z = Constant <value_int = 3> ()}}"
    )
    model.graph.node[1].attribute[0].ClearField("type")
    return model.SerializeToString()


ODD_MODELS = {
    "a Constant of no type": constant_without_type,
    "an attribute that is no number": lambda: with_attribute("LeakyRelu", alpha=float("nan")),
    "an infinite attribute": lambda: with_attribute("Elu", alpha=float("inf")),
    "an attribute of another kind": lambda: with_attribute("LeakyRelu", alpha="1"),
    "a perm of 100,000 axes": lambda: with_attribute("Transpose", perm=[0] * 100_000),
    "a split of 2^62 parts": lambda: with_attribute("Split", num_outputs=1 << 62),
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


# Paths in options of commands.

BAD_PATHS = {
    "a pipe": "pipe",
    "a folder": "sub",
    "a socket": "socket",
    "a device": "/dev/zero",
    "an endless device": "/dev/urandom",
    "a full device": "/dev/full",
    "a missing file": "none",
    "a missing folder": "none/m.onnx",
    "a file as a folder": "w.bin/m.onnx",
    "a name of 300 letters": "n" * 300,
    "a path of 5,000 letters": "d/" * 2500 + "m.onnx",
    "a name with control characters": "\x1b[2J\n",
    "a link to itself": "loop",
}


@pytest.fixture
def good(folder):
    """Create a model that every command accepts, with external data, and its inputs."""
    (folder / "loop").symlink_to("loop")
    (folder / "m.onnx").write_bytes(external("w.bin"))
    np.savez(folder / "in.npz", x=np.ones(2, np.float32))
    return folder / "m.onnx"


@pytest.mark.parametrize("kind", BAD_PATHS)
def test_an_input_that_cannot_be_read_is_one_line(good, kind):
    bad, before = good.parent / BAD_PATHS[kind], contents(good.parent)
    out = good.with_name("out.onnx")
    commands = [
        ["convert", bad, "-o", out],
        ["check", bad],
        ["run", bad],
        ["atc", bad],
        ["run", good, "--inputs", bad],
        ["convert", good, "-o", out, "--lower-training", "--optimizer", bad],
        ["profile", "GroupedBiasAddGrad", "--inputs", bad],
    ]
    for command in commands:
        text = refused(*command)
        assert "cannot " in text, text
    assert contents(good.parent) == before


OUTPUTS = [
    ["convert", "m.onnx", "-o", "BAD"],
    ["convert", "m.onnx", "-o", "out.onnx", "--json", "BAD"],
    ["convert", "m.onnx", "-o", "out.onnx", "--html", "BAD"],
    ["check", "m.onnx", "--json", "BAD"],
    ["run", "m.onnx", "--inputs", "in.npz", "--outputs", "BAD"],
    ["run", "m.onnx", "--inputs", "in.npz", "--json", "BAD"],
    ["run", "m.onnx", "--inputs", "in.npz", "--trace", "BAD"],
    ["atc", "m.onnx", "--json", "BAD"],
]
BAD_TARGETS = (
    *("pipe", "sub", "socket", "/dev/full", "/dev/null", "none/out", "w.bin/out", "link", "loop", "n" * 300),
    *("d/" * 2500 + "out", "m.onnx", "w.bin", "sub/../m.onnx"),
)


@pytest.mark.parametrize("target", BAD_TARGETS, ids=lambda target: target[:20])
def test_invalid_output_path_changes_no_file(good, monkeypatch, target):
    monkeypatch.chdir(good.parent)
    before = contents(good.parent)
    for command in OUTPUTS:
        text = refused(*command[:-1], target)
        assert "cannot write the " in text, (command, text)
        assert contents(good.parent) == before, command


SAME = [
    ["convert", "m.onnx", "-o", "NEW", "--json", "NEW"],
    ["convert", "m.onnx", "-o", "NEW", "--html", "sub/../NEW"],
    ["convert", "m.onnx", "-o", "out.onnx", "--html", "NEW", "--json", "NEW"],
    ["convert", "m.onnx", "-o", "sub/out.onnx", "--json", "sub/w.bin"],
    ["convert", "m.onnx", "-o", "out.onnx", "--lower-training", "--optimizer", "o.onnx", "--json", "o.onnx"],
    ["convert", "m.onnx", "-o", "o.bin", "--lower-training", "--optimizer", "o.onnx"],
    ["run", "m.onnx", "--inputs", "in.npz", "--outputs", "in.npz"],
    ["run", "m.onnx", "--inputs", "in.npz", "--json", "in.npz"],
    ["run", "m.onnx", "--inputs", "in.npz", "--trace", "NEW", "--json", "NEW"],
    ["run", "m.onnx", "--outputs", "NEW", "--trace", "NEW"],
    ["atc", "m.onnx", "--json", "m_converted.onnx"],
    ["atc", "m.onnx", "--json", "m.onnx"],
]


@pytest.mark.parametrize("command", SAME, ids=" ".join)
def test_two_files_of_a_command_are_two(good, monkeypatch, command):
    monkeypatch.chdir(good.parent)
    (good.parent / "o.onnx").write_bytes(external("o.bin"))
    (good.parent / "o.bin").write_bytes(bytes(8))
    before = contents(good.parent)
    text = refused(*command)
    assert "the command also uses" in text
    assert contents(good.parent) == before


# Models that need more memory than available: in a separate process, which may crash, with a lower limit.


@pytest.fixture
def ended(opforge):
    """Run the command line; return its exit code and its stderr."""

    def run(*command, **variables):
        done = opforge(*command, **variables)
        return done.returncode, done.stderr

    return run


def chain(op_type, count, factor):
    """Return a custom node, and nodes with only constant inputs, each larger than the previous one."""
    nodes = " ".join(f"t{number + 1} = {op_type} (t{number}, r)" for number in range(count))
    constants = f"int64[1] n = {{1}}, int64[1] r = {{{factor}}}"
    body = f"{OURS} t0 = ConstantOfShape (n) {nodes}"
    return parse(f"g (float[6, 3] x, int64[2] i) => (float[2, 3] y, t{count}) <{constants}> {{{body}}}")


def many_constants():
    """400 constants of 64 MB."""
    names = [f"t{number}" for number in range(400)]
    nodes = " ".join(f"{name} = ConstantOfShape (n)" for name in names)
    return parse(
        f"g (float[2] x) => (y) <int64[1] n = {{{1 << 24}}}> {{{nodes} s = Sum ({', '.join(names)}) y = Add (x, s)}}"
    )


def one_node(op_type, *constants, **attributes):
    """Return a node that makes 8 GB from few numbers, with an input that folding cannot evaluate."""
    model = parse("g (float[2] x) => (y) {f = Flatten (x) k = Shape (f) s = ReduceMin <keepdims = 0> (k)}")
    names = [f"c{number}" for number in range(len(constants))]
    model.graph.initializer.extend(map(numpy_helper.from_array, map(np.array, constants), names))
    model.graph.node.append(node(op_type, names, ["r"], **attributes))
    model.graph.node.append(node("ReduceMax", ["r"], ["m"], keepdims=0))
    model.graph.node.append(node("Cast", ["m"], ["y"], to=1))
    return model


GROWING = {
    "Expand": lambda: one_node("Expand", np.float32([1]), [1 << 31]),
    "Tile": lambda: one_node("Tile", np.float32([1]), [1 << 31]),
    "Pad": lambda: one_node("Pad", np.float32([1]), [0, 1 << 31]),
    "Range": lambda: one_node("Range", 0, 1 << 30, 1),
    "OneHot": lambda: one_node("OneHot", [1], 1 << 31, np.float32([0, 1])),
    "Resize": lambda: one_node(
        "Resize", np.ones((1, 1, 2, 2), np.float32), np.float32([]), np.float32([1, 1, 3e4, 3e4])
    ),
    "ConstantOfShape": lambda: one_node("ConstantOfShape", [1 << 31]),
    "many constants": many_constants,
}


@pytest.mark.parametrize("kind", GROWING)
def test_a_run_has_a_memory_budget(ended, tmp_path, kind):
    path, out = tmp_path / "m.onnx", tmp_path / "out.npz"
    onnx.save(GROWING[kind](), path)
    code, text = ended("run", path, "--outputs", out, OPFORGE_MEMORY_MB="500")
    assert (code, text.count("\n")) == (2, 1), text
    assert "more memory" in text or "more than 500 MB of memory" in text
    assert "set OPFORGE_MEMORY_MB=1000 or more" in text
    assert not out.exists()


@pytest.fixture
def sparse_weights(tmp_path):
    """A model with 32 GiB of external data in a file without content."""
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(32 << 30)
    model = parse(f"g (float[6, 3] x, int64[2] i) => (float[2, 3] y, z) {{{OURS} s = ReduceMax (w) z = Add (x, s)}}")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8 << 30])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    model.graph.initializer.append(tensor)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run"], "needs more than 1000 MB of memory"),
        (["convert", "--verify"], "needs more than 1000 MB of memory"),
        (["convert", "-o", "out.air"], "expected at most 2147483647 for an .air file"),
    ],
    ids=["run", "verify", "air"],
)
def test_external_data_beyond_the_memory_is_not_read(ended, sparse_weights, monkeypatch, command, words):
    monkeypatch.chdir(sparse_weights.parent)
    before = sorted(sparse_weights.parent.iterdir())
    out = ["-o", "out.onnx"] if command == ["convert", "--verify"] else []
    code, text = ended(command[0], "m.onnx", *command[1:], *out, OPFORGE_MEMORY_MB="1000")
    assert (code, text.count("\n")) == (2, 1), text
    assert words in text
    assert sorted(sparse_weights.parent.iterdir()) == before


def test_unread_external_data_costs_no_memory(ended, sparse_weights):
    out = sparse_weights.with_name("out.onnx")
    assert ended("convert", sparse_weights, "-o", out)[0] == 0
    assert ended("check", sparse_weights)[0] in (0, 1)


def test_tensors_that_share_their_external_data_count_each(ended, tmp_path):
    """64 MB in a file, and 40 tensors in it."""
    (tmp_path / "w.bin").write_bytes(bytes(64 << 20))
    names = [f"w{number}" for number in range(40)]
    model = parse(f"g (float[2] x) => (y) {{s = Sum ({', '.join(names)}) m = ReduceMax (s) y = Add (x, m)}}")
    for name in names:
        tensor = model.graph.initializer.add(name=name, data_type=1, dims=[16 << 20], data_location=1)
        tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    code, text = ended("run", tmp_path / "m.onnx", OPFORGE_MEMORY_MB="700")
    assert (code, text.count("\n")) == (2, 1), text
    assert "set OPFORGE_MEMORY_MB=1400 or more" in text


@pytest.mark.parametrize("factor", [2, 7, 900])
def test_thirty_nodes_of_constants_that_grow_are_converted(ended, tmp_path, factor):
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(chain("Tile", 30, factor), path)
    code, text = ended("convert", path, "-o", out)
    assert (code, text) == (0, "")
    assert out.stat().st_size < 100 << 20
    assert ended("check", path)[0] in (0, 1)


def test_constants_that_are_joined_are_counted_first():
    model = parse(f"g (float[6, 3] x, int64[2] i) => (float[2, 3] y, c) <int64[1] n = {{60000}}> {{{OURS}}}")
    model.graph.node.append(node("ConstantOfShape", ["n"], ["z"]))
    model.graph.node.append(node("Concat", ["z"] * 100_000, ["c"], axis=0))
    view = GraphView(model)
    with pytest.raises(Unmatched, match="is a Concat of 6000000000 elements, more than 65536"):
        Constants(ValueTypes(view)).value(view.main, "c")


def loops(depth):
    """Return nested loops with a million iterations each."""
    graph = onnx.parser.parse_graph(
        "b (int64 k, bool c, float[2] a) => (bool d, float[2] s) {d = Identity (c) s = Relu (a)}"
    )
    for _ in range(depth):
        outer = onnx.parser.parse_graph("b (int64 k, bool c, float[2] a) => (bool d, float[2] s) {d = Identity (c)}")
        outer.node.append(node("Loop", ["n", "", "a"], ["s"], body=graph))
        graph = outer
    model = parse("g (float[2] x) => (float[2] y) <int64 n = {1000000}> {}")
    model.graph.node.append(node("Loop", ["n", "", "x"], ["y"], body=graph))
    return model


@pytest.mark.parametrize("command", [["run"], ["convert", "--verify", "-o", "out.onnx"]], ids=["run", "verify"])
def test_a_model_that_never_ends_is_ended(ended, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    model = loops(3)
    model.graph.node.append(node("NPUGroupedBiasAddGrad", ["x3"], ["z"], domain="npu"))
    model.graph.input.append(helper.make_tensor_value_info("x3", 1, [2, 4, 3]))
    model.graph.output.append(helper.make_tensor_value_info("z", 1, [2, 3]))
    onnx.save(model, "m.onnx")
    code, text = ended(command[0], "m.onnx", *command[1:], OPFORGE_CPU_SECONDS="2")
    assert (code, text.count("\n")) == (2, 1), text
    assert "needs more than 2 s of CPU time" in text
    assert "set OPFORGE_CPU_SECONDS=4 or more" in text
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("last", ["F99", "F0"], ids=["doubled 99 times", "endless"])
def test_calls_of_functions_that_never_end_are_not_run(tmp_path, last):
    model = parse("g (float[2] x) => (float[2] y) {}")
    model.graph.node.append(node("F0", ["x"], ["y"], domain="d"))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    model.opset_import.append(opsets[1])
    for level in range(99):
        name = last if level == 98 else f"F{level + 1}"
        calls = [node(name, ["a"], ["t"], domain="d"), node(name, ["t"], ["b"], domain="d")]
        model.functions.append(helper.make_function("d", f"F{level}", ["a"], ["b"], calls, opsets))
    model.functions.append(helper.make_function("d", "F99", ["a"], ["b"], [node("Relu", ["a"], ["b"])], opsets))
    onnx.save(model, tmp_path / "m.onnx")
    assert "the expanded local functions have more than" in refused("run", tmp_path / "m.onnx")


def test_a_result_beyond_protobuf_is_one_line(monkeypatch):
    model = parse(PLAIN)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(30, np.float32), "w"))

    class Refusing:
        graph, functions, training_info = model.graph, (), ()

        def SerializeToString(self):  # noqa: N802  # protobuf's name
            raise EncodeError("Failed to serialize proto")

    with pytest.raises(EncodeError):
        save.serialized(Refusing(), "m.onnx")
    monkeypatch.setattr(save, "MAX_MODEL_BYTES", 100)
    with pytest.raises(UserError, match=r"^m\.onnx: the result has 120 bytes of constants, expected at most 100 bytes"):
        save.serialized(Refusing(), "m.onnx")


def test_a_bomb_of_arrays_is_one_line(ended, good):
    """512 MB of zeros in 512 kB."""
    path = good.with_name("bomb.npz")
    np.savez_compressed(path, **dict.fromkeys(("x", "grad"), np.zeros(1 << 26, np.float32)))
    assert path.stat().st_size < 2 << 20
    for command in (["run", good], ["profile", "EmbeddingDenseBackward"]):
        code, text = ended(*command, "--inputs", path, OPFORGE_MEMORY_MB="300")
        assert (code, text.count("\n")) == (2, 1), text
        assert "set OPFORGE_MEMORY_MB=600 or more" in text


def test_limits_end_with_the_block_that_claims_them():
    """The memory limit of a conversion does not apply to atc."""
    script = (
        "import resource; from opforge.frontend.limits import claimed, limits_for, supervise; supervise()\n"
        "with claimed('m.onnx', limits_for(9)): inside = resource.getrlimit(resource.RLIMIT_DATA)\n"
        "print(inside[0], resource.getrlimit(resource.RLIMIT_DATA)[0], resource.getrlimit(resource.RLIMIT_CPU)[0])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(850 << 20), "-1", "-1"]


def test_the_last_claim_is_named():
    script = (
        "import os; from opforge.frontend.limits import claimed, limits_for, supervise; supervise()\n"
        "with claimed('first.onnx', limits_for(9)): pass\n"
        "with claimed('second.onnx', limits_for(9)): os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "second.onnx")
