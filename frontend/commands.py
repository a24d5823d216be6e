"""Implement `opforge convert` and `opforge run`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opforge.codegen.data.products import DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, file_size, json_file, write_files
from opforge.codegen.printing import path_text, say
from opforge.codegen.progress import progress
from opforge.frontend.io.load import MAX_MODEL_BYTES, SourceModel
from opforge.frontend.io.save import require_targets, serialized
from opforge.frontend.ir.op_names import OPFORGE_DOMAIN

from .conversion import Conversion, PassTimes
from .limits import claimed, limits_for
from .pipeline import convert
from .save import Output, save
from .sources import load_source, path_of

if TYPE_CHECKING:
    from opforge.frontend.run.comparison import Comparison


@dataclass(frozen=True)
class ConvertOptions:
    """Options of `opforge convert`.

    Attributes:
        patterns: Whether to match patterns of standard nodes.
        lower_training: Whether to rewrite training nodes of onnxruntime.
        opset: Version of ai.onnx for the result; None selects it automatically.
        domain: Domain of custom nodes.
        verify: Whether to run both models and compare their outputs.
        html: File for the HTML report.
        json: File for the JSON report.
        optimizer: File of the optimizer graph to join to the model.
        bodies: Whether `verify` runs ONNX bodies instead of kernels.
    """

    patterns: bool = False
    lower_training: bool = False
    opset: int | None = None
    domain: str = OPFORGE_DOMAIN
    verify: bool = False
    html: Path | None = None
    json: Path | None = None
    optimizer: Path | None = None
    bodies: bool = False

    def command(self, model: Path, out: Path) -> str:
        """Return the command line with these options."""
        flags = {"--patterns": self.patterns, "--lower-training": self.lower_training, "--verify": self.verify}
        flags["--bodies"] = self.bodies
        domain = None if self.domain == OPFORGE_DOMAIN else self.domain
        values = {"--opset": self.opset, "--domain": domain, "--html": self.html}
        values["--optimizer"] = self.optimizer
        words = ["opforge", "convert", str(model), "-o", str(out), *(flag for flag, is_set in flags.items() if is_set)]
        words += [word for flag, value in values.items() if value is not None for word in (flag, str(value))]
        return shlex.join(words)


def convert_command(given: Path | SourceModel, out: Path, options: ConvertOptions) -> int:
    """Convert a model, print the report; return the exit code.

    Raises:
        UserError: The model, an option or a path is wrong; nothing was written.
    """
    if options.optimizer is not None and not options.lower_training:
        raise UserError("--optimizer: got no --lower-training, expected both; add --lower-training")
    if options.bodies and not options.verify:
        raise UserError("--bodies: got no --verify, expected both; add --verify")
    times = PassTimes()
    model = path_of(given)
    with progress(f"reading {path_text(model)}"):
        source = times.run("load", load_source, given)
    optimizer = None if options.optimizer is None else load_source(options.optimizer)
    others = ((options.json, "report"), (options.html, "page"))
    targets = [(out, "model"), *((path, what) for path, what in others if path)]
    is_air = out.suffix == ".air"
    require_targets(source, targets, *(optimizer.files if optimizer else ()), carried=not is_air)
    if is_air and source.size > MAX_MODEL_BYTES:
        raise UserError(
            f"{path_text(out)}: the model and its external data have {source.size} bytes, expected at most"
            f" {MAX_MODEL_BYTES} for an .air file; convert it to .onnx"
        )
    size = source.size if options.verify or is_air else len(source.data)
    with claimed(path_text(model), limits_for(size, is_run=options.verify), size):
        if optimizer is not None:
            source = _with_optimizer(source, optimizer)
        return _convert(source, out, options, times)


def _with_optimizer(source: SourceModel, optimizer: SourceModel) -> SourceModel:
    try:
        from opforge.frontend.training.training_step import training_step
    except ModuleNotFoundError as error:
        raise UserError(
            "--optimizer: the package opforge.frontend.training is missing; install opforge again"
        ) from error

    step = training_step(source.model, optimizer.model, path_text(source.path))
    return SourceModel(source.path, serialized(step, path_text(source.path)), step, source.external)


def _convert(source: SourceModel, out: Path, options: ConvertOptions, times: PassTimes) -> int:
    comparisons = None
    with progress(f"converting {path_text(source.path)}"):
        conversion = convert(
            source,
            patterns=options.patterns,
            lower_training=options.lower_training,
            opset=options.opset,
            domain=options.domain,
        )
    times.add(conversion.passes)
    if options.verify:
        from opforge.frontend.report.console import print_comparisons
        from opforge.frontend.run.verify import verify_within

        with progress(f"verifying {path_text(source.path)}"):
            comparisons = verify_within(source, conversion, run_kernels=not options.bodies)
        print_comparisons(comparisons)
    outputs = [entry for entry in comparisons or () if not entry.op]
    differs = any(entry.same is False for entry in comparisons or ())

    def reports(size: int | None) -> list[NewFile]:
        return _reports(source, conversion, comparisons, options, out, size, times)

    with progress(f"writing {path_text(out)}"):
        times.run("save", save, Output(source, conversion, out, differs, reports))
    if not conversion.is_empty:
        from opforge.frontend.report.console import print_conversion

        print_conversion(conversion)
    say(conversion.summary())
    if unknown := sum(entry.same is None for entry in outputs):
        say(f"outputs not compared (no finite elements): {unknown} of {len(outputs)}")
    if differs:
        count = sum(entry.same is False for entry in outputs)
        say(f"outputs that differ: {count} of {len(outputs)}; no model was written")
    if options.html is not None:
        say(f"report: {path_text(options.html)}")
    return int(differs)


def _reports(
    source: SourceModel,
    conversion: Conversion,
    comparisons: Sequence[Comparison] | None,
    options: ConvertOptions,
    out: Path,
    size: int | None,
    times: PassTimes,
) -> list[NewFile]:
    """Return the requested files beside the model, which has `size` bytes; None if it is not written."""
    reports = []
    if (target := options.json) is not None:
        compared = {}
        if comparisons is not None:
            compared["verified"] = [entry.report() for entry in comparisons if not entry.op]
            compared["verified_nodes"] = [entry.report() for entry in comparisons if entry.op]

        def report() -> NewFile:
            timed = replace(conversion, passes=times.entries())
            return json_file(target, timed.report() | compared)

        # Created when it is written, after the model, so that it contains the time of saving the model.
        reports.append(NewFile(target, lambda file: report().fill(file), "report"))
    if options.html is not None:
        from opforge.frontend.report.page import Command, report_page

        command = Command(options.command(source.path, out), size)
        page = report_page(source, conversion, comparisons, command).encode()
        reports.append(NewFile(options.html, lambda file: file.write(page), "page"))
    return reports


@dataclass(frozen=True)
class RunOptions:
    """Options of `opforge run`.

    Attributes:
        inputs: Arrays by input name; None for generated ones.
        outputs: File for the outputs.
        soc: SoC that the twin emulates.
        level: Checks of the twin: strict, device or fast.
        trace: File for the trace.
        json: File for the JSON report.
    """

    inputs: Path | None = None
    outputs: Path | None = None
    soc: str = DEFAULT_SOC
    level: str = "fast"
    trace: Path | None = None
    json: Path | None = None


def run_command(given: Path | SourceModel, options: RunOptions) -> int:
    """Run a model, print its outputs and the estimated times; return the exit code.

    Raises:
        UserError: The model, the arrays, the SoC or a path is unusable; nothing was written.
    """
    soc_properties(options.soc, "--soc")
    model = path_of(given)
    with progress(f"reading {path_text(model)}"):
        source = load_source(given)
    named = ((options.outputs, "outputs"), (options.json, "report"), (options.trace, "trace"))
    targets = [(target, what) for target, what in named if target is not None]
    require_targets(source, targets, *([options.inputs] if options.inputs else []))
    size = source.size + (file_size(options.inputs, "inputs") if options.inputs else 0)
    with claimed(path_text(model), limits_for(size, is_run=True), source.size):
        return _run(source, options)


def _run(source: SourceModel, options: RunOptions) -> int:

    from opforge.frontend.io.arrays import arrays_file
    from opforge.frontend.report.console import print_outputs, print_step
    from opforge.frontend.run.custom_nodes import TwinMode
    from opforge.frontend.run.execute import run_model
    from opforge.frontend.run.ort_offload import LargeNodes
    from opforge.frontend.run.step_time import step_time
    from opforge.twin import FindingsError

    arrays, where = _run_inputs(source, options.inputs)
    mode, large = TwinMode(options.level, options.trace is not None), LargeNodes()
    try:
        execution = run_model(
            source.model,
            arrays,
            soc=options.soc,
            folder=source.path.parent,
            where=where,
            mode=mode,
            keep_values=True,
            large=large,
        )
    except FindingsError as findings:
        say(*str(findings).splitlines(), err=True)
        return 1
    step = step_time(source.model, execution, options.soc)
    files = [] if options.outputs is None else [arrays_file(options.outputs, execution.outputs)]
    if options.trace is not None:
        files.append(json_file(options.trace, step.trace(), "trace", indent=None))
    if options.json is not None:
        files.append(json_file(options.json, {"outputs": _types(execution.outputs), **step.report()}))
    write_files(files)
    print_outputs(execution.outputs)
    print_step(step)
    if large.ran:
        say(f"large nodes run by onnxruntime: {large.ran}")
    return 0


def _run_inputs(source: SourceModel, path: Path | None) -> tuple[Mapping[str, Any], str]:
    """Return the arrays of a run, and their place in messages."""
    from opforge.frontend.io.arrays import input_types, load_arrays

    if path is not None:
        return load_arrays(path, input_types(source.model)), path_text(path)
    from opforge.frontend.run.sample_inputs import sample_inputs

    return sample_inputs(source.model, convert(source)), "generated inputs"


def _types(outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": str(array.dtype), "shape": list(array.shape)} for name, array in outputs.items()]
