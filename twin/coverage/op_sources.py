"""Read operator sources as text: chips and dtypes of a definition, and structures of tiling data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from opforge.codegen.data.dtypes import CANN_DTYPES, FORMATS
from opforge.codegen.importers.cpp_text import without_comments
from opforge.codegen.importers.tiling.structures import described_structures, header_of
from opforge.twin.cpp_text import printed

# C++ types by enumerator of ge::DataType; specs have no 4-bit type.
_TYPES = {dtype.ge: dtype.kernel for dtype in CANN_DTYPES if dtype.kernel}
# A kernel compares the numbers of the enumerators in preprocessor conditions.
_NUMBERS = {dtype.ge: dtype.number for dtype in CANN_DTYPES if dtype.ge in _TYPES}
_FORMATS = {f"FORMAT_{name}": number for name, number in FORMATS.items()}
# Formats of convolutions, which specs do not have.
_FORMATS |= {"FORMAT_NDC1HWC0": 32, "FORMAT_FRACTAL_Z_3D": 33}
_NUMBERS |= _FORMATS


@dataclass(frozen=True)
class Definition:
    """A definition of an operator.

    Attributes:
        op_type: Its type.
        chips: For each chip, the name of the kernel file; None: the name of the operator.
        dtypes: The first dtype of each input and output.
        has_lists: An input or output is a list of tensors.
    """

    op_type: str
    chips: dict[str, str | None]
    dtypes: dict[str, str]
    has_lists: bool


def read_definition(text: str) -> Definition | None:
    """Read a class of `OpDef`; None if there is none."""
    code = without_comments(text)
    added = re.search(r"\bOP_ADD\s*\(\s*(\w+)", code)
    if added is None:
        return None
    lists = {
        name: re.findall(r"DT_\w+", values)
        for name, values in re.findall(r"\b(\w++)\s*+(?:=\s*+)?\{((?:\s*+(?:ge::)?DT_\w++\s*+,?+)++)\}", code)
    }
    dtypes = {}
    own = re.finditer(r'\bthis\s*->\s*(?:Input|Output)\s*\(\s*"(\w+)"\s*\)((?:[^;"t]++|"[^"]*+"|t(?!his\b))*+);', code)
    for found in own:
        given = re.search(r"\.DataType(?:List)?\s*\(\s*(?:\{\s*(?:ge::)?(DT_\w+)|(\w+))", found[2])
        names = [given[1]] if given and given[1] else lists.get(given[2] if given else "", [])
        dtypes[found[1]] = names[0] if names and names[0] in _TYPES else "DT_FLOAT16"
    files = {}
    for statement in code.split(";"):
        config = re.search(r"\b(\w++)\s*+\.", statement)
        file = re.search(r'\.\s*ExtendCfgInfo\(\s*"opFile\.value"\s*,\s*"(\w+)"', statement)
        if config and file:
            files[config[1]] = file[1]
    chips = {}
    for chip, name in re.findall(r'AddConfig\(\s*"(\w+)"\s*(?:,\s*(\w+))?', code):
        chips[chip] = files.get(name)
    return Definition(added[1], chips, dtypes, re.search(r"ParamType\(\s*(?:\w+::)*DYNAMIC", code) is not None)


def has_auto_sync(cmake: str, config: str, op_type: str, chip: str) -> bool:
    """Return whether the compiler inserts synchronization, the default of operator projects.

    Args:
        cmake: Text of the CMakeLists.txt of the kernel.
        config: Text of a JSON file with a row for each operator and its chips.
        op_type: Type of the operator.
        chip: Name of the chip in the definition.
    """
    if re.search(r"\bAUTO_SYNC\s+false\b|--cce-auto-sync=off", cmake, re.IGNORECASE):
        return False
    try:
        rows = json.loads(config or "[]")
        values = [row.get("auto_sync") for row in rows if row["name"] == op_type and chip in row["compute_units"]]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return True
    value = values[0] if values else True
    return (value.get(chip) if isinstance(value, dict) else value) is not False


def number_header(names: Iterable[str] = _NUMBERS) -> str:
    """Return the macros of the enumerators of dtypes and formats, which unit tests may define again."""
    return printed("macros.h.j2", macros=[(name, _NUMBERS[name]) for name in names])


def format_header() -> str:
    """Return the macros of the enumerators of formats."""
    return number_header(_FORMATS)


def dtype_header(definition: Definition | None) -> str:
    """Return the macros that the op compiler defines for the dtypes and formats of an operator."""
    macros: list[tuple[str, int | str]] = [*_NUMBERS.items()]
    for name, dtype in (definition.dtypes if definition else {}).items():
        upper = name.upper()
        macros += [(f"DTYPE_{upper}", _TYPES[dtype]), (f"ORIG_DTYPE_{upper}", dtype), (f"FORMAT_{upper}", "FORMAT_ND")]
    return printed("macros.h.j2", macros=macros)


def tiling_header(texts: Iterable[str], op_type: str) -> str:
    """Return the structures of `BEGIN_TILING_DATA_DEF` for kernels, and the one that the operator uses."""
    structures, registered = described_structures(texts)
    if not structures:
        return ""
    chosen = registered.get(op_type) or next(iter(reversed(structures)))
    # Unit tests set fields by the host functions.
    return header_of(
        structures, "OPFORGE_TILING_DATA_H", has_setters=True, default=chosen if chosen in structures else ""
    )
