"""Find the variables of a C++ function whose values other code may change, by text; unclear cases count as changed."""

from __future__ import annotations

import itertools
import re

from .checks import CHECKS, LOGS

_ARGUMENT = re.compile(r"[(,]\s*(\w+)\s*(?=[,)])")
_CALLEE = re.compile(r"(->|\.)?\s*(\w*)\s*(?:<[^<>();]*>)?\s*\Z")
_ADDRESS = re.compile(r"(?<!&)&\s*(\w+)(?:\s*=\s*(\w+))?")
_METHOD = re.compile(r"\b(\w+)\s*\.\s*(\w+)\s*\(")
_LAMBDA = re.compile(r"\[[^\[\]{}();]*\]\s*(?:\([^(){}]*\))?[^(){};\[\]]{0,80}\{")
# Methods that change only their object, methods that change nothing, conversions and statements.
_SAFE_METHODS = re.compile(r"Get\w*|Set\w*|AppendDim|IsScalar|size|empty|c?str")
_SAFE = re.compile(
    rf"|if|while|for|switch|return|sizeof|static_cast|u?int(?:8|16|32|64)_t|size_t|{CHECKS.pattern}|{LOGS.pattern}"
)
_MOST_BACK, _MOST_LAMBDAS = 600, 50


def changed_names(code: str) -> set[str]:
    """Return the variables that a function, a reference, a method or a lambda may change.

    Args:
        code: The body of the function without comments and texts.
    """
    found = {found[1] for found in _ARGUMENT.finditer(code) if not _is_safe_call(code, found.start())}
    found |= {name for address in _ADDRESS.finditer(code) for name in address.groups() if name}
    found |= {call[1] for call in _METHOD.finditer(code) if not _SAFE_METHODS.fullmatch(call[2])}
    starts = list(itertools.islice(_LAMBDA.finditer(code), _MOST_LAMBDAS + 1))
    if len(starts) > _MOST_LAMBDAS:
        return set(re.findall(r"\w+", code))
    for start in starts:
        found.update(re.findall(r"\w+", _block(code, start.end())))
    return found


def _is_safe_call(code: str, end: int) -> bool:
    """Return whether the call whose arguments contain a position changes no argument."""
    depth, first = 0, max(0, end - _MOST_BACK)
    for position in range(end, first - 1, -1):
        letter = code[position]
        if letter == ")":
            depth += 1
        elif letter == "(" and depth:
            depth -= 1
        elif letter == "(":
            callee = _CALLEE.search(code, max(0, position - 120), position)
            return callee is not None and bool((_SAFE_METHODS if callee[1] else _SAFE).fullmatch(callee[2]))
        elif letter in ";{}" and not depth:
            return letter != "{"  # a list in braces, or a declaration with commas
    return False


def _block(code: str, start: int) -> str:
    """Return the text up to the brace that closes a block."""
    depth = 1
    for position in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if not depth:
            return code[start:position]
    return code[start:]
