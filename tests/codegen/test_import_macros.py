"""Test the reading of REG_OP prototypes and of the macros of tiling data: each statement is read or a comment."""

import pytest

from opforge.codegen.data.dtypes import DECLARED_DTYPES
from opforge.codegen.importers.new_project import write_project
from opforge.codegen.importers.op_def import drafts
from opforge.codegen.importers.sources import read_sources
from opforge.codegen.importers.spec_text import spec_of
from opforge.codegen.spec.loader import load_specs

pytestmark = pytest.mark.slow

pytest.importorskip("tree_sitter_cpp", reason="tree-sitter-cpp is not installed: pip install 'opforge[import]'")

INPUT, OUTPUT = ".INPUT(x, TensorType({DT_FLOAT}))", ".OUTPUT(y, TensorType({DT_FLOAT}))"
END = ".OP_END_FACTORY_REG(Gate)"
SHAPES = """
ge::graphStatus Shapes(gert::InferShapeContext* context)
{
    auto x = context->GetInputShape(0);
    auto y = context->GetOutputShape(0);
    STATEMENT
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_INFERSHAPE(Gate).InferShape(Shapes);
"""
FIELD = "TILING_DATA_FIELD_DEF"


def gate(clauses):
    """Return the draft of a prototype with these clauses before its output, and its comments."""
    (draft,) = drafts(f"REG_OP(Gate){INPUT}\n{clauses}\n{OUTPUT}{END}", "gate_proto.h")
    return draft, [note.text for note in draft.notes]


@pytest.mark.parametrize(
    ("clauses", "names", "comments"),
    [
        ("COMMON", ["x", "y"], ["COMMON: the macro is not read"]),
        ("COMMON(a, b)", ["x", "y"], ["COMMON: the macro is not read"]),
        (
            "#ifdef WIDE\n.INPUT(z, TensorType({DT_INT8}))\n#endif",
            ["x", "z", "y"],
            ["#ifdef WIDE: both branches of conditions are read", "#endif: both branches of conditions are read"],
        ),
        (INPUT, ["x", "y"], ["INPUT(x, TensorType({DT_FLOAT})): it is not read"]),
        (".INPUT(z, {DT_INT8}, 1)", ["x", "z", "y"], ["INPUT(z, {DT_INT8}, 1): a further argument is not read"]),
        (".GRAPH(body)", ["x", "y"], ["GRAPH(body)"]),
        ("/* .INPUT(z, TensorType({DT_INT8})) */", ["x", "y"], []),
    ],
)
def test_no_clause_of_a_prototype_is_lost(clauses, names, comments):
    draft, notes = gate(clauses)
    assert ([tensor.name for tensor in draft.tensors], notes) == (names, comments)


def test_a_prototype_without_an_end_is_incomplete():
    text = f"REG_OP(Gate){INPUT}{OUTPUT}\nREG_OP(Other){INPUT}{OUTPUT}{END}"
    gate_draft, other = drafts(text, "gate_proto.h")
    assert [note.text for note in gate_draft.notes] == [
        "the prototype has no OP_END_FACTORY_REG, so it may be incomplete"
    ]
    assert (gate_draft.is_partial, other.is_partial, other.notes) == (True, False, ())
    gate_draft, other = drafts(
        f"REG_OP(Gate).INPUT(x, TensorType({{DT_FLOAT}})\nREG_OP(Other){OUTPUT}{END}", "a_proto.h"
    )
    assert (gate_draft.is_partial, other.is_partial, other.notes) == (True, False, ())


