"""Compare kernel, ONNX body and NumPy reference on the test shapes of each spec, in all dtypes."""

import pytest

from opforge.frontend.run.agreement import agree_as_node, cases_without_test, spec_calls


@pytest.mark.parametrize("call", spec_calls(), ids=str)
def test_kernel_body_and_reference_agree(call):
    agree_as_node(call.op_type, call.inputs(), call.attrs)


def test_each_body_has_a_test_shape():
    assert cases_without_test() == []
