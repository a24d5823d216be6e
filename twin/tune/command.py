"""`opforge tune`: search the constants of a plan for the minimum estimated time of some calls."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opforge.codegen.data.products import DEFAULT_SOC, soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import json_file, make_folder, require_writable, write_files
from opforge.codegen.printing import escaped, say
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.twin.build import build_project
from opforge.twin.compiler.cache import digest
from opforge.twin.compiler.npu_model import error_range, outside_texts, range_text, require_level
from opforge.twin.jobs import State, require_executor, run_all, twin_version
from opforge.twin.profile.command import calls_to_profile, find_operator
from opforge.twin.profile.inputs import attrs_of, make_inputs

from .neighbors import other_chips
from .worker import ACCEPTED, FAILED, SLOWER, Job, Row, build_shared, run_one

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

SCHEMA = 1


@dataclass(frozen=True)
class Options:
    """How settings are tried.

    Attributes:
        jobs: Number of parallel settings; 0: one per core.
        executor: `local` or `dask:ADDRESS`.
        seconds: Time limit of a setting.
        state: File with the rows of earlier runs; None: in the build folder.
    """

    jobs: int = 0
    executor: str = "local"
    seconds: float = 600
    state: Path | None = None


def tune_command(
    op_type: str,
    shapes: Sequence[str],
    attrs: Sequence[str],
    *,
    cases: Sequence[str],
    dtype: str | None,
    soc: str = DEFAULT_SOC,
    level: str = "strict",
    options: Options,
    json_out: Path | None,
) -> int:
    """Search the constants of the plan of an operator, and print the best setting.

    Args:
        op_type: The operator.
        shapes: Values of `--shape`.
        attrs: Values of `--attr`.
        cases: Values of `--case`.
        dtype: The dtype of the inputs that support it.
        soc: The chip.
        level: The level of checks.
        options: How settings are tried.
        json_out: The JSON file to write.

    Returns:
        1 if the unchanged operator has findings.

    Raises:
        UserError: An argument is wrong, or the plan has no constants.
    """
    project, spec = find_operator(op_type)
    values = attrs_of(spec, attrs)
    if not spec.tiling.constants:
        raise UserError(
            f"{op_type}: its spec has no tiling.constants, expected constants with the values to try; add them to the"
            " spec, and use them in the plan"
        )
    require_level(level, "--level")
    soc_properties(soc, "--soc")
    calls = calls_to_profile(spec, shapes, cases, values, given=None, trace=None)
    for call in calls:
        make_inputs(spec, call.shapes, call.attrs, dtype, option=f"--case {call.name}" if call.name else "--shape")
    if json_out is not None:
        used = [*project.spec_paths(), *([options.state] if options.state else [])]
        require_writable(json_out, used, "report")
    require_executor(options.executor)
    state = State(options.state, project.build_dir / "twin" / "tune" / "state.jsonl", Row)
    chips = other_chips(spec, soc)
    built = build_project(project, [soc, *chips], [op_type], plugin=False)
    if op_type in built.missing:
        raise UserError(f"{op_type}: {built.missing[op_type]} is missing; write it")
    job = Job(
        root=str(project.root),
        op_suffix=project.op_suffix,
        op_type=op_type,
        soc=soc,
        level=level,
        dtype=dtype,
        cases=tuple((call.name, dict(call.shapes), dict(call.attrs)) for call in calls),
        vendor=str(built.vendor_dir),
        is_shared=False,
        setting={constant.name: constant.value for constant in spec.tiling.constants},
        seconds=options.seconds,
        other_socs=chips,
    )
    found = _find(project, spec, job, options, state)
    if found is None:
        return 1
    first, best, tried = found
    _print_result(op_type, first, best)
    if json_out is not None:
        _write(json_out, job, first, best, tried)
    return 0


def _find(
    project: Project, spec: OpSpec, job: Job, options: Options, state: State[Row]
) -> tuple[Row, Row, list[Row]] | None:
    """Return the row of the spec, the best row and all rows; None if the unchanged operator has a finding.

    A plan that all settings share finds the slower settings, if possible. All other settings are compiled. If one of
    them then has another estimate, a second search compiles all settings.

    Raises:
        UserError: The call does not run.
    """
    with _plan_folder(project.build_dir / "twin" / "tune") as shared:
        try:
            return _found(_Search(project, spec, job, options, state, shared), spec, job)
        except _OtherEstimateError as error:
            say(f"{error}; the search compiles each setting now")
    return _found(_Search(project, spec, job, options, state, None), spec, job)


def _found(search: _Search, spec: OpSpec, job: Job) -> tuple[Row, Row, list[Row]] | None:
    first = search.rows([job])[0]
    if first.status == FAILED:
        raise UserError(
            f"{spec.op_type}: the call does not run with the values of the spec;"
            f" correct the call or the spec: {escaped(first.reason)}"
        )
    if first.status != ACCEPTED:
        finding = escaped(first.reason)
        say(f"{spec.op_type}: the values of the spec have a finding: {finding}; repair the operator first")
        return None
    best = _best(search, spec, replace(job, expected=first.results), first)
    return first, best, list(search.tried.values())


@contextmanager
def _plan_folder(parent: Path) -> Iterator[Path]:
    """Yield a temporary folder. Remove the folders of killed commands: no process has locked them."""
    make_folder(parent)
    with ExitStack() as stack:
        with _locked(parent, fcntl.LOCK_EX):
            for left in parent.glob("plan-*/"):
                with suppress(BlockingIOError), _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    shutil.rmtree(left)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plan-", dir=parent)))
            stack.enter_context(_locked(folder, fcntl.LOCK_EX))
        yield folder


@contextmanager
def _locked(folder: Path, operation: int) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, job: Job, first: Row, best: Row, tried: Sequence[Row]) -> None:
    facts = {"schema": SCHEMA, "operator": job.op_type, "soc": job.soc, "other_socs": job.other_socs}
    facts |= {"error_range": list(error_range()), "before": _facts(first), "best": _facts(best)}
    write_files([json_file(path, facts | {"settings": list(map(_facts, tried))}, "report")])


def _best(search: _Search, spec: OpSpec, job: Job, first: Row) -> Row:
    """Change one constant at a time, all of them in each round, until no change is faster."""
    best = first
    while True:
        jobs = [
            replace(job, setting=best.setting | {constant.name: value}, limit_us=best.estimate_us)
            for constant in spec.tiling.constants
            for value in constant.choices
        ]
        accepted = [row for row in search.rows(jobs) if row.status == ACCEPTED]
        if not accepted:
            return best
        best = min(accepted, key=lambda row: row.estimate_us)


class _OtherEstimateError(Exception):
    """A setting has another estimate if its plan is compiled with its values."""


class _Search:
    """Tries settings, or reads their rows from the state of earlier runs.

    Args:
        project: The project.
        spec: The operator.
        job: The values of the spec, and the folder of the built operators.
        options: How settings are tried.
        state: The rows of earlier runs.
        scratch: An empty folder for a plan that all settings share, if possible; None: compile the plan of each one.
    """

    def __init__(
        self, project: Project, spec: OpSpec, job: Job, options: Options, state: State[Row], scratch: Path | None
    ) -> None:
        self._state = state
        self._options = options
        self._version = _version(project, Path(job.vendor))
        self._shown = job.setting
        self._is_shared = scratch is not None
        self._project = Project(project.root, project.op_suffix, scratch)
        self._spec = spec
        self._vendor = Path(job.vendor)
        self.tried: dict[str, Row] = {}  # by setting; a slower setting stays slower

    @cached_property
    def _shared(self) -> Path | None:
        """The operators with the shared plan; None if it does not compile."""
        return build_shared(self._project, self._spec, self._vendor)

    def rows(self, jobs: Sequence[Job]) -> list[Row]:
        """Return the rows of settings that were not tried yet, in the order of the jobs.

        Raises:
            _OtherEstimateError: The shared plan has other estimates.
        """
        names = {json.dumps(job.setting, sort_keys=True): job for job in jobs}
        left = {name: job for name, job in names.items() if name not in self.tried}
        estimated = self._run(left, is_shared=True) if self._is_shared else {}
        slower = {name: row for name, row in estimated.items() if row.status == SLOWER}
        found = slower | self._run({name: job for name, job in left.items() if name not in slower}, is_shared=False)
        for name, row in found.items():
            shared = estimated.get(name, row)
            if FAILED not in {row.status, shared.status} and row.estimate_us != shared.estimate_us:
                raise _OtherEstimateError(
                    f"{_text(row.setting)}: {row.estimate_us:.2f} us if the plan is compiled with these values,"
                    f" {shared.estimate_us:.2f} us if it reads them, both {range_text()}"
                )
        rows = {name: found[name] for name in left}
        self.tried |= rows
        return list(rows.values())

    def _run(self, jobs: Mapping[str, Job], *, is_shared: bool) -> dict[str, Row]:
        """Return the rows of the settings; without those that need the shared plan, if it does not compile."""
        keys = {name: self._key(job, is_shared=is_shared) for name, job in jobs.items()}
        kept = {name: self._state.get(key) for name, key in keys.items()}
        found = {name: row for name, row in kept.items() if row is not None and row.setting == jobs[name].setting}
        for row in found.values():
            self._print(row, is_shared=is_shared)

        def finished(row: Row) -> None:
            name = json.dumps(row.setting, sort_keys=True)
            found[name] = row
            if row.status != FAILED:  # a job whose process failed runs again
                self._state.put(keys[name], row)
            self._print(row, is_shared=is_shared)

        left = [job for name, job in jobs.items() if name not in found]
        if left and is_shared:
            left = [replace(job, vendor=str(self._shared), is_shared=True) for job in left] if self._shared else []
        if left:
            run_all(run_one, left, self._options.jobs, self._options.executor, finished)
        return found

    def _key(self, job: Job, *, is_shared: bool) -> str:
        facts = asdict(job) | {"seconds": 0, "vendor": "", "is_shared": is_shared, "version": self._version}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _print(self, row: Row, *, is_shared: bool) -> None:
        if is_shared and row.status != SLOWER:  # the row of the compiled plan follows
            return
        changed = {name: value for name, value in row.setting.items() if value != self._shown[name]}
        text = _text(changed) or "values of the spec"
        time = _time(row) if row.estimate_us else "-"
        say(f"{row.status:<11} {time:>27}  {text}" + (f" - {escaped(row.reason)}" if row.reason else ""))


def _version(project: Project, vendor: Path) -> str:
    """Return a digest of the twin, of all sources of the operators, and of the built operators.

    The latter also change if a source outside of the folders of operators changes.
    """
    total = hashlib.sha256(twin_version().encode())
    for root in dict.fromkeys((project.root, BUILTIN_ROOT)):
        for folder in ("op_proto", "op_host", "op_kernel"):
            for path in sorted((root / folder).rglob("*")):
                total.update(f"{path.relative_to(root)} {digest(path)}\n".encode())
    for path in sorted(vendor.rglob("*")):
        total.update(f"{path.relative_to(vendor)} {digest(path)}\n".encode())
    return total.hexdigest()


def _text(setting: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in setting.items())


def _facts(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if name != "results"}


def _time(row: Row) -> str:
    return f"{row.estimate_us:.2f} us, {range_text()}"


def _print_result(op_type: str, first: Row, best: Row) -> None:
    if best is first:
        say(f"{op_type}: {_time(first)}; no other setting is faster", *outside_texts(first.outside_range))
        return
    gain = 1 - best.estimate_us / first.estimate_us
    changed = {name: value for name, value in best.setting.items() if value != first.setting[name]}
    say(
        f"{op_type}: {_time(first)} -> {_time(best)}; the estimate is {gain:.1%} less",
        *outside_texts(best.outside_range),
        f"setting: {_text(changed)}; write these values to tiling.constants of the spec",
    )
