"""Compile kernel skeletons with the generated kernel entries, and test `opforge generate --skeleton`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import lower_camel
from opforge.codegen.errors import UserError
from opforge.codegen.render import kernel_skeleton, render
from opforge.codegen.spec.checker import kernel_dtypes
from opforge.codegen.spec.loader import load_specs
from opforge.twin.build import build_runtime, include_flags

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    ROOT / "tests" / "codegen" / "specimens" / "scale_rows.yaml",
    ROOT / "codegen" / "starters" / "row_column_reduction" / "op_proto" / "l2_norm_grad.yaml",
    ROOT / "op_proto" / "grouped_bias_add_grad.yaml",
]
OTHERS = sorted({*ROOT.glob("op_proto/*.yaml"), *ROOT.glob("codegen/starters/*/op_proto/*.yaml")} - {*FILES})
ALL = [*FILES, *(pytest.param(path, marks=pytest.mark.all) for path in OTHERS)]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_skeleton_compiles_with_the_entry(path, tmp_path):
    build_runtime()
    (spec,) = load_specs([path])
    files = {name: text for name, text in render(spec) if name.startswith("op_kernel/")}
    files[spec.kernel] = kernel_skeleton(spec)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    leaders = {tensor.ir_name.upper(): spec.tensor(tensor.dtype or tensor.name) for tensor in spec.tensors}
    types = {name: DTYPES[kernel_dtypes(spec, leader)[0]].kernel for name, leader in leaders.items()}
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wcast-qual"]
    flags += [*include_flags(), f"-I{ROOT / 'op_kernel'}", f"-I{tmp_path / 'op_kernel'}"]
    flags += [f"-DDTYPE_{name}={kind}" for name, kind in types.items()]
    command = [os.environ.get("CXX", "g++"), *flags, str(tmp_path / "op_kernel" / f"{spec.name}.cpp")]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("path", [*FILES, *OTHERS], ids=lambda path: path.stem)
def test_init_has_the_parameters_of_the_entry_in_order(path):
    (spec,) = load_specs([path])
    parameters = re.search(r"Init\((.*?)\)\n", kernel_skeleton(spec), re.DOTALL)[1].split(",")
    names = [parameter.split()[-1].strip("/*&") for parameter in parameters]
    tensors = [lower_camel(tensor.name) for tensor in spec.tensors]
    assert names == [*tensors, "userWorkspace", "tiling", "pipe"]
    fields = re.findall(r"/// - \w+ (\w+)", kernel_skeleton(spec))
    assert fields == [lower_camel(field.name) for field in spec.tiling.fields]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with only a spec."""
    (tmp_path / "op_proto").mkdir()
    path = ROOT / "codegen" / "starters" / "scatter" / "op_proto" / "scatter_sum.yaml"
    (tmp_path / "op_proto" / "scatter_sum.yaml").write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def generate(*arguments):
    result = CliRunner().invoke(app, ["generate", "--skeleton", *arguments])
    output = str(result.exception) if isinstance(result.exception, UserError) else result.stderr
    return result.exit_code, result.stdout, output


def test_skeleton_needs_neither_plan_nor_kernel(project):
    code, printed, _ = generate()
    assert code == 0
    assert "GM_ADDR x, GM_ADDR indices, GM_ADDR y, GM_ADDR /*userWorkspace*/" in printed
    assert generate("ScatterSum") == generate("op_proto/scatter_sum.yaml") == (0, printed, "")
    assert generate("-o", "op_kernel/scatter_sum.h")[0] == 0
    assert (project / "op_kernel" / "scatter_sum.h").read_text() == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "mine.h"], "mine.h: it exists already, expected a new file"),
        (["-o", "link.h"], "link.h: it exists already, expected a new file"),
        (["ScatterSums"], "SPEC: got 'ScatterSums', not in the project "),
        (["ScatterSum", "ScatterSum"], "SPEC: got 2 specs, expected one"),
        (["--json"], "--json: got --skeleton also, expected one of them; omit one"),
        (["--check"], "--check: got --skeleton also, expected one of them; omit one"),
        (["--op-suffix", "Custom"], "--op-suffix: got --skeleton also, expected one of them; omit one"),
    ],
)
def test_errors_are_rejected_and_no_file_changes(project, arguments, message):
    (project / "mine.h").write_text("mine")
    (project / "link.h").symlink_to("nowhere")
    before = sorted(project.rglob("*"))
    code, printed, output = generate(*arguments)
    assert (code, printed) == (1, "")  # the program itself exits with 2 for this exception
    assert message in output
    assert len(output.splitlines()) == 1
    assert (sorted(project.rglob("*")), (project / "mine.h").read_text()) == (before, "mine")


def test_several_operators_need_a_name():
    assert generate()[2].startswith("SPEC: got 5 operators, expected one; name it, as in 'BatchNormElemtBackward'")
