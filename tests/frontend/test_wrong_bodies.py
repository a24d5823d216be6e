"""Test wrong ONNX bodies and kernels: `convert --verify` and the tests of a project report them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.data.products import DEFAULT_SOC
from opforge.codegen.errors import MissingToolError
from opforge.codegen.new import new_project
from opforge.codegen.project import Project
from opforge.frontend import convert as convert_model
from opforge.frontend.emit.functions import function_body
from opforge.frontend.io.load import load_model
from opforge.frontend.run import custom_nodes, verify
from opforge.frontend.run.agreement import agree_as_node, cases_without_test, spec_calls
from opforge.frontend.run.comparison import compare
from opforge.twin.build import build_project
from opforge.twin.test_shapes import check

pytestmark = pytest.mark.slow

STARTERS = {"row_reduction": "RowMax", "elementwise": "ScaledAdd", "gemm": "MatrixProduct"}
MODELS = {
    "row_reduction": "g (float[9, 40] x) => (float[9] z) {[n] y = npu.NPURowMax (x) z = Neg (y)}",
    "elementwise": """g (float[3, 40] x, float[3, 40] y) => (float[3, 40] z, float[3, 40] w)
        {[n] z = npu.NPUScaledAdd <alpha = 0.5> (x, y) [m] w = npu.NPUScaledAdd <alpha = 0.5> (x)}""",
    "gemm": "g (float[9, 40] x, float[7, 40] v) => (float[9, 7] y) {[n] y = npu.NPUMatrixProduct (x, v)}",
}
# Starter, a part of its spec, its replacement, the wrong node, and a part of the message.
PLANTED = [
    ("row_reduction", "ReduceMax", "ReduceMin", "n", "got the error"),
    ("row_reduction", "value = int64[1] {1}", "value = int64[1] {0}", "n", "[9] in the NumPy reference"),
    ("row_reduction", "keepdims = 0", "keepdims = 1", "n", "[9, 1] in the ONNX body"),
    ("elementwise", "z = Add (scaled, y)", "z = Mul (scaled, y)", "n", "got the error"),
    ("elementwise", "Add (scaled, y)", "Sub (scaled, y)", "n", "got the error"),
    ("elementwise", "value_float: float = @alpha", "value_float = 1.0", "n", "got the error"),
    ("elementwise", "z = Mul (x, alike)", "z = Identity (x)", "m", "got the error"),
    ("elementwise", "z = Mul (x, alike)", "w = Mul (x, alike)\n      z = Cast <to = 11> (w)", "m", "float64"),
    ("gemm", "MatMul (x, transposed)", "MatMul (x, weight)", "n", "ONNX body fails"),
    ("gemm", "y = MatMul (x, transposed)", "w = MatMul (x, transposed)\n      y = Relu (w)", "n", "got the error"),
]


@pytest.fixture(scope="module", params=STARTERS)
def project(request, tmp_path_factory):
    """Create a project from a starter; return it with its unchanged spec."""
    root = new_project(STARTERS[request.param], tmp_path_factory.mktemp("projects") / request.param, request.param)
    text = f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {MODELS[request.param]}'
    onnx.save(onnx.parser.parse_model(text), root / "m.onnx")
    (spec,) = (root / "op_proto").glob("*.yaml")
    return request.param, root, spec, spec.read_text()


@pytest.fixture
def planted(project, monkeypatch):
    """Return a function that changes the spec and returns the folder."""
    _, root, spec, text = project

    def change(old, new):
        assert old in text
        spec.write_text(text.replace(old, new, 1))
        return root

    monkeypatch.chdir(root)
    yield change
    spec.write_text(text)


def convert(*options):
    result = CliRunner().invoke(app, ["convert", "m.onnx", "-o", "o.onnx", "--verify", "--json", "r.json", *options])
    return result.exit_code, result.output or str(result.exception)


def failures(calls):
    """Return the messages of the calls with different results."""
    found = []
    for call in calls:
        try:
            agree_as_node(call.op_type, call.inputs(), call.attrs)
        except AssertionError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(("project", "old", "new", "node", "words"), PLANTED, indirect=["project"], scope="module")
def test_a_wrong_body_is_reported(project, planted, old, new, node, words):
    root = planted(old, new)
    op_type = STARTERS[project[0]]
    for options in ((), ("--bodies",)):
        (root / "o.onnx").unlink(missing_ok=True)
        code, printed = convert(*options)
        assert code == 1, printed
        assert f"node '{node}' ({op_type}): " in printed
        assert "ONNX body" in printed
        assert words in printed
        assert "correct onnx.bodies in the spec" in printed
        assert ("kernel not run" in printed) == bool(options)
        assert not (root / "o.onnx").exists()
        found = json.loads((root / "r.json").read_text())["verified_nodes"]
        wrong = [entry for entry in found if entry["same"] is False]
        assert {(entry["node"], entry["op"]) for entry in wrong} >= {(node, op_type)}
        assert all(entry["compared"].startswith("ONNX body") for entry in wrong)
    assert any("ONNX body" in text for text in failures(spec_calls()))


def test_an_unchanged_project_passes(project, planted):
    planted("op_type", "op_type")
    for options in ((), ("--bodies",)):
        code, printed = convert(*options)
        assert code == 0, printed
        assert "custom nodes, ONNX body with NumPy reference: 0 of" in printed
    kinds = {entry["compared"] for entry in json.loads(Path("r.json").read_text())["verified_nodes"]}
    assert kinds == {"kernel", "ONNX body with NumPy reference"}


@pytest.mark.parametrize("project", ["row_reduction"], indirect=True, scope="module")
def test_the_tests_of_a_project_fail_for_a_wrong_body(project, planted):
    root = planted("ReduceMax", "ReduceMin")
    command = [sys.executable, "-m", "pytest", "tests/test_specs.py", "-p", "no:xdist"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "(RowMax): output 'y': ONNX body with NumPy reference: got the error" in result.stdout


@pytest.mark.parametrize("project", ["row_reduction"], indirect=True, scope="module")
def test_without_a_reference_kernel_and_body_are_compared(project, planted):
    _, root, *_ = project
    path = root / "tests" / "reference" / "row_max.py"
    text = path.read_text()
    path.unlink()
    try:
        code, printed = convert()
        assert code == 0, printed
        assert "source computed by the ONNX body: there is no tests/reference/row_max.py" in printed
        planted("ReduceMax", "ReduceMin")
        code, printed = convert()
        assert code == 1
        assert "node 'n' (RowMax): output 'y': kernel with ONNX body: got the error" in printed
        assert "correct the kernel or onnx.bodies in the spec" in printed
    finally:
        path.write_text(text)


def test_a_kernel_that_is_not_written_is_named(tmp_path, monkeypatch):
    root = new_project("RowMax", tmp_path / "row_max", "row_reduction")
    (root / "op_kernel" / "row_max.h").unlink()
    text = f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {MODELS["row_reduction"]}'
    onnx.save(onnx.parser.parse_model(text), root / "m.onnx")
    monkeypatch.chdir(root)
    code, printed = convert()
    assert code == 0, printed
    assert "node 'n' (RowMax): kernel not run: RowMax: op_kernel/row_max.h is missing; write it" in printed
    assert "custom nodes, ONNX body with NumPy reference: 0 of 1 comparisons differ" in printed


def test_a_call_that_the_plan_refuses_is_a_difference(tmp_path, monkeypatch):
    root = new_project("KeyedSum", tmp_path / "keyed_sum", "scatter")
    spec = root / "op_proto" / "keyed_sum.yaml"
    key = "- {name: Plain, key: 1, template: [x, indices]}"
    keys = f"{key.replace('1,', '1, when: count > 3,')}\n    {key.replace('Plain, key: 1', 'Few, key: 2')}"
    spec.write_text(spec.read_text().replace(key, keys).replace("count: 10", "count: 2"))
    graph = "g (float[5, 8] x, int32[5] i) => (float[2, 8] y) {[n] y = npu.NPUKeyedSum <count = 2> (x, i)}"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {graph}'), root / "m.onnx")
    monkeypatch.chdir(root)
    message = (
        "tiling key of the plan: got 1, expected 2 by the conditions of tiling.keys; correct op_host/keyed_sum_tiling.h"
    )
    code, printed = convert()
    assert code == 1, printed
    assert message in printed
    assert "node 'n' (KeyedSum): NumPy reference not compared: there is no other result; write onnx.bodies\n" in printed
    assert not (root / "o.onnx").exists()
    project = Project(root)
    (line, *_), _ = check(project, build_project(project), DEFAULT_SOC)
    assert message in line


def test_a_wrong_kernel_and_an_absent_input(tmp_path, monkeypatch):
    root = new_project("ScaledAdd", tmp_path / "scaled_add", "elementwise")
    kernel = root / "op_kernel" / "scaled_add.h"
    kernel.write_text(kernel.read_text().replace("AscendC::Add(z, z, y", "AscendC::Sub(z, z, y"))
    monkeypatch.chdir(root)
    cases = {"with_y": [], "without_y": []}
    for call in spec_calls():
        cases[call.test.case] += failures([call])
    assert cases["without_y"] == []
    assert all("output 'z': kernel with NumPy reference: got the error" in text for text in cases["with_y"])
    assert len(cases["with_y"]) == 2


def test_body_with_a_constant_default_needs_another_test_value(tmp_path, monkeypatch):
    root = new_project("ScaledAdd", tmp_path / "scaled_add", "elementwise")
    spec = root / "op_proto" / "scaled_add.yaml"
    text = spec.read_text().replace("@alpha", "1.0").replace("value_float: float", "value_float")
    monkeypatch.chdir(root)
    spec.write_text(text)
    assert cases_without_test() == []
    assert len(failures(spec_calls())) == 4
    spec.write_text(text.replace("attrs: {alpha: -2.5}, ", ""))
    message = "got tests with the default of alpha only, expected another value in tests.shapes"
    assert cases_without_test() == [f"ScaledAdd: onnx.bodies.without_y: {message}"]


def test_integers_beyond_53_bits_are_compared_exactly():
    large = np.array([1, 2**53], np.int64)
    assert compare("y", large, large.copy()).same
    found = compare("y", large, np.add(large, [0, 1]))
    assert (found.same, found.error) == (False, 1.0)


def test_a_node_that_is_not_mapped_has_a_reason():
    call = next(call for call in spec_calls() if "group_idx" in call.dtypes)
    inputs = call.inputs() | {"group_idx": None}
    with pytest.raises(AssertionError, match=r"the node is not mapped: .*expected .*\[C3\].*; correct the call"):
        agree_as_node(call.op_type, inputs, call.attrs)


def test_no_compiler_is_one_line(project, monkeypatch):
    def refuse(*_):
        raise MissingToolError("C++ compiler: got no program g++ on PATH, expected g++ >= 11")

    monkeypatch.chdir(project[1])
    monkeypatch.setattr(verify, "prepare", refuse)
    source = load_model(Path("m.onnx"))
    with pytest.raises(MissingToolError, match="expected g\\+\\+ >= 11; without a compiler, add --bodies"):
        verify.verify_within(source, convert_model(source))


# Operator, case, a part of the body, and its replacement.
OWN = [
    ("BatchNormElemtBackward", "weighted", "Mul (invstd_c, invstd_c)", "Add (invstd_c, invstd_c)"),
    ("BatchNormElemtBackward", "weighted", "grad_input = CastLike (wide, grad_out)", "grad_input = Identity (wide)"),
    ("BatchNormElemtBackward", "plain", "Mul (both, invstd_c)", "Identity (both)"),
    ("ConvTbcBackward", "tbc", "Slice (whole, before, after, axis)", "Slice (whole, no_border, time, axis)"),
    (
        "ConvTbcBackward",
        "tbc",
        "ReduceSum <keepdims = 0> (dy_exact, rows)",
        "ReduceMax <keepdims = 0> (dy_exact, rows)",
    ),
    ("ConvTbcBackward", "tbc", "dy = Where (is_exact, dy_exact, dy_narrow)", "dy = Identity (dy_exact)"),
    ("EmbeddingDenseBackward", "rows", "is_wanted = Not (is_padding)", "is_wanted = Or (is_padding, is_row)"),
    ("EmbeddingDenseBackward", "rows", "Where (is_scaled, divisor, unit)", "Where (is_scaled, unit, unit)"),
    ("GroupedBiasAddGrad", "indexed", "Where (is_length, running, index)", "Identity (index)"),
    ("GroupedBiasAddGrad", "indexed", "wide = Cast <to = 1> (grad_y)", "wide = Abs (grad_y)"),
    (
        "GroupedBiasAddGrad",
        "equal",
        "axis = Constant <value = int64[1] {1}> ()",
        "axis = Constant <value = int64[1] {0}> ()",
    ),
    ("NsaCompressGrad", "equal", "Mul (local, stride)", "Mul (local, block)"),
    ("NsaCompressGrad", "ends", "input_grad = CastLike (dx, input)", "input_grad = Cast <to = 1> (dx)"),
]


def _one_of_each_case():
    """Return the rows; the first one of each operator and case is always tested."""
    for number, row in enumerate(OWN):
        is_repeated = any(before[:2] == row[:2] for before in OWN[:number])
        yield pytest.param(*row, marks=pytest.mark.all if is_repeated else ())


@pytest.mark.parametrize(("op_type", "case", "old", "new"), list(_one_of_each_case()))
def test_a_wrong_body_of_a_built_in_operator_is_reported(op_type, case, old, new, monkeypatch):
    def wrong(spec, name, *more):
        text = re.sub(re.escape(old), new, spec.onnx.bodies[name], count=1)
        onnx_spec = spec.onnx.model_copy(update={"bodies": {**spec.onnx.bodies, name: text}})
        assert name != case or text != spec.onnx.bodies[name]
        return function_body(spec.model_copy(update={"onnx": onnx_spec}), name, *more)

    monkeypatch.setattr(custom_nodes, "function_body", wrong)
    failed = failures(call for call in spec_calls() if (call.op_type, call.test.case) == (op_type, case))
    assert failed
    assert all(f"({op_type}): " in text and "ONNX body" in text for text in failed)


def test_the_tolerance_is_that_of_the_largest_ratio():
    """The formula is in docs/how-to/convert-models.md: n * eps * (|before| + typical), with n = 128 for float32."""
    before = np.array([1, 1, 1, 1000], np.float32)
    found = compare("y", before, before + np.array([0, 0, 0, 0.014], np.float32), np.dtype(np.float32))
    assert found.same
    assert found.allowed == pytest.approx(128 * 2.0**-23 * (1000 + 1))
    assert found.error / found.allowed == pytest.approx(0.014 / found.allowed, rel=0.01)
