"""Test drafts of specs from msOpGen JSON, C++ sources and aclnn pages, with small sources of these tests."""

import json
import re

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.generate import rendered
from opforge.codegen.importers import sources
from opforge.codegen.importers.compare import differences, draft_of
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.sources import MOST_BYTES, read_file, read_sources
from opforge.codegen.importers.spec_text import spec_of
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs

pytestmark = pytest.mark.slow

X = {"name": "x", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "fp32"]}
SCALE = {"name": "scale", "param_type": "optional", "format": ["ND", "ND"], "type": ["fp16", "fp32"]}
OUT = {"name": "y", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "fp32"]}
ALPHA = {"name": "alpha", "param_type": "optional", "type": "float", "default_value": "1.5"}
ENTRY = {"op": "BiasScale", "language": "cpp", "input_desc": [X, SCALE], "output_desc": [OUT], "attr": [ALPHA]}

OP_DEF = """
#include "register/op_def_registry.h"
namespace ops {
constexpr int DEFAULT_AXIS = -1;
static const std::vector<ge::DataType> VALUES = {ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_FLOAT};
class PickRows : public OpDef {
public:
    explicit PickRows(const char* name) : OpDef(name)
    {
        // this->Input("no");
        this->Input("x").ParamType(REQUIRED).DataType(VALUES).FormatList({ge::FORMAT_ND});
        this->Input("rowIndex")
            .ParamType(REQUIRED)
            .DataType({ge::DT_INT32, ge::DT_INT64, ge::DT_INT32, ge::DT_INT64})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).DataType(VALUES).FormatList({ge::FORMAT_ND});
        AddAttributes();
        OpAICoreConfig config;
        config.DynamicRankSupportFlag(true).ExtendCfgInfo("opFile.value", "pick_rows");
        this->AICore().AddConfig("ascend910b", config);
        this->AICore().AddConfig("ascend910_93");
    }
private:
    void AddAttributes()
    {
        this->Attr("axis").AttrType(OPTIONAL).Int(DEFAULT_AXIS);
        this->Attr("mode").AttrType(REQUIRED).String();
        this->Attr("sizes").AttrType(OPTIONAL).ListInt({1, 2});
    }
};
OP_ADD(PickRows);
}
"""
TILING = """
BEGIN_TILING_DATA_DEF(PickRowsTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rowCount);
TILING_DATA_FIELD_DEF_ARR(int64_t, 4, sizes);
// TILING_DATA_FIELD_DEF(uint32_t, old);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(PickRows, PickRowsTilingData)
"""
REG_OP = """
REG_OP(PickRows)
    .INPUT(x, TensorType({DT_FLOAT16, DT_FLOAT}))
    .OPTIONAL_INPUT(mask, TensorType({DT_BOOL}))
    .OUTPUT(y, TensorType({DT_FLOAT16, DT_FLOAT}))
    .ATTR(axis, Int, -1)
    .ATTR(sizes, ListInt, {1, 2})
    .REQUIRED_ATTR(mode, String)
    .OP_END_FACTORY_REG(PickRows)
"""
PAGE = """# aclnnScaleRows
## 产品支持情况
| 产品 | 是否支持 |
|---|---|
| Atlas A2 训练系列产品 | √ |
| Atlas 训练系列产品 | × |
## 功能说明
- 接口功能：按行缩放。
## 函数原型
```cpp
aclnnStatus aclnnScaleRowsGetWorkspaceSize(const aclTensor *x, const aclTensor *scaleOptional, int64_t mode,
    aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor)
```
## 参数说明
<table>
<tr><th>参数名</th><th>输入/输出</th><th>描述</th><th>数据类型</th><th>维度(shape)</th></tr>
<tr><td>x</td><td>输入</td><td>待缩放</td><td>FLOAT16、FLOAT</td><td>2-4</td></tr>
<tr><td>scaleOptional</td><td>输入</td><td>系数</td><td>与x一致</td><td>1</td></tr>
<tr><td>mode</td><td>输入</td><td>取值范围为[0, 2]</td><td>-</td><td>-</td></tr>
<tr><td>out</td><td>输出</td><td>结果</td><td>FLOAT16、FLOAT</td><td>2-4</td></tr>
</table>
## 约束说明
- 行数不超过4096。
"""
ENGLISH = """# aclnnScaleRows
aclnnStatus aclnnScaleRowsGetWorkspaceSize(const aclTensor *x, aclTensor *out, uint64_t *workspaceSize,
    aclOpExecutor **executor)

| Parameter | Input/Output | Description | Data Type | Dimension |
|---|---|---|---|---|
| x | Input | The rows. | FLOAT, BFLOAT16 | 2 |
| out | Output | The result. | Same as x | 2 |

## Constraints
- At most 4096 rows.
"""


