"""Test harmful sources for `opforge import`: each gives one message or a draft; the work is proportional to its
size."""

import json
import os
import re
import time

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.importers.cpp_tree import Source
from opforge.codegen.importers.kernel.entry import read_kernel
from opforge.codegen.importers.op_def import drafts
from opforge.codegen.importers.sources import MOST_BYTES, read_file, read_sources
from opforge.codegen.importers.spec_text import spec_of
from opforge.codegen.spec.loader import load_specs

pytestmark = pytest.mark.slow

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
    assert re.search(r"statement is not read: odd = 1 \(\d+ times\)", file.read_text())
    assert load_specs([file])


def test_comments_of_a_draft_have_a_limit():
    (draft,) = drafts(op_def("odd = 1;\n" * 1100), "add_def.cpp")
    assert re.search(r"# - \d+ more statements", spec_of(draft).text)


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
        ("REG_OP(A).INPUT(" * 10_000, 10_000),
        ("REG_OP(A)\n.INPUT(x, TensorType({DT_FLOAT}))\n.OP_END_FACTORY_REG(A)\n" * 300, 300),
        ("REG_OP(A).INPUT(x, " + '"\\' * 200_000, 1),
        ("BEGIN_TILING_DATA_DEF(A)\n" + "TILING_DATA_FIELD_DEF(uint32_t, x);\n" * 10_000, 1),
    ],
    ids=["no end", "many", "texts", "fields"],
)
def test_macros_are_read_once(text, operators):
    """The time is about linear in the length of the text."""
    began = time.process_time()
    assert len(drafts(text, "add_proto.h")) == operators
    assert time.process_time() - began < 5


PAGE = """# aclnnAdd

```cpp
aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self,
    aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor)
```
"""


