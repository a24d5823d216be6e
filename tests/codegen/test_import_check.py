"""Test the statements of a source that `import --check` does not compare."""

from __future__ import annotations

import pytest

from opforge.codegen.importers.compare import differences, draft_of, not_compared
from opforge.codegen.importers.compare_shapes import shape_differences
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.sources import read_file, read_sources
from opforge.codegen.spec.loader import load_specs

pytestmark = pytest.mark.slow

pytest.importorskip("tree_sitter_cpp", reason="tree-sitter-cpp is not installed: pip install 'opforge[import]'")

OP_DEF = """
class Negate : public OpDef {
public:
    explicit Negate(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        OpAICoreConfig config;
        config.Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(Negate);
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("FORMAT_ND});\n        this->Output", "FORMAT_NCHW});\n        this->Output", ["x: storage formats NCHW;"]),
        ("AICore()", "AICPU()", ["configuration of AICPU for ascend910b"]),
        ('("ascend910b")', '("ascend910b", config)', ["ascend910b has other dtypes of Input x: {ge::DT_FLOAT}"]),
    ],
)
def test_planted_changes_that_no_spec_can_express_are_printed(opforge, old, new, expected, tmp_path):
    source = tmp_path / "negate_def.cpp"
    source.write_text(OP_DEF)
    made = opforge("import", source, "-o", "made", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    source.write_text(OP_DEF.replace(old, new, 1))
    (draft,) = read_file(source)
    (spec,) = load_specs([tmp_path / "made" / "op_proto" / "negate.yaml"])
    lines = not_compared(draft_of(spec, spec.configured_products), draft)
    assert len(lines) == len(expected)
    assert all(part in line for part, line in zip(expected, lines, strict=True)), lines
    result = opforge("import", "--check", "made/op_proto/negate.yaml", source, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert [line for line in result.stdout.splitlines() if line.startswith("not compared: ")] == [
        f"not compared: {line}" for line in lines
    ]


SOURCES = {
    "gate_def.cpp": """
class Gate : public OpDef {
public:
    explicit Gate(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).Format({ND, ND})
            .UnknownShapeFormat({ND, ND});
        this->Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT}).Format({ND, ND});
        this->Input("size").ParamType(REQUIRED).ValueDepend(REQUIRED).DataType({ge::DT_INT64, ge::DT_INT64})
            .Format({ND, ND});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).Format({ND, ND});
        this->Attr("axis").AttrType(OPTIONAL).Int(-1);
        this->Attr("mode").AttrType(REQUIRED).String();
        OpAICoreConfig config;
        config.DynamicCompileStaticFlag(true).DynamicFormatFlag(true).DynamicRankSupportFlag(true)
            .DynamicShapeSupportFlag(true).NeedCheckSupportFlag(false).PrecisionReduceFlag(true)
            .ExtendCfgInfo("opFile.value", "gate");
        this->AICore().AddConfig("ascend910b", config);
        this->AICore().AddConfig("ascend910_93", config);
    }
};
OP_ADD(Gate);
""".replace("ND", "ge::FORMAT_ND"),
    "gate_tiling.h": """
BEGIN_TILING_DATA_DEF(GateTilingData)
TILING_DATA_FIELD_DEF(uint32_t, rows);
TILING_DATA_FIELD_DEF_ARR(int64_t, 4, sizes);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Gate, GateTilingData)
""",
    "gate_infershape.cpp": """
