"""Run the sample: generate, build, pack, install, convert a model and compare the results.

The last output is a table. The exit code is 1 if a step fails or a result differs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import onnx
import sample_model
import typer
from rich.console import Console
from rich.table import Table

from opforge.cli.options import JOBS
from opforge.codegen.errors import UserError
from opforge.codegen.generate import write_project
from opforge.codegen.project import Project, find_project
from opforge.codegen.spec.loader import load_specs
from opforge.frontend import convert
from opforge.frontend.run.execute import run_model
from opforge.package.pack import pack
from opforge.twin.build import build_project

(OPERATOR,) = sample_model.OPERATORS
Arrays = dict[str, npt.NDArray[np.generic]]
console = Console(highlight=False)


@dataclass(frozen=True)
class Row:
    """A line of the table. A row that is not ok makes the sample fail."""

    step: str
    result: str
    ok: bool = True


def announce(step: str) -> float:
    """Print the name of a step and return the start time in seconds."""
    console.print(f"== {step}", style="bold")
    return time.monotonic()


def build(project: Project, jobs: int) -> list[Row]:
    """Validate the specs, generate, and compile the operator of the sample for the twin."""
    announce("validate the specs")
    specs = load_specs(project.spec_paths())
    announce("generate")
    written = write_project(project, specs)
    files = len(written.written) + len(written.unchanged)
    started = announce("build for the CPU twin")
    operators = build_project(
        project,
        ops=[OPERATOR],
        jobs=jobs,
        report=lambda line: console.print(line, markup=False, soft_wrap=True),
    )
    seconds = time.monotonic() - started
    return [
        Row("specs", f"{len(specs)} valid: {', '.join(spec.op_type for spec in specs)}"),
        Row("generated", f"{files} source files in {project.gen_dir}, {len(written.written)} new or changed"),
        Row(
            "built for the twin",
            f"{operators.compiled} object files of host code and kernels of {OPERATOR}, in {seconds:.1f} s",
        ),
    ]


def package(scratch: Path) -> list[Row]:
    """Pack the .run and install it into a temporary folder."""
    announce("pack")
    package_file = pack()
    announce("install into a temporary folder")
    target = scratch / "opp"
    command = [str(package_file), "--quiet", f"--install-path={target}"]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    console.print(installed.stdout + installed.stderr, markup=False, end="")
    files = [path for path in target.rglob("*") if path.is_file()]
    size = package_file.stat().st_size
    return [
        Row("packed", f"{package_file.name}, {size:,} bytes"),
        Row("installed", f"{len(files)} files of the package", ok=installed.returncode == 0 and len(files) > 0),
    ]


def model(scratch: Path) -> list[Row]:
    """Convert the sample model and run both models."""
    announce("convert the sample model")
    source = sample_model.build()
    onnx.save(source, scratch / "sample.onnx")
    conversion = convert(source, patterns=True)
    onnx.save(conversion.model, scratch / "converted.onnx")
    mapped = [f"{entry['node']} -> {entry['op']} ({entry['rule']})" for entry in conversion.mapped]
    rows = [Row("mapped", line) for line in mapped]
    rows += [Row("not mapped", f"{entry['node']}: {entry['reason']}") for entry in conversion.left]
    rows.append(
        Row("nodes", f"{len(source.graph.node)} before, {len(conversion.model.graph.node)} after", ok=len(mapped) == 2)
    )

    announce("run the source model and the converted model")
    inputs = sample_model.inputs()
    before = run_model(source, inputs, operators="function")
    after = run_model(conversion.model, inputs, operators="twin")
    for name, report in after.reports:
        moved = f"{report.gm_bytes_read:,} read + {report.gm_bytes_written:,} written"
        rows.append(Row(f"copied bytes of {name}", f"{moved}; minimum {report.minimal_bytes:,}"))
    return rows + [compare(name, before.outputs[name], after.outputs[name]) for name in before.outputs]


def compare(name: str, before: npt.NDArray[np.generic], after: npt.NDArray[np.generic]) -> Row:
    """Compare an output of both models with the tolerance of the operator's spec."""
    spec = next(spec for spec in load_specs(find_project().spec_paths()) if spec.op_type == OPERATOR)
    tolerance = spec.tests.tolerance[before.dtype.name]
    wide_before, wide_after = before.astype(np.float64), after.astype(np.float64)
    same_type = before.shape == after.shape and before.dtype == after.dtype
    error = np.abs(wide_before - wide_after)
    allowed = tolerance.atol + tolerance.rtol * np.abs(wide_before)
    text = f"largest error {error.max():.3g}; tolerance {allowed.flat[np.argmax(error / allowed)]:.3g}"
    return Row(f"compared {name}", text, ok=same_type and bool(np.all(error <= allowed)))


def main(jobs: Annotated[int, JOBS] = 0) -> None:
    """Run the sample: generate, build, pack, install, convert a model and compare the results."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="opforge-example-") as folder:
        scratch = Path(folder)
        rows = build(find_project(), jobs) + package(scratch) + model(scratch)
    table = Table(title=f"opforge, {time.monotonic() - started:.1f} s")
    for heading in ("step", "result", ""):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.step, row.result, "ok" if row.ok else "DIFFERS", style=None if row.ok else "red")
    console.print(table)
    raise typer.Exit(0 if all(row.ok for row in rows) else 1)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