@pytest.mark.parametrize("name", ["a_def.cpp", "a.json", "aclnnA.md"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bytes(range(256)) * 40, "got binary data, expected text in UTF-8 or GBK"),
        (b"\xff" * 100, "got binary data, expected text in UTF-8 or GBK"),
        ("REG_OP".encode("utf-16-le") * 100, "got UTF-16 LE without a byte order mark, expected UTF-8"),
        ("REG_OP".encode("utf-32") * 100, "got UTF-32, expected UTF-8, GBK, or UTF-16 with a byte order mark; save"),
        ("REG_OP".encode("utf-32-be") * 100, "got UTF-32 without a byte order mark, expected UTF-8"),
        (b"", "got an empty file"),
    ],
    ids=["bytes", "invalid", "UTF-16", "UTF-32", "UTF-32 BE", "empty"],
)
def test_binary_file_is_one_message(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_file(tmp_path / name)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")


def test_large_file_is_not_read(tmp_path):
    file = tmp_path / "a_def.cpp"
    with file.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(UserError, match=f"has 100000000 bytes, expected at most {MOST_BYTES}; name a smaller file"):
        read_file(file)
    file.write_text("REG_OP(" * 100_000)
    with pytest.raises(UserError, match="has 700000 bytes, expected at most 524288 of a C"):
        read_file(file)


@pytest.mark.parametrize("text", ["(", "{", "[&](){", "#if 1\n", '"', "#define A A A\nA\n", "namespace a{", "1<<"])
def test_deep_nesting_of_a_c_source_is_one_message(tmp_path, text):
    file = tmp_path / "a_def.cpp"
    file.write_text("class A : public OpDef {" + text * 20_000)
    with pytest.raises(UserError, match="got no OpDef class, REG_OP, tiling data or shape inference"):
        read_file(file)


@pytest.mark.parametrize(
    "value", ["(" * 20_000 + "ge::DT_FLOAT" + ")" * 20_000, "A<" * 5_000, "F(" * 5_000 + ")" * 5_000]
)
def test_deep_nesting_of_a_value_is_a_comment(value):
    text = op_def("").replace("{ge::DT_FLOAT}", f"{{{value}}}", 1)
    (draft,) = drafts(text, "a_def.cpp")
    assert any("are no constants" in note.text or "unknown dtype" in note.text for note in draft.notes)


def test_deep_json_and_many_problems_are_short_messages(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("[" * 1_000_000)
    with pytest.raises(UserError, match="recursion limit exceeded"):
        read_file(file)
    file.write_text("[" + ",".join(["{}"] * 10_000) + "]")
    with pytest.raises(UserError, match=r"a\.json: got no object with the key 'op', expected an operator"):
        read_file(file)
    file.write_text('[{"op": "A"},' + ",".join(["{}"] * 10_000) + "]")
    with pytest.raises(UserError) as caught:
        read_file(file)
    assert len(lines := str(caught.value).splitlines()) == 21
    assert lines[-1].endswith(" more problems")
    (tmp_path / "b_proto.h").write_text("REG_OP(B).INPUT(x, TensorType({DT_FLOAT})).OP_END_FACTORY_REG(B)")
    (problem,) = read_sources([tmp_path]).problems
    assert re.fullmatch(re.escape(lines[0]) + r"; and \d+ more problems", problem)


def test_files_that_a_source_includes_are_not_read(tmp_path):
    (tmp_path / "other.h").write_text('#define TYPES {ge::DT_INT8}\nthis->Input("z");\n')
    file = tmp_path / "a_def.cpp"
    text = op_def("").replace("{ge::DT_FLOAT}", "TYPES", 1)
    file.write_text(f'#include "other.h"\n#include "a_def.cpp"\n#include "/dev/zero"\n#define A A\n{text}')
    (draft,) = read_sources([file]).drafts
    assert [tensor.name for tensor in draft.inputs] == ["x"]
    assert any("TYPES" in note.text for note in draft.notes)


@pytest.mark.parametrize(
    "more",
    [
        "<table>" * 20_000,
        "<tr>" + "<td rowspan=999999999 colspan=999999999>x" * 2_000,
        "|a" * 2_000 + "|\n",
        "[" * 99_999,
    ],
    ids=["tables", "spans", "columns", "brackets"],
)
def test_odd_page_is_a_draft(tmp_path, more):
    file = tmp_path / "aclnnAdd.md"
    file.write_text(PAGE + more)
    (draft,) = read_file(file)
    assert [tensor.name for tensor in draft.tensors] == ["self", "out"]


def test_folder_with_links_pipes_and_devices_is_imported(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "good_def.cpp").write_text(op_def(""))
    (folder / "loop").symlink_to(tmp_path)
    for name, target in (("self", "self_def.cpp"), ("zero", "/dev/zero"), ("dangling", "absent"), ("folder", ".")):
        (folder / f"{name}_def.cpp").symlink_to(target)
    os.mkfifo(folder / "pipe_def.cpp")
    found = read_sources([tmp_path])
    assert [draft.op_type for draft in found.drafts] == ["AddA"]
    problems = sorted(problem.removeprefix(f"{folder}/") for problem in found.problems)
    for problem, words in zip(
        problems,
        ("dangling_def.cpp: cannot read", "pipe_def.cpp: cannot read the source: got a pipe",
         "self_def.cpp: cannot read the source: Too many levels", "zero_def.cpp: cannot read the source: got a device"),
        strict=True,
    ):  # fmt: skip
        assert problem.startswith(words)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read all files")
def test_unreadable_file_is_one_message(tmp_path):
    file = tmp_path / "a_def.cpp"
    file.write_text(op_def(""))
    file.chmod(0)
    with pytest.raises(UserError, match="cannot read the source: Permission denied"):
        read_file(file)


def test_import_has_a_memory_limit(opforge, tmp_path):
    file = tmp_path / "a_def.cpp"
    file.write_text("class A : public OpDef {" + "A<" * 100_000)
    result = opforge("import", file, cwd=tmp_path, OPFORGE_MEMORY_MB="100")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"{file}: needs more than 100 MB of memory")
    assert sorted(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("template <" * 40_000, "no function with __global__ __aicore__"),
        (
            "template <" + "int A," * 40_000 + "int B>\n__global__ __aicore__ void add_a(A* x, A* y, A* w, A* t) {}",
            "template",
        ),
        ("__global__ __aicore__ void add_a(" * 20_000, "no function with __global__ __aicore__"),
        (" " * 400_000 + "__global__", "no function with __global__ __aicore__"),
        ('extern "C" ' * 40_000, "no function with __global__ __aicore__"),
    ],
)
def test_odd_kernel_is_one_message(tmp_path, text, words):
    (draft,) = drafts(op_def(""), "a_def.cpp")
    kernel = tmp_path / "add_a.cpp"
    kernel.write_text(text)
    with pytest.raises(UserError, match=words):
        read_kernel(kernel, draft)


def test_kernel_with_many_includes_is_one_message(tmp_path):
    (draft,) = drafts(op_def(""), "a_def.cpp")
    for number in range(210):
        (tmp_path / f"h{number}.h").write_text(f'#include "h{number + 1}.h"\n')
    kernel = tmp_path / "add_a.cpp"
    kernel.write_text('#include "h0.h"\n')
    with pytest.raises(UserError, match="includes more than 200 files"):
        read_kernel(kernel, draft)
