"""Test `opforge run` with the time of a whole step: estimates of the twin for custom nodes, a roofline for all
others."""

import json
import re
from itertools import pairwise

import numpy as np
import onnx
import pytest
from make_training_steps import HERE, STEPS
from onnx import helper
from typer.testing import CliRunner

from opforge import twin
from opforge.cli.main import app
from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.run import custom_nodes, execute
from opforge.frontend.run.custom_nodes import TwinMode
from opforge.frontend.run.execute import run_model
from opforge.frontend.run.sample_inputs import sample_inputs
from opforge.frontend.run.step_time import step_time
from opforge.twin.build import npu_model
from opforge.twin.compiler.npu_model import constant_of, range_text

NODE = "npu.NPUGroupedBiasAddGrad"
SOC = "Ascend910B1"
FAST = TwinMode("fast")


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> g {text}')


def opforge(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def timed(model, arrays, mode=FAST):
    execution = run_model(model, arrays, mode=mode, keep_values=True)
    return execution, step_time(model, execution, SOC)


@pytest.fixture(scope="module", params=STEPS)
def step(request, tmp_path_factory):
    """Return a converted training step and all files that `opforge run` writes for it."""
    folder = tmp_path_factory.mktemp(request.param)
    conversion = convert(onnx.load(HERE / f"{request.param}_training.onnx"), lower_training=True)
    onnx.save(conversion.model, folder / "m.onnx")
    paths = {"outputs": folder / "o.npz", "json": folder / "r.json", "trace": folder / "t.json"}
    options = [text for name, path in paths.items() for text in (f"--{name}", path)]
    result = opforge("run", folder / "m.onnx", *options)
    assert result.exit_code == 0, result.output
    return conversion, folder, result.output


def test_a_training_step_runs_on_made_up_arrays(step):
    """Each custom node ran on the twin, with the same estimate as a single call, and correct numbers."""
    conversion, folder, printed = step
    report = json.loads((folder / "r.json").read_text())
    arrays = sample_inputs(conversion.model, convert(conversion.model))
    execution, _ = timed(conversion.model, arrays)
    assert [node["node"] for node in report["nodes"]] == [call.node for call in execution.calls]
    assert {node["node"] for node in report["nodes"]} == {entry.node for entry in conversion.mapped}
    by_name = {entry.node: entry for entry in conversion.mapped}
    specs = {spec.op_type: spec for spec in execute_specs()}
    for node in report["nodes"]:
        entry = by_name[node["node"]]
        names = [tensor.name for tensor in specs[entry.op].inputs]
        inputs = {key: execution.values[name] for key, name in zip(names, entry.inputs, strict=True) if name}
        single = twin.run(entry.op, inputs, entry.attrs).report
        assert node["estimate_us"] == single.estimate_us > single.launch_us
        assert (node["gm_bytes_read"], node["gm_bytes_written"]) == (single.gm_bytes_read, single.gm_bytes_written)
        assert f"{single.estimate_us:.2f}" in printed
    assert f"estimates in us, {range_text()}" in printed
    expected = execute.execute(conversion.model, arrays, operators="function")
    with np.load(folder / "o.npz") as outputs:
        assert set(outputs.files) == expected.keys()
        for name in outputs.files:
            np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-3, atol=1e-4)


def execute_specs():
    from opforge.frontend.operators import project_specs

    return project_specs()


def test_shares_add_up_to_the_step(step):
    _, folder, printed = step
    report = json.loads((folder / "r.json").read_text())
    total = report["step"]
    assert total["ours_us"] + total["others_us"] == pytest.approx(total["estimate_us"])
    assert sum(node["estimate_us"] for node in report["nodes"]) == pytest.approx(total["ours_us"])
    for node in report["nodes"]:
        assert node["share"] == pytest.approx(node["estimate_us"] / total["estimate_us"])
        assert f"{100 * node['share']:.1f} %" in printed
    launch = npu_model()["constants"]["launch_seconds"]["value"] * 1e6
    assert total["others"] > 90
    assert total["others_us"] >= total["others"] * launch
    nodes = onnx.load(folder / "m.onnx").graph.node
    assert len(nodes) == len(report["nodes"]) + total["others"] + total["free"]
    assert total["free"] >= sum(node.op_type in ("Constant", "Reshape") for node in nodes)
    assert "estimated time of the model" in printed


