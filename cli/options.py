"""Options and arguments that commands share, and where an answer in JSON goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from opforge.codegen.printing import say

# Compared by identity: a file may have this name too.
STDOUT = Path("-")


def path_argument(text: str) -> Path:
    """The path in an option or argument.

    Raises:
        typer.BadParameter: The text is empty, or `-`, which is no file.
    """
    if text == "-":
        raise typer.BadParameter("got '-', expected a path; './-' names a file '-', and only --json prints to stdout")
    return _path_or_stdout(text)


def _path_or_stdout(text: str) -> Path:
    if not text:
        raise typer.BadParameter("got an empty path, expected the name of a file or folder")
    return STDOUT if text == "-" else Path(text)


def path_option(*names: str, metavar: str, text: str, **more: Any) -> Any:
    """An option that takes a path."""
    return typer.Option(*names, metavar=metavar, help=text, parser=path_argument, **more)


def file_argument(metavar: str, text: str) -> Any:
    """An argument that is a path."""
    return typer.Argument(metavar=metavar, help=text, parser=path_argument)


JSON = typer.Option(
    "--json",
    metavar="[FILE|-]",
    help="Write the answer as JSON to FILE; without FILE, or for -, print it.",
    parser=_path_or_stdout,
)
OP_SUFFIX = typer.Option("--op-suffix", help="End types, functions and files with this text, as in Custom.")
JOBS = typer.Option("-j", "--jobs", min=0, help="Compilers at once; 0: one per core.")
SOC = typer.Option("--soc", metavar="CHIP", help="Chip that the CPU twin emulates.")
OPS = typer.Option("--ops", metavar="A,B", help="Operator types, comma separated; default: all.")
PATTERNS = typer.Option(
    "--patterns",
    help="Also rewrite groups of standard nodes: scatters that add, sums over groups, batch normalization backward.",
)
LOWER_TRAINING = typer.Option(
    "--lower-training",
    help="Also rewrite onnxruntime's training nodes as operators of the project and standard ones.",
)
DOMAIN = typer.Option(
    "--domain",
    help="Domain of custom nodes: opforge (runs everywhere through function bodies), npu (as torch_npu exports) or"
    " ai.onnx (for versions of ATC that accept one domain only, E16005).",
)


def with_json_values(arguments: Sequence[str], takes_files: Sequence[str]) -> list[str]:
    """The arguments of the command line, each `--json` with a value.

    Args:
        arguments: The arguments, the command first.
        takes_files: Commands whose arguments are files that already exist, which `--json` must not take for its own:
            behind it, only `-` and names that end in `.json` are its value.
    """
    is_careful = any(word in takes_files for word in arguments[:1])
    words = []
    for index, word in enumerate(arguments):
        words.append(word)
        if word == "--":
            return [*words, *arguments[index + 1 :]]
        if word == "--json":
            value = arguments[index + 1] if index + 1 < len(arguments) else None
            is_value = value is not None and (value == "-" or not value.startswith("-"))
            if not is_value or (is_careful and value not in ("", "-") and not str(value).endswith(".json")):
                words.append("-")
    return words


def listed(text: str | None) -> list[str] | None:
    """The parts of a comma list; None for an absent option."""
    return text.split(",") if text else None


@contextmanager
def answer_file(path: Path | None) -> Iterator[Path | None]:
    """The file for a command that writes its answer itself; for `-`, all other output goes to stderr."""
    if path is not STDOUT:
        yield path
        return
    from contextlib import redirect_stdout
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder, "answer.json")
        with redirect_stdout(sys.stderr):
            yield file
        if file.exists():
            say(*file.read_text(encoding="utf-8").splitlines())


@contextmanager
def answering(path: Path | None) -> Iterator[dict[str, Any]]:
    """The answer of a command, to be filled; it is written or printed when it is complete."""
    from opforge.codegen.files import json_file, require_writable, write_files

    facts: dict[str, Any] = {}
    with answer_file(path) as file:
        if file is not None:
            require_writable(file, (), "answer")
        yield facts
        if file is not None:
            write_files([json_file(file, facts, "answer")])
