"""Test which shape inference of C++ sources becomes shapes of a spec, and which does not."""

import pytest

from opforge.codegen.importers.cpp_tree import Source
from opforge.codegen.importers.infer_shape import shape_rules
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.sources import read_sources
from opforge.codegen.spec.loader import load_specs

pytest.importorskip("tree_sitter_cpp")

OP_DEF = """
class PickRows : public OpDef {
public:
    explicit PickRows(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Input("rows").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Output("mask").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(PickRows);
"""
INFER = """
namespace {
constexpr size_t ROWS = 1;
constexpr int64_t LIMIT = 8;
}
namespace ops {
static ge::graphStatus Shapes(gert::InferShapeContext* context)
{
    // the rows select
    constexpr size_t kMask = 1;
    if (context == nullptr) {
        return ge::GRAPH_FAILED;
    }
    OP_LOGD(context, "context = start");
    const gert::Shape* x = context->GetInputShape(0);
    auto rows = context->GetRequiredInputShape(ROWS);
    OP_CHECK_NULL_WITH_CONTEXT(context, rows);
    gert::Shape* y = context->GetOutputShape(0);
    gert::Shape* mask = context->GetOutputShape(kMask);
    STATEMENT
    *y = *rows;
    *mask = *x;
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_INFERSHAPE(PickRows).InferDataType(Types).InferShape(Shapes);
}
"""
REFUSES = 'OP_CHECK_IF(x->GetDimNum() > LIMIT, OP_LOGE(context, "n = 9"), return ge::GRAPH_FAILED);'


@pytest.fixture
def spec_of(tmp_path):
    """Provide `spec_of(infer)`, the spec text and the shapes of the operator with this shape inference."""

    def read(infer):
        folder = tmp_path / "source"
        folder.mkdir(exist_ok=True)
        (folder / "pick_rows_def.cpp").write_text(OP_DEF)
        (folder / "pick_rows_infershape.cpp").write_text(infer)
        write_project(read_sources([folder]).drafts, tmp_path / "made")
        file = tmp_path / "made" / "op_proto" / "pick_rows.yaml"
        (spec,) = load_specs([file])
        return file.read_text(), spec.cases[0].shapes

    return read


def test_copies_become_shapes(spec_of):
    text, shapes = spec_of(INFER.replace("STATEMENT", REFUSES))
    assert (shapes["y"], shapes["mask"]) == (shapes["rows"], shapes["x"])
    assert shapes["rows"] != shapes["x"]
    assert "# These are the shapes of the shape inference of the source." in text
    assert "# - line 20: pick_rows_infershape.cpp: shape inference: check OP_CHECK_IF(x->GetDimNum() > LIMIT" in text


def test_elementwise_inference_of_cann_is_the_first_input(spec_of):
    text, shapes = spec_of("IMPL_OP_INFERSHAPE(PickRows).InferShape(Ops::Base::InferShape4Elewise);")
    assert shapes["y"] == shapes["x"]
    assert "# The source states no shape of mask: replace it." in text


@pytest.mark.parametrize(
    "statement",
    [
        "y->SetDimNum(2);",
        "if (x->GetDimNum() == 0) { *mask = *rows; return ge::GRAPH_SUCCESS; }",
        "if (x->GetDimNum() == 0) { return ge::GRAPH_SUCCESS; }",
        "OP_CHECK_IF(!Broadcast(x, mask), OP_LOGE(context, text), return ge::GRAPH_FAILED);",
        "OP_CHECK_IF(Change(context), OP_LOGE(context, text), return ge::GRAPH_FAILED);",
        "auto status = Change(context);",
        "auto status = Change(y);",
        "for (size_t i = 0; i < 2; ++i) { mask->AppendDim(1); }",
        "return Change(context);",
    ],
)
def test_uncertain_shapes_become_comments(statement, spec_of):
    text, _ = spec_of(INFER.replace("STATEMENT", statement))
    assert "# The source states no shape of y, mask: replace it." in text
    assert f"shape inference is not read: {statement[:40]}" in text


def test_inference_of_other_operators_and_without_a_function(tmp_path):
    file = tmp_path / "other_infershape.cpp"
    file.write_text("IMPL_OP_INFERSHAPE(Other).InferShape(Elsewhere);")
    (tmp_path / "pick_rows_def.cpp").write_text(OP_DEF)
    (draft,) = read_sources([tmp_path]).drafts
    assert (draft.shapes, draft.notes) == ((), ())


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("IMPL_OP_INFERSHAPE(A)" + ".Tiling(T)" * 20_000 + "InferShape", 0),
        (INFER.replace("STATEMENT", "if (" + "!" * 20_000 + "x) { return FAILED; }"), 1),
        (INFER.replace("STATEMENT", "if (IsUnknownRank(*x)) {" + "OP_LOGD(a);" * 5_000 + "}"), 1),
        (INFER.replace("STATEMENT", "OP_CHECK_IF(" + "(" * 20_000), 1),
    ],
    ids=["chain", "condition", "body", "parentheses"],
)
def test_text_of_any_size_ends(text, operators):
    assert len(list(shape_rules(Source(text, "a.cpp")))) == operators
