"""Parse C++ sources with tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from opforge.codegen.errors import not_installed

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MACRO_CALL = re.compile(r"^[ \t]*([A-Z][A-Z0-9_]{4,})\(", re.MULTILINE)


@lru_cache(maxsize=1)
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_cpp
    except ImportError as error:
        raise not_installed("import", "tree-sitter", "C++ sources", "pip install 'opforge[import]'") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))


class Source:
    """A C++ source with its syntax tree.

    Attributes:
        place: Its path in messages.
    """

    def __init__(self, text: str, place: str) -> None:
        self.text = text
        self.place = place
        self._bytes = text.encode("utf-8", "surrogatepass")
        self._tree = _parser().parse(self._bytes)
        self.root = self._tree.root_node

    @property
    def macro(self) -> str:
        """The first macro with an argument that the source calls and does not define."""
        names = (found[1] for found in _MACRO_CALL.finditer(self.text))
        return next((name for name in names if f"#define {name}" not in self.text), "")

    def of(self, node: Node | None) -> str:
        """Return the text of a node."""
        return self._bytes[node.start_byte : node.end_byte].decode("utf-8", "replace") if node else ""


def line_of(node: Node) -> int:
    """Return the line of the start of a node, from 1 on."""
    return int(node.start_point[0]) + 1


def nodes(root: Node, *kinds: str) -> Iterator[Node]:
    """Yield the nodes of some kinds in the order of the text; without recursion, for any depth."""
    cursor = root.walk()
    while True:
        if cursor.node and cursor.node.type in kinds:
            yield cursor.node
        if cursor.goto_first_child() or cursor.goto_next_sibling():
            continue
        while cursor.goto_parent():
            if cursor.goto_next_sibling():
                break
        else:
            return


def children_of(parent: Node | None) -> list[Node]:
    """Return the named children of a node without comments."""
    return [child for child in parent.named_children if child.type != "comment"] if parent is not None else []


def parameters(function: Node) -> list[Node]:
    """Return the parameters of a function."""
    return children_of(next(nodes(function, "parameter_list"), None))


def takes(function: Node, count: int) -> bool:
    """Return whether a function can have a number of arguments."""
    kinds = [parameter.type for parameter in parameters(function)]
    return kinds.count("parameter_declaration") <= count <= len(kinds) or "variadic_parameter_declaration" in kinds
