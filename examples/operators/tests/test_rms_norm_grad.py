"""Test RmsNormGrad on the CPU twin."""

import ml_dtypes
import numpy as np
import pytest

from opforge.twin import AclnnError, run

SHAPES = [(1, 1), (0, 5), (3, 0), (7,), (2, 3, 7), (100, 33), (2, 20_000), (2, 30, 4_100)]


def sample_inputs(*shape, dtype=np.float32):
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(dtype)
    wide = x.astype(np.float64)
    rstd = 1 / np.sqrt((wide**2).sum(axis=-1) / max(shape[-1], 1) + 1e-6)
    grad_y, gamma = (random.standard_normal(size).astype(dtype) for size in (shape, shape[-1:]))
    return {"grad_y": grad_y, "x": x, "rstd": rstd.astype(np.float32), "gamma": gamma}


@pytest.mark.parametrize("shape", SHAPES)
def test_kernel_computes_the_formula(shape, agree):
    inputs = sample_inputs(*shape)
    agree("RmsNormGrad", inputs)
    del inputs["gamma"]
    agree("RmsNormGrad", inputs)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(3, 7), (100, 40), (5, 9_000)])
def test_short_dtypes_are_computed_in_float32(shape, dtype, agree):
    agree("RmsNormGrad", sample_inputs(*shape, dtype=dtype))


def test_gradient_equals_differences_of_the_forward_operator():
    inputs = sample_inputs(3, 5)
    x, gamma = inputs["x"].astype(np.float64), inputs["gamma"].astype(np.float64)

    def loss(x, gamma):
        y = gamma * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)
        return (inputs["grad_y"] * y).sum()

    got = run("RmsNormGrad", inputs)
    step = 1e-6
    for index in np.ndindex(3, 5):
        moved = x.copy()
        moved[index] += step
        assert got["grad_x"][index] == pytest.approx((loss(moved, gamma) - loss(x, gamma)) / step, rel=1e-3, abs=1e-4)
    for column in range(5):
        moved = gamma.copy()
        moved[column] += step
        slope = (loss(x, moved) - loss(x, gamma)) / step
        assert got["grad_gamma"][column] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_rstd_of_other_rows_is_refused():
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("RmsNormGrad", sample_inputs(4, 8) | {"rstd": np.ones(3, np.float32)})
    assert caught.value.status == 161002


def test_onnx_node_computes_the_formula(agree_as_node):
    agree_as_node("RmsNormGrad", sample_inputs(4, 5, 30))
