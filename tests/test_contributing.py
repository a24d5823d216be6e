"""Follow the recipes of CONTRIBUTING.md in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shown import Fence, fences, follow, shell

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = {section.partition("\n")[0]: section for section in TEXT.split("\n## Recipe: ")[1:]}
TOOLS = Path(sys.executable).parent


@pytest.fixture
def clone(tmp_path):
    """Copy the files of the repository, with links as links."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    names = [name for name in listed.split("\0") if name] or pytest.skip("not a clone")
    for name in names:
        (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / "clone" / name, follow_symlinks=False)
    return tmp_path / "clone"


def steps(title: str, folder: Path) -> list[Fence]:
    """Return the blocks of a recipe."""
    page = folder / "recipe.md"
    page.write_text(RECIPES[title].partition("\n## ")[0], encoding="utf-8")
    return fences(page)


def done(title: str, clone: Path, **variables: str) -> int:
    """Follow a recipe; return the number of its commands."""
    environment = os.environ | {"PATH": f"{TOOLS}:{os.environ['PATH']}"} | variables
    environment.pop("OPFORGE_BUILD_DIR", None)
    return follow(steps(title, clone), clone, lambda command, folder: shell(command, folder, environment))


def test_there_are_three_recipes():
    assert list(RECIPES) == ["add an operator", "add a rewrite rule", "add an instruction of the CPU twin"]


def test_code_of_the_recipes_has_the_style_of_the_project(clone):
    made = []
    for title in RECIPES:
        written = [fence for fence in steps(title, clone) if fence.path and fence.language != "diff"]
        follow(written, clone, lambda *_: (0, ""))
        made += [fence.path for fence in written]
    python = [path for path in made if path.endswith(".py")]
    cpp = [path for path in made if not path.endswith(".py")]
    for command in (
        [TOOLS / "ruff", "check", "--no-cache", *python],
        [TOOLS / "ruff", "format", "--check", "--no-cache", *python],
        [TOOLS / "clang-format", "--dry-run", "-Werror", *cpp],
    ):
        result = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions of Python have another NumPy, with other types")
def test_types_of_the_recipes_are_strict(types, tmp_path):
    written = [fence for title in RECIPES for fence in steps(title, tmp_path) if fence.language == "python"]
    checked = [fence for fence in written if not fence.path.startswith("tests/")]
    assert len(checked) == 1
    (tmp_path / "recipe.py").write_text(checked[0].text, encoding="utf-8")
    # In the repository: its modules are in the cache of mypy.
    variables = os.environ | {"MYPYPATH": str(tmp_path)}
    command = [TOOLS / "mypy", "-m", "recipe"]
    result = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.all
@pytest.mark.long
def test_an_operator_is_four_files(clone):
    # The other operators are compiled by other tests. One is kept, so that the new operator is not the only one.
    for spec in (clone / "op_proto").glob("*.yaml"):
        if spec.stem != "grouped_bias_add_grad":
            spec.unlink()
    assert done("add an operator", clone) == 7


def test_a_rule_is_one_file_and_its_test(clone):
    # The packages of the copy, not those that are installed.
    assert done("add a rewrite rule", clone, PYTHONPATH=str(clone / "src")) == 1


@pytest.mark.all
def test_an_instruction_is_a_header_entry_an_implementation_and_a_test(clone):
    # The copy compiles its own runtime library, which must not replace the one in the cache of the user.
    variables = {"PYTHONPATH": str(clone / "src"), "XDG_CACHE_HOME": str(clone.parent / "cache")}
    assert done("add an instruction of the CPU twin", clone, **variables) == 1


def test_the_threat_model_names_files_that_exist():
    rows = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if line.count("|") == 6]
    paths = [path for row in rows[2:] for path in re.findall(r"`([\w/]+(?:\.py|/))`", row)]
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
