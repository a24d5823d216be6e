"""`opforge profile`: figures, trace, refusals."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from opforge.codegen.cli import app
from opforge.codegen.errors import UserError
from opforge.twin.profile import parse_attrs, parse_shapes, profile, summary

SHAPES = {"grad_y": (8192, 512), "group_idx": (60,)}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    trace = tmp_path_factory.mktemp("profile") / "trace.json"
    result = profile("GroupedBiasAddGrad", SHAPES, dtype="fp32", trace=trace)
    return summary(result), json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]


def test_the_estimate_is_above_the_bound(profiled):
    figures, _ = profiled
    assert figures["minimal_bytes"] == 8192 * 512 * 4 + 60 * 4 + 60 * 512 * 4
    assert figures["bound_us"] == pytest.approx(figures["minimal_bytes"] / 1.6e12 * 1e6, rel=1e-4)
    assert figures["estimate_us"] > figures["launch_us"] + figures["bound_us"]
    assert figures["eff"] == pytest.approx(figures["bound_us"] / (figures["estimate_us"] - figures["launch_us"]))
    assert 0.5 < figures["eff"] < 1
    assert 1 <= figures["bytes"] < 1.05
    phases = figures["launches"][0]["phases"]
    running = sum(max(phase["core_us"], phase["gm_us"], phase["l2_us"]) + phase["sync_us"] for phase in phases)
    assert figures["estimate_us"] == pytest.approx(figures["launch_us"] + running, rel=1e-4)


def test_the_same_call_has_the_same_estimate(profiled):
    assert summary(profile("GroupedBiasAddGrad", SHAPES, dtype="fp32")) == profiled[0]


def test_the_trace_has_a_process_per_core_and_a_track_per_pipe(profiled):
    figures, events = profiled
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in spans} == set(range(48))
    named = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {named[event["pid"], event["tid"]] for event in spans} == {"S", "V", "MTE2", "MTE3"}
    critical = figures["launches"][0]["critical_core"]
    for pipe, busy in figures["launches"][0]["pipes"].items():
        mine = [event for event in spans if event["pid"] == critical and named[critical, event["tid"]] == pipe]
        assert sum(event["dur"] for event in mine) == pytest.approx(busy["critical_us"], rel=1e-3)
        ends = [event["ts"] + event["dur"] for event in mine]
        starts = [event["ts"] for event in mine]
        assert all(start >= end - 1e-9 for end, start in zip(ends, starts[1:], strict=False))
    last = max(event["ts"] + event["dur"] for event in spans)
    assert last < figures["estimate_us"] - figures["launch_us"]
    assert any("row_sum.h:" in event["args"]["at"] for event in spans)


def test_the_command_prints_and_writes(tmp_path):
    out = tmp_path / "figures.json"
    shape = ["--shape", "grad_y=40x3x30"]
    done = CliRunner().invoke(app, ["profile", "GroupedBiasAddGrad", *shape, "--dtype", "fp16", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "Estimated" in done.output
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert figures["shapes"] == {"grad_y": [40, 3, 30]}
    assert figures["minimal_bytes"] == (40 * 3 * 30 + 40 * 30) * 2


def test_what_the_options_mean():
    assert parse_shapes(["a=4x8,b=3", "c=0x1"]) == {"a": (4, 8), "b": (3,), "c": (0, 1)}
    assert parse_attrs(["k=1", "s=sum", "b=true", "l=[1, 2]"]) == {"k": 1, "s": "sum", "b": True, "l": [1, 2]}


@pytest.mark.parametrize(
    ("shapes", "options", "says"),
    [
        ({"grad_y": (4, 4)}, {"dtype": "int8"}, "--dtype: got 'int8'"),
        ({"x": (4, 4)}, {}, "--shape: got x"),
        ({"group_idx": (4,)}, {}, "needs a shape for grad_y"),
    ],
)
def test_wrong_arguments_are_named(shapes, options, says):
    with pytest.raises(UserError, match=says):
        profile("GroupedBiasAddGrad", shapes, **options)


def test_a_shape_that_is_none():
    with pytest.raises(UserError, match="expected name=4x8"):
        parse_shapes(["grad_y:4"])
