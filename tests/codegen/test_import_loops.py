"""Test OpDefs whose constructors have loops over constants, lambdas and names of tensors."""

import pytest

from opforge.codegen.importers import op_def
from opforge.codegen.importers.draft import Note

pytestmark = pytest.mark.slow

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


NOTES = (Note(14, "tensor y: 1 dtype is used for all 2 combinations"),)
LIST = "std::vector<ge::DataType> t = {ge::DT_FLOAT16}; "
USE = ' this->Input("a").DataType(t);'


@pytest.mark.parametrize(
    "change",
    [
        "t.push_back(ge::DT_FLOAT);",
        "auto f = [&] { t.emplace_back(ge::DT_FLOAT); }; f();",
        "{ t.push_back(DT_FLOAT); }",
    ],
)
def test_appended_constants_are_read(change):
    draft = draft_of(LIST + change + USE)
    assert (draft.inputs[0].dtypes, draft.notes) == (("float16", "float32"), NOTES)


@pytest.mark.parametrize(
    "change",
    [
        "t.push_back(Other());",
        "t.insert(t.end(), ge::DT_FLOAT);",
        "t[0] = ge::DT_INT8;",
        "t = {ge::DT_INT8};",
        "std::reverse(t.begin(), t.end());",
        "Change(t);",
        "auto& r = t; r.push_back(ge::DT_FLOAT);",
        "auto* p = &t; p->clear();",
        "if (kCount) { t.clear(); }",
        "for (auto& d : t) { d = ge::DT_INT8; }",
        "auto f = [](std::vector<ge::DataType>& v) { v.push_back(ge::DT_INT8); }; f(t);",
        "std::for_each(t.begin(), t.end(), [](auto& d) { d = ge::DT_INT8; });",
        "t.push_back(ge::DT_FLOAT), t.clear();",
        "auto n = Change(t);",
        'this->Input("z").DataType(Change(t));',
        "auto f = [](auto& v) { v.clear(); return 1; }; int k = f(t);",
        "auto d = t.begin(); *d = ge::DT_INT8;",
    ],
)
def test_changed_lists_are_unknown(change):
    draft = draft_of(LIST + change + USE)
    assert draft.inputs[-1].dtypes == ()
    assert "tensor a: its dtypes t are no constants" in [note.text for note in draft.notes]


@pytest.mark.parametrize("change", ["k += 2;", "k = 9;", "k++;", "Change(&k);", "auto f = [&] { k = 3; }; f();"])
def test_changed_numbers_are_unknown(change):
    draft = draft_of(f'int k = 2; {change} this->Attr("n").AttrType(OPTIONAL).Int(k);')
    assert "attribute n: the default k is not a constant" in [note.text for note in draft.notes]


def test_declaration_in_a_block_ends_with_it():
    draft = draft_of('int k = 2; { int k = 4; } this->Attr("n").AttrType(OPTIONAL).Int(k);')
    assert (draft.attrs[0].default, draft.notes) == (2, ())


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("010", 8), ("-010", -8), ("0b11", 3), ("0x1F", 31), ("0x1FULL", 31), ("1'000", 1000), ("10u", 10), ("+3", 3),
        ("!true", None), ("1 << 4", None), ("7/2", None), ("~1", None), ("-1u", None), ("kCount++", None),
    ],
)  # fmt: skip
def test_integers_are_those_of_cpp(number, value):
    draft = draft_of(f'this->Attr("n").AttrType(OPTIONAL).Int({number});')
    texts = [note.text for note in draft.notes]
    if value is None:
        assert f"attribute n: the default {number} is not a constant" in texts
    else:
        assert (draft.attrs[0].default, texts) == (value, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a" "b\x41"', "abA"), (r'"a\n\"\101"', 'a\n"A'), ('R"(a)"', None), (r'"\u00e9"', None), ('L"a"', None),
        ('kOther "b"', None), (r'"\x4" "1"', "\x041"),
    ],
)  # fmt: skip
def test_texts_are_those_of_cpp(text, value):
    draft = draft_of(f'this->Attr("n").AttrType(OPTIONAL).String({text});')
    if value is None:
        assert "is not a constant" in draft.notes[0].text
    else:
        assert (draft.attrs[0].default, draft.notes) == (value, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#define K 1\n#undef K", ""),
        ("#define K 1\n#undef K\n#define K 2", ""),
        ("#define K 1", "#define K 2\n"),
        ("", "#define K 1\n"),
    ],
)
def test_macro_without_one_value_is_unknown(before, after):
    use = 'this->Attr("n").AttrType(OPTIONAL).Int(K);'
    (draft,) = op_def.drafts(f"{before}\n{SOURCE.replace('BODY', use)}\n{after}", "sum_def.cpp")
    assert [note.text for note in draft.notes] == ["attribute n: the default K is not a constant"]


