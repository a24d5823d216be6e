"""Call operators and the converter thousands of times in one process, and plot its memory."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import onnx.parser
import typer
from script import command, table

from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, json_file, write_files
from opforge.codegen.printing import say
from opforge.frontend import convert
from opforge.twin import AclnnError, launch, run

WARM_UP = 60
# For the second half of the calls, because caches fill in the first one. A leak of 420 bytes per call exceeds it.
MOST_GROWTH = 4 << 20
_MIB = 1 << 20
_ROWS = np.ones((12, 8), np.float32)
_MODEL = """<ir_version: 10, opset_import: ["" : 17, "npu" : 1]>
g (float[4, 3] x, int64[2] i) => (float[2, 3] y) { y = npu.NPUGroupedBiasAddGrad (x, i) }"""
_KERNEL = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void adds(GM_ADDR x, GM_ADDR workspace)
{
    AscendC::GlobalTensor<int32_t> gm;
    gm.SetGlobalBuffer((__gm__ int32_t*)x);
    if (gm.GetValue(1) != 0) {
        gm.SetValue(1000, 0);
    }
    gm.SetValue(0, gm.GetValue(0) + 1);
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                      AscendC::DcciDst::CACHELINE_OUT>(gm);
}
"""


def _grouped(step: int) -> None:
    rows = np.ones((12, 1 + step % 50), np.float32)
    run("GroupedBiasAddGrad", {"grad_y": rows, "group_idx": np.array([4, 12])}, strict=step % 2 == 0)


def _embedding(step: int) -> None:
    arrays = {"grad": _ROWS, "indices": (np.arange(12) + step) % 5}
    run("EmbeddingDenseBackward", arrays, {"num_weights": 5, "padding_idx": -1, "scale_grad_by_freq": False})


def _refused(_step: int) -> None:
    with suppress(AclnnError):
        run("GroupedBiasAddGrad", {"grad_y": _ROWS.astype(np.float64)})
        raise RuntimeError("the operator accepts float64")


def _misused(_step: int) -> None:
    with suppress(UserError):
        run("GroupedBiasAddGrad", {"grad_y": _ROWS.astype(object)})
        raise RuntimeError("the operator accepts objects")


def _launched(step: int) -> None:
    if launch(_KERNEL, "adds", 1, [np.zeros(16, np.int32)], seed=step + 1):
        raise RuntimeError("the kernel has findings")


def _faulty(_step: int) -> None:
    (found,) = launch(_KERNEL, "adds", 1, [np.ones(16, np.int32)])
    if found.kind != "gm_out_of_range":
        raise RuntimeError("the kernel has another finding")


def _isolated(step: int) -> None:
    if step % 4 == 0 and launch(_KERNEL, "adds", 1, [np.zeros(16, np.int32)], isolate=True):
        raise RuntimeError("the kernel has findings")


def _converted(_step: int) -> None:
    if len(convert(onnx.parser.parse_model(_MODEL)).mapped) != 1:
        raise RuntimeError("the node is not mapped")


CALLS: tuple[Callable[[int], None], ...] = (
    *(_grouped, _embedding, _refused, _misused, _launched, _faulty, _isolated, _converted),
)


@dataclass(frozen=True)
class Sample:
    """The state of this process after a number of calls."""

    calls: int
    resident: int
    threads: int
    files: int
    children: int


def sample(calls: int) -> Sample:
    """Return the state of this process."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # freed memory in the allocator is not a leak
    own = Path("/proc/self")
    resident = int((own / "statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    children = "".join(path.read_text(encoding="ascii") for path in own.glob("task/*/children"))
    threads, files = (len(list((own / folder).iterdir())) for folder in ("task", "fd"))
    return Sample(calls, resident, threads, files, len(children.split()))


def soak(calls: int, samples: int) -> list[Sample]:
    """Make the calls in turn, after some that fill caches; return the states before, between and after them."""
    for step in range(WARM_UP):
        CALLS[step % len(CALLS)](step)
    ends = [calls * part // samples for part in range(samples + 1)]
    found = [sample(0)]
    for begin, end in pairwise(ends):
        for step in range(begin, end):
            CALLS[step % len(CALLS)](step)
        found.append(sample(end))
    return found


def problems(found: Sequence[Sample]) -> list[str]:
    """Return the leaks of the calls: memory in their second half, threads, open files, child processes."""
    first, last = found[0], found[-1]
    grown = last.resident - found[len(found) // 2].resident
    texts = [f"memory: {grown} bytes more, expected at most {MOST_GROWTH}"] if grown > MOST_GROWTH else []
    for name in ("threads", "files", "children"):
        before, after = getattr(first, name), getattr(last, name)
        texts += [f"{name}: {after}, expected {before}"] if after != before else []
    return texts


def plot(found: Sequence[Sample]) -> str:
    """Return an SVG picture of the resident memory over the calls."""
    width, height, left, top, right, bottom = 720, 300, 60, 40, 40, 50
    most_calls = found[-1].calls
    most_mib = 50 * (1 + max(each.resident for each in found) // (50 * _MIB))

    def place(calls: float, mib: float) -> tuple[float, float]:
        across = left + (width - left - right) * calls / most_calls
        return across, height - bottom - (height - top - bottom) * mib / most_mib

    parts = []
    for part in range(6):
        across, base = place(most_calls * part / 5, 0)
        parts.append(f'<text x="{across:.1f}" y="{base + 18:.1f}" class="m">{most_calls * part // 5:,}</text>')
    for mib in range(0, most_mib + 1, 50):
        (start, level), (end, _) = place(0, mib), place(most_calls, mib)
        parts.append(f'<path d="M{start:.1f} {level:.1f}H{end:.1f}" class="g"/>')
        parts.append(f'<text x="{start - 8:.1f}" y="{level + 4:.1f}" class="e">{mib}</text>')
    line = " ".join(
        f"{across:.1f},{level:.1f}" for across, level in (place(each.calls, each.resident / _MIB) for each in found)
    )
    title = f"Resident memory in MiB, {most_calls:,} calls in one process"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">
<style>text{{font:13px sans-serif;fill:#333}}.m{{text-anchor:middle}}.e{{text-anchor:end}}.g{{stroke:#ddd}}</style>
<rect width="{width}" height="{height}" fill="#fff"/>
<text x="{left}" y="22">{title}</text>
{chr(10).join(parts)}
<text x="{(width + left) / 2:.0f}" y="{height - 8}" class="m">calls</text>
<polyline points="{line}" fill="none" stroke="#0b62a4" stroke-width="2"/>
</svg>
"""


def main(
    calls: Annotated[int, typer.Option(min=1, help="Number of calls.")] = 20_000,
    samples: Annotated[int, typer.Option(min=1, help="Number of samples of the memory.")] = 100,
    svg: Annotated[Path | None, typer.Option(help="File for the picture.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="File for the samples as JSON.")] = None,
) -> None:
    """Print the state of the process before, between and after the calls; exit with 1 if something is left behind."""
    found = soak(calls, min(samples, calls))
    shown = [*found[:: max(1, len(found) // 10)], found[-1]]
    rows = [
        (f"{each.calls:,}", f"{each.resident / _MIB:.1f}", *map(str, (each.threads, each.files, each.children)))
        for each in dict.fromkeys(shown)
    ]
    say(*table([("calls", "MiB", "threads", "files", "children"), *rows]).splitlines())
    if json_path:
        write_files([json_file(json_path, {"samples": [asdict(each) for each in found]})])
    if svg:
        write_files([NewFile(svg, lambda file: file.write(plot(found).encode()), "picture")])
    if texts := problems(found):
        say(*texts, err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    command(main)
