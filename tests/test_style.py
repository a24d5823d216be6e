"""Check the style of the whole repository with ruff, mypy --strict and clang-format."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLANG_FORMAT = Path(sys.executable).with_name("clang-format")
CPP_FOLDERS = ("codegen/starters", "op_host", "op_kernel", "op_plugin", "twin", "examples", "tests")


def python_files() -> list[str]:
    """Return the files in git, because readers of README.md create other files; without git, return all."""
    if shutil.which("git") is None:
        return ["."]
    command = ["git", "ls-files", "-z", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return [name for name in listed.split("\0") if (ROOT / name).is_file()] or ["."]


def gate(*command: str) -> None:
    result = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_ruff_finds_nothing():
    gate("ruff", "check", "--no-cache", *python_files())


def test_python_is_formatted():
    gate("ruff", "format", "--check", "--no-cache", *python_files())


def test_each_suppressed_rule_has_a_reason():
    bare = re.compile(r"[#] noqa\b(?![^\n]*(?:  # | - )\w)")
    assert [name for name in python_files() if bare.search((ROOT / name).read_text(encoding="utf-8"))] == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions of Python have another NumPy, with other types")
def test_types_are_strict(types):
    code, messages = types
    assert code == 0, messages


@pytest.mark.parametrize("folder", CPP_FOLDERS)
def test_cpp_is_formatted(folder):
    sources = [str(path) for suffix in ("*.h", "*.cpp") for path in sorted((ROOT / folder).rglob(suffix))]
    sources = [source for source in sources if not {"golden", "build"} & {*Path(source).parts}]
    if sources:
        result = subprocess.run(
            [str(CLANG_FORMAT), "--dry-run", "-Werror", *sources], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