ADDERS = 'void Add(OpDef* d, const char* n) { d->Input(n); }\nvoid Add(OpDef* d, int n) { d->Input("bad"); }\n'


def test_overloads_are_not_read():
    (draft,) = op_def.drafts(ADDERS + SOURCE.replace("BODY", 'Add(this, "a");'), "sum_def.cpp")
    assert draft.inputs == ()
    assert [note.text for note in draft.notes] == [
        'Add has 2 definitions with 2 parameters and is not read: Add(this, "a")'
    ]


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ('auto d = this; auto p = &d->Input("a"); p->DataType({ge::DT_INT8});', ""),
        ('auto p = this->Input("a"); p.DataType({ge::DT_INT8});', "DataType is not read"),
        ('Get()->Make()->Input("b"); Other(this->Input("a"));', "Other is not read"),
        ('this->Input("a"); return; this->Input("b");', "Input b is not read"),
        ('this->Input("a"); this->Attr(("n" + std::to_string(1)).c_str()).Int(1);', "Attr: the name is not a constant"),
        ('this->Input("a"); this->AICPU();', "AICPU()"),
        ('this->Input("a").Version(1).AutoContiguous();', "tensor a: Version(1)"),
        ('this->Attr("n").ListListInt({{1}});', "attribute n: ListListInt is not supported"),
        ('for (auto n : kNames) { Flag("x"); }', 'Flag is not read: Flag("x") (2 times)'),
        ('this->Input("a").DataType({ge::DT_INT8, ge::DT_INT16});', "tensor y: 1 dtype is used for all 2 combinations"),
        (
            'this->Input("a").DataType({ge::DT_INT8}).Format({FORMAT_ND, FORMAT_ND});',
            "tensor a: DataType and Format have different lengths: 1 and 2",
        ),
    ],
)
def test_what_is_not_read_is_a_note(body, note):
    texts = [text.text for text in draft_of(body).notes]
    assert any(text.startswith(note) for text in texts) if note else not texts


BASE = SOURCE.replace("class Sum : public OpDef", "class Base : public OpDef").replace("explicit Sum", "explicit Base")
BASE = BASE.replace("BODY", 'this->Input("a");').replace("OP_ADD(Sum);", "")
DERIVED = 'class Sum : public Base { public: Sum(const char* n) : Base(n) { this->Input("b"); } };\n'


def test_base_class_is_read():
    (draft,) = op_def.drafts(f"{BASE}{DERIVED}OP_ADD(Sum);", "sum_def.cpp")
    assert (draft.op_type, [t.name for t in draft.tensors], draft.notes) == ("Sum", ["a", "b", "y"], ())


def test_file_without_op_add_and_unknown_base_class_have_notes():
    base, derived = op_def.drafts(BASE + DERIVED, "sum_def.cpp")
    assert [draft.notes[-1].text for draft in (base, derived)] == [
        "the file has no OP_ADD(Base)", "the file has no OP_ADD(Sum)",
    ]  # fmt: skip
    (draft,) = op_def.drafts(f"{DERIVED}OP_ADD(Sum);", "sum_def.cpp")
    assert draft.notes[0].text.startswith("the base class Base is not read")


@pytest.mark.parametrize(("default", "number"), [("ge::DT_BF16", 27), ("DT_INT8", 2), ("-1", -1)])
def test_dtype_as_an_integer_default(default, number):
    draft = draft_of(f'this->Attr("dtype").AttrType(OPTIONAL).Int({default});')
    assert draft.attrs[0].default == number
    (draft,) = op_def.drafts(f"REG_OP(Sum).ATTR(dtype, Int, {default}).OP_END_FACTORY_REG(Sum)", "sum_proto.h")
    assert (draft.attrs[0].default, draft.notes) == (number, ())