@pytest.mark.parametrize(
    ("dtypes", "expected", "comment"),
    [
        ("TensorType({ge::DT_FLOAT, DT_INT8})", ("float32", "int8"), ""),
        ('"T"', ("float16", "int32"), ""),
        ('"Other"', (), 'tensor z: dtypes "Other": not all are read'),
        ("TensorType::IndexNumberType()", ("int32", "int64"), ""),
        ("TensorType({FloatingDataType(), ge::DT_BF16})", ("float64", "float32", "float16", "bfloat16"), ""),
        ("TensorType::SomeType()", (), "tensor z: dtypes TensorType::SomeType(): not all are read"),
        ("TensorType({DT_INT8, kMore})", ("int8",), "tensor z: dtypes TensorType({DT_INT8, kMore}): not all are read"),
        ("TensorType({DT_INT8, DT_RESOURCE})", ("int8",), "tensor z: dtypes TensorType({DT_INT8, DT_RESOURCE}): "),
    ],
)
def test_dtypes_of_a_prototype(dtypes, expected, comment):
    draft, notes = gate(f".INPUT(z, {dtypes}).DATATYPE(T, TensorType({{DT_FLOAT16, DT_INT32}}))")
    assert draft.inputs[1].dtypes == expected
    assert len(notes) == bool(comment)
    assert all(note.startswith(comment) for note in notes)


def test_documented_sets_of_dtypes():
    sizes = {
        "ALL": 23, "OrdinaryType": 16, "BasicType": 20, "NumberType": 18, "RealNumberType": 12, "UnaryDataType": 7,
        "FLOAT": 3, "FloatingDataType": 3, "IntegerDataType": 8, "SignedDataType": 4, "UnsignedDataType": 4,
        "IndexNumberType": 2, "ComplexDataType": 3, "QuantifiedType": 5,
    }  # fmt: skip
    for name, size in sizes.items():
        draft, notes = gate(f".INPUT(z, TensorType::{name}())")
        assert (len(draft.inputs[1].dtypes), notes) == (size, [])
        assert {*draft.inputs[1].dtypes} <= {*DECLARED_DTYPES, "resource"}


@pytest.mark.parametrize(
    ("attr", "default", "comment"),
    [
        ("Int, 010", 8, ""),
        ("Int, (5)", 5, ""),
        ("Int, 1'000", 1000, ""),
        ('String, "a" "b, (c)"', "ab, (c)", ""),
        ("ListInt, {1, -2}", (1, -2), ""),
        ("Bool, 1", True, ""),
        ("ListInt, {{1}}", (), "the default {{1}} is not a constant of the type list_int; the draft has ()"),
        ("Int, 1.5", 0, "the default 1.5 is not a constant of the type int; the draft has 0"),
        ("Int, kConst", 0, "the default kConst is not a constant of the type int; the draft has 0"),
        ("Int", None, "its default is not stated; the draft has a required attribute"),
        ("Tensor", None, "the type Tensor is not read; the draft has int"),
    ],
)
def test_defaults_of_a_prototype(attr, default, comment):
    draft, notes = gate(f".ATTR(mode, {attr})")
    assert draft.attrs[0].default == default
    assert type(draft.attrs[0].default) is type(default)
    assert notes[:1] == ([f"attribute mode: {comment}"] if comment else [])


@pytest.mark.parametrize(
    "text",
    [
        "#define REG_OP(x) class x\n",
        f'const char* text = "REG_OP(Old){INPUT}{END}";\n',
        f"#if 0\nREG_OP(Old){INPUT}{END}\n#ifdef A\n#else\n#endif\n#endif\n",
        f"#if 0\nREG_OP(Old){INPUT}{END}\n#else\n#endif\n",
    ],
)
def test_text_that_declares_no_operator_is_skipped(text):
    found = drafts(f"{text}REG_OP(Gate){INPUT}{OUTPUT}{END}", "gate_proto.h")
    assert [(draft.op_type, draft.place) for draft in found] == [("Gate", f"gate_proto.h:{text.count(chr(10)) + 1}")]


