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
# An error in the call of a kernel that `rewrite` writes for a launch. The patterns take linear time for a long line.
_IN_LAUNCH = (
    r"In instantiation of '(?=[^\n]*<lambda\(auto:\d+ \.\.\.\)>)[^\n]*':\n"
    r"(?:(?=[^\n]*required )[^\n]*\n)*(?=[^\n]*program::Prepare<)[^\n]*\n(?:(?=[^\n]*required )[^\n]*\n)*"
)
_ERROR = r"(?m:^)(?P<place>[^\n]+:\d+):\d+: error: "
_TYPES = r"'(?P<got>[^'\n]+)'[^\n]*? to '(?P<expected>[^'\n]+)'"
_NOTE = r"[^\n]*\n(?:(?![^\n]* error: )[^\n]*\n)*?[^\n]*note: +"
_OF = r"initializing argument (?P<number>\d+) of '[^'\n(]*?"
_WRONG = rf"(?:invalid conversion from|cannot convert) {_TYPES}{_NOTE}{_OF}"
_UNKNOWN = rf"{_NOTE}no known conversion for argument (?P<number>\d+) from {_TYPES}"
_NO_MATCH = r"no matching function for call to '"
_ARGUMENT = "argument {number}: got the type {got}, expected {expected}; correct the argument"
_VALUE = "launch: value {number} between <<< and >>>: got the type {got}, expected {expected}; correct the value"
_MATCH = "launch of {kernel}: got arguments of the types {got}, which match no kernel; correct the arguments"
# Errors of launches and their messages.
_LAUNCH_ERRORS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (rf"{_IN_LAUNCH}{_ERROR}{_WRONG}(?P<kernel>\w+)(?:<[^'\n(]*>)?\(", f"launch of {{kernel}}: {_ARGUMENT}"),
        (rf"{_IN_LAUNCH}{_ERROR}could not convert '\w+#(?P<index>\d+)' from {_TYPES}", f"launch: {_ARGUMENT}"),
        (rf"{_IN_LAUNCH}{_ERROR}{_NO_MATCH}(?P<kernel>[^(\n]+)\((?P<got>[^\n]*)\)'", _MATCH),
        (rf"{_ERROR}{_WRONG}program::Grid::Grid\(", _VALUE),
        (rf"{_ERROR}{_NO_MATCH}[^\n(]*program::Grid::Grid\({_UNKNOWN}", _VALUE),
        (rf"{_ERROR}static assertion failed: (?P<kernel>kernel [^\n]*)", "{kernel}"),
    )
)
_MOST_NAMES = 100
_QUALIFIERS = re.compile(r"^(?:.*::)?([^:<]+)(?:<.*)?$", re.DOTALL)


def missing_names(text: str) -> list[str]:
    """Return at most 100 undeclared names, missing members and headers in messages of g++, in order, each one once."""
    found = sorted((match.start(), match[1].strip()) for pattern in _MISSING for match in pattern.finditer(text))
    return list(dict.fromkeys(_plain(name) for _, name in found))[:_MOST_NAMES]


def wrong_arguments(text: str) -> list[str]:
    """Return a message for each launch with an argument of a wrong type, if g++ reports no other errors."""
    found = []
    for pattern, message in _LAUNCH_ERRORS:
        for match in pattern.finditer(text):
            fields = match.groupdict()
            if index := fields.get("index"):
                fields["number"] = str(int(index) + 1)
            found.append(f"{fields['place']}: {message.format(**fields)}")
    return found if len(found) == text.count(" error: ") else []


def _plain(name: str) -> str:
    """Return a name without namespaces, template arguments and the parameter list; a header stays unchanged."""
    if name.endswith((".h", ".hpp")) or "/" in name:
        return name
    match = _QUALIFIERS.match(name.split("(", maxsplit=1)[0])
    return match[1].strip() if match else name
