"""Test ScaledAdd on the CPU twin."""

import numpy as np
import pytest

from opforge.twin import AclnnError, run


def numbers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(1,), (0, 3), (5, 1000), (2049,), (3, 7, 41_000)])
def test_kernel_computes_the_formula(shape, dtype, agree):
    x, y = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=1)
    agree("ScaledAdd", {"x": x, "y": y}, {"alpha": -2.5})
    agree("ScaledAdd", {"x": x}, {"alpha": 0.5})


def test_other_shapes_are_refused():
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("ScaledAdd", {"x": numbers(2, 3), "y": numbers(3, 2)})
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("ScaledAdd", {"x": numbers(4, 50), "y": numbers(4, 50, seed=1)}, {"alpha": 3.0})