def test_trace_has_every_node_and_the_cores_of_custom_operators(step):
    _, folder, _ = step
    report = json.loads((folder / "r.json").read_text())
    trace = json.loads((folder / "t.json").read_text())
    events = trace["traceEvents"]
    assert "estimate" in trace["otherData"]["note"]
    nodes = [event for event in events if event["ph"] == "X" and event["pid"] == 1000]
    assert len(nodes) == report["step"]["others"] + len(report["nodes"])
    for before, after in pairwise(nodes):
        assert before["ts"] + before["dur"] == pytest.approx(after["ts"])
    end = nodes[-1]["ts"] + nodes[-1]["dur"]
    assert end == pytest.approx(report["step"]["estimate_us"])
    ours = [event for event in nodes if event["tid"] == 0]
    assert [(event["name"], event["dur"]) for event in ours] == [
        (node["node"], node["estimate_us"]) for node in report["nodes"]
    ]
    cores = [event for event in events if event["ph"] == "X" and event["pid"] != 1000]
    assert min(core["pid"] for core in cores) >= 0
    for event in ours:
        own = [core for core in cores if event["ts"] <= core["ts"] < event["ts"] + event["dur"]]
        cores = [core for core in cores if core not in own]
        launch = npu_model()["constants"]["launch_seconds"]["value"] * 1e6
        assert min(core["ts"] for core in own) >= event["ts"] + launch - 1e-3
        assert max(core["ts"] + core["dur"] for core in own) == pytest.approx(event["ts"] + event["dur"], abs=1e-3)
    assert cores == []
    named = [(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"]
    assert len(named) == len(set(named))


def test_the_roofline_has_the_bandwidth_of_the_chip():
    model = parse("(float[1024,1024] x) => (float[1024,1024] y) { y = Relu(x) }")
    execution = run_model(model, {"x": np.zeros((1024, 1024), np.float32)}, mode=FAST, keep_values=True)
    for soc in ("Ascend910B1", "Ascend910B4"):
        us = step_time(model, execution, soc).total_us
        seconds = (us - constant_of("launch_seconds", soc) * 1e6) * 1e-6
        assert seconds == pytest.approx((2 << 22) / constant_of("gm_bandwidth_bytes_per_s", soc))
    assert constant_of("gm_bandwidth_bytes_per_s", "Ascend910B4") < 0.5 * constant_of("gm_bandwidth_bytes_per_s", SOC)


def test_every_type_of_node_is_counted(step):
    _, folder, printed = step
    report = json.loads((folder / "r.json").read_text())
    spans = [
        e for e in json.loads((folder / "t.json").read_text())["traceEvents"] if e["ph"] == "X" and e["pid"] == 1000
    ]
    for entry in report["types"]:
        own = [span for span in spans if span["args"]["type"] == entry["type"]]
        assert entry["nodes"] == len(own)
        assert entry["estimate_us"] == pytest.approx(sum(span["dur"] for span in own))
        assert entry["moved_bytes"] == sum(span["args"]["moved_bytes"] for span in own)
        label = ", roofline" if entry["is_roofline"] else re.escape(f", {range_text()}")
        figures = rf"{entry['estimate_us']:.2f}{label} +│ {100 * entry['share']:.1f} %"
        row = rf"{entry['type']} +│ {entry['nodes']} +│ {figures}"
        assert bool(re.search(row, printed)) == (entry["share"] >= 0.01)
    times = [entry["estimate_us"] for entry in report["types"]]
    assert times == sorted(times, reverse=True)
    assert sum(entry["nodes"] for entry in report["types"]) == len(spans)
    assert sum(entry["share"] for entry in report["types"]) == pytest.approx(1)
    for node in report["nodes"]:
        (entry,) = (entry for entry in report["types"] if entry["type"] == node["op"])
        assert entry["moved_bytes"] >= node["gm_bytes_read"] + node["gm_bytes_written"]
    launches = report["step"]["others_launches_us"]
    assert launches == pytest.approx(1.5 * report["step"]["others"])
    assert f"{launches:.1f} us is launch overhead" in " ".join(printed.split())


def best_us(moved, products=0.0, peak=1024):
    """Return the expected time: 1.5 us launch, then 1.42 TB/s or 24 cube cores at 1850 MHz, which multiply whole
    blocks."""
    return 1.5 + max(moved / 1.42e12, products / (peak * 24 * 1850e6)) * 1e6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[512, 512] a, float[512, 512] b) => (float[512, 512] y) {y = MatMul (a, b)}", best_us(3 << 20, 512**3)),
        (
            "(float16[4, 8, 16] a, float16[4, 16, 32] b) => (float16[4, 8, 32] y) {y = MatMul (a, b)}",
            best_us(2 * 4 * (8 * 16 + 16 * 32 + 8 * 32), 4 * 16 * 16 * 32, 4096),
        ),
        (
            "(float[64, 512] a, float[1024, 512] b, float[1024] c) => (y) {y = Gemm <transB=1> (a, b, c)}",
            best_us(4 * (64 * 512 + 1024 * 512 + 1024 + 64 * 1024), 64 * 512 * 1024),
        ),
        (
            "(float[40, 25, 512] a, float[512, 512] b) => (float[40, 25, 512] y) {y = MatMul (a, b)}",
            best_us(4 * (2 * 1000 + 512) * 512, 1008 * 512 * 512),
        ),
        (
            "(float[40, 25, 511] a, float[40, 511, 500] b) => (float[40, 25, 500] y) {y = MatMul (a, b)}",
            best_us(4 * 40 * (25 * 511 + 511 * 500 + 25 * 500), 40 * 32 * 512 * 512),
        ),
        (
            "(float[2, 64, 32, 32] x, float[24, 64, 3, 3] w) => (float[2, 24, 30, 30] y) {y = Conv (x, w)}",
            best_us(4 * (2 * 64 * 1024 + 24 * 576 + 2 * 24 * 900), 1808 * 576 * 32),
        ),
        (
            "(float[1, 64, 30, 30] x, float[64, 1, 7, 7] w) => (float[1, 64, 24, 24] y) {y = Conv <group = 64> (x, w)}",
            best_us(4 * (64 * 900 + 64 * 49 + 64 * 576), 64 * 576 * 52 * 16),
        ),
        (
            "(float[1, 64, 30, 30] x, float[64, 24, 3, 3] w) => (float[1, 24, 32, 32] y) {y = ConvTranspose (x, w)}",
            best_us(4 * (64 * 900 + 64 * 216 + 24 * 1024), 912 * 64 * 224),
        ),
        (
            "(float[1000, 64] t, int64[5] i) => (float[5, 64] y) {y = Gather (t, i)}",
            best_us(5 * 8 + 2 * 5 * 64 * 4),
        ),
        ("(float[4, 64] t, int64[500] i) => (y) {y = Gather (t, i)}", best_us(500 * 8 + 4 * 64 * 4 + 500 * 64 * 4)),
        ("(float[1000, 1000] x) => (float[1000, 1000] y) {y = Add (x, x)}", best_us(8_000_000)),
        ("(float[4, 6] x) => (float[6, 4] y) <int64[2] s = {6, 4}> {y = Reshape (x, s)}", 0),
    ],
)
def test_roofline_estimate_of_other_nodes(text, expected):
    model = parse(text)
    _, step = timed(model, sample_inputs(model, convert(model)))
    assert step.total_us == pytest.approx(expected)
    assert step.free == (expected == 0)


