"""Read the programs of a CMakeLists.txt and the commands of a README without running CMake or a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

# Patterns of this package use possessive quantifiers: a hostile text takes linear time.
_COMMAND = re.compile(r'\b([A-Za-z_]\w*+)\s*+\(((?:[^()"]++|"(?:[^"\\]|\\.)*+"|\([^()]*+\))*+)\)')
# Quotes inside of a word, as in NAME="text", are a part of it.
_WORD = re.compile(r'"((?:[^"\\]|\\.)*+)"?|([^\s"]++(?:"[^"]*+"[^\s"]*+)*+)')
_ASSIGNED = re.compile(r"[A-Z][A-Z0-9_]*=[\w.\-]+")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_MOST_TEXT = 200_000
_MOST_REPLACED = 4_000_000
_MOST_PATTERN = 200
_MOST_REPEATS = 2
_MOST_SCENARIOS, _MOST_SCENARIO_NAMES, _MOST_LEFT_OUT = 32, 16, 8
# A value has no character with a meaning in a shell, in CMake or in a path.
_VALUE = re.compile(r"[A-Za-z0-9_.\-]{1,32}")
# Variables that select a chip or a tool.
_NO_SCENARIO = {"RUN_MODE", "SOC_VERSION"}
_RANGE = re.compile(r"\((\d{1,8})(?:-| or )(\d{1,8})\)")
_OTHER_CODE = re.compile(
    r"^[ \t]*+#[ \t]*+if\b[^\n]*==[ \t]*+3510\b.{0,4000}?^[ \t]*+#[ \t]*+(?:endif|elif|else)\b",
    re.MULTILINE | re.DOTALL,
)
_KEYWORDS = {"PRIVATE", "PUBLIC", "INTERFACE", "SHARED", "STATIC", "OBJECT", "EXCLUDE_FROM_ALL", "SYSTEM", "BEFORE"}


@dataclass
class Program:
    """A target of a CMakeLists.txt: its sources, definitions and include folders as they are written."""

    is_executable: bool
    sources: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    include_dirs: list[str] = field(default_factory=list)


@dataclass
class Steps:
    """The commands of a README: options of CMake, scripts before the program, its arguments, scripts after it."""

    options: dict[str, str] = field(default_factory=dict)
    before: list[list[str]] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Return whether the commands compile and run a program."""
        return {"cmake", "./"} <= self.seen


def read_programs(text: str, options: Mapping[str, str]) -> list[Program]:
    """Return the targets of a CMakeLists.txt; `if` compares strings and tests variables, other conditions are false."""
    variables, programs = dict(options), dict[str, Program]()
    shared = Program(is_executable=False)
    for name, words in _active_commands(text, variables):
        if name == "set" and words:
            _set(words, variables)
        elif name == "string" and words[:2] == ["REGEX", "MATCH"] and len(words) > 4:
            variables[words[3]] = _found(words[2], " ".join(words[4:]))
        elif name in {"add_executable", "add_library", "ascendc_library"} and words:
            program = programs.setdefault(words[0], Program(name == "add_executable"))
            program.sources += [word for word in words[1:] if word not in _KEYWORDS]
        elif name in {"target_sources", "target_compile_definitions", "target_include_directories"} and words:
            program = programs.setdefault(words[0], Program(is_executable=False))
            values = {
                "target_sources": program.sources,
                "target_compile_definitions": program.defines,
                "target_include_directories": program.include_dirs,
            }[name]
            values += [word for word in words[1:] if word not in _KEYWORDS]
        elif name in {"add_definitions", "add_compile_definitions"}:
            shared.defines += words
        elif name in {"target_compile_options", "add_compile_options"}:
            program = programs.setdefault(words[0], Program(is_executable=False)) if name[0] == "t" else shared
            program.defines += [word for word in words if word.startswith("-D")]
        elif name == "include_directories":
            shared.include_dirs += [word for word in words if word not in _KEYWORDS]
    for program in programs.values():
        program.defines = [word.removeprefix("-D") for word in (*shared.defines, *program.defines)]
        program.include_dirs = [*shared.include_dirs, *program.include_dirs]
    return [program for program in programs.values() if program.sources]


