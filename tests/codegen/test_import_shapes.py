"""Test which shape inference of C++ sources becomes shapes of a spec, and which does not."""

import pytest

from opforge.codegen.importers.cpp_tree import Source
from opforge.codegen.importers.infer_shape import shape_rules
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.sources import read_sources
from opforge.codegen.spec.loader import load_specs

pytestmark = pytest.mark.slow

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
        this->Attr("size").AttrType(OPTIONAL).Int(4);
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
CALLED = """
static ge::graphStatus Checks(gert::InferShapeContext* context, int number)
{
    OP_CHECK_NULL_WITH_CONTEXT(context, context->GetInputShape(0));
    return context->GetInputShape(0)->GetDimNum() > 3 ? GRAPH_FAILED : GRAPH_SUCCESS;
}
static ge::graphStatus Changes(gert::InferShapeContext* context)
{
    context->GetOutputShape(0)->SetDimNum(0);
    return GRAPH_SUCCESS;
}
static ge::graphStatus Passes(gert::InferShapeContext* context) { return Elsewhere(context); }
"""
LOOPS = """
    size_t n = x->GetDimNum();
    y->SetDimNum(n);
    for (size_t i = 0; i < n; i++) { y->SetDim(i, x->GetDim(i)); }
    mask->SetDimNum(x->GetDimNum());
    for (size_t i = 0; i < x->GetDimNum(); ++i) {
        int64_t d = x->GetDim(i);
        mask->SetDim(i, d);
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
        made = tmp_path / f"made{len(list(tmp_path.iterdir()))}"
        write_project(read_sources([folder]).drafts, made)
        file = made / "op_proto" / "pick_rows.yaml"
        (spec,) = load_specs([file])
        return file.read_text(), spec.cases[0].shapes

    return read


def test_copies_become_shapes(spec_of):
    text, shapes = spec_of(INFER.replace("STATEMENT", REFUSES))
    assert (shapes["y"], shapes["mask"]) == (shapes["rows"], shapes["x"])
    assert shapes["rows"] != shapes["x"]
    assert "# These are the shapes of the shape inference of the source." in text
    assert "# - line 20: pick_rows_infershape.cpp: shape inference: check OP_CHECK_IF(x->GetDimNum() > LIMIT" in text


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("y->SetScalar(); mask->SetDimNum(0);", {"y": (), "mask": ()}),
        (
            "y->SetDimNum(2); y->SetDim(0, 3); const int64_t n = rows->GetDim(1); y->SetDim(1, n); *mask = *rows;",
            {"y": (3, "S2b"), "mask": ("S2a", "S2b", "*S2"), "rows": ("S2a", "S2b", "*S2"), "x": ("*S1",)},
        ),
        (
            "mask->SetDimNum(0); mask->AppendDim(x->GetDim(0)); mask->AppendDim(LIMIT); *y = *x;",
            {"mask": ("S1a", 8), "x": ("S1a", "*S1"), "y": ("S1a", "*S1")},
        ),
        (
            "auto a = context->GetAttrs(); auto size = a->GetInt(0); y->SetDimNum(1); y->SetDim(0, *size); *mask = *x;",
            {"y": ("size",), "mask": ("*S1",)},
        ),
        (LOOPS, {"y": ("*S1",), "mask": ("*S1",)}),
        ("y->SetDimNum(2); y->SetDim(0, 1); *y = *x; mask->SetScalar();", {"y": ("*S1",), "mask": ()}),
    ],
)
def test_dimensions_become_shapes(statements, expected, spec_of):
    body = INFER.replace("STATEMENT", statements)
    text, shapes = spec_of(body.replace("    *y = *rows;\n    *mask = *x;\n", ""))
    assert "# These are the shapes of the shape inference of the source." in text
    assert {name: shapes[name] for name in expected} == expected


def test_a_function_of_the_source_is_followed(spec_of):
    called = "static ge::graphStatus Copy(gert::InferShapeContext* context, size_t from, size_t to)\n{\n"
    called += "    auto given = context->GetInputShape(from);\n    auto result = context->GetOutputShape(to);\n"
    called += "    *result = *given;\n    return GRAPH_SUCCESS;\n}\n"
    text, shapes = spec_of(called + INFER.replace("STATEMENT", "*y = *x; return Copy(context, ROWS, kMask);"))
    assert (shapes["y"], shapes["mask"]) == (shapes["x"], shapes["rows"])
    again = called.replace("*result = *given;\n    return GRAPH_SUCCESS;", "return Copy(context, from, to);")
    text, _ = spec_of(again + INFER.replace("STATEMENT", "return Copy(context, ROWS, kMask);"))
    assert "# The source states no shape of y, mask: replace it." in text


@pytest.mark.parametrize(
    "statement",
    [
        "if (Ops::Base::IsUnknownRank(*x) || IsUnknownShape(*rows)) { *y = *x; Change(y); return ge::GRAPH_SUCCESS; }",
        "if (Checks(context) != ge::GRAPH_SUCCESS) { return ge::GRAPH_FAILED; }",
        "OP_CHECK_IF(Checks(context, ROWS) == GRAPH_FAILED, OP_LOGE(context, text), return ge::GRAPH_FAILED);",
    ],
)
def test_unknown_dimensions_and_checks_change_no_shape(statement, spec_of):
    text, shapes = spec_of(CALLED + INFER.replace("STATEMENT", statement))
    assert (shapes["y"], shapes["mask"]) == (shapes["rows"], shapes["x"]), text


def test_elementwise_inference_of_cann_is_the_first_input(spec_of):
    text, shapes = spec_of("IMPL_OP_INFERSHAPE(PickRows).InferShape(Ops::Base::InferShape4Elewise);")
    assert shapes["y"] == shapes["x"]
    assert "# The source states no shape of mask: replace it." in text


@pytest.mark.parametrize(
    "statement",
    [
        "y->SetDimNum(n > 0 ? 2 : 1);",
        "y->SetDim(0, 2);",
        "Change(*y);",
        "for (size_t i = 0; i < x->GetDimNum(); i++) { y->SetDim(i, x->GetDim(i)); }",
        "y->SetDimNum(x->GetDim(0));",
        "y->AppendDim(x->GetDim(0));",
        "mask->SetDim(-1, 2);",
        "if (x->GetDimNum() == 0) { *mask = *rows; return ge::GRAPH_SUCCESS; }",
        "if (x->GetDimNum() == 0) { return ge::GRAPH_SUCCESS; }",
        "OP_CHECK_IF(!Broadcast(x, mask), OP_LOGE(context, text), return ge::GRAPH_FAILED);",
        "OP_CHECK_IF(Change(context), OP_LOGE(context, text), return ge::GRAPH_FAILED);",
        "auto status = Change(context);",
        "if (IsUnknownRank(*x) && x->GetDimNum() > 1) { *y = *x; return ge::GRAPH_SUCCESS; }",
        "if (IsUnknownRank(*x)) { *y = *x; } else { *y = *rows; }",
        "if (Changes(context) == ge::GRAPH_FAILED) { return ge::GRAPH_FAILED; }",
        "if (Passes(context) == ge::GRAPH_FAILED) { return ge::GRAPH_FAILED; }",
        "if (Checks(context, y) == ge::GRAPH_FAILED) { return ge::GRAPH_FAILED; }",
        "auto status = Change(y);",
        "for (size_t i = 0; i < 2; ++i) { mask->AppendDim(1); }",
        "return Change(context);",
    ],
)
def test_uncertain_shapes_become_comments(statement, spec_of):
    text, _ = spec_of(CALLED + INFER.replace("STATEMENT", statement))
    assert "# The source states no shape of y, mask: replace it." in text
    assert f"shape inference is not read: {statement[:40]}" in text


HELPER = """
static ge::graphStatus Count(gert::InferShapeContext* context, int64_t& n)
{
    n = 2 * context->GetInputShape(0)->GetDim(0);
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Fill(gert::InferShapeContext* context)
{
    auto z = context->GetOutputShape(0);
    int64_t n = Next();
    z->SetDimNum(1);
    z->SetDim(0, n);
    return GRAPH_SUCCESS;
}
"""
COPY_LOOP = "for (size_t i = 0; i < x->GetDimNum(); i++) { y->SetDim(i, x->GetDim(i)); }"
SET_Y = "y->SetDimNum(1); y->SetDim(0, n); *mask = *x; return ge::GRAPH_SUCCESS;"


@pytest.mark.parametrize(
    "statements",
    [
        "int64_t n = 1; if (Count(context, n) != ge::GRAPH_SUCCESS) { return ge::GRAPH_FAILED; }" + SET_Y,
        "int64_t n = 1; OP_CHECK_IF(!Take(x, n), OP_LOGE(context, text), return ge::GRAPH_FAILED);" + SET_Y,
        "int64_t n = 1; bool is_known = Take(x, &n);" + SET_Y,
        "int64_t n = 1; int64_t& m = n; bool is_known = Take(x, m);" + SET_Y,
        "int64_t n = 1; auto f = [&]() { n = 3; return true; }; bool is_known = f();" + SET_Y,
        "std::vector<int64_t> v = {1}; auto at = v.insert(v.begin(), 9); int64_t n = v[0];" + SET_Y,
        "int64_t n = x->GetDim(0); return Fill(context);",
        "int64_t n = g_count;" + SET_Y,
        "int64_t n = WIDTH;" + SET_Y,
        "bool n = x->GetDim(0);" + SET_Y,
        "int8_t n = 300;" + SET_Y,
        "uint32_t n = -1;" + SET_Y,
        "int64_t n = -1;" + SET_Y,
        "y->SetDimNum(x->GetDimNum() - (1));" + COPY_LOOP,
        "if (x->GetDimNum() == 1) { return ge::GRAPH_FAILED; } else { Change(context); }",
        "if (x->GetDimNum() == 1) { return ge::GRAPH_FAILED; } else if (Change(x)) { Change(context); }",
        'OP_LOGE_IF(x->GetDimNum() == 1, ge::GRAPH_SUCCESS, "name", "text");',
        "OP_CHECK_NULL_WITH_CONTEXT(context, Change(y));",
        "OP_LOGY(y);",
        "if (IsUnknownShape(*x)) { *y = *x; return ge::GRAPH_SUCCESS; }",
    ],
)
def test_values_that_other_code_may_change_are_not_read(statements, spec_of):
    declared = "static int64_t g_count = 3;\n#ifdef WIDE\n#define WIDTH 8\n#else\n#define WIDTH 4\n#endif\n"
    declared += (
        "#define OP_LOGY(z) (z)->SetDim(0, 1)\nbool IsUnknownShape(const Shape& s) { return s.GetDimNum() == 1; }"
    )
    text, _ = spec_of(declared + HELPER + INFER.replace("STATEMENT", statements))
    assert "# The source states no shape of y, mask: replace it." in text
    assert "shape inference is not read: " in text


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("const int64_t n = 3; bool is_known = Take(x, n);" + SET_Y, (3,)),
        ("int64_t n = 3; const bool is_even = IsEven(static_cast<int>(n));" + SET_Y, (3,)),
        ("int64_t n = x->GetDim(0); OP_CHECK_NULL_WITH_CONTEXT(context, n);" + SET_Y, ("S1a",)),
        ("int64_t n = 3; if (n == 4) { return ge::GRAPH_FAILED; } else if (n > 8) { return FAILED; }" + SET_Y, (3,)),
        ("int64_t n = 3; if (IsUnknownRank(*x)) { Take(y, n); return ge::GRAPH_SUCCESS; }" + SET_Y, (3,)),
    ],
)
def test_values_that_no_other_code_can_change_are_read(statements, expected, spec_of):
    declared = "bool IsUnknownRank(const Shape& s) { return s.GetDim(0) == UNKNOWN_RANK; }"
    text, shapes = spec_of(declared + INFER.replace("STATEMENT", statements))
    assert shapes["y"] == expected, text


def test_a_function_with_two_definitions_is_not_read(spec_of):
    other = INFER.replace("IMPL_OP_INFERSHAPE(PickRows).InferDataType(Types).InferShape(Shapes);", "")
    text, _ = spec_of(other.replace("STATEMENT", "").replace("namespace ops", "namespace old") + INFER)
    assert "shape inference: the source defines Shapes 2 times" in text
    types = "static ge::graphStatus Shapes(gert::InferDataTypeContext* context) { return ge::GRAPH_SUCCESS; }\n"
    text, shapes = spec_of(types + INFER.replace("STATEMENT", ""))
    assert shapes["y"] == shapes["rows"], text


def test_a_function_without_the_name_context_is_not_read(spec_of):
    text, _ = spec_of(INFER.replace("STATEMENT", "").replace("Context* context", "Context* given"))
    assert "shape inference is not read: the function has no first parameter 'context'" in text


@pytest.mark.parametrize(
    ("registered", "reason"),
    [
        ('IMPL_OP(PickRows).Parse(F(1), "a").InferShape(ops::Shapes).Other({1});', ""),
        ("IMPL_OP(PickRows).InferShape(Shapes<int>);", "the source does not define Shapes<int>"),
        (
            "IMPL_OP(PickRows).InferShape([](auto* context) { return 0; });",
            "the source does not define [](auto* context)",
        ),
        ("IMPL_OP(PickRows).Tiling(Shapes);", None),
    ],
)
def test_each_registration_is_read_or_a_comment(registered, reason):
    known = "IMPL_OP_INFERSHAPE(PickRows).InferDataType(Types).InferShape(Shapes);"
    found = list(shape_rules(Source(INFER.replace("STATEMENT", "").replace(known, registered), "a.cpp")))
    assert [bool(rules.shapes) for rules in found] == ([] if reason is None else [not reason])
    notes = [note.text.strip() for rules in found for note in rules.notes]
    assert notes == ([f"shape inference: {reason}"] if reason else [])


def test_constants_of_several_namespaces_are_not_certain(spec_of):
    other = "namespace old { constexpr size_t ROWS = 0; }\n"
    text, _ = spec_of(other + INFER.replace("STATEMENT", ""))
    assert "# The source states no shape of y" in text
    same = "namespace old { constexpr size_t ROWS = 1; }\n"
    text, shapes = spec_of(same + INFER.replace("STATEMENT", ""))
    assert shapes["y"] == shapes["rows"], text


def test_positions_after_a_list_of_tensors_are_not_certain(tmp_path):
    (tmp_path / "pick_rows_def.cpp").write_text(OP_DEF.replace('"x").ParamType(REQUIRED)', '"x").ParamType(DYNAMIC)'))
    (tmp_path / "pick_rows_infershape.cpp").write_text(INFER.replace("STATEMENT", ""))
    write_project(read_sources([tmp_path]).drafts, tmp_path / "made")
    text = (tmp_path / "made" / "op_proto" / "pick_rows.yaml").read_text()
    assert "# The source states no shape of y, mask: replace it." in text


@pytest.mark.parametrize(
    ("condition", "is_noted"),
    [("x == nullptr || nullptr == rows", False), ("!x", False), ("!is_even && x->GetDimNum() > 3", True)],
)
def test_only_checks_for_null_are_no_comments(condition, is_noted, spec_of):
    text, _ = spec_of(INFER.replace("STATEMENT", f"if ({condition}) {{ return ge::GRAPH_FAILED; }}"))
    assert ("shape inference: check if" in text) is is_noted


def test_registrations_in_comments_are_not_read(tmp_path):
    text = INFER.replace("STATEMENT", "") + "// IMPL_OP_INFERSHAPE(Other).InferShape(Shapes);\n"
    assert [rules.function for rules in shape_rules(Source(text, "a.cpp"))] == ["PickRows"]


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
        (INFER.replace("STATEMENT", "if (a) {" * 5_000 + "return FAILED;" + "}" * 5_000), 1),
        (INFER.replace("STATEMENT", "auto f = " + "[]() {" * 40_000 + "}" * 40_000 + ";"), 1),
        (INFER.replace("STATEMENT", "f(" + "a, " * 60_000 + "a);"), 1),
        (INFER.replace("STATEMENT", "[]" * 100_000), 1),
    ],
    ids=["chain", "condition", "body", "parentheses", "branches", "lambdas", "arguments", "brackets"],
)
def test_text_of_any_size_ends(text, operators):
    assert len(list(shape_rules(Source(text, "a.cpp")))) == operators
