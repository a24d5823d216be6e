"""Build the host code of an operator with one setting, and measure and check calls, in a separate process.

`python -m opforge.twin.tune.worker PLACE` is the process: it reads the job and writes the row of the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter

from opforge.codegen.errors import UserError
from opforge.codegen.generate import write_project
from opforge.codegen.printing import first_line
from opforge.codegen.project import Project
from opforge.codegen.spec.call import with_lists
from opforge.codegen.spec.loader import load_project
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.views.op_view import PlanConstantView
from opforge.twin.compiler.folder import locked
from opforge.twin.compiler.operators import TILING_LIBRARY, host_libraries
from opforge.twin.compiler.runtime_library import twin_dir
from opforge.twin.compiler.units import CompileError, build
from opforge.twin.jobs import run_module
from opforge.twin.profile.inputs import make_inputs
from opforge.twin.runtime.acl import Array
from opforge.twin.runtime.kernel_process import end_at_exit, finish
from opforge.twin.runtime.operator_run import run, use_built
from opforge.twin.runtime.results import AclnnError, FindingsError
from opforge.twin.samples import calls_of

from .neighbors import neighbor_calls, odd_calls

ACCEPTED, SLOWER, REJECTED, FAILED = "accepted", "not faster", "rejected", "failed"
FASTER = "faster"  # with the shared plan, without the checks
_REASON = 300  # letters


@dataclass(frozen=True)
class Job:
    """One setting and the calls for its test.

    Attributes:
        root: The project.
        op_suffix: Suffix of its operators.
        op_type: The operator.
        soc: The SoC.
        level: The level of checks.
        dtype: The dtype of the inputs that support it.
        cases: Name, shapes and attributes of each call.
        vendor: The folder of the built operators.
        is_shared: Whether the plan in this folder reads the values of constants at run time. Such a job has no checks.
        setting: The values of constants.
        seconds: Time limit.
        limit_us: A setting is only checked if the sum of its estimates is less.
        expected: The digest of the results of each call; empty if unknown.
        other_socs: Other chips on which an accepted setting gives the expected results.
    """

    root: str
    op_suffix: str
    op_type: str
    soc: str
    level: str
    dtype: str | None
    cases: tuple[tuple[str, dict[str, tuple[int, ...]], dict[str, Any]], ...]
    vendor: str
    is_shared: bool
    setting: dict[str, int]
    seconds: float
    limit_us: float | None = None
    expected: dict[str, str] = field(default_factory=dict)
    other_socs: tuple[str, ...] = ()


@dataclass
class Row:
    """The result of a setting: the sum of the estimates, and whether all calls gave the expected results.

    `outside_range` contains the reasons for which calls are outside of the calibrated range of the time model.
    """

    setting: dict[str, int]
    status: str = FAILED
    estimate_us: float = 0.0
    reason: str = ""
    outside_range: list[str] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check a row that was read.

        Raises:
            ValueError: The status or the estimate is impossible.
        """
        has_estimate = self.status in {ACCEPTED, SLOWER, FASTER}
        if not (has_estimate or self.status in {REJECTED, FAILED}):
            raise ValueError(f"status {self.status}")
        if not 0 <= self.estimate_us < math.inf or (has_estimate and self.estimate_us == 0):
            raise ValueError(f"estimate {self.estimate_us}")


_ROW, _JOB = TypeAdapter(Row), TypeAdapter(Job)


def run_one(job: Job) -> Row:
    """Try one setting in a separate process; end all processes that it started."""
    row = run_module("opforge.twin.tune.worker", {"job": asdict(job)}, _ROW, job.seconds)
    return Row(job.setting, reason=row) if isinstance(row, str) else row


def work(job: Job, folder: Path) -> Row:
    """Build, measure and check one setting in an empty folder."""
    row = Row(job.setting)
    try:
        project = Project(Path(job.root), job.op_suffix, folder / "build")
        spec = next(spec for spec in load_project(project) if spec.op_type == job.op_type)
        vendor = Path(job.vendor)
        if job.is_shared:
            os.environ |= {_variable(name): str(value) for name, value in job.setting.items()}
        else:
            vendor = _build(project, spec.with_constants(job.setting), vendor)
        for soc in (job.soc, *job.other_socs):
            use_built(project, soc, spec, vendor)
        numbers = {}
        for name, inputs, attrs in _calls(spec, job):
            outputs = run(job.op_type, inputs, attrs, soc=job.soc, strict=False, seed=1, threads=1, project=project)
            numbers[name or "call"] = _digest(outputs)
            row.estimate_us += outputs.report.estimate_us
            row.outside_range += outputs.report.outside_range
        if row.estimate_us == 0:
            row.reason = "it launches no kernel, so that no setting is faster"
            return row
        if job.limit_us is not None and row.estimate_us >= job.limit_us:
            row.status = SLOWER
            return row
        if job.is_shared:
            row.status = FASTER
            return row
        row.results = _results(project, spec, job)
    except CompileError as error:
        row.status, row.reason = REJECTED, _compile_error(str(error))
        return row
    except (FindingsError, AclnnError) as error:
        # Another setting may accept a call that the operator rejects.
        is_refused_call = isinstance(error, AclnnError) and job.limit_us is None
        row.status, row.reason = FAILED if is_refused_call else REJECTED, first_line(error, _REASON)
        return row
    except UserError as error:
        row.reason = " ".join(str(error).split())[:_REASON]
        return row
    expected = [*numbers.items(), *job.expected.items()]
    other = [name for name, result in expected if row.results.get(name) != result]
    row.status = REJECTED if other else ACCEPTED
    row.reason = f"{other[0]}: other numbers" if other else ""
    return row


