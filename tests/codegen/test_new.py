"""Test `opforge new`: its files, and rejected arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opforge.codegen.new import new_project, project_texts, starters
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs


@pytest.fixture
def new(opforge):
    return lambda *arguments, cwd: opforge("new", *arguments, cwd=cwd)


@pytest.mark.parametrize("starter", starters())
def test_project_mentions_only_its_operator(starter, tmp_path):
    (was,) = (path for path in project_texts("LeakyClip", starter) if path.startswith("op_proto/"))
    assert was == "op_proto/leaky_clip.yaml"
    project = new_project("LeakyClip", tmp_path / "leaky_clip", starter)
    spec = load_specs([project / "op_proto" / "leaky_clip.yaml"])[0]
    assert (spec.op_type, spec.aclnn[0].function) == ("LeakyClip", "aclnnLeakyClip")
    starter_type = "".join(word.capitalize() for word in _stem(starter).split("_"))
    for path in project.rglob("*"):
        text = f"{path} {path.read_text() if path.is_file() else ''}"
        assert not any(name in text for name in (starter_type, _stem(starter), _stem(starter).upper(), "OpName"))
    for file in (f"op_kernel/{spec.name}.h", f"tests/reference/{spec.name}.py", f"tests/test_{spec.name}.py"):
        assert (project / file).is_file()
    assert spec.own_plan is None or (project / spec.own_plan).is_file()
    assert os.access(project / "build.sh", os.X_OK)


def _stem(starter):
    from opforge.codegen import new as module

    (spec,) = (module._STARTERS / starter / "op_proto").glob("*.yaml")
    return spec.stem


def test_command_prints_the_next_step(new, tmp_path):
    result = new("LeakyClip", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "cd leaky_clip && bash build.sh -u" in result.stdout
    assert (tmp_path / "leaky_clip" / "build.sh").is_file()


def test_help_names_every_starter(new, tmp_path):
    shown = " ".join(new("--help", cwd=tmp_path).stdout.split())
    assert all(starter in shown for starter in starters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leaky_clip"], "NAME: got 'leaky_clip', expected a capital letter"),
        (["Leaky_Clip"], "NAME: got 'Leaky_Clip', expected a capital letter"),
        (["../Clip"], "NAME: got '../Clip', expected a capital letter"),
        (["Class", "folder"], "NAME: got 'Class', whose kernel would be called 'class'"),
        (["Init"], "NAME: got 'Init', which the files of elementwise use; expected another name, as in 'MyInit'"),
        (["T"], "NAME: got 'T', which the files of elementwise use"),
        (["Clip", "--starter", "elementwize"], "--starter: got 'elementwize'; did you mean 'elementwise'?"),
        (["Clip", "taken"], "taken: it exists already"),
        (["Clip", "file"], "file: it exists already"),
        (["Clip", "link"], "link: it exists already"),
        (["Clip", "absent/clip"], "absent/clip: got 'No such file or directory'"),
        (["Clip", "file/clip"], "file/clip: got 'Not a directory'"),
        (["Clip", "/proc/clip"], "/proc/clip: got"),
        (["Clip", "x" * 300], "got 'File name too long'"),
    ],
)
def test_invalid_projects_are_rejected_in_one_line_without_files(new, arguments, message, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    result = new(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_failed_project_leaves_no_files(tmp_path, monkeypatch):
    written = []

    def fail_later(path, *arguments, **options):
        written.append(path)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        return original(path, *arguments, **options)

    original = Path.write_text
    monkeypatch.setattr(Path, "write_text", fail_later)
    with pytest.raises(Exception, match="No space left"):
        new_project("Clip", tmp_path / "clip", "elementwise")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("starter", starters())
def test_page_of_a_starter_is_complete(starter, tmp_path):
    project = new_project("LeakyClip", tmp_path / "leaky_clip", starter)
    page = dict(render(load_specs([project / "op_proto" / "leaky_clip.yaml"])[0]))["docs/aclnnLeakyClip.md"]
    assert [part for part in ("```cpp", "```python", "## Determinism", "## ONNX") if part not in page] == []


def test_next_step_is_quoted_for_the_shell(new, tmp_path):
    shown = new("LeakyClip", "my clips", cwd=tmp_path).stdout
    assert "next: cd 'my clips' && bash build.sh -u" in shown
