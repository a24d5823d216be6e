"""Test mapped nodes, unmapped nodes with reasons, and equal results."""

import copy
import json
import sys

import numpy as np
import onnx
import onnx.inliner
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opforge.codegen.errors import UserError
from opforge.frontend import convert
from opforge.frontend.io.load import SourceModel
from opforge.frontend.run.verify import verify
from opforge.frontend.targets.check import check_model

ATTR = "group_idx_type"
INDEXED = "g (float[6, 3] x, int64[2] i) => (float[2, 3] y) {[n] y = npu.NPUGroupedBiasAddGrad (x, i)}"
EQUAL = "g (float[2, 4, 3] x) => (float[2, 3] y) {[n] y = npu.NPUGroupedBiasAddGrad (x)}"
MATRIX = "float[6, 3] x, int64[2] i"
SUM_SQUEEZE = """g (float[2, 4, 3] x) => (float[2, 3] y) <int64[1] axis = {1}>
    {[s] t = ReduceSum <keepdims = 1> (x, axis) [q] y = Squeeze (t, axis)}"""


def parse(text, opset=18, ir=8, domains=("npu", "opforge")):
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    return onnx.parser.parse_model(f"<ir_version: {ir}, opset_import: [{imports}]> {text}")


def operators(model):
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.graph.node]


def mapped_ops(conversion):
    return [entry.op for entry in conversion.mapped]


def the_reason(conversion):
    assert conversion.mapped == []
    (left,) = conversion.left
    assert left.candidate == "GroupedBiasAddGrad"
    return left.reason


def untouched(model, **options):
    """Convert a model that must not change; return the reason."""
    before = model.SerializeToString()
    conversion = convert(model, **options)
    assert not conversion.changed
    assert conversion.model is model
    assert model.SerializeToString() == before
    assert conversion.nodes_before == conversion.nodes_after
    return the_reason(conversion)


def run_everywhere(model, feed):
    """Return the outputs of the onnx evaluator, compared with onnxruntime; checker and shape inference accept the
    model."""
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, strict_mode=True)
    reference = ReferenceEvaluator(model).run(None, feed)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for by_onnx, by_onnxruntime in zip(reference, session.run(None, feed), strict=True):
        np.testing.assert_allclose(by_onnx, by_onnxruntime, rtol=1e-5, atol=1e-6)
    return reference


# Nodes with names of operators.


@pytest.mark.parametrize("source", ["npu.NPUGroupedBiasAddGrad", "opforge.GroupedBiasAddGrad", "NPUGroupedBiasAddGrad"])
@pytest.mark.parametrize(
    ("domain", "target"),
    [
        ("opforge", "opforge::GroupedBiasAddGrad"),
        ("npu", "npu::NPUGroupedBiasAddGrad"),
        ("ai.onnx", "NPUGroupedBiasAddGrad"),
    ],
)
def test_every_spelling_is_converted_to_every_other(source, domain, target):
    conversion = convert(parse(INDEXED.replace("npu.NPUGroupedBiasAddGrad", source)), domain=domain)
    (node,) = conversion.model.graph.node
    assert operators(conversion.model) == [target]
    assert list(node.input) == ["x", "i"]
    assert [(a.name, a.type, a.i) for a in node.attribute] == [(ATTR, onnx.AttributeProto.INT, 0)]
    assert bool(conversion.model.functions) == (domain == "opforge")
    assert (node.domain or "", 1) in {
        (e.domain, e.version) for e in conversion.model.opset_import
    } or domain == "ai.onnx"


