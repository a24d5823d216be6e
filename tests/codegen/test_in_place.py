"""Test outputs in the memory of an input: the operator runs on the twin, and all back ends agree."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.codegen.importers import aclnn_page, op_def
from opforge.codegen.importers.compare import differences, draft_of
from opforge.codegen.importers.spec_text import spec_of
from opforge.codegen.new import new_project
from opforge.codegen.project import find_project
from opforge.codegen.render import render
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.views.facts import aclnn_signature
from opforge.twin import AclnnError, run

pytestmark = pytest.mark.slow

SCALARS = ["alpha", "timesOptional", "isNegatedOptional"]
SPECIMENS = Path(__file__).parent / "specimens"


@pytest.fixture(scope="session")
def project(once):
    return once("in_place", write_project) / "add_to"


def write_project(parent):
    """Create a project with the operator of the specimen and its kernel."""
    folder = new_project("AddTo", parent / "add_to", "elementwise")
    for suffix, place in (("yaml", "op_proto"), ("h", "op_kernel")):
        shutil.copy(SPECIMENS / f"add_to.{suffix}", folder / place)


@pytest.fixture(scope="module")
def add_to():
    return load_specs([SPECIMENS / "add_to.yaml"])[0]


def inputs_of(shape, dtype):
    generator = np.random.default_rng(5)
    return {name: generator.standard_normal(shape).astype(dtype) for name in ("var", "x")}


def assert_right(result, inputs, alpha):
    dtype = inputs["x"].dtype
    delta = (inputs["x"] * dtype.type(alpha)).astype(dtype)
    np.testing.assert_array_equal(result["delta"], delta)
    np.testing.assert_array_equal(result["var_out"], inputs["var"] + delta)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(7,), (40, 300), (3, 0)])
def test_operator_runs_on_the_twin(project, dtype, shape):
    inputs = inputs_of(shape, dtype)
    kept = {name: array.copy() for name, array in inputs.items()}
    result = run("AddTo", inputs, {"alpha": -0.25, "times": 2}, project=find_project(project))
    assert_right(result, kept, -0.5)
    np.testing.assert_array_equal(inputs["var"], kept["var"])  # the caller's array is not overwritten


def test_strided_tensor_is_overwritten_between_its_gaps(project):
    inputs = inputs_of((6, 10), np.float32)
    memory = np.full((6, 20), 7, np.float32)
    result = run(
        "AddTo",
        inputs,
        {"alpha": 2.0, "is_negated": True},
        outputs={"var_out": memory[:, ::2]},
        project=find_project(project),
    )
    assert_right(result, inputs, -2.0)
    np.testing.assert_array_equal(memory[:, 1::2], 7)


def test_output_of_another_type_is_refused(project):
    with pytest.raises(UserError, match=r"var_out: got float16 of shape \(6,\), expected float32 of shape \(6,\)"):
        run(
            "AddTo", inputs_of(6, np.float32), {"alpha": 1.0}, outputs={"var_out": np.zeros(6, np.float16)},
            project=find_project(project),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "attrs", "message"),
    [
        ({}, {"times": -1}, "times: got -1, expected a number of at least 0 [C5]"),
        ({"var": None}, {}, "var: got null, expected a tensor [C1]"),
        ({"x": np.ones((7, 1), np.float32)}, {}, "x: got shape [7, 1], expected ['*S'] = [7] [C4]"),
    ],
)
def test_wrong_call_is_refused(project, change, attrs, message):
    with pytest.raises(AclnnError) as caught:
        run("AddTo", inputs_of(7, np.float32) | change, {"alpha": 1.0} | attrs, project=find_project(project))
    assert message.replace("'", "") in str(caught.value).replace("'", "")


def test_function_has_one_parameter_for_both(add_to):
    params = [(param.name, param.c_type, param.kind) for param in aclnn_signature(add_to, "aclnnAddTo")]
    assert params[0] == ("varRef", "aclTensor *", "in_place")
    assert [name for name, _, _ in params] == ["varRef", "x", *SCALARS, "deltaOut"]
    assert {c_type for _, c_type, kind in params if kind == "attr"} == {"const aclScalar *"}


def test_graph_declares_one_name(add_to):
    files = dict(render(add_to))
    for path, pattern in (
        ("op_host/add_to_def.cpp", r'->(Input|Output)\("var"\)'),
        ("op_proto/add_to_proto.h", r"\.(INPUT|OUTPUT)\(var,"),
    ):
        assert len(set(re.findall(pattern, files[path]))) == 2
    assert r"| var\_out | output in the memory of var |" in files["docs/aclnnAddTo.md"]


EXAMPLE = """
#include <cstdio>
#include "acl/acl.h"
#include "aclnnop/aclnn_add_to.h"

