"""Test operators without outputs, which overwrite inputs, and without inputs: all back ends have them."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.importers import op_def
from opforge.codegen.importers.compare import differences, draft_of
from opforge.codegen.importers.sources import read_sources
from opforge.codegen.importers.spec_text import spec_of
from opforge.codegen.new import new_project
from opforge.codegen.project import find_project
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.views.facts import aclnn_signature
from opforge.frontend.ge.messages import message
from opforge.twin import AclnnError, FindingsError, run

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "no_outputs"
REFERENCES = {
    "scale_all": """
    x = [(array * inputs["factor"]).astype(array.dtype) for array in inputs["x"]]
    most = max(int(inputs["most"][0]), *(array.size for array in x))
    return {"x": x, "calls": inputs["calls"] + 1, "most": np.int32([most])}
""",
    "fill_steps": """
    column = attrs["start"] + attrs["step"] * np.arange(attrs["rows"], dtype=np.float32)
    return {"y": np.broadcast_to(column.reshape(-1, *[1] * len(attrs["dims"])), (attrs["rows"], *attrs["dims"]))}
""",
}


@pytest.fixture(scope="session")
def project(once):
    """Return a project with both operators, their kernels and references."""
    return once("no_outputs", write_project) / "add_to"


def write_project(parent):
    folder = new_project("AddTo", parent / "add_to", "elementwise")
    for name in ("op_host", "tests/reference"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    for file in HERE.iterdir():
        place = "op_proto" if file.suffix == ".yaml" else "op_host" if file.stem.endswith("_tiling") else "op_kernel"
        shutil.copy(file, folder / place)
    for name, body in REFERENCES.items():
        text = f"import numpy as np\n\n\ndef reference(inputs, attrs):{body}"
        (folder / "tests" / "reference" / f"{name}.py").write_text(text)


def scaled(dtype):
    x = [np.arange(6).reshape(2, 3).astype(dtype), np.ones(5000, dtype)]
    return {"x": x, "factor": np.array([2], dtype), "calls": np.int32([4]), "most": np.int32([7])}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("isolate", [False, True])
def test_inputs_are_overwritten(project, dtype, isolate):
    inputs = scaled(dtype)
    result = run("ScaleAll", inputs, project=find_project(project), isolate=isolate)
    assert list(result) == ["x", "calls", "most"]
    for before, after in zip(inputs["x"], result["x"], strict=True):
        np.testing.assert_array_equal(after, 2 * before)
    assert (result["calls"], result["most"]) == ([5], [5000])
    np.testing.assert_array_equal(inputs["x"][0].ravel(), np.arange(6))  # the caller's array is not overwritten


def test_strided_and_absent_tensors_are_overwritten(project):
    memory = np.full((6, 20), 7, np.float32)
    inputs = {**scaled(np.float32), "x": [np.ones((6, 10), np.float32)], "most": None}
    result = run("ScaleAll", inputs, outputs={"x": [memory[:, ::2]]}, project=find_project(project))
    assert set(result) == {"x", "calls"}
    np.testing.assert_array_equal(memory, np.tile([2, 7], (6, 10)))


def test_attributes_give_the_shape_of_an_operator_without_inputs(project):
    attrs = {"rows": 3, "dims": [2, 300], "start": 1.5, "step": -0.5}
    result = run("FillSteps", {}, attrs, out_dtypes={"y": np.float16}, project=find_project(project))
    expected = np.broadcast_to(np.array([1.5, 1.0, 0.5], np.float16).reshape(3, 1, 1), (3, 2, 300))
    np.testing.assert_array_equal(result["y"], expected)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "message"),
    [
        ("FillSteps", {}, {"rows": -1, "dims": [2]}, "rows: got -1, expected at least 0 [C3]"),
        ("FillSteps", {}, {"rows": 1, "dims": [1, 2, 3]}, "arguments: got none of the cases"),
        ("ScaleAll", {**scaled(np.float32), "calls": None}, {}, "calls: got null, expected a tensor [C1]"),
        ("ScaleAll", {**scaled(np.float32), "calls": np.int32([1, 2])}, {}, "calls: got shape [2], expected [1]"),
    ],
)
def test_wrong_call_is_rejected(project, name, inputs, attrs, message):
    with pytest.raises(AclnnError) as caught:
        run(name, inputs, attrs, project=find_project(project))
    assert message in str(caught.value)


def test_write_to_another_input_is_a_finding(project, tmp_path):
    other = shutil.copytree(project, tmp_path / "other", ignore=shutil.ignore_patterns("build"))
    spec = other / "op_proto" / "scale_all.yaml"
    text = spec.read_text().replace("{name: calls, overwritten: true,", "{name: calls,")
    spec.write_text(text.replace("callsRef: calls", "calls: calls").replace("calls = calls + 1; ", ""))
    with pytest.raises(FindingsError, match="calls"):
        run("ScaleAll", scaled(np.float32), project=find_project(other))


def test_tests_of_the_project_run_all_calls(project):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_specs.py", "-k", "Scale or Fill"],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout[:4]) == (0, "...."), done.stdout


def test_example_programs_print_the_results(opforge, project, tmp_path):
    assert opforge("build", cwd=project).returncode == 0
    flags = opforge("flags", cwd=project).stdout.split()
    lines = []
    for name in ("ScaleAll", "FillSteps"):
        source = project / "build" / "gen" / "docs" / f"aclnn{name}.cpp"
        subprocess.run(["g++", "-std=c++17", source, "-o", tmp_path / name, *flags], cwd=project, check=True)
        lines += subprocess.run([tmp_path / name], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[-2:] == ["mostRefOptional: 12000", "out: 0 0 0 0 2"]
    assert lines[0] == "xRef[0]: 1 2 3 4 2"


def test_generated_files_declare_no_outputs():
    files = dict(render(load_specs([HERE / "scale_all.yaml"])[0]))
    assert "Output(" not in files["op_host/scale_all_def.cpp"]
    assert "OUTPUT" not in files["op_proto/scale_all_proto.h"]
    assert "OP_OUTPUT" not in files["op_api/scale_all_l0.cpp"]
    assert "op_plugin/scale_all_onnx_plugin.cpp" not in files
    assert "| x | list of inputs, overwritten |" in files["docs/aclnnScaleAll.md"]
    assert "ONNX" not in files["docs/aclnnScaleAll.md"]
    files = dict(render(load_specs([HERE / "fill_steps.yaml"])[0]))
    assert "OP_INPUT" not in files["op_api/fill_steps_l0.cpp"]
    assert "op_plugin/fill_steps_onnx_plugin.cpp" in files


def test_function_has_pointers_to_overwritten_tensors():
    (spec,) = load_specs([HERE / "scale_all.yaml"])
    params = [(param.name, param.c_type, param.kind) for param in aclnn_signature(spec, "aclnnScaleAll")]
    assert params == [
        ("xRef", "aclTensorList *", "in_place"),
        ("factor", "const aclTensor *", "input"),
        ("callsRef", "aclTensor *", "in_place"),
        ("mostRefOptional", "aclTensor *", "in_place"),
    ]


def test_models_cannot_contain_an_operator_without_outputs(opforge, project):
    node = helper.make_node("ScaleAll", ["f"], [], name="n", domain="opforge")
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "fg"]
    graph = helper.make_graph([node, helper.make_node("Identity", ["f"], ["g"])], "g", types[:1], types[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), project / "model.onnx")
    done = opforge("run", "model.onnx", cwd=project)
    assert done.returncode == 2
    assert "unknown operator; ScaleAll has no outputs, so models cannot contain it" in done.stderr


def test_libraries_name_the_operators_that_they_do_not_have(opforge, project):
    lines = opforge("ort-library", "-o", "x.so", cwd=project).stdout
    assert "not in the library: FillSteps: no inputs;" in lines
    assert "ScaleAll: lists of tensors (x), overwritten inputs (x, calls, most), no outputs;" in lines


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("scale_all", "outputs: []", "outputs:\n  - {name: y, dtype: x, dynamic: true}", "expected false with outputs"),
        ("scale_all", "factor, dtype: x", "factor, overwritten: true, scalar: one, dtype: x", "false with 'scalar'"),
        ("scale_all", "calls, over", "calls, casts: {int8: int32}, over", "expected false with 'casts'"),
        ("scale_all", "outputs: []\n", "", "outputs: is missing"),
        ("scale_all", "formula: x[i] =", "formula: y[i] =", "got 'y' on the left side"),
        ("scale_all", "tiling:\n", "onnx: {aliases: ['a.b::ScaleAll']}\ntiling:\n", "the operator has no outputs"),
        ("fill_steps", "inputs: []", "inputs: null", "inputs: "),
        ("fill_steps", "'dims[0]']", "N]", "got 'N', which no input has"),
    ],
)
def test_invalid_specs_are_rejected(tmp_path, name, old, new, message):
    text = (HERE / f"{name}.yaml").read_text()
    assert old in text
    file = tmp_path / f"{name}.yaml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_specs([file])
    assert message in str(caught.value)


OPERATOR = """
class Pulse : public OpDef {
public:
    explicit Pulse(const char* name) : OpDef(name)
    {
        TENSORS
        this->Attr("cycles").Int();
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Pulse);
"""
INPUT = 'this->Input("state").ParamType(REQUIRED).DataType({ge::DT_INT32});'
OUTPUT = 'this->Output("state").ParamType(REQUIRED).DataType({ge::DT_INT32, ge::DT_FLOAT});'


@pytest.mark.parametrize("tensors", ["", INPUT, OUTPUT], ids=["neither", "input", "output"])
def test_draft_without_outputs_or_inputs_is_a_valid_spec(tmp_path, tensors):
    (draft,) = op_def.drafts(OPERATOR.replace("TENSORS", tensors), "pulse_def.cpp")
    found = spec_of(draft)
    (tmp_path / "pulse.yaml").write_text(found.text)
    (spec,) = load_specs([tmp_path / "pulse.yaml"])
    assert not spec.declared_only
    assert not differences(draft_of(spec, spec.configured_products), draft)
    hints = [note.text for note in found.notes if "overwritten" in note.text]
    assert len(hints) == (tensors == INPUT)


def test_tensors_that_were_not_read_are_not_missing(tmp_path):
    (draft,) = op_def.drafts(OPERATOR.replace("TENSORS", "if (kOld) { " + INPUT + " }"), "pulse_def.cpp")
    assert draft.declared_reason == "no inputs were read from the source"


def test_page_states_the_overwritten_inputs(tmp_path):
    (tmp_path / "pulse_def.cpp").write_text(OPERATOR.replace("TENSORS", INPUT))
    (tmp_path / "aclnnPulse.md").write_text(
        "aclnnStatus aclnnPulseGetWorkspaceSize(aclTensor *stateRef, int64_t cycles, uint64_t *workspaceSize,"
        " aclOpExecutor **executor)\n\n| name | input/output | data type |\n|---|---|---|\n"
        "| stateRef | input/output | INT32 |\n"
    )
    (draft,) = read_sources([tmp_path]).drafts
    text = spec_of(draft).text
    assert "{name: state, overwritten: true, dtypes: [int32]}" in text
    assert "params: {stateRef: state, cycles: cycles}" in text


def test_graphs_of_ge_keep_an_operator_without_outputs(opforge, project, tmp_path):
    model = message("ModelDef")
    graph = model.graph.add()
    for name in ("x", "f", "c"):
        graph.op.add(name=name, type="Data").output_desc.add(dtype=1).shape.dim.append(1)
    node = graph.op.add(name="n", type="ScaleAll", input=["x:0", "f:0", "c:0"])
    for port in ("x0", "factor", "calls"):
        node.input_desc.add(name=port, dtype=1)
    graph.op.add(name="end", type="NetOutput", input=["x:0"])
    (tmp_path / "m.air").write_bytes(model.SerializeToString())
    assert opforge("check", tmp_path / "m.air", cwd=project).returncode == 0
    assert opforge("convert", tmp_path / "m.air", "-o", tmp_path / "o.air", cwd=project).returncode == 0
    written = message("ModelDef")
    written.ParseFromString((tmp_path / "o.air").read_bytes())
    assert [op for op in written.graph[0].op if op.type == "ScaleAll"] == [node]
    done = opforge("run", tmp_path / "m.air", cwd=project)
    assert done.returncode == 2
    assert (
        "(ge::ScaleAll): unknown operator; expected an operator of onnx or of a spec; correct the node" in done.stderr
    )


def test_tiling_data_of_several_operators_is_that_of_each(tmp_path):
    (tmp_path / "pulse_def.cpp").write_text(OPERATOR.replace("TENSORS", INPUT))
    (tmp_path / "all_tiling.h").write_text(
        "BEGIN_TILING_DATA_DEF(SharedTilingData)\nTILING_DATA_FIELD_DEF(int64_t, rows);\nEND_TILING_DATA_DEF;\n"
        "BEGIN_TILING_DATA_DEF(OtherTilingData)\nTILING_DATA_FIELD_DEF(int64_t, columns);\nEND_TILING_DATA_DEF;\n"
        "REGISTER_TILING_DATA_CLASS(Wait, SharedTilingData)\nREGISTER_TILING_DATA_CLASS(Pulse, SharedTilingData)\n"
    )
    (draft,) = read_sources([tmp_path]).drafts
    assert (draft.structure, [one.name for one in draft.fields]) == ("SharedTilingData", ["rows"])
