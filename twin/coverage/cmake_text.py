"""Read the programs of a CMakeLists.txt and the commands of a README without running CMake or a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# Patterns of this package use possessive quantifiers: a hostile text takes linear time.
_COMMAND = re.compile(r'\b([A-Za-z_]\w*+)\s*+\(((?:[^()"]++|"(?:[^"\\]|\\.)*+"|\([^()]*+\))*+)\)')
# Quotes inside of a word, as in NAME="text", are a part of it.
_WORD = re.compile(r'"((?:[^"\\]|\\.)*+)"?|([^\s"]++(?:"[^"]*+"[^\s"]*+)*+)')
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_MOST_TEXT = 200_000
_MOST_REPLACED = 4_000_000
_MOST_PATTERN = 200
_MOST_REPEATS = 2
_KEYWORDS = {"PRIVATE", "PUBLIC", "INTERFACE", "SHARED", "STATIC", "OBJECT", "EXCLUDE_FROM_ALL", "SYSTEM", "BEFORE"}


@dataclass
class Program:
    """A target of a CMakeLists.txt: its sources, definitions and include folders as they are written."""

    is_executable: bool
    sources: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    include_dirs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Steps:
    """The commands of a README: options of CMake, scripts before the program, its arguments, scripts after it."""

    options: dict[str, str]
    before: tuple[tuple[str, ...], ...]
    arguments: tuple[str, ...]
    after: tuple[tuple[str, ...], ...]


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
    # For each open `if`: whether its present branch is active, and whether any branch was.
    stack: list[tuple[bool, bool]] = []
    for found in _COMMAND.finditer(re.sub(r"#[^\n]*", "", text[:_MOST_TEXT])):
        name = found[1].lower()
        words: list[str] = []
        for quoted, plain in _WORD.findall(found[2]):
            words.append(_replaced(quoted or plain, variables))
            left -= len(words[-1])
            if left < 0:
                return
        if name == "if":
            holds = _holds(words, variables)
            stack.append((holds, holds))
        elif name in {"elseif", "else"} and stack:
            _, was_active = stack.pop()
            holds = not was_active and (name == "else" or _holds(words, variables))
            stack.append((holds, was_active or holds))
        elif name == "endif" and stack:
            stack.pop()
        elif all(active for active, _ in stack):
            yield name, [part for word in words for part in word.split()]


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
    negations = next((index for index, word in enumerate(words) if word != "NOT"), len(words))
    return _holds_plain(words[negations:], variables) == (negations % 2 == 0)


def _holds_plain(words: list[str], variables: Mapping[str, str]) -> bool:
    if len(words) == 2 and words[0] == "DEFINED":
        return words[1] in variables
    if len(words) == 3 and words[1] in {"STREQUAL", "EQUAL", "MATCHES"}:
        left, right = variables.get(words[0], words[0]), variables.get(words[2], words[2])
        return bool(_found(right, left)) if words[1] == "MATCHES" else left == right
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


def read_steps(text: str, architecture: str) -> Steps:
    """Return the commands of a README for an architecture, such as `dav-2201`; the first of each kind is used."""
    variables: dict[str, str] = {}
    options: dict[str, str] = {}
    before: list[tuple[str, ...]] = []
    after: list[tuple[str, ...]] = []
    arguments: tuple[str, ...] = ()
    seen: set[str] = set()
    for line in text[:_MOST_TEXT].splitlines():
        if assigned := re.fullmatch(r"\s*(?:export\s+)?([A-Z][A-Z0-9_]*)=([\w.\-]+)\s*(?:[#;].*)?", line):
            variables.setdefault(assigned[1], assigned[2])
        for words in _commands(line, variables):
            program = words[0].rpartition("/")[2]
            if program == "cmake" and {"cmake", "./"} <= seen:
                return _steps(options, before, arguments, after)  # the commands of another mode
            if program == "cmake" and ("-DCMAKE_ASC_ARCHITECTURES" not in line or architecture in line):
                for name, value in re.findall(r"-D(\w+)=(\S+)", " ".join(words)):
                    options.setdefault(name, value)
                seen.add("cmake")
            elif program in {"python", "python3"} and len(words) > 1 and words[1] not in seen:
                seen.add(words[1])
                (after if arguments or "./" in seen else before).append(tuple(words[1:]))
            elif words[0].startswith("./") and "./" not in seen:
                seen.add("./")
                arguments = tuple(words[1:])
    return _steps(options, before, arguments, after)


def _steps(
    options: dict[str, str],
    before: Sequence[tuple[str, ...]],
    arguments: tuple[str, ...],
    after: Sequence[tuple[str, ...]],
) -> Steps:
    for name in ("CMAKE_ASC_RUN_MODE", "CMAKE_ASC_ARCHITECTURES"):  # a comment may name the other values
        options.pop(name, None)
    return Steps(options, tuple(before), arguments, tuple(after))


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
