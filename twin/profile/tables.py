"""Print the tables of `opforge profile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from opforge.codegen.printing import escaped
from opforge.twin.compiler.npu_model import outside_texts, range_text

from .compare import changed
from .lines import CAUSES, WAITS

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

MOST_LINES = 10
_LINES_PER_CASE = 5  # without details
_MOST_PHASES = 3
_MOST_STEPS = 16
_LEAST_TEXT = 20
FIGURES = ("estimate_us", "launch_us", "bound_us", "eff", "bal", "bytes")
_HEADS = ("estimate", "launch", "bound", "eff", "bal", "moved", "DMAs", "blocks")


def estimate_table(cases: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row for each case."""
    from rich.table import Table

    has_names = any(case["name"] for case in cases)
    table = Table(*(["case"] if has_names else []), title=f"Estimated time, us, {range_text()}")
    for head in _HEADS:
        table.add_column(head, no_wrap=True)
    for case in cases:
        table.add_row(
            *([case["name"]] if has_names else []),
            *(f"{case[key]:.2f}" for key in FIGURES),
            str(case["dma_count"]),
            str(case["blocks"]),
        )
    return table


def case_texts(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the dtypes of a case without a name, and why a case is outside of the calibrated range."""
    for case in cases:
        if not case["name"]:
            yield "dtypes: " + ", ".join(f"{name} {dtype}" for name, dtype in case["dtypes"].items())
        yield from outside_texts(case["outside_range"], case["name"])


def case_tables(case: Mapping[str, Any], width: int, *, details: bool) -> Iterator[Table | str]:
    """Yield the critical path by line of each launch, with `details` also the other tables and texts."""
    title = f"{case['name']}: critical path by line, us" if case["name"] else "Critical path by line, us"
    if details and case["name"]:
        yield f"case {case['name']}"
    for launch in case["launches"]:
        if details:
            yield from (*launch_tables(launch), *line_tables(launch, width))
        launch_us = case["launch_us"] / len(case["launches"])
        yield path_table(launch, launch_us, title, width, details=details)
        if details:
            yield from path_texts(launch)


def launch_tables(launch: Mapping[str, Any]) -> Iterator[Table]:
    """Phases, critical path by pipe, and busy time of a launch."""
    from rich.table import Table

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


def _short_names(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return locations without folders, if all file names are different."""
    files = {row["where"].rpartition(":")[0] for row in rows}
    is_unique = len({PurePosixPath(file).name for file in files}) == len(files)
    return {row["where"]: PurePosixPath(row["where"]).name if is_unique else row["where"] for row in rows}


def _line_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Return a table whose last column, the source text, is cut to the width of the terminal or left out.

    Numbers are complete: if the table is too wide, the first column has several rows of text.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    widths = [max(map(len, column)) for column in zip(columns, *(row[:-1] for row in rows), strict=True)]
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="left" if column in {"pipe", "cause"} else "right", no_wrap=True)
    text_width = width - sum(widths) - 3 * len(widths) - 4
    if has_text := text_width >= _LEAST_TEXT:
        table.add_column("source", no_wrap=True)
    for *cells, text in rows:
        cut = text if len(text) <= text_width else f"{text[: text_width - 3]}..."
        table.add_row(*(Text(cell) for cell in (*cells, *([cut] if has_text else []))))  # source text is not markup
    return table


def _cells(*cells: str) -> list[Text]:
    """Cells without markup: they contain source text."""
    from rich.text import Text

    return [Text(cell) for cell in cells]


def line_tables(launch: Mapping[str, Any], width: int) -> Iterator[Table]:
    """Busy time and waiting time by line."""
    rows = launch["lines"]
    names = _short_names([*rows, *launch["waits"], *launch["path"]])
    cells: list[tuple[str, ...]] = [
        (
            *(names[row["where"]], row["pipe"], f"{row['us']:.2f}", f"{100 * row['share']:.1f} %"),
            *(f"{row['instructions']:,}", f"{row['bytes']:,}" if row["bytes"] else "", row["text"]),
        )
        for row in rows[:MOST_LINES]
    ]
    if rest := rows[MOST_LINES:]:
        counts = (f"{sum(row[key] for row in rest):,}" for key in ("instructions", "bytes"))
        cells.append((f"{len(rest)} more", "", f"{sum(row['us'] for row in rest):.2f}", "", *counts, ""))
    columns = ("line", "pipe", "us", "of pipe", "instructions", "bytes")
    yield _line_table("Lines by busy time, us, mean of all cores", columns, cells, width)
    waits = launch["waits"]
    cells = [(names[row["where"]], row["pipe"], *_times(row, WAITS), row["text"]) for row in waits[:MOST_LINES]]
    if rest := waits[MOST_LINES:]:
        cells.append((f"{len(rest)} more", "", *_times(_sum(rest, WAITS), WAITS), ""))
    title = "Lines by waiting time of a pipe, us, slowest core of each phase"
    yield _line_table(title, ("line", "pipe", "us", *WAITS), cells, width)


