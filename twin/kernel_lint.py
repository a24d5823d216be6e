"""What a kernel must not contain although the host's compiler takes it."""

from __future__ import annotations

import ast
import hashlib
import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.printing import path_text
from opforge.codegen.project import BUILTIN_ROOT, Project

from .cann_api import api, known_names
from .cpp_tokens import Token, tokens_of
from .kernel_includes import Report, check_directive, check_pragma, included, reachable, read_source, sources_below

MOST_ARRAY_BYTES = 4096  # of 32 KiB of stack
MOST_WORDS = 100  # of an expression whose value is computed
_OWN_FILES = tuple(
    Path(__file__).with_name(name)
    for name in ("kernel_lint.py", "kernel_includes.py", "cpp_tokens.py", "cann_api.json")
)

_KEYWORDS = {
    "double": ("the device has no double precision", "use float"),
    "virtual": ("the device has no virtual functions", "use templates"),
    "new": ("the device has no heap", "take a TBuf, or a member"),
    "delete": ("the device has no heap", "take a TBuf, or a member"),
    "throw": ("the device has no exceptions", "check on the host"),
    "try": ("the device has no exceptions", "check on the host"),
    "catch": ("the device has no exceptions", "check on the host"),
    "typeid": ("the device has no type information", "use templates"),
    "dynamic_cast": ("the device has no type information", "use templates"),
    "thread_local": ("the device has no static data", "use members"),
    **dict.fromkeys(("asm", "__asm", "__asm__"), ("instructions of the host are none of the device", "use AscendC")),
}
_C_FUNCTIONS = {
    **dict.fromkeys(("memcpy", "memmove", "memset", "memcmp"), "use DataCopy, Duplicate or a loop"),
    **dict.fromkeys(("malloc", "calloc", "realloc", "free", "alloca"), "take a TBuf, or a member"),
    **dict.fromkeys(("abort", "exit", "_exit", "_Exit", "quick_exit", "assert"), "check on the host"),
    **dict.fromkeys(("sleep", "usleep", "nanosleep", "pthread_mutex_lock", "pthread_create"),
                    "order pipes and cores by flags and SyncAll"),
    **dict.fromkeys(("fork", "vfork", "system", "popen", "execv", "kill", "raise", "signal", "sigaction", "syscall",
                     "dlopen", "setjmp", "longjmp"), "remove it"),
    **dict.fromkeys(("fprintf", "snprintf", "sprintf", "puts", "strlen", "strcmp", "strcpy", "rand", "time"),
                    "remove it"),
    **{name + suffix: "use the vector unit" for suffix in ("", "f") for name in (
        "sqrt", "exp", "log", "pow", "sin", "cos", "tan", "tanh", "floor", "ceil", "round", "fabs", "fmin", "fmax")},
}  # fmt: skip
# Attributes of functions that run when a library is loaded or unloaded.
_LOAD_ATTRIBUTES = {"constructor", "destructor"}
_TYPE_BYTES = {
    **dict.fromkeys(("bool", "char", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "int16_t", "uint16_t", "half", "bfloat16_t"), 2),
    **dict.fromkeys(("int", "unsigned", "float", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("long", "int64_t", "uint64_t", "size_t", "double"), 8),
}
# First words of a statement that declares no variable here.
_NO_VARIABLE = {
    "class", "enum", "extern", "friend", "namespace", "static_assert", "struct", "template", "typedef", "union",
    "using",
}  # fmt: skip
# What stands before parentheses and is no function.
_NO_FUNCTION = {
    "__attribute__", "alignas", "decltype", "for", "if", "noexcept", "sizeof", "static_assert", "switch", "while",
}  # fmt: skip
# A type, then the name of a pointer to functions or to member functions: `void (*f)(int)`, `int (A::*)()`.
_FUNCTION_POINTER = re.compile(r"(?:\w|[>*&]) \( (?:\w+ :: )*\* (?:const )?(?:(?!this )\w+ )?(?:\[ \w* \] )?\) \(")
_NO_TYPE = {"case", "co_return", "else", "for", "if", "return", "sizeof", "switch", "while"}
_QUALIFIERS = {"const", "constexpr", "static"}
_DOUBLE_LITERAL = re.compile(r"(?![0][xX])[\d']*(?:\.[\d']*)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class LintFinding:
    """A place in a kernel that the device's compiler refuses, or the device gets wrong."""

    file: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.message}"


def lint_text(text: str, file: str) -> list[LintFinding]:
    """The findings in one source, by line."""
    findings: list[LintFinding] = []

    def report(line: int, rule: str, message: str) -> None:
        findings.append(LintFinding(file, line, rule, message))

    everything, followed = tokens_of(text), included(text)
    tokens = [token for token in everything if token.kind != "directive"]
    for directive in (token for token in everything if token.kind == "directive"):
        check_directive(directive, followed, report)
        if body := _macro_body(directive):
            _check_words(body, report)
    _check_words(tokens, report)
    _check_key_chains(tokens, report)
    _Structure(tokens, report).check()
    return sorted(set(findings), key=lambda found: (found.line, found.rule))


def _macro_body(directive: Token) -> list[Token]:
    found = re.match(r"#\s*define\s+\w+(?:\([^)]*\))?\s", directive.text)
    return tokens_of(directive.text[found.end() :], directive.line) if found else []


@lru_cache(maxsize=1)
def _names() -> tuple[frozenset[str], frozenset[str]]:
    """Names of namespace AscendC in both generations of the headers, and in one of them."""
    entries = [entry for entry in api()["kernel"] if entry["name"].startswith("AscendC::")]
    both = known_names(entries) | {"AscendC::QuePosition"}  # an alias of TPosition; the list has no aliases
    bare = [frozenset(name.split("::")[1] for name in names) for names in (both, {e["name"] for e in entries} - both)]
    return bare[0], bare[1]


def _is_double(number: str) -> bool:
    return _DOUBLE_LITERAL.fullmatch(number) is not None and not number.replace("'", "").isdigit()


def _check_words(tokens: Sequence[Token], report: Report) -> None:
    both, one = _names()
    for index, token in enumerate(tokens):
        before, after, beyond = (
            tokens[at].text if 0 <= at < len(tokens) else "" for at in (index - 1, index + 1, index + 2)
        )
        if token.kind == "number" and _is_double(token.text):
            report(token.line, "double", f"{token.text} is a double, which the device has not; write {token.text}f")
        if token.kind != "name" or before in {".", "->"}:
            continue
        if token.text == "std" and (after == "::" or before == "namespace"):
            report(token.line, "std", "the device has no standard library; write it out, or use AscendC")
        elif token.text in _KEYWORDS and not (token.text == "delete" and before == "="):
            cause, repair = _KEYWORDS[token.text]
            report(token.line, token.text, f"{cause}; {repair}")
        elif (name := token.text.removeprefix("__builtin_")) in _C_FUNCTIONS and after == "(":
            if not _is_qualified(tokens, index):
                report(token.line, "c-function", f"{token.text}() does not exist on the device; {_C_FUNCTIONS[name]}")
        elif token.text.strip("_") in _LOAD_ATTRIBUTES and before in {"(", ",", "["}:
            report(token.line, "static", f"the device runs no {token.text.strip('_')} of a library; call the function")
        elif token.text in {"ASCEND_IS_AIV", "ASCEND_IS_AIC"} and before != "if":
            report(token.line, "parentheses", f"on the device {token.text} brings its own: write `if {token.text} {{`")
        elif token.text == "AscendC" and after == "::" and beyond not in both:
            missing = "is in one generation of CANN's headers only" if beyond in one else "is not on this list"
            message = f"AscendC::{beyond} {missing}; use names that twin/cann_api.json lists for CANN 8.1 and 2026"
            report(token.line, "api", message)
        elif token.text in one and before != "::" and after in {"(", "<"}:
            report(token.line, "api", f"{token.text} is in one generation of CANN's headers only; use the older name")
        elif [token.text, after, beyond] == ["opforge", "::", "twin"]:
            report(token.line, "api", "opforge::twin is the inside of the twin; use AscendC")
        elif token.text == "_Pragma":
            check_pragma(beyond, token.line, report)
        elif token.text not in _NO_TYPE and _points_to_function(tokens[index : index + 12]):
            report(token.line, "function-pointer", "the device calls no function through a pointer; use templates")


def _is_qualified(tokens: Sequence[Token], index: int) -> bool:
    """Whether a name is that of a class or namespace, not of the global one: `A::free`, but not `::free`."""
    words = [token.text for token in tokens[max(0, index - 2) : index]]
    return words[-1:] == ["::"] and (words[0].isidentifier() or words[0] == ">") and words[0] not in _NO_TYPE


def _points_to_function(tokens: Sequence[Token]) -> bool:
    """Whether a type is followed by the declarator of a pointer to functions; the last word of the type comes first."""
    words = [token.text for token in tokens]
    start = next((at for at, word in enumerate(words[1:], 1) if word not in {"*", "&", ">"}), 0)
    return bool(start) and _FUNCTION_POINTER.match(" ".join([words[0][-1:], *words[start:]])) is not None


def _closings(tokens: Sequence[Token]) -> dict[int, int]:
    """By the index of each opening bracket, that of the one that closes it; without one, the last index."""
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


def _check_key_chains(tokens: Sequence[Token], report: Report) -> None:
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


class _Structure:
    """Follows the scopes of a source and judges its declarations."""

    def __init__(self, tokens: Sequence[Token], report: Report) -> None:
        self._tokens = tokens
        self._report = report
        self._scopes: list[str] = ["namespace"]
        self._types: list[list[Token]] = []  # of each open class: what makes it the type of a variable behind it
        self._statement: list[Token] = []
        self._constants: dict[str, int] = {}

    def check(self) -> None:
        """Report functions without __aicore__, static and global data, big arrays."""
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
        """The kind of scope that a brace after the statement opens."""
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
        if call > 1 or self._scopes[-1] == "class":  # else a macro declares the function
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
        if "__aicore__" not in self._words():
            message = f"{name}() is a function of the host; write `__aicore__ inline` before it"
            self._report(self._statement[0].line, "aicore", message)

    def _declared(self) -> None:
        """Judge the statement that a semicolon ends."""
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
        is_static = "static" in words[:3]
        if not is_constant and (is_static or (scope == "namespace" and len(words) > 1)):
            kind = "static" if is_static else "global"
            message = f"a {kind} variable has no place on the device; make it a member, or constexpr"
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
            message = f"an array of {elements * size} bytes on the stack, which has 32768 for all; take a TBuf"
            self._report(self._statement[0].line, "stack", message)

    def _evaluate(self, words: Sequence[str]) -> int | None:
        """The value of an integer expression, None when it is not plain arithmetic on literals and constants."""
        if len(words) > MOST_WORDS:
            return None
        text = " ".join("//" if word == "/" else _plain_number(word) for word in words)
        try:
            value = _arithmetic(ast.parse(text, mode="eval").body, self._constants)
        except (SyntaxError, ValueError, ZeroDivisionError):
            return None
        return value if abs(value) < 1 << 63 else None


def _is_constant(words: Sequence[str]) -> bool:
    """Whether a variable cannot change: of a pointer, not only what it points to."""
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
    """The statement behind its `template <...>` and attributes."""
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
    """Index of the parenthesis that opens the parameters of a function, None when the statement has none."""
    depth = 0
    for index, word in enumerate(words):
        if word == "(" and depth == 0 and index > 0:
            name = words[index - 1]
            is_operator = "operator" in words[max(0, index - 3) : index]
            if is_operator or (name.isidentifier() and name not in _NO_FUNCTION):
                return index
        depth += (word == "(") - (word == ")")
    return None


def lint_files(paths: Iterable[Path]) -> list[LintFinding]:
    """The findings in kernel sources.

    Raises:
        UserError: A file cannot be read.
    """
    findings = []
    for path in paths:
        findings += lint_text(read_source(path), path_text(path))
        reachable(path, (), roots_of(path))
    return findings


def roots_of(path: Path) -> tuple[Path, ...]:
    """The folders that hold all headers of a kernel source: its project, and opforge."""
    here = path.absolute().parent
    project = next((folder.parent for folder in (here, *here.parents) if folder.name == "op_kernel"), here)
    return project, BUILTIN_ROOT


def kernel_files(project: Project) -> list[Path]:
    """All kernel sources of a project.

    Raises:
        UserError: One of them is a pipe or a device.
    """
    return sorted(sources_below(project.root / "op_kernel"))


def require_clean(project: Project, op_names: Sequence[str], home: Path) -> None:
    """Refuse kernels that the device's compiler would refuse; `home` keeps a note of those that were clean.

    Raises:
        UserError: There are findings; all of them are listed.
    """
    folders = (project.root / "op_kernel", BUILTIN_ROOT / "op_kernel")
    roots = (project.root, BUILTIN_ROOT)
    files = {path: None for name in op_names for path in reachable(folders[0] / f"{name}.h", folders, roots)}
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in (*_OWN_FILES, *sorted(files)))).hexdigest()
    note = home / "clean_kernels" / digest
    if note.is_file():
        return
    if findings := lint_files(files):
        raise UserError("\n".join(map(str, findings)))
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
