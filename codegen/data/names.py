"""Check names in specs, and convert names to the spelling of each output."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text, shown
from opforge.codegen.project import BUILTIN_ROOT

from .dtypes import DTYPES

# codegen/data/identifiers.json describes each list.
_LISTS: dict[str, Any] = json.loads(Path(__file__).with_name("identifiers.json").read_text(encoding="utf-8"))


def _words(*names: str) -> frozenset[str]:
    return frozenset(word for name in names for word in _LISTS[name]["words"])


_KEYWORDS = _words("cpp_keywords", "python_keywords")
_RESERVED = _words("reserved")
_MACROS = _words("macros")
_PARAMETER_WORDS = _words("reserved", "language") | frozenset(DTYPES)
_ATTRIBUTE_WORDS = _PARAMETER_WORDS | _words("beside_attributes")
_KERNEL_WORDS = _words("cpp_keywords", "c_functions")
_ACLNN_WORDS = _words("aclnn")
_MOST_NAMES = 40
_SNAKE_EXAMPLE = "lower case words joined by '_', as in 'grad_y'"

# A type of a shared header, at the start of a line; a declaration without a definition ends with a semicolon.
_TYPE = re.compile(r"^(?:class|struct|enum class|using) ([A-Z]\w*)\b(?! *;)", re.MULTILINE)
_OP_TYPE = re.compile(r"[A-Z][A-Za-z0-9]*")
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_IR = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
_SYMBOL = re.compile(r"[A-Z][A-Za-z0-9]*")
_LOWER_CAMEL = re.compile(r"[a-z][A-Za-z0-9]*")


@lru_cache(maxsize=1)
def _op_words() -> frozenset[str]:
    """Return the types and macros that are visible where an operator is declared."""
    headers = (path for folder in ("op_host", "op_kernel") for path in (BUILTIN_ROOT / folder / "common").rglob("*.h"))
    types = (_TYPE.findall(path.read_text(encoding="utf-8")) for path in headers)
    return _words("types", "macros").union(*types)


def snake_case(name: str) -> str:
    """`ScaledAdd` -> `scaled_add`, by the rule of CANN's op_build."""
    out = []
    for i, char in enumerate(name):
        if char.isupper() and i:
            next_is_lower = i + 1 < len(name) and name[i + 1].islower()
            if not name[i - 1].isupper() or next_is_lower:
                out.append("_")
        out.append(char.lower())
    return "".join(out)


def lower_camel(name: str) -> str:
    """`grad_y` -> `gradY`, the spelling of C++ locals and members."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def upper_camel(name: str) -> str:
    """`grad_y` -> `GradY`, the spelling of C++ functions and of enumerators after their `k`."""
    camel = lower_camel(name)
    return camel[:1].upper() + camel[1:]


def suggest(got: str, known: Iterable[str]) -> str:
    """Return ` did you mean 'x'?` with the nearest known name, or the list of known names if none is similar."""
    names = sorted(set(known))
    if near := nearest(got, names):
        return f"did you mean {near!r}?"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"expected one of {', '.join(names[:_MOST_NAMES])}{more}" if names else "expected none"


def unknown_operator(place: str, got: object, known: Iterable[str], root: Path) -> UserError:
    """Return the error that the project in `root` has no operator `got`; `place` is the option or argument."""
    problem = "not an operator of opforge" if root == BUILTIN_ROOT else f"not in the project {path_text(root)}"
    fix = suggest(str(got), known)
    if root == BUILTIN_ROOT and fix.startswith("expected"):
        fix += "; for an operator of your project, run the command in its folder"
    return UserError(f"{place}: got {shown(got)}, {problem}; {fix}")


def nearest(got: str, known: Iterable[str]) -> str | None:
    """Return the known name that `got` is probably a misspelling of."""
    names = sorted(set(known))
    by_lower = {name.lower(): name for name in reversed(names)}
    found = difflib.get_close_matches(got.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def _refusal(got: str, form: re.Pattern[str], example: str, words: frozenset[str] = frozenset()) -> str | None:
    if not form.fullmatch(got):
        return f"got {shown(got)}, expected {example}"
    camel = lower_camel(got)
    if {got, camel} & _KEYWORDS:
        return f"got {got!r}, a keyword of C++ or Python; expected another name, as in {_other(got, form)!r}"
    if {got, camel} & words:
        return own_word_problem(got, _other(got, form))
    if len(got) > 64:
        return f"got a name of {len(got)} characters, expected at most 64"
    return None


def _other(got: str, form: re.Pattern[str]) -> str:
    snake, camel = f"{got}_value", f"{got}Value"
    return snake if form.fullmatch(snake) else camel


def own_word_problem(got: str, other: str) -> str:
    """Return the message that generated code already uses a name, with a free one."""
    return f"got {got!r}, which generated code uses; expected another name, as in {other!r}"


def op_type_problem(got: str) -> str | None:
    """Return why `got` cannot be an op type, or None."""
    if refusal := _refusal(got, _OP_TYPE, "a capital letter, then letters and digits, as in 'ScaledAdd'", _op_words()):
        return refusal
    if (kernel := snake_case(got)) in _KERNEL_WORDS:
        return f"got {got!r}, whose kernel would be called {kernel!r} as in C; expected another name, as in 'My{got}'"
    return None


def parameter_problem(got: str) -> str | None:
    """Return why `got` cannot name an input, output, case or tiling field, or None."""
    return _refusal(got, _SNAKE, _SNAKE_EXAMPLE, _PARAMETER_WORDS)


def attribute_problem(got: str) -> str | None:
    """Return why `got` cannot name an attribute, or None."""
    return _refusal(got, _SNAKE, _SNAKE_EXAMPLE, _ATTRIBUTE_WORDS)


def ir_name_problem(got: str) -> str | None:
    """Return why `got` cannot be a name in the graph IR, or None."""
    return _refusal(got, _IR, "an identifier, as in 'grad_y' or 'outputGrad'", _RESERVED)


def tensor_ir_problem(got: str) -> str | None:
    """Return why `got` cannot name a tensor in the graph IR, or None; generated code uses it with a suffix."""
    is_plain = _IR.fullmatch(got) and len(got) <= 64 and got not in _MACROS
    return None if is_plain else ir_name_problem(got) or own_word_problem(got, _other(got, _IR))


def camel_problem(got: str) -> str | None:
    """Return why `got` cannot name a parameter of a C function, or None."""
    return _refusal(got, _LOWER_CAMEL, "camelCase, as in 'gradY'", _ACLNN_WORDS)


def symbol_problem(got: str) -> str | None:
    """Return why `got` cannot be the symbol of a dimension, or None."""
    return _refusal(got, _SYMBOL, "a capital and letters or digits, as in 'T'", _MACROS)
