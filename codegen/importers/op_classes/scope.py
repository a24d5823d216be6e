"""Hold the constants of OpDef constructors: a value that an unread statement can change becomes unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opforge.codegen.importers.cpp_tree import Source, nodes

from .values import Text, declare, evaluate

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = ("identifier", "qualified_identifier")


class Scope:
    """The constants at one statement.

    Attributes:
        constants: The values by name; None is unknown.
    """

    def __init__(self, source: Source, constants: dict[str, object]) -> None:
        self.constants = constants
        self._source = source
        self._fixed = _fixed(source)
        self._local: set[str] = set()
        self._changed: set[str] = set()

    def value(self, node: Node) -> object:
        """Return the value of an expression."""
        return evaluate(self._source, node, self.constants)

    def put(self, name: str, value: object) -> None:
        """Declare a name."""
        self.constants[name] = value
        self._local.add(name)

    def declare(self, node: Node) -> None:
        """Add the constants of a declaration; a name for a variable makes both unknown."""
        self._local.update(declare(self._source, node, self.constants))
        if re.search(r"\bconst(expr)?\b", self._source.of(node).partition("=")[0]):
            return
        for child in node.named_children:
            declarator, value = child.child_by_field_name("declarator"), child.child_by_field_name("value")
            is_name = declarator is not None and declarator.type in {"reference_declarator", "pointer_declarator"}
            if is_name and value is not None and declarator is not None and self.forget(value):
                self.forget(declarator)

    def forget(self, node: Node | None) -> bool:
        """Make the variables in a node unknown; return whether it has some."""
        found = False
        for name in nodes(node, *_NAMES) if node is not None else ():
            text = self._source.of(name).rpartition("::")[2]
            if text in self.constants and text not in self._fixed and not self._is_read_only(name):
                self.constants[text] = None
                self._changed.add(text)
                found = True
        return found

    def _is_read_only(self, name: Node) -> bool:
        """Return whether a name is the object of a method that cannot change it."""
        parent = name.parent
        field = parent.child_by_field_name("field") if parent and parent.type == "field_expression" else None
        return self._source.of(field) in {"cbegin", "cend", "size", "empty"}

    def append(self, name: str, items: tuple[object, ...]) -> None:
        """Add an item to a vector."""
        known = self.constants.get(name)
        is_item = len(items) == 1 and items[0] is not None
        self.constants[name] = (*known, *items) if is_item and isinstance(known, tuple) else None
        self._changed.add(name)

    def steps(self, node: Node, most: int) -> list[dict[str, object]] | None:
        """Return the constants of each iteration of a loop; None if they are not known."""
        field = node.child_by_field_name
        names = [self._source.of(name) for name in nodes(field("declarator") or node, "identifier")]
        if node.type == "for_range_loop":
            right = field("right")
            items = evaluate(self._source, right, self.constants) if right else None
            if not isinstance(items, tuple) or not all(map(_is_constant, items)):
                return None
            rows = [item if len(names) > 1 else (item,) for item in items]
            if not all(isinstance(row, tuple) and len(row) == len(names) for row in rows):
                return None
            return [dict(zip(names, row, strict=True)) for row in rows if isinstance(row, tuple)]
        first, condition, update = field("initializer"), field("condition"), field("update")
        if first is None or condition is None or update is None:
            return None
        bounds: dict[str, object] = {}
        declare(self._source, first, bounds)
        (name, start), *more = bounds.items() or (("", None),)
        text = re.sub(r"\s", "", self._source.of(update))
        left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
        end = evaluate(self._source, right, self.constants) if right else None
        operator = self._source.of(condition.child_by_field_name("operator"))
        is_plain = self._source.of(left) == name and text in {f"++{name}", f"{name}++", f"{name}+=1"} and not more
        if not is_plain or operator not in {"<", "<=", "!="} or not isinstance(start, int) or not isinstance(end, int):
            return None
        return [{name: index} for index in range(start, min(end + (operator == "<="), start + most + 1))]

    @contextmanager
    def nested(self) -> Iterator[set[str]]:
        """Open a scope: its declarations end with it, and its changes of other names stay."""
        outer, local, changed = dict(self.constants), self._local, self._changed
        self._local, self._changed = set(), set()
        yield self._changed
        for name in self._changed & outer.keys():
            outer[name] = None if name in self._local else self.constants.get(name)
        self.constants.clear()
        self.constants.update(outer)
        changed |= self._changed
        self._local, self._changed = local, changed


def _is_constant(value: object) -> bool:
    """Return whether a value, or each item of a list, is known."""
    return all(map(_is_constant, value)) if isinstance(value, tuple) else value is not None


def _fixed(source: Source) -> set[str]:
    """Return the names that the source only declares as constants."""
    fixed: set[str] = set()
    variable: set[str] = set()
    for node in nodes(source.root, "declaration", "field_declaration", "parameter_declaration", "preproc_def"):
        head = source.of(node).partition("=")[0]
        is_fixed = node.type == "preproc_def" or "constexpr" in head or ("const" in head.split() and "*" not in head)
        names = {source.of(name) for name in nodes(node, "identifier", "field_identifier")}
        (fixed if is_fixed else variable).update(names)
    return fixed - variable


def is_literal(items: tuple[object, ...]) -> bool:
    """Return whether the first argument is a constant text."""
    return bool(items) and isinstance(items[0], Text)


def global_declarations(source: Source) -> Iterator[tuple[str, str, bool]]:
    """Yield name, value and whether it is a constant, of each declaration outside functions and classes."""
    for node in nodes(source.root, "declaration"):
        above = node.parent
        while above is not None and above.type not in {"function_definition", "field_declaration_list"}:
            above = above.parent
        if above is None:
            is_constant = re.search(r"\bconst(expr)?\b", source.of(node).partition("=")[0]) is not None
            yield from ((name, source.of(node).partition("=")[2], is_constant) for name in declare(source, node, {}))


def ambiguous_constants(source: Source) -> set[str]:
    """Return the names that several namespaces or branches give different values."""
    values: dict[str, set[str]] = {}
    for name, value, _ in global_declarations(source):
        values.setdefault(name, set()).add(" ".join(value.split()))
    return {name for name, found in values.items() if len(found) > 1}


def unsure_macros(source: Source, start: int) -> set[str]:
    """Return the macros without one certain value at a position."""
    values: dict[str, set[str]] = {}
    for node in nodes(source.root, "preproc_def", "preproc_call"):
        if node.type == "preproc_def":
            name, value = source.of(node.child_by_field_name("name")), source.of(node.child_by_field_name("value"))
        else:
            directive, name = (source.of(child).strip() for child in (*node.children, node)[:2])
            if directive != "#undef":
                continue
            value = "#undef"
        is_later = value == "#undef" or node.start_byte > start
        values.setdefault(name, set()).update({value.strip(), *(["#later"] if is_later else [])})
    return {name for name, found in values.items() if len(found) > 1}
