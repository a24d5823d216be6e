"""Test that the threat model and the table of faults name existing files and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAULTS = (ROOT / "docs" / "explanation" / "faults.md").read_text(encoding="utf-8")


def rows(text, columns):
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:2] == "| "]
    assert {len(row) for row in found} == {columns}
    return found[1:]


def test_each_threat_has_a_source_a_location_and_a_test():
    model = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    threats = rows(model, 5)
    assert len(threats) >= 12
    for row in threats:
        assert all(row)
        places, tests = (re.findall(r"`([^`]+)`", cell) for cell in row[3:])
        assert places
        assert tests
        for path in (*places, *tests):
            assert (ROOT / path).exists(), path
        assert all(path.startswith("tests/") for path in tests)


@pytest.mark.parametrize("command", re.findall(r"`pytest ([^`]+)`", FAULTS))
def test_the_command_of_a_fault_selects_tests(command):
    place, _, words = command.partition(" -k ")
    files = [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).glob("test_*.py"))
    names = re.findall(r"^def (test_\w+)", "".join(file.read_text(encoding="utf-8") for file in files), re.MULTILINE)
    for word in words.strip('"').split(" or "):
        assert [name for name in names if word in name], word


def test_the_picture_of_the_memory_is_there():
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", FAULTS)
    assert "20,000 calls" in (ROOT / "docs" / "explanation" / picture).read_text(encoding="utf-8")
