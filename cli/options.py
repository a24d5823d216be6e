"""Define the options that commands share, and write JSON output."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os.path import isdir, lexists
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from opforge.codegen.errors import UserError
from opforge.codegen.printing import say, shown

# Accepted, but not shown in help texts.
OLD_NAMES = frozenset(("--out", "--report"))
# Compared by identity, because a file may also have this name.
STDOUT = Path("-")


class ReadsModel(TyperCommand):
    """A command that may read a model. It runs in a child process, which starts after the options are parsed."""

    def invoke(self, ctx: Any) -> Any:
        """Call the function of the command. The program sets `ctx.obj`; a caller in Python does not."""
        if ctx.obj and any(ctx.params.get(name) is not None for name in ("model", "inputs", "sources")):
            from opforge.frontend.limits import supervise

            supervise()
        return super().invoke(ctx)


def path_argument(text: str) -> Path:
    """Parse a path in an option or argument.

    Raises:
        typer.BadParameter: The text is empty or `-`.
    """
    if text == "-":
        raise typer.BadParameter("got '-', expected a path; write './-' for a file of that name")
    return _path_or_stdout(text)


def _path_or_stdout(text: str) -> Path:
    if not text:
        raise typer.BadParameter("got an empty path, expected the name of a file or folder")
    return STDOUT if text == "-" else Path(text)


def seconds(value: float) -> float:
    """Return the value of a time limit.

    Raises:
        typer.BadParameter: The value is no number.
    """
    if math.isnan(value):
        raise typer.BadParameter("got nan, expected a number of seconds")
    return value


def path_option(*names: str, metavar: str, text: str, **more: Any) -> Any:
    """Return an option whose value is a path."""
    return typer.Option(*names, metavar=metavar, help=text, parser=path_argument, **more)


def file_argument(metavar: str, text: str) -> Any:
    """Return an argument whose value is a path."""
    return typer.Argument(metavar=metavar, help=text, parser=path_argument)


JSON = typer.Option(
    "--json",
    metavar="[FILE|-]",
    help="Write the result as JSON to FILE (*.json), or to standard output for - or without FILE.",
    parser=_path_or_stdout,
)
# Two words in the metavar: the option takes two arguments.
CASE = typer.Option(
    "--case",
    metavar="NAME SYMBOL=SIZE,...",
    help="Add a case: a name, and the sizes of the shape symbols of the spec; may be repeated.",
)
SHAPE = typer.Option(metavar="name=4x8,...", help="Shapes of the inputs.")
ATTR = typer.Option(metavar="k=v", help="Value of an attribute; may be repeated.")
DTYPE = typer.Option(metavar="DTYPE", help="Dtype of the inputs that support it: fp16, bf16, fp32, ...")
EXECUTOR = typer.Option(metavar="local|dask:ADDRESS", help="Run the jobs on this machine (local) or on a dask cluster.")
STATE = path_option(
    metavar="FILE", text="Store results in FILE and skip finished jobs; default: a file in the build folder."
)
OP_SUFFIX = typer.Option(
    "--op-suffix", metavar="SUFFIX", help="Append SUFFIX to types, functions and files, for example Custom."
)
JOBS = typer.Option("-j", "--jobs", metavar="N", min=0, help="Number of parallel compilers; 0: one per core.")
LEVEL = typer.Option(
    "--level",
    metavar="LEVEL",
    help="Checks of the CPU twin: strict (all), device (only code that fails on a device) or fast.",
)
SOC = typer.Option("--soc", metavar="CHIP", help="Chip that the CPU twin emulates.")
OPS = typer.Option("--ops", metavar="A,B", help="Operator types, separated by commas; default: all.")
PATTERNS = typer.Option(
    "--patterns",
    help="Also match patterns of standard nodes: scatter-add, sums over groups, batch normalization backward.",
)
LOWER_TRAINING = typer.Option(
    "--lower-training",
    help="Also rewrite onnxruntime's training nodes as custom operators and standard operators.",
)
DOMAIN = typer.Option(
    "--domain",
    metavar="DOMAIN",
    help="Domain of custom nodes: opforge (with function bodies for other runtimes), npu (as torch_npu exports) or"
    " ai.onnx (for versions of ATC that accept only one domain, E16005).",
)


def with_json_values(arguments: Sequence[str], parameters: Iterable[Any]) -> list[str]:
    """Return the arguments of a command with these parameters, with a value after each `--json`.

    The next word is the value if it is `-`, ends in `.json`, or cannot be an argument.

    Raises:
        UserError: The next word can be the value, or the path of an argument that does not exist or is no folder.
    """
    names = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    words: list[str] = []
    for index, word in enumerate(arguments):
        words.append(word)
        if word == "--":
            return [*words, *arguments[index + 1 :]]
        if word == "--json":
            value = arguments[index + 1] if index + 1 < len(arguments) else "--"
            is_last = not names or (names[0].nargs == 1 and any(not word.startswith("-") for word in words[1:-1]))
            if value in ("", "-") or (not value.startswith("-") and (is_last or value.endswith(".json"))):
                continue
            words.append("-")
            is_path = bool(names) and getattr(names[0].type, "func", None) is path_argument
            exists = isdir if is_path and names[0].metavar == "DIR" else lexists
            if is_path and not value.startswith("-") and not exists(value):
                raise UserError(
                    f"--json: got {shown(value)}, expected a name that ends in .json, or an existing"
                    f" {names[0].metavar}; write {shown(f'--json={value}')} for a file with this name"
                )
    return words


def with_joined_values(arguments: Sequence[str], parameters: Iterable[Any]) -> list[str]:
    """Return the arguments with the two values of `--case` as one, because typer has no repeated option with two."""
    if all(parameter.metavar != CASE.metavar for parameter in parameters):
        return list(arguments)
    words: list[str] = []
    for word in arguments:
        is_second = words[-2:-1] == ["--case"] and " " not in words[-1] and not word.startswith("-")
        if is_second:
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def listed(text: str | None) -> list[str] | None:
    """Split a list with commas; return None for an absent option."""
    return text.split(",") if text else None


@contextmanager
def answer_file(path: Path | None) -> Iterator[Path | None]:
    """Yield the JSON file of a command that writes it itself; for `-`, redirect all other output to stderr."""
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
    """Yield the JSON object of a command, and write it at the end of the block."""
    from opforge.codegen.files import json_file, require_writable, write_files

    facts: dict[str, Any] = {}
    with answer_file(path) as file:
        if file is not None:
            require_writable(file, (), "answer")
        yield facts
        if file is not None:
            write_files([json_file(file, facts, "answer")])