def test_calls_of_a_node_in_a_loop_are_one_row(calls):
    body = onnx.parser.parse_graph(
        f"b (int64 k, bool go, float[6, 3] a) => (bool more, float[6, 3] s)"
        f" {{more = Identity (go) [inner] u = {NODE} (a, i) s = Neg (a)}}"
    )
    model = parse(
        f"(float[6, 3] x, int64[3] i, int64 n, bool c) => (float[6, 3] y, float[3, 3] z) {{[first] z = {NODE} (x, i)}}"
    )
    model.graph.node.append(helper.make_node("Loop", ["n", "c", "x"], ["y"], "loop", body=body))
    arrays = {"x": np.ones((6, 3), np.float32), "i": np.array([1, 2, 6]), "n": np.array(4), "c": np.array(True)}
    _, step = timed(model, arrays)
    assert [(entry.name, len(entry.calls), entry.estimate_us) for entry in step.ours] == [
        ("first", 1, 7.5),
        ("inner", 4, 30.0),
    ]
    assert [entry.name for entry in step.others] == ["loop"]
    assert [node["calls"] for node in step.report()["nodes"]] == [1, 4]
    assert step.report()["step"]["outside_range"] == [
        "short",
        "1 other node has a roofline estimate, which has no error range",
    ]
    assert step.report()["step"]["error_range"] is None
    assert {kind["type"]: kind["is_roofline"] for kind in step.report()["types"]} == {
        "GroupedBiasAddGrad": False,
        "Loop": True,
    }


def test_a_trace_of_a_huge_model_is_bounded(monkeypatch):
    monkeypatch.setattr(custom_nodes, "MOST_EVENTS", 10)
    model = parse(f"(float[40, 30] x, int64[2] i) => (y, z) {{[a] y = {NODE} (x, i) [b] z = {NODE} (x, i)}}")
    arrays = {"x": np.ones((40, 30), np.float32), "i": np.array([7, 40])}
    execution, step = timed(model, arrays, TwinMode("fast", is_traced=True))
    first, second = execution.calls
    assert len(first.events) > 10
    assert second.events == []
    assert [entry.name for entry in step.ours] == ["a", "b"]


def test_groups_are_made_up_over_all_rows(calls):
    """Also if the rows are not an input of the model."""
    model = parse(f"(float[40, 3] x, int64[3] i) => (float[3, 3] y) {{h = Neg (x) [n] y = {NODE} (h, i)}}")
    model.graph.value_info.append(helper.make_tensor_value_info("h", 1, [40, 3]))
    ends = sample_inputs(model, convert(model))["i"]
    assert ends[-1] == 40
    assert (np.diff(ends) >= 0).all()
    assert ends[0] > 3


