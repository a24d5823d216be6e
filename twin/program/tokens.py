"""Split preprocessed C++ text into tokens with their positions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z))
  | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<name>[^\W\d][\w$]*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<punctuation>::|->|<<|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# `# 12 "file" 1 3`: the next line is line 12 of the file. Flag 3 marks headers of the compiler.
_MARKER = re.compile(r'^#(?:line)?[ \t]+(\d+)(?:[ \t]+"((?:\\.|[^"\\\n])*)"([ \t\d]*))?[^\n]*(?:\n|\Z)', re.MULTILINE)
_DIRECTIVE = re.compile(r"#[^\n]*(?:\n|\Z)")
_SYSTEM = "3"
_MOST_COLUMNS = 1000
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text, with the positions of its first character and after its last one."""

    kind: str
    text: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A part of preprocessed text that comes from consecutive lines of one file."""

    file: str
    line: int
    begin: int
    end: int


def sections(text: str) -> Iterator[Section]:
    """Yield the parts of preprocessed text between line markers, without those from headers of the compiler."""
    file, line, flags, begin = "", 1, "", 0
    for marker in _MARKER.finditer(text):
        if marker.start() > begin and _SYSTEM not in flags.split():
            yield Section(file, line, begin, marker.start())
        line, begin = int(marker[1]), marker.end()
        if marker[2] is not None:
            file, flags = marker[2], marker[3]
    if len(text) > begin and _SYSTEM not in flags.split():
        yield Section(file, line, begin, len(text))


def tokens_of(text: str, is_wanted: Callable[[str], bool]) -> list[Token]:
    """Return the tokens of the files that `is_wanted` selects, without space and preprocessor lines."""
    tokens: list[Token] = []
    for section in sections(text):
        if is_wanted(section.file):
            tokens += _section_tokens(text, section)
    return tokens


def _section_tokens(text: str, section: Section) -> Iterator[Token]:
    position = section.begin
    while position < section.end:
        if text[position] == "#" and (position == 0 or text[position - 1] == "\n"):
            directive = _DIRECTIVE.match(text, position)
            position = directive.end() if directive else position + 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("unreachable: the last alternative matches any character")
        if match.lastgroup != "space":
            kind = "text" if match.lastgroup in {"raw", "fence"} else str(match.lastgroup)
            yield Token(kind, match.group(), match.start(), match.end())
        position = match.end()


class Places:
    """The files, lines and columns of positions in preprocessed text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sections = list(sections(text))
        self._begins = [section.begin for section in self._sections]
        self._ends_of_lines = [match.start() for match in re.finditer("\n", text)]

    def of(self, position: int) -> str:
        """Return file:line of a position."""
        file, line = self._found(position)
        return f"{file}:{line}"

    def marker(self, position: int) -> str:
        """Return a line marker, and space up to the column of the position: text after it has the same place."""
        file, line = self._found(position)
        begin = self._text.rfind("\n", 0, position) + 1
        before = self._text[begin : min(position, begin + _MOST_COLUMNS)]
        return f'\n# {line} "{file}"\n' + re.sub(r"\S", " ", before)

    def _found(self, position: int) -> tuple[str, int]:
        section = self._sections[bisect_right(self._begins, position) - 1]
        lines = bisect_left(self._ends_of_lines, position) - bisect_left(self._ends_of_lines, section.begin)
        return section.file, section.line + lines


def bracket_pairs(tokens: list[Token]) -> dict[int, int]:
    """Return the closing bracket of each opening one; a wrong closing bracket ends all that are open."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token.text in OPEN:
            opened.append(position)
        elif token.text in CLOSE and opened:
            begin = opened.pop()
            if OPEN[tokens[begin].text] == token.text:
                pairs[begin] = position
            else:
                opened.clear()
    return pairs


def around(pairs: Mapping[int, int], position: int) -> list[int]:
    """Return the opening brackets around a token, from the outermost."""
    return sorted(begin for begin, end in pairs.items() if begin < position < end)


def namespace_of(tokens: list[Token], pairs: Mapping[int, int], position: int) -> str:
    """Return the named namespaces that contain a token, such as `outer::inner`."""
    found = []
    for opening in around(pairs, position):
        begin = opening
        while begin and (tokens[begin - 1].text == "::" or tokens[begin - 1].kind == "name"):
            begin -= 1
        names = [token.text for token in tokens[begin:opening] if token.text != "inline"]
        if tokens[opening].text == "{" and len(names) > 1 and names[0] == "namespace":
            found.append("".join(names[1:]))
    return "::".join(found)
