"""Test RotaryEmbedding on the CPU twin."""

import ml_dtypes
import numpy as np
import pytest

from opforge.twin import AclnnError, run

SHAPES = [(1, 1, 1, 2), (0, 5, 3, 8), (2, 0, 3, 8), (2, 3, 0, 8), (2, 3, 5, 6), (2, 50, 3, 64), (1, 100, 32, 128)]


def sample_inputs(batches, sequence, heads, columns, dtype=np.float32):
    x = np.random.default_rng(0).standard_normal((batches, sequence, heads, columns))
    angles = np.arange(sequence)[:, None] * 10_000.0 ** (-2 * np.arange(columns // 2) / columns)
    arrays = {"x": x, "cos": np.cos(angles), "sin": np.sin(angles)}
    return {name: array.astype(dtype) for name, array in arrays.items()}


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 2, 300, 80), (3, 2, 5, 512)])
def test_kernel_computes_the_formula(shape, interleaved, agree):
    agree("RotaryEmbedding", sample_inputs(*shape), {"interleaved": interleaved})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("interleaved", [False, True])
def test_short_dtypes_are_computed_in_float32(dtype, interleaved, agree):
    for shape in [(2, 3, 5, 6), (2, 50, 3, 64), (1, 20, 40, 96)]:
        agree("RotaryEmbedding", sample_inputs(*shape, dtype=dtype), {"interleaved": interleaved})


def test_rotation_by_zero_returns_the_input():
    inputs = sample_inputs(1, 4, 2, 16)
    inputs |= {"cos": np.ones((4, 8), np.float32), "sin": np.zeros((4, 8), np.float32)}
    np.testing.assert_array_equal(run("RotaryEmbedding", inputs)["y"], inputs["x"])


@pytest.mark.parametrize("columns", [7, 514])
def test_odd_or_long_heads_are_refused(columns):
    with pytest.raises(AclnnError, match=r"\[C4\]") as caught:
        run("RotaryEmbedding", sample_inputs(1, 2, 3, columns))
    assert caught.value.status == 161002


def test_angles_of_other_positions_are_refused():
    with pytest.raises(AclnnError, match=r"\[C5\]"):
        run("RotaryEmbedding", sample_inputs(1, 4, 2, 8) | {"cos": np.ones((3, 4), np.float32)})


@pytest.mark.parametrize("interleaved", [0, 1])
def test_onnx_node_computes_the_formula(interleaved, agree_as_node):
    agree_as_node("RotaryEmbedding", sample_inputs(2, 5, 3, 8), {"interleaved": interleaved})
