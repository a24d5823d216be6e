"""Compare the library of `opforge ort-library` with function bodies and references in onnxruntime sessions."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from golden import load_reference
from onnx import TensorProto, helper
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.loader import load_project
from opforge.codegen.views.facts import source_keys
from opforge.frontend import convert
from opforge.frontend.emit.functions import function_body
from opforge.twin import run
from opforge.twin.build import build_ort_library
from opforge.twin.samples import calls_of

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra ort")

HERE = Path(__file__).resolve().parent
PROJECT = Project(BUILTIN_ROOT)
SPECS = {spec.op_type: spec for spec in load_project(PROJECT)}
TYPES = {name: getattr(TensorProto, name.upper()) for name in ("float16", "int32", "int64")}
TYPES["float32"] = TensorProto.FLOAT
OPSETS = {"": 18, "opforge": 1, "npu": 1}
QUIET = 4


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("ort") / "libopforge_ort.so"
    made = build_ort_library(PROJECT, path)
    assert made.op_types == list(SPECS)
    assert made.left_out == []
    return path


def session(model, library=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = QUIET
    if library:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def parse(text):
    imports = ", ".join(f'"{domain}" : {version}' for domain, version in OPSETS.items())
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> {text}")


def attributes_of(call):
    return {attr.name: attr.default for attr in call.spec.attrs if attr.default is not None} | call.attrs


def calls(op_type):
    """Return the tests of a spec with dtypes of the Python interface, which excludes bfloat16."""
    return [call for call in calls_of(SPECS[op_type]) if "bfloat16" not in call.dtypes.values()]


def model_of(call, domain="opforge", op_type=None):
    """Return a model of one call."""
    spec, arrays = call.spec, call.inputs()
    values = [helper.make_tensor_value_info(name, TYPES[a.dtype.name], a.shape) for name, a in arrays.items()]
    names = [tensor.name if tensor.name in arrays else "" for tensor in spec.inputs]
    outputs = [tensor.name for tensor in spec.outputs]
    node = helper.make_node(op_type or spec.op_type, names, outputs, domain=domain, **attributes_of(call))
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    for value in results:
        value.type.tensor_type.elem_type = TYPES[arrays[spec.inputs[0].name].dtype.name]
    graph = helper.make_graph([node], "g", values, results)
    imports = [helper.make_opsetid(*entry) for entry in OPSETS.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return model, arrays


@pytest.mark.parametrize("op_type", SPECS)
def test_results_are_those_of_the_twin_the_body_and_the_reference(op_type, library):
    spec = SPECS[op_type]
    for call in calls(op_type):
        model, feeds = model_of(call)
        got = session(model, library).run(None, feeds)
        arrays = call.inputs()
        exact = load_reference(spec.name)(arrays, attributes_of(call))
        expected = run(op_type, arrays, call.attrs, project=PROJECT, strict=False, seed=1)
        leader = arrays[spec.inputs[0].name].dtype.name
        limit = spec.tests.tolerance[leader]
        for tensor, narrow in zip(spec.outputs, got, strict=True):
            array = narrow.astype(np.float32)
            # onnxruntime may compute float16 in float32.
            twin, is_equal = expected[tensor.name].astype(np.float32), leader == "float32"
            np.testing.assert_allclose(array, twin, 0 if is_equal else limit.rtol, 0 if is_equal else limit.atol)
            np.testing.assert_allclose(array, exact[tensor.name], limit.rtol, limit.atol, err_msg=str(call))
        model.functions.append(function_body(spec, call.test.case, len(spec.inputs), OPSETS[""], {}))
        for array, body in zip(got, session(model).run(None, feeds), strict=True):
            np.testing.assert_allclose(array, body, limit.rtol, limit.atol, err_msg=str(call))


@pytest.mark.parametrize("op_type", SPECS)
def test_every_name_of_an_operator_is_registered(op_type, library):
    call = calls(op_type)[-1]
    results = []
    for key in source_keys(SPECS[op_type]):
        model, feeds = model_of(call, key.domain, key.op_type)
        results.append(session(model, library).run(None, feeds))
    for other in results[1:]:
        for array, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(array, expected)


BOTH = """g (float[6, 3] x, int64[2] i, float[2, 4, 3] z) => (float[2, 3] y, float[2, 3] w) {
y = opforge.GroupedBiasAddGrad (x, i) w = opforge.GroupedBiasAddGrad (z)}"""


def test_a_converted_model_runs_with_bodies_and_with_the_library(library):
    model = convert(parse(BOTH)).model
    assert not any(function.overload for function in model.functions)
    rng = np.random.default_rng(0)
    x, z = (rng.normal(size=shape).astype(np.float32) for shape in ((6, 3), (2, 4, 3)))
    feeds = {"x": x, "i": np.array([2, 6]), "z": z}
    for each in (None, library):
        y, w = session(model, each).run(None, feeds)
        np.testing.assert_allclose(y, [x[:2].sum(0), x[2:].sum(0)], 1e-5, 1e-6)
        np.testing.assert_allclose(w, z.sum(1), 1e-5, 1e-6)


GROUPED = "g (float[T, H] x, int64[2] i) => (y) {y = opforge.GroupedBiasAddGrad (x, i)}"


# Older versions crash when they infer the shapes of a node with an absent input.
infers_shapes = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24), reason="needs onnxruntime 1.24"
)


@infers_shapes
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (GROUPED.replace("[T, H]", "[6, 3]"), [2, 3]),
        ("g (float[2, 4, 3] x) => (y) {y = opforge.GroupedBiasAddGrad (x)}", [2, 3]),
        ('g (float[2, 4, 3] x) => (y) {y = NPUGroupedBiasAddGrad (x, "")}', [2, 3]),
        ("g (float[M, 5] x, int64[M] i) => (y) {y = opforge.EmbeddingDenseBackward <num_weights = 7> (x, i)}", [7, 5]),
    ],
)
def test_shapes_are_inferred(text, shape, library):
    (output,) = session(parse(text), library).get_outputs()
    assert (output.shape, output.type) == (shape, "tensor(float)")


@infers_shapes
def test_unknown_sizes_stay_unknown(library):
    (output,) = session(parse(GROUPED), library).get_outputs()
    assert output.shape[0] == 2
    assert isinstance(output.shape[1], str)
    model = parse("g (float x, int64[2] i) => (y) {y = opforge.GroupedBiasAddGrad (x, i)}")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    (output,) = session(model, library).get_outputs()
    assert output.shape[0] == 2


def test_an_absent_input_between_others(library):
    call = next(call for call in calls("BatchNormElemtBackward") if "weight" not in call.inputs())
    model, feeds = model_of(call)
    assert "" in model.graph.node[0].input
    assert session(model, library).run(None, feeds)[0].shape == feeds["grad_out"].shape


F32, I64 = np.float32, np.int64
X = np.ones((6, 3), F32)


@pytest.mark.parametrize(
    ("types", "arrays", "attrs", "message"),
    [
        ("float[6, 3] x, float[2] i", (X, F32([2, 6])), "", r"group_idx: got float32, expected int32 or int64 \[C2\]"),
        ("float[6] x, int64[2] i", (X[:, 0].copy(), [2, 6]), "", r"grad_y: got shape \[6\], expected 2 dim.*\[C3\]"),
        ("float[6, 3] x, int64[1, 2] i", (X, [[2, 6]]), "", r"group_idx: got shape \[1, 2\], expected 1 dim.*\[C3\]"),
        ("float[6, 3] x, int64[2] i", (X, [2, 6]), "<group_idx_type = 5>", r"got 5, expected 0 or 1 \[C6\]"),
    ],
)
def test_a_broken_constraint_is_an_error_of_the_run(types, arrays, attrs, message, library):
    found = session(parse(f"g ({types}) => (y) {{y = opforge.GroupedBiasAddGrad {attrs} (x, i)}}"), library)
    with pytest.raises(Exception, match=f"GroupedBiasAddGrad: .*{message}"):
        found.run(None, {"x": arrays[0], "i": np.asarray(arrays[1])})
    good = session(parse(GROUPED), library).run(None, {"x": X, "i": np.array([2, 6])})
    np.testing.assert_array_equal(good[0], [[2] * 3, [4] * 3])


def test_a_dtype_that_no_output_can_have_is_an_error_of_the_load(library):
    with pytest.raises(Exception, match=r"tensor\(double\).*GroupedBiasAddGrad.*is invalid"):
        session(parse(GROUPED.replace("float", "double")), library)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ("", "attribute num_weights: got none, expected an int"),
        ("<num_weights = 1.5>", "attribute num_weights: got a value of another type, expected an int"),
        ("<num_weights = [1, 2]>", "attribute num_weights: got a value of another type, expected an int"),
        ('<num_weights = 3, padding_idx = "a">', "attribute padding_idx: got a value of another type"),
    ],
)
def test_a_wrong_attribute_is_an_error_of_the_load(attrs, message, library):
    text = f"g (float[2, 3] x, int64[2] i) => (y) {{y = opforge.EmbeddingDenseBackward {attrs} (x, i)}}"
    with pytest.raises(Exception, match=f"EmbeddingDenseBackward: {message}"):
        session(parse(text), library)


@pytest.mark.parametrize(
    ("node", "x", "i", "expected"),
    [
        ("GroupedBiasAddGrad (x, i)", np.ones((0, 3), F32), [0, 0], np.zeros((2, 3))),
        ("GroupedBiasAddGrad (x, i)", np.ones((2, 3), F32), [], np.zeros((0, 3))),
        ("EmbeddingDenseBackward <num_weights = 2> (x, i)", np.ones((0, 3), F32), [], np.zeros((2, 3))),
        ("EmbeddingDenseBackward <num_weights = 0> (x, i)", np.ones((0, 3), F32), [], np.zeros((0, 3))),
    ],
)
def test_empty_tensors(node, x, i, expected, library):
    found = session(parse(f"g (float[T, H] x, int64[G] i) => (y) {{y = opforge.{node}}}"), library)
    np.testing.assert_array_equal(found.run(None, {"x": x, "i": np.array(i, I64)})[0], expected)


def test_outputs_may_be_absent(library):
    call = calls("ConvTbcBackward")[0]
    model, feeds = model_of(call)
    whole = session(model, library).run(None, feeds)
    model.graph.node[0].output[1] = ""
    del model.graph.output[1]
    first, last = session(model, library).run(None, feeds)
    np.testing.assert_array_equal(first, whole[0])
    np.testing.assert_array_equal(last, whole[2])


def test_threads_of_a_session(library):
    rng = np.random.default_rng(0)
    found = session(parse(GROUPED), library)
    feeds = [{"x": rng.normal(size=(90, 33)).astype(F32), "i": np.array([40, 90])} for _ in range(4)]
    expected = [found.run(None, feed)[0] for feed in feeds]
    equal = []

    def work(feed, expected_value):
        equal.extend(np.array_equal(found.run(None, feed)[0], expected_value) for _ in range(5))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(feeds, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 20


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (HERE.parents[1] / "docs" / "how-to" / "use-from-onnxruntime.md").read_text(encoding="utf-8")
    onnx.save(convert(parse(BOTH)).model, "converted.onnx")
    (command,) = re.findall(r"^opforge .*", page, re.MULTILINE)
    result = CliRunner().invoke(app, command.split()[1:])
    assert result.exit_code == 0, result.output
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        names = {}
        exec(block, names)  # noqa: S102  # the page tells the reader to run it
        feeds = {"x": np.ones((6, 3), F32), "i": np.array([2, 6]), "z": np.ones((2, 4, 3), F32)}
        np.testing.assert_array_equal(names["session"].run(None, feeds)[1], np.full((2, 3), 4))


def test_exiting_process_prints_nothing(library, tmp_path):
    onnx.save(parse(GROUPED), tmp_path / "m.onnx")
    code = f"""
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
for _ in range(2):
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library({str(library)!r})
    session = onnxruntime.InferenceSession({str(tmp_path / "m.onnx")!r}, options)
    session.run(None, {{"x": numpy.ones((6, 3), "float32"), "i": numpy.array([2, 6])}})
from opforge.twin import run
run("GroupedBiasAddGrad", {{"grad_y": numpy.ones((2, 4, 3), "float32")}})
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_program_in_cpp(library, tmp_path, build):
    capi = Path(onnxruntime.__file__).parent / "capi"
    runtimes = sorted(capi.glob("libonnxruntime.so*"))
    if not runtimes:
        pytest.skip("this wheel of onnxruntime has no libonnxruntime.so")
    onnx.save(parse(GROUPED), tmp_path / "m.onnx")
    arguments = [build("ort_session"), runtimes[0], tmp_path / "m.onnx", library]
    ended = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2 2 2 4 4 4\n", "")
