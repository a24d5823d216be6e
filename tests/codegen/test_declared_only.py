"""Test operators with `declared_only`: generated files, rejected specs, and drafts of import."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.importers.compare import differences
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.op_def import drafts
from opforge.codegen.project import Project
from opforge.codegen.render import render
from opforge.codegen.spec.loader import SpecError, load_project, load_specs
from opforge.package.pack import incomplete
from opforge.twin.compiler.operators import build_project

SPEC = """\
op_type: AddToList
summary: Add a number to each tensor of a list.
declared_only: true
products: [ascend910b, ascend910_93]
configs: [ascend950]
inputs:
  - {name: x, dynamic: true, dtypes: [float16, float32]}
  - {name: alpha, scalar: one, dtype: x}
  - {name: betas, scalar: list, optional: true, dtype: x}
attrs:
  - {name: axes, type: list_int, default: []}
outputs:
  - {name: y, dynamic: true, dtype: x}
  - {name: mean, optional: true, dtypes: [float32]}
"""
OP_DEF = """
class AddToList : public OpDef {
public:
    explicit AddToList(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(DYNAMIC).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).FormatList({ge::FORMAT_ND});
        this->Input("alpha").Scalar().ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT})
            .FormatList({ge::FORMAT_ND});
        this->Output("y").ParamType(DYNAMIC).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).FormatList({ge::FORMAT_ND});
        this->Output("mean").ParamType(OPTIONAL).DataTypeList({ge::DT_FLOAT}).FormatList({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend950");
    }
};
OP_ADD(AddToList);
"""
UNREAD_TENSORS = """
class Wait : public OpDef {
public:
    explicit Wait(const char* name) : OpDef(name)
    {
        if (HasState()) {
            this->Input("state").ParamType(REQUIRED).DataType({ge::DT_INT32});
        }
        this->Attr("cycles").AttrType(REQUIRED).Int();
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Wait);
"""


@pytest.fixture
def load(tmp_path):
    """Provide `load(text)`, the operator of a spec."""

    def read(text):
        file = tmp_path / "op.yaml"
        file.write_text(text, encoding="utf-8")
        (spec,) = load_specs([file])
        return spec

    return read


def test_op_def_and_reg_op_are_all_that_is_generated(load):
    files = dict(render(load(SPEC)))
    names = ["op_host/add_to_list_def.cpp", "op_proto/add_to_list_proto.cpp", "op_proto/add_to_list_proto.h"]
    assert list(files) == names
    definition, _, prototype = files.values()
    shown = [line.strip().rstrip(";") for line in definition.splitlines()]
    for name, lines in {
        "Input x": [".ParamType(DYNAMIC)", ".DataType({ge::DT_FLOAT16, ge::DT_FLOAT})"],
        "Input alpha": [".Scalar()", ".ParamType(REQUIRED)"],
        "Input betas": [".ScalarList()", ".ParamType(OPTIONAL)"],
        "Output y": [".ParamType(DYNAMIC)"],
        "Output mean": [".ParamType(OPTIONAL)", ".DataType({ge::DT_FLOAT, ge::DT_FLOAT})"],
    }.items():
        kind, tensor = name.split()
        start = shown.index(f'this->{kind}("{tensor}")') + 1
        assert shown[start : start + len(lines)] == lines
    for product in ("ascend910b", "ascend910_93", "ascend950"):
        assert f'this->AICore().AddConfig("{product}")' in shown
    assert ".DYNAMIC_INPUT(x, TensorType({DT_FLOAT16, DT_FLOAT}))" in prototype
    assert ".INPUT(alpha, TensorType({DT_FLOAT16, DT_FLOAT}))" in prototype
    assert ".DYNAMIC_OUTPUT(y, TensorType({DT_FLOAT16, DT_FLOAT}))" in prototype


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("configs:", "cases: [{name: c, shapes: {x: [N]}}]\nconfigs:", ":5:8: cases: got this key, expected none"),
        ("configs:", "tiling: {task_type: MIX_AIC_1_2}\nconfigs:", ":5:9: tiling: got this key, expected none"),
        ("declared_only: true", "formula: y = x", ":1:1: cases: is missing; add this key"),
        ("declared_only: true", "declared_only: 1", ":3:16: declared_only: got 1, expected true or false"),
        ("mean, opt", "mean, scalar: one, opt", ":14:26: outputs[1].scalar: got 'one', expected no 'scalar' with"),
        ("dynamic: true, dtype: x", "dynamic: 2, dtype: x", ":13:24: outputs[0].dynamic: got 2, expected true or"),
        ("scalar: one", "scalar: two", ":8:27: inputs[1].scalar: got 'two', expected 'one' or 'list'"),
    ],
)
def test_refused(load, old, new, message):
    with pytest.raises(SpecError) as caught:
        load(SPEC.replace(old, new, 1))
    assert message in str(caught.value)


@pytest.mark.parametrize("source", [OP_DEF, UNREAD_TENSORS])
def test_imported_op_def_is_generated_again(source, tmp_path):
    (draft,) = drafts(source, "source.cpp")
    write_project([draft], tmp_path / "made")
    (spec,) = load_project(Project(tmp_path / "made"), declared=True)
    files = dict(render(spec))
    (generated,) = drafts(files[f"op_host/{spec.name}_def.cpp"], "generated.cpp")
    assert differences(generated, draft) == []
    assert spec.declared_only == (spec.op_type == "Wait")
    assert any((tmp_path / "made" / "tests").rglob("reference/*.py")) != spec.declared_only


def test_kernel_of_an_operator_with_unread_tensors_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.cpp").write_text(UNREAD_TENSORS)
    (tmp_path / "kernel.cpp").write_text("")
    result = CliRunner().invoke(app, ["import", "source.cpp", "--kernel", "kernel.cpp"])
    assert "--kernel: got Wait, which a spec can only declare" in str(result.exception)
    assert not (tmp_path / "wait").exists()


def test_project_compiles_and_packs_without_it(tmp_path, monkeypatch):
    root = tmp_path / "made"
    (draft,) = drafts(UNREAD_TENSORS, "source.cpp")
    write_project([draft], root)
    project = Project(root)
    assert load_project(project) == ()
    built = build_project(project)
    assert built.op_types == ()
    assert (root / "build" / "gen" / "op_host" / "wait_def.cpp").is_file()
    assert incomplete(project) == ["not packed: Wait; its spec has 'declared_only: true'"]
    monkeypatch.chdir(root)
    answer = CliRunner().invoke(app, ["generate", "--json"])
    assert json.loads(answer.stdout)["left_out"] == [
        "Wait: everything but OpDef and REG_OP; the spec has 'declared_only: true'"
    ]


STRINGS = """
REG_OP(Gate)
    .INPUT(x, TensorType({DT_FLOAT16, DT_FLOAT}))
    .OUTPUT(y, TensorType({DT_FLOAT16, DT_FLOAT}))
    .ATTR(activations, ListString, {"tanh", "a, \\"b\\"", ""})
    .ATTR(others, ListString, {})
    .REQUIRED_ATTR(names, ListString)
    .ATTR(mode, String, "a, {b}")
    .OP_END_FACTORY_REG(Gate)
"""


def test_lists_of_strings_are_declared_in_the_graph_ir(tmp_path):
    (draft,) = drafts(STRINGS, "gate_proto.h")
    assert [attr.default for attr in draft.attrs] == [("tanh", 'a, "b"', ""), (), None, "a, {b}"]
    write_project([draft], tmp_path / "made")
    (spec,) = load_project(Project(tmp_path / "made"), declared=True)
    files = dict(render(spec))
    assert list(files) == ["op_proto/gate_proto.cpp", "op_proto/gate_proto.h"]  # OpDef has no lists of strings
    (generated,) = drafts(files["op_proto/gate_proto.h"], "generated.h")
    assert (generated.attrs, differences(generated, draft)) == (
        tuple(replace(attr, line=new.line) for attr, new in zip(draft.attrs, generated.attrs, strict=True)),
        [],
    )


@pytest.mark.parametrize("default", ["NAME", '{NAME, "x"}', '{"\\u0041"}'])
def test_default_that_is_no_string_constant_is_a_note(default):
    kind, empty = ("ListString", ()) if default.startswith("{") else ("String", "")
    (draft,) = drafts(f"REG_OP(Gate).ATTR(mode, {kind}, {default}).OP_END_FACTORY_REG(Gate)", "gate_proto.h")
    kind = {"ListString": "list_string", "String": "string"}[kind]
    text = f"the default {default} is not a constant of the type {kind}; the draft has {empty!r}"
    assert [note.text for note in draft.notes] == [f"attribute mode: {text}"]


def test_complete_spec_with_a_list_of_strings_is_rejected(load):
    text = SPEC.replace("type: list_int, default: []", "type: list_string, default: [a, 'b c']")
    assert load(text).attrs[0].default == ("a", "b c")
    with pytest.raises(SpecError) as caught:
        load(text.replace("declared_only: true", "formula: y[i] = x[i]"))
    assert "attrs[0].type: got 'list_string', expected it only with 'declared_only: true'" in str(caught.value)
    with pytest.raises(SpecError) as caught:
        load(text.replace("[a, 'b c']", "[a, 1]"))
    assert "attrs[0].default: got" in str(caught.value)
