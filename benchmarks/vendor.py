"""Run public kernels of clones on the CPU twin beside the kernels of this project, and compare their estimates.

Usage: python benchmarks/vendor.py [--ops-math DIR] [--ops-nn DIR] [--ops-transformer DIR] [--json FILE]

The clones stay unmodified. The tiling data of a case come from the unit test of the kernel in the clone, which is read
as text. Both kernels get the same inputs, in one process and with the same model. Times are estimates. Operators that
cannot run are listed with the reason. Columns: bytes = first-touch bytes over minimal bytes, bal = busiest core over
the mean, ratio = estimate over that of this project, difference = largest difference of the numbers over their largest
value, findings with the checks of a device, and with all checks (strict). Exit code: 0 ok, 2 bad input.
"""

from __future__ import annotations

import ast
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from case import Array, values
from script import command, table

from opforge.codegen.data.products import soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, require_writable, write_files
from opforge.codegen.printing import path_text
from opforge.codegen.project import find_project
from opforge.twin import run
from opforge.twin.compiler.npu_model import range_text
from opforge.twin.coverage.op_sources import tiling_header
from opforge.twin.runtime.acl import one_at_a_time, runtime
from opforge.twin.runtime.kernel_process import Job, call_launch
from opforge.twin.runtime.kernel_source import compile_kernel
from opforge.twin.runtime.results import FindingsError

HERE = Path(__file__).resolve().parent
# The cases of the unit tests are for chips with 40 vector cores.
SOC = "Ascend910B3"
_FIELD = re.compile(r"\bTILING_DATA_FIELD_DEF\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")
_FORMATS = {"uint32_t": "I", "int32_t": "i", "uint64_t": "Q", "int64_t": "q"}
_MOST_TEXT = 1 << 20

Row = dict[str, Any]


@dataclass(frozen=True)
class VendorCase:
    """A case of a unit test in a clone: the list of tiling data, the macro of the tiling key, and the dtype."""

    tiling: str
    key: str
    dtype: str


