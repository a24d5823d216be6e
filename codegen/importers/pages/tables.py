"""Read the tables of Markdown pages: HTML tables and tables of lines with bars."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from .lines import TAG

_MOST_SPAN = 64
# The parser needs quadratic time for tags without an end.
_NO_TAG = re.compile(r"<(?![A-Za-z/!?][^<>]{0,1000}>)")
_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|?[\s:|-]+\|?")


@dataclass
class Table:
    """A table: its rows with the text of each cell, the line of each row, and whether a reader knows its columns."""

    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    is_read: bool = False

    def column(self, *words: str) -> int | None:
        """Return the first column whose title has one of the words; None if there is none."""
        titles = self.rows[0] if self.rows else []
        return next((i for word in words for i, title in enumerate(titles) if word in title.lower()), None)


class _Parser(HTMLParser):
    """Collects HTML tables; a cell that spans rows or columns counts for each of them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[Table] = []
        self._cell: list[str] | None = None
        self._span = self._width = 1
        self._open: dict[int, tuple[int, str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._end_cell()  # of the outer table
            self.tables.append(Table())
            self._open = {}
        elif tag == "tr" and self.tables:
            self._end_cell()
            self.tables[-1].rows.append([])
            self.tables[-1].lines.append(self.getpos()[0])
        elif tag in {"td", "th"} and self.tables and self.tables[-1].rows:
            self._end_cell()
            self._cell = []
            self._span, self._width = (_span(dict(attrs).get(name)) for name in ("rowspan", "colspan"))
        elif tag in {"br", "li", "p"} and self._cell is not None:
            self._cell.append("\n")
        elif tag == "sup" and self._cell is not None:
            self._cell.append("^")  # a power or a footnote, no digits of the word before it

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th", "tr", "table"}:
            self._end_cell()
        if tag in {"tr", "table"} and self.tables and self.tables[-1].rows:
            self._fill(self.tables[-1].rows[-1])

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _fill(self, row: list[str]) -> None:
        """Add the cells of earlier rows that extend to the next column."""
        while (above := self._open.get(len(row))) is not None:
            left, text = above
            if left > 1:
                self._open[len(row)] = (left - 1, text)
            else:
                del self._open[len(row)]
            row.append(text)

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        row = self.tables[-1].rows[-1]
        self._fill(row)
        text = "".join(self._cell).strip()
        for _ in range(self._width):
            if self._span > 1:
                self._open[len(row)] = (self._span - 1, text)
            row.append(text)
        self._cell = None


def _span(text: str | None) -> int:
    """Return the number of rows or columns of a cell."""
    return min(int(text[:9]), _MOST_SPAN) if text and text.isdecimal() else 1


def tables_of(text: str) -> list[Table]:
    """Return the tables of a page in order."""
    parser = _Parser()
    parser.feed(_NO_TAG.sub("&lt;", text))
    parser.close()
    found = [table for table in parser.tables if table.rows]
    current: Table | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.lstrip().startswith("|"):
            current = None
            continue
        if current is None:
            current = Table()
            found.append(current)
        if not _RULE.fullmatch(line.strip()):
            current.rows.append([_cell_text(cell) for cell in _BAR.split(line.strip().removeprefix("|"))])
            if not current.rows[-1][-1]:
                current.rows[-1].pop()  # after the last bar
            current.lines.append(number)
    return found


def _cell_text(cell: str) -> str:
    text = re.sub(r"<br\s*/?>", "\n", cell.replace("\\|", "|").replace("<sup>", "^"))
    return TAG.sub("", text).strip()
