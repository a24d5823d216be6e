"""Test hostile model files."""

import os
import socket

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.io.load import load_model
from opforge.frontend.io.save import carry_external_data
from opforge.frontend.ir.external import read_external
from opforge.frontend.ir.graph import GraphView


def model_of(nodes, inputs=("x",), outputs=("y",), initializers=()):
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])

    graph = helper.make_graph(
        nodes, "g", [value(name) for name in inputs], [value(name) for name in outputs], initializers
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def relu(source="x", target="y", name="r"):
    return helper.make_node("Relu", [source], [target], name=name)


def branch_of(node):
    return helper.make_graph([node], "b", [], [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)])


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model_of([relu()]).SerializeToString())
    return path


@pytest.fixture
def external(tmp_path):
    """Create a model whose weights, 24 bytes, are in w.bin."""
    path = tmp_path / "in" / "m.onnx"
    path.parent.mkdir()
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[weights])
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def edit(path, change):
    model = onnx.load(path, load_external_data=False)
    change(model.graph.initializer[0])
    path.write_bytes(model.SerializeToString())


def entry(tensor, key):
    return next(entry for entry in tensor.external_data if entry.key == key)


def refused(path, *words):
    with pytest.raises(UserError) as caught:
        load_model(path)
    text = str(caught.value)
    assert "\n" not in text
    assert all(word in text for word in (str(path), *words)), text


def test_a_good_file_is_read_with_its_bytes(saved):
    source = load_model(saved)
    assert source.data == saved.read_bytes()
    assert source.model.graph.node[0].op_type == "Relu"


def test_missing_file(tmp_path):
    refused(tmp_path / "none.onnx", "No such file")


def test_name_with_a_null_byte(tmp_path):
    with pytest.raises(UserError):
        load_model(tmp_path / "a\0b")


def test_directory(tmp_path):
    refused(tmp_path, "a directory")


def test_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "a pipe")


def test_socket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("s")
        refused(tmp_path / "s", "a socket")


def test_device():
    from pathlib import Path

    refused(Path("/dev/zero"), "a device")


def test_empty_file(tmp_path):
    (tmp_path / "m.onnx").touch()
    refused(tmp_path / "m.onnx", "got an empty file, expected an ONNX model; export or copy it again")


@pytest.mark.parametrize("keep", [0.5, 0.99])
def test_truncated_file(saved, keep):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(len(data) * keep)])
    refused(saved)


def test_a_file_that_ends_before_its_imports(saved):
    model = onnx.load(saved)
    del model.opset_import[:]
    saved.write_bytes(model.SerializeToString())
    refused(saved, "imports no operator set", "cut off")
    with pytest.raises(UserError, match="imports no operator set"):
        convert(model)


@pytest.mark.parametrize("version", [0, -3])
def test_versions_that_do_not_exist(saved, version):
    huge = model_of([relu()])
    huge.opset_import[0].version = 2**40
    with pytest.raises(UserError, match=f"imports version {2**40} of 'ai.onnx'"):
        convert(huge)
    for change, words in (
        (lambda model: setattr(model, "ir_version", version), f"ir_version {version}"),
        (lambda model: setattr(model.opset_import[0], "version", version), f"imports version {version} of 'ai.onnx'"),
    ):
        model = model_of([relu()])
        change(model)
        saved.write_bytes(model.SerializeToString())
        refused(saved, words, "expected one from 1")


def test_random_bytes(tmp_path):
    (tmp_path / "m.onnx").write_bytes(np.random.default_rng(4).bytes(2000))
    refused(tmp_path / "m.onnx", "2000 bytes")


def test_protobuf_of_another_kind(tmp_path):
    (tmp_path / "m.onnx").write_bytes(numpy_helper.from_array(np.ones(3)).SerializeToString()[:3])
    refused(tmp_path / "m.onnx")


def nested(depth):
    model = model_of([relu()])
    graph = model.graph
    for _ in range(depth):
        node = graph.node.add(op_type="If", output=["y"])
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        del graph.output[:]
    return model


def test_nesting_deeper_than_protobuf_allows(tmp_path):
    (tmp_path / "m.onnx").write_bytes(nested(40).SerializeToString())
    refused(tmp_path / "m.onnx", "nested too deeply")


# External data.