def path_table(launch: Mapping[str, Any], launch_us: float, title: str, width: int, *, details: bool) -> Table:
    """Return the critical path by line; its sum is the estimate of the launch.

    A row has the name of its largest cause, with `details` the time of each cause.
    """
    rows = launch["path"]
    names = _short_names(rows)
    total = _sum(rows, CAUSES)
    causes = [cause for cause in CAUSES if total[f"{cause}_us"]] if details else []
    columns = ("line", "us", *causes) if details else ("line", "us", "cause")

    def times(row: Mapping[str, Any]) -> list[str]:
        return _times(row, causes) if details else [*_times(row, ()), _largest_cause(row)]

    most = MOST_LINES if details else _LINES_PER_CASE
    cells = [
        (names[row["where"]], *times(row), row["text"]) if row["where"] else (row["text"], *times(row), "")
        for row in rows[:most]
    ]
    if rest := rows[most:]:
        cells.append((f"{len(rest)} more", *times(_sum(rest, CAUSES)), ""))
    empty = [""] * (len(columns) - 2)
    cells.append(("launch overhead", f"{launch_us:.2f}", *empty, ""))
    of_causes = _times(total, causes)[1:] or empty
    cells.append(("sum", f"{total['us'] + launch_us:.2f}", *of_causes, "estimated time"))
    return _line_table(title, columns, cells, width)


def _largest_cause(row: Mapping[str, Any]) -> str:
    return max(CAUSES, key=lambda cause: row[f"{cause}_us"])


def _times(row: Mapping[str, Any], causes: Sequence[str]) -> list[str]:
    return [f"{row['us']:.2f}", *(f"{row[f'{cause}_us']:.2f}" if row[f"{cause}_us"] else "" for cause in causes)]


def _sum(rows: Sequence[Mapping[str, Any]], causes: Sequence[str]) -> dict[str, float]:
    return {key: sum(row[key] for row in rows) for key in ("us", *(f"{cause}_us" for cause in causes))}


def path_texts(launch: Mapping[str, Any]) -> Iterator[str]:
    """Yield the critical path of the longest phases in order."""
    numbered = list(zip(launch["phases"], launch["steps"], range(1, len(launch["steps"]) + 1), strict=True))
    longest = sorted(numbered, key=lambda item: -item[0]["core_us"])[:_MOST_PHASES]
    for phase, steps, number in sorted(longest, key=lambda item: item[2]):
        core = launch["cores"][phase["core"]]["name"]
        texts = " -> ".join(brief_steps(steps))
        yield f"Critical path of phase {number} on {core}, {phase['core_us']:.2f} us: {texts}"
    if len(numbered) > _MOST_PHASES:
        yield f"{len(numbered) - _MOST_PHASES} shorter phases are not shown."


def brief_steps(steps: Sequence[Mapping[str, Any]], most: int = _MOST_STEPS) -> Iterator[str]:
    """Yield the longest steps in order; adjacent short steps are one text."""
    longest = {id(step) for step in sorted(steps, key=lambda step: -step["us"])[:most]}
    short: list[Mapping[str, Any]] = []
    for step in steps:
        if id(step) not in longest:
            short.append(step)
            continue
        if short:
            yield _short(short)
            short = []
        yield step_text(step)
    if short:
        yield _short(short)


def _short(steps: Sequence[Mapping[str, Any]]) -> str:
    if len(steps) == 1:
        return step_text(steps[0])
    return f"{len(steps)} short steps {_us(sum(step['us'] for step in steps))}"


def _us(us: float) -> str:
    return f"{us:.3f} us" if us < 1 else f"{us:.2f} us"


def step_text(step: Mapping[str, Any]) -> str:
    """Return a step or a loop in words."""
    if "steps" in step:
        return f"{step['rounds']} x ({' -> '.join(brief_steps(step['steps']))}) {_us(step['us'])}"
    return f"{PurePosixPath(step['where']).name} {step['label']} {_us(step['us'])}".lstrip()


def compare_tables(compared: Sequence[Mapping[str, Any]], width: int) -> Iterator[Table]:
    """Estimates, pipes, bytes and lines of two profiles."""
    from rich.table import Table

    has_names = any(case["name"] for case in compared)
    cases = Table("case", "old", "new", "change", title=f"Compared estimates, us, {range_text()}")
    for case in compared:
        cases.add_row(*_cells(escaped(case["name"]) or "all", *change_texts(case["estimate_us"])))
    yield cases
    for case in compared:
        of = f" of {escaped(case['name'])}" if has_names else ""
        table = Table("", "old", "new", "change", title=f"Pipes{of}, busy us, mean of all cores; bytes")
        for pipe, pair in case["pipes"].items():
            table.add_row(*_cells(pipe, *change_texts(pair)))
        for key, pair in case["bytes"].items():
            table.add_row(*_cells(key, *change_texts(pair)))
        yield table
        rows = changed(case["path"])
        names = _short_names(case["path"])
        cells = []
        for row in rows[:MOST_LINES]:
            old, new, change = change_texts(row["us"])
            old, new = "-" if row["is_new"] else old, "-" if row["is_gone"] else new
            cells.append((names[row["where"]], old, new, change, row["text"]))
        if rest := rows[MOST_LINES:]:
            pair = [sum(row["us"][side] for row in rest) for side in (0, 1)]
            cells.append((f"{len(rest)} more", *change_texts(pair), ""))
        if not rows:
            cells.append(("no change", "", "", "", ""))
        yield _line_table(f"Critical path by line{of}, us", ("line", "old", "new", "change"), cells, width)


def change_texts(pair: Sequence[float]) -> tuple[str, str, str]:
    """Old value, new value and change."""
    old, new = pair
    form = ",.0f" if isinstance(old, int) and isinstance(new, int) else ".2f"
    change = f"{100 * (new - old) / old:+.1f} %" if old else f"{new:+{form}}"
    return f"{old:{form}}", f"{new:{form}}", change