@dataclass(frozen=True)
class VendorKernel:
    """A public kernel and the operator of this project that computes the same.

    Attributes:
        operator: The operator of this project.
        clone: The option of the clone.
        folder: The operator in the clone.
        tilings: The file with lists of tiling data.
        fields: The header with the fields of the tiling data.
        cases: The cases to run; empty: the kernel does not run.
        reason: Why it does not run.
    """

    operator: str
    clone: str
    folder: str
    tilings: str = ""
    fields: str = ""
    cases: tuple[VendorCase, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the name of the kernel function and its file."""
        return self.folder.rpartition("/")[2]


HOST = "the host code that makes its tiling data needs headers of another repository"
NEWER = "its public kernel is for Ascend 950 only"
NO_KERNEL = "the clone has its aclnn function, but no kernel"
KERNELS = (
    VendorKernel(
        "GroupedBiasAddGrad",
        "ops-math",
        "math/grouped_bias_add_grad",
        "tests/ut/op_kernel/grouped_bias_add_grad_data/gen_tiling.py",
        "op_host/arch32/grouped_bias_add_grad_tiling_def.h",
        (
            VendorCase("case5_params", "TWO_DIMS_HALF", "fp16"),
            VendorCase("case7_params", "TWO_DIMS_FLOAT", "fp32"),
            VendorCase("case14_params", "TWO_DIMS_HALF_PERF", "fp16"),
            VendorCase("case15_params", "TWO_DIMS_BFLOAT16_PERF", "bf16"),
        ),
    ),
    VendorKernel("EmbeddingDenseBackward", "ops-nn", "index/embedding_dense_grad_v2", reason=HOST),
    VendorKernel("NsaCompressGrad", "ops-transformer", "attention/nsa_compress_grad", reason=HOST),
    VendorKernel("BatchNormElemtBackward", "ops-nn", "norm/sync_batch_norm_backward_elemt", reason=NEWER),
    VendorKernel("ConvTbcBackward", "ops-nn", "conv/convolution_backward", reason=NO_KERNEL),
)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_TEXT:
            raise UserError(f"{path_text(path)}: got more than {_MOST_TEXT} bytes, expected a source file of a clone")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"{path_text(path)}: got '{error.strerror}', expected a file of the clone; use a complete clone"
        ) from error


def fields_of(kernel: VendorKernel, folder: Path) -> list[tuple[str, str]]:
    """Return the fields of the tiling data as format of struct and name."""
    found = _FIELD.findall(_text(folder / kernel.fields))
    unknown = [kind for kind, _ in found if kind not in _FORMATS]
    if not found or unknown:
        got = unknown[0] if unknown else "no fields"
        raise UserError(f"{path_text(folder / kernel.fields)}: got {got}, expected fields of {', '.join(_FORMATS)}")
    return [(_FORMATS[kind], name) for kind, name in found]


def tiling_of(kernel: VendorKernel, case: VendorCase, folder: Path) -> dict[str, int]:
    """Return the tiling data of a case by name; the file is parsed, not executed."""
    path = folder / kernel.tilings
    found = re.search(rf"^{case.tiling}\s*=\s*(\[[^\]]*\])", _text(path), re.MULTILINE)
    try:
        numbers = ast.literal_eval(found[1]) if found else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        numbers = None
    names = [name for _, name in fields_of(kernel, folder)]
    if not isinstance(numbers, list) or len(numbers) != len(names) or not all(isinstance(n, int) for n in numbers):
        raise UserError(f"{path_text(path)}: {case.tiling}: got no list of {len(names)} integers; use another commit")
    return dict(zip(names, numbers, strict=True))


def packed(kernel: VendorKernel, tiling: Mapping[str, int], folder: Path) -> bytes:
    """Return the bytes of tiling data, with the alignment of C."""
    try:
        return struct.pack("@" + "".join(form for form, _ in fields_of(kernel, folder)), *tiling.values())
    except struct.error as error:
        raise UserError(
            f"{path_text(folder / kernel.tilings)}: got '{error}', expected integers of the fields"
        ) from error


def inputs_of(tiling: Mapping[str, int], dtype: str) -> tuple[dict[str, Array], tuple[int, int]]:
    """Return the inputs of a case with equal groups, and the shape of the output."""
    rows, groups, columns = tiling["dimGB"], tiling["dimG"], tiling["dimH"]
    ends = (np.arange(1, groups + 1) * rows // groups).astype(np.int32)
    return {"grad_y": values((rows, columns), dtype), "group_idx": ends}, (groups, columns)


def vendor_reports(
    kernel: VendorKernel, case: VendorCase, folder: Path, inputs: Mapping[str, Array], output: Array
) -> tuple[Row, list[str]]:
    """Run a kernel of a clone; return its report with the checks of a device, and its findings with all checks."""
    source = _text(folder / "op_kernel" / f"{kernel.name}.cpp")
    key = re.search(rf"^#define\s+{case.key}\s+(\d+)\s*$", source, re.MULTILINE)
    if key is None:
        raise UserError(f"{kernel.name}: got no tiling key {case.key} in the kernel of the clone; use another commit")
    tiling = tiling_of(kernel, case, folder)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch).resolve() / "op_kernel"
        shutil.copytree(folder / "op_kernel", copy)
        header = tiling_header([_text(folder / kernel.fields)], kernel.operator)
        wrapper = copy / "wrapper.cpp"
        wrapper.write_text(f'#include "kernel_operator.h"\n{header}#include "{kernel.name}.cpp"\n', encoding="utf-8")
        buffers = [*inputs.values(), output]
        built = compile_kernel(wrapper, kernel.name, len(buffers), soc_properties(SOC).arch, lint=False)
        job: Job = {
            **built,
            "symbol": kernel.name,
            "task_type": "MIX_AIV_1_0",
            "soc": SOC,
            "blocks": tiling["usedCoreNum"],
            "tiling_key": int(key[1]),
            "tiling": packed(kernel, tiling, folder).hex(),
            "sizes": [buffer.nbytes for buffer in buffers],
            "workspace_bytes": 64 << 20,
        }
        return _launched(job, buffers, "device"), _kinds(_launched(job, buffers, "strict"))


def _launched(job: Job, buffers: Sequence[Array], level: str) -> Row:
    """Launch a kernel on copies of buffers, except the last one, and return its report."""
    own = [*(buffer.copy() for buffer in buffers[:-1]), buffers[-1] if level == "device" else buffers[-1].copy()]
    with one_at_a_time():
        runtime().set_options(level=level, seed=1, threads=1)
        return call_launch(runtime().library, job, [buffer.ctypes.data for buffer in own])


def _kinds(report: Row) -> list[str]:
    return sorted({found["kind"] for found in report["findings"] if not found["warning"]})


def rows_of(kernel: VendorKernel, clone: Path) -> Iterator[Row]:
    """Yield two rows for each case: the kernel of the clone and that of this project."""
    folder = clone / kernel.folder
    for case in kernel.cases:
        inputs, shape = inputs_of(tiling_of(kernel, case, folder), case.dtype)
        output = np.zeros(shape, inputs["grad_y"].dtype)
        vendor_report, found = vendor_reports(kernel, case, folder, inputs, output)
        project = find_project(HERE.parent)
        ours = run(kernel.operator, inputs, soc=SOC, strict=False, seed=1, threads=1, project=project)
        try:
            run(kernel.operator, inputs, soc=SOC, seed=1, project=project)
            own: list[str] = []
        except FindingsError as error:
            own = sorted({finding.kind for finding in error.findings})
        expected = ours["grad_bias"].astype(np.float64)
        scale = max(float(np.abs(expected).max()), 1e-30)
        report = ours.report
        common = {"operator": kernel.operator, "case": str(list(inputs["grad_y"].shape)), "dtype": case.dtype}
        yield common | {
            "kernel": kernel.folder,
            "bytes": vendor_report["first_touch_bytes"] / report.minimal_bytes,
            "bal": vendor_report["balance"],
            "estimate_us": vendor_report["estimate_us"],
            "ratio": vendor_report["estimate_us"] / report.estimate_us,
            "findings": _kinds(vendor_report),
            "strict_findings": found,
            "difference": float(np.abs(output.astype(np.float64) - expected).max()) / scale,
        }
        yield common | {
            "kernel": "this project",
            "bytes": report.first_touch_bytes / report.minimal_bytes,
            "bal": report.balance,
            "estimate_us": report.estimate_us,
            "ratio": 1.0,
            "findings": own,
            "strict_findings": own,
            "difference": 0.0,
        }


def commit_of(clone: Path) -> str:
    """Return the commit of a clone; "unknown" without git."""
    words = ["git", "-C", str(clone), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def table_of(rows: Sequence[Row]) -> str:
    """Return a readable table with one line per row."""
    lines = [
        (
            "operator",
            "case",
            "dtype",
            "kernel",
            "bytes",
            "bal",
            "estimate us",
            "ratio",
            "difference",
            "findings",
            "strict",
        )
    ]
    for row in rows:
        numbers = [f"{row[key]:.2f}" for key in ("bytes", "bal")]
        times = [f"{row['estimate_us']:.1f}", f"{row['ratio']:.2f}", f"{row['difference']:.1e}"]
        found = [", ".join(row[key]) or "none" for key in ("findings", "strict_findings")]
        lines.append((row["operator"], row["case"], row["dtype"], row["kernel"], *numbers, *times, *found))
    return table(lines)


def main(
    ops_math: Annotated[Path | None, typer.Option(help="Clone of ops-math.")] = None,
    ops_nn: Annotated[Path | None, typer.Option(help="Clone of ops-nn.")] = None,
    ops_transformer: Annotated[Path | None, typer.Option(help="Clone of ops-transformer.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the rows there.")] = None,
) -> None:
    """Print the table."""
    clones = {"ops-math": ops_math, "ops-nn": ops_nn, "ops-transformer": ops_transformer}
    given = {name: path for name, path in clones.items() if path is not None}
    for name, path in given.items():
        if not path.is_dir():
            raise UserError(f"--{name}: got {path_text(path)}, expected the folder of a clone")
    if json_out is not None:
        require_writable(json_out, [], "report")
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for kernel in KERNELS:
        reason = kernel.reason if kernel.clone in given else f"--{kernel.clone} is not given"
        if not reason and kernel.clone in given:
            rows += rows_of(kernel, given[kernel.clone])
        else:
            skipped[f"{kernel.operator} ({kernel.clone}/{kernel.folder})"] = reason
    commits = {name: commit_of(path) for name, path in given.items()}
    if rows:
        typer.echo(f"{table_of(rows)}\n\nEstimates on {SOC}, {range_text()}")
    for name, reason in skipped.items():
        typer.echo(f"not run: {name}: {reason}")
    for name, commit in commits.items():
        typer.echo(f"{name}: {commit}")
    if json_out is not None:
        facts = {"soc": SOC, "commits": commits, "rows": rows, "skipped": skipped}
        write_files([json_file(json_out, facts)])


if __name__ == "__main__":
    command(main)
