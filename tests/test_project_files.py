"""Check the files of the hosting platform, the release script and the version of a clone."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from opforge.cli.version import commit_of

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
OTHERS = [*sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ROOT / ".pre-commit-config.yaml"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@pytest.mark.parametrize("path", [*WORKFLOWS, *OTHERS], ids=lambda path: path.name)
def test_settings_are_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_step_runs_a_script_of_the_repository(path):
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert runs
    for program, script, *_ in map(shlex.split, runs):
        assert (program, script) in {("gh", "release"), ("pipx", "run")} or (
            program == "bash" and (ROOT / script).is_file()
        )


def test_hooks_call_pinned_programs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    pinned = {requirement.partition("==")[0] for requirement in extras["lint"] if "==" in requirement}
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert {shlex.split(hook["entry"])[0] for hook in repo["hooks"]} == {f".venv/bin/{name}" for name in pinned}


def test_workflows_test_every_version_of_python_that_the_metadata_names():
    found = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    named = [words[-1] for words in map(str.split, classifiers) if words[:3] == ["Programming", "Language", "::"]]
    assert found["jobs"]["test"]["strategy"]["matrix"]["python"] == [name for name in named if "." in name]


def release(folder, tag):
    command = ["bash", str(folder / ".ci" / "release"), tag]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_release_notes_come_from_the_changelog(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "release", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n- Later.\n")
    refused = release(tmp_path, "v0.0.0")
    assert refused.returncode == 2
    assert f"expected 'v{VERSION}'" in refused.stderr
    refused = release(tmp_path, f"v{VERSION}")
    assert refused.returncode == 2
    assert f"no section '## [{VERSION}]'" in refused.stderr

    section = f"## [{VERSION}] - 2026-01-02\n### Added\n- This.\n\n## [0.0.1] - 2026-01-01\n- Before.\n"
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## [Unreleased]\n- Later.\n\n{section}")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >>calls\n')
    python.chmod(0o755)
    (tmp_path / "build_out").mkdir()
    (tmp_path / "build.sh").write_text('echo "build.sh $@" >>calls\n')
    made = release(tmp_path, f"v{VERSION}")
    assert (made.returncode, made.stderr) == (0, "")
    assert (tmp_path / "build_out" / "notes.md").read_text() == "### Added\n- This.\n"
    wheel = "-m pip wheel --quiet --no-deps --wheel-dir build_out ."
    assert (tmp_path / "calls").read_text().splitlines() == ["build.sh --pkg", wheel]


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("texts", "commit"),
    [
        ({"HEAD": f"{COMMIT}\n"}, COMMIT),
        ({"HEAD": "ref: refs/heads/main\n", "refs__heads__main": f"{COMMIT}\n"}, COMMIT),
        (
            {
                "HEAD": "ref: refs/heads/a.b\n",
                "packed-refs": f"# pack\n{'f' * 40} refs/heads/a-b\n{COMMIT} refs/heads/a.b\n",
            },
            COMMIT,
        ),
        ({"HEAD": "ref: refs/heads/main\n"}, ""),
        ({"HEAD": "ref: ../../other\n"}, ""),
        ({"HEAD": "\x1b[2J"}, ""),
        ({}, ""),
    ],
)
def test_the_commit_comes_from_the_files_of_git(tmp_path, texts, commit):
    write(tmp_path, other="words\n")
    write(tmp_path / "clone", **{f".git__{name}": text for name, text in texts.items()})
    assert commit_of(tmp_path / "clone") == commit


def test_a_second_work_tree_has_the_commit_of_its_branch(tmp_path):
    write(tmp_path / "main" / ".git", refs__heads__side=f"{COMMIT}\n", worktrees__side__HEAD="ref: refs/heads/side\n")
    write(tmp_path / "main" / ".git" / "worktrees" / "side", commondir="../..\n")
    write(tmp_path / "side", **{".git": f"gitdir: {tmp_path}/main/.git/worktrees/side\n"})
    assert commit_of(tmp_path / "side") == COMMIT
