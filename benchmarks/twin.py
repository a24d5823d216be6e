"""Measure speed, memory and compile time of the twin on one thread of this machine.

Usage: python benchmarks/twin.py [--megabytes N] [--json FILE]

An elementwise kernel (y = 2x + 1) runs in strict and in fast mode: traffic with global memory per CPU second of one
thread, and the memory that the process needs in addition to its arrays. One kernel of an operator is compiled for one
dtype without a cache. CPU seconds are used because a busy machine increases elapsed time. The values are not related to
the speed of a device. Exit code: 0 ok, 1 a target is missed, 2 bad input.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import struct
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from script import command

from opforge.codegen.files import replace_file
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin import launch
from opforge.twin.build import build_project

KERNEL = """
#include "kernel_operator.h"
using namespace AscendC;

struct Tiling {
    int64_t tiles;
    int64_t length;
};

extern "C" __global__ __aicore__ void elementwise(GM_ADDR x, GM_ADDR y, GM_ADDR tiling)
{
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, data.length * sizeof(float));
    pipe.InitBuffer(out, 2, data.length * sizeof(float));
    GlobalTensor<float> xGm, yGm;
    xGm.SetGlobalBuffer((__gm__ float*)x);
    yGm.SetGlobalBuffer((__gm__ float*)y);
    for (int64_t tile = GetBlockIdx(); tile < data.tiles; tile += GetBlockNum()) {
        LocalTensor<float> from = in.AllocTensor<float>();
        DataCopy(from, xGm[tile * data.length], data.length);
        in.EnQue(from);
        from = in.DeQue<float>();
        LocalTensor<float> to = out.AllocTensor<float>();
        Muls(to, from, 2.0f, data.length);
        PipeBarrier<PIPE_V>();
        Adds(to, to, 1.0f, data.length);
        in.FreeTensor(from);
        out.EnQue(to);
        to = out.DeQue<float>();
        DataCopy(yGm[tile * data.length], to, data.length);
        out.FreeTensor(to);
    }
}
"""
TILE = 8192  # floats
BLOCKS = 48
MB = 1_000_000
SPEED = {"strict": 25.0, "fast": 400.0}  # minimum MB/s of one thread
BASE_MB = 200.0  # maximum memory in addition to the arrays
SHADOW = 0.75  # fraction of the array size, in strict mode
COMPILE_SECONDS = 15.0
OPERATOR = "GroupedBiasAddGrad"


@dataclass(frozen=True)
class Row:
    """A value and its target; `at_least`: the target is a minimum, otherwise a maximum."""

    what: str
    value: float
    target: float
    unit: str
    at_least: bool

    @property
    def is_met(self) -> bool:
        """Return whether the target is met."""
        return self.value >= self.target if self.at_least else self.value <= self.target


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MB


def _run(mode: str, tiles: int) -> tuple[float, float]:
    """Return MB/s of one thread, and the memory growth of the process in MB while the kernel runs."""
    x = np.arange(tiles * TILE, dtype=np.float32) % 1000
    y = np.full_like(x, -1)
    options = {"strict": mode == "strict", "threads": 1}
    _launch(x[:TILE].copy(), y[:TILE].copy(), **options)
    before = _resident_mb()
    began = time.process_time()
    _launch(x, y, **options)
    seconds = time.process_time() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB - before
    if not np.array_equal(y, x * 2 + 1):
        raise AssertionError("the kernel computed something else than 2x + 1")
    return (x.nbytes + y.nbytes) / MB / seconds, grown


def _launch(x: np.ndarray, y: np.ndarray, **options: bool | int) -> None:
    if findings := launch(KERNEL, "elementwise", BLOCKS, [x, y], struct.pack("2q", x.size // TILE, TILE), **options):
        raise AssertionError("\n".join(map(str, findings)))


def _compile_seconds() -> float:
    """Return the CPU seconds to compile one kernel of an operator."""
    project = Project(BUILTIN_ROOT)
    build_project(project, ops=[OPERATOR])
    kernels = sorted((project.build_dir / "twin" / "obj" / "kernel").glob("grouped_bias_add_grad/*.o"))
    kernels[0].unlink()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    built = build_project(project, ops=[OPERATOR])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if built.compiled != 1:
        raise AssertionError(f"{built.compiled} files were compiled, expected one")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(megabytes: int) -> list[Row]:
    """Return all rows, with `megabytes` MB in each of the two arrays."""
    tiles = max(1, megabytes * MB // (TILE * 4))
    arrays = 2 * tiles * TILE * 4 / MB
    rows = []
    for mode, speed in SPEED.items():
        with multiprocessing.get_context("spawn").Pool(1) as worker:  # peak memory is measured per process
            rate, grown = worker.apply(_run, (mode, tiles))
        allowed = BASE_MB + (SHADOW * arrays if mode == "strict" else 0.0)
        rows.append(Row(f"{mode}: traffic of a thread", rate, speed, "MB/s", at_least=True))
        rows.append(Row(f"{mode}: memory beyond {arrays:.0f} MB of arrays", grown, allowed, "MB", at_least=False))
    rows.append(Row(f"compile {OPERATOR}, one dtype", _compile_seconds(), COMPILE_SECONDS, "CPU s", at_least=False))
    return rows


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="Of each of the two arrays.")] = 128,
    json_out: Annotated[Path | None, typer.Option("--json", help="Where the rows go.")] = None,
) -> None:
    """Print the figures."""
    rows = measure(megabytes)
    width = max(len(row.what) for row in rows)
    typer.echo(f"{'what':<{width}}  {'value':>8}  {'target':>10}  unit")
    for row in rows:
        mark = "" if row.is_met else "  !"
        target = f"{'>=' if row.at_least else '<='} {row.target:.1f}"
        typer.echo(f"{row.what:<{width}}  {row.value:8.1f}  {target:>10}  {row.unit}{mark}")
    if json_out is not None:
        replace_file(json_out, json.dumps([asdict(row) | {"is_met": row.is_met} for row in rows], indent=1) + "\n")
    raise typer.Exit(0 if all(row.is_met for row in rows) else 1)


if __name__ == "__main__":
    command(main)
