"""Test `opforge profile`: figures, trace, rejected arguments."""

from __future__ import annotations

import itertools
import json
import math
import re

import numpy as np
import pytest
from typer.testing import CliRunner
from web_page import WebPage

from opforge.cli.main import app
from opforge.codegen.data.products import SOCS
from opforge.codegen.errors import UserError
from opforge.twin.profile import parse_attrs, parse_shapes
from opforge.twin.profile.page import _roofline

CALL = ["profile", "GroupedBiasAddGrad", "--shape", "grad_y=8192x512,group_idx=60", "--dtype", "fp32"]


def figures_of(folder, *options):
    """Return the figures of `CALL`."""
    result = CliRunner().invoke(app, [*CALL, "--json", str(folder / "figures.json"), *options])
    assert result.exit_code == 0, result.output
    return json.loads((folder / "figures.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    figures = figures_of(folder, "--trace", str(folder / "trace.json"))
    return figures, json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]


def test_the_estimate_is_above_the_bound(profiled):
    figures, _ = profiled
    assert figures["minimal_bytes"] == 8192 * 512 * 4 + 60 * 4 + 60 * 512 * 4
    read = figures["minimal_bytes"] - 60 * 512 * 4  # L2 keeps the output
    assert figures["bound_us"] == pytest.approx(read / 1.42e12 * 1e6, rel=1e-4)
    assert figures["estimate_us"] > figures["launch_us"] + figures["bound_us"]
    assert figures["eff"] == pytest.approx(figures["bound_us"] / (figures["estimate_us"] - figures["launch_us"]))
    assert 0.5 < figures["eff"] < 1
    assert 1 <= figures["bytes"] < 1.05
    phases = figures["launches"][0]["phases"]
    running = sum(max(phase["core_us"], phase["gm_us"], phase["l2_us"]) + phase["sync_us"] for phase in phases)
    assert figures["estimate_us"] == pytest.approx(figures["launch_us"] + running, rel=1e-4)


def test_the_same_call_has_the_same_estimate(profiled, tmp_path):
    assert figures_of(tmp_path) == profiled[0]


def test_the_trace_has_a_process_per_core_and_a_track_per_pipe(profiled):
    _, events = profiled
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["ph"] for event in events} == {"X", "M"}
    assert {event["pid"] for event in spans} == set(range(48))
    names = {(event["name"], event["pid"], event["tid"]): event["args"] for event in events if event["ph"] == "M"}
    assert len(names) == sum(event["ph"] == "M" for event in events)
    tracks = {(event["pid"], event["tid"]) for event in spans}
    assert all(names["process_name", core, tid] == {"name": f"core {core}"} for core, tid in tracks)
    assert {names["thread_name", *track]["name"] for track in tracks} == {"S", "V", "MTE2", "MTE3"}
    assert all(event["dur"] > 0 and event["ts"] >= 0 and event["name"] for event in spans)
    assert any("row_sum.h:" in event["args"]["at"] for event in spans)


