"""`opforge check` and `opforge atc`: from a model to the command that compiles it."""

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

from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, write_files
from opforge.codegen.printing import escaped, path_text, say, shown
from opforge.frontend.commands import ConvertOptions, convert_command
from opforge.frontend.io.limits import claimed, limits_for
from opforge.frontend.io.load import load_model
from opforge.frontend.io.progress import progress
from opforge.frontend.io.save import require_targets

from .check import Finding, check_model

_ONNX, _GE_IR = 5, 1
# A dim in `--input_shape`.
_SIZE = re.compile(r"-1|[0-9]+(~(-1|[0-9]+))?", re.ASCII)
# Findings, and letters of each, that somebody reads on a terminal.
_LINES, _LINE_LENGTH = 1000, 1000
STDERR = 2


@dataclass(frozen=True)
class AtcOptions:
    """What the model is compiled for.

    Attributes:
        soc: `--soc_version`.
        output: Name of the .om without suffix.
        input_shape: Shapes in atc's form; "" takes what the model says.
        more: Further options, passed on as they are.
        json: Where findings, command and its exit code go.
    """

    soc: str
    output: Path
    input_shape: str = ""
    more: Sequence[str] = ()
    json: Path | None = None


def check_command(model: Path, *, json_out: Path | None) -> int:
    """Print the findings of a model, one a line; 1 when one is an error, else 0.

    Raises:
        UserError: The model is unusable.
    """
    with progress(f"reading {path_text(model)}"):
        source = load_model(model)
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
        say(f"... and {len(findings) - _LINES} more; check --json has all of them")
    errors = sum(finding.level == "error" for finding in findings)
    counts = ((errors, "error"), (len(findings) - errors, "warning"))
    total = ", ".join(f"{count} {word}" if count == 1 else f"{count} {word}s" for count, word in counts)
    say(f"{path_text(model)}: {total}")


def atc_command(model: Path, converted: Path, convert_options: ConvertOptions, options: AtcOptions) -> int:
    """Convert, check, then run atc, or print its command line where there is none; return the exit code.

    Raises:
        UserError: The model or an option is unusable, or a dim has no size.
    """
    if options.json is not None:
        require_targets(load_model(model), [(converted, "model"), (options.json, "report")], carried=True)
    if code := convert_command(model, converted, convert_options):
        return code
    with progress(f"checking {path_text(converted)}"):
        source = load_model(converted)
        with claimed(path_text(converted), limits_for(len(source.data))):
            findings = check_model(source, os.environ)
    _print(converted, findings)
    command: list[str] | None = None
    status: int | None = None
    if is_fit := all(finding.level != "error" for finding in findings):
        command = atc_command_line(source.model, converted, options)
        status = _run(command, is_answer_wanted=options.json is not None)
    if options.json is not None:
        _write_json(options.json, converted, findings, command=command, exit_code=status)
    return 0 if is_fit and not status else 1


def _run(command: Sequence[str], *, is_answer_wanted: bool) -> int | None:
    """The exit code of atc, None where it is not; what it prints is no part of an answer on stdout."""
    say(shlex.join(command))
    if shutil.which("atc") is None:
        say("atc is not on PATH: run this where a toolkit is installed and its set_env.sh is sourced")
        return None
    return subprocess.run(command, stdout=STDERR if is_answer_wanted else None, check=False).returncode


def atc_command_line(model: ModelProto, path: Path, options: AtcOptions) -> list[str]:
    """The command that compiles a model; ND, because a default of NCHW would spread into our operators.

    Raises:
        UserError: The shapes that were given are none of the inputs', or an input has a dim without a size.
    """
    shapes = _given_shapes(model, options.input_shape) if options.input_shape else _shapes(model)
    return [
        "atc",
        f"--model={path}",
        f"--framework={_GE_IR if path.suffix == '.air' else _ONNX}",
        f"--output={options.output}",
        f"--soc_version={options.soc}",
        "--input_format=ND",
        *([f"--input_shape={shapes}"] if shapes else []),
        *options.more,
    ]


def _input_dims(model: ModelProto) -> dict[str, list[int] | None]:
    """Dims of the inputs that have to be fed, -1 for one without a size; None for an input without a shape."""
    given = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: [dim.dim_value if dim.HasField("dim_value") else -1 for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.HasField("shape")
        else None
        for value in model.graph.input
        if value.name not in given
    }


def _given_shapes(model: ModelProto, text: str) -> str:
    """The text itself, when every entry is that of an input and every size one that the model allows.

    Raises:
        UserError: It is not; the first entry that is wrong.
    """
    inputs = _input_dims(model)
    seen: set[str] = set()
    for entry in text.split(";"):
        name, colon, sizes = entry.rpartition(":")
        place = f"--input-shape: {shown(entry)}"
        given = sizes.split(",") if sizes else []
        if not colon or not all(map(_SIZE.fullmatch, given)):
            raise UserError(f"{place}: expected 'name:2,3'; a size is a number, a span such as 1~8, or -1")
        if name not in inputs:
            known = ", ".join(shown(known) for known in list(inputs)[:9])
            raise UserError(f"{place}: the model has no input {shown(name)}, expected one of {known or 'none'}")
        if name in seen:
            raise UserError(f"{place}: gives {shown(name)} a second shape, expected one")
        seen.add(name)
        dims = inputs[name]
        if dims is not None and not _fits(given, dims):
            raise UserError(
                f"{place}: the input has the shape {_text(dims)}; give {len(dims)} sizes that agree with it"
            )
    for name, dims in inputs.items():
        if name not in seen and dims and min(dims) < 0:
            raise UserError(f"--input-shape: input {shown(name)} has the shape {_text(dims)}; give its sizes too")
    return text


def _text(dims: Sequence[int]) -> str:
    return f"[{','.join('?' if dim < 0 else str(dim) for dim in dims)}]"


def _fits(sizes: Sequence[str], dims: Sequence[int]) -> bool:
    """Whether sizes are those that a model has, where it has some."""
    return len(sizes) == len(dims) and all(dim < 0 or size == str(dim) for size, dim in zip(sizes, dims, strict=True))


def _shapes(model: ModelProto) -> str:
    """`name:1,2;other:3` of the inputs; scalars need none.

    Raises:
        UserError: A dim has no size.
    """
    shapes = {name: dims or [] for name, dims in _input_dims(model).items()}
    for name, dims in shapes.items():
        if min(dims, default=0) < 0:
            raise UserError(
                f"--input-shape: input {shown(name)} has the shape {_text(dims)}; give its sizes:"
                f" --input-shape {shown(f'{name}:...')}"
            )
    return ";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items() if dims)
