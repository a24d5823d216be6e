"""Test that onnx accepts the operators after their schemas are registered."""

import subprocess
import sys

import onnx
import pytest

from opforge.frontend.ir.schemas import register, registered
from opforge.frontend.operators import project_specs


@pytest.fixture(autouse=True)
def known():
    with registered(project_specs()):
        yield


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1, "opforge" : 1]> g {text}')


NAMES = ["opforge.GroupedBiasAddGrad", "npu.NPUGroupedBiasAddGrad", "NPUGroupedBiasAddGrad"]


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_inferred(name):
    model = parse(f"(float16[T, 3] x, int32[G] i) => (float16[a, b] y) {{t = {name} (x, i) y = Relu (t)}}")
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    (info,) = (value for value in inferred.graph.value_info if value.name == "t")
    assert info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [0, 3]


def test_equal_groups_are_inferred():
    inferred = onnx.shape_inference.infer_shapes(
        parse(f"(float[2, 4, 3] x) => (y) {{t = {NAMES[0]} (x) y = Relu (t)}}")
    )
    (info,) = (value for value in inferred.graph.value_info if value.name == "t")
    assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [2, 3]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("(float[6, 3] x) => (float[a, b] y) {{y = {} (x)}}", "C3"),
        ("(float[6, 3] x, int64[3000] i) => (float[a, b] y) {{y = {} (x, i)}}", "C4"),
        ("(float[6, 3] x, int64[2] i) => (float[a, b] y) {{y = {} <group_idx_type = 7> (x, i)}}", "C6"),
    ],
)
def test_a_broken_rule_is_an_inference_error_with_its_label(name, text, word):
    with pytest.raises(onnx.shape_inference.InferenceError, match=word):
        onnx.shape_inference.infer_shapes(parse(text.format(name)), strict_mode=True)


@pytest.mark.parametrize(
    "text",
    [
        "(double[6, 3] x, int64[2] i) => (double[a, b] y) {{y = {} (x, i)}}",
        "(float[6, 3] x, int64[2] i) => (float[a, b] y) {{y = {} <axis = 1> (x, i)}}",
        "(float[6, 3] x, int64[2] i) => (float[a, b] y) {{y = {} <group_idx_type = 0.5> (x, i)}}",
        "(float[6, 3] x, int64[2] i) => (float[a, b] y) {{y = {} (x, i, i)}}",
    ],
)
def test_checker_rejects_invalid_calls(text):
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
        onnx.checker.check_model(parse(text.format(NAMES[0])), full_check=True)


def test_registering_again_changes_nothing():
    assert register(project_specs()) == []


def test_onnx_can_still_import_its_evaluator_afterwards():
    program = (
        "from opforge.frontend.ir.schemas import register\n"
        "from opforge.frontend.operators import project_specs\n"
        "register(project_specs())\n"
        "import onnx.reference\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_importing_the_package_loads_no_large_modules():
    program = (
        "import sys, opforge.frontend; print([m for m in ('onnx', 'numpy', 'rich', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
