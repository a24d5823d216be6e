"""Run pages as programs: their files, changes of files, and commands with their output, in the order of the page.

A fence after a line "`path`:" is a file; with the language `diff`, it is a change of a file. A fence `console` contains
commands after `$ ` and their output, where `...` matches any text; `exit=N` after the word is the exit code of the
last.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opforge.twin.build import build_runtime

_FENCE = re.compile(
    r"(?:^(?:Save this file as|Change) `(?P<path>[\w./-]+)`:\n\n)?"
    r"^```(?P<language>\w+)(?: exit=(?P<code>\d))?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# build.sh starts these programs after it has created the environment.
THROUGH_BUILD_SH = {
    "bash build.sh --install-deps --run_example": "python examples/run_example.py",
    "bash build.sh --pkg": "opforge pack --output build_out",
}
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# A number of three digits, such as an estimate.
_NUMBER = re.compile(r"(?<![\w.])(?=(?:\d\.?){3}(?![\w.]))\d+\.\d+")


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page."""

    path: str | None
    language: str
    code: int
    text: str


@dataclass(frozen=True)
class Command:
    """A command, its output on the page, and the exit code."""

    text: str
    prints: str
    code: int


def fences(page: Path) -> list[Fence]:
    """Return all fenced blocks with a language."""
    found = _FENCE.finditer(page.read_text(encoding="utf-8"))
    return [Fence(m["path"], m["language"], int(m["code"] or 0), m["text"]) for m in found]


def commands(fence: Fence) -> Iterator[Command]:
    """Yield the commands of a console; only the last one may fail."""
    first, *parts = re.split(r"^\$ ", fence.text, flags=re.MULTILINE)
    assert first == "", f"got {first!r} before the first command"
    for number, part in enumerate(parts, 1):
        text, _, prints = part.partition("\n")
        yield Command(text, prints, fence.code if number == len(parts) else 0)


def _with_near_numbers(printed: str, page: str) -> str:
    """Replace estimates that differ by 1 in the last digit by those of the page: they depend on the threads."""
    wanted = _NUMBER.findall(page)
    if len(wanted) != len(_NUMBER.findall(printed)):
        return printed
    numbers = iter(wanted)

    def near(found: re.Match[str]) -> str:
        number = next(numbers)
        is_near = abs(int(found[0].replace(".", "")) - int(number.replace(".", ""))) <= 1
        return number if is_near and len(number) == len(found[0]) else found[0]

    return _NUMBER.sub(near, printed)


def follow(steps: list[Fence], folder: Path, run: Callable[[str, Path], tuple[int, str]]) -> int:
    """Follow the steps of a page, starting in `folder`; return the number of commands.

    Args:
        steps: Blocks of the page.
        folder: The folder of the first step.
        run: Runs a command in a folder; returns its exit code and its output.
    """
    place, count = folder, 0
    for fence in steps:
        if fence.language == "console":
            for command in commands(fence):
                count += 1
                if change := re.fullmatch(r"cd (\S+)", command.text):
                    place /= change[1]
                    continue
                code, printed = run(command.text, place)
                assert code == command.code, f"$ {command.text}\n{printed}"
                near = _with_near_numbers(printed, command.prints)
                same = doctest.OutputChecker().check_output(command.prints, near, _LENIENT)
                assert same, f"$ {command.text}\nprinted\n{printed}\nthe page says\n{command.prints}"
        elif fence.path is None:
            raise AssertionError(f"a block of {fence.language} without a file: {fence.text[:80]!r}")
        elif fence.language == "diff":
            _change(place / fence.path, fence.text)
        else:
            (place / fence.path).write_text(fence.text, encoding="utf-8")
    return count


def shell(command: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run a command for `follow`; return its exit code and its output."""
    result = subprocess.run(
        ["bash", "-c", f"exec 2>&1; {command}"],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout


def follow_in_clone(page: Path, home: Path) -> int:
    """Follow a page in the folder `home/clone`, which replaces a clone with its environment; see `follow`.

    Args:
        page: A page of this repository.
        home: An empty folder, the home folder of the reader.
    """
    build_runtime(report=lambda _line: None)  # otherwise the first command prints that the twin is compiled
    clone = home / "clone"
    clone.mkdir()
    (clone / "examples").symlink_to(Path(__file__).resolve().parents[2] / "examples")
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("ASCEND", "COLUMNS"))}
    variables |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home)}

    def run(command: str, folder: Path) -> tuple[int, str]:
        return shell(THROUGH_BUILD_SH.get(command, command.replace(".venv/bin/", "")), folder, variables)

    return follow(fences(page), clone, run)


def _change(file: Path, diff: str) -> None:
    lines = diff.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} has the lines of the diff {text.count(old)} times"
    file.write_text(text.replace(old, new), encoding="utf-8")
