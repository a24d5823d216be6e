"""`opforge profile`: the estimated time of one operator on inputs of given shapes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from opforge.codegen.data.names import unknown_operator
from opforge.codegen.data.products import soc_properties
from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, json_file, require_writable, write_files
from opforge.codegen.printing import path_text, say
from opforge.codegen.project import Project, find_project
from opforge.codegen.spec.call import with_lists
from opforge.twin.compiler.npu_model import error_range, range_text, require_level
from opforge.twin.runtime.acl import Array
from opforge.twin.runtime.operator_run import run
from opforge.twin.runtime.results import AclnnError, FindingsError, Result

from .cases import ProfileCase, parse_cases
from .inputs import attrs_of, make_inputs, parse_shapes
from .lines import line_figures

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

TRACE_VARIABLE = "OPFORGE_TWIN_TRACE"
LINES_VARIABLE = "OPFORGE_TWIN_LINES"
SCHEMA = 1
_NO_EVENTS = b'{"traceEvents": []}\n'
_WIDTH = 120  # of tables in a file or pipe
LAUNCH_FIGURES = (
    "op_type",
    "tiling_key",
    "first_touch_bytes",
    "macs",
    "balance",
    "critical_core",
    "phases",
    "pipes",
    "cores",
)


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for launches."""
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def run_traced(call: Callable[[], Result]) -> tuple[Result, bytes]:
    """Return the result of a call, and the trace of its last launch as JSON."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch).resolve() / "trace.json"
        with _variable(TRACE_VARIABLE, str(path)):
            result = call()
        if not path.exists():
            return result, _NO_EVENTS
        note = b"estimates of the twin's time model"
        return result, path.read_bytes().replace(note, note + f", {range_text()}".encode(), 1)


def find_operator(op_type: str) -> tuple[Project, OpSpec]:
    """Return the project of the current folder and the spec of its operator with the argument `OP`."""
    from opforge.codegen.spec.loader import load_specs

    project = find_project()
    specs = {spec.op_type: spec for spec in load_specs(project.spec_paths())}
    if op_type not in specs:
        raise unknown_operator("OP", op_type, specs, project.root)
    return project, specs[op_type]


@dataclass(frozen=True)
class Profiled:
    """One case of a profile: its inputs and figures as plain data, and the trace of its last launch."""

    facts: Mapping[str, Any]
    events: bytes


def _run(
    project: Project,
    spec: OpSpec,
    case: ProfileCase,
    inputs: Mapping[str, Array],
    soc: str,
    level: str,
    *,
    is_traced: bool,
) -> Profiled:
    def call() -> Result:
        return run(
            spec.op_type, with_lists(inputs), case.attrs, soc=soc, level=level, seed=1, threads=1, project=project
        )

    try:
        with _variable(LINES_VARIABLE, "1"):
            result, events = run_traced(call) if is_traced else (call(), _NO_EVENTS)
    except (AclnnError, UserError) as error:
        raise UserError(f"--case {case.name}: {error}" if case.name else str(error)) from error
    facts = {
        "name": case.name,
        "operator": spec.op_type,
        "soc": soc,
        "dtypes": {name: array.dtype.name for name, array in inputs.items()},
        "shapes": {name: array.shape for name, array in inputs.items()},
        "attrs": dict(case.attrs),
    }
    return Profiled(facts | summary(result, project.root), events)


def summary(result: Result, root: Path | None = None) -> dict[str, Any]:
    """Return the figures of a profile as plain data; times are estimates in microseconds.

    Args:
        result: The result of the call.
        root: The folder that names of source files are relative to.
    """
    report = result.report
    launches = [
        {key: launch[key] for key in LAUNCH_FIGURES} | line_figures(launch, root or Path("/"))
        for launch in result.launches
    ]
    return {
        "estimate_us": report.estimate_us,
        "error_range": list(error_range()),
        "outside_range": list(report.outside_range),
        "launch_us": report.launch_us,
        "bound_us": report.bound_us,
        "eff": report.efficiency,
        "bal": report.balance,
        "bytes": report.first_touch_bytes / report.minimal_bytes if report.minimal_bytes else 0.0,
        "gm_bytes_read": report.gm_bytes_read,
        "gm_bytes_written": report.gm_bytes_written,
        "first_touch_bytes": report.first_touch_bytes,
        "minimal_bytes": report.minimal_bytes,
        "dma_count": report.dma_count,
        "blocks": report.blocks,
        "launches": launches,
    }


def calls_to_profile(
    spec: OpSpec,
    shapes: Sequence[str],
    cases: Sequence[str],
    attrs: Mapping[str, Any],
    *,
    given: Path | None,
    trace: Path | None,
) -> list[ProfileCase]:
    """Return the cases to run; a call without `--case` has one without a name."""
    lists = [tensor.name for tensor in spec.inputs if tensor.dynamic]
    if lists and (given or cases):
        got = f"{'--inputs' if given else '--case'}: got an operator with the lists of tensors {', '.join(lists)}"
        raise UserError(f"{got}, expected --shape; write --shape {lists[0]}=4x8,{lists[0]}=3 for two tensors")
    if not cases:
        return [ProfileCase("", parse_shapes(shapes, lists=lists), attrs)]
    if shapes or given:
        raise UserError(f"--case: got also {'--shape' if shapes else '--inputs'}, expected one of them")
    if trace and len(cases) > 1:
        raise UserError(f"--trace: got {len(cases)} cases, expected one; a trace is of one launch")
    return parse_cases(spec, cases, attrs)


def profile_command(
    op_type: str,
    shapes: Sequence[str],
    attrs: Sequence[str],
    *,
    cases: Sequence[str] = (),
    dtype: str | None,
    soc: str,
    level: str,
    given: Path | None,
    load: Callable[[Path, Iterable[str]], Mapping[str, Array]],
    old: Path | None = None,
    trace: Path | None,
    html: Path | None,
    json_out: Path | None,
    details: bool = False,
) -> int:
    """`opforge profile`.

    Args:
        op_type: The operator.
        shapes: Values of `--shape`.
        attrs: Values of `--attr`.
        cases: Values of `--case`: a name and sizes, with a space between them.
        dtype: The dtype of the inputs that support it.
        soc: The chip.
        level: The level of checks.
        given: The file of `--inputs`.
        load: Reads the arrays of this file for these inputs.
        old: The file of `--compare`.
        trace: The trace to write.
        html: The page to write.
        json_out: The JSON file to write.
        details: Print all tables.
    """
    from .compare import compare, read_old

    project, spec = find_operator(op_type)
    values = attrs_of(spec, attrs)
    require_level(level, "--level")
    soc_properties(soc, "--soc")
    plan = calls_to_profile(spec, shapes, cases, values, given=given, trace=trace)
    used = [*project.spec_paths(), *(path for path in (given, old) if path)]
    for what, path in (("trace", trace), ("page", html), ("report", json_out)):
        if path is not None:
            require_writable(path, used, what)
            used.append(path)
    before = read_old(old, op_type, soc) if old else None
    arrays = load(given, [tensor.name for tensor in spec.inputs]) if given else {}
    done: list[Profiled] = []
    try:
        for case in plan:
            option = f"--case {case.name}" if case.name else "--shape"
            inputs = make_inputs(spec, case.shapes, case.attrs, dtype, arrays, option)
            done.append(_run(project, spec, case, inputs, soc, level, is_traced=bool(trace or html)))
    except FindingsError as error:
        say(*str(error).splitlines())
        return 1
    figures = {case.facts["name"]: case.facts for case in done}
    compared = compare(before, figures) if before is not None else None
    files = [] if trace is None else [NewFile(trace, lambda file: file.write(done[0].events), "trace")]
    if html is not None:
        from .page import render

        pages = [(case.facts, trace_events(case.events)) for case in done]
        page = render(pages, compared).encode()
        files.append(NewFile(html, lambda file: file.write(page), "page"))
    if json_out is not None:
        facts = _json_facts(list(figures.values()), dtype, is_single=not cases)
        files.append(json_file(json_out, facts if compared is None else {**facts, "compare": compared}))
    write_files(files)
    _print([case.facts for case in done], compared, {"trace for ui.perfetto.dev": trace, "page": html}, details=details)
    return 0


def _json_facts(cases: Sequence[Mapping[str, Any]], dtype: str | None, *, is_single: bool) -> dict[str, Any]:
    """Return the content of the JSON file; a single case without a name is not in a list."""
    first = cases[0]
    head = {"schema": SCHEMA, "operator": first["operator"], "soc": first["soc"], "dtype": dtype}
    own = [{key: value for key, value in case.items() if key not in {"operator", "soc"}} for case in cases]
    if is_single:
        return head | {key: value for key, value in own[0].items() if key != "name"}
    return head | {"cases": own}


def _print(
    cases: Sequence[Mapping[str, Any]],
    compared: Sequence[Mapping[str, Any]] | None,
    written: Mapping[str, Path | None],
    *,
    details: bool,
) -> None:
    from rich.console import Console

    from .tables import case_tables, case_texts, compare_tables, estimate_table

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_WIDTH)
    console.print(estimate_table(cases))
    console.print("\n".join(case_texts(cases)), highlight=False, markup=False)
    for case in cases:
        for table in case_tables(case, console.width, details=details):
            console.print(table, highlight=False, markup=False)
    for table in compare_tables(compared, console.width) if compared else ():
        console.print(table)
    for what, path in written.items():
        if path is not None:
            console.print(f"{what}: {path_text(path)}", highlight=False, markup=False)


def trace_events(trace: bytes) -> list[Any]:
    """Return the events of a trace."""
    events: list[Any] = json.loads(trace)["traceEvents"]
    return events
