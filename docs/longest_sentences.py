"""Print the ten longest sentences of all READMEs, CONTRIBUTING.md, CHANGELOG.md and the pages in docs/.

`python docs/longest_sentences.py` prints the number of words, the file, the line and the sentence. Code blocks are left
out. Each heading, list item and cell of a table starts a new sentence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent


class Sentence(NamedTuple):
    """Sentence of a file, with its number of words and the line of its paragraph, item or table row."""

    words: int
    file: str
    line: int
    text: str


def sentences(file: Path) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown file in UTF-8."""
    line = 0
    for token in MarkdownIt().enable("table").parse(file.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map else line  # a cell of a table has no line
        if token.type != "inline" or not token.children:
            continue
        text = "".join(" " if child.type == "softbreak" else child.content for child in token.children)
        for sentence in re.split(r"(?<=[.!?])\)?\s+", text):
            words = sum(any(map(str.isalnum, word)) for word in sentence.split())
            yield Sentence(words, str(file.relative_to(ROOT)), line, sentence)


def longest_sentences() -> list[Sentence]:
    """Return all sentences, the longest first."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted((sentence for file in files for sentence in sentences(file)), reverse=True)


if __name__ == "__main__":
    longest = longest_sentences()[:10]
    sys.stdout.write("".join(f"{words:3} {file}:{line}: {text}\n" for words, file, line, text in longest))