@pytest.mark.parametrize("opset", [16, 17, 18, 19, 20, 21, 22, 23])
@pytest.mark.parametrize("kind", [0, 1])
def test_indexed_computes_the_sums_in_every_runtime(opset, kind, rng):
    model = parse(INDEXED.replace("Grad (x", f"Grad <{ATTR} = {kind}> (x"), opset)
    x = rng.normal(size=(6, 3)).astype(np.float32)
    ends = np.array([2, 6] if kind == 0 else [2, 4])
    (got,) = run_everywhere(convert(model).model, {"x": x, "i": ends})
    np.testing.assert_allclose(got, [x[:2].sum(0), x[2:].sum(0)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("word", ["int32", "int64"])
@pytest.mark.parametrize(
    ("rows", "kind", "index", "ranges"),
    [
        (6, 0, [0, 2, 2, 5], [(0, 0), (0, 2), (2, 2), (2, 5)]),
        (6, 1, [0, 2, 0, 3], [(0, 0), (0, 2), (2, 2), (2, 5)]),
        (6, 0, [2, 6, 6], [(0, 2), (2, 6), (6, 6)]),
        (6, 0, [-3, 2, 99, 99], [(0, 0), (0, 2), (2, 6), (6, 6)]),
        (6, 1, [4, 4, 4], [(0, 4), (4, 6), (6, 6)]),
        (6, 0, [], []),
        (0, 0, [0, 0], [(0, 0), (0, 0)]),
        (0, 1, [0, 3], [(0, 0), (0, 0)]),
    ],
)
def test_body_is_correct_for_every_list(rows, kind, index, ranges, word, rng):
    text = INDEXED.replace("[6, ", f"[{rows}, ").replace("int64[2]", f"{word}[{len(index)}]")
    text = text.replace("[2, 3] y", f"[{len(index)}, 3] y").replace("Grad (x", f"Grad <{ATTR} = {kind}> (x")
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    (got,) = run_everywhere(convert(parse(text)).model, {"x": x, "i": np.array(index, word)})
    assert got.shape == (len(index), 3)
    for total, (start, end) in zip(got, ranges, strict=True):
        np.testing.assert_allclose(total, x[start:end].sum(0), rtol=1e-5, atol=1e-6)


def test_non_finite_values_stay_in_their_group(rng):
    x = rng.normal(size=(6, 3)).astype(np.float32)
    x[0, 0], x[3, 1], x[5] = np.inf, np.nan, np.inf
    text = INDEXED.replace("int64[2]", "int64[3]").replace("[2, 3] y", "[3, 3] y")
    (got,) = run_everywhere(convert(parse(text)).model, {"x": x, "i": np.array([2, 3, 5])})
    np.testing.assert_allclose(got, [x[:2].sum(0), x[2], x[3:5].sum(0)], rtol=1e-5, atol=1e-6)
    assert np.isfinite(got).sum() == 7


def test_the_body_needs_no_more_than_a_few_times_the_memory_of_its_input():
    rows, groups = 100_000, 2048
    text = INDEXED.replace("[6, ", "[T, ").replace("int64[2]", "int64[G]").replace("[2, 3] y", "[G, 3] y")
    model = onnx.inliner.inline_local_functions(convert(parse(text)).model)
    for node in list(model.graph.node):
        model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in node.output if name != "y")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = np.ones((rows, 3), np.float32)
    results = session.run(None, {"x": x, "i": np.linspace(0, rows, groups).astype(np.int64)})
    assert max(result.nbytes for result in results) <= 2 * x.nbytes
    np.testing.assert_array_equal(results[0].sum(0), [rows] * 3)


@pytest.mark.parametrize("opset", [8, 11, 12, 13, 15, 18, 22])
@pytest.mark.parametrize(("word", "dtype", "tolerance"), [("float", np.float32, 1e-5), ("float16", np.float16, 2e-3)])
def test_equal_computes_the_sums_in_every_runtime(opset, word, dtype, tolerance, rng):
    model = parse(EQUAL.replace("float[", f"{word}["), opset)
    x = rng.normal(size=(2, 4, 3)).astype(dtype)
    (got,) = run_everywhere(convert(model).model, {"x": x})
    assert got.dtype == dtype
    np.testing.assert_allclose(got, x.astype(np.float32).sum(1), rtol=tolerance, atol=tolerance)


def test_both_cases_in_one_model(rng):
    model = parse(
        """g (float[6, 3] x, int64[2] i, float[2, 4, 3] z) => (float[2, 3] y, float[2, 3] w, float[2, 3] v) {
        y = npu.NPUGroupedBiasAddGrad (x, i) w = npu.NPUGroupedBiasAddGrad (z) v = npu.NPUGroupedBiasAddGrad (z, "")}"""
    )
    result = convert(model).model
    assert [node.op_type for node in result.graph.node] == ["GroupedBiasAddGrad", *["GroupedBiasAddGrad_equal"] * 2]
    assert not any(function.overload for function in result.functions)
    assert convert(result).model == result
    x, z = (rng.normal(size=shape).astype(np.float32) for shape in ((6, 3), (2, 4, 3)))
    y, w, v = run_everywhere(result, {"x": x, "i": np.array([2, 6]), "z": z})
    np.testing.assert_allclose(y, [x[:2].sum(0), x[2:].sum(0)], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(w, z.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(v, w)


CONV_TBC = """g (float[5, 2, 4] g, float[5, 2, 3] x, float[1, 3, 4] w, float[4] b, float16[5, 2, 4] gh,
    float16[5, 2, 3] xh, float16[1, 3, 4] wh, float16[4] bh) => (float[5, 2, 3] y, float16[5, 2, 3] z) {
    [n] y, yw, yb = opforge.ConvTbcBackward <pad = 0> (g, x, w, b)
    [m] z, zw, zb = opforge.ConvTbcBackward <pad = 0> (gh, xh, wh, bh)}"""


def test_a_second_body_for_another_dtype_in_an_old_opset(rng, tmp_path):
    model = parse(CONV_TBC, opset=13)
    conversion = convert(model, opset=13)
    result = conversion.model
    types = ["ConvTbcBackward", "ConvTbcBackward_tbc"]
    assert [node.op_type for node in result.graph.node] == [function.name for function in result.functions] == types
    again = convert(result, opset=13)
    assert (again.model, len(again.mapped), again.left) == (result, 2, [])
    assert check_model(SourceModel(tmp_path / "m.onnx", b"", result), {}) == []
    g, x, w = (rng.normal(size=shape).astype(np.float16) for shape in ((5, 2, 4), (5, 2, 3), (1, 3, 4)))
    halves = {"gh": g, "xh": x, "wh": w, "bh": np.zeros(4, np.float16)}
    feeds = halves | {name[0]: array.astype(np.float32) for name, array in halves.items()}
    expected = feeds["g"] @ feeds["w"][0].T
    for got in run_everywhere(result, feeds):
        np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2)
    assert [entry for entry in verify(model, conversion, run_kernels=False) if entry.same is False] == []


def test_two_dtypes_need_no_second_body():
    model = parse(
        """g (float[6, 3] x, float16[6, 3] h, int64[2] i, int32[2] j) => (float[2, 3] y, float16[2, 3] w) {
        y = npu.NPUGroupedBiasAddGrad (x, i) w = npu.NPUGroupedBiasAddGrad (h, j)}"""
    )
    result = convert(model).model
    assert len(result.functions) == 1
    run_everywhere(
        result,
        {
            "x": np.ones((6, 3), np.float32),
            "h": np.ones((6, 3), np.float16),
            "i": np.array([2, 6]),
            "j": np.int32([2, 6]),
        },
    )


def test_bfloat16_runs_in_the_reference_evaluator():
    from ml_dtypes import bfloat16

    model = convert(parse(INDEXED.replace("float[", "bfloat16["))).model
    onnx.checker.check_model(model, full_check=True)
    x = np.ones((6, 3), bfloat16)
    (got,) = ReferenceEvaluator(model).run(None, {"x": x, "i": np.array([2, 6])})
    assert got.dtype == bfloat16
    np.testing.assert_array_equal(got.astype(np.float32), [[2] * 3, [4] * 3])


@pytest.mark.parametrize("opset", [11, 12, 13, 15])
def test_an_opset_without_the_operators_of_the_body_gets_none(opset):
    assert convert(parse(INDEXED, opset)).without_body == []
    conversion = convert(parse(INDEXED, opset), opset=opset)
    assert mapped_ops(conversion) == ["GroupedBiasAddGrad"]
    assert conversion.without_body == ["n"]
    assert not conversion.model.functions
    onnx.checker.check_model(conversion.model, full_check=True)


def test_model_that_imports_only_the_opforge_domain():
    model = parse(EQUAL)
    del model.opset_import[0]
    run_everywhere(convert(model).model, {"x": np.ones((2, 4, 3), np.float32)})


def test_camel_case_attributes_are_read():
    model = parse(INDEXED)
    model.graph.node[0].attribute.append(helper.make_attribute("groupIdxType", 1))
    (entry,) = convert(model).mapped
    assert entry.attrs == {ATTR: 1}


def test_the_caller_keeps_its_model():
    model = parse(INDEXED)
    before = model.SerializeToString()
    convert(model)
    assert model.SerializeToString() == before


def test_converting_again_changes_nothing():
    once = convert(parse(INDEXED)).model
    again = convert(once)
    assert mapped_ops(again) == ["GroupedBiasAddGrad"]
    assert not again.changed
    assert again.model is once


def test_bodies_are_removed_if_the_nodes_get_another_domain():
    result = convert(convert(parse(INDEXED)).model, domain="npu").model
    assert operators(result) == ["npu::NPUGroupedBiasAddGrad"]
    assert not result.functions


def test_body_of_a_kept_node_is_kept():
    model = parse(
        """g (float[6, 3] x, int64[2] i, float[2, 4, 3] z) => (float[2, 3] y, float[2, 3] w) {
        y = opforge.GroupedBiasAddGrad (x, i) w = opforge.GroupedBiasAddGrad (z)}"""
    )
    once = convert(model).model
    once.graph.node[0].attribute[0].i = 2
    conversion = convert(once)
    assert (len(conversion.mapped), len(conversion.left)) == (1, 1)
    names = ["GroupedBiasAddGrad", "GroupedBiasAddGrad_equal"]
    assert [node.op_type for node in conversion.model.graph.node] == names
    assert sorted(function.name for function in conversion.model.functions) == names
    onnx.checker.check_model(conversion.model, full_check=True)


def test_an_old_body_is_replaced():
    once = convert(parse(INDEXED)).model
    fresh = copy.deepcopy(once)
    once.functions[0].node[0].name = "old"
    assert convert(once).model == fresh


def test_nodes_in_subgraphs_and_functions_are_mapped():
    branch = onnx.parser.parse_graph("b () => (float[2, 3] t) {t = npu.NPUGroupedBiasAddGrad (x, i)}")
    function = onnx.parser.parse_function(
        '<opset_import: ["npu" : 1], domain: "d"> F (a, b) => (c) {c = npu.NPUGroupedBiasAddGrad (a, b)}'
    )
    model = parse(
        "g (float[6, 3] x, int64[2] i, bool c) => (float[2, 3] y, float[2, 3] w) {w = d.F (x, i)}", domains=("npu", "d")
    )
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    model.functions.append(function)
    conversion = convert(model)
    assert mapped_ops(conversion) == ["GroupedBiasAddGrad"] * 3
    assert len({entry.node for entry in conversion.mapped}) == 3
    y, w = run_everywhere(
        conversion.model, {"x": np.ones((6, 3), np.float32), "i": np.array([2, 6]), "c": np.array(True)}
    )
    np.testing.assert_array_equal(y, w)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_function_that_needs_its_call_is_written_out(axis, rng):
    # The body contains neither the element type nor the axis.
    function = onnx.parser.parse_function(
        """<opset_import: ["" : 18, "com.microsoft" : 1], domain: "d">
        F <axis> (i, g) => (c) {s = Constant <value_ints = [4, 4]> ()
        c = com.microsoft.GatherGrad <axis : int = @axis> (s, i, g)}"""
    )
    model = parse(
        f"g (int64[4] i, float[4, 4] g) => (float[4, 4] y) {{y = d.F <axis = {axis}> (i, g)}}",
        domains=("com.microsoft", "d"),
    )
    model.functions.append(function)
    conversion = convert(model)
    if axis:
        assert not conversion.changed
        assert conversion.left[0].reason == "axis is 1, expected 0"
        return
    assert mapped_ops(conversion) == ["EmbeddingDenseBackward"]
    feed = {"g": rng.normal(size=(4, 4)).astype(np.float32), "i": np.array([0, 3, 3, 1])}
    expected = np.zeros((4, 4), np.float32)
    np.add.at(expected, feed["i"], feed["g"])
    np.testing.assert_allclose(run_everywhere(conversion.model, feed)[0], expected, rtol=1e-5)


def test_names_are_unique_against_nodes_and_inputs():
    model = parse(
        """g (float[2, 4, 3] x) => (float[2, 3] y, float[2, 3] w, float[2, 3] v) {
        [x] y = npu.NPUGroupedBiasAddGrad (x)
        [a] w = npu.NPUGroupedBiasAddGrad (x)
        [a] v = npu.NPUGroupedBiasAddGrad (x)}"""
    )
    conversion = convert(model)
    names = [node.name for node in conversion.model.graph.node]
    assert len({*names, "x", ""}) == 5
    assert [entry.node for entry in conversion.mapped] == names


def test_output_types_are_declared():
    model = parse("g (float16[6, H] x, int64[2] i) => (y) {t = npu.NPUGroupedBiasAddGrad (x, i) y = Identity (t)}")
    (info,) = convert(model).model.graph.value_info
    assert info.name == "t"
    assert info.type.tensor_type.elem_type == TensorProto.FLOAT16
    assert info.type.tensor_type.shape.dim[0].dim_value == 2
    assert not info.type.tensor_type.shape.dim[1].HasField("dim_value")


def test_generated_dim_names_are_replaced_by_sizes():
    model = parse(INDEXED.replace("float[2, 3] y", "float[a, b] y"))
    (output,) = convert(model).model.graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [2, 3]


def test_nodes_with_unknown_shapes_are_mapped():
    model = parse("g (x, i) => (y) {t = Foo (x) y = npu.NPUGroupedBiasAddGrad (t, i)}")
    assert mapped_ops(convert(model)) == ["GroupedBiasAddGrad"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "call", "words"),
    [
        (MATRIX, "y", "()", ["grad_y", "[C1]"]),
        (MATRIX, "y", '("", i)', ["grad_y", "[C1]"]),
        ("double[6, 3] x, int64[2] i", "y", "(x, i)", ["float64", "[C2]"]),
        ("float[6, 3] x, int16[2] i", "y", "(x, i)", ["int16", "[C2]"]),
        (MATRIX, "float16[2, 3] y", "(x, i)", ["float16", "[C2]"]),
        (MATRIX, "y", "(x)", ["[6, 3]", "[C3]"]),
        ("float[1, 6, 3] x, int64[2] i", "y", "(x, i)", ["[1, 6, 3]", "[C3]"]),
        ("float[6, 3] x, int64[2, 1] i", "y", "(x, i)", ["[2, 1]", "[C3]"]),
        (MATRIX, "float[6] y", "(x, i)", ["[6]", "[C3]"]),
        ("float[6, 3] x, int64[3000] i", "y", "(x, i)", ["[3000]", "2048", "[C4]"]),
        (MATRIX, "float[2, 4] y", "(x, i)", ["[2, 4]", "[C5]"]),
        (MATRIX, "y", "<group_idx_type = 2> (x, i)", ["got 2", "[C6]"]),
        (MATRIX, "y", "<group_idx_type = 1.0> (x, i)", ["group_idx_type", "FLOAT", "INT"]),
        (MATRIX, "y", "<axis = 1> (x, i)", ["'axis'", "group_idx_type"]),
        (MATRIX, "y", "(x, i, i)", ["3 inputs", "at most 2"]),
        (MATRIX, "y, z", "(x, i)", ["2 outputs", "at most 1"]),
    ],
)
def test_node_that_violates_a_constraint_is_not_mapped(inputs, outputs, call, words):
    names = ", ".join(value.split()[-1] for value in outputs.replace("[2, ", "[").split(", "))
    reason = untouched(parse(f"g ({inputs}) => ({outputs}) {{{names} = npu.NPUGroupedBiasAddGrad {call}}}"))
    assert all(word in reason for word in words), reason


@pytest.mark.parametrize(
    ("values", "attrs", "words"),
    [
        ("{4, 2}", "", ["2 after 4", "ascending"]),
        ("{-1, 6}", "", ["-1", "at least 0"]),
        ("{2, 5}", "", ["got 5", "6, the rows"]),
        ("{2, 7}", "", ["got 7", "6, the rows"]),
        ("{2, 6}", "<group_idx_type = 1>", ["got 8", "sum 6"]),
        ("{7, -1}", "<group_idx_type = 1>", ["-1", "at least 0"]),
    ],
)
def test_constant_group_ends_that_do_not_fit_are_not_mapped(values, attrs, words):
    text = f"g (float[6, 3] x) => (y) <int64[2] i = {values}> {{y = npu.NPUGroupedBiasAddGrad {attrs} (x, i)}}"
    reason = untouched(parse(text))
    assert all(word in reason for word in ("group_idx", *words)), reason


def constant_ends(maker, **fields):
    """Return the indexed model with a constant list made from these fields of a tensor, in one of several ways."""
    tensor = TensorProto(name="i", **fields)
    model = parse("g (float[6, 3] x) => (y) {y = npu.NPUGroupedBiasAddGrad (x, i)}")
    if maker == "Constant":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["i"], value=tensor))
    else:
        if maker == "Identity":
            tensor.name = "j"
            model.graph.node.insert(0, helper.make_node("Identity", ["j"], ["i"]))
        model.graph.initializer.append(tensor)
    return model