@pytest.fixture
def draft(tmp_path):
    """Provide `draft(text, name)`, the only operator of a source."""

    def read(text, name="source.cpp"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        (one,) = read_file(file)
        return one

    return read


def spec_text(found, folder):
    return write_project([found], folder)[found.op_type].text


def only_spec(folder):
    (file,) = (folder / "op_proto").glob("*.yaml")
    (spec,) = load_specs([file])
    return spec


def test_json_becomes_a_project_that_generates(draft, tmp_path):
    found = draft(json.dumps(ENTRY), "op.json")
    write_project([found], tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert spec.tensor("x").dtypes == ("float16", "float32")
    assert spec.tensor("scale").optional
    assert spec.tensor("y").dtype == "x"
    assert spec.attr("alpha").default == 1.5
    tree = rendered([(spec, tmp_path / "made")], is_complete=True).tree
    assert "op_host/bias_scale_def.cpp" in tree.files
    assert differences(draft_of(spec, spec.products), found) == []
    names = {path.name for path in (tmp_path / "made" / "tests").rglob("*.py")}
    assert {"bias_scale.py", "test_bias_scale.py", "conftest.py"} <= names


def test_names_that_no_spec_can_have_are_replaced(draft, tmp_path):
    odd = "".join(f'this->Input("{name}");' for name in ("a))(", "class", "é" * 9, "N" * 99))
    found = draft(OP_DEF.replace('this->Input("x")', odd + 'this->Input("x")', 1))
    made = write_project([found], tmp_path / "made")[found.op_type]
    assert list(made.names.values())[:4] == ["a", "class_value", "value", "n" * 48]


def test_table_in_a_cell(draft):
    found = draft(PAGE.replace("<td>2-4</td>", "<td>2-4<table></td>", 1), "a.md")
    assert [tensor.name for tensor in found.inputs] == ["x", "scale"]
    draft(PAGE.replace("<td>2-4</td>", f"<td rowspan={'9' * 5000}>2-4</td>", 1), "b.md")


def test_reference_stub_names_the_missing_formula(draft, tmp_path):
    write_project([draft(json.dumps(ENTRY), "op.json")], tmp_path / "made")
    scope = {}
    source = (tmp_path / "made" / "tests" / "reference" / "bias_scale.py").read_text()
    exec(source, scope)  # noqa: S102  # a reference that opforge wrote
    with pytest.raises(NotImplementedError, match="got no formula of BiasScale, expected the outputs"):
        scope["reference"]({}, {})


def test_array_becomes_one_project(tmp_path):
    (tmp_path / "two.json").write_text(json.dumps([ENTRY, {**ENTRY, "op": "Other"}]))
    result = read_sources([tmp_path / "two.json"])
    write_project(result.drafts, tmp_path / "made")
    assert sorted(path.stem for path in (tmp_path / "made" / "op_proto").iterdir()) == ["bias_scale", "other"]


BAD = {
    "attribute type": ({"attr": [{**ALPHA, "type": "int64"}]}, r"attr\[0\].type: unknown type 'int64'"),
    "unknown key": ({"atrt": []}, r"unknown key 'atrt'; did you mean 'attr'\?"),
    "parameter type": ({"input_desc": [{**X, "param_type": "optinal"}]}, r"'optinal'; did you mean 'optional'\?"),
    "duplicate input": ({"input_desc": [X, X]}, "got 'x' again"),
    "keyword": ({"input_desc": [{**X, "name": "class"}]}, "got 'class', a keyword"),
    "no outputs": ({"output_desc": []}, "output_desc: got none"),
    "list default": ({"attr": [{**ALPHA, "default_value": [1]}]}, r"got \[1\], expected a value of the type float"),
    "format": ({"input_desc": [{**X, "format": ["XX"]}]}, "unknown format 'XX'"),
    "lengths": ({"output_desc": [{**OUT, "type": ["fp16", "fp32", "bf16"]}]}, "lists of different lengths"),
    "formats": ({"input_desc": [{**X, "type": ["fp16"]}]}, "got 2 formats for 1 dtypes"),
    "attribute of a tensor": ({"attr": [{**ALPHA, "name": "x"}]}, "got 'x' again"),
    "dtype": ({"input_desc": [{**X, "type": ["flaot16"]}]}, r"unknown dtype 'flaot16'; did you mean 'float16'\?"),
    "operator": ({"op": "../../x"}, "expected a type in CamelCase"),
    "not a list": ({"input_desc": {}}, "expected a list"),
    "no default": ({"attr": [{"name": "n", "param_type": "optional", "type": "int"}]}, "got none for the optional"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_forms_are_errors_with_a_place(name, draft):
    change, message = BAD[name]
    with pytest.raises(UserError, match=message) as caught:
        draft(json.dumps({**ENTRY, **change}, indent=1), "op.json")
    assert "op.json" in str(caught.value)


def test_a_required_attribute_of_json_has_no_default(draft, tmp_path):
    found = draft(json.dumps({**ENTRY, "attr": [{**ALPHA, "param_type": "required"}]}), "op.json")
    assert [attr.default for attr in found.attrs] == [None]
    assert "the default '1.5' is not used, because the attribute is required" in spec_text(found, tmp_path / "made")


def test_op_def_is_read_with_constants_and_functions(draft, tmp_path):
    found = draft(OP_DEF)
    assert [tensor.name for tensor in found.tensors] == ["x", "rowIndex", "y"]
    assert found.tensors[0].dtypes == ("float16", "float16", "float32", "float32")
    assert [(attr.name, attr.type, attr.default) for attr in found.attrs] == [
        ("axis", "int", -1),
        ("mode", "string", None),
        ("sizes", "list_int", (1, 2)),
    ]
    assert found.products == ("ascend910b", "ascend910_93")
    assert [note.text for note in found.notes] == [
        f"tensor {name}: DataType and Format have different lengths: 4 and 1" for name in ("x", "y")
    ]
    spec_text(found, tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert spec.tensor("row_index").ir == "rowIndex"
    found_differences = differences(draft_of(spec, spec.products), found)
    assert [one for one in found_differences if "sizes" not in one] == []


def test_combinations_are_limited(draft, tmp_path):
    dtypes = ["fp16", "fp32", "bf16", "int8"]
    columns = [[dtypes[(row // (index + 1)) % 4] for row in range(16)] for index in range(12)]
    tensors = [{"name": f"x{index}", "param_type": "required", "type": column} for index, column in enumerate(columns)]
    found = draft(
        json.dumps({"op": "Many", "input_desc": tensors, "output_desc": [{**tensors[0], "name": "y"}]}), "m.json"
    )
    spec_text(found, tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert spec.combinations["x1"] == tuple(
        ["float16", "float32", "bfloat16", "int8"][row // 2 % 4] for row in range(16)
    )
    assert differences(draft_of(spec, spec.products), found) == []


def test_sets_of_dtypes_are_limited(draft, tmp_path):
    words = enumerate(("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "BOOL"))
    inputs = "".join(f".INPUT(x{index}, TensorType({{DT_FLOAT16, DT_FLOAT, DT_{word}}}))" for index, word in words)
    found = draft(f"REG_OP(Many){inputs}.OUTPUT(y, TensorType({{DT_FLOAT}})).OP_END_FACTORY_REG(Many)", "many_proto.h")
    assert "dtype combinations: the draft has one of" in spec_text(found, tmp_path / "made")
    assert only_spec(tmp_path / "made").tensor("x3").dtypes == ("float16",)


def test_statements_that_are_not_read_are_comments_with_their_line(draft, tmp_path):
    source = OP_DEF.replace("        AddAttributes();\n", '        if (on) { this->Output("z"); }\n')
    line = source.split("\n").index('        if (on) { this->Output("z"); }') + 1
    assert f"# - line {line}: statement is not read: if (on)" in spec_text(draft(source), tmp_path / "made")


def test_reg_op_is_read(draft):
    found = draft(REG_OP, "rows_proto.h")
    assert [(t.name, t.option, t.dtypes) for t in found.tensors] == [
        ("x", "required", ("float16", "float32")),
        ("mask", "optional", ("bool",)),
        ("y", "required", ("float16", "float32")),
    ]
    assert [(attr.name, attr.default) for attr in found.attrs] == [("axis", -1), ("sizes", (1, 2)), ("mode", None)]


def test_each_file_is_read_once(tmp_path, monkeypatch):
    (tmp_path / "pick_rows_def.cpp").write_text(OP_DEF)
    (tmp_path / "pick_rows_tiling.h").write_text(TILING)
    (tmp_path / "other_tiling.h").write_text("class Tiling {};")
    read = []
    monkeypatch.setattr(sources, "read_regular", lambda *call: read.append(call[0].name) or read_regular(*call))
    assert sources.read_sources([tmp_path]).files == 2
    assert read == ["other_tiling.h", "pick_rows_def.cpp", "pick_rows_tiling.h"]


@pytest.mark.parametrize("name", ["pick_rows_tiling.h", "arch35/pick_rows_tiling_arch35.h", "tiling_base.cpp"])
def test_tiling_data_joins_its_operator(name, tmp_path):
    (tmp_path / "pick_rows_def.cpp").write_text(OP_DEF)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(TILING)
    (tmp_path / "other_tiling.h").write_text("class Tiling {};")
    result = read_sources([tmp_path])
    assert (result.files, result.problems) == (2, [])
    (found,) = result.drafts
    spec_text(found, tmp_path / "made")
    fields = only_spec(tmp_path / "made").tiling.data
    assert [(one.name, one.type, one.count) for one in fields] == [("row_count", "uint32", None), ("sizes", "int64", 4)]


def test_page_with_an_example_in_c_is_a_page(draft):
    found = draft(PAGE + "\n```cpp\nREG_OP(ScaleRows)\n    .OP_END_FACTORY_REG(ScaleRows)\n```\n", "aclnnScaleRows.md")
    assert (found.kind, found.function) == ("aclnn page", "aclnnScaleRows")


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16"])
def test_page_is_read_in_each_encoding(encoding, draft, tmp_path):
    found = draft(PAGE.encode(encoding), "aclnnScaleRows.md")
    assert found.function == "aclnnScaleRows"
    assert found.products == ("ascend910b",)
    assert [t.dtypes for t in found.tensors] == [("float16", "float32")] * 3
    text = spec_text(found, tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert [one.check for one in spec.constraints[4:]] == ["len(x) >= 2 and len(x) <= 4", "mode >= 0 and mode <= 2"]
    assert list(spec.aclnn[0].params) == ["x", "scaleOptional", "mode", "out"]
    line = PAGE.split("\n").index("- 行数不超过4096。") + 1
    assert f"# - line {line}: - 行数不超过4096。" in text


@pytest.mark.parametrize("name", ["X", "x_", "x" * 99])
def test_names_that_no_function_can_have_are_replaced(name, draft, tmp_path):
    found = draft(PAGE.replace("*x,", f"*{name},"), "aclnnScaleRows.md")
    write_project([found], tmp_path / "made")
    names = list(only_spec(tmp_path / "made").aclnn[0].params)
    assert names[1:] == ["scaleOptional", "mode", "out"]
    assert re.fullmatch("x[A-Za-z0-9]{,60}", names[0])


def test_english_page_is_read(draft):
    found = draft(ENGLISH, "aclnnScaleRows.md")
    assert [(t.name, t.dtypes, t.ranks) for t in found.tensors] == [
        ("x", ("float32", "bfloat16"), (2, 2)),
        ("out", ("float32", "bfloat16"), (2, 2)),
    ]
    assert "- At most 4096 rows." in {note.text for note in found.notes}


@pytest.mark.parametrize(("option", "depend"), [("REQUIRED", "OPTIONAL"), ("OPTIONAL", "REQUIRED")])
def test_values_for_tiling_have_an_option(draft, tmp_path, option, depend):
    source = OP_DEF.replace(
        'Input("rowIndex")\n            .ParamType(REQUIRED)',
        'Input("rowIndex").ParamType(' + option + ").ValueDepend(" + depend + ")",
    )
    found = draft(source)
    spec_text(found, tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert (spec.tensor("row_index").host_values, spec.tensor("row_index").value_depend) == (True, depend.lower())
    assert differences(draft_of(spec, (*spec.built_products, *spec.configs)), found) == []
    assert f".ValueDepend({depend})" in dict(render(spec))[f"op_host/{spec.name}_def.cpp"]


def test_properties_of_an_op_def_become_keys(draft, tmp_path):
    source = OP_DEF.replace('"ascend910_93"', '"kirinx90"').replace(
        'Input("rowIndex")\n            .ParamType(REQUIRED)',
        'Input("rowIndex").ParamType(REQUIRED).ValueDepend(REQUIRED)',
    )
    found = draft(source)
    text = spec_text(found, tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert spec.configs == ("kirinx90",)
    assert spec.tensor("row_index").host_values
    assert [(attr.name, attr.type, attr.default) for attr in spec.list_attrs] == [("sizes", "list_int", (1, 2))]
    assert differences(draft_of(spec, (*spec.built_products, *spec.configs)), found) == [], text


def test_dtypes_without_kernels_are_declared(draft, tmp_path):
    tensors = [{"name": "x", "param_type": "required", "type": ["fp16", "complex64"]}]
    found = draft(
        json.dumps({"op": "Rare", "input_desc": tensors, "output_desc": [{**tensors[0], "name": "y"}]}), "r.json"
    )
    spec_text(found, tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    assert spec.combinations == {"x": ("float16", "complex64")}
    assert differences(draft_of(spec, spec.products), found) == []
    text = dict(render(spec))["op_host/rare_def.cpp"]
    assert ".DataType({ge::DT_FLOAT16, ge::DT_COMPLEX64})" in text
    assert ".DataType({ge::DT_FLOAT16})" in text, "kernels have float16 only"


def test_differences_name_each_part(draft, tmp_path):
    spec_text(draft(OP_DEF), tmp_path / "made")
    spec = only_spec(tmp_path / "made")
    other = OP_DEF.replace(
        'Input("rowIndex")\n            .ParamType(REQUIRED)', 'Input("rowIndex").ParamType(OPTIONAL)'
    )
    other = other.replace("DEFAULT_AXIS = -1", "DEFAULT_AXIS = 0").replace('"ascend910_93"', '"ascend950"')
    other = other.replace("VALUES = {ge::DT_FLOAT16", "VALUES = {ge::DT_INT8").replace('Attr("mode")', 'Attr("kind")')
    assert differences(draft_of(spec, spec.products), draft(other)) == [
        "input rowIndex: the spec has required, the source has optional",
        "attribute kind: only the source has it",
        "attribute mode: only the spec has it",
        "attribute axis: the spec has the default -1, the source has the default 0",
        "dtypes x int8, rowIndex int32, y int8: only the source has this combination",
        "dtypes x float16, rowIndex int32, y float16: only the spec has this combination",
        "configuration ascend950: only the source has it",
        "configuration ascend910_93: only the spec has it",
    ]


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"\x7fELF\0\0\0", "def.cpp", "got binary data"),
        (b"\xff\xff\xff\xff", "def.cpp", "got binary data"),
        (b"[" * 100_000, "op.json", "correct the JSON text"),
        (b"{" * 200_000, "def.cpp", "got no OpDef class"),
        (b"(" * 200_000, "def.cpp", "got no OpDef class"),
        (b"MAKE_ALL_OPERATORS(A)\n", "def.cpp", "the macro MAKE_ALL_OPERATORS, which another file defines"),
        (b"<table><tr><td rowspan=99999999>" * 2000, "aclnnX.md", "the page has no declaration"),
        (b"some text", "notes.txt", "got a file of another kind"),
        (b"", "op.json", "got an empty file, expected an msOpGen JSON file"),
        (b" \n", "def.cpp", "got an empty file"),
        ("[{}]".encode("utf-16-le"), "op.json", "got UTF-16 LE without a byte order mark, expected UTF-8"),
        (b" " * (MOST_BYTES + 1), "op.json", "expected at most"),
    ],
)
def test_bad_sources_are_one_message(data, name, message, draft):
    with pytest.raises(UserError, match=message):
        draft(data, name)


@pytest.mark.parametrize("names", [["x_1", "x1"], ["X1", "x_1"], ["Null", "null"], ["x", "x_value", "xValue"]])
def test_parameters_have_different_names_in_each_language(draft, tmp_path, names):
    tensors = [{**ENTRY["input_desc"][0], "name": name} for name in names]
    write_project([draft(json.dumps({**ENTRY, "input_desc": tensors}), "op.json")], tmp_path / "made")
    assert [tensor.ir_name for tensor in only_spec(tmp_path / "made").inputs] == names


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("string", "a\nb", "control"),
        ("string", "a" * 1001, "long text"),
        ("list_int", [1] * 65, "list of 65 items"),
        ("float", 1e-300, "no value in 32 bits"),
        ("list_float", [1, 1e300], "no value in 32 bits"),
    ],
)
def test_default_that_no_spec_can_have_is_a_comment(draft, tmp_path, kind, value, words):
    attr = {"name": "n", "param_type": "optional", "type": kind, "default_value": value}
    text = spec_text(draft(json.dumps({**ENTRY, "attr": [attr]}), "op.json"), tmp_path / "made")
    assert re.search(f"attribute n: a spec cannot have its default, a .*{words}", text)
    assert only_spec(tmp_path / "made").attr("n").default is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("Exp", "got 'Exp', whose kernel would be called 'exp' as in C"),
        ("Biasscale", "got 'Biasscale', and 'BiasScale' in .*, expected names that differ in lower case"),
        ("BIASScale", "got 'BIASScale', and 'BiasScale' in .*, expected names that differ in lower case"),
    ],
)
def test_folder_with_an_operator_that_no_spec_can_describe(tmp_path, other, words):
    (tmp_path / "two.json").write_text(json.dumps([ENTRY, {**ENTRY, "op": other}]))
    rejected = []
    write_project(read_sources([tmp_path]).drafts, tmp_path / "made", rejected=rejected)
    assert only_spec(tmp_path / "made").op_type == ENTRY["op"]
    (message,) = rejected
    assert re.search(words, message)
    assert "test_specs" not in (tmp_path / "made" / "README.md").read_text()


def test_command_writes_checks_and_refuses(opforge, tmp_path):
    def imported(*arguments):
        return opforge("import", *arguments, cwd=tmp_path)

    (tmp_path / "op.json").write_text(json.dumps(ENTRY))
    made = imported("op.json", "--as", "MyScale", "-o", "made", "--json", "facts.json")
    assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "facts.json").read_text())["operators"][0]["op_type"] == "MyScale"
    for words in (
        ["--check", "made/op_proto/my_scale.yaml", "op.json"],
        ["op.json", "made/op_proto/my_scale.yaml", "--check"],
    ):
        assert imported(*words).returncode == 0
    refused = imported("made/op_proto/my_scale.yaml", "--check")
    assert (refused.returncode, refused.stderr) == (
        2,
        "SOURCE: got specs only, expected a source to compare them with\n",
    )
    (tmp_path / "op.json").write_text(json.dumps({**ENTRY, "attr": []}))
    other = imported("--check", "made/op_proto/my_scale.yaml", "op.json")
    assert (other.returncode, "attribute alpha: only the spec has it" in other.stdout) == (1, True)
    again = imported("op.json", "-o", "made")
    assert (again.returncode, "Traceback" in again.stderr) == (2, False)


CONFIGURED = """
class Take : public OpDef {
public:
    explicit Take(const char* name) : OpDef(name)
    {
        OpAICoreConfig config;
        config.Input("x").ParamType(REQUIRED).DataType({ge::DT_INT8}).Format({ge::FORMAT_ND});
        config.Output("y").ParamType(REQUIRED).DataType({ge::DT_INT8}).Format({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend950", config);
        config.Input("x").DataType({ge::DT_FLOAT16});
        config.Output("y").DataType({ge::DT_FLOAT16});
        this->AICore().AddConfig("ascend910b", config);
        this->AICore().AddConfig("ascend910_93", config);
    }
};
OP_ADD(Take);
"""


def test_tensors_of_a_configuration_are_read_if_the_operator_has_none(draft, tmp_path):
    found = draft(CONFIGURED, "take_def.cpp")
    assert [(tensor.name, tensor.dtypes) for tensor in found.tensors] == [("x", ("float16",)), ("y", ("float16",))]
    assert [note.text for note in found.notes] == [
        "ascend950 has other dtypes of Input x: {ge::DT_INT8}",
        "ascend950 has other dtypes of Output y: {ge::DT_INT8}",
    ]
    write_project([found], tmp_path / "made")
    (spec,) = load_specs([tmp_path / "made" / "op_proto" / "take.yaml"])
    assert not spec.declared_only


HTML = """<html><body><h1>aclnnAdd</h1><pre><code>aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self,
 aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor)</code></pre>
<table><tr><th>参数名</th><th>输入/输出</th><th>描述</th><th>数据类型</th></tr>
<tr><td>self</td><td>输入</td><td>x</td><td>FLOAT、FLOAT16</td></tr>
<tr><td>out</td><td>输出</td><td>y</td><td>FLOAT、FLOAT16</td></tr></table></body></html>
"""


def test_page_in_html_is_read(draft):
    found = draft(HTML, "aclnnAdd.html")
    assert (found.op_type, found.function) == ("Add", "aclnnAdd")
    assert [(t.name, t.dtypes) for t in found.tensors] == [
        ("self", ("float32", "float16")),
        ("out", ("float32", "float16")),
    ]


CODES = """
```c
aclnnStatus aclnnGateGetWorkspaceSize(const aclTensor *x, const aclTensor *biasOptional, int64_t mode, aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor)
```
| 返回码 | 错误码 | 描述 |
|---|---|---|
| ACLNN_ERR_PARAM_NULLPTR | 161001 | TEXT |
"""


@pytest.mark.parametrize(
    ("row", "label"),
    [
        ("ACLNN_ERR_PARAM_NULLPTR | 161001 | 传入的x、out是空指针。", "C1"),
        ("ACLNN_ERR_PARAM_NULLPTR | 161001 | x或out存在空指针", "C1"),
        ("ACLNN_ERR_PARAM_NULLPTR | 161001 | The x and out are null pointers.", "C1"),
        ("ACLNN_ERR_PARAM_INVALID | 161002 | x、biasOptional和out的数据类型不在支持的范围之内。", "C2"),
        ("ACLNN_ERR_PARAM_INVALID | 161002 | x has an unsupported data type.", "C2"),
        ("ACLNN_ERR_PARAM_INVALID | 161002 | x的维度超过8维。", "C3"),
        ("ACLNN_ERR_PARAM_NULLPTR | 161001 | 传入的x、biasOptional是空指针。", ""),  # biasOptional may be null
        ("ACLNN_ERR_PARAM_NULLPTR | 161001 | 传入的z是空指针。", ""),  # no parameter
        ("ACLNN_ERR_PARAM_NULLPTR | 161001 | 当mode为1时，传入的x是空指针。", ""),  # a condition
        ("ACLNN_ERR_PARAM_INVALID | 161001 | x的维度超过8维。", ""),  # another number than that of the rule
        ("ACLNN_ERR_PARAM_INVALID | 161002 | x和out的数据类型不一致。", ""),
        ("ACLNN_ERR_INNER_TILING_ERROR | 561002 | x的数据类型不在支持的范围之内。", ""),
    ],
)
def test_return_codes_of_built_in_rules_are_above_these_rules(tmp_path, row, label):
    (tmp_path / "aclnnGate.md").write_text(
        CODES.replace("ACLNN_ERR_PARAM_NULLPTR | 161001 | TEXT", row), encoding="utf-8"
    )
    (draft,) = read_file(tmp_path / "aclnnGate.md")
    lines = spec_of(draft).text.splitlines()
    (number,) = (number for number, line in enumerate(lines) if "return code" in line)
    if label:
        assert lines[number].startswith("  # line 8: return code ")
        assert lines[number + 1].startswith(f"  - {{label: {label}, ")
    else:
        assert lines[number].startswith("# - line 8: return code ")
