"""Read tiling templates: the template parameters of an entry function, and the tiling key of each combination."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opforge.codegen.data.dtypes import CANN_DTYPES
from opforge.codegen.importers.cpp_text import arguments_of
from opforge.codegen.spec.field_types import TASK_TYPES

from .constants import MODES, MOST_CHARS, Names, UnknownTemplateError

MOST_KEYS = 512
_MOST_MACROS = 1000
_CALL = re.compile(r"\bASCENDC_TPL_(\w+)\s*\(")
_KINDS = ("DTYPE", "DATATYPE", "FORMAT", "UINT", "BOOL", "KERNEL_TYPE")
_BITS = {"BOOL": 1, "DTYPE": 8, "DATATYPE": 8, "FORMAT": 8, "KERNEL_TYPE": 8}
_TYPES = {dtype.number: dtype.kernel for dtype in CANN_DTYPES if dtype.kernel}


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
        arguments, end = arguments_of(code, call.end(), MOST_CHARS)
        yield arguments
        if end == len(code):
            return


def _calls(names: Names, text: str) -> list[tuple[str, list[str]]]:
    """Return the macros ASCENDC_TPL_* of a list of arguments, with their arguments."""
    text = names.expanded(text)
    found, position = [], 0
    while (call := _CALL.search(text, position)) is not None:
        arguments, position = arguments_of(text, call.end(), MOST_CHARS)
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
    if mode == MODES["ASCENDC_TPL_UI_LIST"]:
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