INT64 = TensorProto.INT64


@pytest.mark.parametrize("maker", ["initializer", "Constant", "Identity"])
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dims": [3], "data_type": INT64, "raw_data": bytes(8)}, ["got 8 bytes", "[3]", "expected 24"]),
        ({"dims": [1], "data_type": INT64, "raw_data": bytes(24)}, ["got 24 bytes", "[1]", "expected 8"]),
        ({"dims": [3], "data_type": INT64, "int64_data": [6]}, ["got 1 elements", "expected 3"]),
        ({"dims": [-3], "data_type": INT64, "raw_data": bytes(24)}, ["got dims [-3]"]),
        ({"dims": [2], "data_type": INT64}, ["got 0 elements", "expected 2"]),
        ({"dims": [3], "data_type": 99, "raw_data": bytes(24)}, ["got element type 99"]),
        ({"dims": [3], "raw_data": bytes(24)}, ["got element type 0"]),
    ],
)
def test_malformed_constants_are_not_mapped(maker, fields, words):
    reason = untouched(constant_ends(maker, **fields))
    assert all(word in reason for word in ("group_idx: ", *words)), reason


@pytest.mark.parametrize(
    "fields",
    [
        {"dims": [2], "data_type": INT64, "int64_data": [2, 6]},
        {"dims": [2], "data_type": TensorProto.INT32, "int32_data": [2, 6]},
        {"dims": [2], "data_type": INT64, "raw_data": np.array([2, 6]).tobytes()},
    ],
)
def test_every_storage_of_a_constant_is_well_formed(fields):
    assert mapped_ops(convert(constant_ends("initializer", **fields))) == ["GroupedBiasAddGrad"]


