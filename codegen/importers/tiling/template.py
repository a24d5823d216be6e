"""Read tiling templates: the template parameters of an entry function, and the tiling key of each combination."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opforge.codegen.data.dtypes import CANN_DTYPES, FORMATS
from opforge.codegen.importers.reg_op import arguments_of
from opforge.codegen.spec.field_types import TASK_TYPES

MOST_KEYS = 512
_MOST_MACROS = 1000
_MOST_DEPTH, _MOST_CHARS = 8, 400_000
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?![\w(])((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_CONSTANT = re.compile(r"\bconstexpr\s+(?:static\s+|inline\s+|const\s+)*[\w:]+\s+(\w+)\s*=\s*([^;]+);")
_ENUMERATION = re.compile(r"\benum\s+(?:class\s+|struct\s+)?\w*\s*(?::\s*\w+\s*)?\{([^{}]*)\}")
_CALL = re.compile(r"\bASCENDC_TPL_(\w+)\s*\(")
_KINDS = ("DTYPE", "DATATYPE", "FORMAT", "UINT", "BOOL", "KERNEL_TYPE")
_BITS = {"BOOL": 1, "DTYPE": 8, "DATATYPE": 8, "FORMAT": 8, "KERNEL_TYPE": 8}
_MODES = {"ASCENDC_TPL_UI_RANGE": 0, "ASCENDC_TPL_UI_LIST": 1, "ASCENDC_TPL_UI_MIX": 2}
_NUMBERS = {
    **{f"C_{dtype.ge}": dtype.number for dtype in CANN_DTYPES},
    **{f"C_FORMAT_{name}": number for name, number in FORMATS.items()},
    **{f"ASCENDC_TPL_{bits}_BW": bits for bits in (1, 2, 4, 8)},
    **_MODES,
    "true": 1,
    "false": 0,
}
_TYPES = {dtype.number: dtype.kernel for dtype in CANN_DTYPES if dtype.kernel}


class UnknownTemplateError(Exception):
    """A declaration that cannot be read."""


@dataclass(frozen=True)
class TemplateKey:
    """A tiling key and the template arguments of the entry function that it selects."""

    key: int
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class _Parameter:
    name: str
    kind: str
    bits: int
    values: tuple[int, ...]
    source: int | None  # the input or output whose dtype it is


class Names:
    """The macros, constants and enumerators of sources without comments, as numbers."""

    def __init__(self, code: str) -> None:
        self.macros = {name: body.replace("\\\n", " ").strip() for name, body in _MACRO.findall(code)}
        self._texts: dict[str, str] = dict(_CONSTANT.findall(code))
        for body in _ENUMERATION.findall(code):
            before = "-1"
            for one in filter(None, (part.strip() for part in body.split(","))):
                name, _, value = (part.strip() for part in one.partition("="))
                self._texts.setdefault(name, value or f"{before} + 1")
                before = name

    def expanded(self, text: str, depth: int = 0) -> str:
        """Return the text with the macros without parameters replaced."""
        if depth > _MOST_DEPTH or len(text) > _MOST_CHARS:
            raise UnknownTemplateError("its macros are too long")
        found = re.sub(r"\b[A-Za-z_]\w*\b", lambda word: self.macros.get(word[0], word[0]), text)
        return text if found == text else self.expanded(found, depth + 1)

    def number(self, text: str, depth: int = 0) -> int | None:
        """Return the value of a number, a name or a sum of them; None if it is another expression."""
        text = re.sub(r"\bstatic_cast\s*<[\w: ]+>", "", text).strip()
        while text.startswith("(") and text.endswith(")"):
            text = text[1:-1].strip()
        if re.fullmatch(r"(0[xX][0-9a-fA-F']+|\d[\d']*)[uUlL]*", text):
            return int(text.replace("'", "").rstrip("uUlL"), 16 if text[:2].lower() == "0x" else 10)
        if depth > _MOST_DEPTH:
            return None
        if "+" in text[1:]:
            parts = [self.number(part, depth + 1) for part in text.split("+")]
            known = [part for part in parts if part is not None]
            return sum(known) if len(known) == len(parts) else None
        if text == "-1":
            return -1
        last = text.rpartition("::")[2]
        if last in _NUMBERS:
            return _NUMBERS[last]
        follow = self.macros.get(last, self._texts.get(last))
        return None if follow is None else self.number(follow, depth + 1)


def template_keys(code: str, op_type: str, dtypes: Sequence[str]) -> tuple[list[TemplateKey], list[str]]:
    """Return the tiling keys of a template, and the task types of its combinations.

    Args:
        code: The sources without comments.
        op_type: The operator, if the sources have several templates.
        dtypes: The macro with the dtype of each input, for parameters that have the dtype of an input.

    Raises:
        UnknownTemplateError: There is no template, or it cannot be read.
    """
    names = Names(code)
    parameters = _parameters(names, _declared(code, op_type))
    if sum(parameter.bits for parameter in parameters) > 63:
        raise UnknownTemplateError("its keys have more than 63 bits")
    keys: dict[int, TemplateKey] = {}
    tasks: list[str] = []
    for selected in _combinations(names, code):
        given = _selected(names, selected, tasks)
        columns = [given.get(parameter.name, parameter.values) for parameter in parameters]
        if math.prod(map(len, columns)) + len(keys) > MOST_KEYS:
            raise UnknownTemplateError(f"it has more than {MOST_KEYS} keys")
        for row in itertools.product(*columns):
            key = _encoded(parameters, row)
            arguments = (_argument(p, value, dtypes) for p, value in zip(parameters, row, strict=True))
            keys.setdefault(key, TemplateKey(key, tuple(arguments)))
    if not keys:
        raise UnknownTemplateError("its sources have no ASCENDC_TPL_SEL")
    return sorted(keys.values(), key=lambda one: one.key), list(dict.fromkeys(tasks))


def _declared(code: str, op_type: str) -> list[str]:
    """Return the declarations of the parameters: those of the operator, or else the first ones."""
    found = [words for words in _macros(code, "ARGS_DECL") if words]
    if not found:
        raise UnknownTemplateError("its sources have no ASCENDC_TPL_ARGS_DECL")
    wanted = op_type.lower()
    return next((words for words in found if words[0].replace("_", "").lower() == wanted), found[0])[1:]


def _combinations(names: Names, code: str) -> Iterator[list[str]]:
    """Yield the arguments of each ASCENDC_TPL_ARGS_SEL."""
    for arguments in _macros(code, "SEL"):
        for word, selected in _calls(names, ", ".join(arguments)):
            if word == "ARGS_SEL":
                yield selected


def _macros(code: str, name: str) -> Iterator[list[str]]:
    """Yield the arguments of each macro with this name, up to the first one without an end."""
    calls = (call for call in _CALL.finditer(code) if call[1] == name)
    for call in itertools.islice(calls, _MOST_MACROS):
        arguments, end = arguments_of(code, call.end(), _MOST_CHARS)
        yield arguments
        if end == len(code):
            return


def _calls(names: Names, text: str) -> list[tuple[str, list[str]]]:
    """Return the macros ASCENDC_TPL_* of a list of arguments, with their arguments."""
    text = names.expanded(text)
    found, position = [], 0
    while (call := _CALL.search(text, position)) is not None:
        arguments, position = arguments_of(text, call.end(), _MOST_CHARS)
        found.append((call[1], [argument for argument in arguments if argument]))
    return found


def _parameters(names: Names, declarations: Sequence[str]) -> list[_Parameter]:
    found = []
    for word, arguments in _calls(names, ", ".join(declarations)):
        kind = word.removesuffix("_DECL")
        if kind not in _KINDS or not arguments:
            raise UnknownTemplateError(f"ASCENDC_TPL_{word} is not read")
        values, bits, source = arguments[1:], _BITS.get(kind), None
        if kind == "UINT":
            bits, values = names.number(values[0]) if values else None, values[1:]
        tensors = [one for one in values if re.match(r"ASCENDC_TPL_(IN|OUT)PUT\b", one)]
        if tensors and (index := re.fullmatch(r"ASCENDC_TPL_INPUT\s*\(\s*(\d{1,3})\s*\)", tensors[0])):
            source = int(index[1])
        if bits is None:
            raise UnknownTemplateError(f"the parameter {arguments[0]} has no number of bits")
        plain = [one for one in values if one not in tensors]
        found.append(_Parameter(arguments[0], kind, bits, _values(names, kind, plain, arguments[0]), source))
    return found


def _values(names: Names, kind: str, given: Sequence[str], name: str) -> tuple[int, ...]:
    """Return the values of a parameter; numbers have a mode, ranges and single values."""
    numbers = [names.number(one) for one in given]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        unknown = given[numbers.index(None)]
        raise UnknownTemplateError(f"the parameter {name} has the value {unknown}, which is no number")
    if kind != "UINT" or not known:
        return tuple(known)
    mode, rest = known[0], known[1:]
    if mode == _MODES["ASCENDC_TPL_UI_LIST"]:
        return tuple(rest)
    count = rest[0] if rest else 0
    ends = rest[1 : 1 + 2 * count]
    ranges = [range(low, high + 1) for low, high in zip(ends[::2], ends[1::2], strict=False)]
    if sum(map(len, ranges)) > MOST_KEYS:
        raise UnknownTemplateError(f"the parameter {name} has more than {MOST_KEYS} values")
    return (*itertools.chain(*ranges), *rest[1 + 2 * count :])


def _selected(names: Names, arguments: Sequence[str], tasks: list[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the values of each parameter in a combination; adds its task type."""
    found = {}
    for word, inner in _calls(names, ", ".join(arguments)):
        kind = word.removesuffix("_SEL")
        if kind == "KERNEL_TYPE" and len(inner) == 1 and inner[0].startswith("ASCENDC_TPL_"):
            task = inner[0].removeprefix("ASCENDC_TPL_")
            tasks += [task] if task in TASK_TYPES else []
        elif kind in _KINDS and inner:
            found[inner[0]] = _values(names, kind, inner[1:], inner[0])
    return found


def _encoded(parameters: Sequence[_Parameter], row: Sequence[int]) -> int:
    key = bits = 0
    for parameter, value in zip(parameters, row, strict=True):
        code = value
        if parameter.kind == "UINT":
            if value not in parameter.values:
                raise UnknownTemplateError(f"the parameter {parameter.name} has no value {value}")
            code = parameter.values.index(value)
        if code >> parameter.bits:
            raise UnknownTemplateError(f"the value {value} of {parameter.name} needs more than {parameter.bits} bits")
        key |= code << bits
        bits += parameter.bits
    return key


def _argument(parameter: _Parameter, value: int, dtypes: Sequence[str]) -> str:
    if parameter.kind == "BOOL":
        return "true" if value else "false"
    if parameter.kind != "DATATYPE":
        return str(value)
    if parameter.source is not None and parameter.source < len(dtypes):
        return dtypes[parameter.source]
    if value not in _TYPES:
        raise UnknownTemplateError(f"the parameter {parameter.name} has a dtype that kernels do not have")
    return _TYPES[value]
