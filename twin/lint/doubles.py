"""Find arithmetic in double precision, which the device does not support; the compiler converts constants."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .cpp_tokens import Token
from .declared import NO_TYPE
from .includes import Report

_LITERAL = re.compile(r"(?![0][xX])[\d']*(?:\.[\d']*)?(?:[eE][+-]?\d+)?")
_OPERATORS = {"+", "-", "*", "/", "<", ">", "<=", ">=", "==", "!=", "?", ":", "+=", "-=", "*=", "/="}
_TYPE = re.compile(r"float|half|bool|\w+_t|[A-Z]\w*")


def check_doubles(tokens: Sequence[Token], report: Report) -> None:
    """Report variables of type double, and double constants in an expression that is evaluated at run time."""
    types = {"double"} | _aliases(tokens)
    constants = _constants(tokens, types)
    is_constant = False  # in a declaration with constexpr
    for index, token in enumerate(tokens):
        words = _around(tokens, index)
        if token.text == "constexpr" and words[2] != "if":
            is_constant = True
        elif token.text == ";" or (token.text == "{" and words[2] in {")", "const", "noexcept"}):
            is_constant = False
        elif token.text in types and not _is_type_name(words) and not _declares(tokens, index, constants):
            alias = "" if token.text == "double" else f"{token.text} is double: "
            report(token.line, "double", f"{alias}the device has no double precision; use float")
        elif not is_constant and (_is_double(token) or token.text in constants) and _is_computed(tokens, index):
            repair = f"write {token.text}f" if token.kind == "number" else "use a constant of type float"
            message = f"{token.text} is a double, and the device does not compute in double precision; {repair}"
            report(token.line, "double", message)


def _around(tokens: Sequence[Token], index: int) -> list[str]:
    """Return the texts of three tokens before and two after a token, which is at position 3."""
    return [tokens[at].text if 0 <= at < len(tokens) else "" for at in range(index - 3, index + 3)]


def _is_double(token: Token) -> bool:
    return (
        token.kind == "number"
        and _LITERAL.fullmatch(token.text) is not None
        and not token.text.replace("'", "").isdigit()
    )


def _aliases(tokens: Sequence[Token]) -> set[str]:
    """Return the names that are always double: `using NAME = double;`, and no other declaration of a type."""
    words = [token.text for token in tokens]
    aliases: set[str] = set()
    others: set[str] = set()
    for word, name, sign, *value in zip(words, words[1:], words[2:], words[3:], words[4:], strict=False):
        if word == "using" and sign == "=":
            (aliases if value == ["double", ";"] else others).add(name)
        elif word in {"typename", "class"}:
            others.add(name)
    return aliases - others


def _constants(tokens: Sequence[Token], types: set[str]) -> set[str]:
    """Return the names of constants of type double."""
    return {
        tokens[index + 1].text
        for index, token in enumerate(tokens[:-2])
        if token.text in types
        and {"constexpr", "const"} & set(_around(tokens, index)[1:3])
        and tokens[index + 1].kind == "name"
        and tokens[index + 2].text in {"=", "{"}
    }


def _declares(tokens: Sequence[Token], index: int, constants: set[str]) -> bool:
    return {"constexpr", "const"} & set(_around(tokens, index)[1:3]) != set() and _around(tokens, index)[4] in constants


def _is_type_name(words: Sequence[str]) -> bool:
    """Return whether a type is an argument of a template or macro, or gets another name."""
    is_argument = words[2] in {"<", ","} and words[4] in {">", ",", ">>"} and words[1] != "static_cast"
    is_only_argument = words[2] == "(" and words[4] == ")" and words[1].isidentifier() and words[1] not in NO_TYPE
    is_alias = words[2] == "using" or (words[0] == "using" and words[2] == "=")
    return is_argument or is_only_argument or is_alias


def _is_computed(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a constant is an operand of an operator whose other operand is no constant."""
    start = index
    if start and tokens[start - 1].text in {"+", "-"} and not _ends_operand(tokens, start - 2):
        start -= 1  # a sign
    words = _around(tokens, start)
    if words[1:3] == ["auto", "="] or (words[0] == "auto" and words[2] in {"=", "{", "("}):
        return True
    if words[2] == ")" and words[0] == "(" and _TYPE.fullmatch(words[1]):
        return False  # after a cast
    return any(
        operator in _OPERATORS and not (0 <= other < len(tokens) and _is_number(tokens, other))
        for operator, other in ((words[2], start - 2), (_around(tokens, index)[4], index + 2))
    )


def _is_number(tokens: Sequence[Token], index: int) -> bool:
    if tokens[index].text in {"+", "-"} and index + 1 < len(tokens):
        index += 1
    return tokens[index].kind == "number"


def _ends_operand(tokens: Sequence[Token], index: int) -> bool:
    """Return whether an operand ends at a token, so that a following sign is an operator."""
    if index < 0:
        return False
    token = tokens[index]
    if token.text == ")":
        is_cast = index >= 2 and tokens[index - 2].text == "(" and _TYPE.fullmatch(tokens[index - 1].text)
        return not is_cast
    return token.kind == "number" or token.text == "]" or (token.kind == "name" and token.text != "return")
