"""The command line. Every command imports what it needs when it runs, so that `opforge --help` stays instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from opforge.codegen.spec.products import DEFAULT_SOC

from .errors import UserError
from .printing import first_line, path_text, say

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
_JSON = typer.Option("--json", help="Print the answer as JSON.")


def _path(text: str) -> Path:
    """The path in an option or argument."""
    if text == "-":
        raise typer.BadParameter("got '-', expected a path; './-' names a file '-', and only --json prints to stdout")
    return _path_or_stdout(text)


def _path_or_stdout(text: str) -> Path:
    """The path in an option for which `-` is standard output."""
    if not text:
        raise typer.BadParameter("got an empty path, expected the name of a file or folder")
    return Path(text)


_OP_SUFFIX = typer.Option("--op-suffix", help="End types, functions and files with it, as in Custom: to have both.")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"opforge {version('opforge')}")
        raise typer.Exit


@contextmanager
def _answer(path: Path | None) -> Iterator[Path | None]:
    """Where an answer in JSON is written: for `-`, a file that is printed at the end, and all else goes to stderr."""
    if path is None or str(path) != "-":
        yield path
        return
    from contextlib import redirect_stdout
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        with redirect_stdout(sys.stderr):
            yield answer
        if answer.exists():
            say(*answer.read_text(encoding="utf-8").splitlines())


@app.callback()
def _opforge(
    version: Annotated[  # answered by its callback
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Write, check and ship custom operators for Ascend NPUs from one specification.

    Exit codes: 0 ok, 1 a difference or a finding, 2 bad input, 3 a tool or toolkit is missing.
    """


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Operator type, as in LeakyClip.")],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Folder to make; default: the name, as in leaky_clip.", parser=_path),
    ] = None,
    starter: Annotated[
        str,
        typer.Option(help="Kernel to begin with: elementwise, row_reduction, segmented_reduction, scatter or gemm."),
    ] = "elementwise",
) -> None:
    """Make a project of your own with an operator that works."""
    from .new import new_command

    raise typer.Exit(new_command(name, folder, starter))


