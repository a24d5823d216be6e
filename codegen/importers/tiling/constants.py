"""Read the named numbers of sources: macros, constants and enumerators."""

from __future__ import annotations

import re

from opforge.codegen.data.dtypes import CANN_DTYPES, FORMATS

_MOST_DEPTH, MOST_CHARS = 8, 400_000
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?![\w(])((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE)
_CONSTANT = re.compile(r"\bconst(?:expr)?\s+(?:static\s+|inline\s+|const\s+){0,3}[\w:]+\s+(\w+)\s*=\s*([^;]+);")
_ENUMERATION = re.compile(r"\benum\s+(?:class\s+|struct\s+)?\w*\s*(?::\s*\w+\s*)?\{([^{}]*)\}")
MODES = {"ASCENDC_TPL_UI_RANGE": 0, "ASCENDC_TPL_UI_LIST": 1, "ASCENDC_TPL_UI_MIX": 2}
_NUMBERS = {
    **{f"C_{dtype.ge}": dtype.number for dtype in CANN_DTYPES},
    **{f"C_FORMAT_{name}": number for name, number in FORMATS.items()},
    **{f"ASCENDC_TPL_{bits}_BW": bits for bits in (1, 2, 4, 8)},
    **MODES,
    "true": 1,
    "false": 0,
}


class UnknownTemplateError(Exception):
    """A declaration that cannot be read."""


class Names:
    """The macros, constants and enumerators of sources without comments, as numbers."""

    def __init__(self, code: str) -> None:
        self._known: dict[str, int | None] = {}  # a name may occur many times in each sum
        self.macros = {name: body.replace("\\\n", " ").strip() for name, body in _MACRO.findall(code)}
        self._texts: dict[str, str] = dict(_CONSTANT.findall(code))
        for body in _ENUMERATION.findall(code):
            before = "-1"
            for one in filter(None, (part.strip() for part in body.split(","))):
                name, _, value = (part.strip() for part in one.partition("="))
                self._texts.setdefault(name, value or f"{before} + 1")
                before = name

    def expanded(self, text: str, depth: int = 0) -> str:
        """Return the text with the macros without parameters replaced."""
        if depth > _MOST_DEPTH or len(text) > MOST_CHARS:
            raise UnknownTemplateError("its macros are too long")
        found = re.sub(r"\b[A-Za-z_]\w*\b", lambda word: self.macros.get(word[0], word[0]), text)
        return text if found == text else self.expanded(found, depth + 1)

    def number(self, text: str, depth: int = 0) -> int | None:
        """Return the value of a number, a name or a sum of them; None if it is another expression."""
        text = re.sub(r"\bstatic_cast\s*<[\w: ]+>", "", text).strip()
        while text.startswith("(") and text.endswith(")"):
            text = text[1:-1].strip()
        if re.fullmatch(r"(0[xX][0-9a-fA-F']+|\d[\d']*)[uUlL]*", text):
            return int(text.replace("'", "").rstrip("uUlL"), 16 if text[:2].lower() == "0x" else 10)
        if depth > _MOST_DEPTH:
            return None
        if "+" in text[1:]:
            parts = [self.number(part, depth + 1) for part in text.split("+")]
            known = [part for part in parts if part is not None]
            return sum(known) if len(known) == len(parts) else None
        if text == "-1":
            return -1
        last = text.rpartition("::")[2]
        if last in _NUMBERS:
            return _NUMBERS[last]
        if last not in self._known:
            follow = self.macros.get(last, self._texts.get(last))
            self._known[last] = None if follow is None else self.number(follow, depth + 1)
        return self._known[last]
