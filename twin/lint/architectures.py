"""Leave out the parts of a source that are for architectures without a twin."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Collection, Mapping, Sequence

from opforge.codegen.data.products import ARCHITECTURES

from .cpp_tokens import Token, tokens_of

# The macros of the device compiler (twin/include/opforge_twin/kernel/language.h).
_ARCHITECTURES: tuple[Mapping[str, int], ...] = tuple(
    {"__CCE_AICORE__": number // 10, "__NPU_ARCH__": number} for number in ARCHITECTURES
)
MACROS = frozenset(_ARCHITECTURES[0])
_CONDITION = re.compile(r"(?:#|%:)\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", re.DOTALL)
_MOST_WORDS = 60
_WORDS = {"&&": " and ", "||": " or ", "!": " not "} | {word: f" {word} " for word in ("and", "or", "not")}
_COMPARISONS = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


def compiled(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of the parts that the compiler may read for an architecture of the twin."""
    every = frozenset(range(len(_ARCHITECTURES)))
    active: Collection[int] = every
    outer: list[tuple[Collection[int], Collection[int]]] = []  # active before #if, and in its following parts
    found = []
    for token in tokens:
        condition = _CONDITION.match(token.text) if token.kind == "directive" else None
        if condition is None:
            if active:
                found.append(token)
            continue
        found.append(token)
        kind = condition[1]
        if kind.startswith("if"):
            outer.append((active, active))
        if not outer:
            continue
        before, left = outer.pop()
        if kind == "endif":
            active = before
            continue
        values = {index: _value(kind, condition[2], _ARCHITECTURES[index]) for index in left}
        active = {index for index in left if values[index] is not False}
        outer.append((before, {index for index in left if values[index] is not True}))
    return found


def _value(kind: str, text: str, architecture: Mapping[str, int]) -> bool | None:
    """Return the value of a condition; None if it also depends on something else."""
    words = [token.text for token in tokens_of(text.strip())]
    if kind == "else":
        return True
    if kind in {"ifdef", "ifndef"}:
        return (kind == "ifdef") if words[:1] and words[0] in architecture else None
    if len(words) > _MOST_WORDS:
        return None
    python = ""
    for index, word in enumerate(words):
        is_defined = "defined" in words[max(0, index - 2) : index]
        if word == "!" and words[index + 1 : index + 2] not in (["("], ["defined"]):
            return None  # C++ binds it more tightly than Python
        known = word in architecture or word in {"(", ")", "defined", *_WORDS, "==", "!=", "<", "<=", ">", ">="}
        if not known and not word.isdigit():
            return None
        value = "1" if is_defined else str(architecture.get(word, word))
        python += "" if word == "defined" else value if word in architecture else _WORDS.get(word, word)
    try:
        return bool(_evaluated(ast.parse(python.strip(), mode="eval").body))
    except (SyntaxError, ValueError):
        return None


def _evaluated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _evaluated(node.operand)
    if isinstance(node, ast.BoolOp):
        values = [_evaluated(value) for value in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        compare = _COMPARISONS[type(node.ops[0])]
        return bool(compare(_evaluated(node.left), _evaluated(node.comparators[0])))
    raise ValueError(ast.dump(node))
