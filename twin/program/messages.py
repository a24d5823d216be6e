"""Read undeclared names and wrong values of launches from messages of the compiler."""

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
# Errors of kernels and of the values between `<<<` and `>>>`. The patterns take linear time for a long line.
_TYPES = r"'(?P<got>[^'\n]+)'[^\n]*? to '(?P<expected>[^'\n]+)'"
_NOTE = r"[^\n]*\n(?:(?![^\n]* error: )[^\n]*\n)*?[^\n]*note: +"
_OF = r"initializing argument (?P<number>\d+) of '[^'\n(]*?program::Grid::Grid\("
_UNKNOWN = r"no known conversion for argument (?P<number>\d+) from"
_ERRORS = tuple(
    re.compile(rf"(?m:^)(?P<place>[^\n]+:\d+):\d+: error: {pattern}")
    for pattern in (
        r"static assertion failed: (?P<problem>kernel [^\n]*)",
        rf"(?:invalid conversion from|cannot convert) {_TYPES}{_NOTE}{_OF}",
        rf"no matching function for call to '[^\n(]*program::Grid::Grid\({_NOTE}{_UNKNOWN} {_TYPES}",
    )
)
_WRONG_VALUE = "launch: value {number} between <<< and >>>: got the type {got}, expected {expected}; correct the value"
_MOST_NAMES = 100
_QUALIFIERS = re.compile(r"^(?:.*::)?([^:<]+)(?:<.*)?$", re.DOTALL)


def missing_names(text: str) -> list[str]:
    """Return at most 100 undeclared names, missing members and headers in messages of g++, in order, each one once."""
    found = sorted((match.start(), match[1].strip()) for pattern in _MISSING for match in pattern.finditer(text))
    return list(dict.fromkeys(_plain(name) for _, name in found))[:_MOST_NAMES]


def wrong_launches(text: str) -> list[str]:
    """Return a message for each wrong kernel, and value between `<<<` and `>>>`, if g++ reports no other errors."""
    fields = [match.groupdict() for pattern in _ERRORS for match in pattern.finditer(text)]
    found = [f"{each['place']}: {each.get('problem') or _WRONG_VALUE.format(**each)}" for each in fields]
    return found if len(found) == text.count(" error: ") else []


def _plain(name: str) -> str:
    """Return a name without namespaces, template arguments and the parameter list; a header stays unchanged."""
    if name.endswith((".h", ".hpp")) or "/" in name:
        return name
    match = _QUALIFIERS.match(name.split("(", maxsplit=1)[0])
    return match[1].strip() if match else name