@pytest.mark.parametrize("word", ["seq(float[6, 3])", "optional(float[6, 3])"])
def test_non_tensor_input_is_not_mapped(word):
    model = parse(INDEXED.replace("float[6, 3]", word))
    assert "grad_y: got a" in untouched(model)


def test_unknown_declared_type_is_not_mapped():
    model = parse(INDEXED)
    model.graph.input[0].type.tensor_type.elem_type = 99
    assert "grad_y: got element type 99" in untouched(model)


@pytest.mark.parametrize("where", ["graph", "function"])
def test_a_node_of_a_domain_that_is_not_imported(where):
    if where == "graph":
        model, words = parse(INDEXED, domains=()), "graph: node 'n'"
    else:
        model, words = parse("g (float[6, 3] x) => (y) {y = d.F (x)}"), "function 'd::F': node 'n'"
        call = "[n] c = npu.NPUGroupedBiasAddGrad (a)"
        model.functions.append(
            onnx.parser.parse_function(f'<opset_import: ["" : 18], domain: "d"> F (a) => (c) {{{call}}}')
        )
    with pytest.raises(UserError, match=f"{words}.*'npu' is not imported"):
        convert(model)


def test_constant_lengths_that_fit_are_mapped():
    text = f"g (float[6, 3] x) => (y) <int64[2] i = {{4, 2}}> {{y = npu.NPUGroupedBiasAddGrad <{ATTR} = 1> (x, i)}}"
    assert mapped_ops(convert(parse(text))) == ["GroupedBiasAddGrad"]


