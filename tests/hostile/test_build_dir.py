"""Test build folders that cannot be used or belong to another project: one message, and no file is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.new import new_project
from opforge.codegen.project import BUILTIN_ROOT, OWNER_FILE, Project
from opforge.twin.build import build_project
from opforge.twin.compiler import operators as twin_build


@pytest.fixture
def project(tmp_path):
    new_project("Clip", tmp_path / "clip", "elementwise")
    return Project(tmp_path / "clip")


@pytest.fixture
def refused(opforge):
    """Run a command that exits with code 2; return its message."""

    def run(project, *command, **variables):
        done = opforge(*command, cwd=project.root, **{"CXX": "g++"} | variables)
        assert done.returncode == 2, done.stdout + done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert len(done.stderr) < 1500
        return done.stderr

    return run


def _file(path):
    path.write_text("mine", encoding="utf-8")


def _full(path):
    (path / "twin").mkdir(parents=True)
    _file(path / "twin" / "gen")


# Value of OPFORGE_BUILD_DIR -> how to create it, part of the message.
FOLDERS = {
    "file": (_file, "expected a folder in which opforge can build"),
    "pipe": (os.mkfifo, "expected a folder in which opforge can build"),
    "ring": (lambda path: path.symlink_to(path.name), "expected a folder"),
    "device": (lambda path: path.symlink_to("/dev/null"), "expected a folder in which opforge can build"),
    "file in it": (_full, "expected a folder in which opforge can build"),
}
NAMES = {
    "long name": "/tmp/" + "x" * 300,  # noqa: S108  # never made
    "long path": "/tmp/" + "x/" * 3000,  # noqa: S108  # never made
    "no folder": "/dev/null/build",
    "system": "/proc/build",
    "line break": "/proc/a\nb",
    "escape": "/proc/\x1b[2J",
    "surrogate": "/proc/\udcff",
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_path_that_is_not_a_folder_is_named(refused, project, tmp_path, kind):
    make, message = FOLDERS[kind]
    make(tmp_path / "out")
    output = refused(project, "build", OPFORGE_BUILD_DIR=str(tmp_path / "out"))
    assert message in output
    assert "OPFORGE_BUILD_DIR" in output


@pytest.mark.parametrize("command", ["flags", "generate"])
@pytest.mark.parametrize("kind", NAMES)
def test_invalid_name_is_shown_escaped_and_shortened(refused, project, command, kind):
    output = refused(project, command, OPFORGE_BUILD_DIR=NAMES[kind])
    assert "OPFORGE_BUILD_DIR" in output
    assert "\x1b" not in output


def test_line_breaks_in_paths_are_refused(refused, project, tmp_path):
    """Compilers cannot list files in them."""
    output = refused(project, "build", OPFORGE_BUILD_DIR=str(tmp_path / "a\nb"))
    assert "expected a path without line breaks" in output


def test_two_projects_have_two_build_folders(refused, project, tmp_path, monkeypatch):
    out = tmp_path / "out"
    project.claim_build_dir()
    assert not (project.root / "build").exists(), "the folder of a project is its own"
    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(out))
    project.claim_build_dir()
    project.claim_build_dir()
    Project(project.root, "Custom").claim_build_dir()
    assert (out / OWNER_FILE).read_text(encoding="utf-8") == str(project.root)
    new_project("Other", tmp_path / "other", "elementwise")
    other = Project(tmp_path / "other")
    for command in ("build", "flags", "generate"):
        output = refused(other, command)
        assert output == (
            f"OPFORGE_BUILD_DIR: got {out}, which contains the build of {project.root}, expected a folder for "
            f"{other.root} only; set it to another folder, or remove {out / OWNER_FILE}\n"
        )
    with pytest.raises(UserError, match="which contains the build of"):
        build_project(other)
    assert not (out / "gen").exists()


@pytest.mark.parametrize("place", ["out/sub", "out/gen/op_host", "out/suffix_Custom", "clip/build", "clip/build/gen"])
def test_a_folder_inside_of_the_build_of_another_project_is_refused(project, tmp_path, monkeypatch, place):
    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(tmp_path / "out"))
    project.claim_build_dir()
    new_project("Other", tmp_path / "other", "elementwise")
    monkeypatch.setenv("OPFORGE_BUILD_DIR", str(tmp_path / place))
    with pytest.raises(UserError) as caught:
        Project(tmp_path / "other").claim_build_dir()
    assert f"OPFORGE_BUILD_DIR: got {tmp_path / place}, " in str(caught.value)
    assert f"which contains the build of {project.root}, expected a folder for" in str(caught.value)
    assert not (tmp_path / place).exists()
    project.claim_build_dir()


@pytest.mark.parametrize("content", [b"/", b"\xff\xfe", b"\0", b"x" * 100_000, b"\x1b[2J\n\n"])
def test_a_damaged_owner_is_another_project(refused, project, tmp_path, content):
    out = tmp_path / "out"
    out.mkdir()
    (out / OWNER_FILE).write_bytes(content)
    output = refused(project, "build", OPFORGE_BUILD_DIR=str(out))
    assert "which contains the build of" in output
    assert "\x1b" not in output
    assert (out / OWNER_FILE).read_bytes() == content


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_owner_must_be_a_regular_file(refused, project, tmp_path, kind):
    out, mine = tmp_path / "out", tmp_path / "mine.txt"
    out.mkdir()
    mine.touch()
    owner = out / OWNER_FILE
    makes = {
        "link": lambda: owner.symlink_to(mine),
        "hard link": lambda: owner.hardlink_to(mine),
        "pipe": lambda: os.mkfifo(owner),
        "folder": owner.mkdir,
    }
    makes[kind]()
    assert f"{owner}: got a link or not a regular file" in refused(project, "build", OPFORGE_BUILD_DIR=str(out))
    assert mine.read_bytes() == b""


def test_only_recorded_kernels_are_removed(project):
    kernels = twin_build._tbe(project) / "kernel" / "ascend910b"
    for name in ("gone", "mixed", "clip", "mine"):
        (kernels / name).mkdir(parents=True)
    for recorded in ("gone/Gone_float32.so", "mixed/Mixed_float32.so", "clip/Clip_float32.so"):
        (kernels / recorded).touch()
        (kernels / f"{recorded}.json").touch()
    for kept in ("mixed/notes.txt", "mine/tool.so", "mine/.vimrc.20240101"):
        (kernels / kept).touch()
    (kernels / "linked").symlink_to(kernels / "clip")
    twin_build._remove_old_kernels(project, {"clip"})
    left = sorted(str(path.relative_to(kernels)) for path in kernels.rglob("*") if not path.is_dir())
    assert left == [
        "clip/Clip_float32.so",
        "clip/Clip_float32.so.json",
        "mine/.vimrc.20240101",
        "mine/tool.so",
        "mixed/notes.txt",
    ]
    assert not (kernels / "gone").exists()
    assert (kernels / "linked").is_symlink()


def test_full_disk_is_reported(opforge, project, tmp_path):
    program = tmp_path / "cxx"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *--version*|*-dumpmachine*) exec g++ "$@";; esac\n'
        'echo "fatal error: x.o: No space left on device" >&2\nexit 1\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    done = opforge("build", cwd=project.root, CXX=str(program), OPFORGE_BUILD_DIR=str(tmp_path / "out"))
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", ["build.sh", "codegen/starters/project/build.sh"])
def test_a_script_cleans_its_own_folder_only(tmp_path, script):
    for name in ("mine", "other"):
        (tmp_path / name / "project" / "build").mkdir(parents=True)
    (tmp_path / "mine/project/build.sh").write_bytes((BUILTIN_ROOT / script).read_bytes())
    command = ["bash", "project/build.sh", "--make_clean"]
    variables = os.environ | {"CDPATH": str(tmp_path / "other")}
    subprocess.run(command, cwd=tmp_path / "mine", env=variables, check=True, capture_output=True)
    assert (tmp_path / "other/project/build").is_dir()
    assert not (tmp_path / "mine/project/build").exists()


STRAY = {
    "pipe": os.mkfifo,
    "bytes": lambda path: path.write_bytes(b"\xff\xfe"),
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory):
    """Create a project that is compiled once for all tests."""
    return Project(new_project("Clip", tmp_path_factory.mktemp("shared") / "clip", "elementwise"))


@pytest.mark.parametrize("kind", STRAY)
def test_other_files_among_the_generated_ones_are_not_opened(opforge, shared_project, kind):
    project = shared_project
    for path in (f"op_api/aclnn_{kind}.h", f"op_proto/{kind}.cpp", f"op_plugin/{kind}.cpp"):
        place = project.gen_dir / path
        place.parent.mkdir(parents=True, exist_ok=True)
        STRAY[kind](place)
    done = opforge("build", cwd=project.root, CXX=os.environ.get("CXX", "g++"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 operator, " in done.stdout
