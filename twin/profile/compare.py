"""Compare a profile with an earlier one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import escaped, path_text, shown
from opforge.codegen.untrusted import MOST_JSON_BYTES, FormError, parse_json

BYTES = ("gm_bytes_read", "gm_bytes_written", "first_touch_bytes", "minimal_bytes")
_SAME = "run both profiles with the same operator, chip and inputs"
_REPAIR = "write it with `opforge profile OP ... --json FILE` of this version"

_Time = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Text = Annotated[str, Field(max_length=1000)]
_Shapes = dict[_Text, Annotated[list[_Count], Field(max_length=16)]]


class _Pipe(TypedDict):
    mean_us: _Time


class _Line(TypedDict):
    where: _Text
    text: _Text
    us: Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]


class _Launch(TypedDict):
    pipes: dict[_Text, _Pipe]
    lines: list[_Line]
    path: list[_Line]


class _Figures(TypedDict):
    shapes: _Shapes
    dtypes: dict[_Text, _Text]
    attrs: dict[_Text, Any]
    estimate_us: _Time
    launch_us: _Time
    gm_bytes_read: _Count
    gm_bytes_written: _Count
    first_touch_bytes: _Count
    minimal_bytes: _Count
    launches: list[_Launch]


class _Case(_Figures):
    name: _Text


class _Profile(TypedDict):
    schema: Literal[1]
    operator: _Text
    soc: _Text
    cases: NotRequired[Annotated[list[_Case], Field(min_length=1, max_length=100)]]


_PROFILE, _FIGURES = TypeAdapter(_Profile), TypeAdapter(_Figures)


def read_old(path: Path, operator: str, soc: str) -> dict[str, Mapping[str, Any]]:
    """Return the cases of an earlier profile by name; a profile without `--case` has one case without a name.

    Args:
        path: A file of `opforge profile --json`.
        operator: The operator that it must describe.
        soc: The SoC that it must describe.

    Raises:
        UserError: The file is unreadable, has another form, or describes another operator or SoC.
    """
    data = read_regular(path, "profile", MOST_JSON_BYTES, _REPAIR)
    place = f"--compare: {path_text(path)}"
    try:
        old = parse_json(data, _PROFILE)
        cases = old["cases"] if "cases" in old else [{**parse_json(data, _FIGURES), "name": ""}]
    except FormError as error:
        raise UserError(f"{place}: {error}; {_REPAIR}") from error
    for key, expected in (("operator", operator), ("soc", soc)):
        if old[key] != expected:
            raise UserError(f"{place}: got a profile of {key} {shown(old[key])}, expected {expected}; {_SAME}")
    for case in cases:
        problem = _contradiction(case)
        if problem:
            where = f" of case {shown(case['name'])}" if case["name"] else ""
            raise UserError(f"{place}: {problem[0]}{where}: got {problem[1]}, expected {problem[2]}; {_REPAIR}")
    found = {case["name"]: case for case in cases}
    if len(found) < len(cases):
        raise UserError(f"{place}: two cases have the same name, expected different names; {_REPAIR}")
    return found


def _contradiction(case: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the first figure that contradicts others: its name, its value, the expected value."""
    path = case["launch_us"] + sum(step["us"] for launch in case["launches"] for step in launch["path"])
    # Files have four significant digits or more.
    if abs(path - case["estimate_us"]) > 1e-3 * case["estimate_us"] + 1e-6:
        return "estimate_us", f"{case['estimate_us']:.6g}", f"launch_us plus the steps of the critical path, {path:.6g}"
    for pipe, us in _pipes(case).items():
        if us > case["estimate_us"] * (1 + 1e-3):
            return f"pipe {shown(pipe)}", f"{us:.6g} us", f"at most estimate_us, {case['estimate_us']:.6g}"
    return None


