"""Write the structures that a kernel reads from the tiling data that macros define in host code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text

_NO_CODE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_MACRO = re.compile(
    r"^[ \t]*(?P<name>BEGIN_TILING_DATA_DEF|TILING_DATA_FIELD_DEF_ARR|TILING_DATA_FIELD_DEF_STRUCT|"
    r"TILING_DATA_FIELD_DEF|END_TILING_DATA_DEF|REGISTER_TILING_DATA_CLASS)\b[ \t]*(?:\((?P<arguments>[^()]*"
    r"(?:\([^()]*\)[^()]*)*)\))?",
    re.MULTILINE,
)
_CONSTANT = re.compile(
    r"^[ \t]*(?:(?:static|inline|constexpr|const)[ \t]+)+(?:unsigned[ \t]+)?\w+[ \t]+(\w+)[ \t]*=[ \t]*([^;{}\n]+);",
    re.MULTILINE,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_MOST_BYTES = 16 << 20
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\(?[\w \t+*/()<-]+\)?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class TilingStructs:
    """Structures of tiling data.

    Attributes:
        fields: The C++ fields of each structure, in the order of the definitions.
        registered: The structure of each operator type, or of an operator type and a tiling key (`Type_10`).
        constants: The values of the constants and macros that array sizes use.
    """

    fields: Mapping[str, tuple[str, ...]]
    registered: Mapping[str, str]
    constants: Mapping[str, str]


def host_sources(files: Iterable[Path]) -> list[Path]:
    """List host sources behind the headers that they include in quotes.

    Args:
        files: The first files, for example those of an op_host folder. Headers are found next to the file that includes
            them; others are ignored.
    """
    ordered: dict[Path, None] = {}
    seen: set[Path] = set()
    stack = [(path.resolve(), False) for path in sorted(files, reverse=True)]
    while stack:
        path, is_behind = stack.pop()
        if is_behind:
            ordered[path] = None
        elif path not in seen:
            seen.add(path)
            stack.append((path, True))
            headers = (path.parent / name for name in _INCLUDE.findall(_read(path)))
            stack += [(header.resolve(), False) for header in headers if header.is_file()]
    return list(ordered)


def _read(path: Path) -> str:
    data = read_regular(path, "host source", _MOST_BYTES, "split it into several files")
    return data.decode(errors="replace")


def read_tiling_structs(sources: Iterable[Path]) -> TilingStructs:
    """Read the definitions in host sources.

    Args:
        sources: Files of op_host folders. A structure must be in front of the structures that contain it.

    Raises:
        UserError: A file cannot be read.
    """
    fields: dict[str, tuple[str, ...]] = {}
    registered: dict[str, str] = {}
    constants: dict[str, str] = {}
    for path in sources:
        code = _NO_CODE.sub(lambda found: found[0] if found[0][0] == '"' else " ", _read(path))
        for found in (*_CONSTANT.finditer(code), *_DEFINE.finditer(code)):
            constants.setdefault(found[1], found[2].strip())
        for name, own in _structs(code, path):
            fields.setdefault(name, own)
        for found in _MACRO.finditer(code):
            if found["name"] == "REGISTER_TILING_DATA_CLASS":
                op_type, structure = _arguments(found)
                registered.setdefault(op_type, structure.rpartition("::")[2])
    return TilingStructs(fields, registered, constants)


def _arguments(found: re.Match[str]) -> list[str]:
    return [" ".join(word.split()) for word in (found["arguments"] or "").split(",")]


def _structs(code: str, path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The structures of a source with their fields."""
    name = ""
    own: list[str] = []
    for found in _MACRO.finditer(code):
        words = _arguments(found)
        match found["name"], len(words):
            case "BEGIN_TILING_DATA_DEF", 1:
                name, own = words[0], []
            case "TILING_DATA_FIELD_DEF", 2:
                own.append(f"{words[0]} {words[1]} = 0;")
            case "TILING_DATA_FIELD_DEF_ARR", 3:
                own.append(f"{words[0]} {words[2]}[{words[1]}] = {{}};")
            case "TILING_DATA_FIELD_DEF_STRUCT", 2:
                own.append(f"{words[0].rpartition('::')[2]} {words[1]};")
            case "END_TILING_DATA_DEF", _:
                if name:
                    yield name, tuple(own)
                name, own = "", []
            case "REGISTER_TILING_DATA_CLASS", 2:
                pass
            case macro, _:
                raise UserError(
                    f"{path_text(path)}: {macro}: got {len(words)} arguments, expected those of its definition in "
                    "register/tilingdata_base.h; correct the line"
                )


def tiling_header(structs: TilingStructs, op_type: str = "") -> str:
    """The header that a kernel is compiled with.

    Args:
        structs: The definitions.
        op_type: The operator whose structure GET_TILING_DATA reads.
    """
    needed = " ".join(field for own in structs.fields.values() for field in own)
    lines = ["#pragma once", "#include <cstdint>", '#include "kernel_tiling/kernel_tiling.h"']
    sizes = " ".join(re.findall(r"\[.*?\]", needed))
    for name in _in_order(structs.constants, set(re.findall(r"[A-Za-z_]\w*", sizes))):
        lines += [f"#ifndef {name}", f"static constexpr int64_t {name} = {structs.constants[name]};", "#endif"]
    for name, own in structs.fields.items():
        lines += [f"struct {name} {{", *(f"    {field}" for field in own), "};"]
    if structure := structs.registered.get(op_type):
        lines.append(f"using OpforgeDefaultTiling = {structure};")
    return "\n".join([*lines, ""])


def _in_order(constants: Mapping[str, str], names: set[str]) -> Iterator[str]:
    """The constants of `names` and those that they use, each behind those that it uses."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in done or name not in constants:
            return
        done.add(name)
        for used in re.findall(r"[A-Za-z_]\w*", constants[name]):
            yield from visit(used)
        yield name

    for name in sorted(names):
        yield from visit(name)
