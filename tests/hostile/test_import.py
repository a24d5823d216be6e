"""Test harmful sources for `opforge import`: each gives one message or a draft; the work is proportional to its
size."""

import json

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.importers.cpp_tree import Source
from opforge.codegen.importers.op_def import drafts
from opforge.codegen.importers.sources import read_file
from opforge.codegen.importers.spec_text import spec_of
from opforge.codegen.spec.loader import load_specs

TENSOR = {"param_type": "required", "type": ["fp16"], "format": ["ND"]}
ENTRY = {
    "op": "AddA", "language": "cpp", "input_desc": [{"name": "x", **TENSOR}], "output_desc": [{"name": "y", **TENSOR}],
}  # fmt: skip


def op_def(body, more=""):
    tensors = 'this->Input("x").DataType({ge::DT_FLOAT}); this->Output("y").DataType({ge::DT_FLOAT});'
    head = "class AddA : public OpDef { public: explicit AddA(const char* name) : OpDef(name)"
    return f"{head} {{ {tensors} {body} }} {more} }}; OP_ADD(AddA);"


@pytest.mark.parametrize(
    ("old", "new"),
    [('"op": "AddA"', '"op": "AddB", "op": "AddA"'), ('"name": "x"', '"name": "z", "name": "x"')],
    ids=["operator", "tensor"],
)
def test_key_that_is_there_twice_is_an_error(tmp_path, old, new):
    file = tmp_path / "add.json"
    file.write_text(json.dumps([ENTRY]).replace(old, new, 1))
    with pytest.raises(UserError, match=r"got the key '(op|name)' again in one object, expected each key once"):
        read_file(file)


def test_repeated_key_after_many_keys_is_an_error(tmp_path):
    file = tmp_path / "add.json"
    keys = [*(f"k{number}" for number in range(300_000)), "k299999"]
    file.write_text("[{" + ",".join(f'"{key}":1' for key in keys) + "}]")
    with pytest.raises(UserError, match=r"got the key 'k299999' again in one object, expected each key once"):
        read_file(file)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", f'"{10**400}"', '"' + "9" * 5000 + '"'])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_number_that_no_attribute_can_have_is_an_error(tmp_path, kind, number):
    attr = f'[{{"name": "n", "param_type": "optional", "type": "{kind}", "default_value": {number}}}]'
    file = tmp_path / "add.json"
    file.write_text(json.dumps([{**ENTRY, "attr": "HERE"}]).replace('"HERE"', attr))
    with pytest.raises(UserError, match=rf"default_value: got .*, expected a value of the type {kind}"):
        read_file(file)


@pytest.mark.parametrize("number", ["1e999", "9" * 400, "9" * 5000, "-9223372036854775809"])
@pytest.mark.parametrize("kind", ["Int", "Float"])
def test_number_of_a_c_source_that_no_attribute_can_have_is_a_comment(tmp_path, kind, number):
    (draft,) = drafts(op_def(f'this->Attr("n").AttrType(OPTIONAL).{kind}({number});'), "add_def.cpp")
    file = tmp_path / "add_a.yaml"
    file.write_text(spec_of(draft).text)
    (spec,) = load_specs([file])
    is_representable = kind == "Float" and number.startswith("-9")
    assert spec.attrs[0].default == (-(2.0**63) if is_representable else 0)
    assert is_representable or any("is not a constant" in note.text for note in draft.notes)


def test_functions_that_call_themselves_end(tmp_path):
    (draft,) = drafts(op_def("Again();", f"void Again() {{ {'Again(); odd = 1;' * 40} }}"), "add_def.cpp")
    assert sum("calls of functions are not read" in note.text for note in draft.notes) == 1
    file = tmp_path / "add_a.yaml"
    file.write_text(spec_of(draft).text)
    assert "more statements" in file.read_text()
    assert load_specs([file])


def test_long_chain_of_calls_is_copied_a_few_times_only(monkeypatch):
    text = op_def(f'this->Attr("n"){".AttrType(OPTIONAL)" * 3000}.Int(1);')
    copied = 0
    of = Source.of

    def counted(source, node):
        nonlocal copied
        copied += len(found := of(source, node))
        return found

    monkeypatch.setattr(Source, "of", counted)
    assert drafts(text, "add_def.cpp")
    assert copied < 20 * len(text)


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("REG_OP(A).INPUT(" * 50_000, 1),
        ("REG_OP(A)\n.INPUT(x, TensorType({DT_FLOAT}))\n.OP_END_FACTORY_REG(A)\n" * 300, 300),
        ("BEGIN_TILING_DATA_DEF(A)\n" + "TILING_DATA_FIELD_DEF(uint32_t, x);\n" * 50_000, 1),
    ],
    ids=["no end", "many", "fields"],
)
def test_macros_are_read_once(text, operators):
    assert len(drafts(text, "add_proto.h")) == operators
