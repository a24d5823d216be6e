"""Attribute the estimated time of a launch to source lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from opforge.codegen.printing import escaped

# In the order of TimeCause in launch.h.
CAUSES = ("work", "bandwidth", "latency", "drain", "flags")
WAITS = ("latency", "drain", "flags", "bandwidth")
LIMITS = {"gm_us": "all cores: GM bandwidth", "l2_us": "all cores: L2 bandwidth"}
NOT_RECORDED = "steps that were not recorded"
_MOST_SOURCE = 4 << 20
_MOST_TEXT = 200
_LONGEST_LOOP = 48  # steps
_FOLDED_STEPS = 100_000
_MOST_STEPS = 400  # of a phase
_TOLERANCE = 1e-3  # of a phase: the launch reports six digits


@lru_cache(maxsize=256)
def _source(path: str) -> tuple[str, ...]:
    file = Path(path)
    try:
        if not file.is_file() or file.stat().st_size > _MOST_SOURCE:
            return ()
        return tuple(file.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


@dataclass(frozen=True)
class Line:
    """A location in the sources of the kernel.

    Attributes:
        where: `file:line`; the file is relative to the project if it is part of it.
        text: The source text without indentation; empty if the file cannot be read.
    """

    where: str
    text: str

    @classmethod
    def at(cls, place: str, root: Path) -> Line:
        """Return the line of a `file:line` that a launch reports."""
        file, _, number = place.rpartition(":")
        source = _source(file)
        index = int(number) - 1 if number.isdigit() else -1
        text = source[index].strip() if 0 <= index < len(source) else ""
        path = Path(file)
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else file
        return cls(f"{name}:{number}" if place else "", escaped(text)[:_MOST_TEXT])

    @property
    def facts(self) -> dict[str, Any]:
        """The keys of a row."""
        return {"where": self.where, "text": self.text}


@dataclass
class Step:
    """A run of instructions or waits of one line on the critical path, or a loop of steps.

    Attributes:
        label: The pipe, or the cause of a wait.
        us: Its time, in all rounds.
        rounds: Number of repetitions of a loop.
        steps: The steps of a loop.
    """

    where: str
    label: str
    us: float
    rounds: int = 1
    steps: list[Step] = field(default_factory=list)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The value that equal steps share, without times."""
        return (self.where, self.label, self.rounds, tuple(step.shape for step in self.steps))

    def add(self, other: Step) -> None:
        """Add the times of an equal step."""
        self.us += other.us
        for first, second in zip(self.steps, other.steps, strict=True):
            first.add(second)

    @property
    def facts(self) -> dict[str, Any]:
        """The step as plain data."""
        if self.steps:
            return {"us": self.us, "rounds": self.rounds, "steps": [step.facts for step in self.steps]}
        return {"where": self.where, "label": self.label, "us": self.us}


def _merged(steps: Iterator[Step]) -> list[Step]:
    """Return steps, with adjacent steps of one line and label merged."""
    merged: list[Step] = []
    for step in steps:
        if merged and (merged[-1].where, merged[-1].label) == (step.where, step.label):
            merged[-1].us += step.us
        else:
            merged.append(step)
    return merged


def fold(steps: Sequence[Step]) -> list[Step]:
    """Return steps with repeated sequences as loops; loops may contain loops."""
    folded = list(steps)
    while True:
        numbers: dict[tuple[Any, ...], int] = {}
        keys = [numbers.setdefault(step.shape, len(numbers)) for step in folded]
        after = _folded_once(folded, keys)
        if len(after) == len(folded):
            return after
        folded = after


def _folded_once(steps: Sequence[Step], keys: Sequence[int]) -> list[Step]:
    folded: list[Step] = []
    at = 0
    while at < len(steps):
        length, rounds = _loop(keys, at)
        if rounds == 1:
            folded.append(steps[at])
            at += 1
            continue
        body = list(steps[at : at + length])
        for begin in range(at + length, at + length * rounds, length):
            for first, second in zip(body, steps[begin : begin + length], strict=True):
                first.add(second)
        folded.append(Step("", "loop", sum(step.us for step in body), rounds, fold(body)))
        at += length * rounds
    return folded


