"""Rewrite kernel launches `kernel<<<blocks, nullptr, stream>>>(..)` as calls of a C++ function.

The input is preprocessed text: it has no macros and no comments, and line markers keep the places of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opforge.codegen.errors import UserError
from opforge.codegen.printing import escaped

# Line markers, raw strings, strings and characters, names, numbers, and the brackets of launches.
_TOKEN = re.compile(
    r'(?P<marker>^#[^\n]*$)|(?P<text>(?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)+')|(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)"
    r"|(?P<sign><<<|>>>|::|[^\s\w])",
    re.DOTALL | re.MULTILINE,
)
_MARKER = re.compile(r'#\s+(\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_SYSTEM = "3"  # the flag of a line marker of a system header
_OPEN, _CLOSE = "([{", ")]}"
TASK_TYPES = {"__vector__": "AIV_ONLY", "__cube__": "AIC_ONLY"}
_MIX = "__mix__"
# Names that need cube cores, and functions that only the kernel of both core types calls.
_CUBE = {"Mmad", "LoadData", "LoadDataWithTranspose", "Fixpipe"}
_BOTH = {"IsCubeCore", "Matmul", "MatmulImpl", "CrossCoreSetFlag", "CrossCoreWaitFlag"}


@dataclass(frozen=True)
class Token:
    """A word of the text: its kind, its text and its position."""

    kind: str
    text: str
    start: int
    line: str

    @property
    def end(self) -> int:
        """Return the position behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Kernel:
    """A kernel function of a source: its parameters as text, and its task type, "" if it declares none."""

    name: str
    parameters: str
    task_type: str


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of the user's files; those of system headers are left out."""
    # Macros of system headers have markers of their own kind in a file of the user, which was opened before.
    found, is_own, file, line, files = [], False, "", (0, 0), set()
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "marker":
            if marker := _MARKER.match(match[0]):
                is_own = marker[2] in files or not (_SYSTEM in marker[3].split() or marker[2].startswith("<"))
                files |= {marker[2]} if is_own else set()
                file, line = marker[2], (int(marker[1]) - 1, match.end())
        elif is_own:
            kind = next(name for name in ("text", "word", "number", "sign") if match[name] is not None)
            number = line[0] + text.count("\n", line[1], match.start())
            line = (number, match.start())
            found.append(Token(kind, match[0], match.start(), f"{file}:{number}"))
    return found


def kernels_of(text: str, tokens: Sequence[Token]) -> dict[str, Kernel]:
    """Return the kernel functions that a text defines or declares, by name."""
    kernels: dict[str, Kernel] = {}
    declared, is_kernel = "", False
    for index, token in enumerate(tokens):
        if token.text in TASK_TYPES:
            declared = TASK_TYPES[token.text]
        elif token.text == _MIX:
            declared = _mix(tokens, index)
        elif token.text == '"default"' and [word.text for word in tokens[max(index - 2, 0) : index]] == [
            "visibility",
            "(",
        ]:
            is_kernel = True
        elif token.text in {";", "{", "}"}:
            declared, is_kernel = "", False
        elif (is_kernel or declared) and token.kind == "word" and _is_function(tokens, index):
            end = _closing(tokens, index + 1)
            task_type = declared or kernels.get(token.text, Kernel("", "", "")).task_type
            kernels[token.text] = Kernel(token.text, text[tokens[index + 1].end : tokens[end].start], task_type)
    return kernels


def _is_function(tokens: Sequence[Token], index: int) -> bool:
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return following == "(" and index > 0 and tokens[index - 1].text == "void"


def _mix(tokens: Sequence[Token], index: int) -> str:
    """Return the task type of `__mix__(cubes, vectors)`."""
    numbers = [token.text for token in tokens[index + 1 : index + 6] if token.kind == "number"]
    if len(numbers) != 2 or tuple(numbers) not in {("1", "0"), ("0", "1"), ("1", "1"), ("1", "2")}:
        place = tokens[index].line
        raise UserError(
            f"{place}: __mix__: got {', '.join(numbers) or 'nothing'}, expected (1, 1) or (1, 2); correct it"
        )
    return {"10": "MIX_AIC_1_0", "01": "MIX_AIV_1_0"}.get("".join(numbers), f"MIX_AIC_{numbers[0]}_{numbers[1]}")


def inferred_type(tokens: Sequence[Token]) -> str:
    """Return the task type of kernels that declare none, from the functions that the source names."""
    words = {token.text for token in tokens if token.kind == "word"}
    if words & _BOTH:
        return "MIX_AIC_1_2"
    return "AIC_ONLY" if words & _CUBE else "AIV_ONLY"


def rewritten(text: str, tokens: Sequence[Token], kernels: Mapping[str, Kernel], default: str) -> str:
    """Return the text with each launch as a call, and without attributes that g++ does not know.

    Args:
        text: A preprocessed source.
        tokens: Its tokens.
        kernels: Kernel functions by name.
        default: The task type of kernels that declare none.

    Raises:
        UserError: A launch is incomplete.
    """
    parts, position = [], 0
    for start, end, replacement in sorted(_changes(text, tokens, kernels, default)):
        if start < position:
            raise UserError(f"{_line_at(tokens, start)}: got a launch inside of a launch, expected one after the other")
        parts += [text[position:start], replacement, "\n" * (text.count("\n", start, end) - replacement.count("\n"))]
        position = end
    return "".join([*parts, text[position:]])


