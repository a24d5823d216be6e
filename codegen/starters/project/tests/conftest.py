"""Compare results with tests/reference/<op>.py within the tolerance of the spec."""

from importlib import import_module

import numpy as np
import onnx
import pytest

from opforge.codegen.project import find_project
from opforge.codegen.spec.loader import load_project
from opforge.frontend import convert
from opforge.frontend.run.execute import execute
from opforge.twin import run

SPECS = {spec.op_type: spec for spec in load_project(find_project())}


def compare(op_type, inputs, attrs, outputs):
    """Compare every output with the reference implementation."""
    spec = SPECS[op_type]
    expected = import_module(f"reference.{spec.name}").reference(inputs, attrs)
    for name, exact in expected.items():
        tolerance = spec.tests.tolerance[outputs[name].dtype.name]
        got = outputs[name].astype(np.float64)
        np.testing.assert_allclose(got, exact, rtol=tolerance.rtol, atol=tolerance.atol, err_msg=name)


@pytest.fixture
def agree():
    """Provide `agree(op_type, inputs, attrs)`, which compares the kernel on the CPU twin with the reference."""

    def check(op_type, inputs, attrs=None):
        result = run(op_type, inputs, attrs)
        compare(op_type, inputs, attrs or {}, {tensor.name: result[tensor.name] for tensor in SPECS[op_type].outputs})

    return check


@pytest.fixture
def agree_as_node():
    """Provide `agree_as_node(op_type, inputs, attrs)`, which converts and runs an ONNX model with one node."""

    def check(op_type, inputs, attrs=None):
        names = [tensor.name for tensor in SPECS[op_type].outputs]
        node = onnx.helper.make_node(f"NPU{op_type}", list(inputs), names, domain="npu", **(attrs or {}))
        given = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in inputs.items()
        ]
        graph = onnx.helper.make_graph([node], "one_node", given, [onnx.ValueInfoProto(name=name) for name in names])
        opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("npu", 1)]
        conversion = convert(onnx.helper.make_model(graph, opset_imports=opsets))
        assert [entry["op"] for entry in conversion.mapped] == [op_type]
        compare(op_type, inputs, attrs or {}, execute(conversion.model, inputs))

    return check
