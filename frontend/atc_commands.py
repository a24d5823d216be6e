"""Implement `opforge check` and `opforge atc`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from onnx import ModelProto

from opforge.codegen.data.products import soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, write_files
from opforge.codegen.printing import escaped, path_text, say, shown
from opforge.codegen.progress import progress
from opforge.frontend.io.load import SourceModel
from opforge.frontend.io.save import require_targets
from opforge.frontend.targets.check import check_model
from opforge.frontend.targets.finding import Finding

from .commands import ConvertOptions, convert_command
from .limits import claimed, limits_for
from .sources import load_source, path_of

_ONNX, _GE_IR = 5, 1
# A dim in `--input_shape`.
_SIZE = re.compile(r"-1|[0-9]+(~(-1|[0-9]+))?", re.ASCII)
# The name of a chip. atc knows chips for which opforge has no figures, such as Ascend310P3.
_CHIP = re.compile(r"Ascend[0-9]+[A-Z0-9_]\w*(-[0-9]+)?", re.ASCII)
# Maximum findings, and characters of each, on a terminal.
_LINES, _LINE_LENGTH = 1000, 1000
STDERR = 2


@dataclass(frozen=True)
class AtcOptions:
    """Options of `opforge atc`.

    Attributes:
        soc: `--soc_version`.
        output: Name of the .om without suffix.
        input_shape: Shapes in the form of atc; "" uses the shapes of the model.
        more: Options to pass to atc.
        json: File for findings, command and exit code.
    """

    soc: str
    output: Path
    input_shape: str = ""
    more: Sequence[str] = ()
    json: Path | None = None


def check_command(given: Path | SourceModel, *, json_out: Path | None) -> int:
    """Print the findings of a model, one per line; return 1 if one is an error, else 0.

    Raises:
        UserError: The model cannot be read.
    """
    model = path_of(given)
    with progress(f"reading {path_text(model)}"):
        source = load_source(given)
    if json_out is not None:
        require_targets(source, [(json_out, "report")])
    with claimed(path_text(model), limits_for(len(source.data))), progress(f"checking {path_text(model)}"):
        findings = check_model(source, os.environ)
    if json_out is not None:
        _write_json(json_out, model, findings)
    _print(model, findings)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _write_json(target: Path, model: Path, findings: Sequence[Finding], **more: object) -> None:
    facts = {"model": path_text(model), "findings": [asdict(finding) for finding in findings], **more}
    write_files([json_file(target, facts)])


def _print(model: Path, findings: Sequence[Finding]) -> None:
    for finding in findings[:_LINES]:
        text = escaped(str(finding))
        say(text if len(text) <= _LINE_LENGTH else f"{text[:_LINE_LENGTH]}...")
    if len(findings) > _LINES:
        say(f"... and {len(findings) - _LINES} more; check --json lists all")
    errors = sum(finding.level == "error" for finding in findings)
    counts = ((errors, "error"), (len(findings) - errors, "warning"))
    total = ", ".join(f"{count} {word}" if count == 1 else f"{count} {word}s" for count, word in counts)
    say(f"{path_text(model)}: {total}")


def atc_command(model: Path, converted: Path, convert_options: ConvertOptions, options: AtcOptions) -> int:
    """Convert and check a model, then run atc, or print its command line if atc is missing; return the exit code.

    Raises:
        UserError: The model or an option is wrong, or a dim is unknown.
    """
    if not _CHIP.fullmatch(options.soc):
        soc_properties(options.soc, "--soc")
    given = load_source(model)
    input_shape = _given_shapes(given.model, options.input_shape) if options.input_shape else _shapes(given.model)
    if options.json is not None:
        require_targets(given, [(converted, "model"), (options.json, "report")], carried=True)
    if code := convert_command(given, converted, convert_options):
        return code
    with progress(f"checking {path_text(converted)}"):
        source = load_source(converted)
        with claimed(path_text(converted), limits_for(len(source.data))):
            findings = check_model(source, os.environ)
    _print(converted, findings)
    command: list[str] | None = None
    status: int | None = None
    if is_fit := all(finding.level != "error" for finding in findings):
        command = atc_command_line(converted, input_shape, options)
        status = _run(command, is_answer_wanted=options.json is not None)
    if options.json is not None:
        _write_json(options.json, converted, findings, command=command, exit_code=status)
    return 0 if is_fit and not status else 1


def _run(command: Sequence[str], *, is_answer_wanted: bool) -> int | None:
    """Run atc and return its exit code, or None if atc is missing. Its output is not part of JSON on stdout."""
    say(shlex.join(command))
    if shutil.which("atc") is None:
        say("atc is not on PATH; source set_env.sh of a toolkit, then run the command above")
        return None
    return subprocess.run(command, stdout=STDERR if is_answer_wanted else None, check=False).returncode


def atc_command_line(path: Path, input_shape: str, options: AtcOptions) -> list[str]:
    """Return the atc command for a model. It sets ND, because the default NCHW would apply to custom operators."""
    return [
        "atc",
        f"--model={path}",
        f"--framework={_GE_IR if path.suffix == '.air' else _ONNX}",
        f"--output={options.output}",
        f"--soc_version={options.soc}",
        "--input_format=ND",
        *([f"--input_shape={input_shape}"] if input_shape else []),
        *options.more,
    ]


def _input_dims(model: ModelProto) -> dict[str, list[int] | None]:
    """Return the dims of the inputs, without initializers; -1 for an unknown dim, None for an unknown shape."""
    given = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: [dim.dim_value if dim.HasField("dim_value") else -1 for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape")
        else None
        for value in model.graph.input
        if value.name not in given
    }


def _given_shapes(model: ModelProto, text: str) -> str:
    """Check the given shapes against the inputs, and return the text unchanged.

    Raises:
        UserError: An entry names no input, or its shape does not fit.
    """
    inputs = _input_dims(model)
    seen: set[str] = set()
    for entry in text.split(";"):
        name, colon, sizes = entry.rpartition(":")
        place = f"--input-shape: {shown(entry)}"
        given = sizes.split(",") if sizes else []
        if not colon or not all(map(_SIZE.fullmatch, given)):
            raise UserError(f"{place}: expected 'name:2,3', where a size is a number, a range such as 1~8, or -1")
        if name not in inputs:
            known = ", ".join(shown(known) for known in list(inputs)[:9])
            raise UserError(f"{place}: the model has no input {shown(name)}, expected one of {known or 'none'}")
        if name in seen:
            raise UserError(f"{place}: got a second shape of {shown(name)}, expected one; remove it")
        seen.add(name)
        dims = inputs[name]
        if dims is not None and not _fits(given, dims):
            raise UserError(
                f"{place}: got {sizes or 'no sizes'}, expected {len(dims)} sizes that fit the shape {_text(dims)}"
            )
    for name, dims in inputs.items():
        if name not in seen and dims and min(dims) < 0:
            raise UserError(f"--input-shape: input {shown(name)} has the shape {_text(dims)}; add its sizes")
    return text


def _text(dims: Sequence[int]) -> str:
    return f"[{','.join('?' if dim < 0 else str(dim) for dim in dims)}]"


def _fits(sizes: Sequence[str], dims: Sequence[int]) -> bool:
    """Report whether the sizes equal the known dims."""
    return len(sizes) == len(dims) and all(dim < 0 or size == str(dim) for size, dim in zip(sizes, dims, strict=True))


def _shapes(model: ModelProto) -> str:
    """Return the shapes of all inputs except scalars, as `name:1,2;other:3`.

    Raises:
        UserError: A dim is unknown.
    """
    shapes = {name: dims or [] for name, dims in _input_dims(model).items()}
    for name, dims in shapes.items():
        if min(dims, default=0) < 0:
            raise UserError(
                f"--input-shape: input {shown(name)} has the shape {_text(dims)}; add its sizes:"
                f" --input-shape {shown(f'{name}:...')}"
            )
    return ";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items() if dims)
