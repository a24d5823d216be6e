"""Provide problems, completion, hover and definitions for the text of a spec in an editor."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from .project import MOST_SPEC_BYTES
from .spec.loader import read_text
from .spec.model import OpSpec
from .spec.yaml_nodes import Path, Place, Problem, dotted

_LINE = re.compile(r"( *)((?:- +)*)(?:([\w-]+) *:(?= |$))?")
_MOST_COLUMNS = 2000
_ITEM = re.compile(r" *(?:- +)+\w*$")
_WORD = re.compile(r"\w+")
_VALUE = re.compile(r"(\w+): +[\"']?\w*$")
# The parts of flow style: texts, comments, keys, and brackets with commas. A bracket opens a value after a mark.
_FLOW = re.compile(r"\"(?:\\.|[^\"\\])*\"?|'[^']*'|(?:^|\s)#.*|([\w-]+) *:(?= |$)|[{}\[\],]")
_MARK = re.compile(r"(?:^|[:-])\s*$")


def problems_in(text: str) -> list[Problem]:
    """Return the problems of a spec with their positions."""
    if len(text) > MOST_SPEC_BYTES:
        message = f"got {len(text)} characters, expected at most {MOST_SPEC_BYTES}; make it smaller"
        return [Problem(Place(1, 1), (), message)]
    return read_text(text)[1].problems


def message_of(problem: Problem) -> str:
    """Return a problem with the path of its key."""
    return f"{dotted(problem.path)}: {problem.message}" if problem.path else problem.message


def completions(text: str, line: int, column: int) -> list[str]:
    """Return the words that the schema allows at a position, counted from 0: keys, or the values of a key."""
    if line < 0 or column < 0 or len(text) > MOST_SPEC_BYTES:
        return []
    lines = text.splitlines()
    column = min(column, len(lines[line]) if line < len(lines) else _MOST_COLUMNS)
    if column > _MOST_COLUMNS:
        return []
    before = lines[line][:column] if line < len(lines) else " " * column
    if before.lstrip().startswith("#"):
        return []
    if (flow := _flow_path([*lines[:line], before])) is not None:
        path, is_value = flow
        return _values(_schema_at(path)) if is_value else [*_schema_at(path).get("properties", {})]
    if (value := _VALUE.search(before)) is not None:
        return _values(_schema_at((*_path_at(lines, line, value.start(1)), value[1])))
    word = re.search(r"\w*$", before)
    start = word.start() if word else column
    node = _schema_at(_path_at(lines, line, start))
    return [*node.get("properties", {})] or (_values(node) if _ITEM.match(before) else [])


def _values(node: dict[str, Any]) -> list[str]:
    values = node.get("enum", [True, False] if node.get("type") == "boolean" else [])
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values]


def hover(text: str, line: int, column: int) -> str | None:
    """Return the description of the tensor at a position, or of all tensors at the operator type."""
    lines = text.splitlines()
    if not 0 <= line < len(lines) or len(text) > MOST_SPEC_BYTES:
        return None
    word = next((w[0] for w in _WORD.finditer(lines[line]) if w.start() <= column <= w.end()), "")
    spec, _ = read_text(text)
    if spec is None:
        return None
    names = [tensor.name for tensor in spec.tensors]
    shown = names if word in {"op_type", spec.op_type} else [word] if word in names else []
    return "\n\n".join(_tensor_text(spec, name) for name in shown) or None


def definitions(file: FilePath, text: str, line: int) -> list[FilePath]:
    """Return the existing kernel (from `op_type`) and plan (from `op_type` and `tiling`) of a spec."""
    lines = text.splitlines()
    if not 0 <= line < len(lines) or len(text) > MOST_SPEC_BYTES:
        return []
    section = next((match[0] for one in reversed(lines[: line + 1]) if (match := re.match(r"\w+", one))), "")
    spec, _ = read_text(text)
    if spec is None or section not in {"op_type", "tiling"}:
        return []
    root = file.resolve().parent.parent
    kernel = root / "op_kernel" / f"{spec.source_name}.h"
    plan = root / "op_host" / (spec.tiling.plan or f"{spec.source_name}_tiling.h")
    return [path for path in ([kernel, plan] if section == "op_type" else [plan]) if path.is_file()]


def _tensor_text(spec: OpSpec, name: str) -> str:
    tensor = spec.tensor(name)
    kind = "output" if tensor in spec.outputs else "optional input" if tensor.optional else "input"
    text = [f"**{name}**: {kind}, {', '.join(tensor.dtypes)}"]
    shapes = {case.name: map(str, case.shapes[name]) for case in spec.cases if name in case.shapes}
    return "\n".join([*text, *(f"- {case}: [{', '.join(dims)}]" for case, dims in shapes.items())])


def _path_at(lines: list[str], line: int, column: int) -> Path:
    """Return the path of the mapping at a position by indentation, because incomplete text is not valid YAML.

    Every item of a list has the index 0.
    """
    path: Path = ()
    limit = column
    for text in reversed(lines[: line + 1]):
        for start, part in reversed(_parts(text)):
            is_list_below = start == limit and path[:1] == (0,) and isinstance(part, str)
            if start < limit or is_list_below:
                path, limit = (part, *path), start
    return path


def _flow_path(lines: list[str]) -> tuple[Path, bool] | None:
    """Return the path in the brackets that are open at the end of a text, and whether it is that of a value.

    Returns None in block style.
    """
    opened: list[tuple[str, Path]] = []
    key, column, start = "", 0, (0, 0)
    for number, text in enumerate(lines):
        is_inside = _indentation(text) > _indentation(lines[start[0]]) or text.strip()[:1] in {"", "]", "}"}
        if number > start[0] and not is_inside:
            opened.clear()  # a bracket without an end
        key = key if opened else ""
        for token in _FLOW.finditer(text):
            if token[1]:
                key, column = token[1], token.start(1)
            elif token[0] in {"{", "["}:
                if not opened and not _MARK.search(text[: token.start()]):
                    continue
                if not opened:
                    start = number, column if key else token.start()
                path = (*(opened[-1][1] if opened else ()), *([key] if key else []))
                opened.append((token[0], path if token[0] == "{" else (*path, 0)))
                key = ""
            elif token[0] in {"}", "]", ","}:
                key = ""
                del opened[len(opened) - (token[0] != ",") :]
    if not opened:
        return None
    bracket, path = opened[-1]
    return (*_path_at(lines, *start), *path, *([key] if key else [])), bracket == "[" or key != ""


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def _parts(text: str) -> list[tuple[int, str | int]]:
    """Return the columns and parts of the dashes and the first key of a line."""
    match = _LINE.match(text)
    if match is None or text.lstrip().startswith("#"):
        return []
    parts: list[tuple[int, str | int]] = [(match.start(2) + i, 0) for i, char in enumerate(match[2]) if char == "-"]
    return [*parts, *([(match.start(3), match[3])] if match[3] else [])]


@cache
def _schema() -> dict[str, Any]:
    return OpSpec.model_json_schema()


def _schema_at(path: Path) -> dict[str, Any]:
    node = _resolved(_schema())
    for part in path:
        if isinstance(part, int):
            node = _resolved(node.get("items", {}))
        else:
            below = node.get("properties", {}).get(part, node.get("additionalProperties"))
            node = _resolved(below) if isinstance(below, dict) else {}
    return node


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node of the schema without references and without the alternative `null`."""
    if "anyOf" in node:
        node = next((one for one in node["anyOf"] if one.get("type") != "null"), {})
    if "$ref" in node:
        found: dict[str, Any] = _schema()["$defs"][node["$ref"].rpartition("/")[2]]
        return found
    return node
