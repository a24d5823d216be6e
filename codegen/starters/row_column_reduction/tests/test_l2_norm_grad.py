"""Test L2NormGrad on the CPU twin."""

import ml_dtypes
import numpy as np
import pytest

from opforge.twin import AclnnError, run

SHAPES = [(1, 1), (0, 5), (3, 0), (3, 7), (100, 33), (500, 64), (2, 20_000), (60, 4_100)]


def sample_inputs(rows, columns, dtype=np.float32):
    random = np.random.default_rng(0)
    shapes = {"grad_y": (rows, columns), "x": (rows, columns), "gamma": (columns,)}
    return {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def without_gamma(inputs):
    return {name: value for name, value in inputs.items() if name != "gamma"}


@pytest.mark.parametrize("shape", SHAPES)
def test_kernel_computes_the_formula(shape, agree):
    agree("L2NormGrad", sample_inputs(*shape), {"epsilon": 0.01})
    agree("L2NormGrad", without_gamma(sample_inputs(*shape)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_dtypes_are_computed_in_float32(dtype, agree):
    for shape in [(3, 7), (100, 40), (5, 9_000)]:
        agree("L2NormGrad", sample_inputs(*shape, dtype=dtype))


def test_equal_calls_give_equal_bits():
    first, second = (run("L2NormGrad", sample_inputs(200, 300)) for _ in range(2))
    assert [first[name].tobytes() == second[name].tobytes() for name in ("grad_x", "grad_gamma")] == [True, True]


def test_gamma_of_another_length_is_refused():
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("L2NormGrad", sample_inputs(4, 8) | {"gamma": np.zeros(7, np.float32)})
    assert caught.value.status == 161002


def test_too_long_rows_are_refused():
    with pytest.raises(AclnnError, match="bytes of the unified buffer"):
        run("L2NormGrad", sample_inputs(1, 30_000))


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("L2NormGrad", sample_inputs(20, 30))
