"""Test that `opforge build` reports problems of the machine or the command before it compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def build(opforge, tmp_path):
    """Return `build(*options, **environment)` with a separate, empty build folder."""

    def call(*options, **environment):
        return opforge("build", *options, cwd=ROOT, **{"OPFORGE_BUILD_DIR": str(tmp_path / "build")} | environment)

    return call


def one_line(result, code):
    assert result.returncode == code, result.stdout + result.stderr
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


@pytest.mark.parametrize("kind", ["file", "below a file", "/proc/build", "file in the way"])
def test_unusable_build_folder_is_named_with_its_variables(build, tmp_path, kind):
    folder = tmp_path / "taken"
    if kind.startswith("/proc"):
        folder = Path(kind)
    elif kind == "file in the way":
        (folder / "twin").mkdir(parents=True)
        (folder / "twin" / "gen").write_text("mine")
    else:
        folder.write_text("mine")
        folder = folder / "below" if kind == "below a file" else folder
    output = one_line(build(OPFORGE_BUILD_DIR=str(folder)), 2)
    assert str(folder) in output
    assert "OPFORGE_BUILD_DIR" in output
    assert "XDG_CACHE_HOME" in output


@pytest.mark.parametrize("kind", ["fails", "silent", "no program", "absent"])
def test_compiler_that_does_not_work_is_a_missing_tool(build, tmp_path, kind):
    compiler = tmp_path / "compiler"
    text = {"fails": "#!/bin/sh\nexit 1\n", "silent": "#!/bin/sh\n", "no program": "\x7fELF", "absent": None}[kind]
    if text is not None:
        compiler.write_text(text)
        compiler.chmod(0o755)
    output = one_line(build(CXX=str(compiler)), 3)
    assert str(compiler) in output
    assert "apt-get install g++" in output


@pytest.mark.parametrize("option", ["--ops=GroupedBiasAddGrad,Foo", "--soc=Foo"])
def test_unknown_name_is_refused_before_anything_is_compiled(build, tmp_path, option):
    output = one_line(build(option), 2)
    assert "'Foo'" in output
    assert not (tmp_path / "build").exists()