def test_sources_with_other_statements_about_an_operator_are_a_comment(tmp_path):
    (tmp_path / "a_proto.h").write_text(f"REG_OP(Gate){INPUT}{OUTPUT}{END}")
    (tmp_path / "b_proto.h").write_text(f"REG_OP(Gate){INPUT}{END}")
    (draft,) = read_sources([tmp_path]).drafts
    assert [tensor.name for tensor in draft.tensors] == ["x", "y"]
    (note,) = draft.notes
    assert note.text.endswith("b_proto.h:1: Gate again; the draft has the first one")
    op_def = 'class Gate : public OpDef { public: explicit Gate(const char* n) : OpDef(n) { this->Input("x"); } };'
    (tmp_path / "gate_def.cpp").write_text(op_def + "OP_ADD(Gate);")
    (tmp_path / "b_proto.h").unlink()
    (draft,) = read_sources([tmp_path]).drafts
    assert [note.text.partition(": ")[2] for note in draft.notes] == ["y, which the OpDef lacks"]


def test_a_page_adds_rules_and_comments_to_a_definition(tmp_path):
    op_def = "class Gate : public OpDef { public: explicit Gate(const char* n) : OpDef(n) {"
    for option, name in (("REQUIRED", "rowIndex"), ("OPTIONAL", "w")):
        op_def += f'this->Input("{name}").ParamType({option}).DataType({{ge::DT_FLOAT}});'
    op_def += 'this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT}); } };\nOP_ADD(Gate);'
    (tmp_path / "gate_def.cpp").write_text(op_def)
    parameters = "const aclTensor *rowIndex, const aclTensor *w, aclTensor *y, uint64_t *workspaceSize"
    rows = ["rowIndex | Input | even | FLOAT | 2-4", "w | Input | - | FLOAT | 1-3", "y | Output | - | FLOAT | -"]
    table = "\n".join(f"| {row} |" for row in ("a | Input/Output | c | Data Type | Shape", "---", *rows))
    page = f"aclnnGateGetWorkspaceSize({parameters})\n{table}\n\nAt most 8 rows.\n"
    (tmp_path / "aclnnGate.md").write_text(page)
    (draft,) = read_sources([tmp_path]).drafts
    assert [(rule.subject, rule.text) for rule in draft.rules] == [("rowIndex", "aclnnGate.md: rowIndex: 2-4")]
    texts = {note.text for note in draft.notes}
    assert {"aclnnGate.md: w: 1-3", "aclnnGate.md: At most 8 rows."} <= texts
    write_project([draft], tmp_path / "made")
    (spec,) = load_specs([tmp_path / "made" / "op_proto" / "gate.yaml"])
    assert spec.constraints[4].check == "len(row_index) >= 2 and len(row_index) <= 4"


def test_different_shape_inference_in_several_files_is_not_read(tmp_path):
    (tmp_path / "gate_proto.h").write_text(f"REG_OP(Gate){INPUT}{OUTPUT}{END}")
    for name, statement in (("a", "*y = *x;"), ("b", "y->SetScalar();")):
        (tmp_path / f"{name}_infershape.cpp").write_text(SHAPES.replace("STATEMENT", statement))
    (draft,) = read_sources([tmp_path]).drafts
    assert draft.shapes == ()
    assert [note.text for note in draft.notes] == [
        "shape inference: 2 files register different functions; none of them is read"
    ]


def test_outputs_in_the_memory_of_inputs_have_no_comment_about_shape_inference(tmp_path):
    (tmp_path / "gate_proto.h").write_text(f"REG_OP(Gate){INPUT}{OUTPUT.replace('y', 'x')}{END}")
    (draft,) = read_sources([tmp_path]).drafts
    assert "shape inference" not in spec_of(draft).text
    (tmp_path / "gate_infershape.cpp").write_text(SHAPES.replace("STATEMENT", "y->SetScalar();"))
    (draft,) = read_sources([tmp_path]).drafts
    assert "output x: the shape inference gives it the shape []" in spec_of(draft).text


