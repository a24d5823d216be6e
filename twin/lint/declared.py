"""Collect the names that kernel sources declare, which lint does not look up in the headers of CANN."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from .architectures import MACROS
from .cpp_tokens import Token

# Words before a name that is no declaration.
NO_TYPE = {"case", "co_return", "else", "for", "goto", "if", "return", "sizeof", "switch", "while"}
_SETS = re.compile(rf"(?:#|%:)\s*(?:define|undef)\s+(?:{'|'.join(MACROS)})\b|.*\b(?:push|pop)_macro\b", re.DOTALL)
# Words for functions of the device.
MARKERS = frozenset({"__aicore__", "__cube__", "__mix__", "__vector__"})
_MACRO = re.compile(r"#\s*define\s+(\w+).*\b__aicore__\b", re.DOTALL)


@dataclass(frozen=True)
class Declared:
    """The names of some sources.

    Attributes:
        api: Names in namespace AscendC.
        functions: Functions of the device.
        markers: Words before such a function: MARKERS, and macros that contain __aicore__.
        has_architecture: Whether a source sets the macros that name the architecture.
    """

    api: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    markers: frozenset[str] = MARKERS
    has_architecture: bool = False


def declared(sources: Iterable[Sequence[Token]]) -> Declared:
    """Return the names that sources declare."""
    every = list(sources)
    macros = {found[1] for tokens in every for token in tokens if (found := _MACRO.match(token.text))}
    markers = MARKERS | macros
    code = [[token for token in tokens if token.kind != "directive"] for tokens in every]
    api = {name for tokens in code for name in _in_namespace(tokens)}
    functions = frozenset(name for tokens in code for name in _functions(tokens, markers))
    has_architecture = any(
        token.kind == "directive" and _SETS.match(token.text) is not None for tokens in every for token in tokens
    )
    return Declared(frozenset(api), functions, markers, has_architecture)


def _names(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token is a name after a type, or after `class` and similar words."""
    before = tokens[index - 1] if index else None
    is_typed = before is not None and (
        (before.kind == "name" and before.text not in NO_TYPE) or before.text in {">", "*", "&"}
    )
    return tokens[index].kind == "name" and is_typed


def _functions(tokens: Sequence[Token], markers: frozenset[str]) -> Iterator[str]:
    is_marked = False
    for index, token in enumerate(tokens[:-1]):
        if token.text in markers:
            is_marked = True
        elif token.text in {";", "{", "}"}:
            is_marked = False
        elif is_marked and tokens[index + 1].text == "(" and _names(tokens, index):
            yield token.text


def _in_namespace(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names directly in namespace AscendC, or in a namespace in it."""
    scopes: list[Literal["AscendC", "namespace", "other"]] = []  # of the open braces
    counts = Counter(scopes)
    parentheses, start = 0, 0  # start: first token of the statement
    for index, token in enumerate(tokens):
        if token.text == "{":
            words = [word.text for word in tokens[start:index]]
            is_own = "AscendC" in words and "namespace" in words
            scopes.append("AscendC" if is_own else "namespace" if "namespace" in words else "other")
            counts[scopes[-1]] += 1
        elif token.text == "}" and scopes:
            counts[scopes.pop()] -= 1
        if token.text in {"{", "}", ";"}:
            parentheses, start = 0, index + 1
            continue
        parentheses += (token.text == "(") - (token.text == ")")
        if parentheses == 0 and counts["AscendC"] and not counts["other"] and _names(tokens, index):
            yield token.text
