"""Recognize the statements of shape inference that change no shape: messages, and checks that reject a call."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from opforge.codegen.importers.cpp_text import STRING
from opforge.codegen.importers.cpp_tree import Source, children_of

if TYPE_CHECKING:
    from tree_sitter import Node

CHECKS = re.compile(r"(?:OP|OPS|GE)_(?:CHECK|CHK|TILING_CHECK)\w*")
FAILS = re.compile(r"return\s+(ge::)?(GRAPH_(FAILED|PARAM_INVALID)|FAILED)\b")
LOGS = re.compile(r"(?:OP|OPS|GE)_LOG\w*|OP_EVENT\w*|VECTOR_INFER_SHAPE_INNER_ERR_REPORT\w*")
_NULL_CHECKS = re.compile(r"(OP|OPS|GE)_CHECK_(NULL|NOT_NULL)\w*")
# Arguments of a check for null: the context, and a pointer or a getter.
_NULL_CHECK = re.compile(r"\w+\s*\(\s*\w+\s*,\s*(?:[\w:]+|\w+->Get\w+\([\w:, ]*\))\s*\)\s*;?")
_MOST_DEPTH = 32
_EFFECTS = re.compile(r"->(?:Set|Append)|\breturn\b|\bGRAPH_SUCCESS\b|\+\+|--|[^=!<>]=[^=]")


class Checks:
    """Recognizes statements without an effect in one source."""

    def __init__(self, source: Source, macros: Collection[str]) -> None:
        self._source = source
        self._macros = macros  # macros with parameters that the source defines: their effect is not known

    def is_message(self, text: str) -> bool:
        """Return whether a statement is a message, or a check for null."""
        name = _first_word(text)
        if name in self._macros:
            return False
        plain = STRING.sub('""', text)
        is_null_check = _NULL_CHECKS.fullmatch(name) and _NULL_CHECK.fullmatch(plain)
        return bool(is_null_check or (LOGS.fullmatch(name) and not _EFFECTS.search(plain)))

    def is_check(self, text: str) -> bool:
        """Return whether a statement is a macro of CANN that rejects a call."""
        name = _first_word(text)
        return CHECKS.fullmatch(name) is not None and name not in self._macros

    def only_rejects(self, node: Node, depth: int = 0) -> bool:
        """Return whether a statement rejects the call or has no effect: also each block of an if statement."""
        if depth > _MOST_DEPTH:
            return False
        text = self._source.of(node).strip()
        children = children_of(node)
        if node.type in {"compound_statement", "else_clause"}:
            is_end = bool(children) and FAILS.match(self._source.of(children[-1]).strip()) is not None
            return is_end or all(self.only_rejects(child, depth + 1) for child in children)
        if node.type == "if_statement":
            parts = (node.child_by_field_name("consequence"), node.child_by_field_name("alternative"))
            return all(self.only_rejects(part, depth + 1) for part in parts if part is not None)
        return self.is_check(text) or FAILS.match(text) is not None or self.is_message(text)


def _first_word(text: str) -> str:
    word = re.match(r"\w*", text)
    return word[0] if word else ""
