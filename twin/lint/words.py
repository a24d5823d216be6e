"""Check the words of a kernel source: names, literals and types that do not exist on the device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from opforge.codegen.data.names import nearest

from .cann_api import api, known_names
from .cpp_tokens import Token
from .declared import NO_TYPE, Declared
from .includes import Report, check_pragma

ASSEMBLY = ("asm", "__asm", "__asm__")
_KEYWORDS = {
    "virtual": ("the device has no virtual functions", "use templates"),
    "new": ("the device has no heap", "use a TBuf, or a member"),
    "delete": ("the device has no heap", "use a TBuf, or a member"),
    "throw": ("the device has no exceptions", "check on the host"),
    "try": ("the device has no exceptions", "check on the host"),
    "catch": ("the device has no exceptions", "check on the host"),
    "typeid": ("the device has no type information", "use templates"),
    "dynamic_cast": ("the device has no type information", "use templates"),
    "thread_local": ("the device has no static data", "use members"),
    **dict.fromkeys(ASSEMBLY, ("instructions of the host are none of the device", "use AscendC")),
}
_C_FUNCTIONS = {
    **dict.fromkeys(("memcpy", "memmove", "memset", "memcmp"), "use DataCopy, Duplicate or a loop"),
    **dict.fromkeys(("malloc", "calloc", "realloc", "free", "alloca"), "use a TBuf, or a member"),
    **dict.fromkeys(("abort", "exit", "_exit", "_Exit", "quick_exit"), "check on the host"),
    **dict.fromkeys(("sleep", "usleep", "nanosleep", "pthread_mutex_lock", "pthread_create"),
                    "order pipes and cores by flags and SyncAll"),
    **dict.fromkeys(("fork", "vfork", "system", "popen", "execv", "kill", "raise", "signal", "sigaction", "syscall",
                     "dlopen", "setjmp", "longjmp"), "remove it"),
    **dict.fromkeys(("fprintf", "snprintf", "sprintf", "puts", "strlen", "strcmp", "strcpy", "rand", "time"),
                    "remove it"),
    "sqrtf": "use sqrt",
    **{name + suffix: "use the vector unit" for suffix in ("", "f") for name in (
        "exp", "log", "pow", "sin", "cos", "tan", "tanh", "floor", "ceil", "round", "fabs", "fmin", "fmax")},
}  # fmt: skip
# The list of names has no aliases, and no classes for lists of tensors.
_NOT_LISTED = ("QuePosition", "ListTensorDesc", "TensorDesc")
# Attributes of functions that run when a library is loaded or unloaded.
_LOAD_ATTRIBUTES = {"constructor", "destructor"}
# A type, then the name of a pointer to functions or to member functions: `void (*f)(int)`, `int (A::*)()`.
_FUNCTION_POINTER = re.compile(r"(?:\w|[>*&]) \( (?:\w+ :: )*\* (?:const )?(?:(?!this )\w+ )?(?:\[ \w* \] )?\) \(")
# Types and constants of std that the device compiler evaluates.
_STD = re.compile(
    r"is_(?!sorted|heap|permutation|partitioned|eq|neq|lt|gt)\w+|(?:add|make)_(?!heap|pair|tuple|unique_ptr|shared|any)\w+"
    r"|remove_(?:c|const|volatile|reference|pointer|extent|all_extents|cv|cvref)(?:_t)?|u?int(?:_fast|_least)?\d+_t|u?intptr_t"
    r"|(?:size|ptrdiff|nullptr|max_align)_t|(?:conditional|enable_if|decay|underlying_type|common_type|invoke_result)(?:_t)?"
    r"|(?:conjunction|disjunction|negation|extent|rank|alignment_of)(?:_v)?|(?:integral|bool)_constant|(?:true|false)_type"
    r"|void_t|declval|numeric_limits|(?:integer|index)_sequence|aligned_storage(?:_t)?"
)


@lru_cache(maxsize=1)
def _names() -> tuple[frozenset[str], frozenset[str]]:
    """Names of namespace AscendC in both generations of the headers, and in one of them."""
    entries = [entry for entry in api()["kernel"] if entry["name"].startswith("AscendC::")]
    both = known_names(entries) | {f"AscendC::{name}" for name in _NOT_LISTED}
    bare = [frozenset(name.split("::")[1] for name in names) for names in (both, {e["name"] for e in entries} - both)]
    return bare[0], bare[1]


@lru_cache(maxsize=1)
def _twin_words() -> frozenset[str]:
    """Return all words in the headers of the twin: more APIs than the list has."""
    texts = (path.read_text(encoding="utf-8") for path in (Path(__file__).parents[1] / "include").rglob("*.h"))
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text))


def check_words(tokens: Sequence[Token], own: Declared, report: Report) -> None:  # noqa: C901, PLR0912 - the first rule reports
    """Report words that the device compiler rejects, or that have another meaning on the device."""
    both, one = _names()
    parameters = _template_parameters(tokens)
    depth = 0  # of parentheses
    for index, token in enumerate(tokens):
        before, after, beyond = (
            tokens[at].text if 0 <= at < len(tokens) else "" for at in (index - 1, index + 1, index + 2)
        )
        depth = max(0, depth + (token.text == "(") - (token.text == ")"))
        if token.kind != "name" or before in {".", "->"}:
            continue
        if token.text == "std" and after == "::":
            if not _STD.fullmatch(beyond):
                repair = "write the code without it, or use a function of AscendC"
                report(
                    token.line,
                    "std",
                    f"std::{beyond} is not available on the device; {repair}",
                )
        elif token.text in _KEYWORDS and not (token.text == "delete" and before == "="):
            cause, repair = _KEYWORDS[token.text]
            report(token.line, token.text, f"{cause}; {repair}")
        elif (name := token.text.removeprefix("__builtin_")) in _C_FUNCTIONS and after == "(":
            if token.text not in own.functions and not _is_qualified(tokens, index):
                report(token.line, "c-function", f"{token.text}() does not exist on the device; {_C_FUNCTIONS[name]}")
        elif token.text.strip("_") in _LOAD_ATTRIBUTES and before in {"(", ",", "["}:
            report(token.line, "static", f"the device runs no {token.text.strip('_')} of a library; call the function")
        elif token.text in {"ASCEND_IS_AIV", "ASCEND_IS_AIC"} and before != "if":
            report(
                token.line,
                "parentheses",
                f"on the device, {token.text} contains the parentheses: write `if {token.text} {{`",
            )
        elif token.text == "AscendC" and after == "::" and beyond not in both | own.api:
            if beyond not in one and beyond in _twin_words():
                continue
            missing = "is in one generation of CANN's headers only" if beyond in one else "is an unknown name"
            near = nearest(beyond, both)
            repair = f"did you mean AscendC::{near}?" if near else "use an API of CANN 8.1 and 9.1"
            message = f"AscendC::{beyond} {missing}; {repair}"
            report(token.line, "api", message)
        elif token.text in one - own.functions and before != "::" and after in {"(", "<"}:
            report(token.line, "api", f"{token.text} is in one generation of CANN's headers only; use the older name")
        elif [token.text, after, beyond] == ["opforge", "::", "twin"]:
            report(token.line, "api", "opforge::twin is internal to the twin; use AscendC")
        elif token.text == "_Pragma":
            check_pragma(beyond, token.line, report)
        elif (
            depth == 0
            and index not in parameters
            and token.text not in NO_TYPE
            and _points_to_function(tokens[index : index + 12])
        ):
            report(token.line, "function-pointer", "the device calls no function through a pointer; use templates")


def _template_parameters(tokens: Sequence[Token]) -> set[int]:
    """Return the indices of the tokens in `template <...>`: the compiler resolves pointers to functions in it."""
    found: set[int] = set()
    for start, token in enumerate(tokens):
        if token.text != "template" or start in found:
            continue
        depth = brackets = 0
        for index in range(start + 1, len(tokens)):
            word = tokens[index].text
            brackets += (word == "(") - (word == ")")
            depth += ((word == "<") - (word == ">") - 2 * (word == ">>")) if brackets == 0 else 0
            if depth <= 0 or word in {";", "{"}:
                break
            found.add(index)
    return found


def _is_qualified(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a name is a member of a class or namespace, not global: `A::free`, but not `::free`."""
    words = [token.text for token in tokens[max(0, index - 2) : index]]
    return words[-1:] == ["::"] and (words[0].isidentifier() or words[0] == ">") and words[0] not in NO_TYPE


def _points_to_function(tokens: Sequence[Token]) -> bool:
    """Return whether a declarator of a pointer to functions follows a type, whose last word comes first."""
    words = [token.text for token in tokens]
    start = next((at for at, word in enumerate(words[1:], 1) if word not in {"*", "&", ">"}), 0)
    return bool(start) and _FUNCTION_POINTER.match(" ".join([words[0][-1:], *words[start:]])) is not None