def test_another_version_of_the_domain_is_another_operator():
    model = parse(INDEXED, domains=("opforge",))
    model.opset_import.append(helper.make_opsetid("npu", 2))
    assert "npu 2" in untouched(model)


def test_a_local_function_of_that_name_decides_itself():
    model = parse(INDEXED)
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["" : 18], domain: "npu"> NPUGroupedBiasAddGrad (a, b) => (c) {c = Neg (a)}'
        )
    )
    assert "local function" in untouched(model)


def test_a_target_domain_that_does_not_fit_the_opset():
    assert "--domain" in untouched(parse(INDEXED, opset=23), domain="ai.onnx")


def test_unknown_domain():
    with pytest.raises(UserError, match=r"--domain: got 'x', expected one of opforge, npu, ai.onnx"):
        convert(parse(INDEXED), domain="x")


@pytest.mark.parametrize(
    "text", ["y = foo.GroupedBiasAddGrad (x, i)", "y = npu.GroupedBiasAddGrad (x, i)", "y = GroupedBiasAddGrad (x, i)"]
)
def test_similar_names_are_not_mapped(text):
    model = parse(f"g (float[6, 3] x, int64[2] i) => (float[2, 3] y) {{{text}}}", domains=("npu", "opforge", "foo"))
    conversion = convert(model)
    assert (conversion.mapped, conversion.changed) == ([], False)


