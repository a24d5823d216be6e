"""Test drafts of specs from nodes of ONNX models."""

import numpy as np
import onnx
import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.spec.loader import load_specs
from opforge.frontend import convert
from opforge.frontend.node_draft import node_draft


def only_spec(folder):
    (file,) = (folder / "op_proto").glob("*.yaml")
    (spec,) = load_specs([file])
    return spec


def test_node_of_a_model_becomes_a_project(tmp_path):
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, "n"]) for name in "xy")
    node = onnx.helper.make_node("soft_clip", ["x", "w:0"], ["y"], name="clip", domain="my.ops", limit=2.5, axes=[1])
    weight = onnx.numpy_helper.from_array(np.zeros(3, np.float16), "w:0")
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weight])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my.ops", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    found = node_draft(tmp_path / "m.onnx", "clip")
    assert [(t.name, t.dtypes, t.ranks) for t in found.tensors] == [
        ("x", ("float32",), (2, 2)),
        ("x2", ("float16",), (1, 1)),
        ("y", ("float32",), (2, 2)),
    ]
    write_project([found], tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert (spec.op_type, spec.attr("limit").type) == ("Softclip", "float")
    with pytest.raises(UserError, match="did you mean 'clip'"):
        node_draft(tmp_path / "m.onnx", "clop")


def save_nodes(file, nodes, functions=(), outputs="y"):
    values = {
        name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in ("x", *outputs)
    }
    graph = onnx.helper.make_graph(nodes, "g", [values["x"]], [values[name] for name in outputs])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my.ops", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)
    onnx.save(model, file)
    return file


def own_node(inputs, outputs, op_type="Clip", **attributes):
    return onnx.helper.make_node(op_type, inputs, outputs, domain="my.ops", **attributes)


def test_node_keeps_absent_tensors_and_names_its_values(tmp_path):
    node = own_node(
        ["x", "", "x", ""],
        ["a", "", "y"],
        x2=3,
        sizes=[1, 2],
        text="t",
        weight=onnx.numpy_helper.from_array(np.zeros(2)),
    )
    found = node_draft(save_nodes(tmp_path / "m.onnx", [node], outputs="ay"), "Clip")
    assert [(t.name, t.option) for t in found.inputs] == [("x", "required"), ("x2_2", "optional"), ("x3", "required")]
    assert [(t.name, t.option) for t in found.outputs] == [("a", "required"), ("y2", "optional"), ("y", "required")]
    notes = {note.text for note in found.notes}
    assert {"attribute sizes: the node has the value [1, 2]", "attribute text: the node has the value 't'"} <= notes
    assert any(note.startswith("attribute weight: got tensor, expected int, float, string") for note in notes)
    write_project([found], tmp_path / "made")
    assert only_spec(tmp_path / "made").onnx.aliases == ("my.ops::Clip",)


def test_node_of_an_inner_graph_or_function_or_output_is_found(tmp_path):
    inner = onnx.helper.make_graph([own_node(["x"], ["z"], "Inner")], "i", [], [onnx.ValueInfoProto(name="z")])
    function = onnx.helper.make_function(
        "my.ops", "Twice", ["a"], ["b"], [own_node(["a"], ["b"], "Once")], [onnx.helper.make_opsetid("my.ops", 1)]
    )
    nodes = [own_node(["x"], ["a"], body=inner), own_node(["a"], ["y"], "Twice"), own_node(["y"], ["w"], "Twice")]
    file = save_nodes(tmp_path / "m.onnx", nodes, [function])
    assert [(t.name, t.dtypes) for t in node_draft(file, "Inner").inputs] == [("x", ("float32",))]
    assert [t.name for t in node_draft(file, "Once").inputs] == ["a"]
    assert [t.name for t in node_draft(file, "w").inputs] == ["y"]
    message = "got 2 nodes with the name or type 'Twice', expected one; name an output: 'y', 'w'"
    with pytest.raises(UserError, match=message):
        node_draft(file, "Twice")


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (own_node([], []), "got a node 'Clip' without inputs, outputs and attributes, expected one of them at least"),
        (
            onnx.NodeProto(op_type="Clip", output=["y"], attribute=[onnx.helper.make_attribute("n", 1)] * 2),
            "got the attribute 'n' again, expected each attribute once; correct the model",
        ),
    ],
)
def test_node_that_no_spec_can_describe_is_one_message(node, words, tmp_path):
    with pytest.raises(UserError, match=words):
        node_draft(save_nodes(tmp_path / "m.onnx", [node]), "Clip")


def test_convert_maps_the_imported_node(tmp_path, monkeypatch):
    file = save_nodes(tmp_path / "m.onnx", [own_node(["x"], ["y"])])
    write_project([node_draft(file, "Clip")], tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")
    assert [one.op for one in convert(onnx.load(file)).mapped] == ["Clip"]


@pytest.mark.parametrize(
    ("x", "w", "y", "expected"),
    [
        (["n", 8], [8], ["n", 8], "[S1a, S1b]"),
        ([4, 8], [8, 16], [4, 16], "[S1a, S2b]"),
        ([8, 8], [4], [8, 8, 3], "[S1a, S1b, 3]"),
        (["n", 8], [4], [8, "n"], "[S1b, S1a]"),
        ([2], [3], [], "[]"),
    ],
)
def test_shapes_of_the_model_become_those_of_the_draft(x, w, y, expected, tmp_path):
    shapes = {"x": x, "w": w, "y": y}
    values = {name: onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()}
    graph = onnx.helper.make_graph([own_node(["x", "w"], ["y"])], "g", [values["x"], values["w"]], [values["y"]])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my.ops", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    draft = node_draft(tmp_path / "m.onnx", "Clip")
    assert draft.place == f"{tmp_path / 'm.onnx'}: node 'Clip'"
    write_project([draft], tmp_path / "made")
    (file,) = (tmp_path / "made" / "op_proto").glob("*.yaml")
    assert f", y: {expected}}}}}" in file.read_text()
    assert "# These are the shapes in the model." in file.read_text()
    assert len(only_spec(tmp_path / "made").cases) == 1


@pytest.mark.parametrize("y", [None, ["m"], [None, 3]])
def test_unknown_shapes_of_the_model_have_a_comment(y, tmp_path):
    values = [onnx.helper.make_tensor_value_info(*one) for one in (("x", 1, ["n", 3]), ("y", 1, y))]
    graph = onnx.helper.make_graph([own_node(["x"], ["y"])], "g", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my.ops", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    write_project([node_draft(tmp_path / "m.onnx", "Clip")], tmp_path / "made")
    (file,) = (tmp_path / "made" / "op_proto").glob("*.yaml")
    assert "# The source states no shape of y: replace it. Now it is that of an input." in file.read_text()