static ge::graphStatus Shapes(gert::InferShapeContext* context)
{
    auto x = context->GetInputShape(0);
    auto y = context->GetOutputShape(0);
    y->SetDimNum(2);
    y->SetDim(0, x->GetDim(1));
    y->SetDim(1, 8);
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_INFERSHAPE(Gate).InferShape(Shapes);
""",
}


def compared(folder, file="", old="", new=""):
    """Return the differences, and the lines that are not compared, of an imported spec and changed sources."""
    source = folder / "source"
    source.mkdir()
    for name, text in SOURCES.items():
        (source / name).write_text(text)
    write_project(read_sources([source]).drafts, folder / "made")
    (spec,) = load_specs([folder / "made" / "op_proto" / "gate.yaml"])
    if file:
        assert old in SOURCES[file]
        (source / file).write_text(SOURCES[file].replace(old, new, 1))
    (draft,) = read_sources([source]).drafts
    ours = draft_of(spec, spec.configured_products)
    return [*differences(ours, draft), *shape_differences(spec, draft)], not_compared(ours, draft)


def test_an_imported_spec_has_no_difference(tmp_path):
    assert compared(tmp_path) == ([], [])


DEF, TILING, SHAPES = SOURCES


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (DEF, 'Input("x").ParamType(REQUIRED)', 'Input("x").ParamType(OPTIONAL)', ["input x: the spec has required"]),
        (DEF, "-1", "0", ["attribute axis: the spec has the default -1, the source has the default 0"]),
        (DEF, "Int(-1)", "Float(-1)", ["attribute axis: the spec has the type int, the source has float"]),
        (
            DEF,
            'this->Attr("axis").AttrType(OPTIONAL).Int(-1);\n        this->Attr("mode").AttrType(REQUIRED).String();',
            'this->Attr("mode").AttrType(REQUIRED).String();\n        this->Attr("axis").AttrType(OPTIONAL).Int(-1);',
            ["attributes: the spec has the order axis, mode; the source has mode, axis"],
        ),
        (DEF, ".ValueDepend(REQUIRED)", "", ["input size: the spec has values on the host"]),
        (
            DEF,
            "ValueDepend(REQUIRED)",
            "ValueDepend(OPTIONAL)",
            ["input size: the spec has values on the host, the source"],
        ),
        (
            DEF,
            'Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT})',
            'Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16})',
            ["dtypes x float16, bias float32, size int64, y float32: only the source has this combination"]
            + ["dtypes"] * 3,
        ),
        (
            DEF,
            'Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT})',
            'Input("other").ParamType(OPTIONAL).DataType({ge::DT_INT8, ge::DT_INT8})',
            ["input other: only the source has it", "input bias: only the spec has it"],
        ),
        (
            DEF,
            '"ascend910_93"',
            '"ascend950"',
            ["configuration ascend950: only the source", "configuration ascend910_93"],
        ),
        (TILING, "uint32_t", "int32_t", ["tiling field rows: the spec has uint32, the source has int32"]),
        (TILING, "4, sizes", "5, sizes", ["tiling field sizes: the spec has int64[4], the source has int64[5]"]),
        (
            TILING,
            "rows",
            "columns",
            ["tiling field columns: only the source", "tiling field rows: only the spec has it"],
        ),
        (
            SHAPES,
            "GetDim(1)",
            "GetDim(0)",
            ["shape of y in case every: the spec has [S1b, 8], the source has [S1a, 8]"],
        ),
        (SHAPES, "8", "4", ["shape of y in case every: the spec has [S1b, 8], the source has [S1b, 4]"]),
    ],
)
def test_planted_differences_are_printed(file, old, new, expected, tmp_path):
    found, rest = compared(tmp_path, file, old, new)
    assert (len(found), rest) == (len(expected), [])
    assert all(line.startswith(part) for line, part in zip(found, expected, strict=True)), found


def test_dtypes_are_compared_if_an_input_is_missing(tmp_path):
    start = SOURCES[DEF].index('        this->Input("bias")')
    removed = SOURCES[DEF][start : SOURCES[DEF].index("\n", start) + 1]
    other = SOURCES[DEF].replace(removed, "").replace("ge::DT_FLOAT16", "ge::DT_BF16")
    found, _ = compared(tmp_path, DEF, SOURCES[DEF], other)
    assert found == [
        "input bias: only the spec has it",
        "dtypes x bfloat16, size int64, y bfloat16: only the source has this combination",
        "dtypes x float16, size int64, y float16: only the spec has this combination",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            DEF,
            "DynamicFormatFlag(true)",
            "DynamicFormatFlag(false)",
            "ascend910b, ascend910_93: DynamicFormatFlag(false)",
        ),
        (DEF, '"gate")', '"gate_apt")', 'ascend910b, ascend910_93: ExtendCfgInfo("opFile.value", "gate_apt")'),
        (
            DEF,
            "UnknownShapeFormat({ge::FORMAT_ND",
            "UnknownShapeFormat({ge::FORMAT_NZ",
            "tensor x: UnknownShapeFormat(",
        ),
        (
            DEF,
            "ValueDepend(REQUIRED)",
            "ValueDepend(REQUIRED, Scope::TILING)",
            "tensor size: ValueDepend(REQUIRED, Scope",
        ),
        (DEF, 'Input("x")', 'Input("x").IgnoreContiguous()', "tensor x: IgnoreContiguous()"),
        (DEF, "OpAICoreConfig", 'if (on) { this->Input("z"); } OpAICoreConfig', "statement is not read: if (on)"),
        (DEF, "class Gate", "class Gate", ""),
        (
            TILING,
            "(int64_t, 4, sizes);",
            "(half, 4, sizes);",
            "gate_tiling.h: tiling data: TILING_DATA_FIELD_DEF_ARR(half",
        ),
        (SHAPES, "y->SetDimNum(2);", "Change(y);", "gate_infershape.cpp: shape inference is not read: Change(y);"),
    ],
)
def test_statements_that_are_not_compared_are_printed(file, old, new, expected, tmp_path):
    _, rest = compared(tmp_path, file, old, new)
    assert len(rest) == bool(expected)
    assert all(line.partition(": ")[2].startswith(expected) for line in rest), rest


def test_another_order_of_combinations_and_another_name_are_printed(tmp_path):
    text = SOURCES[DEF].replace("ge::DT_FLOAT16, ge::DT_FLOAT}", "ge::DT_FLOAT, ge::DT_FLOAT16}")
    found, rest = compared(tmp_path, DEF, SOURCES[DEF], text.replace("Gate", "Other"))
    assert [line for line in found if "tiling" not in line] == []
    assert rest[:2] == [
        "the spec has the operator type Gate, the source has Other",
        "the order of the dtype combinations, which differs",
    ]


def test_a_page_is_compared_with_the_function(tmp_path):
    text = "aclnnGateGetWorkspaceSize(const aclTensor *x, int64_t axis, aclTensor *out, uint64_t *workspaceSize)\n"
    text += (
        "| a | 输入/输出 | b | 数据类型 |\n|---|---|---|---|\n| x | 输入 | - | FLOAT |\n| out | 输出 | - | FLOAT |\n"
    )
    page = tmp_path / "aclnnGate.md"
    page.write_text(text, encoding="utf-8")
    write_project(read_file(page), tmp_path / "made")
    (spec,) = load_specs([tmp_path / "made" / "op_proto" / "gate.yaml"])
    ours = draft_of(spec, spec.configured_products)
    assert differences(ours, read_file(page)[0]) == []
    page.write_text(text.replace("x, int64_t axis", "x, int64_t dim"), encoding="utf-8")
    assert [line for line in differences(ours, read_file(page)[0]) if "parameter" in line] == [
        "parameter of aclnnGate dim: only the source has it",
        "parameter of aclnnGate axis: only the spec has it",
    ]
    page.write_text(text.replace("aclnnGateGet", "aclnnGateV2Get"), encoding="utf-8")
    assert "the spec has the operator type Gate, the source has GateV2" in not_compared(ours, read_file(page)[0])