# ReduceSum over equal groups.


def test_without_patterns_sums_are_only_mentioned():
    assert "--patterns" in untouched(parse(SUM_SQUEEZE))


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        (SUM_SQUEEZE, 13),
        (SUM_SQUEEZE, 18),
        (SUM_SQUEEZE.replace("{1}", "{-2}"), 18),
        (SUM_SQUEEZE.replace(" <keepdims = 1>", ""), 18),
        ("g (float[2, 4, 3] x) => (float[2, 3] y) <int64[1] a = {1}> {y = ReduceSum <keepdims = 0> (x, a)}", 18),
        (
            "g (float[2, 4, 3] x) => (y) {a = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (x, a)}",
            18,
        ),
        ("g (float[2, 4, 3] x) => (float[2, 3] y) {y = ReduceSum <keepdims = 0, axes = [1]> (x)}", 11),
        ("g (float[2, 4, 3] x) => (float[2, 3] y) {t = ReduceSum <axes = [1]> (x) y = Squeeze <axes = [1]> (t)}", 12),
        ("g (float[2, 4, 3] x) => (float[2, 3] y) {t = ReduceSum <axes = [-2]> (x) y = Squeeze <axes = [-2]> (t)}", 8),
    ],
)
def test_sum_over_the_middle_axis_is_fused(text, opset, rng):
    model = parse(text, opset)
    conversion = convert(model, patterns=True)
    assert operators(conversion.model) == ["opforge::GroupedBiasAddGrad"]
    assert not conversion.model.graph.initializer
    (entry,) = conversion.mapped
    assert (entry.rule, entry.outputs, entry.attrs) == ("FuseEqualGroups", ["y"], {ATTR: 0})
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    (before,) = ReferenceEvaluator(model).run(None, {"x": x})
    (after,) = run_everywhere(conversion.model, {"x": x})
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def sum_squeeze(**changes):
    parts = {
        "type": "float[2, 4, 3]",
        "outputs": "y",
        "axis": "{1}",
        "squeeze_axis": "{1}",
        "sum": "ReduceSum",
        "attrs": "keepdims = 1",
        "sum_in": "x, a",
        "squeeze": "Squeeze (t, b)",
        "more": "",
    } | changes
    return parse(
        """g ({type} x, int64[1] r) => ({outputs}) <int64[1] a = {axis}, int64[1] b = {squeeze_axis}>
        {{[s] t = {sum} <{attrs}> ({sum_in}) y = {squeeze} {more}}}""".format(**parts)
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "float[4, 3]"}, ["rank 3", "[4, 3]"]),
        ({"type": "float[2, 4, 3, 5]"}, ["rank 3", "[2, 4, 3, 5]"]),
        ({"type": "double[2, 4, 3]"}, ["float64"]),
        ({"type": "int32[2, 4, 3]"}, ["int32"]),
        ({"axis": "{0}"}, ["axes [0]"]),
        ({"axis": "{2}"}, ["axes [2]"]),
        ({"type": "float[1, 4, 3]"}, ["one group"]),
        ({"sum_in": "x"}, ["no axes"]),
        ({"sum_in": "x", "attrs": "keepdims = 1, noop_with_empty_axes = 1"}, ["sums nothing"]),
        ({"sum_in": "x, r"}, ["'r' is an input", "constant"]),
    ],
)
def test_other_sum_is_not_mapped(changes, words):
    reason = untouched(sum_squeeze(**changes), patterns=True)
    assert all(word in reason for word in words), reason


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": "float[2, 1, 3] y", "squeeze": "Relu (t)"},
        {"outputs": "float[2, 3] y", "squeeze": "Squeeze (t)"},
        {"outputs": "float[2, 3] y, float[2, 1, 3] t"},
        {"outputs": "float[2, 3] y, float[2, 1, 3] u", "more": "u = Relu (t)"},
    ],
)
def test_kept_axis_is_added_again(changes, rng):
    model = sum_squeeze(**changes)
    conversion = convert(model, patterns=True)
    assert "opforge::GroupedBiasAddGrad" in operators(conversion.model)
    assert "ReduceSum" not in operators(conversion.model)
    feed = {"x": rng.normal(size=(2, 4, 3)).astype(np.float32), "r": np.array([1])}
    expected = ReferenceEvaluator(model).run(None, feed)
    for before, after in zip(expected, run_everywhere(conversion.model, feed), strict=True):
        assert after.shape == before.shape
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_several_axes_are_not_mapped():
    text = "g (float[2, 4, 3] x) => (y) <int64[2] a = {1, 2}> {y = ReduceSum <keepdims = 0> (x, a)}"
    assert "axes [1, 2]" in untouched(parse(text), patterns=True)


