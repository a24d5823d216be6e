"""Test that facts about operators are only in specs: no source names an operator, and a copied operator is complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.new import new_project
from opforge.codegen.project import Project, find_project
from opforge.codegen.spec.loader import load_specs
from opforge.frontend import convert
from opforge.frontend.run.sample_inputs import sample_inputs
from opforge.package.doctor.cann_environment import CannEnvironment
from opforge.package.doctor.command import diagnosis
from opforge.package.layout import layout
from opforge.package.pack import gather

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("cli", "codegen", "frontend", "op_plugin", "package", "twin", "benchmarks")
SUFFIXES = {".py", ".j2", ".h", ".cpp", ".sh", ".json", ".yaml", ".yml", ".toml"}
# Files that name operators, with the reason.
EXCEPTIONS = {
    "frontend/rules/names/torch_reference.py": "a formula of each function of PyTorch that becomes an operator",
    "benchmarks/baseline.json": "results of earlier measurements",
    "benchmarks/frontend.py": "the measured model needs nodes that a rule matches",
    "benchmarks/public/kernels.py": "the public kernels have these names",
    "benchmarks/public/links.py": "the public kernels have these names",
    "benchmarks/public/tilings.py": "the public tiling functions have these names",
    "benchmarks/soak.py": "repeats calls of single operators",
    "benchmarks/twin.py": "measures the compilation and the call of one operator",
    "benchmarks/vendor.py": "the page of results names the public kernel",
}
BODY = """\
onnx:
  aliases: ['acme::Pick']
  bodies:
    # Indices outside of the table are errors here, so that invalid samples fail.
    rows: |
      axis = Constant <value = int64[1] {1}> ()
      count = Constant <value_int: int = @count> ()
      flat = Constant <value = int64[1] {-1}> ()
      rows = Reshape (count, flat)
      width = Shape <start = 1, end = 2> (x)
      dims = Concat <axis = 0> (rows, width)
      empty = ConstantOfShape <value = float[1] {0}> (dims)
      column = Unsqueeze (indices, axis)
      extent = Shape (x)
      target = Expand (column, extent)
      wide = Cast <to = 7> (target)
      y = ScatterElements <axis = 0, reduction = "add"> (empty, wide, x)
torch:
  targets:
    - target: acme.row_pick.default
      args: {x: x, indices: indices, count: count}
    - target: aten.row_pick_backward.default
      args: {x: x, indices: indices, count: count}

tiling:"""


NAMES = ("opforge::RowPick", "npu::NPURowPick", "acme::Pick")


def others(spec):
    """Return the names of an operator in PyTorch and in other domains."""
    targets = [target.target.split(".")[1] for target in (*spec.torch.targets, *spec.torch.variants)]
    return *targets, *(alias.split("::")[-1] for alias in spec.onnx.aliases)


def is_allowed(path, text, found, specs):
    """Return whether a file belongs to one operator: a rule of this operator, or its measured cases."""
    if path.startswith(("frontend/rules/", "frontend/training/")):
        return found <= set(re.findall(r'^    operator = "(\w+)"$', text, re.MULTILINE))
    return path.startswith("benchmarks/cases/") and found == {specs[Path(path).stem].op_type}


def test_no_source_names_an_operator():
    specs = {spec.name: spec for spec in load_specs(find_project(ROOT).spec_paths())}
    words = {word for s in specs.values() for word in (rf"\b{s.name}\b", s.op_type, *s.builtin, *others(s))}
    names = re.compile("|".join(sorted(words, key=len, reverse=True)))
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    assert len(files) > 350
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    found = {path: set(names.findall(text)) for path, text in texts.items()}
    naming = {path for path, words in found.items() if words and not is_allowed(path, texts[path], words, specs)}
    assert naming == set(EXCEPTIONS)


@pytest.fixture(scope="module")
def row_pick(tmp_path_factory):
    """Create an operator of four files: rows are copied to positions given by indices of a table of `count` rows."""
    root = new_project("RowPick", tmp_path_factory.mktemp("projects") / "row_pick", "scatter")
    path = root / "op_proto" / "row_pick.yaml"
    text = path.read_text().replace("\ntiling:", f"\n{BODY}", 1)
    path.write_text(text.replace("products:", "builtin: [RowPick, aclnnRowPick]\nproducts:", 1))
    return Project(root)


@pytest.fixture
def project(row_pick, monkeypatch):
    """Return the project, which is the current folder."""
    monkeypatch.chdir(row_pick.root)
    return row_pick


def model(key):
    domain, op_type = key.split("::")
    call = f"{domain}.{op_type} <count = 9> (x, i)"
    if op_type.startswith("row_pick"):
        domain = domain.replace("aten", "org.pytorch.aten")
        call = f"{domain}.{op_type} (x, i, count)"
    text = f"""<ir_version: 8, opset_import: ["" : 18, "{domain}" : 1]>
        g (float[40, 6] x, int64[40] i) => (float[9, 6] z) <int64[1] count = {{9}}>
        {{[n] y = {call} z = Neg (y)}}"""
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("key", [*NAMES, "acme::row_pick", "aten::row_pick_backward"])
def test_a_copied_operator_is_mapped_by_name_and_gets_valid_inputs(project, key):
    source = model(key)
    conversion = convert(source)
    assert [(entry.op, entry.rule) for entry in conversion.mapped] == [("RowPick", key)]
    indices = sample_inputs(source, conversion)["i"]
    assert indices.min() >= 0
    assert 1 < indices.max() < 9
    onnx.save(source, "m.onnx")
    result = CliRunner().invoke(app, ["convert", "m.onnx", "-o", "o.onnx", "--verify", "--json", "r.json"])
    assert result.exit_code == 0, result.output
    (entry,) = json.loads(Path("r.json").read_text())["verified"]
    assert entry["same"]


def test_a_copied_operator_runs_on_generated_inputs(project):
    onnx.save(model("npu::NPURowPick"), "m.onnx")
    result = CliRunner().invoke(app, ["run", "m.onnx", "--outputs", "o.npz"])
    assert result.exit_code == 0, result.output
    # Every row was copied.
    assert np.abs(np.load("o.npz")["z"]).min() > 0


def test_doctor_reports_operators_hidden_by_a_copied_operator(project, tmp_path, monkeypatch):
    contents = gather(project, None, None, "acme")
    vendor = tmp_path / "vendors" / "acme"
    for name, data in layout(contents).items():
        if name.startswith("packages/vendors/acme/"):
            path = vendor / name.removeprefix("packages/vendors/acme/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    toolkit = tmp_path / "toolkit"
    (toolkit / "compiler").mkdir(parents=True)
    (toolkit / "compiler" / "version.info").write_text("Version=8.1\nversion_dir=8.1.RC1\n")
    monkeypatch.chdir(tmp_path)  # only the package contains it
    environment = CannEnvironment({"ASCEND_CUSTOM_OPP_PATH": str(vendor), "ASCEND_HOME_PATH": str(toolkit)}, ())
    seen = diagnosis(environment, "ascend910_93", [])["operators"]["RowPick"]
    assert set(seen.values()) == {str(vendor), "CANN's own"}
    assert json.loads((vendor / "manifest.json").read_text())["builtin_op_types"] == ["RowPick"]
