"""Check the declarations of a kernel source: functions, variables and arrays, by scope."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Sequence

from opforge.codegen.data.dtypes import DTYPES

from .cpp_tokens import Token
from .includes import Report

MOST_ARRAY_BYTES = 4096  # of the 32 KiB stack
MOST_WORDS = 100  # maximum length of an evaluated expression
_TYPE_BYTES = {
    **{dtype.kernel: dtype.bytes for dtype in DTYPES.values()},
    "char": 1, "short": 2, "int": 4, "unsigned": 4, "long": 8, "size_t": 8,
}  # fmt: skip
# First words of a statement that declares no variable.
_NO_VARIABLE = {
    "class", "enum", "extern", "friend", "namespace", "static_assert", "struct", "template", "typedef", "union",
    "using",
}  # fmt: skip
# Words before parentheses that are not functions.
_NO_FUNCTION = {
    "__attribute__", "__mix__", "alignas", "decltype", "for", "if", "noexcept", "sizeof", "static_assert", "switch",
    "while",
}  # fmt: skip
# Qualifiers of data that is in a memory of the device, not on the stack.
_MEMORIES = {
    "__BLOCK_LOCAL__",
    "__biasbuf__",
    "__ca__",
    "__cb__",
    "__cbuf__",
    "__cc__",
    "__fbuf__",
    "__gm__",
    "__ubuf__",
}
_QUALIFIERS = {"const", "constexpr", "static"}


class Structure:
    """Tracks the scopes of a source and checks its declarations."""

    def __init__(self, tokens: Sequence[Token], markers: Collection[str], report: Report) -> None:
        self._tokens = tokens
        self._markers = markers  # words before functions of the device
        self._report = report
        classes = {word.text for before, word in itertools.pairwise(tokens) if before.text in {"class", "struct"}}
        self._macros = {token.text for token in tokens if token.text.isupper()} - classes
        self._scopes: list[str] = ["namespace"]
        self._types: list[list[Token]] = []  # for each open class: its type for following variables
        self._statement: list[Token] = []
        self._constants: dict[str, int] = {}

    def check(self) -> None:
        """Report functions without __aicore__, static and global data, large arrays."""
        depth = 0
        for token in self._tokens:
            if token.text in {"(", "["} and token.kind == "punctuation":
                depth += 1
            elif token.text in {")", "]"} and token.kind == "punctuation":
                depth = max(depth - 1, 0)
            if depth == 0 and token.kind == "punctuation" and token.text in {"{", "}", ";", ":"}:
                self._border(token)
            else:
                self._statement.append(token)

    def _border(self, token: Token) -> None:
        if token.text == "{":
            scope = self._opened()
            self._scopes.append(scope)
            if scope in {"class", "enum"}:
                self._types.append([word for word in self._statement if word.text in _QUALIFIERS])
            if scope != "initializer":
                self._statement = []
        elif token.text == "}":
            closed = self._scopes.pop() if len(self._scopes) > 1 else "namespace"
            if closed in {"class", "enum"}:
                self._statement = [*self._types.pop(), token]
            elif closed != "initializer":
                self._statement = []
        elif token.text == ";":
            self._declared()
            self._statement = []
        elif len(self._statement) == 1 and self._statement[0].text in {"public", "private", "protected"}:
            self._statement = []
        else:
            self._statement.append(token)

    def _words(self) -> list[str]:
        return [token.text for token in self._statement]

    def _opened(self) -> str:
        """Return the kind of scope that a brace after the statement opens."""
        if self._scopes[-1] == "function" and self._is_class():
            return "class"
        if self._scopes[-1] in {"function", "initializer"}:
            return "function" if self._scopes[-1] == "function" and not self._is_initializer() else "initializer"
        words = _without_template(self._words())
        if "namespace" in words or (words[:1] == ["extern"] and len(words) == 2):
            return "namespace"
        call = _parameters(words)
        if call is None:
            kinds = {"class", "struct", "union", "enum"} & set(words)
            return "initializer" if not kinds or "=" in words else "enum" if "enum" in kinds else "class"
        if "=" in words[:call] and "operator" not in words[:call]:
            return "initializer"
        if ":" in words[call:] and re.fullmatch(r"\w+|>", words[-1]):
            return "initializer"  # of a member, before the body of a constructor
        if call > 1 or self._scopes[-1] == "class":  # otherwise a macro declares the function
            self._require_aicore(words[call - 1])
        return "function"

    def _is_class(self) -> bool:
        words = self._words()
        return bool({"class", "struct", "union"} & set(words)) and not {"(", "="} & set(words)

    def _is_initializer(self) -> bool:
        words = self._words()
        is_declared = len(words) > 1 and re.fullmatch(r"\w+|\]|>", words[-1]) is not None
        return words[-1:] in (["="], [","], ["return"]) or (is_declared and words[0] not in {"else", "do", "if"})

    def _require_aicore(self, name: str) -> None:
        words = self._words()
        is_macro = words[0] == name and (self._scopes[-1] == "namespace" or name in self._macros)
        if not is_macro and not any(word in self._markers for word in words):
            message = f"{name}() is a function of the host; write `__aicore__ inline` before it"
            self._report(self._statement[0].line, "aicore", message)

    def _declared(self) -> None:
        """Check the statement that a semicolon ends."""
        words = _without_template(self._words())
        if not words:
            return
        scope = self._scopes[-1]
        call = _parameters(words)
        is_function = call is not None and "=" not in words[:call]
        is_constant = _is_constant(words)
        if scope in {"namespace", "class"} and is_function and call is not None:
            if words[0] not in _NO_VARIABLE - {"extern"} and words[-2:] not in (["=", "default"], ["=", "delete"]):
                self._require_aicore(words[call - 1])
            return
        if words[0] in _NO_VARIABLE or words[-1] == "}" or scope in {"enum", "initializer"}:
            return
        self._remember_constant(words)
        if _MEMORIES & set(words) and "*" not in words:
            return
        is_static = "static" in words[:3]
        if not is_constant and (is_static or (scope == "namespace" and len(words) > 1)):
            kind = "static" if is_static else "global"
            message = f"the device has no {kind} variables; use a member, or constexpr"
            self._report(self._statement[0].line, "static", message)
        if "constexpr" not in words:
            self._check_array(words)

    def _remember_constant(self, words: Sequence[str]) -> None:
        if "constexpr" in words and "=" in words:
            equals = words.index("=")
            value = self._evaluate(words[equals + 1 :])
            if value is not None:
                self._constants[words[equals - 1]] = value

    def _check_array(self, words: list[str]) -> None:
        if "[" not in words or words[0] in {"return", "goto"}:
            return
        start = words.index("[")
        before = words[: start - 1]
        is_declaration = bool(before) and all(re.fullmatch(r"\w+|::|<|>|\*|,", word) for word in before)
        if not is_declaration or start < 2 or not words[start - 1].isidentifier():
            return
        elements = 1
        while words[start : start + 1] == ["["]:
            end = start + words[start:].index("]")
            count = self._evaluate(words[start + 1 : end])
            if count is None:
                return
            elements *= count
            start = end + 1
        size = next((_TYPE_BYTES[word] for word in before if word in _TYPE_BYTES), 4)
        if elements * size > MOST_ARRAY_BYTES:
            message = f"an array of {elements * size} bytes, expected at most 32768 for the complete stack; use a TBuf"
            self._report(self._statement[0].line, "stack", message)

    def _evaluate(self, words: Sequence[str]) -> int | None:
        """Return the value of an integer expression; None if it is not simple arithmetic on literals and constants."""
        if len(words) > MOST_WORDS:
            return None
        text = " ".join("//" if word == "/" else _plain_number(word) for word in words)
        try:
            value = _arithmetic(ast.parse(text, mode="eval").body, self._constants)
        except (SyntaxError, ValueError, ZeroDivisionError):
            return None
        return value if abs(value) < 1 << 63 else None


def _is_constant(words: Sequence[str]) -> bool:
    """Return whether a variable is constant; for a pointer, the pointer itself."""
    depth, outside = 0, []
    for word in itertools.takewhile(lambda word: word not in {"=", "["}, words):
        depth -= (word == ">") + 2 * (word == ">>")
        if depth == 0:
            outside.append(word)
        depth += word == "<"
    behind = outside[len(outside) - outside[::-1].index("*") :] if "*" in outside else outside
    return "constexpr" in words or "const" in behind


def _plain_number(word: str) -> str:
    return word.replace("'", "").rstrip("uUlL") if word[0].isdigit() else word


def _arithmetic(node: ast.expr, constants: dict[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.BinOp):
        left, right = _arithmetic(node.left, constants), _arithmetic(node.right, constants)
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)):
            operation = {
                ast.Add: int.__add__,
                ast.Sub: int.__sub__,
                ast.Mult: int.__mul__,
                ast.FloorDiv: int.__floordiv__,
            }
            return operation[type(node.op)](left, right)
        if isinstance(node.op, ast.LShift) and 0 <= right < 64:
            return left << right
    raise ValueError(ast.dump(node))


def _without_template(words: list[str]) -> list[str]:
    """Return the statement after its `template <...>` and attributes."""
    while words[:2] == ["template", "<"]:
        depth, brackets, end = 0, 0, 1
        for end in range(1, len(words)):
            if words[end] == "(":
                brackets += 1
            elif words[end] == ")":
                brackets -= 1
            elif brackets == 0:
                depth += (words[end] == "<") - (words[end] == ">") - 2 * (words[end] == ">>")
            if depth <= 0:
                break
        words = words[end + 1 :]
    return words


def _parameters(words: Sequence[str]) -> int | None:
    """Return the index of the parenthesis that opens the parameters of a function; None if the statement has none."""
    depth = 0
    for index, word in enumerate(words):
        if word == "(" and depth == 0 and index > 0:
            name = words[index - 1]
            is_operator = "operator" in words[max(0, index - 3) : index]
            is_pointer = words[index + 1 : index + 2] == ["*"]  # a pointer to an array: `int (*a)[4]`
            if is_operator or (name.isidentifier() and name not in _NO_FUNCTION and not is_pointer):
                return index
        depth += (word == "(") - (word == ")")
    return None
