"""Read the JSON files of msOpGen (IR definitions of one operator or several)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from opforge.codegen.data.dtypes import STORAGE_FORMATS
from opforge.codegen.data.names import ir_name_problem, suggest
from opforge.codegen.errors import UserError
from opforge.codegen.printing import shown

from .draft import (
    ATTR_TYPES,
    DYNAMIC,
    OPTIONAL,
    REQUIRED,
    AttrDraft,
    Note,
    OperatorDraft,
    TensorDraft,
    dtype_word,
    number_of,
)

_KEYS = {"op", "language", "input_desc", "output_desc", "attr"}
_TENSOR_KEYS = {"name", "param_type", "format", "type", "dynamic_shape"}
_ATTR_KEYS = {"name", "param_type", "type", "default_value", "value", "default"}
_OPTIONS = (REQUIRED, OPTIONAL, DYNAMIC)
_COMMON_DTYPES = ("fp16", "float16", "float32", "bf16", "int32", "int64", "int8", "uint8", "bool")
# Types of msOpGen -> types of drafts.
_ATTR_TYPES = {word: kind for name, kind in ATTR_TYPES.items() for word in (kind, name.lower())} | {"str": "string"}
# Other formats of msOpGen than those of the data table.
_OTHER_FORMATS = ("NDC1HWC0", "CHWN", "DHWCN", "NC1HWC0_C04", "FRACTAL_Z_3D", "NC", "NCW")
_FORMATS = (*(known.name for known in STORAGE_FORMATS), *_OTHER_FORMATS)
_WORDS = {"true": True, "false": False}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_EXAMPLE = 'an operator, as in {"op": "AddCustom", ...}'
_MOST_OPERATORS, _MOST_PARAMETERS, _MOST_COLUMNS, _MOST_PROBLEMS = 512, 64, 512, 20


def drafts(data: Any, text: str, place: str) -> list[OperatorDraft]:
    """Return the operators of a JSON file.

    Args:
        data: The parsed file.
        text: The text of the file, for line numbers.
        place: Its path in messages.

    Raises:
        UserError: The file has errors; the message lists all of them.
    """
    entries = data if isinstance(data, list) else [data]
    if entries and not any(isinstance(entry, dict) and "op" in entry for entry in entries):
        raise UserError(f"got no object with the key 'op', expected {_EXAMPLE}; name an msOpGen file", place)
    reader = _Reader(text, place)
    found = [
        reader.operator(entry, f"[{index}]." if isinstance(data, list) else "")
        for index, entry in enumerate(entries[:_MOST_OPERATORS])
    ]
    if not entries or len(entries) > _MOST_OPERATORS:
        reader.refuse("", f"got {len(entries)} operators, expected 1 to {_MOST_OPERATORS}")
    names = [draft.op_type for draft in found]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.refuse("", f"got the operator {shown(name)} again, expected each once; remove one of them", name)
    if reader.problems:
        more = len(reader.problems) - _MOST_PROBLEMS
        end = [f"{place}: and {more} more problems"] if more > 0 else []
        raise UserError("\n".join([*reader.problems[:_MOST_PROBLEMS], *end]))
    return found


class _Reader:
    """Reads operators, and collects all problems."""

    def __init__(self, text: str, place: str) -> None:
        self.problems: list[str] = []
        self._place = place
        self._lines = text.splitlines()
        self._start = 0
        self._notes: list[Note] = []

    def refuse(self, where: str, problem: str, near: object = "") -> None:
        line = self._line(near)
        place = f"{self._place}:{line}" if line else self._place
        where = where.removesuffix(".")
        text = f"{place}: {where + ': ' if where else ''}{problem}"
        if text not in self.problems:
            self.problems.append(text)

    def _line(self, near: object) -> int:
        """Return the first line with a JSON text, from the current operator on."""
        word = f'"{near}"' if isinstance(near, str) and near else ""
        lines = range(self._start, len(self._lines))
        return next((index + 1 for index in lines if word and word in self._lines[index]), 0)

    def operator(self, entry: Any, where: str) -> OperatorDraft:
        if not isinstance(entry, dict):
            self.refuse(where, f"got {shown(entry)}, expected {_EXAMPLE}")
            return OperatorDraft("", self._place, "msOpGen JSON")
        self._notes = []
        name = entry.get("op")
        self._start = max(self._line(name) - 1, self._start)
        if not isinstance(name, str) or not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
            self.refuse(f"{where}op", f"got {shown(name)}, expected a type in CamelCase, as in 'AddCustom'", name)
            name = ""
        self._check_keys(entry, _KEYS, where)
        inputs = self._tensors(entry, "input_desc", where)
        outputs = self._tensors(entry, "output_desc", where)
        attrs = tuple(self._attr(item, f"{where}attr[{i}]") for i, item in enumerate(self._list(entry, "attr", where)))
        for key, tensors in (("input_desc", inputs), ("output_desc", outputs)):
            if not tensors:
                self.refuse(f"{where}{key}", "got none, expected at least one tensor; add it", key)
        self._check_names([*inputs, *outputs, *attrs], where)
        lengths = {len(tensor.dtypes) for tensor in inputs + outputs if len(tensor.dtypes) > 1}
        if len(lengths) > 1:
            got = ", ".join(f"{tensor.name} {len(tensor.dtypes)}" for tensor in inputs + outputs)
            self.refuse(
                f"{where}type",
                f"got lists of different lengths ({got}), expected one dtype for each combination in every list",
                "type",
            )
        width = max(lengths, default=1)
        place = f"{self._place}:{self._line(name) or 1}"
        inputs, outputs = (tuple(_widen(tensor, width) for tensor in tensors) for tensors in (inputs, outputs))
        return OperatorDraft(name, place, "msOpGen JSON", inputs, outputs, attrs, notes=tuple(self._notes))

    def _check_keys(self, entry: Mapping[str, Any], known: set[str], where: str) -> None:
        for key in entry:
            if key not in known:
                self.refuse(where, f"unknown key {shown(key)}; {suggest(str(key), known)}", key)

    def _check_names(self, parameters: Sequence[TensorDraft | AttrDraft], where: str) -> None:
        seen: set[str] = set()
        for parameter in parameters:
            if parameter.name in seen:
                self.refuse(
                    f"{where}name",
                    f"got {shown(parameter.name)} again, expected each name once; rename one of them",
                    parameter.name,
                )
            seen.add(parameter.name)

    def _list(self, entry: Mapping[str, Any], key: str, where: str) -> list[Any]:
        value = entry.get(key, [])
        if not isinstance(value, list) or len(value) > _MOST_PARAMETERS:
            self.refuse(
                f"{where}{key}", f"got {shown(value)}, expected a list of at most {_MOST_PARAMETERS} objects", key
            )
            return []
        return value

    def _tensors(self, entry: Mapping[str, Any], key: str, where: str) -> tuple[TensorDraft, ...]:
        found = [self._tensor(item, f"{where}{key}[{i}]") for i, item in enumerate(self._list(entry, key, where))]
        return tuple(found)

    def _name(self, item: Any, known: set[str], where: str) -> str:
        if not isinstance(item, dict):
            self.refuse(where, f"got {shown(item)}, expected an object with the key 'name'")
            return ""
        self._check_keys(item, known, where)
        name = item.get("name")
        if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name) or len(name) > 64:
            self.refuse(f"{where}.name", f"got {shown(name)}, expected an identifier, as in 'x'", name)
            return ""
        if refusal := ir_name_problem(name):
            self.refuse(f"{where}.name", refusal, name)
        return name

    def _option(self, item: Mapping[str, Any], where: str) -> str:
        value = item.get("param_type", REQUIRED)
        if value not in _OPTIONS:
            self.refuse(f"{where}.param_type", f"got {shown(value)}; {suggest(str(value), _OPTIONS)}", value)
            return REQUIRED
        return str(value)

    def _tensor(self, item: Any, where: str) -> TensorDraft:
        name = self._name(item, _TENSOR_KEYS, where)
        if not isinstance(item, dict):
            return TensorDraft(name)
        dtypes = []
        words = self._words(item, "type", where)
        if not words:
            self.refuse(f"{where}.type", 'got no dtype, expected at least one, as in ["float16"]', name)
        for word in words:
            if (dtype := dtype_word(word)) is None:
                hint = suggest(word, _COMMON_DTYPES)
                self.refuse(f"{where}.type", f"unknown dtype {shown(word)}; {hint}", word)
            else:
                dtypes.append(dtype)
        formats = self._words(item, "format", where)
        for word in formats:
            if word not in _FORMATS:
                self.refuse(f"{where}.format", f"unknown format {shown(word)}; {suggest(word, _FORMATS)}", word)
        if len(formats) > 1 and len(formats) != len(words):
            self.refuse(
                f"{where}.format",
                f"got {len(formats)} formats for {len(words)} dtypes, expected one for each dtype",
                name,
            )
        return TensorDraft(name, self._option(item, where), tuple(dtypes), tuple(formats), line=self._line(name))

    def _words(self, item: Mapping[str, Any], key: str, where: str) -> list[str]:
        value = item.get(key, [])
        words = value.split(",") if isinstance(value, str) else value
        if (
            not isinstance(words, list)
            or not all(isinstance(word, str) for word in words)
            or len(words) > _MOST_COLUMNS
        ):
            self.refuse(f"{where}.{key}", f"got {shown(value)}, expected a list of texts", key)
            return []
        return [word.strip() for word in words]

    def _attr(self, item: Any, where: str) -> AttrDraft:
        name = self._name(item, _ATTR_KEYS, where)
        if not isinstance(item, dict):
            return AttrDraft(name, "int")
        word = item.get("type")
        kind = _ATTR_TYPES.get(str(word).lower())
        if kind is None:
            self.refuse(
                f"{where}.type", f"unknown type {shown(word)} of an attribute; {suggest(str(word), _ATTR_TYPES)}", word
            )
            return AttrDraft(name, "int")
        default = next((item[key] for key in ("default_value", "default", "value") if key in item), None)
        if self._option(item, where) == OPTIONAL and default is None:
            self.refuse(
                f"{where}.default_value",
                f"got none for the optional attribute {shown(name)}, expected a value of the type {kind}; add it",
                name,
            )
        converted = self._default(default, kind, where, name)
        if item.get("param_type") == REQUIRED and default is not None:
            text = f"attribute {name}: the default {shown(default)} is not used, because the attribute is required"
            self._notes.append(Note(self._line(name), text))
            converted = None
        return AttrDraft(name, kind, converted, self._line(name))

    def _default(self, value: Any, kind: str, where: str, name: str) -> Any:
        if value is None:
            return None
        if kind.startswith("list_"):
            if isinstance(value, list):
                return tuple(self._default(item, kind.removeprefix("list_"), where, name) for item in value)
        elif (converted := _scalar(value, kind)) is not None:
            return converted
        self.refuse(f"{where}.default_value", f"got {shown(value)}, expected a value of the type {kind}", name)
        return None


def _scalar(value: Any, kind: str) -> bool | float | str | None:
    """Return a JSON value, or the text of one, as a value of a type; None if it is not one."""
    if isinstance(value, str) and kind != "string":
        try:
            value = _WORDS[value.lower()] if kind == "bool" else float(value) if kind == "float" else int(value)
        except (KeyError, ValueError):
            return None
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if kind == "string":
        return value if isinstance(value, str) else None
    is_number = isinstance(value, int) or (isinstance(value, float) and kind == "float")
    return number_of(value, kind) if is_number and not isinstance(value, bool) else None


def _widen(tensor: TensorDraft, width: int) -> TensorDraft:
    """Return the tensor with one dtype for each combination, if it has one for all."""
    if len(tensor.dtypes) != 1:
        return tensor
    return TensorDraft(tensor.name, tensor.option, tensor.dtypes * width, tensor.formats, line=tensor.line)
