"""Count the words of the sentences in README.md, CONTRIBUTING.md and docs/."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("longest_sentences", ROOT / "docs" / "longest_sentences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
