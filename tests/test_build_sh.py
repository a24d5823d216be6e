"""Test that build.sh rejects unknown arguments, and names the command that installs missing packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def build_sh(*arguments, env=None):
    bash = shutil.which("bash")
    return subprocess.run(
        [bash, str(ROOT / "build.sh"), *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--runexample"], "--runexample"),
        (["-u", "--al"], "--al"),
        (["--pkg", "-j", "many"], "many"),
        (["--pkg", "-u"], "--pkg"),
        (["--pkg", "--all"], "--all"),
        (["--pkg", "--slow"], "--slow: got no -u"),
        (["--pkg", "--cov"], "--cov: got no -u"),
        (["--pkg", "--product="], "--product=: got no names, expected SoC directories"),
        (["--pkg", "--soc="], "--soc=: got no names, expected SoC directories"),
        (["--pkg", "--ops="], "--ops=: got no names"),
        (["--pkg", "--vendor_name="], "--vendor_name=: got no name"),
        (["--pkg", "--cann="], "--cann=: got no folder"),
        (["-u", "--cann=/opt"], "--cann: got no --pkg"),
    ],
)
def test_wrong_options_are_refused(arguments, named):
    result = build_sh(*arguments)
    assert result.returncode == 2
    assert named in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_missing_compiler_is_named_with_the_command_that_installs_it(tmp_path):
    for tool in ("bash", "nproc", "dirname", "cat", "python3", "makeself"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    result = build_sh("--pkg", env={"PATH": str(tmp_path), "HOME": os.environ["HOME"]})
    assert result.returncode == 3
    assert "g++" in result.stderr
    assert "--install-deps" in result.stderr


def test_an_environment_without_pygls_is_enough_for_the_tests(tmp_path):
    for name in ("build.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python3"
    python.write_text(
        '#!/bin/bash\necho "$*" >>calls\n'
        f'[ "$2" != venv ] || {{ mkdir -p "${{@: -1}}/bin"; cp {python} "${{@: -1}}/bin/python"; }}\n'
        '[[ "$*" != *lsp* ]]\n'
    )
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", str(tmp_path / "build.sh"), "--docs"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "== without the extra lsp: the tests of `opforge lsp` are skipped" in result.stdout
    extras = [line.rpartition(" .")[2] for line in (tmp_path / "calls").read_text().splitlines() if " pip " in line]
    assert extras == ["[dev,lsp]", "[dev]"]


@pytest.mark.parametrize("folder", ["/", "/absent"])
def test_folder_without_a_toolkit_is_rejected(folder):
    result = build_sh("--pkg", f"--cann={folder}")
    assert result.returncode == 2
    assert f"got '{folder}', expected the folder of a CANN toolkit" in result.stderr
    assert "source release" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("spelling", ["-h", "--help"])
def test_help_lists_every_option(spelling):
    text = build_sh(spelling).stdout
    assert "-h, --help" in text
    for option in (
        "--install-deps",
        "--run_example",
        "-u",
        "--slow",
        "--all",
        "--cov",
        "--pkg",
        "--docs",
        "--product",
        "--vendor_name",
        "--ops",
        "-j",
    ):
        assert option in text


TOOLS = ("bash", "nproc", "dirname", "cat", "grep", "id", "env")
# Package manager -> packages that it installs when only cmake is installed.
MANAGERS = {
    "apt-get": "g++ ccache makeself python3-venv",
    "dnf": "gcc-c++ ccache makeself python3-pip",
    "yum": "gcc-c++ ccache makeself python3-pip",
}


@pytest.mark.parametrize("manager", MANAGERS)
def test_missing_packages_are_installed(tmp_path, manager):
    log = tmp_path / "log"
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    programs = {
        manager: f'echo "$@" >>{log}',
        "sudo": 'exec "$@"',
        "rpm": '[ "$2" = cmake ]',
        "dpkg-query": 'case "$*" in *cmake) echo install ok installed ;; *) exit 1 ;; esac',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    result = build_sh("--install-deps", env={"PATH": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"== installing {MANAGERS[manager]}\n"
    assert log.read_text().splitlines()[-1].endswith(MANAGERS[manager])


def test_another_system_gets_the_list_of_packages(tmp_path):
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    result = build_sh("--install-deps", env={"PATH": str(tmp_path)})
    assert result.returncode == 3
    assert "got no apt-get, dnf or yum; install a C++ compiler, ccache, cmake, makeself" in result.stderr
