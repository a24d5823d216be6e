"""Provide the comparisons of kernel, ONNX body and NumPy reference as fixtures."""

import pytest

from opforge.frontend.run import agreement


@pytest.fixture
def agree():
    """Provide `agree(op_type, inputs, attrs)`, which compares the kernel on the CPU twin with the reference."""
    return agreement.agree


@pytest.fixture
def agree_as_node():
    """Provide `agree_as_node(op_type, inputs, attrs)`, which also converts an ONNX node and compares its body."""
    return agreement.agree_as_node
