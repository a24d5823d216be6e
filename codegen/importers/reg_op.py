"""Read REG_OP prototypes and the macros of tiling data."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator

from opforge.codegen.data.names import parameter_problem, snake_case
from opforge.codegen.spec.field_types import SCALARS

from .cpp_tree import Source
from .draft import (
    ATTR_TYPES,
    DTYPE_NUMBERS,
    DYNAMIC,
    OPTIONAL,
    REQUIRED,
    AttrDraft,
    FieldDraft,
    Note,
    OperatorDraft,
    TensorDraft,
    dtype_word,
    number_of,
)
from .tiling.structures import described_structures

_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"?', re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_REG_OP = re.compile(r"\bREG_OP\s*\(\s*(\w+)\s*\)")
_CLAUSE = re.compile(r"\s*\.\s*(\w+)\s*\(")
_TENSORS = {
    "INPUT": (REQUIRED, False), "OPTIONAL_INPUT": (OPTIONAL, False), "DYNAMIC_INPUT": (DYNAMIC, False),
    "OUTPUT": (REQUIRED, True), "DYNAMIC_OUTPUT": (DYNAMIC, True),
}  # fmt: skip
_ATTR_TYPES = {name.lower(): kind for name, kind in ATTR_TYPES.items()}
_TILING = re.compile(
    r"\b(BEGIN_TILING_DATA_DEF|TILING_DATA_FIELD_DEF|TILING_DATA_FIELD_DEF_ARR|TILING_DATA_FIELD_DEF_STRUCT"
    r"|REGISTER_TILING_DATA_CLASS)\s*\(([^()]*)\)"
)
_SCALARS = {dtype.kernel: name for name, dtype in SCALARS.items()}
_MOST_CLAUSES = 256


def without_comments(text: str) -> str:
    """Return the text with blanks instead of comments, so that line numbers do not change."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)


