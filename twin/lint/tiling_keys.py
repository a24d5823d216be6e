"""Check that each branch after TILING_KEY_IS tests a key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from .cpp_tokens import Token
from .includes import Report


def _closings(tokens: Sequence[Token]) -> dict[int, int]:
    """Return, by index of each opening bracket, the index of its closing one; without one, the last index."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = {closing: [] for closing in pairs.values()}
    for index, token in enumerate(tokens):
        if token.text in pairs:
            found[index] = len(tokens) - 1
            opened[pairs[token.text]].append(index)
        elif opened.get(token.text):
            found[opened[token.text].pop()] = index
    return found


def check_key_chains(tokens: Sequence[Token], report: Report) -> None:
    """Report branches that are compiled for every key."""
    keys = [index for index, token in enumerate(tokens) if token.text == "TILING_KEY_IS"]
    closings = _closings(tokens) if keys else {}

    def has_key(start: int, end: int) -> bool:
        at = bisect_left(keys, start)
        return at < len(keys) and keys[at] < end

    semicolons = [index for index, token in enumerate(tokens) if token.text == ";"]
    for index, token in enumerate(tokens if keys else ()):
        if token.text != "if" or index + 1 >= len(tokens) or tokens[index + 1].text != "(":
            continue
        condition = closings[index + 1]
        if not has_key(index, condition):
            continue
        end = condition + 1
        if end < len(tokens) and tokens[end].text == "{":
            end = closings[end]
        else:
            at = bisect_left(semicolons, end)
            end = semicolons[at] if at < len(semicolons) else len(tokens)
        following = [after.text for after in tokens[end + 1 : end + 4]]
        is_chain = following == ["else", "if", "("] and has_key(end + 3, closings[end + 3])
        if following[:1] == ["else"] and not is_chain:
            message = "a branch without TILING_KEY_IS is compiled for every key; write `else if (TILING_KEY_IS(..))`"
            report(tokens[end + 1].line, "tiling-key", message)
