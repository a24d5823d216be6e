"""Read the structures of tiling data: macros of host headers, and plain structures of kernel headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opforge.codegen.escape import Code
from opforge.codegen.importers.cpp_tree import Source, nodes
from opforge.codegen.render import printed

_NO_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_PART = re.compile(r"\b(BEGIN_TILING_DATA_DEF|END_TILING_DATA_DEF|TILING_DATA_FIELD_DEF\w*)\b(?:\s*\(([^()]*)\))?")
_MOST_STRUCTURES = 200
_REGISTERED = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")
_NUMBER = re.compile(
    r"\b(?:const(?:expr)?|define)\s+(?:static\s+|const\s+){0,3}(?:\w+\s+)?(\w+)\s*(?:=\s*)?\(?(\d+)U?L*\)?\s*[;\n]"
)


def code_of(text: str) -> str:
    """Return the text without comments."""
    return _NO_CODE.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)


def numbers_of(code: str) -> dict[str, str]:
    """Return the names of constants and macros that are numbers."""
    return dict(_NUMBER.findall(code))


def described_structures(texts: Iterable[str], *, has_setters: bool = False) -> tuple[dict[str, str], dict[str, str]]:
    """The structures that `BEGIN_TILING_DATA_DEF` describes, and the structure that is registered for each operator.

    Args:
        texts: The sources.
        has_setters: The structures also have the functions `set_..` and `get_..` of the host.

    Returns:
        The C++ fields by structure, after those that it contains, and structures by operator.
    """
    structures: dict[str, str] = {}
    registered: dict[str, str] = {}
    numbers: dict[str, str] = {}
    for text in texts:
        code = code_of(text)
        numbers |= numbers_of(code)
        for name, fields in _described(code, has_setters=has_setters).items():
            structures.setdefault(name, fields)
        registered |= dict(_REGISTERED.findall(code))
    # Lengths of arrays are often named constants of the host code.
    structures = {
        name: re.sub(r"\[(\w+)\]", lambda found: f"[{numbers.get(found[1], found[1])}]", fields)
        for name, fields in structures.items()
    }
    return _ordered(structures), registered


def _described(code: str, *, has_setters: bool) -> dict[str, str]:
    """Return the fields of the first structures of a source."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for macro, arguments in _PART.findall(code):
        words = [word.strip() for word in arguments.split(",")]
        kind = macro.removeprefix("TILING_DATA_FIELD_DEF")
        if macro == "BEGIN_TILING_DATA_DEF" and re.fullmatch(r"\w+", words[0]) and len(found) < _MOST_STRUCTURES:
            current = found.setdefault(words[0], [])
        elif macro == "END_TILING_DATA_DEF":
            current = []
        elif kind == "_ARR" and len(words) == 3:
            current.append(f"{words[0]} {words[2]}[{words[1]}]; ")
        elif kind in {"", "_STRUCT"} and len(words) == 2:
            current.append(f"{words[0]} {words[1]}; ")
        if has_setters and kind == "" and len(words) == 2:
            current.append(f"void set_{words[1]}({words[0]} value) {{ {words[1]} = value; }} ")
            current.append(f"{words[0]} get_{words[1]}() const {{ return {words[1]}; }} ")
    return {name: "".join(fields) for name, fields in found.items()}


def _ordered(structures: Mapping[str, str]) -> dict[str, str]:
    """Structures after those that they contain."""
    done: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in done or name in above:
            return
        for word in re.findall(r"\w+", structures[name]):
            if word in structures:
                add(word, (*above, name))
        done[name] = structures[name]

    for name in structures:
        add(name, ())
    return done


def header_of(structures: Mapping[str, str], guard: str) -> str:
    """Return a header with structures, whose fields have the names in the source."""
    listed = [
        (Code(name), [Code(field.strip()) for field in text.split(";")[:-1]]) for name, text in structures.items()
    ]
    return printed("imported_tiling_data.h.j2", structures=listed, guard=Code(guard))


@dataclass(frozen=True)
class PlainStructure:
    """A structure that a header of a kernel defines: its name with namespaces, and its fields in C++."""

    name: str
    fields: tuple[str, ...]


def plain_structure(text: str, place: str, name: str) -> PlainStructure | None:
    """Return the structure of this name that a source defines outside of classes; None if there is none."""
    if not re.search(rf"\b(?:struct|class)\s+(?:\w+\([^()]*\)\s*)?{name}\b", text):
        return None
    source = Source(text, place)
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
