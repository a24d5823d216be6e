"""Test `opforge check` with a model per fault, and the command line of `opforge atc`."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.frontend import convert
from opforge.frontend.io.load import SourceModel
from opforge.frontend.targets.check import check_model

HEAD = "(float[2, 4, 3] x) => (float[2, 4, 3] y)"


def parse(text, opset=18, domains=()):
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")


def findings(model, tmp_path, environment=None):
    return check_model(SourceModel(tmp_path / "m.onnx", b"", model), environment or {})


def the_finding(model, tmp_path, environment=None, level="error"):
    (found,) = (f for f in findings(model, tmp_path, environment) if f.level == level)
    assert "\n" not in str(found)
    return found


def test_a_good_model_has_no_findings(tmp_path):
    assert findings(parse(f"{HEAD} {{y = Relu (x)}}"), tmp_path) == []


CASES = """(float[6, 3] x, int64[2] i, float[2, 4, 3] z) => (float[2, 3] y, float[2, 3] w) {
    [n] y = npu.NPUGroupedBiasAddGrad (x, i) [m] w = npu.NPUGroupedBiasAddGrad (z)}"""


def test_a_model_with_a_node_of_another_case_goes_through_all_commands(tmp_path):
    source, model, again, inputs = (str(tmp_path / name) for name in ("s.onnx", "m.onnx", "a.onnx", "i.npz"))
    onnx.save(parse(CASES, domains=["npu"]), source)
    x, z = np.arange(18, dtype=np.float32).reshape(6, 3), np.ones((2, 4, 3), np.float32)
    np.savez(inputs, x=x, i=np.array([2, 6]), z=z)
    for arguments in (
        ["convert", source, "-o", model, "--verify"],
        ["check", model],
        ["run", model, "--inputs", inputs, "--outputs", str(tmp_path / "o.npz")],
        ["convert", model, "-o", again, "--verify"],
    ):
        found = CliRunner().invoke(app, arguments)
        assert found.exit_code == 0, found.output
    assert [node.op_type for node in onnx.load(model).graph.node] == ["GroupedBiasAddGrad", "GroupedBiasAddGrad_equal"]
    assert "the model is unchanged" in " ".join(found.output.split())
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    with np.load(tmp_path / "o.npz") as outputs:
        np.testing.assert_array_equal(outputs["y"], [x[:2].sum(0), x[2:].sum(0)])
        np.testing.assert_array_equal(outputs["w"], z.sum(1))


@pytest.mark.parametrize(
    ("text", "domains", "node", "code", "words"),
    [
        (f"{HEAD} {{[n] y = d.Foo (x)}}", ["d"], "n (d::Foo)", "E13010", "d::1::Foo"),
        (f"{HEAD} {{[n] y = Gelu (x)}}", [], "n (Gelu)", "E13010", "ai.onnx::18::Gelu"),
        (f"{HEAD} {{[a] z = Relu (x) [a] y = Relu (z)}}", [], "a (Relu)", "E13009", "another node"),
        (f"{HEAD} {{[x] y = Relu (x)}}", [], "x (Relu)", "E13009", "an input"),
        ("() => (float[2] y) {y = Constant <value = float[2] {1, 2}> ()}", [], "model", "E16001", "no input"),
        ("(float[2] x) => () {y = Relu (x)}", [], "model", "E16001", "no output"),
        ("(float x_) => (y) {y = Relu (x_)}", [], "x_", "silent", "scalar"),
        (f"{HEAD} {{[k] k = Constant <value_float = 2.0> () y = Add (x, k)}}", [], "k (Constant)", "silent", "empty"),
        (f'{HEAD} {{[n] y = Clip ("", x)}}', [], "n (Clip)", "E19999", "input 0"),
        ("(float8e4m3fnuz[2] x) => (float8e4m3fnuz[2] y) {y = Identity (x)}", [], "x", "E19999", "float8e4m3fnuz"),
        (
            "(float[2, 3] x, int64[2] i) => (float[2, 3] y) {[n] y = npu.NPUGroupedBiasAddGrad (x)}",
            ["npu"],
            "n (npu::NPUGroupedBiasAddGrad)",
            "EZ9999",
            "[C3]",
        ),
        (
            "(double[2, 4, 3] x) => (y) {[n] y = npu.NPUGroupedBiasAddGrad (x)}",
            ["npu"],
            "n (npu::NPUGroupedBiasAddGrad)",
            "opforge check",
            "[C2]",
        ),
    ],
)
def test_a_fault(text, domains, node, code, words, tmp_path):
    model = parse(text, domains=domains)
    if "x_" in text:
        model.graph.input[0].type.tensor_type.ClearField("shape")
    found = [f for f in findings(model, tmp_path) if f.level == "error" and f.code == code]
    assert [f.node for f in found] == [node]
    assert words in found[0].cause
    assert found[0].fix


MISSPELT = [
    ("npu.NPUGroupedBiasAddGrd", "npu::NPUGroupedBiasAddGrd", "did you mean npu::NPUGroupedBiasAddGrad?"),
    ("opforge.NPUConvTBCBackward", "opforge::NPUConvTBCBackward", "did you mean opforge::ConvTbcBackward?"),
    ("NPUNsaCompressGrads", "NPUNsaCompressGrads", "did you mean NPUNsaCompressGrad?"),
    ("npu.NPUBiasGeluGrad", "npu::NPUBiasGeluGrad", "expected one of npu::NPUBatchNormElemtBackward, npu::NPUConvTbc"),
    ("opforge.Qrst", "opforge::Qrst", "expected one of opforge::BatchNormElemtBackward, opforge::ConvTbcBackward, "),
]


@pytest.mark.parametrize(("node", "name", "expected_fix"), MISSPELT)
def test_check_and_convert_report_a_misspelled_operator(node, name, expected_fix, tmp_path):
    model = parse(f"{HEAD} {{[n] y = {node} (x)}}", domains=["npu", "opforge"])
    found = the_finding(model, tmp_path)
    assert (found.node, found.code) == (f"n ({name})", "E13010")
    assert found.fix.replace("ai.onnx::", "").startswith(expected_fix)
    (left,) = convert(model).left
    assert left.node == "n"
    assert left.reason.replace("ai.onnx::", "").startswith(f"no operator has the name {name}; {expected_fix}")


@pytest.mark.parametrize("node", ["d.NPUGroupedBiasAddGrd", "Gelu"])
def test_other_names_are_not_reported(node, tmp_path):
    model = parse(f"{HEAD} {{[n] y = {node} (x)}}", domains=["d"])
    assert the_finding(model, tmp_path).fix == "replace it by standard operators"
    assert convert(model).left == []


def test_sparse_and_sequence_values_are_reported(tmp_path):
    model = parse(f"{HEAD} {{y = Add (x, s)}}")
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0])), [3])
    )
    assert "sparse" in the_finding(model, tmp_path).cause
    model = parse("(seq(float[2]) x, int64 n) => (float[2] y) {y = SequenceAt (x, n)}")
    found = the_finding(model, tmp_path)
    assert (found.node, found.code) == ("x", "E19999")
    assert "sequence_type" in found.cause


def test_more_inputs_than_the_operator_has(tmp_path):
    assert "expected at most 1" in the_finding(parse(f"{HEAD} {{[n] y = Relu (x, x)}}"), tmp_path).cause


def test_the_type_of_a_constant_inside(tmp_path):
    model = parse(f"{HEAD} {{k = Constant () y = Add (x, k)}}")
    tensor = helper.make_tensor("", TensorProto.FLOAT8E4M3FNUZ, [1], [1.0])
    model.graph.node[0].attribute.append(helper.make_attribute("value", tensor))
    assert "float8e4m3fnuz" in the_finding(model, tmp_path).cause


@pytest.mark.parametrize("custom_node", ["", "[n] z = npu.NPUGroupedBiasAddGrad (x)"])
def test_the_repair_is_one_that_works(custom_node, tmp_path):
    """A conversion fixes only a model with a mapped node, and folds only nodes that it can evaluate."""
    text = (
        "[k] k = Constant <value_float = 2.0> () [m] m = Neg (k) [r] r = Erf (k) [s] s = RandomNormal <shape = [1]> ()"
    )
    model = parse(
        f"(float[2, 4, 3] x) => (y, z) {{{text} a = Add (x, m) b = Add (a, s) y = Add (b, r)"
        f" {custom_node or 'z = Relu (x)'}}}",
        domains=["npu"],
    )
    fixes = {f.node: f.fix for f in findings(model, tmp_path) if f.code == "silent"}
    repaired = {node for node, fix in fixes.items() if "opforge convert" in fix}
    assert repaired == ({"k (Constant)", "m (Neg)", "r (Erf)"} if custom_node else set())
    after = {f.node for f in findings(convert(model).model, tmp_path) if f.code == "silent"}
    assert after == set(fixes) - repaired


def test_constants_that_are_also_inputs_vanish_too(tmp_path):
    model = parse("(float[2] x, float[2] w) => (float[2] y) {[n] k = Erf (w) y = Add (x, k)}")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert the_finding(model, tmp_path).node == "n (Erf)"


def test_a_new_opset(tmp_path):
    found = findings(parse(f"{HEAD} {{[n] y = Relu (x)}}", 23), tmp_path)
    assert [(f.node, f.code) for f in found] == [("model", "E13010"), ("n (Relu)", "E13010")]


def test_a_domain_without_version(tmp_path):
    model = parse(f"{HEAD} {{[n] y = Relu (x)}}")
    model.graph.node[0].domain = "d"
    assert the_finding(model, tmp_path).code == "E19999"


def test_several_domains_stop_older_versions(tmp_path):
    model = parse("(float[2, 4, 3] x) => (y) {t = Relu (x) y = npu.NPUGroupedBiasAddGrad (t)}", domains=["npu"])
    found = the_finding(model, tmp_path, level="warning")
    assert (found.code, findings(model, tmp_path)) == ("E16005", [found])


def test_nameless_outputs_are_joined_to_nameless_inputs(tmp_path):
    model = parse(f'{HEAD} {{[a] y, "" = Dropout (x) [b] z = Clip (y, "", m)}}')
    model.graph.initializer.append(numpy_helper.from_array(np.float32(1), "m"))
    assert the_finding(model, tmp_path).node == "a (Dropout)"


def test_dropped_constant_expression_is_reported(tmp_path):
    model = parse(
        "(float[2] x) => (float[2] y, float[2] z) {[n] k = Neg (w) y = Add (x, k)"
        " z = Constant <value = float[2] {1, 2}> ()}"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert [(f.node, f.code) for f in findings(model, tmp_path)] == [("n (Neg)", "silent")]


def test_local_function_and_convertible_node_are_reported(tmp_path):
    model = parse(
        "(float[7, 5] W, int64[4] i, float[4, 5] g) => (float[7, 5] y, float[4, 5] z)"
        " {s = Shape (W) [e] y = com.microsoft.GatherGrad (s, i, g) [c] z = d.F (g)}",
        domains=["com.microsoft", "d"],
    )
    model.functions.append(
        onnx.parser.parse_function('<opset_import: ["" : 18], domain: "d"> F (a) => (b) {b = Neg (a)}')
    )
    causes = {f.node: f.cause for f in findings(model, tmp_path) if f.level == "error"}
    assert "local function" in causes["c (d::F)"]
    assert causes["e (com.microsoft::GatherGrad)"] == "can become EmbeddingDenseBackward"


def test_cause_of_a_node_without_a_matching_rule(tmp_path):
    text = "(int64[4] i, float[7, 4] g) => (y) {s = Constant <value = int64[2] {7, 5}> ()"
    model = parse(f"{text} [n] y = com.microsoft.GatherGrad <axis = 1> (s, i, g)}}", domains=["com.microsoft"])
    found = the_finding(model, tmp_path)
    assert (found.node, found.code) == ("n (com.microsoft::GatherGrad)", "E13010")
    assert found.cause.endswith("no rule matches: axis is 1, expected 0")
    text = "(float[4, 5] g) => (y) {[n] y = com.microsoft.ReluGrad (g, g)}"
    assert "--lower-training" in the_finding(parse(text, domains=["com.microsoft"]), tmp_path).fix


def test_custom_node_in_a_loop_is_reported(tmp_path):
    body = onnx.parser.parse_graph(
        "b (int64 k, bool go, float[2, 4, 3] a) => (bool more, float[2, 4, 3] b, float[2, 3] s)"
        " {[r] s = npu.NPUGroupedBiasAddGrad (a) more = Identity (go) b = Identity (a)}"
    )
    model = parse("(float[2, 4, 3] x, int64 m) => (float[2, 4, 3] l) {}", domains=["npu"])
    model.graph.node.append(helper.make_node("Loop", ["m", "", "x"], ["l", "z"], body=body))
    codes = {f.node: f.cause for f in findings(model, tmp_path) if f.level == "error"}
    assert "ATC does not read it" in codes["r (npu::NPUGroupedBiasAddGrad)"]
    assert "Loop" in codes["l (Loop)"]


def vendor(tmp_path, *libraries):
    folder = tmp_path / "vendors" / "v"
    (folder / "op_impl").mkdir(parents=True)
    (folder / "op_proto").mkdir()
    (folder / "manifest.json").write_text(json.dumps({"operators": ["GroupedBiasAddGrad"], "files": {}}))
    from opforge.package.doctor.cann_environment import CannEnvironment

    environment = {"ASCEND_CUSTOM_OPP_PATH": str(folder)}
    (found,) = CannEnvironment(environment).vendors
    for library in libraries:
        found.libraries[library].parent.mkdir(parents=True, exist_ok=True)
        found.libraries[library].write_bytes(b"")
    return environment


@pytest.mark.parametrize(
    ("libraries", "code"), [([], "E13010"), (["ONNX plugin"], "E10501"), (["ONNX plugin", "shape inference"], None)]
)
def test_missing_libraries_of_the_package_are_reported(libraries, code, tmp_path):
    model = parse("(float[2, 4, 3] x) => (y) {[n] y = npu.NPUGroupedBiasAddGrad (x)}", domains=["npu"])
    found = [f.code for f in findings(model, tmp_path, vendor(tmp_path, *libraries)) if f.level == "error"]
    assert found == ([code] if code else [])


def opforge(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_check_prints_a_line_per_finding_and_exits_1(tmp_path):
    onnx.save(parse(f"{HEAD} {{[n] y = d.Foo (x)}}", domains=["d"]), tmp_path / "m.onnx")
    result = opforge("check", tmp_path / "m.onnx", "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "n (d::Foo): E13010: ATC has no parser for d::1::Foo;" in result.output
    assert result.output.endswith(": 1 error, 0 warnings\n")
    entries = json.loads((tmp_path / "r.json").read_text())["findings"]
    assert {"node", "code", "cause", "fix", "level"} == set(entries[0])
    onnx.save(parse(f"{HEAD} {{y = Relu (x)}}"), tmp_path / "good.onnx")
    assert opforge("check", tmp_path / "good.onnx").exit_code == 0


@pytest.mark.parametrize("soc", ["Ascend910B4-1", "Ascend310P3", "Ascend910ProB"])
def test_atc_accepts_chips_without_figures(soc, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    onnx.save(parse(f"{HEAD} {{y = Relu (x)}}"), tmp_path / "m.onnx")
    result = opforge("atc", tmp_path / "m.onnx", "-o", tmp_path / "out", "--soc", soc)
    assert f"--soc_version={soc}" in result.output


@pytest.mark.parametrize(("option", "soc"), [("--soc", "ascend910b"), ("--soc_version", "foo"), ("--soc", "Ascend")])
def test_atc_lists_the_chips(option, soc, tmp_path):
    onnx.save(parse(f"{HEAD} {{y = Relu (x)}}"), tmp_path / "m.onnx")
    result = opforge("atc", tmp_path / "m.onnx", "-o", tmp_path / "out", option, soc)
    assert str(result.exception).startswith(f"--soc: got '{soc}', expected one of Ascend910B1, Ascend910B2, ")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_atc_converts_and_prints_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    model = parse("(float[2, 4, 3] x) => (float[2, 3] y) {y = npu.NPUGroupedBiasAddGrad (x)}", domains=["npu"])
    onnx.save(model, tmp_path / "m.onnx")
    result = opforge("atc", tmp_path / "m.onnx", "-o", tmp_path / "out", "--soc", "Ascend910B3", "--atc", "--log=info")
    assert result.exit_code == 0, result.output
    for word in (
        "--framework=5",
        "--input_format=ND",
        "--input_shape=x:2,4,3",
        "--soc_version=Ascend910B3",
        "--log=info",
    ):
        assert word in result.output
    assert onnx.load(tmp_path / "out_converted.onnx").graph.node[0].op_type == "GroupedBiasAddGrad"


def test_atc_runs_if_it_is_installed(tmp_path, monkeypatch):
    tool = tmp_path / "atc"
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\nexit 7\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    onnx.save(parse("(float[2, 4, 3] x) => (float[2, 4, 3] y) {y = Relu (x)}"), tmp_path / "m.onnx")
    assert opforge("atc", tmp_path / "m.onnx").exit_code == 1
    assert f"--model={tmp_path}/m_converted.onnx" in (tmp_path / "called").read_text()


@pytest.mark.parametrize("code", [None, 0, 7])
def test_atc_answers_in_json(tmp_path, code):
    """The report is the only text on stdout, for any output of atc; tested as a process, because atc would share its
    stdout."""
    if code is not None:
        (tmp_path / "atc").write_text(f"#!/bin/sh\necho ATC start\nexit {code}\n")
        (tmp_path / "atc").chmod(0o755)
    onnx.save(parse("(float[2, 4, 3] x) => (float[2, 4, 3] y) {y = Relu (x)}"), tmp_path / "m.onnx")
    command = [sys.executable, "-m", "opforge.cli", "atc", tmp_path / "m.onnx", "--json", "-"]
    environment = os.environ | {"PATH": f"{tmp_path}:/bin:/usr/bin"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    answer = json.loads(result.stdout)
    assert (result.returncode, answer["exit_code"]) == (1 if code else 0, code)
    assert answer["findings"] == []
    assert answer["command"][:2] == ["atc", f"--model={tmp_path}/m_converted.onnx"]


def test_atc_json_states_the_reason_if_atc_is_not_called(tmp_path):
    onnx.save(parse("(float[4] x) => (float[4] y) {[n] y = d.Foo (x)}", domains=["d"]), tmp_path / "m.onnx")
    assert opforge("atc", tmp_path / "m.onnx", "--json", tmp_path / "r.json").exit_code == 1
    answer = json.loads((tmp_path / "r.json").read_text())
    assert (answer["command"], answer["exit_code"]) == (None, None)
    assert answer["findings"][0]["level"] == "error"


def test_atc_needs_sizes(tmp_path):
    onnx.save(parse("(float[N, 4] x) => (float[N, 4] y) {y = Relu (x)}"), tmp_path / "m.onnx")
    result = opforge("atc", tmp_path / "m.onnx")
    assert "input 'x' has the shape [?,4]; add its sizes: --input-shape 'x:...'" in str(result.exception)
    assert not (tmp_path / "m_converted.onnx").exists()
    assert opforge("atc", tmp_path / "m.onnx", "--input-shape", "x:2,4").exit_code == 0
    assert opforge("atc", tmp_path / "m.onnx", "--input-shape", "x:1~8,4").exit_code == 0


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ("z:2,4", "'z:2,4': the model has no input 'z', expected one of 'x', 'n:0', 's'"),
        ("w:4", "no input 'w'"),
        ("x:2,4;n:0:3;x:2,4", "a second shape"),
        ("x:2", "got 2, expected 2 sizes that fit the shape [?,4]"),
        ("x:2,5;n:0:3", "got 2,5, expected 2 sizes that fit the shape [?,4]"),
        ("x:2,4;n:0:3;s:1", "got 1, expected 0 sizes that fit the shape []"),
        ("x:2,4", "input 'n:0' has the shape [?]"),
        ("x:2,4;", "'': expected 'name:2,3'"),
        ("x:2,four", "'x:2,four': expected 'name:2,3'"),
    ],
)
def test_shapes_for_atc_are_those_of_the_inputs(shapes, words, tmp_path):
    model = parse("(float[N, 4] x, float[M] n, float s, float[4] w) => (float[N, 4] y) {y = Add (x, s)}")
    model.graph.input[1].name = "n:0"
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx")
    assert opforge("atc", tmp_path / "m.onnx", "--input-shape", "x:2,4;n:0:3;s:").exit_code == 0
    result = opforge("atc", tmp_path / "m.onnx", "--input-shape", shapes)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize("place", [".", "/", ".."])
def test_atc_of_a_folder_is_refused(place):
    assert "got a directory, expected a regular file" in str(opforge("atc", place).exception)


@pytest.mark.parametrize(("domain", "codes"), [("opforge", {"E16005"}), ("npu", {"E16005"}), ("ai.onnx", set())])
def test_custom_domain_warns_about_older_versions(domain, codes, tmp_path):
    model = parse(
        f"{HEAD.replace('y)', 'w)')} {{[n] y = npu.NPUGroupedBiasAddGrad (x) w = Relu (x)}}", domains=["npu", "d"]
    )
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3]))
    found = findings(convert(model, domain=domain).model, tmp_path)
    assert {finding.code for finding in found} == codes
    assert all(finding.level == "warning" and "--domain ai.onnx" in finding.fix for finding in found)
