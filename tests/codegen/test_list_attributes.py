"""Test attributes that are lists: the operator runs on the twin, and all back ends agree."""

import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from opforge.codegen.errors import UserError
from opforge.codegen.new import new_project
from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.semantics import Call, check, infer
from opforge.frontend.ge import write as air
from opforge.frontend.ir.attributes import make_attribute, read_attributes
from opforge.package.ops_info import ops_info_entry
from opforge.twin import AclnnError, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def project(root, once):
    """Return a project with the operator of the specimen and its kernel."""
    return once("list_attributes", lambda parent: write_project(root, parent)) / "row_window"


def write_project(root, parent):
    folder = new_project("RowWindow", parent / "row_window", "elementwise")
    for suffix, place in (("yaml", "op_proto"), ("h", "op_kernel")):
        shutil.copy(root / "tests" / "codegen" / "specimens" / f"row_window.{suffix}", folder / place)


@pytest.fixture(scope="module")
def row_window(root):
    return load_specs([root / "tests" / "codegen" / "specimens" / "row_window.yaml"])[0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((40, 300), {"window": [3, 37]}),
        ((9, 70), {"window": (0, 9), "flags": [True, False]}),
        ((5, 7), {"window": np.array([4, 5]), "flags": np.array([False, False]), "scales": [0.25, 2]}),
    ],
)
def test_operator_with_list_attributes_runs_on_the_twin(project, dtype, shape, attrs):
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    first, last = (int(number) for number in attrs["window"])
    is_negated = bool(np.asarray(attrs.get("flags", [False]))[0])
    y = run("RowWindow", {"x": x}, attrs, project=find_project(project))["y"]
    np.testing.assert_array_equal(y, -x[first:last] if is_negated else x[first:last])


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"window": [1]}, "window: got [1], expected two numbers [C4]"),
        ({"window": [3, 2]}, "window: got [3, 2], expected numbers that do not decrease [C5]"),
        ({"window": [0, 5]}, "window: got [0, 5], expected at most 4 [C6]"),
        ({"window": [0, 1], "scales": [0.5]}, "scales: got [0.5], expected two factors [C7]"),
        ({"window": [0, 1], "flags": [True, True]}, "flags: got [true, true], expected one flag at most [C8]"),
    ],
)
def test_both_sides_refuse_a_list_with_the_same_words(project, row_window, attrs, message):
    with pytest.raises(AclnnError) as caught:
        run("RowWindow", {"x": np.ones((4, 8), np.float32)}, attrs, project=find_project(project))
    assert message in str(caught.value)
    violation = check(row_window, Call({"x": (4, 8)}, {"x": "float32"}, attrs), with_outputs=False)
    assert violation is not None
    assert message in violation.message


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"window": [0, 1.5]}, "window: got [0, 1.5], expected a list, each item an integer"),
        ({"window": 3}, "window: got 3, expected a list, each item an integer"),
        ({"window": [0, 1], "flags": [1, 0]}, "flags: got [1, 0], expected a list, each item True or False"),
        ({}, "attribute window: got no value, expected a list, each item an integer; add it"),
    ],
)
def test_a_value_of_another_type_is_refused(project, attrs, message):
    with pytest.raises(UserError) as caught:
        run("RowWindow", {"x": np.ones((4, 8), np.float32)}, attrs, project=find_project(project))
    assert message in str(caught.value).replace("(", "[").replace(")", "]")


def test_shape_depends_on_a_list(row_window):
    call = Call({"x": (40, 5)}, {"x": "float16"}, {"window": (3, 37)})
    assert infer(row_window, call)["y"].shape == (34, 5)


def test_node_and_graph_have_the_lists(row_window, monkeypatch):
    values = {"window": (1, 3), "scales": (1.0, -0.5), "flags": (True, False), "empty": ()}
    node = helper.make_node("RowWindow", ["x"], ["y"], domain="opforge")
    node.attribute.extend(make_attribute(attr, values[attr.name]) for attr in row_window.attrs)
    assert read_attributes(node, row_window) == values
    graph = helper.make_graph(
        [node],
        "lists",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)])
    onnx.checker.check_model(model)
    monkeypatch.setattr(air, "project_specs", lambda: [row_window])
    assert b"scaleFactors" in air.air_model(model)


def test_package_describes_the_lists(row_window):
    entry = ops_info_entry(row_window, {"x": ("float16",), "y": ("float16",)})
    assert entry["attr_window"] == {"type": "listInt", "value": "all", "paramType": "required"}
    assert entry["attr_scaleFactors"]["defaultValue"] == "[1.0, -0.5]"
    assert entry["attr_flags"]["defaultValue"] == "[false, true]"


SESSION = """
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("RowWindow", ["x"], ["y"], domain="opforge", window=[1, 3], flags=[1, 0])
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [4, 8]), ("y", None)))
opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)]
model = helper.make_model(helper.make_graph([node], "lists", [x], [y]), opset_imports=opsets, ir_version=9)
options = onnxruntime.SessionOptions()
options.register_custom_ops_library("./lists.so")
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
assert session.get_outputs()[0].shape == [2, 8]
values = np.arange(32, dtype=np.float32).reshape(4, 8)
np.testing.assert_array_equal(session.run(None, {"x": values})[0], -values[1:3])
"""


def test_onnxruntime_passes_the_lists(opforge, project):
    pytest.importorskip("onnxruntime")
    assert opforge("ort-library", "-o", "lists.so", cwd=project).returncode == 0
    subprocess.run([sys.executable, "-c", SESSION], cwd=project, check=True)