class _Lines:
    """Returns line numbers by position, with one search each."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def of(self, position: int) -> int:
        """Return the line of a position, from 1 on."""
        return bisect_left(self._ends, position) + 1


def arguments_of(text: str, start: int, most: int = 20_000) -> tuple[list[str], int]:
    """Return the arguments of a call after its parenthesis, and the position after it.

    Args:
        text: The source.
        start: The position after the parenthesis.
        most: The characters that are read at most.
    """
    parts, depth, begin = [], 0, start
    for position in range(start, min(len(text), start + most)):
        letter = text[position]
        if letter in "({[":
            depth += 1
        elif letter in ")}]" and depth:
            depth -= 1
        elif letter in ",)" and not depth:
            parts.append(text[begin:position].strip())
            begin = position + 1
            if letter == ")":
                return parts, begin
    return parts, len(text)


def prototypes(source: Source) -> Iterator[OperatorDraft]:
    """Yield the operators of the REG_OP macros of a source."""
    if "REG_OP" not in source.text:
        return
    text = without_comments(source.text)
    lines = _Lines(text)
    for found in _REG_OP.finditer(text):
        tensors: dict[bool, list[TensorDraft]] = {False: [], True: []}
        attrs: list[AttrDraft] = []
        notes: list[Note] = []
        position = found.end()
        for _ in range(_MOST_CLAUSES):
            clause = _CLAUSE.match(text, position)
            if clause is None or clause[1].startswith("OP_END"):
                break
            arguments, position = arguments_of(text, clause.end())
            line = lines.of(clause.start(1))
            if clause[1] in _TENSORS and arguments:
                option, is_output = _TENSORS[clause[1]]
                tensors[is_output].append(_tensor(arguments, option, line, notes))
            elif clause[1] in {"ATTR", "REQUIRED_ATTR"} and len(arguments) > 1:
                attrs.append(_attr(arguments, line, notes, is_required=clause[1] != "ATTR"))
            elif clause[1] != "DATATYPE":
                notes.append(Note(line, f"{clause[1]}({', '.join(arguments)})"))
        place = f"{source.place}:{lines.of(found.start())}"
        yield OperatorDraft(
            found[1], place, "REG_OP", tuple(tensors[False]), tuple(tensors[True]), tuple(attrs), notes=tuple(notes)
        )
        if position == len(text):  # a clause without an end: it extends to the end of the text
            return


def _tensor(arguments: list[str], option: str, line: int, notes: list[Note]) -> TensorDraft:
    """Return a tensor; the lists of a prototype are sets, so there are no combinations."""
    name = arguments[0]
    words = re.findall(r"\bDT_\w+", " ".join(arguments[1:]))
    dtypes = tuple(dict.fromkeys(dtype for word in words if (dtype := dtype_word(word))))
    if not dtypes:
        notes.append(Note(line, f"tensor {name}: dtypes {' '.join(arguments[1:])[:120] or 'none'}"))
    return TensorDraft(name, option, dtypes, line=line)


def _attr(arguments: list[str], line: int, notes: list[Note], *, is_required: bool) -> AttrDraft:
    name, word = arguments[0], arguments[1]
    kind = _ATTR_TYPES.get(word.lower())
    if kind is None:
        notes.append(Note(line, f"attribute {name}: the type {word} is not read"))
        kind = "int"
    if is_required or len(arguments) < 3:
        return AttrDraft(name, kind, None, line)
    text = ", ".join(arguments[2:])
    parts = _STRING.findall(text) if kind in {"string", "list_string"} else text.strip("{}").split(",")
    items = [_constant(part.strip(), kind.removeprefix("list_")) for part in parts if part.strip()]
    if kind in {"string", "list_string"} and _STRING.sub("", text).strip("{}, "):
        items = [None]  # a constant or a macro
    if None in items:
        notes.append(Note(line, f"attribute {name}: the default {text} is not a constant"))
        items = []
    known = tuple(item for item in items if item is not None)
    if kind.startswith("list_"):
        return AttrDraft(name, kind, known, line)
    none: bool | int | str = "" if kind == "string" else False if kind == "bool" else 0
    return AttrDraft(name, kind, known[0] if known else none, line)


def _constant(text: str, kind: str) -> bool | float | str | None:
    try:
        if kind == "string":
            return str(json.loads(text))
        if kind == "bool":
            return {"true": True, "false": False, "True": True, "False": False}[text]
        if kind == "int" and (word := text.rpartition("::")[2]) in DTYPE_NUMBERS:
            return DTYPE_NUMBERS[word]
        return number_of(int(text.rstrip("uUlL"), 0) if kind == "int" else float(text.rstrip("fF")), kind)
    except (KeyError, ValueError):
        return None


def tiling_data(source: Source) -> Iterator[OperatorDraft]:
    """Drafts without a type, with the fields of the first tiling data that a source defines.

    The function of a draft is the operator that the data is registered for, or the name of the data.
    """
    if "BEGIN_TILING_DATA_DEF" not in source.text:
        return
    text = without_comments(source.text)
    lines = _Lines(text)
    structures: dict[str, list[FieldDraft]] = {}
    operators: dict[str, list[str]] = {}
    notes: list[Note] = []
    current: list[FieldDraft] = []
    for found in _TILING.finditer(text):
        arguments = [argument.strip() for argument in found[2].split(",")]
        line = lines.of(found.start())
        if found[1] == "BEGIN_TILING_DATA_DEF":
            current = structures.setdefault(arguments[0], [])
        elif found[1] == "REGISTER_TILING_DATA_CLASS" and len(arguments) > 1:
            operators.setdefault(arguments[1], []).append(arguments[0])
        elif (field := _field(found[1], arguments, line)) is not None:
            current.append(field)
        else:
            notes.append(Note(line, f"tiling data: {found[1]}({', '.join(arguments)})"))
    described, _ = described_structures([source.text])
    users = [(name, of) for name in structures for of in operators.get(name, [name])[:_MOST_CLAUSES]]
    for name, operator in users:
        yield OperatorDraft(
            "",
            f"{source.place}:1",
            "tiling data",
            function=operator,
            fields=tuple(structures[name]),
            structures=tuple(described.items()),
            structure=name,
            notes=tuple(notes),
        )
        notes = []


def _field(macro: str, arguments: list[str], line: int) -> FieldDraft | None:
    kind = _SCALARS.get(arguments[0])
    if kind is None or len(arguments) < 2:
        return None
    name = snake_case(arguments[-1])
    if parameter_problem(name):
        name = f"{name.strip('_')}_value"
    if parameter_problem(name):
        return None
    if macro == "TILING_DATA_FIELD_DEF":
        return FieldDraft(name, kind, None, line)
    if macro == "TILING_DATA_FIELD_DEF_ARR" and len(arguments) == 3 and arguments[1].isdigit() and int(arguments[1]):
        return FieldDraft(name, kind, int(arguments[1]), line)
    return None
