"""Read the structures of tiling data: macros of host headers, and plain structures of kernel headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from opforge.codegen.escape import Code
from opforge.codegen.importers.cpp_text import arguments_of, without_comments, without_disabled
from opforge.codegen.importers.cpp_tree import Source, nodes
from opforge.codegen.render import printed

from .constants import Names

_BEGIN = re.compile(r"(?<!define )\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\)")
# A statement inside a structure: a preprocessor line, a macro with or without arguments, or another letter.
_STATEMENT = re.compile(r"[\s;]*(?:(?P<line>#[^\n]*)|(?P<macro>\w+)[ \t]*(?P<call>\()?|(?P<other>\S))")
_MOST_STRUCTURES = 200
REGISTERED = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_NO_LENGTH = Code()


@dataclass(frozen=True)
class Field:
    """A field of tiling data: its C++ type, its name and, for an array, its length."""

    type: Code
    name: Code
    length: Code = _NO_LENGTH
    is_structure: bool = False


@dataclass(frozen=True)
class Part:
    """A statement of a structure; its start has no macro.

    Attributes:
        structure: The name of the structure.
        position: The position of the statement.
        macro: The macro, or another text that is not read.
        arguments: The arguments of the macro.
        is_repeated: Whether it belongs to a further definition of the structure.
    """

    structure: str
    position: int
    macro: str = ""
    arguments: tuple[str, ...] = ()
    is_repeated: bool = False


def structure_parts(code: str) -> Iterator[Part]:
    """Yield the statements of the structures that `BEGIN_TILING_DATA_DEF` describes, in code without comments."""
    known: set[str] = set()
    end = 0
    for begin in _BEGIN.finditer(code):
        name = begin[1]
        if begin.start() < end or len(known) == _MOST_STRUCTURES:
            continue
        is_repeated = name in known
        known.add(name)
        yield Part(name, begin.start())
        position = begin.end()
        while (found := _STATEMENT.match(code, position)) is not None:
            macro, position = found["line"] or found["macro"] or found["other"], found.end()
            if macro in {"END_TILING_DATA_DEF", "BEGIN_TILING_DATA_DEF"}:
                break
            arguments: list[str] = []
            if found["call"]:
                arguments, position = arguments_of(code, position)
            yield Part(name, found.start(found.lastgroup or 0), macro, tuple(arguments), is_repeated)
        end = position if found is not None and found["macro"] == "END_TILING_DATA_DEF" else begin.end()


def code_of(text: str) -> str:
    """Return the text without comments, and without the code between `#if 0` and its end."""
    return without_disabled(without_comments(text))


def described_structures(texts: Iterable[str]) -> tuple[dict[str, tuple[Field, ...]], dict[str, str]]:
    """The structures that `BEGIN_TILING_DATA_DEF` describes, and the structure that is registered for each operator.

    Returns:
        The fields by structure, after those that it contains, and structures by operator.
    """
    structures: dict[str, tuple[Field, ...]] = {}
    code = "\n".join(map(code_of, texts))
    names = Names(code)  # lengths of arrays are often named constants of the host code
    for name, fields in _described(code).items():
        structures[name] = tuple(replace(field, length=_length(names, field.length)) for field in fields)
    registered = {operator: name.rpartition("::")[2] for operator, name in REGISTERED.findall(code)}
    return _ordered(structures), registered


def _length(names: Names, text: str) -> Code:
    number = names.number(text) if text else None
    return Code(text if number is None else str(number))


def _described(code: str) -> dict[str, list[Field]]:
    """Return the fields of the first structures of a source."""
    found: dict[str, list[Field]] = {}
    for part in structure_parts(code):
        fields = found.setdefault(part.structure, [])
        kind = part.macro.removeprefix("TILING_DATA_FIELD_DEF")
        words = [Code(word) for word in part.arguments]
        if part.is_repeated or not part.macro.startswith("TILING_DATA_FIELD_DEF"):
            continue
        if kind == "_ARR" and len(words) == 3:
            fields.append(Field(words[0], words[2], words[1]))
        elif kind in {"", "_STRUCT"} and len(words) == 2:
            fields.append(Field(words[0], words[1], is_structure=kind != ""))
    return found


def _ordered(structures: Mapping[str, tuple[Field, ...]]) -> dict[str, tuple[Field, ...]]:
    """Structures after those that they contain."""
    done: dict[str, tuple[Field, ...]] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in done or name in above:
            return
        for field in structures[name]:
            if field.type in structures:
                add(field.type, (*above, name))
        done[name] = structures[name]

    for name in structures:
        add(name, ())
    return done


def header_of(
    structures: Mapping[str, tuple[Field, ...]], guard: str, *, has_setters: bool = False, default: str = ""
) -> str:
    """Return a header with structures, whose fields have the names in the source.

    Args:
        structures: The fields by structure.
        guard: The macro of the header.
        has_setters: The structures also have the functions `set_..` and `get_..` of the host.
        default: The structure that `OpforgeDefaultTiling` names.
    """
    listed = [(Code(name), fields) for name, fields in structures.items()]
    values = {"guard": Code(guard), "has_setters": has_setters, "default": Code(default)}
    return printed("imported_tiling_data.h.j2", structures=listed, **values)


@dataclass(frozen=True)
class PlainStructure:
    """A structure that a header of a kernel defines: its name with namespaces, and its fields in C++."""

    name: str
    fields: tuple[str, ...]


def plain_structure(text: str, place: str, name: str) -> PlainStructure | None:
    """Return the structure of this name that a source defines outside of classes; None if there is none."""
    if not re.search(rf"\b(?:struct|class)\s+(?:\w+\([^()]*\)\s*)?{name}\b", text):
        return None
    source = Source(without_disabled(text), place)
    for node in nodes(source.root, "struct_specifier", "class_specifier"):
        body = node.child_by_field_name("body")
        if body is None or source.of(node.child_by_field_name("name")) != name:
            continue
        spaces, above = [name], node.parent
        while above is not None:
            if above.type in {"struct_specifier", "class_specifier", "template_declaration"}:
                break
            if above.type == "namespace_definition":
                spaces.insert(0, source.of(above.child_by_field_name("name")))
            above = above.parent
        else:
            fields = (child for child in body.named_children if child.type == "field_declaration")
            return PlainStructure(
                "::".join(filter(None, spaces)), tuple(" ".join(source.of(field).split()) for field in fields)
            )
    return None