def test_levels(tmp_path, monkeypatch):
    given = []

    def run(*_, **options):
        given.append(options)
        raise twin.AclnnError("aclnnX", 161001, "stop")

    monkeypatch.setattr(twin, "run", run)
    onnx.save(parse(f"(float[2, 4, 3] x) => (float[2, 3] y) {{[n] y = {NODE} (x)}}"), tmp_path / "m.onnx")
    for flags in ((), ("--level", "strict"), ("--level", "device"), ("--level", "fast")):
        with pytest.raises(UserError, match="161001"):
            opforge("run", tmp_path / "m.onnx", *flags)
    strict, fast = {"soc": SOC, "level": "strict"}, {"soc": SOC, "level": "fast", "seed": 1}
    assert given == [fast, strict, {"soc": SOC, "level": "device"}, fast]


@pytest.fixture
def plain(tmp_path):
    onnx.save(parse(f"(float[6, 3] x, int64[3] i) => (float[3, 3] y) {{[n] y = {NODE} (x, i)}}"), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.ones((6, 3), np.float32), i=np.array([1, 2, 6]))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--soc", "Ascend1"), "--soc: got 'Ascend1', expected one of Ascend910B1, "),
        (("--level", "hard"), "--level: got 'hard', expected one of strict, device, fast"),
        (("--inputs", "m.onnx"), "m.onnx: cannot read the inputs"),
        (("--inputs", "cut.npz"), "cut.npz: cannot read the inputs"),
        (("--inputs", "wrong.npz"), "'xx' is not an input of the model, expected 'x', 'i'; did you mean 'x'?"),
        (("--inputs", "shape.npz"), "input 'x' has float32 [6, 4], expected float32 [6, 3]"),
        (("--inputs", "missing.npz"), "cannot read the inputs: No such file"),
        (("--trace", "m.onnx"), "cannot write the trace: the command also uses"),
        (("--trace", "t.json", "--json", "t.json"), "cannot write the trace: the command also uses"),
        (("--trace", "no/t.json"), "the folder no does not exist"),
        (
            ("--inputs", "in.npz", "--trace", "in.npz"),
            "cannot write the trace: the command also uses this file",
        ),
    ],
)
def test_error_is_reported_and_nothing_is_written(plain, monkeypatch, arguments, message):
    monkeypatch.chdir(plain)
    (plain / "cut.npz").write_bytes((plain / "in.npz").read_bytes()[:100])
    np.savez(plain / "wrong.npz", xx=np.ones((6, 3), np.float32), x=np.ones((6, 3), np.float32), i=np.arange(3))
    np.savez(plain / "shape.npz", x=np.ones((6, 4), np.float32), i=np.arange(3))
    before = {path.name: path.read_bytes() for path in plain.iterdir()}
    with pytest.raises(UserError) as caught:
        opforge("run", "m.onnx", *arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert {path.name: path.read_bytes() for path in plain.iterdir()} == before


def test_arrays_that_cannot_be_generated_are_one_line(plain):
    model = onnx.load(plain / "m.onnx")
    model.graph.input.append(helper.make_tensor_value_info("big", 1, [1 << 20, 1 << 20]))
    onnx.save(model, plain / "m.onnx")
    with pytest.raises(UserError, match="input 'big': got 1099511627776 elements"):
        opforge("run", plain / "m.onnx")


def test_names_are_escaped_on_the_terminal_and_in_the_trace(plain):
    model = onnx.load(plain / "m.onnx")
    model.graph.node[0].name = '"}]\x1b[31m[red]'
    onnx.save(model, plain / "m.onnx")
    result = opforge("run", plain / "m.onnx", "--trace", plain / "t.json")
    assert result.exit_code == 0, result.output
    assert "\x1b[31m" not in result.output
    events = json.loads((plain / "t.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X" and event["pid"] == 1000] == ['"}]\x1b[31m[red]']
    assert not [path for path in plain.iterdir() if path.name.startswith(".")]


def test_step_without_custom_nodes_has_an_estimate(tmp_path):
    onnx.save(parse("(float[40, 50] x) => (float[40, 50] y) {h = Neg (x) y = Exp (h)}"), tmp_path / "m.onnx")
    printed = opforge("run", tmp_path / "m.onnx").output
    assert "no node ran on the twin" in printed
    words = " ".join(printed.split())
    assert re.search(
        r"estimated time of the model \d+\.\d us: 0\.0 us in custom operators \(twin\), \d+\.\d us in 2 other nodes",
        words,
    )
    assert "note: 2 other nodes have a roofline estimate, which has no error range" in words
    assert not re.search(r"[+-]\d+ %", printed)  # the range belongs to the time model
    assert printed.count(", roofline") == 2
    assert re.search(r"Neg\s+│ 1 ", printed)
