"""Create the page of `opforge profile --html`: figures and charts of one profile, in one self-contained file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opforge.codegen.data.products import SOCS, Soc
from opforge.codegen.template_loader import render_page
from opforge.twin.build import npu_model
from opforge.twin.compiler.npu_model import constant_of, range_text

from .page_lines import comparison, lines_of

PIPE_WORDS = {
    "S": "S: scalar unit",
    "V": "V: vector unit",
    "M": "M: cube unit",
    "MTE1": "MTE1: L1 to L0",
    "MTE2": "MTE2: loads",
    "MTE3": "MTE3: stores",
    "FIX": "FIX: results of the cube unit",
    "waiting": "waiting",
}
PIPES = [name for name in PIPE_WORDS if name != "waiting"]
LIMITS = {"core": "the slowest core", "gm": "the bandwidth of global memory", "l2": "the bandwidth of L2"}
MEANINGS = {
    "estimate_us": "estimated time, launch included, us",
    "launch_us": "launch overhead in it, us",
    "bound_us": "inputs and outputs that L2 cannot keep at the bandwidth of global memory, or products at the peak of"
    " the cube cores, us",
    "eff": "bound / (estimate - launch)",
    "bal": "time of the busiest core / mean of all of its kind",
    "bytes": "first-touch bytes / minimal bytes",
    "minimal_bytes": "every input and every output once",
    "first_touch_bytes": "128-byte sectors that came from or went to global memory",
    "gm_bytes_read": "bytes of all DMA reads, L2 hits included",
    "gm_bytes_written": "bytes of all DMA writes",
    "dma_count": "DMA instructions",
    "blocks": "blocks launched",
}
BYTES_PER_KB = 1024
# Charts: the plot of the two small ones in their viewBox, and of the wide ones.
LEFT, RIGHT, TOP, BOTTOM = 52.0, 524.0, 16.0, 282.0
LABEL_WIDTH = 140.0
WIDE_LEFT, WIDE_RIGHT = 58.0, 1084.0
SHOWN_PHASES = 12
FINEST_SPAN = 0.6  # relative to the width of a lane in viewBox units: closer spans are drawn as one


def _constants() -> str:
    counts: dict[str, int] = {}
    for constant in npu_model()["constants"].values():
        counts[constant["status"]] = counts.get(constant["status"], 0) + 1
    words = {
        "fitted": "fitted on published times",
        "derived": "set by hand from published times",
        "documented": "documented by the vendor",
        "ini": "read in platform configurations",
        "assumed": "assumed",
    }
    return ", ".join(f"{counts[status]} constants {word}" for status, word in words.items() if status in counts)


def _nice_step(limit: float, steps: int) -> float:
    """Return a step of 1, 2 or 5 times a power of ten that reaches `limit` in at most `steps` steps."""
    exact = limit / steps
    power = 10.0 ** math.floor(math.log10(exact))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= exact * (1 - 1e-9))


def _linear_ticks(limit: float, steps: int = 6) -> list[float]:
    if limit <= 0:
        return [0.0]
    step = _nice_step(limit, steps)
    return [step * index for index in range(int(limit / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _part(label: str, color: str, us: float, total: float) -> dict[str, Any]:
    return {"label": label, "color": color, "us": us, "percent": 100 * us / total if total else 0.0}


def _limit_of(phase: Mapping[str, Any]) -> str:
    return max(LIMITS, key=lambda key: phase[f"{key}_us"])


def _phase_us(phase: Mapping[str, Any]) -> float:
    return float(max(phase[f"{key}_us"] for key in LIMITS))


def _path(phase: Mapping[str, Any]) -> list[dict[str, Any]]:
    known = [name for name in PIPE_WORDS if name in phase["path"]]
    return [_part(name, name, phase["path"][name], phase["core_us"]) for name in known]


def _phases(launch: Mapping[str, Any]) -> list[dict[str, Any]]:
    numbered = [{**phase, "number": number} for number, phase in enumerate(launch["phases"], 1)]
    longest = sorted(numbered, key=_phase_us, reverse=True)[:SHOWN_PHASES]
    return [
        {
            **phase,
            "limit": _limit_of(phase),
            "limited_by": LIMITS[_limit_of(phase)],
            "slowest": launch["cores"][phase["core"]]["name"],
            "path": _path(phase),
        }
        for phase in sorted(longest, key=lambda phase: phase["number"])
    ]


def _timeline(launch: Mapping[str, Any], launch_us: float) -> list[dict[str, Any]]:
    """Return the time of a launch from left to right: overhead, phases by their limit, barriers."""
    found = [("launch", "launch", launch_us)]
    for number, phase in enumerate(launch["phases"], 1):
        if phase["sync_us"]:
            found.append(("barrier", "barrier", phase["sync_us"]))
        found.append((f"phase {number}", _limit_of(phase), _phase_us(phase)))
    total = sum(us for _, _, us in found)
    return [_part(label, color, us, total) for label, color, us in found]


def _largest_part(launch: Mapping[str, Any], launch_us: float) -> str:
    """Return a sentence about the largest part of the time."""
    times = {"barriers of all cores": sum(phase["sync_us"] for phase in launch["phases"])}
    for phase in launch["phases"]:
        name = LIMITS[_limit_of(phase)]
        times[name] = times.get(name, 0.0) + _phase_us(phase)
    running = sum(times.values())
    if not running:
        return "No kernel ran."
    name = max(times, key=lambda key: times[key])
    where = f"{100 * times[name] / running:.0f} % of the {running:.2f} us behind the launch go to {name}"
    if launch_us > running:
        return f"The launch alone takes {launch_us:.1f} us, longer than the kernel; {where}."
    return f"{where}."


def _roofline(launch: Mapping[str, Any], soc: Soc, first_touch: float, running_us: float) -> dict[str, Any]:
    """Return active vector or cube units (y) over cycles per KB of global memory traffic (x), both logarithmic."""
    word, pipe, units = ("cube", "M", soc.aic) if launch["macs"] else ("vector", "V", soc.aiv)
    # Number of units that one cycle per KB keeps active at the peak rate of global memory.
    gm = constant_of("gm_bandwidth_bytes_per_s", soc.name)
    slope = gm / BYTES_PER_KB / (soc.mhz * 1e6)
    cycles = sum(core["busy"].get(pipe, 0.0) for core in launch["cores"]) * soc.mhz
    x_range, y_range = [1.0, 1000.0], [0.1, 100.0]
    point = None
    if cycles and first_touch and running_us:
        x, y = cycles / first_touch * BYTES_PER_KB, cycles / running_us / soc.mhz
        x_range = [
            min(x_range[0], 10.0 ** math.floor(math.log10(x))),
            max(x_range[1], 10.0 ** math.ceil(math.log10(x))),
        ]
        y_range[0] = min(y_range[0], 10.0 ** math.floor(math.log10(y)))
        point = (x, y)

    def place(value: float, limits: Sequence[float], begin: float, end: float) -> float:
        share = math.log(value / limits[0]) / math.log(limits[1] / limits[0])
        return round(begin + share * (end - begin), 1)

    def at_x(value: float) -> float:
        return place(value, x_range, LEFT, RIGHT)

    def at_y(value: float) -> float:
        return place(value, y_range, BOTTOM, TOP)

    begin = max(x_range[0], y_range[0] / slope)
    knee = units / slope
    middle = math.sqrt(begin * knee)
    chart: dict[str, Any] = {
        "x_ticks": [{"at": at_x(value), "label": f"{value:g}"} for value in _decades(x_range)],
        "y_ticks": [{"at": at_y(value), "label": f"{value:g}"} for value in _decades(y_range)],
        "roof": f"{at_x(begin)},{at_y(begin * slope)} {at_x(knee)},{at_y(units)} {RIGHT},{at_y(units)}",
        "ceiling_y": at_y(units),
        "word": word,
        "units": units,
        "slope_label": f"global memory, {gm / 1e12:g} TB/s",
        "slope_x": at_x(middle) - 8,
        "slope_y": at_y(middle * slope) - 8,
        "slope_angle": round(math.degrees(math.atan2(at_y(units) - at_y(begin * slope), at_x(knee) - at_x(begin))), 1),
        "point": None,
    }
    if point is not None:
        x, y = point
        roof = min(units, x * slope)
        is_right = at_x(x) + LABEL_WIDTH > RIGHT
        chart["point"] = {
            "x": at_x(x),
            "y": at_y(y),
            "roof_y": at_y(roof),
            "text_x": at_x(x) + (-12 if is_right else 12),
            "text_y": at_y(y) + 5,
            "anchor": "end" if is_right else "start",
            "label": f"{_number(y)} of {_number(roof)} possible",
            "title": f"{_number(x)} {word} cycles per KB, {_number(y)} {word} units at work",
        }
    return chart


def _decades(limits: Sequence[float]) -> list[float]:
    first, last = round(math.log10(limits[0])), round(math.log10(limits[1]))
    return [10.0**power for power in range(first, last + 1)]


def _core_ticks(cores: int, begin: float, pitch: float) -> list[dict[str, Any]]:
    step = 4 if cores > 16 else 1
    return [{"at": round(begin + (core + 0.5) * pitch, 1), "label": core} for core in range(0, cores, step)]


def _kind(core: Mapping[str, Any]) -> str:
    return str(core["name"]).split()[0]


def _load(launch: Mapping[str, Any]) -> dict[str, Any]:
    cores = launch["cores"]
    times = [core["us"] for core in cores]
    critical = _kind(cores[launch["critical_core"]])
    peers = [core["us"] for core in cores if _kind(core) == critical]
    top = max(times) * 1.05 or 1.0
    pitch = (RIGHT - LEFT) / len(times)

    def at(us: float) -> float:
        return round(BOTTOM - us / top * (BOTTOM - TOP), 1)

    return {
        "bars": [
            {
                "name": cores[core]["name"],
                "us": us,
                "x": round(LEFT + core * pitch + pitch * 0.12, 2),
                "width": round(pitch * 0.76, 2),
                "y": at(us),
                "height": round(BOTTOM - at(us), 1),
                "is_critical": core == launch["critical_core"],
            }
            for core, us in enumerate(times)
        ],
        "x_ticks": _core_ticks(len(times), LEFT, pitch),
        "y_ticks": [{"at": at(us), "label": _number(us)} for us in _linear_ticks(top)],
        "mean_y": at(sum(peers) / len(peers)),
        "peers": len(peers),
    }


def _heat(launch: Mapping[str, Any], running_us: float) -> dict[str, Any]:
    cores = launch["cores"]
    pitch = (WIDE_RIGHT - WIDE_LEFT) / len(cores)
    used = [pipe for pipe in PIPES if any(core["busy"].get(pipe) for core in cores)]
    rows = []
    for number, pipe in enumerate(used):
        shares = [min(core["busy"].get(pipe, 0.0) / running_us, 1.0) if running_us else 0.0 for core in cores]
        cells = [
            {"name": cores[core]["name"], "share": share, "x": round(WIDE_LEFT + core * pitch, 2)}
            for core, share in enumerate(shares)
        ]
        kinds = {_kind(core) for core in cores if core["busy"].get(pipe)}
        having = [share for core, share in zip(cores, shares, strict=True) if _kind(core) in kinds]
        rows.append({"pipe": pipe, "y": 30 * number, "cells": cells, "mean": sum(having) / len(having)})
    ticks = _core_ticks(len(cores), WIDE_LEFT, pitch)
    return {"rows": rows, "width": round(pitch - 2, 2), "height": 30 * len(used) + 22, "ticks": ticks}


def _drawn(spans: Sequence[Mapping[str, Any]], scale: float) -> Iterator[dict[str, Any]]:
    """Yield rectangles of a lane; spans that are too close to be distinguished become one."""
    begin = end = -1.0
    names: list[str] = []

    def rectangle() -> dict[str, Any]:
        title = f"{names[0]}, {end - begin:.3f} us" if len(names) == 1 else f"{len(names)} instructions"
        return {"x": round(WIDE_LEFT + begin * scale, 2), "width": round((end - begin) * scale, 2), "title": title}

    for span in spans:
        if names and (span["ts"] - end) * scale > FINEST_SPAN:
            yield rectangle()
            names = []
        if not names:
            begin = span["ts"]
        names.append(f"{span['name']} at {Path(span['args']['at']).name}")
        end = span["ts"] + span["dur"]
    if names:
        yield rectangle()


def _lanes(launch: Mapping[str, Any], events: Sequence[Mapping[str, Any]], running_us: float) -> dict[str, Any] | None:
    core = launch["critical_core"]
    spans = sorted(
        (event for event in events if event["ph"] == "X" and event["pid"] == core), key=lambda event: event["ts"]
    )
    if not spans or not running_us:
        return None
    scale = (WIDE_RIGHT - WIDE_LEFT) / running_us
    tracks = {
        event["args"]["name"]: event["tid"]
        for event in events
        if event["name"] == "thread_name" and event["pid"] == core
    }
    used = [pipe for pipe in PIPES if pipe in tracks]
    rows: list[dict[str, Any]] = [
        {
            "pipe": pipe,
            "y": 30 * row + 3,
            "spans": list(_drawn([span for span in spans if span["tid"] == tracks[pipe]], scale)),
        }
        for row, pipe in enumerate(used)
    ]
    bands, start = [], 0.0
    for phase in launch["phases"]:
        start += phase["sync_us"]
        bands.append({"x": round(WIDE_LEFT + start * scale, 2), "width": round(_phase_us(phase) * scale, 2)})
        start += _phase_us(phase)
    return {
        "core": launch["cores"][core]["name"],
        "rows": rows,
        "bands": bands,
        "height": 30 * len(used) + 22,
        "merged": sum(len(row["spans"]) for row in rows) < len(spans),
        "ticks": [
            {"at": round(WIDE_LEFT + us * scale, 1), "label": f"{_number(us)} us"}
            for us in _linear_ticks(running_us, 10)
        ],
    }


def _launch(
    launch: Mapping[str, Any], figures: Mapping[str, Any], soc: Soc, events: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    launches = figures["launches"]
    launch_us = figures["launch_us"] / len(launches)
    running_us = sum(_phase_us(phase) + phase["sync_us"] for phase in launch["phases"])
    shown = _phases(launch)
    limits = {_limit_of(phase) for phase in launch["phases"]}
    used = [name for name in PIPE_WORDS if any(name in phase["path"] for phase in launch["phases"])]
    return {
        "title": f"{launch['op_type']}: " if len(launches) > 1 else "",
        "core_kinds": len({_kind(core) for core in launch["cores"]}),
        "largest_part": _largest_part(launch, launch_us),
        "timeline": _timeline(launch, launch_us),
        "timeline_legend": [
            ("launch", "launch"),
            *((limit, f"phase limited by {LIMITS[limit]}") for limit in LIMITS if limit in limits),
            *([("barrier", "barrier of all cores")] if len(launch["phases"]) > 1 else []),
        ],
        "phases": shown,
        "hidden_phases": len(launch["phases"]) - len(shown),
        "pipe_legend": [(name, PIPE_WORDS[name]) for name in used],
        "roofline": _roofline(launch, soc, launch["first_touch_bytes"], running_us),
        "load": _load(launch),
        "heat": _heat(launch, running_us),
        "balance": launch["balance"],
        "lines": lines_of(launch, launch_us),
        # The trace is that of the last launch.
        "lanes": _lanes(launch, events, running_us) if launch is launches[-1] else None,
    }


def _value(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def render(
    cases: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
    compared: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """Return the page as HTML.

    Args:
        cases: For each case, its facts and the events of the trace of its last launch. Facts are `operator`, `soc`,
            `name`, by name `shapes` and `dtypes` of the inputs and `attrs`, and the keys of
            `opforge.twin.profile.summary`.
        compared: The result of `opforge.twin.profile.compare.compare`.
    """
    first, _ = cases[0]
    soc = SOCS[first["soc"]]
    return render_page(
        Path(__file__).with_name("profile_page.html.j2"),
        operator=first["operator"],
        chip=first["soc"],
        soc=soc,
        constants=_constants(),
        error_range=range_text(),
        compared=comparison(compared or ()),
        cases=[
            {
                **facts,
                "drawn": [_launch(launch, facts, soc, events) for launch in facts["launches"]],
                "table": [
                    {"name": name, "value": _value(facts[name]), "meaning": text} for name, text in MEANINGS.items()
                ],
            }
            for facts, events in cases
        ],
    )
