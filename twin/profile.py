"""`opforge profile`: the estimated time of one operator on inputs of given shapes."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.files import NewFile, json_file, require_writable, write_files
from opforge.codegen.printing import first_line, path_text, say, shown
from opforge.codegen.project import Project, find_project
from opforge.codegen.spec.dtypes import SHORT_DTYPES
from opforge.codegen.spec.names import suggest
from opforge.codegen.spec.semantics import Call
from opforge.twin.runtime.acl import Array
from opforge.twin.runtime.operator_run import run
from opforge.twin.runtime.results import AclnnError, FindingsError, Result

from .profile_page import render
from .samples import plain_values, valid_values

if TYPE_CHECKING:
    from rich.table import Table

    from opforge.codegen.spec.model import OpSpec

TRACE_VARIABLE = "OPFORGE_TWIN_TRACE"
_NO_EVENTS = b'{"traceEvents": []}\n'
# Python reads no numbers of any length.
_SHAPE = re.compile(r"\s*(\w+)=(\d{1,100}(?:x\d{1,100})*)\s*", re.ASCII)
_MOST_DIMS = 8
_COPIES = 4  # of the inputs, in numpy and on the twin
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


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`["x=4x8,i=3"]` as `{"x": (4, 8), "i": (3,)}`.

    Raises:
        UserError: A part is not of the form name=4x8.
    """
    shapes = {}
    for part in (part for text in texts for part in text.split(",")):
        found = _SHAPE.fullmatch(part)
        if found is None or found[2].count("x") >= _MOST_DIMS:
            raise UserError(
                f"--shape: got {shown(part)}, expected name=4x8 of at most {_MOST_DIMS} sizes, or several with commas"
            )
        shapes[found[1]] = tuple(map(int, found[2].split("x")))
    return shapes


def parse_attrs(texts: Sequence[str]) -> dict[str, Any]:
    """`["k=1", "mode=sum"]` as `{"k": 1, "mode": "sum"}`; values are Python literals, else text.

    Raises:
        UserError: A part is not of the form name=value.
    """
    attrs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UserError(f"--attr: got {shown(text)}, expected name=value")
        try:
            attrs[name] = ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            attrs[name] = value
    return attrs


def make_inputs(
    spec: OpSpec,
    shapes: Mapping[str, tuple[int, ...]],
    attrs: Mapping[str, Any],
    dtype: str | None,
    given: Mapping[str, Array] = MappingProxyType({}),
) -> dict[str, Array]:
    """Arrays for an operator.

    `dtype` goes to every input that takes it; an input that does not has the first dtype of its spec. Arrays of
    `given` are cast to it. The others have the values that the spec calls valid; where it does not say, floats are
    normally distributed, and integers ascend evenly up to the first dimension of the first input.

    Raises:
        UserError: A name or dtype is unknown, or a required input has neither a shape nor an array.
    """
    known = [tensor.name for tensor in spec.inputs]
    for option, names in (("--shape", shapes), ("--inputs", given)):
        if unknown := sorted(set(names) - set(known)):
            raise UserError(f"{option}: got {shown(unknown[0])}; {suggest(unknown[0], known)}")
    if twice := sorted(set(shapes) & set(given)):
        raise UserError(f"--shape: got {', '.join(twice)}, whose array --inputs brings; leave one of them out")
    shapes = {**shapes, **{name: array.shape for name, array in given.items()}}
    if missing := [tensor.name for tensor in spec.inputs if not tensor.optional and tensor.name not in shapes]:
        raise UserError(f"--shape: {spec.op_type} needs a shape for {', '.join(missing)}")
    wanted = SHORT_DTYPES.get(dtype or "", dtype)
    words = sorted({word for tensor in spec.inputs for word in tensor.dtypes})
    if wanted is not None and wanted not in words:
        raise UserError(f"--dtype: got {shown(dtype)}, the inputs of {spec.op_type} take {', '.join(words)}")
    made = [tensor for tensor in spec.inputs if tensor.name in shapes]
    new = (tensor for tensor in made if tensor.name not in given)
    size = sum(prod(shapes[tensor.name]) * np.dtype(tensor.dtypes[0]).itemsize for tensor in new)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > memory // _COPIES:
        raise UserError(
            f"--shape: got inputs of {size:,} bytes, expected at most {memory // _COPIES:,} on this machine; a smaller"
            " shape shows where time goes, too"
        )
    random = np.random.default_rng(0)
    first = next(shapes[name] for name in known if name in shapes)
    arrays: dict[str, Array] = {}
    for tensor in made:
        kind = np.dtype(wanted if wanted in tensor.dtypes else tensor.dtypes[0])
        if tensor.name in given:
            arrays[tensor.name] = _cast(tensor.name, given[tensor.name], kind)
            continue
        try:
            arrays[tensor.name] = plain_values(shapes[tensor.name], kind, first, random)
        except ValueError as error:
            # numpy counts the bytes of an empty array without its 0.
            raise UserError(f"--shape: {tensor.name}: {first_line(error)}; give it smaller sizes") from error
    call = Call({name: array.shape for name, array in arrays.items()}, attrs=attrs)
    return {
        name: array if name in given else valid_values(spec, name, array, call, random, is_even=True)
        for name, array in arrays.items()
    }


def _cast(name: str, array: Array, kind: np.dtype[Any]) -> Array:
    """A given array as another type."""
    if array.dtype.kind not in "biuf":
        raise UserError(f"--inputs: {name}: got {array.dtype}, expected numbers; convert it with .astype")
    with np.errstate(all="ignore"):
        return array.astype(kind)


