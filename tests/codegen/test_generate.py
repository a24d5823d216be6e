"""Test the command `opforge generate`."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.data.names import snake_case
from opforge.codegen.errors import UserError
from opforge.codegen.generate import load
from opforge.codegen.spec.compile import compile_spec
from opforge.codegen.spec.loader import read_text
from opforge.codegen.writer import MANIFEST


@pytest.fixture
def project(tmp_path, monkeypatch, root):
    """Create a project folder with one operator that has plan and kernel, and one that has neither."""
    for folder in ("op_proto", "op_host", "op_kernel"):
        (tmp_path / folder).mkdir()
    shutil.copy(root / "op_proto" / "grouped_bias_add_grad.yaml", tmp_path / "op_proto")
    shutil.copy(root / "tests" / "codegen" / "specimens" / "scale_rows.yaml", tmp_path / "op_proto")
    (tmp_path / "op_host" / "grouped_bias_add_grad_tiling.h").write_text("// a plan\n")
    (tmp_path / "op_kernel" / "grouped_bias_add_grad.h").write_text("// a kernel\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPFORGE_BUILD_DIR", raising=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["generate", *map(str, arguments)])


def test_generate_check_and_repair(project):
    result = run()
    assert result.exit_code == 0
    assert "not generated: ScaleRows: tiling and kernel entry; op_host/scale_rows_tiling.h is missing" in result.output
    gen = project / "build" / "gen"
    assert (gen / "op_kernel" / "grouped_bias_add_grad.cpp").is_file()
    assert (gen / "op_host" / "scale_rows_infershape.cpp").is_file()
    assert not (gen / "op_host" / "scale_rows_tiling.cpp").exists()
    assert run("--check").exit_code == 0

    header = gen / "op_proto" / "scale_rows_proto.h"
    header.write_text(header.read_text().replace("ScaleRows", "ScaleCols"))
    stale = run("--check")
    assert stale.exit_code == 1
    assert "-REG_OP(ScaleCols)" in stale.output
    assert "+REG_OP(ScaleRows)" in stale.output
    assert re.search(r"^1 of \d+ files are stale in build/gen; run: opforge generate$", stale.output, re.MULTILINE)
    assert run().exit_code == 0
    assert run("--check").exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("--op-suffix", "Custom")])
def test_each_spec_is_compiled_once(root, tmp_path, monkeypatch, arguments):
    compiled = []
    read_text.cache_clear()

    def counted(spec):
        compiled.append(spec.op_type)
        return compile_spec(spec)

    monkeypatch.setattr("opforge.codegen.spec.model.compile_spec", counted)
    monkeypatch.chdir(root)
    assert run("--output", tmp_path / "gen", *arguments).exit_code == 0
    operators = [path.stem for path in (root / "op_proto").glob("*.yaml")]
    assert sorted(map(snake_case, compiled)) == sorted(operators)


ENVIRONMENT = {
    "TZ": "Pacific/Apia",
    "LC_ALL": "C",
    "LANG": "tr_TR.UTF-8",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONHASHSEED": "12345",
}


def generated_in(folder, *, umask=0o022, **changes):
    """Return every file that the command writes in a copy of a project, with its bytes."""
    environment = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", **os.environ, **changes}
    command = [sys.executable, "-c", "from opforge.cli.main import main; main()", "generate"]
    subprocess.run(command, cwd=folder, env=environment, umask=umask, check=True, capture_output=True)
    gen = folder / "build" / "gen"
    return {path.relative_to(gen).as_posix(): path.read_bytes() for path in gen.rglob("*") if path.is_file()}


def test_bytes_depend_only_on_the_project(project, tmp_path_factory):
    """Another folder, time zone, locale, hash seed or umask gives the same bytes, including the manifest."""
    here = generated_in(project)
    assert len(here) > 30
    copy = tmp_path_factory.mktemp("another folder") / "project \u00e9"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("build"))
    assert generated_in(copy, umask=0o077, **ENVIRONMENT) == here


def test_a_missing_output_folder_is_stale(project):
    assert run("--check").exit_code == 1
    assert not (project / "build").exists()


def test_list_outputs_names_exactly_the_written_files(project):
    listed = run("--list-outputs").output.split()
    assert not (project / "build").exists()
    run()
    written = {path.relative_to(project).as_posix() for path in (project / "build").rglob("*") if path.is_file()}
    assert set(listed) == {path for path in written if not path.endswith(MANIFEST)}


def test_dry_run_changes_nothing(project):
    result = run("--dry-run")
    assert result.exit_code == 0
    assert "would write build/gen/op_proto/scale_rows_proto.h" in result.output
    assert not (project / "build").exists()


def test_one_spec_into_another_folder(project):
    result = run("--out", project / "elsewhere", project / "op_proto" / "grouped_bias_add_grad.yaml")
    assert result.exit_code == 0
    names = {path.name for path in (project / "elsewhere").rglob("*")}
    assert "grouped_bias_add_grad.cpp" in names
    assert not {name for name in names if "scale_rows" in name or name == "sources.cmake"}
    stale = run("--check", "--output", project / "empty", project / "op_proto" / "grouped_bias_add_grad.yaml")
    assert f"run: opforge generate --output {project / 'empty'} {project}" in stale.output


def test_removed_operator_has_no_generated_files(project):
    run()
    (project / "op_proto" / "scale_rows.yaml").unlink()
    assert run("--check").exit_code == 1
    assert "removed" in run().output
    assert not [path for path in (project / "build").rglob("*") if "scale_rows" in path.name]


def test_mistakes_are_user_errors(project):
    with pytest.raises(UserError, match=r"nowhere\.yaml: cannot read the spec: No such file or directory"):
        load([project / "nowhere.yaml"], "")
    spec = project / "op_proto" / "scale_rows.yaml"
    spec.write_text(spec.read_text().replace("formula:", "formular:"))
    with pytest.raises(UserError, match="did you mean 'formula'"):
        load([], "")
    assert run().exit_code != 0
    assert not (project / "build").exists(), "nothing is written when a spec is wrong"


@pytest.mark.parametrize("change", ["output", "spec", "kernel"])
def test_every_change_is_noticed(project, change):
    assert run().exit_code == 0
    gen = project / "build" / "gen"
    written = gen / "op_proto" / "scale_rows_proto.h"
    if change == "output":
        written.write_text("// by hand\n")
    elif change == "spec":
        spec = project / "op_proto" / "scale_rows.yaml"
        spec.write_text(spec.read_text().replace("ascend910b", "ascend910_93"))
    else:
        (project / "op_kernel" / "grouped_bias_add_grad.h").unlink()
    result = run()
    assert result.exit_code == 0
    assert "0 written" not in result.output
    assert "REG_OP(ScaleRows)" in written.read_text()
    assert (gen / "op_kernel" / "grouped_bias_add_grad.cpp").exists() == (change != "kernel")