def tiling(statements, before="", after=""):
    """Return the fields and comments of the structure of a header."""
    text = f"{before}\nBEGIN_TILING_DATA_DEF(GateData)\n{statements}\nEND_TILING_DATA_DEF;\n{after}\n"
    found = drafts(text + "REGISTER_TILING_DATA_CLASS(Gate, optiling::GateData)", "gate_tiling.h")
    (draft,) = (draft for draft in found if draft.function == "Gate")
    return [(field.name, field.type, field.count) for field in draft.fields], [note.text for note in draft.notes]


@pytest.mark.parametrize(
    ("statements", "fields", "comments"),
    [
        (f"{FIELD}(int32_t, rows);", [("rows", "int32", None)], []),
        (f"{FIELD}_ARR(int32_t, (MOST), sizes);", [("sizes", "int32", 8)], []),
        (f"{FIELD}_ARR(int32_t, WIDTH + 1, sizes);", [("sizes", "int32", 5)], []),
        (f"{FIELD}_ARR(int32_t, OTHER, sizes);", [], [f"tiling data: {FIELD}_ARR(int32_t, OTHER, sizes)"]),
        (f"{FIELD}_ARR(int32_t, sizeof(int), sizes);", [], [f"tiling data: {FIELD}_ARR(int32_t, sizeof(int), sizes)"]),
        (f"{FIELD}(half, rows);", [], [f"tiling data: {FIELD}(half, rows)"]),
        (f"{FIELD}(int32_t, rows, old);", [], [f"tiling data: {FIELD}(int32_t, rows, old)"]),
        (f"{FIELD}_STRUCT(Part, part);", [], [f"tiling data: {FIELD}_STRUCT(Part, part)"]),
        ("COMMON_FIELDS", [], ["tiling data: COMMON_FIELDS"]),
        (
            f"#ifdef WIDE\n{FIELD}(int64_t, rows);\n#else\n{FIELD}(int32_t, rows);\n#endif",
            [("rows", "int64", None)],
            [f"tiling data: {text}" for text in ("#ifdef WIDE", "#else", f"{FIELD}(int32_t, rows)", "#endif")],
        ),
        (
            f"{FIELD}(int32_t, rowCount);\n{FIELD}(int32_t, row_count);",
            [("row_count", "int32", None), ("row_count_value", "int32", None)],
            ["tiling data: the field row_count has the name row_count_value"],
        ),
    ],
)
def test_no_statement_of_tiling_data_is_lost(statements, fields, comments):
    found, notes = tiling(statements, "#define MOST 8\nconstexpr int WIDTH = 4;")
    assert found == fields
    assert [note.removesuffix(" is not in the draft") for note in notes] == comments


def test_comments_belong_to_the_structure():
    other = f"BEGIN_TILING_DATA_DEF(Other)\n{FIELD}(half, scale);\nEND_TILING_DATA_DEF;\n{FIELD}(int32_t, outside);"
    assert tiling(f"{FIELD}(int32_t, rows);", other, other) == ([("rows", "int32", None)], [])


def test_structures_of_other_files_and_keys_are_comments(tmp_path):
    (tmp_path / "gate_proto.h").write_text(f"REG_OP(Gate){INPUT}{OUTPUT}{END}")
    data = f"BEGIN_TILING_DATA_DEF(Data)\n{FIELD}(int32_t, rows);\nEND_TILING_DATA_DEF;\n"
    (tmp_path / "gate_tiling.h").write_text("REGISTER_TILING_DATA_CLASS(Gate, Data)")
    (draft,) = read_sources([tmp_path]).drafts
    assert [note.text for note in draft.notes] == ["gate_tiling.h: the source does not define the tiling data Data"]
    (tmp_path / "data_tiling.h").write_text(data + "REGISTER_TILING_DATA_CLASS(Gate_1001, Data)")
    (draft,) = read_sources([tmp_path]).drafts
    assert [field.name for field in draft.fields] == ["rows"]
    assert [note.text for note in draft.notes] == [
        "tiling data Data is registered for Gate_1001; the draft has one structure"
    ]
