"""Replace kernel attributes and launch expressions in preprocessed Ascend C by C++."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from opforge.codegen.errors import UserError

from .kernel_parameters import classes_of, defined_classes, name_of, parameter_checks
from .tokens import CLOSE, OPEN, Places, Token, around, bracket_pairs, namespace_of, tokens_of

_GLOBAL = "opforgeGlobal"
_CORES = {"opforgeVector": "AIV_ONLY", "opforgeCube": "AIC_ONLY"}
_MIX = "opforgeMix"
# The memories of arrays, by their attributes.
_POSITIONS = {
    "opforgeUbuf": "VECCALC",
    "opforgeCbuf": "A1",
    "opforgeCa": "A2",
    "opforgeCb": "B2",
    "opforgeCc": "CO1",
    "opforgeFbuf": "C2PIPE2GM",
    "opforgeBiasbuf": "C2",
}
_MEMORY = re.compile(rf"\b(?:{'|'.join(_POSITIONS)})\b")
_MIXED = {
    ("1", "0"): "MIX_AIC_1_0",
    ("0", "1"): "MIX_AIV_1_0",
    ("1", "1"): "MIX_AIC_1_1",
    ("1", "2"): "MIX_AIC_1_2",
}
# Names of instructions of cube cores, and names that only kernels of both kinds of cores use.
_CUBE_NAMES = {"Mmad", "LoadData", "LoadDataWithTranspose", "Fixpipe"}
_MIXED_NAMES = {"IsCubeCore", "Matmul", "MatmulImpl", "CrossCoreSetFlag", "CrossCoreWaitFlag"}
_DECLARING = "DeclareTaskType"  # of KERNEL_TASK_TYPE_DEFAULT
_PROGRAM = "::opforge::twin::program::"


@dataclass(frozen=True)
class Kernel:
    """A kernel function that a source defines.

    Attributes:
        name: Of the function.
        parameters: The text of each parameter.
        names: The name of each parameter; empty if it has none.
        classes: The type of each parameter of a C function whose type is a class.
        is_c_function: Whether it is declared `extern "C"`: an `aclrtlaunch_` function can call it.
        namespace: The namespaces that contain it, such as `outer::inner`.
    """

    name: str
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    classes: Mapping[str, str]
    is_c_function: bool
    namespace: str


@dataclass(frozen=True)
class Rewritten:
    """A source without launch expressions, its kernels, and the number of its launch expressions."""

    text: str
    kernels: tuple[Kernel, ...]
    launches: int


def rewrite(text: str, is_wanted: Callable[[str], bool], workspace: int = 0) -> Rewritten:
    """Replace kernel attributes and launch expressions; line markers keep the places of the other text.

    Args:
        text: Preprocessed C++ with line markers.
        is_wanted: Selects the files that may have kernels and launches.
        workspace: The position of the workspace in the parameters of each kernel, from the end: 1 is the last one. The
            kernel sets it as the system workspace, and receives the part for the user. 0: the kernels do this.

    Raises:
        UserError: A launch expression or a kernel attribute is not complete.
    """
    return _Rewriting(text, tokens_of(text, is_wanted), workspace).run()


class _Rewriting:
    """The state of one `rewrite`: tokens, and edits as begin, end and new text."""

    def __init__(self, text: str, tokens: list[Token], workspace: int) -> None:
        self.text = text
        self.workspace = workspace
        self.tokens = tokens
        self.edits: list[tuple[int, int, str]] = []
        self.kernels: list[Kernel] = []
        self.launches = 0
        self.places = Places(text)
        self.inferred = self._inferred_cores()
        self.closing = bracket_pairs(tokens)
        self.opening = {close: begin for begin, close in self.closing.items()}

    @cached_property
    def _classes(self) -> set[str]:
        return defined_classes(self.text)

    def _inferred_cores(self) -> str:
        """Return the cores of kernels without an attribute: those of the instructions in the source."""
        words = {token.text for token in self.tokens if token.kind == "name"}
        if words & {_DECLARING, _MIX, *_CORES}:
            return ""
        if words & _MIXED_NAMES:
            return "MIX_AIC_1_2"
        return "AIC_ONLY" if words & _CUBE_NAMES else ""

    def run(self) -> Rewritten:
        for index, token in enumerate(self.tokens):
            if token.text == _GLOBAL:
                self._kernel(index)
            elif token.text in _CORES:
                self._replace(token.begin, token.end, "")
            elif token.text in _POSITIONS:
                self._replace(token.begin, token.end, "")
                self._arrays(index + 1)
            elif token.text == _MIX:
                self._replace(token.begin, self.tokens[self._closing(index + 1)].end, "")
            elif token.text == "aicore" and self._is(index - 1, "[") and self._is(index + 1, "]"):
                self._replace(self.tokens[index - 1].begin, self.tokens[index + 1].end, "")
            elif token.text == "volatile":
                self._remove_second(index)
            elif token.text == "<<" and self._is_launch(index):
                self._launch(index)
        parts, position = [], 0
        for begin, end, new in sorted(self.edits):
            parts += [self.text[position:begin], new]
            position = max(end, position)
        text = "".join([*parts, self.text[position:]])
        # Headers that are not rewritten may use these words for pointers.
        return Rewritten(_MEMORY.sub("", text), tuple(self.kernels), self.launches)

    def _remove_second(self, index: int) -> None:
        """Remove another `volatile` of a type: `__gm__` is one, and C++ permits one only."""
        for position in range(index + 1, len(self.tokens)):
            token = self.tokens[position]
            if token.text == "volatile":
                self._replace(token.begin, token.end, "")
            if token.text == "volatile" or (token.kind != "name" and token.text != "::"):
                return

    def _replace(self, begin: int, end: int, new: str) -> None:
        """Replace text; its line breaks and line markers are kept."""
        lines = self.text[begin:end].split("\n")
        self.edits.append((begin, end, new + "\n".join(line if line.startswith("#") else "" for line in lines)))

    def _insert(self, position: int, text: str) -> None:
        self.edits.append((position, position, text))

    def _error(self, index: int, problem: str) -> UserError:
        return UserError(problem, self.places.of(self.tokens[index].begin))

    def _is(self, index: int, text: str) -> bool:
        return 0 <= index < len(self.tokens) and self.tokens[index].text == text

    def _closing(self, index: int) -> int:
        """Return the token that closes the bracket at `index`."""
        if index >= len(self.tokens) or self.tokens[index].text not in OPEN:
            raise self._error(min(index, len(self.tokens) - 1), "expected an opening bracket here")
        if index in self.closing:
            return self.closing[index]
        raise self._error(index, f"the bracket {self.tokens[index].text!r} is not closed; add the closing bracket")

    def _is_launch(self, index: int) -> bool:
        """Return whether `<<` and `<` are adjacent, which no expression has; `operator<< <T>` is not an expression."""
        return self._is(index + 1, "<") and not self._is(index - 1, "operator")

    def _launch(self, index: int) -> None:
        """Replace a launch by a call of the kernel behind a `Pending`; the other text keeps its lines and columns."""
        begin = self._callee(index)
        end = self._configuration_end(index)
        if not self._is(end + 1, "("):
            raise self._error(end, "no argument list behind `>>>`; expected kernel<<<blocks, nullptr, stream>>>(...)")
        first, last = self.tokens[begin].begin, self.tokens[index].begin
        kernel, grid = self.text[first:last], self.text[self.tokens[index + 1].end : self.tokens[end - 2].begin]
        head = f"({_PROGRAM}Pending({_quoted(_one_line(kernel))}, {_PROGRAM}Grid("
        head += f"{self.places.marker(self.tokens[index + 1].end)}{grid})),"
        behind = self.tokens[end].end
        self.edits.append((first, behind, f"{head}{self.places.marker(first)}{kernel}{self.places.marker(behind)}"))
        self._insert(self.tokens[self._closing(end + 1)].end, ")")
        self.launches += 1

    def _callee(self, index: int) -> int:
        """Return the first token of the expression that ends before the launch at `index`."""
        position = index - 1
        while True:
            if self._is(position, ">"):
                position = self._template_open(position) - 1
            while self._is(position, "]"):
                position = self._opening(position) - 1
            if self._is(position, ")"):
                position = self._opening(position)
                caller = self.tokens[max(position - 1, 0)]
                if caller.kind == "name" and caller.text not in {"return", "else", "do", "case"}:
                    position -= 1  # a call that returns the kernel
            elif position < 0 or self.tokens[position].kind != "name":
                raise self._error(index, "no kernel before `<<<`; expected kernel<<<blocks, nullptr, stream>>>(...)")
            if position > 0 and self.tokens[position - 1].text in {"::", ".", "->"}:
                before = position - 2
                if before >= 0 and (self.tokens[before].kind == "name" or self.tokens[before].text in {">", ")"}):
                    position = before
                    continue
                position -= 1
            return position

    def _opening(self, index: int) -> int:
        if index in self.opening:
            return self.opening[index]
        raise self._error(index, "the bracket is not opened; add the opening bracket")

    def _template_open(self, index: int) -> int:
        """Return the `<` of the template arguments that end at `index`."""
        depth, position = 0, index
        while position >= 0:
            word = self.tokens[position].text
            if word in CLOSE:
                position = self._opening(position)
            elif word == ">":
                depth += 1
            elif word in {"<", "<<"}:
                depth -= len(word)
                if depth <= 0:
                    return position
            elif word in {";", "{", "}"}:
                break
            position -= 1
        raise self._error(index, "the template arguments before `<<<` have no beginning; add `<`")

    def _configuration_end(self, index: int) -> int:
        """Return the last `>` of the `>>>` that belongs to the launch at `index`."""
        position = index + 2
        while position < len(self.tokens):
            word = self.tokens[position].text
            if word in OPEN:
                position = self._closing(position)
            elif word in {";", *CLOSE}:
                break
            elif all(self._is(position + offset, ">") for offset in range(3)):
                return position + 2
            position += 1
        raise self._error(index, "`<<<` has no `>>>`; expected kernel<<<blocks, nullptr, stream>>>(arguments)")

    def _parameters(self, index: int) -> list[str]:
        """Return the texts between the commas of the parameters at `index`."""
        last = self._closing(index)
        found: list[str] = []
        begin, position = self.tokens[index].end, index + 1
        angles = 0
        while position < last:
            token = self.tokens[position]
            if token.text in OPEN:
                position = self._closing(position)
            elif token.text in {"<", "<<", ">"}:
                angles = max(0, angles + (-1 if token.text == ">" else len(token.text)))
            elif token.text == "," and angles == 0:
                found.append(self.text[begin : token.begin].strip())
                begin = token.end
            position += 1
        rest = self.text[begin : self.tokens[last].begin].strip()
        return [*found, rest] if found or rest else []

    def _kernel(self, index: int) -> None:
        """Add the kernel with the attribute at `index`, and insert the declaration of its cores into its body."""
        token = self.tokens[index]
        self._replace(token.begin, token.end, '__attribute__((visibility("default")))')
        given = self._cores_before(index)
        position = index + 1
        while position < len(self.tokens) and not self._is(position, "("):
            word = self.tokens[position].text
            given += [_CORES[word]] if word in _CORES else [self._mix(position)] if word == _MIX else []
            if word in {_MIX, "__attribute__", "__launch_bounds__", "alignas"}:
                position = self._closing(position + 1)
            elif word in {";", "{", "}", _GLOBAL}:
                return
            position += 1
        name = self._template_open(position - 1) - 1 if self._is(position - 1, ">") else position - 1
        if position >= len(self.tokens) or self.tokens[name].kind != "name":
            return  # a declaration of a function pointer
        body = self._closing(position) + 1
        while body < len(self.tokens) and self.tokens[body].text in {"noexcept", "->", "void"}:
            body += 1
        if not self._is(body, "{"):
            return
        self._require_void(index, name)
        if len(set(given)) > 1:
            types = " and ".join(given)
            problem = f"kernel {self.tokens[name].text}: got attributes of the types {types}, expected one; "
            raise self._error(name, f"{problem}remove the others")
        texts = tuple(text for parameter in self._parameters(position) if (text := _one_line(parameter)) != "void")
        names, is_c_function = tuple(map(name_of, texts)), self._is_c_function(index)
        classes = classes_of(texts, self._classes) if is_c_function else {}  # only C functions have entries
        namespace = namespace_of(self.tokens, self.closing, index)
        kernel = Kernel(self.tokens[name].text, texts, names, classes, is_c_function, namespace)
        self._wrap_body(body, kernel, given[0] if given else self.inferred)
        self.kernels.append(kernel)

    def _wrap_body(self, index: int, kernel: Kernel, cores: str) -> None:
        """Make a function object of the body that begins at `index`: Enter queues or calls it."""
        named = [
            (name, f"{name}..." if "..." in text else name)
            for text, name in zip(kernel.parameters, kernel.names, strict=True)
            if name
        ]
        names = _quoted("\n".join([kernel.name, *(name for name, _ in named)]))
        checks = parameter_checks(kernel.name, kernel.parameters)
        declare = f'::opforge::twin::kernel::DeclareTaskType(::KERNEL_TYPE_{cores}, "__global__");' if cores else ""
        if self.workspace and (name := "".join(kernel.names[-self.workspace :][:1])):
            declare += f"::AscendC::SetSysWorkspaceForce({name}); {name} = ::AscendC::GetUserWorkspace({name});"
        begin = self.tokens[index].end
        last = self._closing(index)
        for token in self.tokens[index:last]:
            if token.text in {"__func__", "__FUNCTION__"}:
                self._replace(token.begin, token.end, _quoted(kernel.name))
        self._insert(begin, f"{checks} {_PROGRAM}Enter({names}, [=]() mutable {{ {declare}{self.places.marker(begin)}")
        self._insert(self.tokens[last].end, f"{''.join(f', {value}' for _, value in named)}); }}")

    def _require_void(self, index: int, name: int) -> None:
        """Reject the kernel with the attribute at `index` if it returns a value; `auto` and AI CPUs are exceptions."""
        first = index
        while first > 0 and self.tokens[first - 1].text not in {";", "{", "}", ">", ":"}:
            first -= 1
        words = [token.text for token in self.tokens[first:name] if token.text not in {_GLOBAL, *_CORES}]
        if not {"void", "auto", "__aicpu__"}.isdisjoint(words) and words[-1] not in {"*", "&"}:
            return
        kernel = self.tokens[name].text
        raise self._error(name, f"kernel {kernel}: got a return value, expected the return type void; return nothing")

    def _cores_before(self, index: int) -> list[str]:
        """Return the cores that the attributes directly before `__global__` select."""
        found = []
        while index > 0:
            index = self._opening(index - 1) - 1 if self._is(index - 1, ")") else index - 1
            word = self.tokens[index].text
            if word not in {_MIX, *_CORES}:
                break
            found.append(self._mix(index) if word == _MIX else _CORES[word])
        return found

    def _mix(self, index: int) -> str:
        counts = tuple(_one_line(count) for count in self._parameters(index + 1))
        if counts not in _MIXED:
            raise self._error(
                index, f"__mix__({', '.join(counts)}): expected one of {', '.join(f'({a}, {b})' for a, b in _MIXED)}"
            )
        return _MIXED[counts]

    def _arrays(self, index: int) -> None:
        """Make references to on-chip memory of the arrays in the declaration whose type begins at `index`."""
        if index < 2 or self.tokens[index - 2].text not in {";", "{", "}", ":", ")"}:
            return  # a parameter, a cast or a type
        found: list[tuple[int, int]] = []
        position = index
        while position < len(self.tokens) and self.tokens[position].text != ";":
            word = self.tokens[position].text
            if word not in {"[", ",", "::", "<", ">"} and self.tokens[position].kind not in {"name", "number"}:
                return  # a pointer or a variable with a value
            if word == "[":
                name = position - 1
                while self._is(position, "["):
                    position = self._closing(position) + 1
                found.append((name, position - 1))
            else:
                position += 1
        memory = _POSITIONS[self.tokens[index - 1].text]
        for name, last in found:
            token = self.tokens[name]
            self._insert(token.begin, "(&")
            self._insert(token.end, ")")
            types = f"decltype({token.text}), ::AscendC::TPosition::{memory}"
            self._insert(self.tokens[last].end, f" = ::opforge::twin::kernel::OnChipArray<{types}>()")

    def _is_c_function(self, index: int) -> bool:
        """Return whether `extern "C"` is directly before the attributes at `index`, or before the block around them."""
        words = {"static", "inline", *_CORES}
        position = index - 1
        while position >= 0 and self.tokens[position].text in words:
            position -= 1
        behind = [position + 1, *around(self.closing, index)]
        return any(self._is(end - 1, '"C"') and self._is(end - 2, "extern") for end in behind)


def _one_line(text: str) -> str:
    """Text without line markers, line breaks and repeated space."""
    return " ".join(word for line in text.split("\n") if not line.startswith("#") for word in line.split())


def _quoted(text: str) -> str:
    """Return a C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
