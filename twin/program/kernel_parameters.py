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
_TYPES = {"bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "half"}


def name_of(parameter: str) -> str:
    """Return the name of a parameter, or an empty text."""
    match = _NAMED.fullmatch(_DEFAULT.sub("", parameter).strip())
    if match is None or match[2] in _QUALIFIERS | _TYPES or not set(re.findall(r"\w+", match[1])) - _QUALIFIERS:
        return ""
    return match[2]


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
