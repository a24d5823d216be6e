"""Test lists of tensors, scalars and optional outputs: the operators run on the twin, and wrong calls are rejected."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.new import new_project
from opforge.codegen.project import find_project
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.semantics import Call, check, infer
from opforge.codegen.views.facts import aclnn_signature
from opforge.frontend.ge.messages import message
from opforge.frontend.ir.attributes import named_inputs, named_outputs
from opforge.frontend.ir.reason import Unmatched
from opforge.twin import AclnnError, run
from opforge.twin.build import application_flags, build_project

pytestmark = pytest.mark.slow

LISTS = Path(__file__).parent / "lists"
SHAPES = ((40, 300), (7,), (3, 5, 11), ())


@pytest.fixture(scope="session")
def project(once):
    """Return a project with both operators and their kernels."""
    return once("lists", write_lists) / "add_lists"


def write_lists(parent):
    folder = new_project("AddLists", parent / "add_lists", "elementwise")
    (folder / "op_host").mkdir(exist_ok=True)
    for file in LISTS.iterdir():
        place = "op_proto" if file.suffix == ".yaml" else "op_host" if file.stem.endswith("_tiling") else "op_kernel"
        shutil.copy(file, folder / place)
        if "add_lists" in file.name:
            text = _in_place(file.read_text())
            (folder / place / file.name.replace("add_lists", "add_to_lists")).write_text(text)


def _in_place(text):
    """Return a file of AddLists for the operator AddToLists, which overwrites x."""
    for old, new in (
        ("AddLists", "AddToLists"),
        ("add_lists", "add_to_lists"),
        ("ADD_LISTS", "ADD_TO_LISTS"),
        ("{name: z, ", "{name: z, ir: x, "),
        ("dtypes: [float16, float32]", "dtypes: [float32]"),
        ("{x: x, y: y, alpha: alpha, out: z}", "{xRef: x, y: y, alpha: alpha}"),
    ):
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def specs():
    return {spec.op_type: spec for spec in load_specs(sorted(LISTS.glob("*.yaml")))}


def arrays(shapes, dtype, seed=3):
    generator = np.random.default_rng(seed)
    return [np.asarray(generator.standard_normal(shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("isolate", [False, True])
def test_lists_are_added(project, dtype, isolate):
    x, y = arrays(SHAPES, dtype, 1), arrays(SHAPES, dtype, 2)
    z = run("AddLists", {"x": x, "y": y, "alpha": 0.5}, project=find_project(project), isolate=isolate)["z"]
    assert [array.shape for array in z] == list(SHAPES)
    for left, right, got in zip(x, y, z, strict=True):
        np.testing.assert_array_equal(got, left + (right * dtype(0.5)).astype(dtype))


def test_many_tensors_and_strided_ones(project):
    x = [array.T for array in arrays([(6, 20 + index) for index in range(4)], np.float32)]
    outputs = [np.full((array.shape[0], 12), 7, np.float32)[:, ::2] for array in x]
    run("AddLists", {"x": x, "y": x, "alpha": -1}, outputs={"z": outputs}, project=find_project(project))
    for array in outputs:
        np.testing.assert_array_equal(array, 0)
        np.testing.assert_array_equal(array.base[:, 1::2], 7)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("has_biases", [False, True])
@pytest.mark.parametrize("has_copy", [False, True])
def test_rows_are_split(project, dtype, has_biases, has_copy):
    (x,), biases, factors = arrays([(12, 300)], dtype), arrays([(300,)] * 3, dtype, 4), [0.5, 2.0, -1.0]
    inputs = {"x": x, "factors": factors, "biases": biases if has_biases else None}
    outputs = {} if has_copy else {"copy": None}
    result = run("SplitRows", inputs, {"sizes": [4, 1, 7]}, outputs=outputs, project=find_project(project))
    assert ("copy" in result) == has_copy
    if has_copy:
        np.testing.assert_array_equal(result["copy"], x)
    parts = np.split(x, [4, 5])
    for part, factor, bias, got in zip(parts, factors, biases, result["y"], strict=True):
        scaled = (part * dtype(factor)).astype(dtype)
        np.testing.assert_array_equal(got, scaled + bias if has_biases else scaled)


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"x": None}, 161001, "x: got no tensors, expected a list of tensors [C1]"),
        ({"x": []}, 161001, "x: got no tensors, expected a list of tensors [C1]"),
        ({"alpha": None}, 161001, "alpha: got null, expected a tensor [C1]"),
        ({"y": [np.zeros(3, np.float32), np.zeros(4, np.float16)]}, 161002, "y[1]: got float16, expected float32, th"),
        ({"x": [np.zeros(3, np.int8)] * 2}, 161002, "x[0]: got int8, expected float16 or float32 [C2]"),
        ({"y": [np.zeros(3, np.float32)]}, 161002, "y: got 1 tensor, expected 2, the number of tensors in x [C3]"),
        ({"y": [np.zeros(3, np.float32)] * 2}, 161002, "y[1]: got shape [3], expected [*S] = [4] [C4]"),
        (
            {name: [np.zeros(1, np.float32)] * 5 for name in "xy"},
            161002,
            "x: got 5 tensors [1], [1], [1], [1], [1], expected at most 4 tensors [C5]",
        ),
    ],
)
def test_wrong_lists_are_rejected_with_equal_words(project, specs, change, status, message):
    tensors = [np.zeros(3, np.float32), np.zeros(4, np.float32)]
    inputs = {"x": tensors, "y": tensors, "alpha": 1.0} | change
    with pytest.raises(AclnnError) as caught:
        run("AddLists", inputs, project=find_project(project))
    assert caught.value.status == status
    assert message in str(caught.value)
    given = {name: value for name in "xy" for name, value in _flat(name, inputs[name]).items()}
    shapes = {name: array.shape for name, array in given.items() if array is not None}
    shapes |= {} if inputs["alpha"] is None else {"alpha": (1,)}
    dtypes = {name: array.dtype.name for name, array in given.items() if array is not None}
    counts = {name: len(inputs[name] or ()) for name in "xy"}
    violation = check(specs["AddLists"], Call(shapes, dtypes, counts=counts), with_outputs=False)
    assert message in violation.message


def _flat(name, value):
    return {f"{name}[{index}]": array for index, array in enumerate(value or ())}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": np.zeros(3, np.float32)}, "x: got ndarray, expected a list of arrays, as in [a, b]"),
        ({"alpha": [1.0, 2.0]}, "alpha: got an array of shape (2,), expected one number"),
        ({"y": [None]}, "a list of tensors has no null pointers"),
        ({"z": []}, "got input 'z'; expected one of alpha, x, y"),
    ],
)
def test_wrong_values_are_rejected(project, inputs, message):
    tensors = [np.zeros(3, np.float32)]
    with pytest.raises(UserError) as caught:
        run("AddLists", {"x": tensors, "y": tensors, "alpha": 1.0} | inputs, project=find_project(project))
    assert message in str(caught.value)


def test_wrong_number_of_outputs_is_rejected(project):
    (x,) = arrays([(4, 8)], np.float32)
    outputs = {"y": [np.zeros((4, 8), np.float32)]}
    with pytest.raises(AclnnError, match=r"y: got 1 tensor, expected len\(sizes\) = 2 \[C3\]"):
        run("SplitRows", {"x": x, "factors": [1, 2]}, {"sizes": [2, 2]}, outputs=outputs, project=find_project(project))


def test_shapes_follow_the_lists(specs):
    call = Call({"x[0]": (2, 3), "x[1]": (-1, 4), "y[0]": (2, 3), "y[1]": None, "alpha": (1,)}, {"x[0]": "float16"})
    types = infer(specs["AddLists"], call)
    assert {name: (of.shape, of.dtype) for name, of in types.items()} == {
        "z[0]": ((2, 3), "float16"),
        "z[1]": ((-1, 4), "float16"),
    }
    types = infer(specs["SplitRows"], Call({"x": (5, 7), "factors": (2,)}, {"x": "float32"}, {"sizes": (2, 3)}))
    assert [of.shape for of in types.values()] == [(2, 7), (3, 7), (5, 7)]


def test_functions_have_lists_and_scalars(specs):
    params = aclnn_signature(specs["AddLists"], "aclnnAddLists")
    assert [param.c_type for param in params] == [
        "const aclTensorList *",
        "const aclTensorList *",
        "const aclScalar *",
        "aclTensorList *",
    ]
    params = aclnn_signature(specs["SplitRows"], "aclnnSplitRows")
    assert [param.c_type for param in params] == [
        "const aclTensor *",
        "const aclScalarList *",
        "const aclTensorList *",
        "const aclIntArray *",
        "aclTensorList *",
        "aclTensor *",
    ]


def test_definitions_declare_the_lists(specs):
    files = {path: text for spec in specs.values() for path, text in render(spec)}
    assert ".DYNAMIC_INPUT(x, TensorType({DT_FLOAT16, DT_FLOAT}))" in files["op_proto/add_lists_proto.h"]
    definition = files["op_host/split_rows_def.cpp"].split()
    for name, option in (("x", "REQUIRED"), ("factors", "REQUIRED"), ("biases", "DYNAMIC"), ("y", "DYNAMIC")):
        place = next(i for i, word in enumerate(definition) if f'("{name}")' in word)
        assert f".ParamType({option})" in definition[place : place + 3]
    assert ".ParamType(OPTIONAL)" in definition[definition.index('this->Output("copy")') :][1]
    assert ".ScalarList()" in definition


def node(inputs, outputs, **attrs):
    return helper.make_node("AddLists", inputs, outputs, domain="opforge", **attrs)


def test_node_assigns_its_tensors_to_lists(specs):
    spec, given = specs["AddLists"], node(list("abcds"), list("ef"), list_sizes=[2, 2, 2])
    assert named_inputs(spec, given) == {"x[0]": "a", "x[1]": "b", "y[0]": "c", "y[1]": "d", "alpha": "s"}
    assert named_outputs(spec, given) == {"z[0]": "e", "z[1]": "f"}
    split = helper.make_node("SplitRows", ["x", "f", "p", "q"], ["a", "b", "c"], domain="opforge", sizes=[1, 2])
    assert named_inputs(specs["SplitRows"], split) == {"x": "x", "factors": "f", "biases[0]": "p", "biases[1]": "q"}
    assert named_outputs(specs["SplitRows"], split) == {"y[0]": "a", "y[1]": "b", "copy": "c"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (node(["a", "b", "s"], ["c"]), "has no attribute list_sizes, expected the numbers of tensors in x, y"),
        (node(["a", "b", "s"], ["c"], list_sizes=[2, 1, 1]), "has 3 inputs, expected 4: x, y, alpha"),
        (node(["a", "b", "s"], ["c"], list_sizes=[1, 1]), "expected the numbers of tensors in x, y, z"),
        (node(["a", "b", "s"], ["c"], list_sizes=[-1, 3, 1]), "expected the numbers of tensors in x, y, z"),
    ],
)
def test_node_with_wrong_numbers_is_rejected(specs, given, message):
    with pytest.raises(Unmatched) as caught:
        named_inputs(specs["AddLists"], given)
    assert message in str(caught.value)


def test_model_with_lists_runs_and_converts(opforge_in, project, tmp_path):
    generator = np.random.default_rng(9)
    shapes = {"a": [8, 32], "b": [5], "c": [8, 32], "d": [5], "s": [1], "factors": [2], "p": [32], "q": [32]}
    split = helper.make_node("SplitRows", ["e", "factors", "p", "q"], ["g", "h", "k"], domain="opforge", sizes=[3, 5])
    add = node(list("abcds"), list("ef"), list_sizes=[2, 2, 2])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in shapes.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "fghk"]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)]
    graph = helper.make_graph([add, split], "lists", values, results)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    inputs = {name: generator.standard_normal(dims).astype(np.float32) for name, dims in shapes.items()}
    np.savez(tmp_path / "in.npz", **inputs)
    model, made = tmp_path / "model.onnx", tmp_path / "made.onnx"
    assert opforge_in(project, "convert", model, "-o", made).returncode == 0
    for source in (model, made):
        files = "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
        assert opforge_in(project, "run", source, *files).returncode == 0
        got = np.load(tmp_path / "out.npz")
        total = inputs["a"] + inputs["s"] * inputs["c"]
        np.testing.assert_array_equal(got["f"], inputs["b"] + inputs["s"] * inputs["d"])
        np.testing.assert_array_equal(got["g"], inputs["factors"][0] * total[:3] + inputs["p"])
        np.testing.assert_array_equal(got["h"], inputs["factors"][1] * total[3:] + inputs["q"])
        np.testing.assert_array_equal(got["k"], total)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("add_lists", "alpha: [1]", "alpha: [N]", "got 1 dimensions, expected [1] for a scalar"),
        ("add_lists", "z: ['*S']", "z: [4]", "has no symbol of the tensors of an input list, expected one, or the key"),
        ("add_lists", "len(x) <= 4", "prod(x) <= 4", "the list 'x' in 'prod(x)'; expected one of its tensors"),
        ("add_lists", "len(x) <= 4", "prod(S) <= 4", "'prod(S)' of an unknown tensor; expected one of alpha"),
        ("add_lists", "name: x, dynamic", "name: x, host_values: true, dynamic", "got this key, expected none with"),
        ("add_lists", "name: z, dynamic", "name: z, scalar: one, dynamic", "expected no 'scalar' with an output"),
        ("add_lists", "[[5000]]", "[5000]", "expected a list of dimensions for each tensor of the list"),
        ("split_rows", "count: len(sizes)", "count: N + Q", "unknown name 'Q'"),
        ("split_rows", "count: len(sizes)", "count: 0 * N", "expected dimensions of at least 0"),
        (
            "split_rows",
            "name: copy, optional",
            "name: copy, count: 2, optional",
            "expected it only with an output that",
        ),
        ("split_rows", "counts: {biases: 1}, ", "", "'biases' is missing in 'counts', expected its number of tensors"),
        ("split_rows", "factors: [len(sizes)]", "factors: [2, 2]", "expected one, as in [N], for a list of scalars"),
    ],
)
def test_invalid_specs_are_rejected(tmp_path, file, old, new, message):
    text = (LISTS / f"{file}.yaml").read_text()
    assert old in text
    changed = tmp_path / f"{file}.yaml"
    changed.write_text(text.replace(old, new))
    with pytest.raises(UserError) as caught:
        load_specs([changed])
    assert message in str(caught.value)


def test_list_in_place_is_overwritten(project):
    x, y = arrays(SHAPES, np.float32, 1), arrays(SHAPES, np.float32, 2)
    before = [array.copy() for array in x]
    inputs = {"x": x, "y": y, "alpha": 0.5}
    got = run("AddToLists", inputs, project=find_project(project))["z"]
    for left, right, was, result in zip(x, y, before, got, strict=True):
        np.testing.assert_array_equal(result, was + right * np.float32(0.5))
        np.testing.assert_array_equal(left, was)


def test_list_in_place_is_one_parameter_of_a_list(project, tmp_path):
    text = (project / "op_proto" / "add_to_lists.yaml").read_text()
    (spec,) = load_specs([project / "op_proto" / "add_to_lists.yaml"])
    params = aclnn_signature(spec, "aclnnAddToLists")
    assert [(param.kind, param.c_type) for param in params if param.of == "x"] == [("in_place", "aclTensorList *")]
    changed = tmp_path / "add_to_lists.yaml"
    changed.write_text(text.replace("{name: z, ir: x, dynamic: true", "{name: z, ir: x"))
    with pytest.raises(UserError, match="expected two lists of tensors or none; write 'dynamic' with both"):
        load_specs([changed])


@pytest.fixture
def opforge_in(opforge):
    return lambda folder, *words: opforge(*words, cwd=folder)


def test_profile_has_a_shape_for_each_tensor(opforge_in, project):
    shapes = "x=4x8,x=3,y=4x8,y=3,alpha=1"
    result = opforge_in(project, "profile", "AddLists", "--shape", shapes, "--json", "-")
    assert result.returncode == 0, result.stderr
    assert '"x[1]": [\n' in result.stdout
    for words, expected in (
        (["--case", "a", "S=4"], "--case: got an operator with the lists of tensors x, y, expected --shape"),
        (["--shape", "x=4,alpha=1,alpha=1"], "--shape: got alpha twice, expected it once"),
        (["--shape", "x=4,alpha=1"], "--shape: got no shape of y, expected one for each required input"),
    ):
        result = opforge_in(project, "profile", "AddLists", *words)
        assert result.returncode == 2
        assert expected in result.stderr


def test_library_for_onnxruntime_names_the_operators_that_it_cannot_have(opforge_in, project, tmp_path):
    result = opforge_in(project, "ort-library", "-o", tmp_path / "lib.so")
    assert result.returncode == 2
    assert "got AddLists: lists of tensors (x, y, z), scalars (alpha); AddToLists: lists of tensors" in result.stderr
    assert "optional outputs (copy); expected at least one with a kernel" in result.stderr
    assert not (tmp_path / "lib.so").exists()


def test_pytorch_names_the_operators_that_it_cannot_have(project):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'opforge[torch]'")
    from opforge.torch import register_project

    with pytest.warns(UserWarning, match=r"not registered: AddLists: lists of tensors \(x, y, z\), scalars .*twin.run"):
        register_project(find_project(project))


def test_tune_searches_the_constants_of_an_operator_with_lists(opforge_in, project, tmp_path):
    others = shutil.ignore_patterns("build", "split_rows*", "add_to_lists*")
    other = shutil.copytree(project, tmp_path / "other", ignore=others)
    spec, plan = other / "op_proto" / "add_lists.yaml", other / "op_host" / "add_lists_tiling.h"
    constants = "tiling:\n  constants:\n    - {name: tile, value: 64, choices: [64, 2048, 1000000]}\n"
    spec.write_text(spec.read_text().replace("tiling:\n", constants))
    text = plan.read_text()
    assert "constexpr int64_t kTile = 4096;" in text
    plan.write_text(text.replace("constexpr int64_t kTile = 4096;", "constexpr int64_t kTile = add_lists::kTile;"))
    shapes = "x=40x300,x=7,y=40x300,y=7,alpha=1"
    result = opforge_in(other, "tune", "AddLists", "--shape", shapes, "--json", tmp_path / "t.json")
    assert result.returncode == 0, result.stderr
    answer = json.loads((tmp_path / "t.json").read_text())
    assert answer["best"]["setting"] == {"tile": 2048}
    assert answer["best"]["estimate_us"] < answer["before"]["estimate_us"]
    assert {row["setting"]["tile"]: row["status"] for row in answer["settings"]}[1000000] == "rejected"
    result = opforge_in(other, "tune", "AddLists", "--shape", "x=4,y=5,alpha=1")
    assert result.returncode == 2
    assert "the call does not run with the values of the spec" in result.stderr
    assert "y[0]: got shape [5], expected [*S] = [4] [C4]" in result.stderr


@pytest.fixture
def list_model(tmp_path):
    """Write a model with a node of each operator with lists; return its path and inputs."""
    shapes = {"a": [40], "b": [7], "s": [1], "x": [3, 8], "f": [2]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("AddLists", list("ababs"), ["c", "d"], "add", domain="opforge", list_sizes=[2, 2, 2]),
        helper.make_node("SplitRows", ["x", "f"], ["p", "q", "r"], "split", domain="opforge", sizes=[1, 2]),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "cdpqr"]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)]
    graph = helper.make_graph(nodes, "g", values, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    draw = np.random.default_rng(6)
    inputs = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    np.savez(tmp_path / "in.npz", **inputs)
    return tmp_path / "m.onnx", inputs


def test_ge_graphs_have_lists(opforge_in, project, list_model, tmp_path):
    path, inputs = list_model
    result = opforge_in(project, "convert", path, "-o", tmp_path / "m.air")
    assert result.returncode == 0, result.stderr
    model = message("ModelDef")
    model.ParseFromString((tmp_path / "m.air").read_bytes())
    ops = {op.name: op for op in model.graph[0].op}
    assert [descriptor.name for descriptor in ops["add"].input_desc] == ["x0", "x1", "y0", "y1", "alpha"]
    assert [descriptor.name for descriptor in ops["add"].output_desc] == ["z0", "z1"]
    assert [descriptor.name for descriptor in ops["split"].output_desc] == ["y0", "y1", "copy"]
    (tmp_path / "m.pbtxt").write_text(str(model))
    for name in ("m.air", "m.pbtxt"):
        checked = opforge_in(project, "check", tmp_path / name)
        assert checked.returncode == 0, checked.stdout
        words = "run", tmp_path / name, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
        ran = opforge_in(project, *words)
        assert ran.returncode == 0, ran.stderr
        got = np.load(tmp_path / "out.npz")
        right = inputs["s"]
        for array, source in zip(list(got.values())[:2], (inputs["a"], inputs["b"]), strict=True):
            np.testing.assert_array_equal(array, source + source * right)
        first, second, copy = list(got.values())[2:]
        np.testing.assert_array_equal(np.concatenate([first, second]), inputs["x"] * inputs["f"][[0, 1, 1], None])
        np.testing.assert_array_equal(copy, inputs["x"])


@pytest.mark.parametrize(
    ("ports", "message_"),
    [
        (
            ["x0", "x2", "y0", "y1", "alpha"],
            "has 5 inputs: 'x0, x2, y0, y1, alpha'; expected those of the spec: x0,",
        ),
        (["x0", "x1", "y0", "beta", "alpha"], "has 5 inputs: 'x0, x1, y0, beta, alpha'"),
        (["x", "y", "alpha"], "has 5 inputs: 'x, y, alpha'"),
        (["x0", "x1", "y0", "alpha", "alpha"], "has 5 inputs: ''"),
        ([], "has 5 inputs: ''; expected those of the spec: x0, ..., y0, ..., alpha"),
    ],
)
def test_wrong_ports_of_lists_are_rejected(opforge_in, project, list_model, tmp_path, ports, message_):
    assert opforge_in(project, "convert", list_model[0], "-o", tmp_path / "m.air").returncode == 0
    model = message("ModelDef")
    model.ParseFromString((tmp_path / "m.air").read_bytes())
    (op,) = (op for op in model.graph[0].op if op.name == "add")
    kept = [entry for entry in op.attr if not entry.key.startswith("_input_name")]
    del op.attr[:]
    op.attr.extend(kept)
    del op.input_desc[len(ports) :]
    for descriptor, port in zip(op.input_desc, ports, strict=True):
        descriptor.name = port
    (tmp_path / "m.air").write_bytes(model.SerializeToString())
    result = opforge_in(project, "check", tmp_path / "m.air")
    assert result.returncode == 2
    assert f"node 'add' ('AddLists'): {message_}" in result.stderr


def test_subgraphs_of_ge_are_one_message(opforge_in, project, tmp_path):
    model = message("ModelDef")
    model.graph.add().op.add(name="if", type="If", subgraph_name=["then", "else"])
    model.graph.add(name="then")
    (tmp_path / "m.pbtxt").write_text(str(model))
    for command in ("check", "run", "convert"):
        more = ["-o", tmp_path / "o.air"] if command == "convert" else []
        result = opforge_in(project, command, tmp_path / "m.pbtxt", *more)
        assert result.returncode == 2
        (line,) = result.stderr.splitlines()
        assert line.endswith("got 2 graphs, expected 1; opforge does not read the subgraphs of node 'if' ('If'); export"
                             " the model to ONNX")  # fmt: skip
        assert not (tmp_path / "o.air").exists()


def printed_numbers(text):
    return {
        name: np.array(numbers.split(), float) for name, numbers in re.findall(r"^(\S+): (.*)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("op_type", ["AddLists", "SplitRows"])
def test_example_programs_run(project, specs, op_type, tmp_path):
    spec = specs[op_type]
    files = dict(render(spec))
    source, program = tmp_path / "example.cpp", tmp_path / "example"
    source.write_text(files[f"docs/aclnn{op_type}.cpp"])
    built = find_project(project)
    build_project(built)
    command = [os.environ.get("CXX", "g++"), "-Wall", "-Wextra", "-Werror", str(source), *application_flags(built)]
    for step in ([*command, "-o", str(program)], [str(program)]):
        result = subprocess.run(step, check=False, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    got = printed_numbers(result.stdout)
    cycle = 1.0 + np.arange(12 * 300) % 7
    if op_type == "AddLists":  # x + alpha * y, with alpha = 1
        assert list(got) == ["out[0]", "out[1]", "out[2]"]
        np.testing.assert_array_equal(got["out[0]"], [2, 4, 6, 8, 2 * (11999 % 7 + 1)])
        np.testing.assert_array_equal(got["out[1]"], [2, 4, 6, 8, 14])
        np.testing.assert_array_equal(got["out[2]"], [2, 4, 6, 8, 2 * (164 % 7 + 1)])
        return
    x, bias = cycle.reshape(12, 300), cycle[:300]
    results = {f"yOut[{i}]": (i + 1) * part + bias for i, part in enumerate(np.split(x, [4, 5]))}
    results["copyOutOptional"] = x
    assert list(got) == list(results)
    for name, array in results.items():
        np.testing.assert_array_equal(got[name], array.ravel()[[0, 1, 2, 3, -1]])


@pytest.mark.parametrize("op_type", ["AddLists", "SplitRows"])
def test_python_examples_run(project, specs, op_type, monkeypatch, capsys):
    monkeypatch.chdir(project)
    page = dict(render(specs[op_type]))[f"docs/aclnn{op_type}.md"]
    codes = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    call, made = (next(code for code in codes if word in code) for word in ("opforge.twin", "make_node"))
    exec(compile(call, "page", "exec"), {})  # noqa: S102  # the page tells the reader to run it
    assert "[(40, 300), (7,), (3, 5, 11)]" in (out := capsys.readouterr().out) or "[(4, 300), (1, 300)" in out
    names = {}
    exec(compile(made, "page", "exec"), names)  # noqa: S102  # as above
    found = named_inputs(specs[op_type], names["node"])
    assert {"x[2]": "x_2", "y[0]": "y_0", "alpha": "alpha"}.items() <= found.items() or found["biases[2]"] == "biases_2"
