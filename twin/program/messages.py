"""Read undeclared names and wrong arguments of launches from messages of the compiler."""

from __future__ import annotations

import re

_MISSING = (
    re.compile(r"error: '([^']+)' is not a member of '[^']*'"),
    re.compile(r"error: '([^']+)' was not declared"),
    re.compile(r"error: there are no arguments to '([^']+)'"),
    re.compile(r"error: '([^']+)' has not been declared"),
    re.compile(r"error: '([^']+)' does not name a (?:template )?type"),
    re.compile(r"error: '([^']+)' in (?:namespace|class|struct) '[^']*' does not name a (?:template )?type"),
    re.compile(r"error: no (?:class template|template|type) named '([^']+)'"),
    re.compile(r"error: '[^']+' has no member named '([^']+)'"),
    re.compile(r"error: '([^']+)' is not a (?:(?:class |function )?template|type|namespace-name)"),
    re.compile(r"error: expected namespace-name before '?([^'\n;]+)'?"),
    re.compile(r"error: static assertion failed: (\w+): the twin does not model"),
    re.compile(r"fatal error: ([^:\n]+): No such file or directory"),
    re.compile(r"undefined reference to `([^'(]+)"),
)
# An error in the call of a kernel that `rewrite` writes for a launch.
_WRONG_ARGUMENT = re.compile(
    r"In instantiation of '[^\n]*<lambda\(auto:\d+ \.\.\.\)>[^\n]*':\n"
    r"(?:(?=[^\n]*required )[^\n]*\n)*(?=[^\n]*program::Prepare<)[^\n]*\n(?:(?=[^\n]*required )[^\n]*\n)*"
    r"(?P<place>[^\n]+:\d+):\d+: error: (?:invalid conversion from|cannot convert) '(?P<got>[^'\n]+)'[^\n]*? to "
    r"'(?P<expected>[^'\n]+)'[^\n]*\n(?: [^\n]*\n)*"
    r"[^\n]*note: +initializing argument (?P<number>\d+) of '[^'\n(]*?(?P<kernel>\w+)(?:<[^'\n(]*>)?\("
)
_MOST_NAMES = 100
_QUALIFIERS = re.compile(r"^(?:.*::)?([^:<]+)(?:<.*)?$", re.DOTALL)


def missing_names(text: str) -> list[str]:
    """Return at most 100 undeclared names, missing members and headers in messages of g++, in order, each one once."""
    found = sorted((match.start(), match[1].strip()) for pattern in _MISSING for match in pattern.finditer(text))
    return list(dict.fromkeys(_plain(name) for _, name in found))[:_MOST_NAMES]


def wrong_arguments(text: str) -> list[str]:
    """Return a message for each launch with an argument of a wrong type, if g++ reports no other errors."""
    found = [
        f"{match['place']}: launch of {match['kernel']}: argument {match['number']}: got the type {match['got']}, "
        f"expected {match['expected']}; correct the argument"
        for match in _WRONG_ARGUMENT.finditer(text)
    ]
    return found if len(found) == text.count(" error: ") else []


def _plain(name: str) -> str:
    """Return a name without namespaces, template arguments and the parameter list; a header stays unchanged."""
    if name.endswith((".h", ".hpp")) or "/" in name:
        return name
    match = _QUALIFIERS.match(name.split("(", maxsplit=1)[0])
    return match[1].strip() if match else name
