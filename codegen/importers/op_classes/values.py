"""Evaluate constant expressions of C++ sources, without executing code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opforge.codegen.importers.cpp_tree import Source, children_of, nodes
from opforge.codegen.importers.draft import DTYPE_NUMBERS, number_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_DEPTH, _MOST_ITEMS, _MOST_DIGITS = 8, 4096, 1000
_INTEGER = re.compile(r"(?:0x(?P<hex>[0-9a-f]+)|0b(?P<binary>[01]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))[ulz]*")
_FLOAT = re.compile(r"((?:[0-9]+\.[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)[fl]?")
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_LITERALS = re.compile(r'(?:\s*(?:u8)?"(?:[^"\\\n]|\\.)*")+\s*')
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|.)")
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"', "'": "'",
    "?": "?",
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """The arguments of a call as constants.

    Attributes:
        items: Words, numbers and texts; lists in braces are tuples.
        line: The line of the call.
        shown: The text of the arguments.
    """

    items: tuple[object, ...]
    line: int
    shown: str

    @property
    def text(self) -> str:
        """The first argument."""
        return str(self.items[0]) if self.items else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the first argument, which is a list."""
        first = self.items[0] if self.items else ()
        return tuple(map(str, first)) if isinstance(first, tuple) else (str(first),)

    def of_type(self, kind: str) -> bool | float | str | tuple[bool | float | str, ...] | None:
        """Return the first argument as a value of an attribute type; None if it is not one."""
        if not self.items:
            return None
        first = self.items[0]
        if kind.startswith("list_"):
            if not isinstance(first, tuple):
                return None
            items = [_scalar(item, kind.removeprefix("list_")) for item in first]
            return None if None in items else tuple(item for item in items if item is not None)
        return _scalar(first, kind)


def _scalar(value: object, kind: str) -> bool | float | str | None:
    if kind == "string":
        return str(value) if isinstance(value, Text) else None
    if isinstance(value, str) and not isinstance(value, Text):
        return DTYPE_NUMBERS.get(value) if kind == "int" else None
    if isinstance(value, bool):
        return value if kind == "bool" else int(value) if kind == "int" else None
    if isinstance(value, int | float):
        return bool(value) if kind == "bool" else number_of(value, kind)
    return None


class Text(str):
    """A text in quotes; other texts are names of constants."""

    __slots__ = ()


def collect(source: Source, node: Node, constants: dict[str, object], functions: dict[str, list[Node]]) -> None:
    """Add the constants and functions of a scope, including nested namespaces."""
    if node.type in {
        "namespace_definition",
        "linkage_specification",
        "declaration_list",
        "preproc_ifdef",
        "preproc_if",
        "template_declaration",
    }:
        for child in node.named_children:
            collect(source, child, constants, functions)
    elif node.type == "function_definition":
        for declarator in nodes(node, "function_declarator"):
            name = source.of(declarator.child_by_field_name("declarator")).rpartition("::")[2]
            if node.child_by_field_name("body") is not None:
                functions.setdefault(name, []).append(node)
            break
    elif node.type in {"declaration", "field_declaration"}:
        declare(source, node, constants)
    elif node.type == "preproc_def":
        name, value = source.of(node.child_by_field_name("name")), source.of(node.child_by_field_name("value"))
        if (number := _number(value.strip())) is not None:
            constants[name] = number
        elif (literal := _literal(value)) is not None:
            constants[name] = literal


def declare(source: Source, node: Node, constants: dict[str, object]) -> list[str]:
    """Add the constants of a declaration; return their names."""
    names = []
    for child in node.named_children:
        value = child.child_by_field_name("value")
        if child.type == "field_identifier" and (value := node.child_by_field_name("default_value")) is not None:
            names.append(source.of(child))
            constants[names[-1]] = evaluate(source, value, constants)
        elif child.type == "init_declarator" and value is not None:
            name = child.child_by_field_name("declarator")
            while name is not None and name.named_children and name.type != "identifier":
                name = name.named_children[-1 if name.type == "pointer_declarator" else 0]
            names.append(source.of(name))
            constants[names[-1]] = evaluate(source, value, constants)
        elif child.type == "identifier" and node.type == "declaration":
            names.append(source.of(child))
            constants[names[-1]] = () if "vector<" in source.of(node.child_by_field_name("type")) else None
    return names


