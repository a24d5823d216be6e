"""Commands of the model engineer: convert, check, atc, run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opforge.codegen.spec.products import DEFAULT_SOC

from .options import DOMAIN, JSON, LOWER_TRAINING, PATTERNS, SOC, answer_file, file_argument, path_option

app = typer.Typer()


@app.command()
def convert(
    model: Annotated[Path, file_argument("IN", "ONNX model of opset 8 to 23.")],
    out: Annotated[
        Path,
        path_option("-o", "--output", metavar="OUT", text="The converted model: ONNX, or GE's own format for .air."),
    ],
    patterns: Annotated[bool, PATTERNS] = False,
    lower_training: Annotated[bool, LOWER_TRAINING] = False,
    opset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Version of ai.onnx for the result, 8 to 18; refused if a node has no counterpart in it."
            " Default: 18, or the model's own with a warning.",
        ),
    ] = None,
    domain: Annotated[str, DOMAIN] = "opforge",
    verify_numbers: Annotated[
        bool,
        typer.Option("--verify", help="Run both models on the same arrays; exit 1 without a model if they differ."),
    ] = False,
    report: Annotated[Path | None, path_option(metavar="R.html", text="Write the report as a page.")] = None,
    json_out: Annotated[Path | None, JSON] = None,
    optimizer: Annotated[
        Path | None,
        path_option(
            metavar="O.onnx",
            text="With --lower-training: the optimizer_model.onnx that onnxruntime-training wrote beside the model."
            " The result is a whole training step.",
        ),
    ] = None,
) -> None:
    """Rewrite the nodes of an ONNX model onto custom operators.

    If no rule matches, the output file is identical to the input file.
    """
    from opforge.frontend.io.limits import disable_gc, leave

    disable_gc()
    from opforge.frontend.commands import ConvertOptions, convert_command

    with answer_file(json_out) as answer:
        options = ConvertOptions(patterns, lower_training, opset, domain, verify_numbers, report, answer, optimizer)
        code = convert_command(model, out, options)
    leave(code)


@app.command()
def check(
    model: Annotated[Path, file_argument("MODEL", "ONNX model.")],
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Predict ATC's errors for a model.

    Prints one finding a line; exits with 1 if one of them is an error.
    """
    from opforge.frontend.io.limits import disable_gc, leave

    disable_gc()
    from opforge.frontend.targets.atc import check_command

    with answer_file(json_out) as answer:
        code = check_command(model, json_out=answer)
    leave(code)


@app.command()
def atc(
    model: Annotated[Path, file_argument("MODEL", "ONNX model.")],
    out: Annotated[
        Path | None,
        path_option("-o", "--output", metavar="NAME", text="Name of the .om; default: the name of the model."),
    ] = None,
    soc: Annotated[str, typer.Option(metavar="CHIP", help="Value of --soc_version.")] = DEFAULT_SOC,
    input_shape: Annotated[str, typer.Option(metavar="x:2,3;y:4", help="Sizes of inputs; default: the model's.")] = "",
    patterns: Annotated[bool, PATTERNS] = False,
    lower_training: Annotated[bool, LOWER_TRAINING] = False,
    opset: Annotated[
        int | None, typer.Option(metavar="N", help="Version of ai.onnx, 8 to 18; default: as convert.")
    ] = None,
    domain: Annotated[str, DOMAIN] = "opforge",
    more: Annotated[list[str] | None, typer.Option("--atc", metavar="OPTION", help="A further option of atc.")] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Convert a model, check it, and compile it with atc.

    Without a toolkit, print the command that compiles it on a machine that has one.
    """
    from opforge.frontend.commands import ConvertOptions
    from opforge.frontend.targets.atc import AtcOptions, atc_command

    name = out or model.parent / model.stem
    converted = name.parent / f"{name.name}_converted.onnx"
    options = ConvertOptions(patterns, lower_training, opset, domain)
    with answer_file(json_out) as answer:
        code = atc_command(model, converted, options, AtcOptions(soc, name, input_shape, more or (), answer))
    raise typer.Exit(code)


@app.command()
def run(
    model: Annotated[Path, file_argument("MODEL", "ONNX model.")],
    inputs: Annotated[
        Path | None,
        path_option(metavar="IN.npz", text="Arrays by input name; default: made-up arrays, the same in every run."),
    ] = None,
    outputs: Annotated[Path | None, path_option(metavar="OUT.npz", text="File for the results.")] = None,
    soc: Annotated[str, SOC] = DEFAULT_SOC,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also find uninitialised reads and races in kernels; slower.")
    ] = False,
    trace: Annotated[
        Path | None, path_option(metavar="T.json", text="Write the step as a trace for Chrome or Perfetto.")
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Execute a model, custom operators on the twin.

    Prints time estimates. All other nodes run on onnx's reference evaluator; large ones run on onnxruntime if it is
    installed.
    """
    from opforge.frontend.commands import RunOptions, run_command

    with answer_file(json_out) as answer:
        code = run_command(model, RunOptions(inputs, outputs, soc, strict, trace, answer))
    raise typer.Exit(code)