def _line_at(tokens: Sequence[Token], position: int) -> str:
    return next((token.line for token in tokens if token.start >= position), "")


def _changes(
    text: str, tokens: Sequence[Token], kernels: Mapping[str, Kernel], default: str
) -> Iterator[tuple[int, int, str]]:
    for index, token in enumerate(tokens):
        if token.text in TASK_TYPES:
            yield token.start, token.end, ""
        elif token.text == _MIX:
            yield token.start, tokens[_closing(tokens, index + 1)].end, ""
        elif token.text == "<<<":
            yield _launch(text, tokens, index, kernels, default)


def _launch(
    text: str, tokens: Sequence[Token], index: int, kernels: Mapping[str, Kernel], default: str
) -> tuple[int, int, str]:
    """Return the range of a launch, and the call that replaces its part before the arguments."""
    first = _callee(tokens, index)
    close = _end_of_setting(tokens, index)
    callee = text[tokens[first].start : tokens[index].start].strip()
    setting = text[tokens[index].end : tokens[close].start]
    following = tokens[close + 1]
    arguments = tokens[close + 2].text if close + 2 < len(tokens) else ""
    name = next(
        token.text for token in tokens[first:index] if token.kind == "word" and _ends_name(tokens, token, index)
    )
    task_type = kernels[name].task_type if name in kernels else ""
    call = f"[=](auto... opforgeArgs) {{ {callee}(opforgeArgs...); }}"
    run = f'.Run("{name}", "{task_type or default}", {call}{"" if arguments == ")" else ","}'
    return tokens[first].start, following.end, f"::opforge::twin::program::Launch({setting}){run}"


def _ends_name(tokens: Sequence[Token], word: Token, index: int) -> bool:
    """Return whether a word is the last one of a qualified name in front of template arguments or the launch."""
    following = next(token for token in tokens[: index + 1] if token.start >= word.end)
    return following.text in {"<<<", "<"}


def _callee(tokens: Sequence[Token], index: int) -> int:
    """Return the first token of the function that a launch calls: a name, with namespaces and template arguments."""
    at = index - 1
    if at >= 0 and tokens[at].text in {">", ">>>"}:
        depth = 0
        while at >= 0:
            depth += tokens[at].text.count(">") - (tokens[at].text.count("<") if tokens[at].kind == "sign" else 0)
            if depth == 0:
                break
            at -= 1
        at -= 1
    if at < 0 or tokens[at].kind != "word":
        raise UserError(f"{tokens[index].line}: <<<: got no kernel in front, expected its name; correct the launch")
    while at >= 1 and tokens[at - 1].text == "::":
        at -= 2 if at >= 2 and tokens[at - 2].kind == "word" else 1
    return at


def _end_of_setting(tokens: Sequence[Token], index: int) -> int:
    """Return the token `>>>` of a launch."""
    depth = 0
    for at in range(index + 1, len(tokens)):
        text = tokens[at].text
        if tokens[at].kind != "sign":
            continue
        depth += (text in _OPEN) - (text in _CLOSE)
        if text == ">>>" and depth == 0 and at + 1 < len(tokens) and tokens[at + 1].text == "(":
            return at
        if depth < 0 or text == ";":
            break
    place = tokens[index].line
    raise UserError(
        f"{place}: <<<: got no >>>( behind it, expected kernel<<<blocks, nullptr, stream>>>(..); correct it"
    )


def _closing(tokens: Sequence[Token], index: int) -> int:
    """Return the token that closes the bracket at a position."""
    depth = 0
    for at in range(index, len(tokens)):
        if tokens[at].kind == "sign":
            depth += (tokens[at].text in _OPEN) - (tokens[at].text in _CLOSE)
            if depth == 0:
                return at
    place = tokens[index].line if index < len(tokens) else tokens[-1].line
    raise UserError(f"{place}: got a bracket without its end, expected a complete declaration; correct it")


def launch_header(kernel: Kernel) -> str:
    """Return `aclrtlaunch_<kernel>.h`, which declares the function that launches a kernel from another source."""
    names = [f"opforge{number}" for number, text in enumerate(_split(kernel.parameters))]
    types = [_type_of(text) for text in _split(kernel.parameters)]
    parameters = "".join(f", {kind} {name}" for kind, name in zip(types, names, strict=True))
    given = "".join(f", {name}" for name in names)
    guard = f"OPFORGE_LAUNCH_{escaped(kernel.name)}"
    return (
        f"#ifndef {guard}\n#define {guard}\n"
        "#ifndef ACLRT_LAUNCH_KERNEL\n#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel\n#endif\n"
        f'extern "C" void {kernel.name}({", ".join(types)});\n'
        f"inline uint32_t aclrtlaunch_{kernel.name}(uint32_t blocks, void* stream{parameters})\n{{\n"
        f"    return ::opforge::twin::program::Launch(blocks, nullptr, stream)\n"
        f'        .Run("{kernel.name}", "{kernel.task_type}", &{kernel.name}{given});\n}}\n#endif\n'
    )


def _split(parameters: str) -> list[str]:
    return [] if parameters.strip() in {"", "void"} else [part.strip() for part in parameters.split(",")]


def _type_of(parameter: str) -> str:
    """Return the type of a parameter; pointers lose their type, as in the interface of the toolkit."""
    plain = re.sub(r"\b(?:volatile|__restrict__|__restrict)\b", " ", parameter)
    if "*" in plain:
        return "void*"
    return " ".join(re.sub(r"\w+\s*$", "", plain).split()) or plain
