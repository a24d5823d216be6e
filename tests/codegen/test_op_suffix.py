"""Test `--op-suffix`: the operator has another type, other functions and files, and the same plan and kernel."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.codegen.project import Project
from opforge.codegen.render import render
from opforge.twin import run

NAME = "grouped_bias_add_grad"


@pytest.fixture(scope="module")
def project(root, tmp_path_factory):
    """Create a project with one operator for one dtype, with plan and kernel."""
    folder = tmp_path_factory.mktemp("suffixed")
    for path in (f"op_proto/{NAME}.yaml", f"op_host/{NAME}_tiling.h", f"op_kernel/{NAME}.h"):
        (folder / path).parent.mkdir(exist_ok=True)
        shutil.copy(root / path, folder / path)
    spec = folder / "op_proto" / f"{NAME}.yaml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("dtypes: [float16, bfloat16, float32]", "dtypes: [float32]"), encoding="utf-8")
    return Project(folder, op_suffix="Custom")


def test_types_functions_and_files_are_renamed(grouped):
    plain, renamed = dict(render(grouped)), dict(render(grouped.with_suffix("Custom")))
    shared = {f"op_host/{NAME}_problem.h", f"op_kernel/{NAME}_tiling_data.h"}
    assert set(plain) & set(renamed) == shared, "what plan and kernel include keeps its name"
    assert all(plain[path] == renamed[path].replace(f"{NAME}_custom.yaml", f"{NAME}.yaml") for path in shared)
    text = "\n".join(renamed.values())
    for name in (
        "REG_OP(GroupedBiasAddGradCustom)",
        "aclnnGroupedBiasAddGradV2CustomGetWorkspaceSize",
        f"{NAME}_custom(",
    ):
        assert name in text
    for registered in (r"REG_OP\(GroupedBiasAddGrad\)", r"aclnnGroupedBiasAddGrad(V2)?(GetWorkspaceSize)?\("):
        assert re.search(registered, text) is None


def test_the_renamed_operator_runs_on_the_twin(project):
    grad_y = np.arange(12, dtype=np.float32).reshape(6, 2)
    result = run("GroupedBiasAddGradCustom", {"grad_y": grad_y, "group_idx": np.array([2, 6])}, project=project)
    np.testing.assert_array_equal(result["grad_bias"], [grad_y[:2].sum(0), grad_y[2:].sum(0)])
    library = project.build_dir / "twin" / "vendors" / "opforge" / "op_api" / "lib" / "libcust_opapi.so"
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    names = {line.split()[-1] for line in exported.splitlines()} & {*re.findall(r"aclnn\w+", exported)}
    assert {name.removesuffix("GetWorkspaceSize") for name in names} == {
        "aclnnGroupedBiasAddGradCustom",
        "aclnnGroupedBiasAddGradV2Custom",
    }
    with pytest.raises(UserError, match="did you mean 'GroupedBiasAddGradCustom'"):
        run("GroupedBiasAddGrad", {"grad_y": grad_y}, project=project)


def test_the_command_takes_the_suffix_and_names_it_in_the_repair(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project.root)
    result = CliRunner().invoke(app, ["generate", "--op-suffix", "Custom", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "op_kernel" / f"{NAME}_custom.cpp").is_file()
    (tmp_path / "op_host" / f"{NAME}_custom_check.h").write_text("")
    result = CliRunner().invoke(app, ["generate", "--check", "--op-suffix", "Custom", "--output", str(tmp_path)])
    assert result.exit_code == 1
    assert f"run: opforge generate --output {tmp_path} --op-suffix Custom" in result.output


@pytest.mark.parametrize("suffix", ["custom", "9x", "A_B", "../../X", "A\n"])
def test_invalid_suffix_is_rejected(suffix, tmp_path):
    with pytest.raises(UserError, match=r"--op-suffix: got .*, expected a capital"):
        Project(tmp_path, op_suffix=suffix)
