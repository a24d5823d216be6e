"""Test that every kind of finding has a planted mistake, and is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opforge.codegen.project import BUILTIN_ROOT

SOURCES = sorted((BUILTIN_ROOT / "twin" / "src" / "kernel").rglob("*.cpp"))
KINDS = sorted(
    {
        kind
        for path in SOURCES
        for kind in re.findall(r'(?:(?:Fail|Report|Warn)\(|push_back\(\{)\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
)
TESTS = "".join(
    path.read_text(encoding="utf-8")
    for path in sorted((BUILTIN_ROOT / "tests" / "twin").glob("test_*.py"))
    if path != Path(__file__)
)
PAGE = (BUILTIN_ROOT / "docs" / "reference" / "twin-checks.md").read_text(encoding="utf-8")


def test_the_kinds_are_found():
    assert len(KINDS) > 50
    assert {"race", "uninitialised_read", "stale_cache", "division_by_zero"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_planted_and_documented(kind):
    assert f'"{kind}"' in TESTS
    assert f"\n| `{kind}` | " in PAGE
