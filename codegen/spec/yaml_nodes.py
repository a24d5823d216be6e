"""Read YAML with positions: plain values of the 1.2 core schema, and the position of each in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

Path: TypeAlias = tuple[str | int, ...]

MAX_DEPTH = 20
# The end of a path to a key itself instead of its value.
KEY = "[key]"
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, object] = {"": None, "null": None, "~": None, "true": True, "false": False}
_KINDS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = ((_INT, int), (_FLOAT, float))
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")


@dataclass(frozen=True)
class Place:
    """A position in a file, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Problem:
    """A problem: its path in the document, and a message."""

    place: Place
    path: Path
    message: str


@dataclass
class Document:
    """The value of a YAML text with the positions of its values and keys, by path."""

    value: Any = None
    values: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> Place:
        """Return the position of the value at `path`, or of the nearest value around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))

    def key_place(self, path: Path) -> Place:
        """Return the position of the key at `path`."""
        return self.keys.get(path) or self.place(path)


def dotted(path: Path) -> str:
    """Return a path as text: `("inputs", 0, "name")` -> `inputs[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_yaml(text: str) -> Document:
    """Read one YAML document: mappings as dict, sequences as tuple.

    Anchors, aliases, tags and duplicate keys are problems like wrong syntax; no error is raised.
    """
    document = Document()
    try:
        document.problems.extend(_refused_events(text))
        if document.problems:
            return document
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        text = " ".join(filter(None, (error.problem, error.context)))
        fix = "correct the line: indent with spaces, quote text that has special characters"
        document.problems.append(Problem(place, (), f"not valid YAML: {text}; {fix}"))
        return document
    except yaml.YAMLError as error:
        document.problems.append(Problem(Place(1, 1), (), f"not valid YAML: {' '.join(str(error).split())}"))
        return document
    if node is None:
        document.problems.append(Problem(Place(1, 1), (), "got an empty file, expected the keys of a spec"))
        return document
    document.value = _Builder(document).build(node, ())
    return document


def _refused_events(text: str) -> list[Problem]:
    """Find YAML features that specs do not support before nodes are created, because aliases can need much memory."""
    problems = []
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            message = f"got the alias '*{anchor}', expected the value itself; a star dimension needs quotes"
            problems.append(Problem(_place(event), (), message))
        elif anchor is not None:
            problems.append(Problem(_place(event), (), f"got the anchor '&{anchor}', expected the value itself"))
        if (tag := getattr(event, "tag", None)) is not None:
            problems.append(Problem(_place(event), (), f"got the tag {tag!r}, expected a plain value"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            message = f"got more than {MAX_DEPTH} levels of nesting, expected fewer"
            return [*problems, Problem(_place(event), (), message)]
    return problems


class _Builder:
    def __init__(self, document: Document) -> None:
        self._document = document

    def _problem(self, node: yaml.Node, path: Path, message: str) -> None:
        self._document.problems.append(Problem(_place(node), path, message))

    def build(self, node: yaml.Node, path: Path) -> Any:
        self._document.values[path] = _place(node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.build(item, (*path, index)) for index, item in enumerate(node.value))
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, path, "got a key that is a list or mapping, expected a word")
                continue
            key = str(key_node.value)
            below = (*path, key)
            if key in mapping:
                first = self._document.keys[below]
                self._problem(key_node, below, f"got the key {key!r} again, line {first.line} has it already")
                continue
            self._document.keys[below] = _place(key_node)
            mapping[key] = self.build(value_node, below)
        return mapping

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = str(node.value)
        if node.style:
            return text
        if _LEADING_ZERO.fullmatch(text):
            self._problem(node, path, f"got {text}, expected a number without a leading zero, or quotes")
            return int(text)
        return core_scalar(text)


def core_scalar(text: str) -> Any:
    """Return the value of a plain scalar in YAML 1.2's core schema; `yes`, `0o17` and `1:30` are strings."""
    if text in _WORDS:
        return _WORDS[text]
    for pattern, convert in _KINDS:
        if pattern.fullmatch(text) and len(text) <= 100:
            return convert(text)
    return text


def _place(part: Any) -> Place:
    return Place(part.start_mark.line + 1, part.start_mark.column + 1)
