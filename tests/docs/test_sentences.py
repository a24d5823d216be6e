"""Count the words of the sentences on all pages."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("longest_sentences")


def test_no_sentence_has_more_than_25_words(script):
    found = script.longest_sentences()
    assert len(found) > 5000
    assert [sentence for sentence in found if sentence.words > 25] == []


def test_sentences_of_a_page(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A title\n\nOne `a b` - two\nthree. Four!\n\n```\nno text\n```\n\n| x | y z |\n|---|---|\n")
    assert [sentence[:3] for sentence in script.sentences(page)] == [
        (2, "page.md", 1),
        (5, "page.md", 3),
        (1, "page.md", 3),
        (1, "page.md", 10),
        (2, "page.md", 10),
    ]
