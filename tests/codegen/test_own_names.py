"""Compare the lists of names in codegen/data/identifiers.json with templates, headers, CANN and Python."""

import keyword
import re

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.data.names import attribute_problem, camel_problem, op_type_problem
from opforge.twin.lint.cann_api import api

NAMESPACES = {"AscendC", "domi", "ge", "gert", "op", "ops", "optiling"}
TYPES = {"class", "enum", "struct", "typedef"}


@pytest.mark.parametrize("template", ["aclnn.cpp.j2", "aclnn.h.j2"])
def test_no_parameter_hides_a_name_of_the_template(root, template):
    text = (root / "codegen" / "templates" / template).read_text(encoding="utf-8")
    code = re.sub(r"//[^\n]*|#[^\n]*|\{%.*?%\}|\w*\$\{.*?\}\w*|\"[^\"\n]*\"", "X", text)
    # A parameter cannot hide a member, a qualified name or a called function.
    used = set(re.findall(r"(?<![.>:\w])[a-z][A-Za-z0-9]*\b(?!\s*(?:\(|::))", code)) - {"op"}
    assert used >= {"executor", "stream", "workspaceSize", "aclnnStatus"}
    assert used >= {"call", "status", "uniqueExecutor"} or template.endswith(".h.j2")
    assert sorted(name for name in used if camel_problem(name) is None) == []


def test_no_attribute_has_the_name_of_a_local_variable(root):
    names = set()
    for template in ("_macros.j2", "infershape.cpp.j2", "l0.cpp.j2", "onnx_plugin.cpp.j2"):
        text = (root / "codegen" / "templates" / template).read_text(encoding="utf-8")
        # Names declared in the condition of an 'if' are used only in its block, which contains no attribute.
        code = re.sub(r"if \(const (MaybeViolation|Logic) [^\n]*", "", text)
        names |= set(re.findall(r"(?:[A-Z]\w*[*&]?|aclnnStatus|std::string) ([a-z]\w*)(?= =|;|,|\(|\))", code))
    assert names >= {"attrs", "call", "context", "error", "node", "place", "source", "status", "target"}
    assert sorted(name for name in names if attribute_problem(name) is None) == []


def test_no_operator_has_the_name_of_a_type_of_cann_or_shared_headers():
    spaces = [(entry["kind"], *entry["name"].rpartition("::")) for entries in api().values() for entry in entries]
    names = {name for kind, space, _, name in spaces if kind in TYPES and space in NAMESPACES and name[0].isupper()}
    assert names >= {"OpDef", "TPipe", "Tensor", "Operator"}
    names |= {"Plan", "MaybeViolation", "RowSum", "OwnerScan", "Product"}  # of op_host/common, op_kernel/common, tables
    assert sorted(name for name in names if op_type_problem(name) is None) == []


@pytest.mark.parametrize("name", ["Add", "Cast", "Slice", "GroupedBiasAddGrad"])
def test_names_of_cann_functions_stay_usable(name):
    assert op_type_problem(name) is None


@pytest.mark.parametrize("name", ["Class", "Exp", "Sqrt", "Index"])
def test_no_kernel_has_the_name_of_a_word_or_function_of_c(name):
    assert f"whose kernel would be called {name.lower()!r}" in op_type_problem(name)


@pytest.mark.parametrize("name", sorted({*keyword.kwlist, *keyword.softkwlist} - {"type", "match"}))
def test_no_attribute_has_the_name_of_a_keyword_of_python(name):
    assert attribute_problem(name) is not None


def test_specs_without_kernels_are_the_project(root, tmp_path, monkeypatch):
    folder = tmp_path / "op_proto"
    folder.mkdir()
    text = (root / "op_proto" / "grouped_bias_add_grad.yaml").read_text(encoding="utf-8")
    (folder / "other_op.yaml").write_text(re.sub(r"(op_type: |builtin: \[)GroupedBiasAddGrad", r"\1OtherOp", text))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["generate", "--output", str(tmp_path / "gen")])
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "gen" / "op_host").glob("*_def.cpp")] == ["other_op_def.cpp"]