int main()
{
    const int64_t dims[] = {2}, strides[] = {1};
    aclInit(nullptr);
    aclrtSetDevice(0);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    aclTensor *tensors[3] = {};
    for (aclTensor *&tensor : tensors) {
        void *memory = nullptr;
        aclrtMalloc(&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST);
        tensor = aclCreateTensor(dims, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 1, memory);
    }
    int32_t number = 2;
    float negative = -1;
    aclScalar *alpha = aclCreateScalar(&number, ACL_INT32), *times = aclCreateScalar(&negative, ACL_FLOAT);
    const auto plan = [&](const aclScalar *factor, const aclScalar *count) {
        const int status = aclnnAddToGetWorkspaceSize(
            tensors[0], tensors[1], factor, count, nullptr, tensors[2], &size, &executor);
        std::printf("%d %s\\n", status, status != 0 ? aclGetRecentErrMsg() : "");
    };
    plan(alpha, nullptr);
    plan(nullptr, nullptr);
    plan(alpha, times);
}
"""


def test_null_scalar_is_the_default_or_refused(opforge, project, tmp_path):
    (project / "program.cpp").write_text(EXAMPLE)
    assert opforge("build", cwd=project).returncode == 0
    flags = opforge("flags", cwd=project).stdout.split()
    for source in ("program.cpp", "build/gen/docs/aclnnAddTo.cpp"):
        program = tmp_path / Path(source).stem
        subprocess.run(["g++", "-std=c++17", source, "-o", program, *flags], cwd=project, check=True)
    example = subprocess.run([tmp_path / "aclnnAddTo"], check=True, capture_output=True, text=True).stdout
    assert example.splitlines() == ["varRef: -0.5 -1 -1.5 -2 -1", "deltaOut: -1.5 -3 -4.5 -6 -3"]
    lines = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0] == "0 "
    assert lines[1].startswith("161001 AddTo: alpha: got null, expected a scalar")
    assert lines[2].startswith("161002 AddTo: times: got -1, expected a number of at least 0 [C5]")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("var_out, ir: var, dtype: var", "var_out, ir: var, dtypes: [float32]", "expected its dtypes; write 'dtype: v"),
        ("var_out: ['*S']", "var_out: ['*S', 1]", "got another shape for an output in the memory of 'var'"),
        ("{name: var, dtypes", "{name: var, casts: {int8: float16}, dtypes", "expected no 'casts' and 'mix'"),
        (
            "{alpha: const aclScalar *,",
            "{alpha: const aclTensor *,",
            "expected one of double, float, const aclScalar *",
        ),
        ("deltaOut: delta", "deltaOut: delta, varOut: var_out", "got 'var_out', expected 'var' only"),
        ("{name: x, dtype: var}", "{name: x, ir: y, dtype: var, optional: true}", None),
    ],
)
def test_invalid_in_place_specs_are_rejected(tmp_path, old, new, message):
    text = (SPECIMENS / "add_to.yaml").read_text()
    assert old in text
    file = tmp_path / "add_to.yaml"
    file.write_text(text.replace(old, new))
    if message is None:
        assert load_specs([file])
        return
    with pytest.raises(UserError) as caught:
        load_specs([file])
    assert message in str(caught.value)


SESSION = """
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("AddTo", ["var", "x"], ["sum", "delta"], domain="opforge", alpha=-1.5, times=2, is_negated=1)
names = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("var", "x")]
results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("sum", "delta", "var")]
copy = helper.make_node("Identity", ["var"], ["kept"])
results[2].name = "kept"
opsets = [helper.make_opsetid("", 18), helper.make_opsetid("opforge", 1)]
model = helper.make_model(helper.make_graph([node, copy], "place", names, results), opset_imports=opsets, ir_version=9)
options = onnxruntime.SessionOptions()
options.register_custom_ops_library("./place.so")
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
var, x = np.arange(64, dtype=np.float32).reshape(2, 4, 8)
total, delta, kept = session.run(None, {"var": var, "x": x})
np.testing.assert_array_equal(delta, 3 * x)
np.testing.assert_array_equal(total, var + 3 * x)
np.testing.assert_array_equal(kept, np.arange(32, dtype=np.float32).reshape(4, 8))
"""


def test_onnxruntime_returns_the_new_value_and_keeps_the_input(opforge, project):
    pytest.importorskip("onnxruntime")
    assert opforge("ort-library", "-o", "place.so", cwd=project).returncode == 0
    subprocess.run([sys.executable, "-c", SESSION], cwd=project, check=True)


IN_PLACE = """
class AddTo : public OpDef {
public:
    explicit AddTo(const char* name) : OpDef(name)
    {
        this->Input("var").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT});
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT});
        this->Output("var").ParamType(REQUIRED).DataType({LEFT, ge::DT_FLOAT});
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(AddTo);
"""


def test_output_with_the_name_of_an_input_is_in_its_memory(tmp_path):
    (draft,) = op_def.drafts(IN_PLACE.replace("LEFT", "ge::DT_FLOAT16"), "add_to_def.cpp")
    file = tmp_path / "add_to.yaml"
    file.write_text(spec_of(draft).text)
    (spec,) = load_specs([file])
    assert {output: source.name for output, source in spec.in_place.items()} == {"var_value": "var"}
    assert dict(spec.aclnn[0].params) == {"varRef": "var", "x": "x"}
    assert not differences(draft_of(spec, spec.configured_products), draft)


def test_output_with_another_dtype_than_its_input_is_declared_only(tmp_path):
    (draft,) = op_def.drafts(IN_PLACE.replace("LEFT", "ge::DT_FLOAT"), "add_to_def.cpp")
    file = tmp_path / "add_to.yaml"
    file.write_text(spec_of(draft).text)
    (spec,) = load_specs([file])
    assert spec.declared_only
    assert not differences(draft_of(spec, spec.configured_products), draft)


def test_parameter_of_a_page_that_is_input_and_output_is_overwritten():
    text = (
        "aclnnStatus aclnnScaleGetWorkspaceSize(aclTensor *selfRef, const aclTensor *by, uint64_t *workspaceSize,"
        " aclOpExecutor **executor)\n\n| name | input/output | data type |\n|---|---|---|\n"
        "| selfRef | input/output | FLOAT |\n| by | input | FLOAT |\n"
    )
    (draft,) = aclnn_page.drafts(text, "aclnnScale.md")
    assert [tensor.name for tensor in draft.inputs] == ["self", "by"]
    assert list(draft.in_place) == ["self"]
    assert "params: {selfRef: self, by: by}" in spec_of(draft).text.replace("self_value", "self")
