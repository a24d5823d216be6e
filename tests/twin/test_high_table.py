"""Test that the documentation has the table of high-level functions."""

from __future__ import annotations

from opforge.codegen.project import BUILTIN_ROOT

from .high_level import table

PAGE = BUILTIN_ROOT / "docs" / "reference" / "ascend-c-high-level.md"
UNITS = {"None": "", "Step": "256 bytes", "Row": "one row"}


def page_rows():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in ([c.strip() for c in line.split("|")[1:-1]] for line in lines)}


def test_page_lists_table():
    expected = {
        name: [fast, slow, f"{buffers} x {UNITS[unit]}" if buffers != "0" else "", {"true": "yes", "false": ""}[same]]
        for name, (_, fast, slow, buffers, unit, same) in table().items()
    }
    assert page_rows() == expected