def _number(text: str) -> bool | float | None:
    words = {"true": True, "false": False}
    if text in words or len(text) > _MOST_DIGITS:
        return words.get(text)
    if text[:1] == "-":
        number = _number(text[1:].strip()) if "u" not in text.lower() else None
        return None if number is None else -number
    body = text.replace("'", "").lower().removeprefix("+")
    if (found := _INTEGER.fullmatch(body)) and found.lastgroup:
        return int(found[found.lastgroup], _BASES[found.lastgroup])
    return float(real[1]) if (real := _FLOAT.fullmatch(body)) else None


def _literal(text: str) -> Text | None:
    """Return the value of adjacent string literals; None for raw literals and other escapes than those of ASCII."""
    if not _LITERALS.fullmatch(text):
        return None
    body = "".join(f"{found[1]}\0" for found in _LITERAL.finditer(text))  # an escape ends with its literal
    values = {code: _escaped(code) for code in _ESCAPE.findall(body)}
    if None in values.values():
        return None
    return Text(_ESCAPE.sub(lambda escape: values[escape[1]] or "", body).replace("\0", ""))


def _escaped(code: str) -> str | None:
    if code[0] != "x" and not code.isdigit():
        return _ESCAPES.get(code)
    number = int(code[1:], 16) if code[0] == "x" else int(code, 8)
    return chr(number) if 0 < number < 128 else None


def evaluate(source: Source, node: Node, constants: dict[str, object], depth: int = 0) -> object:
    """Return the value of a constant expression; None if it is not constant."""
    kind, text = node.type, source.of(node)
    value: object = None
    if depth > _MOST_DEPTH:
        return None
    if kind == "initializer_list":
        value = tuple(evaluate(source, child, constants, depth + 1) for child in children_of(node)[:_MOST_ITEMS])
    elif kind in {"number_literal", "true", "false"}:
        value = _number(text)
    elif kind in {"identifier", "qualified_identifier"}:
        last = text.rpartition("::")[2]
        value = constants.get(last, last)
    elif kind in {"string_literal", "concatenated_string"}:
        value = _literal(text)
    else:
        value = _composed(source, node, constants, depth)
    return value


def _composed(source: Source, node: Node, constants: dict[str, object], depth: int) -> object:
    """Return the value of an expression with operands."""
    kind, text = node.type, source.of(node)
    operand: Node | None = None
    if kind == "unary_expression" and text[:1] in {"-", "+"}:
        operand = node.child_by_field_name("argument")
    elif kind == "parenthesized_expression" and node.named_child_count == 1:
        operand = node.named_children[0]
    elif kind == "compound_literal_expression":
        operand = node.child_by_field_name("value")
    elif kind in {"call_expression", "argument_list"}:
        return _constructed(source, node, constants, depth)
    elif kind == "subscript_expression":
        items, *indices = [evaluate(source, child, constants, depth + 1) for child in _operands(node)]
        at = indices[0] if len(indices) == 1 else None
        return items[at] if isinstance(items, tuple) and isinstance(at, int) and 0 <= at < len(items) else None
    value = evaluate(source, operand, constants, depth + 1) if operand else None
    if text[:1] == "-":
        return -value if isinstance(value, int | float) and "u" not in text.lower() else None
    return value


def _operands(node: Node) -> list[Node]:
    """Return the array and the indices of `x[i]`."""
    argument, indices = node.child_by_field_name("argument"), node.child_by_field_name("indices")
    return [*([argument] if argument else []), *(indices.named_children if indices else [])]


def _constructed(source: Source, node: Node, constants: dict[str, object], depth: int) -> object:
    """Return the value of `vector<T>(n, value)`, `vector<T>{...}`, `x.size()`, or of the arguments of a declaration."""
    function = node.child_by_field_name("function")
    if function is not None and function.type == "field_expression" and source.of(function).endswith(".size"):
        items = evaluate(source, function.named_children[0], constants, depth + 1)
        return len(items) if isinstance(items, tuple) else None
    arguments = node if node.type == "argument_list" else node.child_by_field_name("arguments")
    if arguments is None or (
        node.type == "call_expression" and "vector" not in source.of(node.child_by_field_name("function"))
    ):
        return None
    values = [evaluate(source, child, constants, depth + 1) for child in arguments.named_children]
    if len(values) == 2 and isinstance(values[0], int) and 0 <= values[0] <= _MOST_ITEMS:
        return (values[1],) * values[0]
    return values[0] if len(values) == 1 else None