def compare(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the differences between two profiles, with pairs of an old and a new value.

    Cases with one name must have the same shapes, dtypes and attributes.

    Raises:
        UserError: A case has other inputs, or no name is in both profiles.
    """
    common = [name for name in new if name in old]
    if not common:
        raise UserError(
            f"--compare: got {_cases_text(old)}, expected {_cases_text(new)}; use the names of the earlier profile"
        )
    for name in common:
        for key in ("shapes", "dtypes", "attrs"):
            before, after = (_plain(cases[name][key]) for cases in (old, new))
            if before != after:
                case = f" of case {name}" if name else ""
                raise UserError(f"--compare: {key}{case}: got {shown(before)}, expected {shown(after)}; {_SAME}")
    return [_compared(name, old[name], new[name]) for name in common]


def _cases_text(cases: Mapping[str, Any]) -> str:
    """Return the names of the cases of a profile for a message."""
    if list(cases) == [""]:
        return "a profile without --case"
    return "a profile of --case " + ", ".join(shown(name) for name in list(cases)[:8])


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _compared(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    pipes = [_pipes(case) for case in (old, new)]
    return {
        "name": name,
        "estimate_us": [old["estimate_us"], new["estimate_us"]],
        "bytes": {key: [old[key], new[key]] for key in BYTES},
        "pipes": {pipe: [times.get(pipe, 0.0) for times in pipes] for pipe in dict.fromkeys([*pipes[0], *pipes[1]])},
        "path": _lines(_rows(old, "path"), _rows(new, "path")),
        "lines": _lines(_rows(old, "lines"), _rows(new, "lines")),
    }


def _pipes(case: Mapping[str, Any]) -> dict[str, float]:
    """Mean busy time of each pipe in all launches."""
    sums: dict[str, float] = {}
    for launch in case["launches"]:
        for pipe, busy in launch["pipes"].items():
            sums[escaped(pipe)] = sums.get(escaped(pipe), 0.0) + busy["mean_us"]
    return sums


def _rows(case: Mapping[str, Any], key: str) -> dict[tuple[str, str], float]:
    """Return the time of each line in all launches and pipes, in the order of the source."""
    sums: dict[tuple[str, str], float] = {}
    for launch in case["launches"]:
        for row in launch[key]:
            line = escaped(row["where"]), escaped(row["text"])
            sums[line] = sums.get(line, 0.0) + row["us"]
    return dict(sorted(sums.items(), key=lambda item: _position(item[0][0])))


def _position(where: str) -> tuple[str, int]:
    file, _, number = where.rpartition(":")
    return file, int(number) if number.isdecimal() and len(number) < 10 else 0


_Row = tuple[str, str]
# Matching criteria for lines, the most reliable one first.
_MATCHES: tuple[Callable[[_Row], Hashable], ...] = (
    lambda row: row,
    lambda row: (_position(row[0])[0], row[1]) if row[1] else None,
    lambda row: row[1] or None,
)


def _matched(old: Iterable[_Row], new: Iterable[_Row]) -> list[tuple[_Row | None, _Row | None]]:
    """Pairs of an old and a new line; equal texts match in the order of the source."""
    left, right = list(old), list(new)
    pairs: list[tuple[_Row | None, _Row | None]] = []
    for key in _MATCHES:
        waiting: dict[Hashable, list[_Row]] = defaultdict(list)
        for row in left:
            waiting[key(row)].append(row)
        unmatched = []
        for row in right:
            if key(row) is not None and waiting[key(row)]:
                pairs.append((waiting[key(row)].pop(0), row))
            else:
                unmatched.append(row)
        taken = {row for row, _ in pairs}
        left, right = [row for row in left if row not in taken], unmatched
    return [*pairs, *((row, None) for row in left), *((None, row) for row in right)]


def _lines(old: Mapping[_Row, float], new: Mapping[_Row, float]) -> list[dict[str, Any]]:
    """Old and new times of lines, the largest change first."""
    rows: list[dict[str, Any]] = []
    for before, after in _matched(old, new):
        where, text = after or before or ("", "")
        us = [old[before] if before else 0.0, new[after] if after else 0.0]
        rows.append({"where": where, "old_where": before[0] if before else None, "text": text, "us": us})
        rows[-1]["is_new"], rows[-1]["is_gone"] = before is None, after is None
    return sorted(rows, key=lambda row: (-abs(row["us"][1] - row["us"][0]), row["where"]))


def changed(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows whose time differs."""
    return [row for row in rows if abs(row["us"][1] - row["us"][0]) > 1e-6 * max(map(abs, row["us"]))]
