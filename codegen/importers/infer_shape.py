"""Read registered shape inference whose meaning is certain: copied shapes, numbers, attributes and dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .cpp_text import arguments_of, without_comments, without_strings
from .cpp_tree import Source, line_of
from .draft import Note, OperatorDraft, Shape
from .op_classes.scope import ambiguous_constants, global_declarations, unsure_macros
from .op_classes.values import collect
from .shapes.body import ELEMENTWISE, ShapeFunction, UnknownShapeError

if TYPE_CHECKING:
    from tree_sitter import Node

KIND, _MOST_SHOWN = "InferShape", 80
_REGISTERED = re.compile(r"\bIMPL_OP(?:_INFERSHAPE)?\s*\(\s*(\w+)\s*\)")
_CHAINED = re.compile(r"\s*\.\s*(\w+)\s*\(")
_MACRO = re.compile(r"#\s*define\s+(\w+)\(")


def _head(source: Source, function: Node) -> str:
    return source.of(function).partition("{")[0]


def _function(text: str, position: int) -> str | None:
    """Return the function that a registration names; None if it names none."""
    while (call := _CHAINED.match(text, position)) is not None:
        arguments, position = arguments_of(text, call.end())
        if call[1] == "InferShape":
            return " ".join(arguments)
    return None


def shape_rules(source: Source) -> Iterator[OperatorDraft]:
    """Yield drafts without a type; `function` is the operator of the registered shape inference."""
    if "InferShape" not in source.text:
        return
    constants: dict[str, object] = {}
    collected: dict[str, list[Node]] = {}
    for node in source.root.named_children:
        collect(source, node, constants, collected)
    text = without_comments(source.text)
    variables = {name for name, _, is_constant in global_declarations(source) if not is_constant}
    unsure = variables | ambiguous_constants(source) | unsure_macros(source, len(text))
    known = {name: value for name, value in constants.items() if name not in unsure}
    for found in _REGISTERED.finditer(without_strings(text)):
        line = text.count("\n", 0, found.start()) + 1
        function = _function(text, found.end())
        if function is None:
            continue
        copies, notes = _copies(source, function, known, collected, line)
        yield OperatorDraft(
            "", f"{source.place}:{line}", KIND, function=found[1], shapes=tuple(sorted(copies.items())), notes=notes
        )


def _copies(
    source: Source, name: str, constants: Mapping[str, object], collected: Mapping[str, list[Node]], line: int
) -> tuple[dict[int, Shape], tuple[Note, ...]]:
    """Return the shapes that the outputs get; empty with a note if the function does more."""
    last = name.rpartition("::")[2]
    definitions = [one for one in collected.get(last, []) if "InferDataTypeContext" not in _head(source, one)]
    if last == ELEMENTWISE and not definitions:
        return {0: 0}, ()
    if len(definitions) != 1:
        shown = name.split("{", maxsplit=1)[0][:_MOST_SHOWN]
        count = f"defines {shown} {len(definitions)} times" if definitions else f"does not define {shown}"
        return {}, (Note(line, f"shape inference: the source {count}"),)
    function = ShapeFunction(
        source,
        dict(constants),
        functions={name: group[0] for name, group in collected.items() if len(group) == 1},
        macros=frozenset(_MACRO.findall(source.text)),
    )
    try:
        function.run(definitions[0], {})
        return function.shapes, tuple(function.notes)
    except UnknownShapeError as unknown:
        return {}, (Note(line_of(definitions[0]), f"shape inference is not read: {unknown}"),)