@app.command()
def generate(
    specs: Annotated[
        list[Path] | None, typer.Argument(metavar="SPEC", help="Specs; default: all of op_proto/.", parser=_path)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to; default: build/gen.", metavar="DIR", parser=_path)
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 with a diff if a file is stale.")
    ] = False,
    list_outputs: Annotated[
        bool, typer.Option("--list-outputs", help="Print the paths of all files and stop.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")] = False,
    op_suffix: Annotated[str, _OP_SUFFIX] = "",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Write every file that CANN needs of an operator, from its spec."""
    from .generate import generate_files

    raise typer.Exit(
        generate_files(
            specs or [],
            out=out,
            check=check,
            list_outputs=list_outputs,
            dry_run=dry_run,
            op_suffix=op_suffix,
            as_json=as_json,
        )
    )


@app.command()
def schema() -> None:
    """Print the JSON schema of specs, for editors."""
    import json

    from opforge.codegen.spec.model import OpSpec

    say(*json.dumps(OpSpec.model_json_schema(), indent=2).splitlines())


@app.command()
def build(
    soc: Annotated[str, typer.Option(help="SoC names, comma separated.")] = DEFAULT_SOC,
    ops: Annotated[str | None, typer.Option(help="Operator types, comma separated; default: all.")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=0, help="Compilers at once; 0: one per core.")] = 0,
    op_suffix: Annotated[str, _OP_SUFFIX] = "",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Generate, then compile host code and kernels for the CPU twin."""
    from opforge.twin.build import build_command

    chosen = ops.split(",") if ops else None
    raise typer.Exit(build_command(socs=soc.split(","), ops=chosen, jobs=jobs, op_suffix=op_suffix, as_json=as_json))


@app.command()
def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Kernel sources; default: all of op_kernel/.", parser=_path),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Find in kernels what only the device's compiler refuses."""
    from opforge.twin.kernel_lint import lint_command

    raise typer.Exit(lint_command(files or [], as_json=as_json))


@app.command()
def flags() -> None:
    """Print the compiler flags with which applications use the twin."""
    from opforge.twin.build import flags_command

    raise typer.Exit(flags_command())


@app.command()
def pack(
    context: typer.Context,
    soc: Annotated[
        str, typer.Option(help="SoC directories, comma separated; default: all products of the specs.")
    ] = "",
    ops: Annotated[str | None, typer.Option(help="Operator types, comma separated; default: all.")] = None,
    vendor_name: Annotated[
        str | None,
        typer.Option("--vendor-name", help="Vendor directory of the package; default: what pyproject.toml says."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the package; default: build_out.", metavar="DIR", parser=_path)
    ] = None,
    op_suffix: Annotated[str, _OP_SUFFIX] = "",
    cann: Annotated[
        Path | None,
        typer.Option(
            "--cann",
            metavar="DIR",
            envvar="ASCEND_HOME_PATH",
            help="CANN toolkit that builds libraries and kernels into the package (not run with a real toolkit).",
            parser=_path,
        ),
    ] = None,
    no_build: Annotated[bool, typer.Option("--no-build", help="Pack the sources only; they are built later.")] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=0, help="Compilers at once; 0: one per core.")] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Pack the operators into custom_opp_<os>_<arch>.run."""
    from opforge.package.pack import pack_command

    given = context.get_parameter_source("cann")
    if no_build and given is not None and given.name == "COMMANDLINE":
        raise UserError("got --no-build and --cann, expected one of them")
    socs, chosen = soc.split(",") if soc else None, ops.split(",") if ops else None
    toolkit = None if no_build else cann
    raise typer.Exit(
        pack_command(socs, chosen, vendor_name, out, op_suffix=op_suffix, toolkit=toolkit, jobs=jobs, as_json=as_json)
    )


@app.command()
def convert(
    model: Annotated[Path, typer.Argument(metavar="IN", help="ONNX model of opset 8 to 23.", parser=_path)],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The converted model: ONNX, or GE's own format for .air.",
            parser=_path,
        ),
    ],
    patterns: Annotated[
        bool,
        typer.Option(
            "--patterns",
            help="Also rewrite groups of standard nodes: scatters that add, sums over groups, batch normalisation"
            " backward written out.",
        ),
    ] = False,
    lower_training: Annotated[
        bool,
        typer.Option(
            "--lower-training",
            help="Also rewrite the training nodes of onnxruntime, onto operators of the project and standard ones.",
        ),
    ] = False,
    opset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Version of ai.onnx for the result, 8 to 18; refused, naming the node, if one has no counterpart."
            " Default: 18, or the model's own with a warning.",
        ),
    ] = None,
    domain: Annotated[
        str,
        typer.Option(
            help="Domain of our nodes: opforge, which runs everywhere by function bodies; npu, as torch_npu exports;"
            " ai.onnx, for versions of ATC that take one domain only (E16005)."
        ),
    ] = "opforge",
    verify_numbers: Annotated[
        bool,
        typer.Option("--verify", help="Run both models on the same arrays; exit 1, writing no model, if they differ."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="R.html", help="Write the report as a page.", parser=_path)
    ] = None,
    json_out: Annotated[
        Path | None,
        typer.Option("--json", metavar="R.json", help="Write the report as JSON; - prints it.", parser=_path_or_stdout),
    ] = None,
    optimizer: Annotated[
        Path | None,
        typer.Option(
            metavar="O.onnx",
            help="With --lower-training: the optimizer_model.onnx that onnxruntime-training wrote beside MODEL, to make"
            " a whole training step.",
            parser=_path,
        ),
    ] = None,
) -> None:
    """Rewrite the nodes of an ONNX model onto our operators.

    A model in which nothing is rewritten comes out byte for byte.
    """
    from opforge.frontend.io.limits import be_brief, leave

    be_brief()
    from opforge.frontend.commands import ConvertOptions, convert_command

    with _answer(json_out) as answer:
        options = ConvertOptions(patterns, lower_training, opset, domain, verify_numbers, report, answer, optimizer)
        code = convert_command(model, out, options)
    leave(code)


@app.command()
def check(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX model.", parser=_path)],
    json_out: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="R.json", help="Write the findings as JSON; - prints them.", parser=_path_or_stdout
        ),
    ] = None,
) -> None:
    """Say what ATC would say of a model, and what it would not.

    One finding a line; exit 1 if one of them is an error.
    """
    from opforge.frontend.io.limits import be_brief, leave

    be_brief()
    from opforge.frontend.targets.atc import check_command

    with _answer(json_out) as answer:
        code = check_command(model, json_out=answer)
    leave(code)


@app.command()
def atc(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX model.", parser=_path)],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="NAME", help="Name of the .om; default: that of MODEL.", parser=_path),
    ] = None,
    soc: Annotated[str, typer.Option(help="Value of --soc_version.")] = DEFAULT_SOC,
    input_shape: Annotated[str, typer.Option(metavar="x:2,3;y:4", help="Sizes of inputs; default: the model's.")] = "",
    patterns: Annotated[bool, typer.Option("--patterns", help="Also rewrite groups of standard nodes.")] = False,
    lower_training: Annotated[
        bool, typer.Option("--lower-training", help="Also rewrite the training nodes of onnxruntime.")
    ] = False,
    opset: Annotated[
        int | None, typer.Option(metavar="N", help="Version of ai.onnx, 8 to 18; default: as convert.")
    ] = None,
    domain: Annotated[str, typer.Option(help="Domain of our nodes: opforge, npu or ai.onnx.")] = "opforge",
    more: Annotated[list[str] | None, typer.Option("--atc", metavar="OPTION", help="A further option of atc.")] = None,
    json_out: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="R.json",
            help="Write findings, command and exit code as JSON; - prints them.",
            parser=_path_or_stdout,
        ),
    ] = None,
) -> None:
    """Convert a model, check it, and compile it with atc.

    Without a toolkit, it prints the command that compiles it on a machine that has one.
    """
    from opforge.frontend.commands import ConvertOptions
    from opforge.frontend.targets.atc import AtcOptions, atc_command

    name = out or model.parent / model.stem
    converted = name.parent / f"{name.name}_converted.onnx"
    options = ConvertOptions(patterns, lower_training, opset, domain)
    with _answer(json_out) as answer:
        code = atc_command(model, converted, options, AtcOptions(soc, name, input_shape, more or (), answer))
    raise typer.Exit(code)


@app.command()
def profile(
    op_type: Annotated[str, typer.Argument(metavar="OP", help="Operator type.")],
    shape: Annotated[list[str] | None, typer.Option(metavar="name=4x8,...", help="Shapes of the inputs.")] = None,
    attr: Annotated[list[str] | None, typer.Option(metavar="k=v", help="An attribute; may be repeated.")] = None,
    dtype: Annotated[str | None, typer.Option(help="dtype of the inputs that take it: fp16, bf16, fp32, ...")] = None,
    soc: Annotated[str, typer.Option(help="SoC that the twin plays.")] = DEFAULT_SOC,
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="IN.npz", help="Arrays by name, in place of a shape and made-up numbers.", parser=_path),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="T.json", help="Write a trace for Chrome or Perfetto.", parser=_path)
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="P.html", help="Write a page with charts.", parser=_path)] = None,
    json_out: Annotated[
        Path | None,
        typer.Option("--json", metavar="J", help="Write the figures as JSON; - prints them.", parser=_path_or_stdout),
    ] = None,
) -> None:
    """Estimate the time of an operator, and where it goes."""
    from opforge.frontend.io.arrays import load_within
    from opforge.twin.profile import profile_command

    with _answer(json_out) as answer:
        code = profile_command(
            op_type,
            shape or [],
            attr or [],
            dtype=dtype,
            soc=soc,
            given=inputs,
            load=load_within,
            trace=trace,
            html=html,
            json_out=answer,
        )
    raise typer.Exit(code)


@app.command()
def run(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX model.", parser=_path)],
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="IN.npz", help="Arrays by input name; default: made-up ones, the same in every run.", parser=_path
        ),
    ] = None,
    outputs: Annotated[Path | None, typer.Option(metavar="OUT.npz", help="Where the results go.", parser=_path)] = None,
    soc: Annotated[str, typer.Option(help="SoC that the twin plays.")] = DEFAULT_SOC,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also look for uninitialised reads and races in kernels; slower.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="T.json", help="Write the step as a trace for Chrome or Perfetto.", parser=_path),
    ] = None,
    json_out: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="R.json",
            help="Write types of results, estimates and bytes as JSON; - prints them.",
            parser=_path_or_stdout,
        ),
    ] = None,
) -> None:
    """Execute a model, our operators on the CPU twin with estimates.

    All other nodes run on the evaluator of onnx or, large ones, on onnxruntime if it is installed.
    """
    from opforge.frontend.commands import RunOptions, run_command

    with _answer(json_out) as answer:
        code = run_command(model, RunOptions(inputs, outputs, soc, strict, trace, answer))
    raise typer.Exit(code)


@app.command()
def doctor(
    soc: Annotated[str | None, typer.Option(help="Chip or SoC directory that the operators are to run on.")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Say which operators CANN's programs find, and name every fault.

    They are looked for as the variables of this shell say.
    """
    from opforge.package.doctor.command import doctor_command

    raise typer.Exit(doctor_command(soc, as_json=as_json))


@app.command()
def verify(
    package: Annotated[Path, typer.Argument(metavar="PKG", help="A .run file.", parser=_path)],
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Compare a package with its manifest; nothing in it is run."""
    from opforge.package.verify import verify_command

    raise typer.Exit(verify_command(package, as_json=as_json))


def main() -> None:
    """Run the command line; a user's mistake is one message on stderr, never a traceback."""
    from .streams import OutputError, guard_streams

    try:
        guard_streams()
        _run()
    except OutputError as error:
        from .files import written_text

        _stop(f"{error}{written_text()}", error.exit_code)
    except UserError as error:
        _stop(str(error), error.exit_code)
    except OSError as error:
        place = f"{path_text(Path(os.fsdecode(error.filename)))}: " if isinstance(error.filename, str | bytes) else ""
        _stop(f"{place}the system refused: {error.strerror or first_line(error)}", UserError.exit_code)


def _run() -> None:
    """Run the command in a process of its own, which ends when all that it printed is delivered."""
    from opforge.frontend.io.limits import supervise

    supervise()
    try:
        app()
    except SystemExit:
        sys.stdout.flush()
        sys.stderr.flush()
        raise


def _stop(message: str, exit_code: int) -> NoReturn:
    from .streams import print_error

    print_error(message)
    sys.exit(exit_code)