def build_shared(project: Project, spec: OpSpec, vendor: Path) -> Path | None:
    """Compile a plan that reads the values of its constants at run time, once for all settings.

    Args:
        project: The project, with an empty folder for the build.
        spec: The operator.
        vendor: The folder of the built operators.

    Returns:
        The folder with the library of the plan and the other files of the operators; None if the plan needs the values
        at compile time, for example in a static_assert.
    """
    try:
        return _build(project, spec, vendor, at_run_time=True)
    except CompileError:
        return None


def _build(project: Project, spec: OpSpec, vendor: Path, *, at_run_time: bool = False) -> Path:
    """Compile the plan of the spec, and put its library next to the other files of the built operators."""
    generated = write_project(project, [spec]).present
    if at_run_time:
        _read_at_run_time(project.gen_dir / "op_host" / f"{spec.name}_problem.h", spec)
    libraries = host_libraries(project, [spec.name], generated)
    tiling = [library for library in libraries if library.path.name == TILING_LIBRARY]
    with locked(twin_dir(project)) as scratch:
        build(tiling, scratch, jobs=1)
    copied_vendor = Path(os.path.commonpath([library.path for library in libraries]))
    for path in vendor.rglob("*"):
        copy = copied_vendor / path.relative_to(vendor)
        if path.is_file() and path.name != TILING_LIBRARY:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return copied_vendor


def _read_at_run_time(header: Path, spec: OpSpec) -> None:
    """Replace the constants of a plan by variables of the process.

    A constant reference to a variable is no constant expression, but constexpr functions may read it.
    """
    text = "#include <cstdlib>\n" + header.read_text(encoding="utf-8")
    for constant in spec.tiling.constants:
        view = PlanConstantView(constant)
        old = f"inline constexpr int64_t {view.name} = {view.value};\n"
        value = f'std::strtoll(std::getenv("{_variable(constant.name)}"), nullptr, 10)'
        new = f"inline int64_t {view.name}Variable = {value};\n"
        new += f"inline constexpr const int64_t& {view.name} = {view.name}Variable;\n"
        if old not in text:
            raise AssertionError(f"{header}: {old}")
        text = text.replace(old, new)
    header.write_text(text, encoding="utf-8")


def _variable(constant: str) -> str:
    """Return the environment variable with the value of a constant."""
    return f"OPFORGE_TUNE_{constant}"


def _compile_error(text: str) -> str:
    """Return the first error of a compiler without its location, for example a static_assert of the plan."""
    found = next((line for line in text.splitlines() if "error:" in line), text.strip())
    return f"the plan does not compile: {found.rpartition('error:')[2].strip()[:200]}"


def _calls(spec: OpSpec, job: Job) -> Iterable[tuple[str, Mapping[str, Array | list[Array]], Mapping[str, Any]]]:
    for name, shapes, attrs in job.cases:
        yield name, with_lists(make_inputs(spec, shapes, attrs, job.dtype)), attrs


def _results(project: Project, spec: OpSpec, job: Job) -> dict[str, str]:
    """Run calls with all checks on all chips; return a digest of the outputs of each, or its status.

    The calls are the cases, the same cases with other sizes, and the test shapes of the spec in all dtypes. No call
    follows the first one with other results than expected.
    """
    results = {}
    for name, soc, inputs, attrs in _checked_calls(spec, job):
        results[name] = _result(project, job, soc, inputs, attrs)
        if job.expected.get(name, results[name]) != results[name]:
            break
    return results


def _checked_calls(
    spec: OpSpec, job: Job
) -> Iterator[tuple[str, str, Mapping[str, Array | list[Array]], Mapping[str, Any]]]:
    for soc in (job.soc, *job.other_socs):
        on = "" if soc == job.soc else f" on {soc}"
        for name, inputs, attrs in _calls_and_neighbors(spec, job, is_near=soc == job.soc):
            yield f"{name}{on}", soc, inputs, attrs
        for call in calls_of(spec):
            yield f"test {call}{on}", soc, call.inputs(), call.attrs


def _calls_and_neighbors(
    spec: OpSpec, job: Job, *, is_near: bool
) -> Iterator[tuple[str, Mapping[str, Array | list[Array]], Mapping[str, Any]]]:
    for name, shapes, attrs in job.cases:
        near = neighbor_calls(spec, shapes, attrs) if is_near else {}
        for change, changed in ({"": shapes} | near | odd_calls(spec, shapes, attrs)).items():
            text = f"{name or 'call'}{', ' if change else ''}{change}"
            yield text, with_lists(make_inputs(spec, changed, attrs, job.dtype)), attrs


def _result(
    project: Project, job: Job, soc: str, inputs: Mapping[str, Array | list[Array]], attrs: Mapping[str, Any]
) -> str:
    try:
        return _digest(run(job.op_type, inputs, attrs, soc=soc, level=job.level, seed=1, project=project))
    except AclnnError as error:  # other sizes, or a test on this chip, may exceed a limit of the operator
        return f"status {error.status}"


def _digest(outputs: Mapping[str, Array | list[Array]]) -> str:
    total = hashlib.sha256()
    for name in sorted(outputs):
        of = outputs[name]
        for array in of if isinstance(of, list) else [of]:
            total.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return total.hexdigest()[:16]


def main() -> NoReturn:
    """Read the job, do it and write the row."""
    end_at_exit()
    place = json.loads(sys.argv[1])
    with open(place["buffers"], "rb") as file:
        file.seek(0)  # the caller wrote it through the same open file
        given = json.loads(file.read())
    warnings.simplefilter("ignore")
    finish(place["answer"], asdict(work(_JOB.validate_python(given["job"]), Path(given["folder"]))))


if __name__ == "__main__":
    main()