def run_traced(call: Callable[[], Result]) -> tuple[Result, bytes]:
    """The result of a call, and the trace of its last launch as JSON."""
    with TemporaryDirectory() as scratch:
        path = Path(scratch).resolve() / "trace.json"
        os.environ[TRACE_VARIABLE] = str(path)
        try:
            result = call()
        finally:
            del os.environ[TRACE_VARIABLE]
        return result, path.read_bytes() if path.exists() else _NO_EVENTS


def _find(op_type: str) -> tuple[Project, OpSpec]:
    from opforge.codegen.spec.loader import load_specs

    project = find_project()
    specs = {spec.op_type: spec for spec in load_specs(project.spec_paths())}
    if op_type not in specs:
        raise UserError(f"operator: got {shown(op_type)}; {suggest(op_type, specs)}")
    return project, specs[op_type]


def _run(
    project: Project, spec: OpSpec, inputs: Mapping[str, Array], attrs: Mapping[str, Any], soc: str, *, is_traced: bool
) -> tuple[Result, bytes]:
    def call() -> Result:
        return run(spec.op_type, inputs, attrs, soc=soc, strict=False, seed=1, threads=1, project=project)

    try:
        return run_traced(call) if is_traced else (call(), _NO_EVENTS)
    except AclnnError as error:
        raise UserError(str(error)) from error


def summary(result: Result) -> dict[str, Any]:
    """The figures of a profile as plain data; times are estimates in microseconds."""
    report = result.report
    return {
        "estimate_us": report.estimate_us,
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
        "launches": [{key: launch[key] for key in LAUNCH_FIGURES} for launch in result.launches],
    }


def _tables(figures: Mapping[str, Any]) -> Iterator[Table]:
    from rich.table import Table

    table = Table("estimate", "launch", "bound", "eff", "bal", "bytes", "DMAs", "blocks", title="Estimated time, us")
    table.add_row(
        *(f"{figures[key]:.2f}" for key in ("estimate_us", "launch_us", "bound_us", "eff", "bal", "bytes")),
        str(figures["dma_count"]),
        str(figures["blocks"]),
    )
    yield table
    for launch in figures["launches"]:
        phases = Table("phase", "slowest core", "GM", "L2", "barrier before", title=f"{launch['op_type']}: phases, us")
        for number, phase in enumerate(launch["phases"], 1):
            phases.add_row(str(number), *(f"{phase[key]:.2f}" for key in ("core_us", "gm_us", "l2_us", "sync_us")))
        yield phases
        names = list(dict.fromkeys(name for phase in launch["phases"] for name in phase["path"]))
        path = Table("phase", "core", *names, title="Critical path, us")
        for number, phase in enumerate(launch["phases"], 1):
            name = launch["cores"][phase["core"]]["name"]
            path.add_row(str(number), name, *(f"{phase['path'].get(name, 0.0):.2f}" for name in names))
        yield path
        pipes = Table(
            "pipe",
            f"{launch['cores'][launch['critical_core']]['name']} (critical)",
            "mean of all cores",
            title="Busy, us",
        )
        for name, busy in launch["pipes"].items():
            pipes.add_row(name, f"{busy['critical_us']:.2f}", f"{busy['mean_us']:.2f}")
        yield pipes


def profile_command(
    op_type: str,
    shapes: Sequence[str],
    attrs: Sequence[str],
    *,
    dtype: str | None,
    soc: str,
    given: Path | None,
    load: Callable[[Path, Iterable[str]], Mapping[str, Array]],
    trace: Path | None,
    html: Path | None,
    json_out: Path | None,
) -> int:
    """`opforge profile`; `load` reads the arrays of the file `given` for the inputs of these names."""
    from rich.console import Console

    console = Console()
    parsed, values = parse_shapes(shapes), parse_attrs(attrs)
    project, spec = _find(op_type)
    used = [*project.spec_paths(), *([given] if given else [])]
    for what, path in (("trace", trace), ("page", html), ("report", json_out)):
        if path is not None:
            require_writable(path, used, what)
            used.append(path)
    arrays = load(given, [tensor.name for tensor in spec.inputs]) if given else {}
    inputs = make_inputs(spec, parsed, values, dtype, arrays)
    case = {
        "operator": op_type,
        "soc": soc,
        "dtypes": {name: array.dtype.name for name, array in inputs.items()},
        "shapes": {name: array.shape for name, array in inputs.items()},
        "attrs": values,
    }
    try:
        result, events = _run(project, spec, inputs, values, soc, is_traced=bool(trace or html))
    except FindingsError as error:
        say(*str(error).splitlines())
        return 1
    figures = summary(result)
    files = [] if trace is None else [NewFile(trace, lambda file: file.write(events), "trace")]
    if html is not None:
        page = render(case, figures, trace_events(events)).encode()
        files.append(NewFile(html, lambda file: file.write(page), "page"))
    if json_out is not None:
        files.append(json_file(json_out, {**case, "dtype": dtype, **figures}))
    write_files(files)
    for table in _tables(figures):
        console.print(table)
    for what, path in (("trace for ui.perfetto.dev", trace), ("page", html)):
        if path is not None:
            console.print(f"{what}: {path_text(path)}", highlight=False, markup=False)
    return 0


def trace_events(trace: bytes) -> list[Any]:
    """The events of a trace."""
    events: list[Any] = json.loads(trace)["traceEvents"]
    return events