def test_the_spans_of_a_track_do_not_overlap_and_add_up_to_its_busy_time(profiled):
    figures, events = profiled
    (launch,) = figures["launches"]
    pipes = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tracks = {track: [] for track in pipes}
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    for (core, tid), spans in tracks.items():
        for before, after in itertools.pairwise(spans):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-6
        busy = launch["cores"][core]["busy"][pipes[core, tid]]
        assert sum(span["dur"] for span in spans) == pytest.approx(busy, rel=1e-3, abs=0.01)
    begin = 0.0
    for number, phase in enumerate(launch["phases"]):
        begin += phase["sync_us"]
        end = begin + max(phase["core_us"], phase["gm_us"], phase["l2_us"])
        of_phase = [span for spans in tracks.values() for span in spans if span["args"]["phase"] == number]
        assert begin - 1e-3 <= min(span["ts"] for span in of_phase)
        assert max(span["ts"] + span["dur"] for span in of_phase) <= end + 1e-3
        begin = end
    assert begin == pytest.approx(figures["estimate_us"] - figures["launch_us"], rel=1e-4)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the page and the figures of a call, by its shapes."""

    def page(shapes):
        out = tmp_path_factory.mktemp("page")
        files = {option: out / f"file.{option}" for option in ("html", "json")}
        options = [text for option, path in files.items() for text in (f"--{option}", str(path))]
        done = CliRunner().invoke(app, ["profile", "GroupedBiasAddGrad", "--shape", shapes, *options])
        assert done.exit_code == 0, done.output
        figures = json.loads(files["json"].read_text(encoding="utf-8"))
        return WebPage(files["html"].read_text(encoding="utf-8")), files["html"].read_text(encoding="utf-8"), figures

    return page


def test_page_is_self_contained_and_shows_the_figures(pages):
    page, text, figures = pages("grad_y=8192x512,group_idx=60")
    assert page.loaded == []
    assert page.open == []
    assert "url(" not in text
    assert "@import" not in text
    assert "Every time on this page is an estimate." in page.text
    for figure in ("estimate_us", "bound_us", "eff", "bal", "bytes"):
        assert f"{figures[figure]:.2f}" in page.text
        assert f"{figures[figure]:.3f}" in page.text
    assert "float16 8192 x 512" in page.text
    (launch,) = figures["launches"]
    for core, load in enumerate(launch["cores"]):
        assert f"core {core}: {load['us']:.3f} us" in page.text
        assert f"core {core}, MTE2: " in page.text
    assert f"Schedule of core {launch['critical_core']}" in page.text
    held = {
        word: max(("core_us", "gm_us", "l2_us"), key=lambda key, phase=phase: phase[key])
        for word, phase in zip(("phase 1", "phase 2"), launch["phases"], strict=True)
    }
    assert held == {"phase 1": "gm_us", "phase 2": "core_us"}
    assert "limited by the bandwidth of global memory" in page.text
    assert "limited by the slowest core" in page.text


def test_roofline_point_agrees_with_its_definition(pages):
    _, text, figures = pages("grad_y=4096x256,group_idx=8")
    (launch,) = figures["launches"]
    busy_us = sum(core["busy"].get("V", 0.0) for core in launch["cores"])
    at_work = busy_us / (figures["estimate_us"] - figures["launch_us"])
    per_kb = busy_us * SOCS["Ascend910B1"].mhz / figures["first_touch_bytes"] * 1024
    assert f"{per_kb:.3g} vector cycles per KB, {at_work:.3g} vector units at work" in text
    x, y = map(float, re.search(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text).groups())
    decades_x, decades_y = (524 - 52) / 3, (282 - 16) / 3
    assert x == pytest.approx(52 + decades_x * math.log10(per_kb), abs=0.1)
    assert y == pytest.approx(282 - decades_y * math.log10(at_work / 0.1), abs=0.1)


def test_roofline_has_the_bandwidth_of_the_chip():
    for name, rate in (("Ascend910B1", 1.42), ("Ascend910B4", 0.585)):
        chart = _roofline({"macs": 0, "cores": []}, SOCS[name], 0, 0)
        assert chart["slope_label"] == f"global memory, {rate:g} TB/s"


def test_page_of_a_call_without_launches(pages):
    page, _, figures = pages("grad_y=0x3x8")
    assert figures["launches"] == []
    assert page.open == []
    assert "Every time on this page is an estimate." in page.text


@pytest.mark.parametrize(("option", "what"), [("--trace", "trace"), ("--html", "page"), ("--json", "report")])
def test_unwritable_path_is_named(tmp_path, option, what):
    for place in (tmp_path, tmp_path / "missing" / "file"):
        arguments = ["profile", "GroupedBiasAddGrad", "--shape", "grad_y=4x3x8", option, str(place)]
        done = CliRunner().invoke(app, arguments)
        assert isinstance(done.exception, UserError)
        assert str(done.exception).startswith(f"{place}: cannot write the {what}: ")


def test_the_command_prints_and_writes(tmp_path):
    out = tmp_path / "figures.json"
    shape = ["--shape", "grad_y=40x3x30"]
    done = CliRunner().invoke(app, ["profile", "GroupedBiasAddGrad", *shape, "--dtype", "fp16", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "Estimated" in done.output
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["shapes"] == {"grad_y": [40, 3, 30]}
    assert figures["minimal_bytes"] == (40 * 3 * 30 + 40 * 30) * 2


def test_arrays_replace_shapes(tmp_path):
    arrays, out = tmp_path / "skewed.npz", tmp_path / "figures.json"
    np.savez(arrays, group_idx=np.array([1, 2, 2, 4096]))
    command = [
        "profile",
        "GroupedBiasAddGrad",
        "--shape",
        "grad_y=4096x64",
        "--inputs",
        str(arrays),
        "--json",
        str(out),
    ]
    result = CliRunner().invoke(app, [*command, "--dtype", "fp16"])
    assert result.exit_code == 0, result.output
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["shapes"] == {"grad_y": [4096, 64], "group_idx": [4]}
    assert figures["dtypes"] == {"grad_y": "float16", "group_idx": "int32"}
    assert figures["minimal_bytes"] == (4096 * 64 + 4 * 64) * 2 + 4 * 4
    twice = CliRunner().invoke(app, [*command, "--shape", "group_idx=4"])
    assert "got group_idx, which --inputs also contains" in str(twice.exception)


def test_options_are_parsed():
    assert parse_shapes(["a=4x8,b=3", "c=0x1"]) == {"a": (4, 8), "b": (3,), "c": (0, 1)}
    assert parse_attrs(["k=1", "s=sum", "b=true", "l=[1, 2]"]) == {"k": 1, "s": "sum", "b": True, "l": [1, 2]}


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ("grad_y=4x4", ["--dtype", "int8"], "--dtype: got 'int8'"),
        ("grad_y=4x4", ["--level", "hard"], "--level: got 'hard', expected one of strict, device, fast"),
        ("x=4x4", [], "--shape: got 'x'"),
        ("group_idx=4", [], "got no shape of grad_y"),
        ("grad_y=6x4", [], "grad_y: got shape [6, 4], expected 3 dimensions"),
    ],
)
def test_wrong_arguments_are_named(shape, options, message):
    result = CliRunner().invoke(app, ["profile", "GroupedBiasAddGrad", "--shape", shape, *options])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_invalid_shape_is_rejected():
    with pytest.raises(UserError, match="expected name=4x8"):
        parse_shapes(["grad_y:4"])
