"""Test MatrixProduct on the CPU twin."""

import numpy as np
import pytest

from opforge.twin import AclnnError, run


def matrices(m, n, k, dtype=np.float32):
    """Make operands whose products are about 1 for every depth."""
    random = np.random.default_rng(0)
    scale = max(k, 1) ** -0.25
    return {name: random.normal(scale=scale, size=(rows, k)).astype(dtype) for name, rows in (("x", m), ("weight", n))}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(1, 1, 1), (0, 3, 4), (3, 4, 0), (97, 83, 150), (300, 20, 1100), (1, 700, 33), (700, 900, 70), (3, 2, 70_000)],
)
def test_kernel_computes_the_formula(m, n, k, dtype, agree):
    agree("MatrixProduct", matrices(m, n, k, dtype))


def test_matrices_of_different_depth_are_refused():
    inputs = matrices(2, 3, 4) | {"weight": np.zeros((3, 5), np.float32)}
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("MatrixProduct", inputs)
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("MatrixProduct", matrices(20, 30, 40))