def _set(words: list[str], variables: dict[str, str]) -> None:
    name, values = words[0], words[1:]
    if "CACHE" in values:
        variables.setdefault(name, " ".join(values[: values.index("CACHE")]))
    else:
        variables[name] = " ".join(values)


def _active_commands(text: str, variables: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands outside of branches whose condition is false, with variables replaced.

    The commands after a very long text of replaced variables are not read.
    """
    left = _MOST_REPLACED
    # For each open `if`: whether its present branch and those around it are active, and whether any branch was.
    stack: list[tuple[bool, bool]] = []
    for name, written in _commands_of(text[:_MOST_TEXT]):
        words: list[str] = []
        for word in written:
            words.append(_replaced(word, variables))
            left -= len(words[-1])
            if left < 0:
                return
        if name == "if":
            holds = _holds(words, variables)
            stack.append((holds and _is_active(stack), holds))
        elif name in {"elseif", "else"} and stack:
            _, was_active = stack.pop()
            holds = not was_active and (name == "else" or _holds(words, variables))
            stack.append((holds and _is_active(stack), was_active or holds))
        elif name == "endif" and stack:
            stack.pop()
        elif _is_active(stack):
            yield name, [part for word in words for part in word.split()]


def _is_active(stack: Sequence[tuple[bool, bool]]) -> bool:
    return not stack or stack[-1][0]


@lru_cache(maxsize=1)
def _commands_of(text: str) -> tuple[tuple[str, list[str]], ...]:
    """Return all commands of a CMakeLists.txt as they are written, option() as set(). Each scenario uses them again."""
    commands = []
    for found in _COMMAND.finditer(re.sub(r"#[^\n]*", "", text)):
        name, words = found[1].lower(), [quoted or plain for quoted, plain in _WORD.findall(found[2])]
        if name == "option" and words:
            name, words = "set", [words[0], words[2] if len(words) > 2 else "OFF", "CACHE", "BOOL", *words[1:2]]
        commands.append((name, words))
    return tuple(commands)


def _replaced(text: str, variables: Mapping[str, str]) -> str:
    """Return the beginning of the text with values instead of variables."""
    left = _MOST_TEXT

    def value(found: re.Match[str]) -> str:
        nonlocal left
        new = variables.get(found[1] or found[2], "")[:left]
        left -= len(new)
        return new

    return _VARIABLE.sub(value, text)


def _holds(words: list[str], variables: Mapping[str, str]) -> bool:
    return any(all(_holds_term(term, variables) for term in _split(part, "AND")) for part in _split(words, "OR"))


def _split(words: list[str], joint: str) -> Iterator[list[str]]:
    """Yield the words between the words `joint`."""
    part: list[str] = []
    for word in words:
        if word == joint:
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _holds_term(words: list[str], variables: Mapping[str, str]) -> bool:
    negations = next((index for index, word in enumerate(words) if word != "NOT"), len(words))
    return _holds_plain(words[negations:], variables) == (negations % 2 == 0)


def _holds_plain(words: list[str], variables: Mapping[str, str]) -> bool:
    if len(words) == 2 and words[0] == "DEFINED":
        return words[1] in variables
    if len(words) == 3 and words[1] in {"STREQUAL", "EQUAL", "MATCHES"}:
        left, right = variables.get(words[0], words[0]), variables.get(words[2], words[2])
        return bool(_found(right, left)) if words[1] == "MATCHES" else left == right
    if len(words) == 3 and words[1] == "IN_LIST":
        return f" {variables.get(words[0], words[0])} " in f" {variables.get(words[2], '')} "
    return len(words) == 1 and variables.get(words[0], words[0]).upper() in {"1", "ON", "TRUE", "YES"}


def _found(pattern: str, text: str) -> str:
    """Return the match of a short pattern; patterns with repeated groups or many repeats may take long: no match."""
    repeats = len(re.findall(r"[*+?{]", pattern))
    if len(pattern) >= _MOST_PATTERN or repeats > _MOST_REPEATS or re.search(r"\)[*+?{]", pattern):
        return ""
    try:
        found = re.search(pattern, text[:_MOST_PATTERN])
    except re.error:
        return ""
    return found[0] if found else ""


@dataclass
class Scenarios:
    """The (name, value) pairs of an example that run, and texts about the stated ones that do not run."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read_scenarios(text: str, options: Mapping[str, str], manual: str, code: str) -> Scenarios:
    """Return the values of the variables that select the scenario of an example.

    The variables are those of the cache, except those of type BOOL, and those that commands of the README pass. Values
    for which CMake ends with an error, and values that only code for another architecture uses, are no scenarios.
    """
    text, manual, code = (part[:_MOST_TEXT] for part in (text, manual, code))
    commands = _commands_of(text)
    cached = {words[0]: words for name, words in commands if name == "set" and "CACHE" in words[2:]}
    used = set(re.findall(r"\w+", text))
    passed = [name for name in re.findall(r"(?<![\w-])-D(\w+)=", manual) if name in used]
    names = dict.fromkeys([*(name for name, words in cached.items() if "BOOL" not in words), *passed])
    plain = [name for name in names if re.fullmatch(r"(?!CMAKE_)\w{1,32}", name) and name not in _NO_SCENARIO]
    checks, plain_code = not _is_refused(text, options), _OTHER_CODE.sub("", code)
    result, left = Scenarios(), _MOST_SCENARIOS
    for name in plain[:_MOST_SCENARIO_NAMES]:
        default = options.get(name, cached[name][1] if name in cached else "")
        values = _values_of(name, default, commands, manual, code)
        readable = [value for value in values if _VALUE.fullmatch(value)][:left]
        pairs = [
            (name, value)
            for value in readable
            if not (checks and _is_refused(text, {**options, name: value}))
            and not _is_of_other(name, value, code, plain_code)
        ]
        if len(values) > 1:
            left -= len(readable)
            result.left_out += [f"{name}={value[:40]}" for value in values if value not in readable]
        result.pairs += pairs if len(pairs) > 1 else []
    if more := result.left_out[_MOST_LEFT_OUT:]:
        result.left_out[_MOST_LEFT_OUT:] = [f"{len(more)} more"]
    return result


def _values_of(name: str, default: str, commands: Iterable[tuple[str, list[str]]], manual: str, code: str) -> list[str]:
    """Return the default value of a variable, and those in a CMakeLists.txt and in a row of a table of the README.

    Without them, the values are those in `NAME=value` of the README and in comparisons of the code.
    """
    word = r"\d{1,2}" if default.isdecimal() else r"[A-Z][A-Z0-9_]{0,30}"
    rows = re.findall(rf"^[ \t]*+\|[ \t]*+`?{name}`?[ \t]*+\|([^|\n]*+)", manual, re.MULTILINE)
    stated = re.findall(rf"\b{word}\b", " ".join(rows))
    conditions = {
        (operator, right)
        for command, words in commands
        if command in {"if", "elseif"}
        for left, operator, right in zip(words, words[1:], words[2:], strict=False)
        if left.strip("${}") == name
    }
    lists = {right for operator, right in conditions if operator == "IN_LIST"}
    for command, words in commands:
        stated += _stated_values(command, words, name, lists)
    for operator, right in conditions:
        if operator in {"STREQUAL", "EQUAL"} and "$" not in right:
            stated.append(right)
        elif operator == "MATCHES":
            stated += [value for value in map(str, range(100)) if _found(right, value)]
    stated = stated or re.findall(rf"\b{name}\s?==?\s?({word})\b", f"{manual}\n{code}")
    if "$" not in default:
        stated.append(default)
    return sorted(set(stated) - {""}, key=lambda value: (len(value), value))


def _stated_values(command: str, words: list[str], name: str, lists: Collection[str]) -> Iterator[str]:
    """Yield the values of a variable in the property STRINGS, its type, its help text, or one of its lists."""
    if command == "set_property" and words[:4] == ["CACHE", name, "PROPERTY", "STRINGS"]:
        yield from words[4:]
    elif command == "set" and words and words[0] in lists:
        yield from words[1:]
    elif command == "set" and words[:1] == [name] and "BOOL" in words:
        yield from ("OFF", "ON")
    elif command == "set" and words[:1] == [name] and (span := _RANGE.search(words[-1])):
        first, last = int(span[1]), int(span[2])
        end = min(last, first + _MOST_SCENARIOS - 1)
        yield from map(str, range(first, end + 1))
        if end < last:
            yield f"{end + 1} to {last}"


def _is_of_other(name: str, value: str, code: str, plain_code: str) -> bool:
    """Return whether only code for another architecture compares the variable with the value."""
    compared = re.compile(rf"\b{name}\s?==\s?{re.escape(value)}\b")
    return bool(compared.search(code)) and not compared.search(plain_code)


def _is_refused(text: str, options: Mapping[str, str]) -> bool:
    """Return whether CMake ends with an error."""
    variables = dict(options)
    for name, words in _active_commands(text, variables):
        if name == "message" and words[:1] == ["FATAL_ERROR"]:
            return True
        if name == "set" and words:
            _set(words, variables)
    return False


def read_steps(text: str, architecture: str, given: Mapping[str, str] | None = None) -> Steps:
    """Return the commands of a README for an architecture, such as `dav-2201`; the first of each kind is used.

    `given`: values of variables, which replace those of the README. The commands are those of the first mode of the
    README that passes these values to CMake; if there is none, those of the first mode.
    """
    given = dict(given or {})
    modes = _modes(text[:_MOST_TEXT], architecture, given)
    steps = next((mode for mode in modes if mode.is_complete and given.items() <= mode.options.items()), modes[0])
    # Scripts have the value that the README passes to CMake, as in `-m=0`.
    stated = {steps.options[name]: value for name, value in given.items() if name in steps.options}
    for words in (*steps.before, *steps.after):
        words[:] = [_with_value(word, stated) for word in words]
    steps.options.update(given)
    for name in ("CMAKE_ASC_RUN_MODE", "CMAKE_ASC_ARCHITECTURES"):  # a comment may name the other values
        steps.options.pop(name, None)
    return steps


def _with_value(word: str, values: Mapping[str, str]) -> str:
    """Return an option of a script such as `-m=0` with another value."""
    name, equal, value = word.partition("=")
    return f"{name}={values.get(value, value)}" if equal and name.startswith("-") else word


def _modes(text: str, architecture: str, given: Mapping[str, str]) -> list[Steps]:
    """Return the commands of each mode of a README; a mode ends before the next `cmake` after its program."""
    variables, modes = dict(given), [steps := Steps()]
    for line in text.splitlines():
        words = re.split("[#;]", line.strip().removeprefix("export "))[0].split()
        if words and all(_ASSIGNED.fullmatch(word) for word in words):
            for name, _, value in (word.partition("=") for word in words):
                variables.setdefault(name, value)
        for words in _commands(line, variables):
            program = words[0].rpartition("/")[2]
            if program == "cmake" and steps.is_complete:
                modes.append(steps := Steps())
            if program == "cmake" and ("-DCMAKE_ASC_ARCHITECTURES" not in line or architecture in line):
                for name, value in re.findall(r"-D(\w+)=(\S+)", " ".join(words)):
                    steps.options.setdefault(name, value)
                steps.seen.add("cmake")
            elif (
                program in {"python", "python3"}
                and words[1:]
                and words[1].endswith(".py")
                and words[1] not in steps.seen
            ):
                steps.seen.add(words[1])
                (steps.after if "./" in steps.seen else steps.before).append(words[1:])
            elif words[0].startswith("./") and "./" not in steps.seen:
                steps.seen.add("./")
                steps.arguments = words[1:]
    return modes


def _commands(line: str, variables: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the relevant commands of a shell line, as words."""
    if not re.match(r"\s*(?:\$\s+)?(?:cmake|python3?|\./|mkdir|cd)\b|\s*\./", line):
        return
    for part in re.split(r"&&|;", line.partition(" #")[0]):
        try:
            words = shlex.split(_replaced(part, variables))
        except ValueError:
            continue
        words = words[1:] if words[:1] == ["$"] else words
        if words:
            yield words
