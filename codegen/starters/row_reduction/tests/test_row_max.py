"""Test RowMax on the CPU twin."""

import numpy as np
import pytest

from opforge.twin import AclnnError, run


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 1), (0, 5), (3, 7), (100, 33), (1, 200_000), (5000, 8), (97, 1000), (2, 30_001)])
def test_kernel_computes_the_formula(shape, agree):
    agree("RowMax", {"x": numbers(*shape)})


def test_rows_without_elements_are_refused():
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("RowMax", {"x": numbers(3, 0)})
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("RowMax", {"x": numbers(20, 30)})