def test_a_sum_of_unknown_rank_is_not_mapped():
    text = "g (x) => (y) <int64[1] a = {1}> {t = foo.Foo (x) y = ReduceSum <keepdims = 0> (t, a)}"
    assert "unknown rank" in untouched(parse(text, domains=("foo",)), patterns=True)


def test_inferred_rank_is_sufficient():
    text = "g (float[2, 4, 3] x) => (y) <int64[1] a = {1}> {t = Relu (x) y = ReduceSum <keepdims = 0> (t, a)}"
    assert mapped_ops(convert(parse(text), patterns=True)) == ["GroupedBiasAddGrad"]


def test_shape_inference_supports_custom_nodes():
    model = parse(
        """g (float[2, 4, 3] x) => (y) <int64[1] a = {1}, int64[1] b = {0}>
        {s = npu.NPUGroupedBiasAddGrad (x) t = Unsqueeze (s, a) y = ReduceSum <keepdims = 0> (t, a)}"""
    )
    rules = [entry.rule for entry in convert(model, patterns=True).mapped]
    assert rules == ["npu::NPUGroupedBiasAddGrad", "FuseEqualGroups"]
    assert not onnx.defs.has("NPUGroupedBiasAddGrad", domain="npu")


@pytest.mark.parametrize("other", ["ReduceMean", "ReduceSumSquare", "ReduceMax"])
def test_other_reductions_are_not_listed(other):
    conversion = convert(sum_squeeze(sum=other), patterns=True)
    assert conversion.mapped == conversion.left == []


def test_shared_axis_is_kept_until_its_last_reader_is_removed():
    model = sum_squeeze(squeeze="Squeeze (t, a)", outputs="y, u", more="u = Unsqueeze (y, a)")
    result = convert(model, patterns=True).model
    # b was never used; the conversion keeps it.
    assert {tensor.name for tensor in result.graph.initializer} == {"a", "b"}


