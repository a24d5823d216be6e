"""Define the commands of the model engineer: convert, check, atc, run."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from opforge.codegen.data.products import DEFAULT_SOC
from opforge.codegen.errors import UserError, not_installed
from opforge.codegen.printing import path_text

from .options import (
    DOMAIN,
    JSON,
    LEVEL,
    LOWER_TRAINING,
    PATTERNS,
    SOC,
    ReadsModel,
    answer_file,
    file_argument,
    path_option,
)

if TYPE_CHECKING:
    from opforge.frontend.io.load import SourceModel

app = typer.Typer()
_GRAPH = "a graph of GE, CANN's graph engine (.air, .pbtxt, .txt)"
_MODEL = f"ONNX model, an exported program of PyTorch (.pt2), or {_GRAPH}."


def _torch_programs(command: str) -> ModuleType:
    """Return the module for `.pt2` files.

    Raises:
        MissingToolError: PyTorch is not installed.
    """
    try:
        from opforge.torch import program
    except ModuleNotFoundError as error:
        raise not_installed(command, "PyTorch", "files *.pt2", "pip install 'opforge[torch]'") from error
    return program


def read_program(model: Path, command: str) -> Path | SourceModel:
    """Return a `.pt2` file as an ONNX model, or the path of another file."""
    if model.suffix != ".pt2":
        return model
    source: SourceModel = _torch_programs(command).program_source(model)
    return source


def _check_output(model: Path, out: Path) -> None:
    from opforge.frontend.sources import GE_SUFFIXES

    is_text = GE_SUFFIXES.get(out.suffix)
    if is_text or (out.suffix == ".pt2" and model.suffix != ".pt2"):
        got = "text file" if is_text else ".pt2 file"
        raise UserError(f"{path_text(out)}: got a {got} for {path_text(model)}, expected .onnx or .air; rename it")


@app.command(cls=ReadsModel)
def convert(
    model: Annotated[
        Path,
        file_argument(
            "MODEL",
            f"ONNX model of opset 8 to 23, an exported program of PyTorch (.pt2), or {_GRAPH}.",
        ),
    ],
    out: Annotated[
        Path,
        path_option(
            "-o", "--output", metavar="OUT", text="Output file: ONNX, GE's format if the name ends in .air, or .pt2."
        ),
    ],
    patterns: Annotated[bool, PATTERNS] = False,
    lower_training: Annotated[bool, LOWER_TRAINING] = False,
    opset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Version of ai.onnx for the result, 8 to 18; each node must have an equivalent in this version."
            " Default: 18. If a node has no equivalent in 18, the model keeps its version.",
        ),
    ] = None,
    domain: Annotated[str, DOMAIN] = "opforge",
    verify_numbers: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run both models on the same inputs, with kernels on the CPU twin; exit 1 and write no model if any"
            " result differs.",
        ),
    ] = False,
    bodies: Annotated[
        bool,
        typer.Option(
            "--bodies", help="With --verify: run ONNX function bodies instead of kernels, without a compiler."
        ),
    ] = False,
    html: Annotated[
        Path | None, path_option("--html", "--report", metavar="R.html", text="Write the report as an HTML page.")
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
    optimizer: Annotated[
        Path | None,
        path_option(
            metavar="O.onnx",
            text="With --lower-training: join the optimizer_model.onnx of onnxruntime-training to the model."
            " The result is a complete training step.",
        ),
    ] = None,
) -> None:
    """Rewrite a model to use custom operators, and adapt it to ATC.

    If no rule matches, the output file is identical to the input file.
    """
    from opforge.frontend.limits import disable_gc, leave

    disable_gc()
    from opforge.frontend.commands import ConvertOptions, convert_command

    _check_output(model, out)
    if model.suffix == ".pt2":
        if lower_training or opset or domain != "opforge" or verify_numbers or bodies or html or optimizer:
            raise UserError(
                f"{path_text(model)}: got a .pt2 file with options of ONNX models, expected only -o, --patterns and"
                " --json; write an ONNX model first, then convert it with these options"
            )
        with answer_file(json_out) as answer:
            code = _torch_programs("convert").convert_program(model, out, patterns=patterns, report=answer)
        leave(code)
    with answer_file(json_out) as answer:
        options = ConvertOptions(
            patterns, lower_training, opset, domain, verify_numbers, html, answer, optimizer, bodies
        )
        code = convert_command(model, out, options)
    leave(code)


@app.command(cls=ReadsModel)
def check(
    model: Annotated[Path, file_argument("MODEL", _MODEL)],
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Predict errors of ATC, CANN's model compiler.

    The command prints one error or warning per line. It exits with 1 if there is an error.
    """
    from opforge.frontend.limits import disable_gc, leave

    disable_gc()
    from opforge.frontend.atc_commands import check_command

    with answer_file(json_out) as answer:
        code = check_command(read_program(model, "check"), json_out=answer)
    leave(code)


