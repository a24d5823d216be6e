"""Run the kernels of benchmarks/published on the CPU twin, only for their times."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from opforge.codegen.data.products import soc_properties
from opforge.twin.compiler.npu_model import constant_of
from opforge.twin.runtime.acl import one_at_a_time, runtime
from opforge.twin.runtime.kernel_process import Job, call_launch
from opforge.twin.runtime.kernel_source import compile_kernel

KERNELS = Path(__file__).resolve().parent.parent / "published"
TIMES_ONLY, CONSTANTS = "OPFORGE_TWIN_TIMES_ONLY", "OPFORGE_TWIN_CONSTANTS"


class NotRunError(Exception):
    """A point cannot be evaluated; the text is the reason."""


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel of benchmarks/published.

    Attributes:
        source: File of the kernel.
        symbol: Function of the kernel.
        blocks: Number of cores.
        sizes: Bytes of each buffer; the kernel does not access their content.
        tiling: Tiling data, integers of 64 bits.
        soc: SoC of the model.
        cube: Whether the kernel runs on cube cores.
    """

    source: str
    symbol: str
    blocks: int
    sizes: tuple[int, ...]
    tiling: tuple[int, ...]
    soc: str
    cube: bool = False


def constant(name: str, soc: str) -> float:
    """Return a constant of the time model, or the value that replaces it in a calibration."""
    value = constant_of(name, soc)
    for pair in filter(None, os.environ.get(CONSTANTS, "").split(",")):
        key, _, number = pair.partition("=")
        prefix, _, own = key.rpartition(":")
        if own == name and soc.startswith(prefix):
            value = float(number)
    return value


def launch_us(soc: str) -> float:
    """Return the launch overhead of the time model."""
    return constant("launch_seconds", soc) * 1e6


@lru_cache(maxsize=64)
def _kernel(source: str, symbol: str, buffers: int, arch: int) -> Job:
    return compile_kernel(KERNELS / source, symbol, buffers, arch, lint=False)


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that a launch reads."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def report_of(launch: Launch) -> dict[str, Any]:
    """Return the report of a launch that only counts times; the caller does not change it.

    Raises:
        NotRunError: The launch has findings.
    """
    return _report(launch, os.environ.get(CONSTANTS, ""))


@lru_cache(maxsize=4096)
def _report(launch: Launch, constants: str) -> dict[str, Any]:
    """Return the report of a launch with these constants."""
    del constants  # the library reads the variable
    job: Job = {
        **_kernel(launch.source, launch.symbol, len(launch.sizes), soc_properties(launch.soc).arch),
        "symbol": launch.symbol,
        "task_type": "AIC_ONLY" if launch.cube else "AIV_ONLY",
        "soc": launch.soc,
        "blocks": launch.blocks,
        "tiling_key": 0,
        "tiling": np.array(launch.tiling, np.int64).tobytes().hex(),
        "sizes": list(launch.sizes),
        "workspace_bytes": 0,
    }
    buffers: Sequence[Any] = [np.empty(size, np.uint8) for size in launch.sizes]
    with one_at_a_time(), variables({TIMES_ONLY: "1"}):
        runtime().set_options(strict=0, seed=1, threads=1)
        report = call_launch(runtime().library, job, [buffer.ctypes.data for buffer in buffers])
    if errors := [found["message"] for found in report["findings"] if not found["warning"]]:
        raise NotRunError(errors[0])
    return report
