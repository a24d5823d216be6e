"""Read tiling data of host headers: the fields of each structure, and the operators that it is registered for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opforge.codegen.data.names import lower_camel, parameter_problem, snake_case
from opforge.codegen.importers.cpp_text import Lines, without_comments
from opforge.codegen.importers.cpp_tree import Source
from opforge.codegen.importers.draft import FieldDraft, Note, OperatorDraft
from opforge.codegen.spec.field_types import SCALARS, TILING_DATA_BYTES

from .constants import Names
from .structures import REGISTERED, described_structures, structure_parts

_SCALARS = {dtype.kernel: name for name, dtype in SCALARS.items()}
_ARRAY = "TILING_DATA_FIELD_DEF_ARR"
_MOST_OPERATORS, _MOST_SHOWN = 256, 120


def tiling_data(source: Source) -> Iterator[OperatorDraft]:
    """Yield drafts without a type, with the fields of the structures of tiling data that a source defines or registers.

    The function of a draft is the operator that the structure is registered for, or the name of the structure.
    """
    if "BEGIN_TILING_DATA_DEF" not in source.text and "REGISTER_TILING_DATA_CLASS" not in source.text:
        return
    text = without_comments(source.text)
    lines, names = Lines(text), Names(text)
    fields: dict[str, list[FieldDraft]] = {}
    notes: dict[str, list[Note]] = {}
    used: dict[str, tuple[set[str], set[str]]] = {}  # the names of the fields in the source and in generated code
    for part in structure_parts(text):
        line = lines.of(part.position)
        own, comments = fields.setdefault(part.structure, []), notes.setdefault(part.structure, [])
        if not part.macro:
            continue
        seen, taken = used.setdefault(part.structure, (set(), set()))
        field = _field(part.macro, part.arguments, line, names, taken)
        if field is None or part.is_repeated or part.arguments[-1] in seen:
            shown = f"{part.macro}({', '.join(part.arguments)})" if part.arguments else part.macro
            comments.append(Note(line, f"tiling data: {shown[:_MOST_SHOWN]} is not in the draft"))
        else:
            own.append(field)
            seen.add(part.arguments[-1])
            taken.add(lower_camel(field.name))
            if field.name != snake_case(part.arguments[-1]):
                comments.append(Note(line, f"tiling data: the field {part.arguments[-1]} has the name {field.name}"))
    operators: dict[str, list[tuple[str, int]]] = {}
    for found in REGISTERED.finditer(text):
        operators.setdefault(found[2].rpartition("::")[2], []).append((found[1], lines.of(found.start())))
    described, _ = described_structures([source.text])
    for name in {**fields, **operators}:
        for operator, line in operators.get(name, [(name, 0)])[:_MOST_OPERATORS]:
            missing = () if name in fields else (Note(line, f"the source does not define the tiling data {name}"),)
            yield OperatorDraft(
                "",
                f"{source.place}:1",
                "tiling data",
                function=operator,
                fields=tuple(fields.get(name, ())),
                structures=tuple(described.items()),
                structure=name,
                notes=(*notes.get(name, ()), *missing),
            )


def fitting_fields(fields: tuple[FieldDraft, ...], note: Callable[[int, str], None]) -> tuple[FieldDraft, ...]:
    """Return the fields, or none with a note if they have more bytes than a spec can have."""
    size = 0
    for one in fields:
        unit = SCALARS[one.type].bytes
        size = (size + unit - 1) // unit * unit + unit * (one.count or 1)
    if size <= TILING_DATA_BYTES:
        return fields
    note(fields[0].line, f"tiling data: {size} bytes; a spec has at most {TILING_DATA_BYTES}, so the draft has none")
    return ()


def _field(macro: str, arguments: tuple[str, ...], line: int, names: Names, taken: set[str]) -> FieldDraft | None:
    """Return a field with a name that no other field has; None if a spec has no such field."""
    is_array = macro == _ARRAY
    kind = _SCALARS.get(arguments[0]) if arguments else None
    if kind is None or len(arguments) != (3 if is_array else 2) or macro not in {"TILING_DATA_FIELD_DEF", _ARRAY}:
        return None
    count = names.number(arguments[1]) if is_array else None
    name = snake_case(arguments[-1])
    options = (name, f"{name.strip('_')}_value", *(f"{name.strip('_')}_{number}" for number in range(2, 100)))
    free = next((one for one in options if not parameter_problem(one) and lower_camel(one) not in taken), None)
    return FieldDraft(free, kind, count, line) if free and (not is_array or count) else None