@app.command(cls=ReadsModel)
def atc(
    model: Annotated[Path, file_argument("MODEL", f"ONNX model, or {_GRAPH}.")],
    out: Annotated[
        Path | None,
        path_option(
            "-o",
            "--output",
            metavar="NAME",
            text="Name of the output file without .om; default: the name of the model.",
        ),
    ] = None,
    soc: Annotated[
        str, typer.Option("--soc", "--soc_version", metavar="CHIP", help="Value of --soc_version of atc.")
    ] = DEFAULT_SOC,
    input_shape: Annotated[
        str, typer.Option(metavar="x:2,3;y:4", help="Shapes of inputs; default: the shapes in the model.")
    ] = "",
    patterns: Annotated[bool, PATTERNS] = False,
    lower_training: Annotated[bool, LOWER_TRAINING] = False,
    opset: Annotated[
        int | None, typer.Option(metavar="N", help="Version of ai.onnx, 8 to 18; default: as for convert.")
    ] = None,
    domain: Annotated[str, DOMAIN] = "opforge",
    more: Annotated[
        list[str] | None, typer.Option("--atc", metavar="OPTION", help="Option to pass to atc; may be repeated.")
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Convert a model, check it, and compile it with atc.

    Without a toolkit, the command prints the atc command line for a machine with a toolkit.
    """
    from opforge.frontend.atc_commands import AtcOptions, atc_command
    from opforge.frontend.commands import ConvertOptions
    from opforge.frontend.sources import GE_SUFFIXES

    name = out or model.parent / model.stem
    converted = name.parent / f"{name.name}_converted{'.air' if model.suffix in GE_SUFFIXES else '.onnx'}"
    options = ConvertOptions(patterns, lower_training, opset, domain)
    with answer_file(json_out) as answer:
        code = atc_command(model, converted, options, AtcOptions(soc, name, input_shape, more or (), answer))
    raise typer.Exit(code)


@app.command(cls=ReadsModel)
def run(
    model: Annotated[Path, file_argument("MODEL", _MODEL)],
    inputs: Annotated[
        Path | None,
        path_option(metavar="IN.npz", text="Arrays by input name; default: generated arrays with a fixed seed."),
    ] = None,
    outputs: Annotated[Path | None, path_option(metavar="OUT.npz", text="Write the outputs as arrays.")] = None,
    soc: Annotated[str, SOC] = DEFAULT_SOC,
    level: Annotated[str, LEVEL] = "fast",
    trace: Annotated[
        Path | None, path_option(metavar="T.json", text="Write the step as a trace for Chrome or Perfetto.")
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Run a model; custom operators run on the CPU twin.

    The command prints outputs and time estimates. Other nodes run on onnx's reference evaluator. Large nodes run on
    onnxruntime if it is installed.
    """
    from opforge.frontend.commands import RunOptions, run_command
    from opforge.twin.compiler.npu_model import require_level

    require_level(level, "--level")
    with answer_file(json_out) as answer:
        code = run_command(read_program(model, "run"), RunOptions(inputs, outputs, soc, level, trace, answer))
    raise typer.Exit(code)
