"""Find the OpDef classes of a C++ source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opforge.codegen.importers.cpp_text import without_comments
from opforge.codegen.importers.cpp_tree import Source, line_of, nodes

from .calls import Calls, Walker
from .scope import ambiguous_constants, is_literal, unsure_macros
from .values import collect, evaluate

if TYPE_CHECKING:
    from tree_sitter import Node

_ADDED = re.compile(r"\bOP_ADD\s*\(\s*(\w+)")
_METHODS = ("Input", "Output", "Attr")


def class_calls(source: Source) -> Iterator[tuple[str, Calls]]:
    """Yield the OpDef classes of a source by name, with their calls; only those with OP_ADD, if one has it."""
    added = set(_ADDED.findall(without_comments(source.text)))
    constants: dict[str, object] = {}
    functions: dict[str, list[Node]] = {}
    for node in source.root.named_children:
        collect(source, node, constants, functions)
    constants.update(dict.fromkeys(ambiguous_constants(source)))
    classes: dict[str, list[Node]] = {}
    for node in nodes(source.root, "class_specifier", "struct_specifier"):
        if node.child_by_field_name("body") is not None:
            classes.setdefault(source.of(node.child_by_field_name("name")), []).append(node)
    every = sorted((node for group in classes.values() for node in group), key=lambda node: node.start_byte)
    derived: set[str] = set(added)
    found = []
    for node in every:
        name, bases = source.of(node.child_by_field_name("name")), _bases(source, node)
        if bases and (name in added or any("OpDef" in base or base in derived for base in bases)):
            derived.add(name)
            found.append((name, node))
    registered = [(name, node) for name, node in found if name in added]
    for name, node in registered or found:
        calls = _calls(source, node, classes, constants, functions)
        if not registered:
            calls.notes.append((calls.line, f"the file has no OP_ADD({name})"))
        yield name, calls


def _calls(
    source: Source,
    node: Node,
    classes: dict[str, list[Node]],
    constants: dict[str, object],
    functions: dict[str, list[Node]],
) -> Calls:
    """Return the calls of a class, after those of its base classes in the same file."""
    lineage, own, methods = [node], dict(constants), {name: list(group) for name, group in functions.items()}
    missing = ""
    while base := next((name for name in _bases(source, lineage[-1]) if name != "OpDef"), ""):
        group = [other for other in classes.get(base, []) if other not in lineage]
        if len(group) != 1:
            missing = base
            break
        lineage.append(group[0])
    for one in reversed(lineage):
        body = one.child_by_field_name("body")
        for child in body.named_children if body else ():
            collect(source, child, own, methods)
    constructors = [methods.get(source.of(one.child_by_field_name("name")), []) for one in reversed(lineage)]
    start = constructors[-1][0].start_byte if constructors[-1] else node.start_byte
    own.update(dict.fromkeys(unsure_macros(source, start)))
    walker = Walker(source, own, methods)
    walker.calls.line = line_of(node)
    if missing:
        walker.note(node, f"the base class {missing} is not read")
    for group in constructors:
        for other in group[1:]:
            walker.note(other, "a further constructor is not read")
        if group:
            walker.run(group[0], 0)
    for call in nodes(node, "call_expression"):
        _check_read(source, call, own, walker)
    walker.read_configurations()
    return walker.calls


def _bases(source: Source, node: Node) -> list[str]:
    """Return the base classes of a class, without namespaces."""
    clause = next((child for child in node.children if child.type == "base_class_clause"), None)
    names = [child for child in clause.named_children if child.type != "access_specifier"] if clause else []
    return [source.of(name).rpartition("::")[2] for name in names if name.type != "comment"]


def _check_read(source: Source, call: Node, constants: dict[str, object], walker: Walker) -> None:
    """Note a parameter with a constant name that no statement read."""
    function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    if function is None or arguments is None or function.type not in {"identifier", "field_expression"}:
        return
    method = source.of(function.child_by_field_name("field") if function.type == "field_expression" else function)
    if method in _METHODS:
        items = tuple(evaluate(source, child, constants) for child in arguments.named_children[:1])
        if is_literal(items):
            walker.check_read(call, method, str(items[0]))
