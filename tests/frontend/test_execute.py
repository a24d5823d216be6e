"""Test the execution of models on the twin or by function bodies."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from opforge import twin
from opforge.codegen.errors import UserError
from opforge.frontend.run.execute import execute, run_model

NODE = "npu.NPUGroupedBiasAddGrad"
INDEXED = f"g (float[T, 3] x, int64[G] i) => (float[G, 3] y) {{[n] y = {NODE} (x, i)}}"


def parse(text, opset=18):
    imports = f'"" : {opset}, "npu" : 1, "opforge" : 1, "d" : 1'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> {text}")


def test_the_twin_gets_names_arrays_attributes_and_soc(calls, feed):
    result = run_model(parse(INDEXED), feed, soc="Ascend910B4")
    ((op_type, inputs, attrs, soc),) = calls
    assert (op_type, attrs, soc) == ("GroupedBiasAddGrad", {"group_idx_type": 0}, "Ascend910B4")
    np.testing.assert_array_equal(inputs["grad_y"], feed["x"])
    np.testing.assert_array_equal(inputs["group_idx"], feed["i"])
    np.testing.assert_array_equal(result.outputs["y"], np.ones((3, 3)))
    assert [node for node, _ in result.reports] == ["n"]


@pytest.mark.parametrize("name", [NODE, "opforge.GroupedBiasAddGrad", "NPUGroupedBiasAddGrad"])
def test_all_spellings_run_on_the_twin(calls, feed, name):
    execute(parse(INDEXED.replace(NODE, name)), feed)
    assert len(calls) == 1


def test_an_absent_optional_input_is_not_passed(calls):
    model = parse(f'g (float[2, 4, 3] x) => (float[2, 3] y) {{y = {NODE} (x, "")}}')
    execute(model, {"x": np.zeros((2, 4, 3), np.float32)})
    assert set(calls[0][1]) == {"grad_y"}


def test_nodes_in_branches_and_functions_run_on_the_twin(calls, feed):
    branch = onnx.parser.parse_graph(f"b () => (float[G, 3] t) {{t = {NODE} (x, i)}}")
    model = parse("g (float[6, 3] x, int64[3] i, bool c) => (float[3, 3] y, float[3, 3] w) {w = d.F <kind = 1> (x, i)}")
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["npu" : 1], domain: "d"> F <kind> (a, b) => (c)'
            f" {{c = {NODE} <group_idx_type: int = @kind> (a, b)}}"
        )
    )
    execute(model, feed | {"c": np.array(True)})
    assert sorted(attrs["group_idx_type"] for _, _, attrs, _ in calls) == [0, 1]


def test_bodies_compute_without_the_twin(calls, feed):
    outputs = execute(parse(INDEXED), feed, operators="function")
    x = feed["x"]
    np.testing.assert_allclose(outputs["y"], [x[:2].sum(0), [0, 0, 0], x[2:5].sum(0)], rtol=1e-6, atol=1e-6)
    assert calls == []


def test_group_lengths_and_equal_groups_by_bodies(rng):
    text = f"""g (float[6, 3] x, int32[2] i, float16[2, 4, 3] z) => (y, w)
        {{y = {NODE} <group_idx_type = 1> (x, i) w = {NODE} (z)}}"""
    x, z = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(2, 4, 3)).astype(np.float16)
    outputs = execute(parse(text), {"x": x, "i": np.array([4, 2], np.int32), "z": z}, operators="function")
    np.testing.assert_allclose(outputs["y"], [x[:4].sum(0), x[4:].sum(0)], rtol=1e-5, atol=1e-6)
    assert outputs["w"].dtype == np.float16
    np.testing.assert_allclose(outputs["w"], z.astype(np.float32).sum(1), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("turns", "condition"), [("n", ""), ("n", "c"), ("", "c"), ("n", "f")])
def test_a_loop_without_a_condition_runs_all_its_turns(turns, condition):
    body = onnx.parser.parse_graph(
        """b (int64 k, bool go, float[2] a) => (bool more, float[2] s)
        <int64 last = {2}, float[1] one = {1}> {s = Add (a, one) more = Less (k, last)}"""
    )
    model = parse("g (float[2] x, int64 n, bool c, bool f) => (float[2] y) {}")
    model.graph.node.append(helper.make_node("Loop", [turns, condition, "x"], ["y"], body=body))
    feed = {"x": np.ones(2, np.float32), "n": np.array(3), "c": np.array(True), "f": np.array(False)}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    np.testing.assert_array_equal(expected, [1, 1] if condition == "f" else [4, 4])
    np.testing.assert_array_equal(execute(model, feed)["y"], expected)


def test_a_refusal_of_the_operator_names_the_node(monkeypatch, feed):
    def refuse(*args, **kwargs):
        raise twin.AclnnError("aclnnGroupedBiasAddGradGetWorkspaceSize", 161002, "grad_y: got int8")

    monkeypatch.setattr(twin, "run", refuse)
    with pytest.raises(UserError, match=r"'n' \(npu::NPUGroupedBiasAddGrad\).*161002.*got int8"):
        execute(parse(INDEXED), feed)


def test_a_broken_rule_is_refused_without_the_twin_too(feed):
    with pytest.raises(UserError, match=r"'n'.*\[C3\]"):
        execute(parse(f"g (float[T, 3] x) => (y) {{[n] y = {NODE} (x)}}"), {"x": feed["x"]}, operators="function")


def test_a_bug_below_is_not_called_a_mistake_of_the_user(monkeypatch, feed):
    def fail(*args, **kwargs):
        raise TypeError("bug")

    monkeypatch.setattr(twin, "run", fail)
    with pytest.raises(TypeError, match=r"^bug$"):
        execute(parse(INDEXED), feed)


def test_findings_of_the_twin_pass_through(monkeypatch, feed):
    def find(*args, **kwargs):
        raise twin.FindingsError([twin.Finding("alignment", 0, "MTE2", "k.h:3", "text")])

    monkeypatch.setattr(twin, "run", find)
    with pytest.raises(twin.FindingsError):
        execute(parse(INDEXED), feed)


def test_model_function_overrides_the_operator_of_that_name(calls):
    model = parse("g (float[2] x) => (float[2] y) {y = npu.NPUGroupedBiasAddGrad (x)}")
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["" : 18], domain: "npu"> NPUGroupedBiasAddGrad (a) => (c) {c = Neg (a)}'
        )
    )
    np.testing.assert_array_equal(execute(model, {"x": np.ones(2, np.float32)})["y"], [-1, -1])
    assert calls == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("g (float[2] x) => (float[2] y) {y = foo.Bar (x)}", "foo"),
        ("g (float[2] x) => (float[2] y) {y = Nothing (x)}", "Nothing"),
        ("g (float[2] x) => (float[2] y) <int64[1] s = {3}> {y = Reshape (x, s)}", "reshape"),
        (f"g (float[2] x) => (float[2] y) {{y = {NODE} <axis = 1> (x)}}", "'axis'"),
    ],
)
def test_a_model_that_cannot_run_is_one_line(text, word):
    with pytest.raises(UserError, match=word) as caught:
        execute(parse(text), {"x": np.ones(2, np.float32)}, operators="function")
    assert "\n" not in str(caught.value)
