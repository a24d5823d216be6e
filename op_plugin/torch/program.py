"""Convert exported programs of PyTorch, `.pt2` files."""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, json_file, write_files
from opforge.codegen.printing import first_line, path_text, say, shown
from opforge.frontend.io.archive import check_program_archive
from opforge.frontend.io.load import SourceModel
from opforge.frontend.io.save import serialized

from .graph_rewrite import rewrite
from .onnx_export import export_onnx

# The environment variable of PyTorch that sets weights_only for all calls of torch.load.
_TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of PyTorch, which repeat errors with tracebacks or name packages that are not in use."""
    loggers = [logging.getLogger(name) for name in ("torch.export", "torch.onnx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _without_pickle() -> Iterator[None]:
    """Let PyTorch read tensors only: other objects can execute code."""
    before = os.environ.get(_TENSORS_ONLY)
    os.environ[_TENSORS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TENSORS_ONLY]
        else:
            os.environ[_TENSORS_ONLY] = before


def load_program(path: Path) -> Any:
    """Load an exported program.

    Raises:
        UserError: The file is not an exported program, or contains other objects than tensors.
    """
    check_program_archive(path)
    try:
        with _quiet(), _without_pickle():
            program = torch.export.load(path)
    except Exception as error:  # torch raises errors of many types for broken archives
        # PyTorch refers to warnings about other versions of the format.
        reason = "" if "warnings above" in str(error) else f" {shown(first_line(error))},"
        raise UserError(
            f"{path_text(path)}: got{reason or ' another archive,'} expected an exported program of this PyTorch"
            f" ({torch.__version__}) with tensors only; write it with torch.export.save"
        ) from error
    given = program.example_inputs
    if given is not None and not (isinstance(given, tuple) and [*map(type, given)] == [tuple, dict]):
        raise UserError(
            f"{path_text(path)}: got sample inputs of another form, expected arguments and named arguments; write it"
            " with torch.export.save"
        )
    return program


def program_source(path: Path) -> SourceModel:
    """Read an exported program as the ONNX model that `convert_program` writes.

    Raises:
        UserError: The file is not a program, or it has a function without a translation to ONNX.
    """
    program = load_program(path)
    rewrite(program)
    with _quiet():
        model = export_onnx(program)
    return SourceModel(path, serialized(model, path_text(path)), model)


def convert_program(source: Path, target: Path, *, patterns: bool, report: Path | None) -> int:
    """Convert a `.pt2` file to a `.pt2` file with operators, or to an ONNX model; return the exit code.

    Raises:
        UserError: The file or a path is wrong.
    """
    program = load_program(source)
    nodes = len(program.graph.nodes)
    done = rewrite(program, patterns=patterns)
    data = done.report() | {"nodes_before": nodes, "nodes_after": len(program.graph.nodes)}
    files = [json_file(report, data)] if report else []
    if target.suffix == ".pt2":
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        content = buffer.getvalue()
    else:
        with _quiet():
            content = export_onnx(program).SerializeToString()
    write_files([NewFile(target, lambda stream: stream.write(content), "model"), *files])
    for entry in done.mapped:
        say(f"{entry.node}: {entry.op} by {entry.rule}")
    for left in done.left:
        say(f"{left.node}: not mapped to {left.candidate}: {left.reason}")
    say(f"{len(done.mapped)} mapped, {len(done.left)} not mapped")
    return 0
