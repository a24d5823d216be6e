"""Test that every planted mistake is detected by the test in its table."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TABLES = sorted((ROOT / "tests" / "mutants").glob("*.toml"))
MUTANTS = [row for table in TABLES for row in tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["mistake"].replace(" ", "_"))
def test_mutant_can_be_planted_and_its_test_exists(mutant):
    assert (ROOT / mutant["file"]).read_text(encoding="utf-8").count(mutant["old"]) == 1
    file, _, name = mutant["killed_by"].partition("::")
    # The tests of product 910 have names of operator tests: `<test>__<module>`.
    name, _, module = name.partition("__")
    source = (ROOT / file).with_name(f"test_{module}.py") if module else ROOT / file
    assert re.search(rf"^def {name}\(", source.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.all
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_every_mutant_is_killed(table):
    result = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "mutants.py"), table.stem], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
