"""Read the tables of Markdown pages: HTML tables and tables of lines with bars."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_MOST_SPAN = 64
_RULE = re.compile(r"\|?[\s:|-]+\|?")


@dataclass
class Table:
    """A table: its rows with the text of each cell, and the line of each row."""

    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def column(self, *words: str) -> int | None:
        """Return the first column whose title has one of the words; None if there is none."""
        titles = self.rows[0] if self.rows else []
        return next((i for word in words for i, title in enumerate(titles) if word in title.lower()), None)


class _Parser(HTMLParser):
    """Collects HTML tables; a cell that spans rows counts for each of them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[Table] = []
        self._cell: list[str] | None = None
        self._span = 1
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
            span = dict(attrs).get("rowspan") or "1"
            self._span = min(int(span[:9]), _MOST_SPAN) if span.isdecimal() else 1
        elif tag in {"br", "li", "p"} and self._cell is not None:
            self._cell.append("\n")

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
        if self._span > 1:
            self._open[len(row)] = (self._span - 1, text)
        row.append(text)
        self._cell = None


def tables_of(text: str) -> list[Table]:
    """Return the tables of a page in order."""
    parser = _Parser()
    parser.feed(text)
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
            current.rows.append([re.sub(r"<[^>]*>", "", cell).strip() for cell in line.strip().strip("|").split("|")])
            current.lines.append(number)
    return found
