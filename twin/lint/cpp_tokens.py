"""Split C++ source text into tokens: comments are removed, strings are whole, preprocessor lines are separate."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import Literal

Kind = Literal["name", "number", "text", "punctuation", "directive"]

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[\s\\])+)
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?(?:\)(?P=fence)"|\Z))
  | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<punctuation>::|->\*?|\.\.\.|<<=|>>=|<=>|[-+*/%&|^!=<>]=|&&|\|\||\+\+|--|<<|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SPLICE = re.compile(r"\\[^\S\n]*\n")  # joins two lines, even within a word
_ESCAPED = re.compile(r"(?:[^\S\n]|\\\r?\n)*")  # space of a preprocessor line


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of C++ text.

    Attributes:
        kind: `text` is a string or character literal, `directive` a whole preprocessor line.
        text: As written; of a directive without its comments, on one line.
        line: Number of its first line, from 1.
    """

    kind: Kind
    text: str
    line: int


def tokens_of(source: str, first_line: int = 1) -> list[Token]:
    """Return all tokens of a source. Invalid C++ becomes punctuation, character by character."""
    tokens: list[Token] = []
    line, starts_line, position = first_line, True, 0
    while position < len(source):
        if starts_line and (source[position] == "#" or source.startswith("%:", position)):
            text, end = _directive(source, position)
            tokens.append(Token("directive", text, line))
        else:
            match = _match(source, position)
            end = match.end()
            kind = "text" if match.lastgroup in {"raw", "fence"} else match.lastgroup
            if kind in {"name", "number", "text", "punctuation"}:
                tokens.append(Token(kind, match.group(), line))  # type: ignore[arg-type]  # narrowed by the set
        piece = source[position:end]
        line += piece.count("\n")
        is_blank = piece.isspace() or piece.startswith("/*")
        starts_line = "\n" in piece if not is_blank else starts_line or "\n" in piece
        position = end
    return tokens


def unclosed(source: str) -> tuple[int, str, str] | None:
    """Return the line and the kind of a comment or raw string without an end, and the missing text; None if all end."""
    begin = source.rfind("/*")
    if 'R"' not in source and (begin < 0 or source.rfind("*/") >= begin + 2):
        return None
    last = next(iter(deque(_TOKEN.finditer(source), maxlen=1)), None)  # it contains the rest of the source
    if last is None or not (last["raw"] or last.group().startswith("/*")):
        return None
    kind, end = ("raw string", f'){last["fence"]}"') if last["raw"] else ("comment", "*/")
    has_end = last.group().endswith(end) and last.group() != "/*/"
    return None if has_end else (source.count("\n", 0, last.start()) + 1, kind, end)


def _match(source: str, position: int) -> re.Match[str]:
    match = _TOKEN.match(source, position)
    if match is None:
        raise ValueError("unreachable: the last alternative takes any character")
    return match


def _directive(source: str, start: int) -> tuple[str, int]:
    """Return a preprocessor line that starts at `start`, and its end: before a newline that is not escaped."""
    words: list[str] = []
    position = start
    while position < len(source):
        match = _match(source, position)
        piece = match.group()
        if match.lastgroup == "space":
            escaped = len(_ESCAPED.match(piece).group())  # type: ignore[union-attr]  # it matches the empty text
            if escaped < len(piece):
                return "".join(words).strip(), position + escaped
        joined = _SPLICE.sub("", piece)
        words.append(" " if joined and match.lastgroup in {"space", "comment"} else joined)
        position = match.end()
    return "".join(words).strip(), position
