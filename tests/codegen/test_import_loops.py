"""Test OpDefs whose constructors have loops over constants, lambdas and names of tensors."""

import pytest

from opforge.codegen.importers import op_def

SOURCE = """
constexpr int kCount = 2;
static const char* kNames[] = {"a", "b"};
template <typename T>
static void AddTo(T& config, const char* name, std::initializer_list<ge::DataType> types)
{
    config.Input(name).ParamType(OPTIONAL).DataType(types);
}
class Sum : public OpDef {
public:
    explicit Sum(const char* name) : OpDef(name)
    {
        BODY
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
    }
};
OP_ADD(Sum);
"""
ADD = "this->Input(n).ParamType(REQUIRED).DataType({ge::DT_FLOAT16});"


def draft_of(body):
    (draft,) = op_def.drafts(SOURCE.replace("BODY", body), "sum_def.cpp")
    return draft


@pytest.mark.parametrize(
    "body",
    [
        f"for (auto n : kNames) {{ {ADD} }}",
        f"for (const char* n : kNames) {ADD}",
        f'for (const auto& n : {{"a", "b"}}) {{ {ADD} }}',
        f'std::vector<const char*> names = {{"a", "b"}}; for (auto n : names) {{ {ADD} }}',
        f"for (int i = 0; i < kCount; ++i) {{ auto n = kNames[i]; {ADD} }}",
        f"for (size_t i = 0; i <= 1; i++) {{ const char* n = kNames[i]; {ADD} }}",
        f'std::vector<const char*> v{{"a", "b"}}; for (size_t i = 0; i != v.size(); i += 1) {{ auto n = v[i]; {ADD} }}',
        f'auto add = [this](const char* n) -> void {{ {ADD} }}; add("a"); add("b");',
        f"auto add = [this](const char* n) {{ {ADD} }}; for (auto n : kNames) {{ add(n); }}",
        f'const auto n = "a"; [&] {{ {ADD} }}(); [this](auto n) {{ {ADD} }}("b");',
        'auto set = [](auto&& t) { t.DataType({ge::DT_FLOAT16}); }; set(this->Input("a")); set(this->Input("b"));',
        'for (auto n : {"a", "b"}) { auto& t = this->Input(n); t.ParamType(REQUIRED); t.DataType({ge::DT_FLOAT16}); }',
    ],
)
def test_certain_forms_are_read(body):
    draft = draft_of(body)
    assert [(t.name, t.option, t.dtypes) for t in draft.inputs] == [
        ("a", "required", ("float16",)),
        ("b", "required", ("float16",)),
    ]
    assert (draft.notes, draft.is_partial) == ((), False)


def test_rows_of_a_loop_have_names():
    draft = draft_of(
        'for (auto [n, dtype] : {{"a", {ge::DT_INT8}}, {"b", {ge::DT_INT64}}})'
        " { this->Input(n).DataType(dtype); }"
    )  # fmt: skip
    assert [(t.name, t.dtypes) for t in draft.inputs] == [("a", ("int8",)), ("b", ("int64",))]


def test_name_of_the_configurations_and_templates_are_read():
    draft = draft_of(
        'auto& core = this->AICore(); core.AddConfig("ascend910b"); AddTo(*this, "a", {ge::DT_FLOAT});'
        ' OpAICoreConfig config; AddTo(config, "a", {ge::DT_INT8}); core.AddConfig("ascend950", config);'
    )
    assert draft.products == ("ascend910b", "ascend950")
    assert [(t.name, t.option, t.dtypes) for t in draft.inputs] == [("a", "optional", ("float32",))]
    assert [note.text for note in draft.notes] == ["ascend950 has other dtypes of Input a: types"]


@pytest.mark.parametrize(
    "loop",
    [
        f"for (auto n : NamesOf(3)) {{ {ADD} }}",
        f"for (auto n : kOther) {{ {ADD} }}",
        f"for (auto n : kNames) {{ if (Skip(n)) continue; {ADD} }}",
        f"for (auto n : kNames) {{ {ADD} break; }}",
        f"for (int i = 0; i < Count(); ++i) {{ auto n = kNames[i]; {ADD} }}",
        f"for (int i = 2; i > 0; --i) {{ auto n = kNames[i]; {ADD} }}",
        f"for (int i = 0, j = 1; i < 2; ++i) {{ auto n = kNames[i]; {ADD} }}",
        f"for (;;) {{ {ADD} }}",
        f"for (auto [n, m] : kNames) {{ {ADD} }}",
        f"while (More()) {{ {ADD} }}",
    ],
)
def test_other_loops_are_a_note_with_their_line(loop):
    draft = draft_of(loop)
    assert (draft.inputs, draft.is_partial) == ((), True)
    (note,) = draft.notes
    assert (note.line, note.text.split(": ")[0]) == (13, "statement is not read")
    assert draft.declared_reason == "no inputs were read from the source"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("for (int i = 0; i < 100000; ++i) { Flag(i); }", "more than 2000 iterations of loops are not read"),
        ("auto f = [&](auto n) { for (auto n : kNames) { f(n); f(n); } }; f(1);", "more than 2000"),
        ("for (int i = 0; i < 1999; ++i) { " + "int a = 1; " * 200 + "}", "more than 300000 statements are not read"),
    ],
)
def test_limits_end_the_interpretation(body, text):
    assert any(text in note.text for note in draft_of(body).notes)


@pytest.mark.parametrize(("default", "number"), [("ge::DT_BF16", 27), ("DT_INT8", 2), ("-1", -1)])
def test_dtype_as_an_integer_default(default, number):
    draft = draft_of(f'this->Attr("dtype").AttrType(OPTIONAL).Int({default});')
    assert draft.attrs[0].default == number
    (draft,) = op_def.drafts(f"REG_OP(Sum).ATTR(dtype, Int, {default}).OP_END_FACTORY_REG(Sum)", "sum_proto.h")
    assert (draft.attrs[0].default, draft.notes) == (number, ())