def test_external_data_is_checked_but_not_read(external):
    source = load_model(external)
    assert source.model.graph.initializer[0].data_location == TensorProto.EXTERNAL
    assert not source.model.graph.initializer[0].raw_data


def test_a_folder_with_a_line_break_in_its_name_is_escaped(external):
    folder = external.parent.rename(external.parent.parent / "a\nb")
    (folder / "w.bin").unlink()
    with pytest.raises(UserError, match=r"a\\nb.*a\\nb'; expected a file beside") as caught:
        load_model(folder / "m.onnx")
    assert "\n" not in str(caught.value)


def test_external_file_missing(external):
    (external.parent / "w.bin").unlink()
    refused(external, "'w'", "'w.bin'", "beside the model")


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "/etc/hostname", "..", "a\\..\\w.bin"])
def test_external_location_outside(external, location):
    (external.parent.parent / "w.bin").write_bytes(bytes(24))

    def change(tensor):
        entry(tensor, "location").value = location

    edit(external, change)
    refused(external, "outside the model's folder")


@pytest.mark.parametrize("kind", ["symlink", "hard link", "folder symlink"])
def test_external_link_out(external, kind):
    outside = external.parent.parent / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(bytes(24))
    (external.parent / "w.bin").unlink()
    if kind == "symlink":
        (external.parent / "w.bin").symlink_to(outside / "w.bin")
    elif kind == "hard link":
        os.link(outside / "w.bin", external.parent / "w.bin")
    else:
        (external.parent / "sub").symlink_to(outside)

        def change(tensor):
            entry(tensor, "location").value = "sub/w.bin"

        edit(external, change)
    refused(external, "a link")


def test_external_data_that_becomes_a_link_after_the_check_is_not_read(external):
    source = load_model(external)
    (tensor,) = source.model.graph.initializer
    assert read_external(tensor, external.parent) == np.ones(6, np.float32).tobytes()
    outside = external.parent.parent / "secret"
    (external.parent / "w.bin").rename(outside)
    (external.parent / "w.bin").symlink_to(outside)
    with pytest.raises(UserError, match="a link"):
        read_external(tensor, external.parent)
    with pytest.raises(UserError, match="a link"):
        carry_external_data(["w.bin"], external.parent, external.parent.parent)


def test_a_copy_of_external_data_is_for_those_that_could_read_it(external, tmp_path):
    (tmp_path / "other").mkdir()
    for mode in (0o600, 0o640):
        (external.parent / "w.bin").chmod(mode)
        (copy,) = carry_external_data(["w.bin"], external.parent, tmp_path / "other")
        assert copy.stat().st_mode & 0o777 == mode
        copy.unlink()


def test_external_folder_that_is_a_file(external):
    edit(external, lambda tensor: setattr(entry(tensor, "location"), "value", "w.bin/w.bin"))
    refused(external, "cannot be read")


@pytest.mark.parametrize("location", ["", ".", "./", "w.bin\0", "a" * 5000])
def test_external_locations_without_a_file(external, location):
    edit(external, lambda tensor: setattr(entry(tensor, "location"), "value", location))
    refused(external, "'w'")


def test_external_entries_twice_or_not_text(external):
    edit(external, lambda tensor: tensor.external_data.add(key="location", value="other.bin"))
    refused(external, "twice")
    external.write_bytes(external.read_bytes().replace(b"other.bin", b"oth\xff\xfe.bin").replace(b"w.bin", b"\xff.bin"))
    refused(external, "'w'")
    model = onnx.load(external, load_external_data=False)
    del model.graph.initializer[0].external_data[1:]
    external.write_bytes(model.SerializeToString())
    refused(external, "not UTF-8")


def test_external_data_of_training_is_found(external):
    model = onnx.load(external, load_external_data=False)
    entry(model.graph.initializer[0], "location").value = "../w.bin"
    clean = model_of([relu()])
    clean.training_info.add().algorithm.initializer.append(model.graph.initializer[0])
    external.write_bytes(clean.SerializeToString())
    refused(external, "outside the model's folder")


def test_external_pipe_does_not_hang(external):
    (external.parent / "w.bin").unlink()
    os.mkfifo(external.parent / "w.bin")
    refused(external, "not a regular file")


