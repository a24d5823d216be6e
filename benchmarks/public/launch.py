"""Launch a public kernel of a clone on the CPU twin."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from case import Array

from opforge.codegen.data.dtypes import CANN_DTYPES, SHORT_DTYPES
from opforge.codegen.data.products import soc_properties
from opforge.twin.coverage.op_sources import Definition, dtype_header, tiling_header
from opforge.twin.runtime.acl import one_at_a_time, runtime
from opforge.twin.runtime.kernel_process import Job, call_launch
from opforge.twin.runtime.kernel_source import compile_kernel

from .kernels import SOC, Problem, PublicKernel
from .tilings import packed, text_of

Row = dict[str, Any]
_ENUMERATORS = {dtype.name: dtype.ge for dtype in CANN_DTYPES}


LEVELS = ("device", "fast", "strict")


@dataclass(frozen=True)
class Launched:
    """The report and the outputs of a launch with the checks of a level."""

    report: Row
    outputs: list[Array]

    @property
    def findings(self) -> list[str]:
        """Return the kinds of the findings."""
        return sorted({found["kind"] for found in self._errors()})

    @property
    def message(self) -> str:
        """Return the message of the first finding."""
        return next((str(found["message"]) for found in self._errors()), "the results differ")

    def _errors(self) -> list[Row]:
        return [found for found in self.report["findings"] if not found["warning"]]


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the names of links, devices and pipes, which are not copied."""
    paths = [Path(folder, name) for name in names]
    return [path.name for path in paths if path.is_symlink() or not (path.is_dir() or path.is_file())]


@contextmanager
def _limited(seconds: float, name: str) -> Iterator[None]:
    """End this process if a kernel does not end: it runs in this process, as the kernel of this project."""

    def end() -> None:
        typer.echo(f"{name}: the kernel did not end within {seconds:g} s; use another commit, or --timeout", err=True)
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _entry(name: str, buffers: int, mode: int | None) -> tuple[str, str]:
    """Return the function to launch, and its text for a kernel that is a template."""
    if mode is None:
        return name, ""
    names = [*(f"buffer{index}" for index in range(buffers)), "workspace", "tiling"]
    parameters = ", ".join(f"GM_ADDR {parameter}" for parameter in names)
    call = f"{name}<{mode}>({', '.join(names)})"
    return f"{name}_{mode}", f'extern "C" __global__ __aicore__ void {name}_{mode}({parameters}) {{ {call}; }}\n'


def launch(
    kernel: PublicKernel, problem: Problem, folder: Path, outputs: Sequence[Array], seconds: float
) -> dict[str, Launched]:
    """Run a kernel of a clone with the checks of each level.

    Args:
        kernel: The kernel.
        problem: The launch.
        folder: The operator in the clone; it stays unmodified.
        outputs: Arrays like the outputs.
        seconds: The time limit of a launch.

    Raises:
        CompileError: The kernel does not compile.
    """
    short = problem.dtypes or dict.fromkeys(kernel.typed, problem.dtype)
    dtypes = {name: _ENUMERATORS[SHORT_DTYPES.get(dtype, dtype)] for name, dtype in short.items()}
    header = dtype_header(Definition(kernel.operator, {}, dtypes, has_lists=False))
    header += tiling_header([text_of(folder / kernel.header)], kernel.operator)
    data = packed(folder / kernel.header, problem.tiling)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch).resolve() / "op_kernel"
        shutil.copytree(folder / "op_kernel", copy, ignore=_special)
        wrapper = copy / "wrapper.cpp"
        buffers = [*problem.buffers, *outputs]
        symbol, entry = _entry(kernel.name, len(buffers), problem.mode)
        wrapper.write_text(f'#include "kernel_operator.h"\n#include "unmodified.h"\n{entry}', encoding="utf-8")
        # Warnings of the clone are not errors: the compiler prints none for files that a system header includes.
        text = f'#pragma GCC system_header\n{header}#include "{kernel.name}.cpp"\n'
        (copy / "unmodified.h").write_text(text, encoding="utf-8")
        built = compile_kernel(wrapper, symbol, len(buffers), soc_properties(SOC).arch, lint=False)
        job: Job = {
            **built,
            "symbol": symbol,
            "task_type": kernel.task_type,
            "soc": SOC,
            "blocks": problem.cores,
            "tiling_key": problem.key,
            "tiling": data.hex(),
            "sizes": [buffer.nbytes for buffer in buffers],
            "workspace_bytes": problem.workspace,
        }
        found = {}
        for level in LEVELS:
            with _limited(seconds, f"{kernel.operator} ({kernel.folder}), {problem.name} {problem.dtype}"):
                found[level] = _launched(job, problem.buffers, outputs, level)
        return found


def _launched(job: Job, inputs: Sequence[Array], outputs: Sequence[Array], level: str) -> Launched:
    results = [np.zeros_like(output) for output in outputs]
    buffers = [*(buffer.copy() for buffer in inputs), *results]
    with one_at_a_time():
        runtime().set_options(level=level, seed=1, threads=1)
        report = call_launch(runtime().library, job, [buffer.ctypes.data for buffer in buffers])
    return Launched(report, results)