def _loop(keys: Sequence[int], at: int) -> tuple[int, int]:
    """Return length and rounds of the longest loop that starts here; one round if there is none."""
    best = (1, 1)
    for length in range(1, min(_LONGEST_LOOP, (len(keys) - at) // 2) + 1):
        if keys[at] != keys[at + length]:
            continue
        body = keys[at : at + length]
        rounds = 1
        while keys[at + rounds * length : at + (rounds + 1) * length] == body:
            rounds += 1
        if rounds > 1 and rounds * length > best[0] * best[1]:
            best = (length, rounds)
    return best


def line_figures(launch: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the figures by line of a launch; none if it did not record them.

    Args:
        launch: The report of the launch.
        root: The folder of the project.

    Returns:
        `lines`: busy time by line and pipe. `waits`: idle time by line and pipe, on the slowest core of each phase.
        `path`: time on the critical path by line; the sum is the estimate without launch overhead. `steps`: the
        critical path of each phase in order.
    """
    times = launch.get("line_times")
    if times is None:
        return {}
    lines = [Line.at(place, root) for place in times["lines"]]
    return {
        "lines": _work(launch, times, lines),
        "waits": _waits(times, lines),
        "path": _path(launch, times, lines),
        "steps": [_steps(phase["path"], lines) for phase in times["phases"]],
    }


def _work(launch: Mapping[str, Any], times: Mapping[str, Any], lines: Sequence[Line]) -> list[dict[str, Any]]:
    rows = []
    for line, pipe, us, bandwidth_us, instructions, size, first_touch in times["work"]:
        busy = launch["pipes"].get(pipe, {}).get("mean_us", 0.0)
        rows.append(
            {
                **lines[line].facts,
                "pipe": pipe,
                "us": us,
                "share": us / busy if busy else 0.0,
                "bandwidth_us": bandwidth_us,
                "instructions": instructions,
                "bytes": size,
                "first_touch_bytes": first_touch,
            }
        )
    return sorted(rows, key=lambda row: (-row["us"], row["where"], row["pipe"]))


def _waits(times: Mapping[str, Any], lines: Sequence[Line]) -> list[dict[str, Any]]:
    rows: dict[tuple[Line, str], dict[str, Any]] = {}
    for phase in times["phases"]:
        for line, pipe, us in phase["waits"]:
            key = lines[line], pipe
            row = rows.setdefault(key, {**lines[line].facts, "pipe": pipe, "us": 0.0, **_no_time(WAITS)})
            for cause, time in zip(CAUSES, us, strict=True):
                if cause in WAITS:
                    row[f"{cause}_us"] += time
                    row["us"] += time
    return sorted(rows.values(), key=lambda row: (-row["us"], row["where"], row["pipe"]))


def _no_time(causes: Sequence[str]) -> dict[str, float]:
    return {f"{cause}_us": 0.0 for cause in causes}


def _path(launch: Mapping[str, Any], times: Mapping[str, Any], lines: Sequence[Line]) -> list[dict[str, Any]]:
    rows: dict[Line, dict[str, Any]] = {}

    def add(line: Line, cause: str, us: float) -> None:
        row = rows.setdefault(line, {**line.facts, "us": 0.0, **_no_time(CAUSES)})
        row["us"] += us
        row[f"{cause}_us"] += us

    barrier = Line("", "barrier of all cores")
    for phase, of_lines in zip(launch["phases"], times["phases"], strict=True):
        if phase["sync_us"]:
            add(barrier, "flags", phase["sync_us"])
        for line, _, cause, us in of_lines["path"]:
            add(lines[line], CAUSES[cause], us)
        rest = phase["core_us"] - sum(us for *_, us in of_lines["path"])
        if abs(rest) > _TOLERANCE * phase["core_us"]:
            add(Line("", NOT_RECORDED), "work", rest)
        limit = max(LIMITS, key=lambda key: phase[key])
        if phase[limit] > phase["core_us"]:
            add(Line("", LIMITS[limit]), "bandwidth", phase[limit] - phase["core_us"])
        barrier = lines[of_lines["barrier"]]
    return sorted(rows.values(), key=lambda row: (-row["us"], row["where"]))


def _steps(path: Sequence[Sequence[Any]], lines: Sequence[Line]) -> list[dict[str, Any]]:
    def label(pipe: str, cause: int) -> str:
        return pipe if CAUSES[cause] in {"work", "bandwidth"} else CAUSES[cause]

    merged = _merged(Step(lines[line].where, label(pipe, cause), us) for line, pipe, cause, us in path)
    steps = [*fold(merged[:_FOLDED_STEPS]), *merged[_FOLDED_STEPS:]]
    shown = [step.facts for step in steps[:_MOST_STEPS]]
    if rest := steps[_MOST_STEPS:]:
        shown.append({"where": "", "label": f"{len(rest)} more steps", "us": sum(step.us for step in rest)})
    return shown
