"""Read the names of the parameters of a kernel, and write the checks of their types."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEFAULT = re.compile(r"(?<![=<>!])=(?!=).*", re.DOTALL)
_QUOTES = re.compile(r'["\\]')
_PROBLEM = (
    "got a reference or a type with a constructor, destructor or virtual function, expected a scalar, a pointer or a "
    "struct that a launch copies as bytes; pass the value, or a pointer to device memory"
)
# A parameter with a name behind its type.
_NAMED = re.compile(r"(.*[\s*&>.])((?!__)[^\W\d]\w*)\s*(?:\[[^\]]*\]\s*)*")
_QUALIFIERS = {"const", "volatile", "struct", "class", "enum", "union", "typename"}
_OBJECT = re.compile(r"(?:(?:const|volatile|struct|class)\s+)*([\w:]+)(?:\s+const)?\s+(\w+)")
_CLASS = re.compile(
    r"\b(?<!enum )(?:struct|class)\s+(?:(?:alignas|__attribute__)\s*\([^;{}]*\)\s*)*(\w+)\s*(?:final\s*)?"
    r"(?::[^;{()]*)?\{"
)
_NUMBERS = {"half", "bfloat16_t", "int4b_t"}
_TYPES = {"bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "half"}


def name_of(parameter: str) -> str:
    """Return the name of a parameter, or an empty text."""
    match = _NAMED.fullmatch(_DEFAULT.sub("", parameter).strip())
    if match is None or match[2] in _QUALIFIERS | _TYPES or not set(re.findall(r"\w+", match[1])) - _QUALIFIERS:
        return ""
    return match[2]


def defined_classes(source: str) -> set[str]:
    """Return the names of the classes that a source defines, except those of numbers."""
    return set(_CLASS.findall(source)) - _NUMBERS


def classes_of(parameters: Sequence[str], defined: set[str]) -> dict[str, str]:
    """Return the types of the parameters that are objects of a defined class, by parameter."""
    found = (_OBJECT.fullmatch(_DEFAULT.sub("", parameter).strip()) for parameter in parameters)
    return {match[2]: match[1] for match in found if match and match[1].rpartition("::")[2] in defined}


def parameter_checks(kernel: str, parameters: Sequence[str]) -> str:
    """Return C++ assertions that the parameters have types that a launch can copy; pointers need none."""
    checks = []
    for parameter in parameters:
        declared = _DEFAULT.sub("", parameter).strip()
        if declared in {"", "void", "..."} or ("*" in declared and "&" not in declared):
            continue
        text = f"kernel {kernel}: parameter {declared}: {_PROBLEM}"
        condition = f"::opforge::twin::program::kIsCopied<void({declared})>"
        checks.append(f' static_assert({condition}, "{_QUOTES.sub("", text)}");')
    return "".join(checks)