def test_a_sum_read_inside_a_branch_keeps_its_axis(rng):
    branch = onnx.parser.parse_graph("b () => (float[2, 1, 3] z) {z = Relu (t)}")
    model = sum_squeeze(outputs="float[2, 3] y, float[2, 1, 3] w")
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch))
    conversion = convert(model, patterns=True)
    assert [entry.rule for entry in conversion.mapped] == ["FuseEqualGroups"]
    feed = {"x": rng.normal(size=(2, 4, 3)).astype(np.float32), "r": np.array([1]), "c": np.array(True)}
    expected = ReferenceEvaluator(model).run(None, feed)
    for before, after in zip(expected, run_everywhere(conversion.model, feed), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_body_of_a_custom_operator_is_not_rewritten():
    once = convert(parse(EQUAL)).model
    assert not convert(once, patterns=True).changed


# Reports and scale.


def test_the_report_is_the_contract():
    model = parse(
        """g (float[6, 3] x, int64[2] i, double[6, 3] d) => (float[2, 3] y, double[2, 3] w) {
        [n] y = npu.NPUGroupedBiasAddGrad (x, i) w = npu.NPUGroupedBiasAddGrad (d, i)}"""
    )
    report = json.loads(json.dumps(convert(model).report()))
    passes = report.pop("passes")
    assert [entry["name"] for entry in passes] == [
        *("load", "prefilter", "operators", "sparse", "inline", "types", "opset-before", "match"),
        *("fold", "rewrite", "opset-after", "atc-compat", "emit"),
    ]
    assert all(entry["seconds"] >= 0 for entry in passes)
    assert report == {
        "mapped": [
            {
                "node": "n",
                "op": "GroupedBiasAddGrad",
                "rule": "npu::NPUGroupedBiasAddGrad",
                "outputs": ["y"],
                "attrs": {ATTR: 0},
                "inputs": ["x", "i"],
            }
        ],
        "left": [
            {
                "node": "w",
                "candidate": "GroupedBiasAddGrad",
                "reason": "GroupedBiasAddGrad: grad_y: got float64, expected float16, bfloat16 or float32 [C2]",
                "nodes": [],
            }
        ],
        "lowered": [],
        "nodes_before": 2,
        "nodes_after": 2,
        "without_body": [],
        "warnings": [],
    }


def test_nodes_without_a_body_are_in_the_report():
    assert convert(parse(INDEXED, 11), opset=11).report()["without_body"] == ["n"]


def test_nodes_unreachable_for_atc_are_reported():
    body = "(int64 k, bool go, float[2, 4, 3] a) => (bool more, float[2, 4, 3] b, float[2, 3] s)"
    model = parse("g (float[2, 4, 3] x, bool c, int64 m) => (y) {[p] y = npu.NPUGroupedBiasAddGrad (x) v = d.F (x)}")
    branch = onnx.parser.parse_graph("b () => (float[2, 3] t) {[q] t = npu.NPUGroupedBiasAddGrad (x)}")
    loop = onnx.parser.parse_graph(
        f"b {body} {{[r] s = npu.NPUGroupedBiasAddGrad (a) more = Identity (go) b = Identity (a)}}"
    )
    model.graph.node.append(helper.make_node("If", ["c"], ["w"], then_branch=branch, else_branch=branch))
    model.graph.node[-1].attribute[1].g.node[0].name = "other"
    model.graph.node.append(helper.make_node("Loop", ["m", "", "x"], ["l", "z"], body=loop))
    model.functions.append(
        onnx.parser.parse_function(
            '<opset_import: ["npu" : 1], domain: "d"> F (a) => (c) {[f] c = npu.NPUGroupedBiasAddGrad (a)}'
        )
    )
    conversion = convert(model)
    assert len(conversion.mapped) == 5
    assert conversion.report()["warnings"] == [
        "'r' is in a subgraph of 'Loop'; ATC reads only subgraphs of 'If'",
    ]
    assert [function.domain for function in conversion.model.functions] == ["opforge"]


@pytest.mark.parametrize("place", ["graph", "branch"])
def test_a_constant_list_is_written_as_a_tensor(place):
    call = "npu.NPUGroupedBiasAddGrad (x, i)"
    if place == "graph":
        model = parse(f"g (float[6, 3] x) => (float[2, 3] y) {{i = Constant <value_ints = [2, 6]> () y = {call}}}")
    else:
        branch = onnx.parser.parse_graph(f"b () => (float[2, 3] t) {{t = {call}}}")
        model = parse("g (float[6, 3] x, bool c) => (float[2, 3] y) {i = Constant <value_ints = [2, 6]> ()}")
        model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch))
    result = convert(model).model
    (attribute,) = result.graph.node[0].attribute
    assert (attribute.name, attribute.type) == ("value", onnx.AttributeProto.TENSOR)
    values = numpy_helper.to_array(attribute.t)
    assert (values.dtype, values.tolist()) == (np.int64, [2, 6])
    feed = {"x": np.ones((6, 3), np.float32)} | ({} if place == "graph" else {"c": np.array(True)})
    np.testing.assert_array_equal(run_everywhere(result, feed)[0], [[2] * 3, [4] * 3])


def test_the_cost_grows_with_the_nodes_not_their_square():
    def steps(count):
        """Return the number of calls of one conversion: a cost that is the same on every machine."""
        nodes = [helper.make_node("Relu", ["x"], ["v0"])]
        for n in range(count):
            nodes.append(helper.make_node("ReduceSum", [f"v{n}", "a"], [f"t{n}"]))
            nodes.append(helper.make_node("Squeeze", [f"t{n}", "a"], [f"s{n}"]))
            nodes.append(helper.make_node("Unsqueeze", [f"s{n}", "a"], [f"v{n + 1}"]))
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4, 3])],
            [helper.make_tensor_value_info(f"v{count}", TensorProto.FLOAT, [2, 1, 3])],
            [numpy_helper.from_array(np.array([1]), "a")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        taken = 0

        def count_call(_frame, _event, _argument):
            nonlocal taken
            taken += 1

        sys.setprofile(count_call)
        try:
            conversion = convert(model, patterns=True)
        finally:
            sys.setprofile(None)
        assert len(conversion.mapped) == count
        return taken

    steps(10)
    small, large = steps(100), steps(800)
    assert large < 10 * small, f"{small} calls for 100 matches, {large} for 800"