@pytest.mark.parametrize(
    ("key", "value"),
    [("offset", "8"), ("offset", "-8"), ("offset", "x"), ("offset", "9" * 30), ("length", "20"), ("length", "1000")],
)
def test_external_extent_beyond_the_file(external, key, value):
    edit(external, lambda tensor: setattr(entry(tensor, key), "value", value))
    refused(external, "'w'")


def test_external_tensor_larger_than_its_data(external):
    def change(tensor):
        tensor.dims[:] = [1 << 40]

    edit(external, change)
    refused(external, f"needs {4 << 40} bytes")


@pytest.mark.parametrize("dims", [[-1, 2], [1 << 62] * 4, [1 << 62] * 100_000])
def test_external_tensor_of_impossible_size(external, dims):
    def change(tensor):
        tensor.dims[:] = dims

    edit(external, change)
    refused(external, "'w'", "dims")


def test_external_data_in_a_subgraph_and_a_function_is_found(external):
    model = onnx.load(external, load_external_data=False)
    tensor = model.graph.initializer[0]
    entry(tensor, "location").value = "../w.bin"
    constant = helper.make_node("Constant", [], ["c"])
    constant.attribute.append(helper.make_attribute("value", tensor))
    clean = model_of([relu()])
    clean.functions.append(helper.make_function("d", "F", [], ["c"], [constant], [helper.make_opsetid("", 18)]))
    external.write_bytes(clean.SerializeToString())
    refused(external, "outside the model's folder")


# Structure.


def view_refused(model, *words):
    with pytest.raises(UserError) as caught:
        GraphView(model, "m.onnx")
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in ("m.onnx", *words)), str(caught.value)


def test_two_nodes_write_one_name():
    view_refused(model_of([relu(name="a"), relu(name="b")]), "'b'", "'y'", "'a'", "unique names")


def test_a_node_overwrites_an_initializer_or_input():
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "y")
    view_refused(model_of([relu()], initializers=[weights]), "'y'", "an initializer")
    view_refused(model_of([relu(target="x")]), "'x'", "a graph input")


def test_duplicate_inputs_and_initializers():
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    view_refused(model_of([relu()], inputs=("x", "x")), "two inputs", "'x'")
    view_refused(model_of([relu()], initializers=[weights, weights]), "two initializers", "'w'")


def test_an_initializer_may_be_the_default_of_an_input():
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "x")
    assert GraphView(model_of([relu()], initializers=[weights])).main.initializer("x") is None


@pytest.mark.parametrize("length", [1, 2])
def test_cycle(length):
    nodes = [relu("y", "y", "a")] if length == 1 else [relu("b", "y", "a"), relu("y", "b", "b")]
    view_refused(model_of(nodes), "cycle")


def test_cycle_through_a_subgraph():
    branch = branch_of(relu("y", "inner"))
    node = helper.make_node("If", ["x"], ["y"], name="c", then_branch=branch, else_branch=branch)
    view_refused(model_of([node]), "'c'", "cycle")


def test_unsorted_nodes_are_not_reported_as_a_cycle():
    view = GraphView(model_of([relu("t", "y", "b"), relu("x", "t", "a")]))
    assert view.main.makers["t"] == 1


def test_undefined_input_and_output():
    view_refused(model_of([relu("q")]), "'r'", "'q'")
    view_refused(model_of([relu()], outputs=("z",)), "'z'")


def test_name_that_is_not_utf8():
    data = model_of([relu("xqq")], inputs=("xqq",)).SerializeToString().replace(b"xqq", b"x\xff\xfe")
    view_refused(onnx.ModelProto.FromString(data), "not UTF-8")


def test_a_name_cannot_write_to_the_terminal():
    view_refused(model_of([relu("\x1b[2Jq")]), "\\x1b[2Jq")


def test_graphs_nested_in_memory_beyond_the_limit():
    model = nested(70)
    del model.graph.node[0]
    view_refused(model, "nested")


def test_captured_name_is_a_use_in_its_defining_graph():
    branch = branch_of(relu("t", "inner"))
    nodes = [relu("x", "t"), helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    view = GraphView(model_of(nodes, inputs=("x", "c")))
    assert [use.scope.number for use in view.uses(view.main, "t")] == [1, 2]
    assert not view.leaves(view.main, "t")
    assert view.leaves(view.main, "y")
